"""Texts of strangers: told whole, and shown as they are."""

import pytest

from apcore_mcp.texts import shown, told


@pytest.mark.parametrize(
    ("given", "made"), [("a ü 漢", "a ü 漢"), ("\ud800x", "?x"), (None, "None"), (7, "7")]
)
def test_what_is_told_has_a_form_in_utf_8(given: object, made: str) -> None:
    assert told(given) == made
    told(given).encode()


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("plain ü 漢", "plain ü 漢"),
        ("\x1b[31mred\x00", r"\x1b[31mred\x00"),
        ("abc\u202edef", r"abc\u202edef"),
        ("one\ntwo\r", "one\ntwo\\r"),
        ("\ud800", "?"),
        ("\U000e0041hidden", r"\U000e0041hidden"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(given: str, made: str) -> None:
    """Control characters, directions, tags: nothing hides, nothing acts."""
    assert shown(given, keep="\n") == made


def test_a_line_end_is_kept_only_if_it_is_wanted() -> None:
    assert shown("one\ntwo") == r"one\ntwo"
