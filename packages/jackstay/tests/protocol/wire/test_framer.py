"""What framers share: pieces in any size, kept in little more memory than they have bytes."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.protocol.wire._framer import GATHERED_PIECE, MAX_FRAME_BYTES, SMALL_PIECE, FedFramer, Gathering

SIZES = st.sampled_from([0, 1, 2, SMALL_PIECE - 1, SMALL_PIECE, SMALL_PIECE + 1, GATHERED_PIECE])


@given(st.lists(SIZES, max_size=40), st.binary(max_size=3))
def test_gathered_pieces_come_back_in_order_and_as_one(sizes: list[int], last: bytes) -> None:
    gathering = Gathering()
    pieces = [bytes([index]) * size for index, size in enumerate(sizes)]
    for piece in pieces:
        gathering.add(piece)
    whole = b"".join(pieces)
    assert gathering.size == len(whole)
    assert gathering.ends_with(b"\x01") is whole.endswith(b"\x01")
    assert gathering.take(last) == whole + last
    assert gathering.size == 0
    assert gathering.take() == b""


@pytest.mark.parametrize("size", [1, 2, 3, 100, SMALL_PIECE, GATHERED_PIECE])
def test_many_small_pieces_take_little_more_than_their_bytes(size: int) -> None:
    total = 262_144
    gathering = Gathering()
    tracemalloc.start()
    try:
        for _ in range(total // size):
            gathering.add(bytes(bytearray(size)))  # a new object each time: single bytes are shared otherwise
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert gathering.size == total // size * size
    assert kept < 1.5 * total + 2 * GATHERED_PIECE


def test_one_piece_is_given_back_and_not_copied() -> None:
    gathering = Gathering()
    piece = b"x" * SMALL_PIECE
    gathering.add(piece)
    assert gathering.take() is piece


def test_what_is_cleared_is_gone() -> None:
    gathering = Gathering()
    gathering.add(b"x")
    gathering.add(b"y" * SMALL_PIECE)
    gathering.clear()
    assert gathering.size == 0
    assert gathering.take() == b""


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_is_fed_is_counted(kind: type) -> None:
    framer = FedFramer(10)
    assert (framer.limit, framer.buffered) == (10, 0)
    framer.feed(kind(b"abc"))
    framer.feed(kind(b""))
    framer.feed(kind(b"defg"))
    assert framer.buffered == 7
    assert repr(framer) == "<FedFramer limit=10 buffered=7>"


def test_pieces_are_let_go_in_the_order_they_were_fed() -> None:
    framer = FedFramer(10)
    framer.feed(b"abc")
    framer.feed(b"defg")
    with pytest.raises(UsageError):
        framer._check_all_pulled()
    assert framer._advance()
    assert framer.buffered == 4
    assert not framer._advance()
    assert framer.buffered == 0
    framer._check_all_pulled()


def test_the_limit_is_sixteen_mebibytes_unless_another_is_given() -> None:
    assert FedFramer().limit == MAX_FRAME_BYTES == 16 * 1024 * 1024


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_no_frame_could_keep_is_refused(limit: int) -> None:
    with pytest.raises(UsageError) as caught:
        FedFramer(limit)
    assert caught.value.path == "max_frame_bytes"
