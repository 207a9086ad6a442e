"""The shared code of framers: pieces of any size, buffered without much overhead."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.protocol.wire._framer import BUFFER_SIZE, MAX_FRAME_BYTES, SMALL_PIECE, BufferedFramer, FrameBuffer

SIZES = st.sampled_from([0, 1, 2, SMALL_PIECE - 1, SMALL_PIECE, SMALL_PIECE + 1, BUFFER_SIZE])


@given(st.lists(SIZES, max_size=40), st.binary(max_size=3))
def test_pieces_are_joined_in_order(sizes: list[int], last: bytes) -> None:
    buffer = FrameBuffer()
    pieces = [bytes([index]) * size for index, size in enumerate(sizes)]
    for piece in pieces:
        buffer.add(piece)
    whole = b"".join(pieces)
    assert buffer.size == len(whole)
    assert buffer.end().endswith(b"\x01") is whole.endswith(b"\x01")
    assert buffer.pop(last) == whole + last
    assert buffer.size == 0
    assert buffer.pop() == b""


@pytest.mark.no_cover  # many small pieces, and memory is traced
def test_small_pieces_have_little_overhead(subtests: pytest.Subtests) -> None:
    for size in [1, 2, 3, 100, SMALL_PIECE, BUFFER_SIZE]:
        with subtests.test(size=size):
            total = 262_144
            buffer = FrameBuffer()
            tracemalloc.start()
            try:
                for _ in range(total // size):
                    buffer.add(bytes(bytearray(size)))  # a new object each time: single bytes are interned
                kept, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert buffer.size == total // size * size
            assert kept < 1.5 * total + 2 * BUFFER_SIZE


def test_a_single_piece_is_not_copied() -> None:
    buffer = FrameBuffer()
    piece = b"x" * SMALL_PIECE
    buffer.add(piece)
    assert buffer.pop() is piece


def test_clear() -> None:
    buffer = FrameBuffer()
    buffer.add(b"x")
    buffer.add(b"y" * SMALL_PIECE)
    buffer.clear()
    assert buffer.size == 0
    assert buffer.pop() == b""


def test_buffered_counts_the_bytes(subtests: pytest.Subtests) -> None:
    for kind in [bytes, bytearray, memoryview]:
        with subtests.test(kind=kind):
            framer = BufferedFramer(10)
            assert (framer.limit, framer.buffered) == (10, 0)
            framer.feed(kind(b"abc"))
            framer.feed(kind(b""))
            framer.feed(kind(b"defg"))
            assert framer.buffered == 7
            assert repr(framer) == "<BufferedFramer limit=10 buffered=7>"


def test_pieces_are_read_in_order() -> None:
    framer = BufferedFramer(10)
    framer.feed(b"abc")
    framer.feed(b"defg")
    with pytest.raises(UsageError):
        framer._check_all_read()
    assert framer._advance()
    assert framer.buffered == 4
    assert not framer._advance()
    assert framer.buffered == 0
    framer._check_all_read()


def test_the_default_limit_is_16_mib() -> None:
    assert BufferedFramer().limit == MAX_FRAME_BYTES == 16 * 1024 * 1024


def test_an_invalid_limit_is_refused(subtests: pytest.Subtests) -> None:
    for limit in [0, -1]:
        with subtests.test(limit=limit):
            with pytest.raises(UsageError) as caught:
                BufferedFramer(limit)
            assert caught.value.path == "max_frame_bytes"
