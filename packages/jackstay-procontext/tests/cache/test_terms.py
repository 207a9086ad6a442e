"""Words of queries and sections, and headings that match a query."""

import pytest

from procontext.cache._terms import (
    extra_words,
    heading_counter,
    heading_matcher,
    is_about_changes,
    is_page_of_changes,
    match_expression,
    name_parts,
    names_object,
    object_name,
    phrase_words,
    query_terms,
    unspaced_pairs,
    without_link_targets,
)

HEADINGS = (
    (["boat"], "class harbour.Boat(name: str)", True),
    (["harbour", "Boat"], "class harbour.Boat(name: str)", True),
    (["boat"], "harbour.launch(boat: Boat) → None", False),
    (["launch"], "harbour.launch(boat: Boat) → None", True),
    (["afloat"], "property Boat.afloat: bool", True),
    (["tying", "up"], "Tying up", True),
    (["up"], "Tying up", True),
    (["tying"], "Tying up", False),
    (["x"], "", False),
)


def test_heading_matcher() -> None:
    for terms, heading, expected in HEADINGS:
        assert heading_matcher(terms)((heading,)) is expected, (terms, heading)
    assert not heading_matcher(["x"])(())
    assert heading_matcher(["Boat", "moor"])(("API", "class harbour.Boat(name)", "moor(pier: int) → bool"))
    assert not heading_matcher(["Pier", "moor"])(("API", "class harbour.Boat(name)", "moor(pier: int) → bool"))


def test_query_terms_are_without_stop_words() -> None:
    assert query_terms("How do I moor a boat, or the boat?") == ["moor", "boat"]
    assert query_terms("how to use it") == ["how", "to", "use", "it"]
    assert query_terms("_ * ()") == []


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("getUserById", ["get", "User", "By", "Id"]),
        ("HTTPServerError", ["HTTP", "Server", "Error"]),
        ("max_retry_count", ["max", "retry", "count"]),
        ("utf8", ["utf", "8"]),
        ("word", []),
    ],
)
def test_name_parts(name: str, parts: list[str]) -> None:
    assert name_parts(name) == parts


def test_extra_words_are_parts_of_names_and_pairs_of_characters() -> None:
    assert extra_words("Call moorBoat or moor_boat, not sail.") == "moor Boat moor boat"
    assert extra_words("设置超时 now") == "设置 置超 超时 时"
    assert list(unspaced_pairs("タイム")) == ["タイ", "イム", "ム"]


def test_match_expression() -> None:
    assert match_expression("boat") == '"boat"'
    assert match_expression("boat", is_prefix=True) == '"boat"*'
    assert match_expression("moorBoat") == '"moorBoat" OR "moor Boat"'
    assert match_expression("超时间") == '"超时" AND "时间"'
    assert match_expression("超") == '"超"*'


def test_link_targets_are_not_text() -> None:
    text = 'See [the `api`](https://a.example/x_(y).html#z "A title"), [b](/c) and (this).'
    assert without_link_targets(text) == "See [the `api`], [b] and (this)."


def test_object_name() -> None:
    assert object_name("class harbour.Boat(name: str)") == "class harbour.Boat"
    assert object_name("property Boat.afloat: bool") == "property Boat.afloat"
    assert object_name("(empty)") == "(empty)"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example/en/changelog.html", True),
        ("https://a.example/releases/1.2/", True),
        ("https://a.example/whatsnew-2.0.html", True),
        ("https://a.example/exchanges.html", False),
        ("https://news.example/guide.html", False),
    ],
)
def test_pages_of_changes(url: str, expected: bool) -> None:
    assert is_page_of_changes(url) is expected


def test_queries_about_changes() -> None:
    assert is_about_changes(["Changelog", "boat"])
    assert not is_about_changes(["boat"])


def test_words_for_phrases() -> None:
    assert phrase_words("How do I turn off the colours?") == ("disable",)
    assert phrase_words("more than once, at the same time") == ("multiple", "repeated", "concurrent", "parallel")
    assert phrase_words("disable colours") == ()


def test_anchor_is_the_name_of_an_object() -> None:
    assert names_object("harbour.Boat.moor", ["Boat", "moor"])
    assert names_object("harbour.boat", ["Boat"])
    assert not names_object("harbour.Boat.unmoor", ["moor"])
    assert not names_object("boat", ["boat"])  # the anchor of a heading


def test_words_of_a_heading_that_a_query_has() -> None:
    count = heading_counter(["cancel", "scheduled", "job"])
    assert count("Removing jobs") == (1.5, 0.75)  # a synonym of cancel, and a form of job
    assert count("The job") == (1.0, 1.0)
    assert count("class Knot(cancel)") == (0.0, 0.0)
    assert count("") == (0.0, 0.0)
