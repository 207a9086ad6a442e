"""Sanitization of untrusted strings."""

import pytest

from apcore_mcp.text import escape_unprintable, to_utf8


def test_to_utf8(subtests: pytest.Subtests) -> None:
    for given, expected in [("a ü 漢", "a ü 漢"), ("\ud800x", "?x"), (None, "None"), (7, "7")]:
        with subtests.test(given=given):
            assert to_utf8(given) == expected
            to_utf8(given).encode()


UNPRINTABLE: list[tuple[str, str]] = [
    ("plain ü 漢", "plain ü 漢"),
    ("\x1b[31mred\x00", r"\x1b[31mred\x00"),
    ("abc\u202edef", r"abc\u202edef"),
    ("one\ntwo\r", "one\ntwo\\r"),
    ("\ud800", "?"),
    ("\U000e0041hidden", r"\U000e0041hidden"),
]


def test_escape_unprintable() -> None:
    """Control characters, bidirectional marks and tag characters are escaped."""
    for given, expected in UNPRINTABLE:
        assert escape_unprintable(given, keep="\n") == expected, given


def test_kept_characters() -> None:
    assert escape_unprintable("one\ntwo") == r"one\ntwo"
