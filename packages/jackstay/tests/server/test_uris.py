"""Templates: what they name, what they refuse, and that reading one backwards undoes writing it."""

import time
from collections.abc import Mapping
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.server._uris import UriTemplate, check_uri

MATCHES: list[tuple[str, str, Mapping[str, str] | None]] = [
    ("note://{id}", "note://7", {"id": "7"}),
    ("note://{id}", "note://", None),
    ("note://{id}", "node://7", None),
    ("note://{id}", "note://7/8", None),
    ("note://{id}", "note://7?x", None),
    ("note://{id}", "note://7#x", None),
    ("note://{id}", "note://a%20b%C3%BC", {"id": "a bü"}),
    ("note://{id}", "note://Zürich", {"id": "Zürich"}),
    ("note://{id}", "note://%FF", None),
    ("note://{id}/text", "note://7/text", {"id": "7"}),
    ("note://{id}/text", "note:///text", None),
    ("note://{id}/text", "note://7/texts", None),
    ("note://x{id}x", "note://x", None),
    ("db://{table}/{row}", "db://a/1", {"table": "a", "row": "1"}),
    ("db://{table}/{row}", "db://a/b/1", None),
    ("db://{table}/{row}", "db://a", None),
    ("db://{a}-{b}-{c}", "db://1-2-3-4", {"a": "1", "b": "2", "c": "3-4"}),
    ("file:///{+path}", "file:///a/b/c.txt", {"path": "a/b/c.txt"}),
    ("file:///{+path}?raw", "file:///a/b?raw", {"path": "a/b"}),
    ("repo://{owner}/{+path}/{name}", "repo://me/a/b/c", {"owner": "me", "path": "a/b", "name": "c"}),
    ("repo://{owner}/{+path}/{name}", "repo://me/a", None),
    ("repo://{owner}/{+path}/{x}.{ext}", "repo://me/a/b.c/d.e.f", {"owner": "me", "path": "a/b.c", "x": "d.e", "ext": "f"}),
    ("repo://{+path}-x", "repo://-x", None),
    ("r://{+p}/{b}", "r:///b", None),
    # What would lead out of a folder.
    ("file:///{name}", "file:///..", None),
    ("file:///{name}", "file:///.", None),
    ("file:///{name}", "file:///a%2Fb", None),
    ("file:///{name}", "file:///a%5Cb", None),
    ("file:///{name}", "file:///a%00", None),
    ("file:///{+path}", "file:///a/../b", None),
    ("file:///{+path}", "file:///a/%2E%2E/b", None),
    ("file:///{+path}", "file:////etc/passwd", None),
    ("file:///{+path}", "file:///a/..b", {"path": "a/..b"}),
]  # fmt: skip


@pytest.mark.parametrize(("template", "uri", "expected"), MATCHES)
def test_a_template_names(template: str, uri: str, expected: Mapping[str, str] | None) -> None:
    assert UriTemplate(template).match(uri) == expected


def test_a_template_that_allows_it_lets_values_lead_anywhere() -> None:
    assert UriTemplate("file:///{name}", is_open=True).match("file:///..%2Fb") == {"name": "../b"}
    assert UriTemplate("file:///{+path}", is_open=True).match("file:////etc") == {"path": "/etc"}


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("note://7", "no variable"),
        ("note://{id", "without its partner"),
        ("note://id}/{a}", "without its partner"),
        ("note://{}", "read backwards"),
        ("note://{?q}", "read backwards"),
        ("note://{#q}", "read backwards"),
        ("note://{/q}", "read backwards"),
        ("note://{a,b}", "read backwards"),
        ("note://{a*}", "read backwards"),
        ("note://{a:3}", "read backwards"),
        ("note://{a}{b}", "nothing between"),
        ("note://{a}/{a}", "twice"),
        ("note://{+a}/{+b}", r"two \{\+"),
        ("{scheme}/x", "a URI with a scheme"),
        ("notes/{id}", "a URI with a scheme"),
    ],
)
def test_what_cannot_be_read_backwards_is_refused(template: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        UriTemplate(template)


@pytest.mark.parametrize("uri", ["", "notes", "a b://c", "note://a b", "note://a\n", "note://\x7f", "1a:b"])
def test_what_is_no_uri_is_refused(uri: str) -> None:
    with pytest.raises(UsageError, match="uri must be a URI"):
        check_uri(uri, "uri")
    assert check_uri("urn:x", "uri") == "urn:x"


def test_repr_shows_the_template() -> None:
    assert repr(UriTemplate("a://{b}")) == "<UriTemplate a://{b}>"


@given(st.lists(st.text(min_size=1, max_size=6).filter(lambda s: not set(s) & set("/\\\0")), min_size=2, max_size=2),
       st.lists(st.text(alphabet="abc", min_size=1, max_size=3), min_size=1, max_size=4))  # fmt: skip
def test_reading_undoes_writing(simple: list[str], path: list[str]) -> None:
    one, two = simple
    uri = f"x://{quote(one, safe='')}/{'/'.join(path)}/{quote(two, safe='')}"
    expected = {"one": one, "path": "/".join(path), "two": two}
    matched = UriTemplate("x://{one}/{+path}/{two}").match(uri)
    assert matched == (None if {one, two} & {".", ".."} else expected)


def test_matching_takes_linear_time_on_what_would_make_an_expression_backtrack() -> None:
    template = UriTemplate("x://{a}-{b}-{c}-{d}-{e}-{f}!")
    began = time.process_time()  # of this process alone: others may be busy
    assert template.match("x://" + "-" * 200_000) is None
    assert template.match("x://" + "a-" * 100_000 + "!") is not None
    assert time.process_time() - began < 2
