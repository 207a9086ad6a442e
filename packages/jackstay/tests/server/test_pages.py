"""Pagination cursors: round trip, and rejection of everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import ProtocolError
from jackstay.server._pages import Position, read_cursor, write_cursor

POSITION = Position("tools", 7, "forecast")


@given(st.integers(0, 2**53), st.text(max_size=200).filter(lambda text: text.isprintable()))
def test_round_trip(number: int, key: str) -> None:
    position = Position("tools", number, key)
    cursor = write_cursor(position)
    assert cursor.isascii()
    assert set(cursor).isdisjoint("+/= ")
    assert read_cursor(cursor, "tools") == position


def test_invalid_cursors_are_rejected(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "",
        "7",
        "not a cursor",
        "ü",
        "\ud800",
        "A" * 100_000,
        write_cursor(POSITION)[:-2],
        write_cursor(POSITION) + "AAAA",
        write_cursor(POSITION).swapcase(),
        write_cursor(Position("prompts", 7, "forecast")),
    ]
    for cursor in cases:
        with subtests.test(cursor=cursor[:50]):
            with pytest.raises(ProtocolError, match="invalid cursor for this list") as caught:
                read_cursor(cursor, "tools")
            assert (caught.value.code, caught.value.path) == (-32602, "$.cursor")
            assert len(caught.value.quote) <= 40


@given(st.text(max_size=60))
def test_arbitrary_strings_are_rejected(text: str) -> None:
    with pytest.raises(ProtocolError, match="invalid cursor"):
        read_cursor(text, "tools")
