"""Newline-delimited framing: whole streams, byte by byte, every split, any pieces, in linear time and memory."""

import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import FrameTooLargeError, UsageError
from jackstay.protocol.wire._lines import LineFramer, frame_lines

LIMIT = 10
TOO_LARGE = "too large"

# stream, frames with a limit of ten, the last line without a newline
CORPUS: list[tuple[bytes, list[bytes | str], bytes]] = [
    (b"", [], b""),
    (b"a\n", [b"a"], b""),
    (b"a\nbc\n", [b"a", b"bc"], b""),
    (b"a\r\nb\r\n", [b"a", b"b"], b""),
    (b"a\rb\n", [b"a\rb"], b""),  # a lone carriage return does not end a line
    (b"a\r\r\n", [b"a\r"], b""),
    (b"\n\n\r\n \t\n\x0b\r\n", [], b""),
    (b"\na\n\n\nb\n\n", [b"a", b"b"], b""),
    ("é\u2028ü\n\u0085".encode(), ["é\u2028ü".encode()], "\u0085".encode()),
    (b"\x00\n\x00\x00\n", [b"\x00", b"\x00\x00"], b""),
    (b"\xff\xfe\n\xed\xa0\x80\n\xe2\n", [b"\xff\xfe", b"\xed\xa0\x80", b"\xe2"], b""),
    (b"no end", [], b"no end"),
    (b"a\nno end\r", [b"a"], b"no end\r"),
    (b"a\n  \r", [b"a"], b""),
    (b"123456789\n", [b"123456789"], b""),
    (b"1234567890\n", [b"1234567890"], b""),
    (b"1234567890\r\n", [b"1234567890"], b""),
    (b"12345678901\n", [TOO_LARGE], b""),
    (b"12345678901\r\n", [TOO_LARGE], b""),
    (b"1234567890\rx\na\n", [TOO_LARGE, b"a"], b""),
    (b"1234567890\r", [], b"1234567890\r"),
    (b"123456789\r\r\n", [b"123456789\r"], b""),
    (b"1234567890\r\r\na\n", [TOO_LARGE, b"a"], b""),
    (b" " * 50 + b"\na\n", [TOO_LARGE, b"a"], b""),
    (b"x" * 50 + b"\na\n" + b"y" * 11 + b"\r\nb\n", [TOO_LARGE, b"a", TOO_LARGE, b"b"], b""),
    (b"x" * 50 + b"\n" + b"y" * 50 + b"\n\nb", [TOO_LARGE, TOO_LARGE], b"b"),
]


def read_frames(framer: LineFramer, *, at_once: bool = False) -> list[bytes | str]:
    frames: list[bytes | str] = []
    while True:
        try:
            if at_once:
                found = framer.next_frames()
            else:
                frame = framer.next_frame()
                found = [] if frame is None else [frame]
        except FrameTooLargeError as error:
            frames.append(TOO_LARGE if error.limit == framer.limit < error.size else "wrong fields")
            continue
        if not found:
            return frames
        frames += reversed(found)


def read(pieces: list[bytes], limit: int = LIMIT, *, at_once: bool = False) -> tuple[list[bytes | str], bytes]:
    framer = LineFramer(limit)
    frames: list[bytes | str] = []
    for piece in pieces:
        framer.feed(piece)
        frames += read_frames(framer, at_once=at_once)
        assert framer.buffered <= limit + 1
    rest = framer.eof()
    assert framer.buffered == 0
    assert framer.eof() == b""
    return frames, rest


def test_streams_are_split_into_lines_in_any_pieces(subtests: pytest.Subtests) -> None:
    for stream, frames, rest in CORPUS:
        with subtests.test(stream=stream, frames=frames, rest=rest):
            assert read([stream]) == (frames, rest)
            assert read([stream], at_once=True) == (frames, rest)
            assert read([stream[at : at + 1] for at in range(len(stream))]) == (frames, rest)
            for at in range(len(stream) + 1):
                assert read([stream[:at], stream[at:]]) == (frames, rest)


def test_a_line_after_a_complete_stream(subtests: pytest.Subtests) -> None:
    for stream, frames, rest in CORPUS:
        with subtests.test(stream=stream, frames=frames, rest=rest):
            whole = stream if not rest and (not stream or stream.endswith(b"\n")) else stream + b"\n"
            expected, _ = read([whole])
            assert read([whole, b"tail\nlast"]) == ([*expected, b"tail"], b"last")
            assert read([whole + b"tail\nlast"]) == ([*expected, b"tail"], b"last")


def oracle(stream: bytes) -> tuple[list[bytes | str], bytes]:
    """The rules for a stream that is available as a whole."""
    *lines, rest = stream.split(b"\n")
    lines = [line.removesuffix(b"\r") for line in lines]
    frames: list[bytes | str] = [
        TOO_LARGE if len(line) > LIMIT else line for line in lines if len(line) > LIMIT or line.strip()
    ]
    if len(rest.removesuffix(b"\r")) > LIMIT:
        return [*frames, TOO_LARGE], b""
    return frames, rest if rest.strip() else b""


@given(
    st.lists(
        st.sampled_from([b"a", b"bcd", b"\n", b"\r", b"\r\n", b" ", b"x" * 9, b"y" * 12, b"\x00", b"\xff"]),
        max_size=30,
    ),
    st.lists(st.integers(min_value=0, max_value=200), max_size=20),
)
def test_any_chunking_gives_the_same_frames(parts: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(parts)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert read(pieces) == oracle(stream)
    assert read(pieces, at_once=True) == oracle(stream)


def test_the_lines_of_one_piece_are_cut_at_once() -> None:
    framer = LineFramer(LIMIT)
    framer.feed(b"a\n\nb\nc")
    assert framer.next_frames() == [b"b", b"a"]
    assert framer.next_frames() == []
    framer.feed(b"\n \n")
    assert framer.next_frames() == [b"c"]
    assert framer.next_frames() == []


def test_frames_are_read_one_at_a_time() -> None:
    framer = LineFramer()
    framer.feed(b"a\nbb\nc")
    framer.feed(b"c\n")
    assert (framer.next_frame(), framer.buffered) == (b"a", 6)
    assert (framer.next_frame(), framer.buffered) == (b"bb", 3)
    assert (framer.next_frame(), framer.buffered) == (b"cc", 0)
    assert framer.next_frame() is None


def test_eof_before_all_frames_are_read_is_refused() -> None:
    framer = LineFramer()
    framer.feed(b"a\n")
    with pytest.raises(UsageError):
        framer.eof()
    assert framer.next_frame() == b"a"
    assert framer.eof() == b""


def test_a_mutable_buffer_may_be_reused_after_feeding() -> None:
    framer = LineFramer()
    buffer = bytearray(b"one")
    framer.feed(buffer)
    assert framer.next_frame() is None
    buffer[:] = b"TWO"
    framer.feed(memoryview(b"\n"))
    assert framer.next_frame() == b"one"


@pytest.mark.parametrize("size", [1, 7, 100, 5_000])
def test_a_request_without_an_early_id_is_reported_at_its_end(size: int) -> None:
    line = b'{"method":"a","params":"' + b"x" * 1_000 + b'","id":17}'
    framer = LineFramer(200)
    framer.waits_for_id = True
    found: list[Any] = []
    stream = line + b"\nafter\n" + b"y" * 201 + b"\n" + line
    for at in range(0, len(stream), size):
        framer.feed(stream[at : at + size])
        while True:
            try:
                frame = framer.next_frame()
            except FrameTooLargeError as error:
                found.append(error)
                continue
            if frame is None:
                break
            found.append(frame)
    first, after, second, *third = found
    assert (first.start[:11], first.end[-8:], first.size, after) == (b'{"method":"', b'"id":17}', len(line), b"after")
    assert second.start[:1] == b"y"
    assert third == [], "the last line has no end"
    assert framer.eof() == b""


def test_a_line_over_the_limit_is_reported_once_and_not_buffered() -> None:
    framer = LineFramer(LIMIT)
    framer.feed(b"x" * 11)
    with pytest.raises(FrameTooLargeError) as caught:
        framer.next_frame()
    assert (caught.value.size, caught.value.limit, caught.value.code) == (11, 10, -32600)
    assert caught.value.start == b"x" * 11
    for _ in range(100):
        framer.feed(b"x" * 1_000)
        assert framer.next_frame() is None
        assert framer.buffered == 0
    assert framer.eof() == b""


def test_an_oversized_line_of_64_mib_needs_little_memory() -> None:
    framer = LineFramer(1_048_576)
    piece = b"x" * 65_536
    reports = 0
    tracemalloc.start()
    try:
        for _ in range(1_024):
            framer.feed(bytes(bytearray(piece)))
            try:
                assert framer.next_frame() is None
            except FrameTooLargeError:
                reports += 1
        framer.feed(b"\nok\n")
        assert framer.next_frame() == b"ok"
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reports == 1
    assert kept < 65_536
    assert peak < 1_048_576 + 4 * 65_536


class CountedBytes(bytes):
    """Bytes that count how many of them were searched."""

    searched = 0

    def find(self, part: bytes, start: int = 0) -> int:  # type: ignore[override]  # the form that is used
        found = super().find(part, start)
        CountedBytes.searched += (len(self) if found < 0 else found + 1) - start
        return found


@pytest.mark.no_cover  # many small pieces
def test_no_byte_is_searched_twice(subtests: pytest.Subtests) -> None:
    """docs/guarantees.md G16."""
    for size in [1, 7, 4_096, 65_536]:
        with subtests.test(size=size):
            total = 100_000 if size < 4_096 else 16_777_216
            stream = b"a\n" * 10 + b"x" * (total - 21) + b"\n"
            framer = LineFramer()
            frames = 0
            CountedBytes.searched = 0
            for at in range(0, len(stream), size):
                piece = stream[at : at + size]
                framer.feed(piece)
                assert framer._piece == piece  # replaced by bytes that count
                framer._piece = CountedBytes(piece)
                while framer.next_frame() is not None:
                    frames += 1
            assert frames == 11
            assert CountedBytes.searched == len(stream)


def test_a_line_of_16_mib_is_joined_once() -> None:
    """docs/guarantees.md G16."""
    framer = LineFramer()
    count = 256
    tracemalloc.start()
    try:
        for _ in range(count - 1):
            framer.feed(bytes(bytearray(b"x" * 65_536)))
            assert framer.next_frame() is None
        framer.feed(b"x" * 65_535 + b"\n")
        line = framer.next_frame()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert line is not None
    assert len(line) == count * 65_536 - 1
    assert peak < 2.1 * len(line)
    assert kept < 1.1 * len(line)
    assert framer.buffered == 0


WRITTEN = [
    (b"{}", b"{}\n"),
    (b'{"a":"\\n"}', b'{"a":"\\n"}\n'),
    (b'{\n  "a": 1\r\n}', b'{   "a": 1  }\n'),
    ('"\u2028"'.encode(), '"\u2028"\n'.encode()),
]


def test_a_payload_becomes_one_line(subtests: pytest.Subtests) -> None:
    for payload, line in WRITTEN:
        with subtests.test(payload=payload, line=line):
            assert frame_lines([payload]) == line
            assert line.count(b"\n") == 1
            assert b"\r" not in line
    assert frame_lines([payload for payload, _ in WRITTEN]) == b"".join(line for _, line in WRITTEN)
    assert frame_lines([b"{\n}", b"{}"]) == b"{ }\n{}\n"
