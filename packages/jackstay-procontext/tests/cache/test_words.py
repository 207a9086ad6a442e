"""Words of a search (design, section 2, point 1)."""

import pytest

from procontext.cache._words import names, stem


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("boats", "boat"),
        ("classes", "class"),
        ("class", "class"),
        ("settings", "setting"),
        ("streaming", "stream"),
        ("dependencies", "dependenc"),
        ("cached", "cach"),
        ("types", "type"),
        ("string", "string"),
        ("used", "used"),
        ("is_closed", "is_closed"),
        ("sha256s", "sha256s"),
        ("Ünïcodes", "Ünïcodes"),
    ],
)
def test_a_stem_is_what_the_forms_of_a_word_begin_with(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("words", "heading", "expected"),
    [
        (["boat"], "class harbour.Boat(name: str)", True),
        (["harbour", "Boat"], "class harbour.Boat(name: str)", True),
        (["boat"], "harbour.launch(boat: Boat) → None", False),
        (["launch"], "harbour.launch(boat: Boat) → None", True),
        (["afloat"], "property Boat.afloat: bool", True),
        (["tying", "up"], "Tying up", True),
        (["up"], "Tying up", True),
        (["tying"], "Tying up", False),
        (["x"], "", False),
    ],
)
def test_a_heading_is_called_by_its_words_or_by_the_name_in_its_signature(
    words: list[str], heading: str, expected: bool
) -> None:
    assert names(words)((heading,)) is expected


def test_what_stands_before_the_first_heading_is_called_nothing() -> None:
    assert not names(["x"])(())
