"""URI templates: which URIs match, which templates are rejected, and that matching is the inverse of expansion."""

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
    ("repo://{owner}/{+path}/{x}.{ext}", "repo://me/a/b.c/d.e.f",
     {"owner": "me", "path": "a/b.c", "x": "d.e", "ext": "f"}),
    ("repo://{+path}-x", "repo://-x", None),
    ("r://{+p}/{b}", "r:///b", None),
    ("note://search{?q,n}", "note://search", {}),
    ("note://search{?q,n}", "note://search?", {}),
    ("note://search{?q,n}", "note://search?q=a%20b&n=", {"q": "a b", "n": ""}),
    ("note://search{?q,n}", "note://search?n=1", {"n": "1"}),
    ("note://search{?q,n}", "note://search?x=1", None),
    ("note://search{?q,n}", "note://search?q=1&q=2", None),
    ("note://search{?q,n}", "note://search?q=1#f", None),
    ("note://search{?q,n}", "note://search?q=%FF", None),
    ("note://search{?q,n}", "note://other?q=1", None),
    ("note://search{?q,n}", "note://search/x?q=1", None),
    ("note://search{?q}", "note://search?q=../x", None),
    ("note://{id}{?q}", "note://7?q=a/b", {"id": "7", "q": "a/b"}),
    ("note://{id}{?q}", "note://7/8?q=a", None),
    ("files://docs{/path*}", "files://docs/a/b%20c.txt", {"path": "a/b c.txt"}),
    ("files://docs{/path*}", "files://docs/a", {"path": "a"}),
    ("files://docs{/path*}", "files://docs", None),
    ("files://docs{/path*}", "files://docs/", None),
    ("files://docs{/path*}", "files://docs/a//b", None),
    ("files://docs{/path*}", "files://docs/a%2Fb", None),
    ("files://docs{/path*}", "files://docs/a?b", None),
    ("files://docs{/path*}", "files://docs/../a", None),
    ("files://docs{/path*}{?raw}", "files://docs/a/b?raw=1", {"path": "a/b", "raw": "1"}),
    ("repo://{owner}{/path*}/{name}", "repo://me/a/b/c", {"owner": "me", "path": "a/b", "name": "c"}),
    ("db:/{/table,row}", "db://a/1", {"table": "a", "row": "1"}),
    # Path traversal.
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


def test_match(subtests: pytest.Subtests) -> None:
    for template, uri, expected in MATCHES:
        with subtests.test(template=template, uri=uri, expected=expected):
            assert UriTemplate(template).match(uri) == expected


def test_allow_traversal() -> None:
    assert UriTemplate("file:///{name}", allow_traversal=True).match("file:///..%2Fb") == {"name": "../b"}
    assert UriTemplate("file:///{+path}", allow_traversal=True).match("file:////etc") == {"path": "/etc"}


def test_unsupported_templates_are_rejected(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("note://7", "no variable"),
        ("note://{id", "unbalanced braces"),
        ("note://id}/{a}", "unbalanced braces"),
        ("note://{}", "unsupported expression"),
        ("note://{?q}x", "must be the end of"),
        ("note://x?a=1{?q}", "must be the end of"),
        ("note://x{?q*}", "must be the end of"),
        ("note://x{?q,+r}", "must be the end of"),
        ("note://{q}{?q}", "duplicate variable"),
        ("note://{/a*,b*}", r"more than one \{\+name"),
        ("note://{#q}", "unsupported expression"),
        ("note://x{/q:3}", "unsupported expression"),
        ("note://{a,b}", "unsupported expression"),
        ("note://{a*}", "unsupported expression"),
        ("note://{a:3}", "unsupported expression"),
        ("note://{a}{b}", "adjacent variables"),
        ("note://{a}/{a}", "duplicate variable"),
        ("note://{+a}/{+b}", r"more than one \{\+name"),
        ("{scheme}/x", "a URI with a scheme"),
        ("notes/{id}", "a URI with a scheme"),
    ]
    for template, message in cases:
        with subtests.test(template=template), pytest.raises(UsageError, match=message):
            UriTemplate(template)


def test_check_uri(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["", "notes", "a b://c", "note://a b", "note://a\n", "note://\x7f", "1a:b"]
    for uri in cases:
        with subtests.test(uri=uri):
            with pytest.raises(UsageError, match="uri must be a URI"):
                check_uri(uri, "uri")
            assert check_uri("urn:x", "uri") == "urn:x"


def test_repr_shows_the_template() -> None:
    assert repr(UriTemplate("a://{b}")) == "<UriTemplate a://{b}>"


@given(st.lists(st.text(min_size=1, max_size=6).filter(lambda s: not set(s) & set("/\\\0")), min_size=2, max_size=2),
       st.lists(st.text(alphabet="abc", min_size=1, max_size=3), min_size=1, max_size=4))  # fmt: skip
def test_match_is_the_inverse_of_expansion(simple: list[str], path: list[str]) -> None:
    first, last = simple
    uri = f"x://{quote(first, safe='')}/{'/'.join(path)}/{quote(last, safe='')}"
    expected = {"first": first, "path": "/".join(path), "last": last}
    matched = UriTemplate("x://{first}/{+path}/{last}").match(uri)
    assert matched == (None if {first, last} & {".", ".."} else expected)


@pytest.mark.no_cover  # it measures time
def test_matching_takes_linear_time_where_a_regular_expression_would_backtrack() -> None:
    template = UriTemplate("x://{a}-{b}-{c}-{d}-{e}-{f}!")
    began = time.process_time()  # not wall time: other processes may be busy
    assert template.match("x://" + "-" * 200_000) is None
    assert template.match("x://" + "a-" * 100_000 + "!") is not None
    assert time.process_time() - began < 2
