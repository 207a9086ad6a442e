"""Cursors: what was written is read, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import ProtocolError
from jackstay.server._pages import Mark, read_cursor, write_cursor

MARK = Mark("tools", 7, "forecast")


@given(st.integers(0, 2**53), st.text(max_size=200).filter(lambda text: text.isprintable()))
def test_a_cursor_says_what_was_written(number: int, key: str) -> None:
    mark = Mark("tools", number, key)
    cursor = write_cursor(mark)
    assert cursor.isascii()
    assert set(cursor).isdisjoint("+/= ")
    assert read_cursor(cursor, "tools") == mark


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "7",
        "not a cursor",
        "ü",
        "\ud800",
        "A" * 100_000,
        write_cursor(MARK)[:-2],
        write_cursor(MARK) + "AAAA",
        write_cursor(MARK).swapcase(),
        write_cursor(Mark("prompts", 7, "forecast")),
    ],
)
def test_what_is_not_ours_is_invalid_params(cursor: str) -> None:
    with pytest.raises(ProtocolError, match="not a cursor of this list") as caught:
        read_cursor(cursor, "tools")
    assert (caught.value.code, caught.value.path) == (-32602, "$.cursor")
    assert len(caught.value.quote) <= 40


@given(st.text(max_size=60))
def test_text_that_was_never_written_here_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="not a cursor"):
        read_cursor(text, "tools")
