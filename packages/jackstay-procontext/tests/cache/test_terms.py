"""Stems of search terms, and headings that match a query."""

from procontext.cache._terms import heading_matcher, stem

STEMS = {
    "boats": "boat",
    "classes": "class",
    "class": "class",
    "settings": "setting",
    "streaming": "stream",
    "dependencies": "dependenc",
    "cached": "cach",
    "types": "type",
    "string": "string",
    "used": "used",
    "is_closed": "is_closed",
    "sha256s": "sha256s",
    "Ünïcodes": "Ünïcodes",
}

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


def test_stem() -> None:
    for word, expected in STEMS.items():
        assert stem(word) == expected


def test_heading_matcher() -> None:
    for terms, heading, expected in HEADINGS:
        assert heading_matcher(terms)((heading,)) is expected, (terms, heading)
    assert not heading_matcher(["x"])(())
