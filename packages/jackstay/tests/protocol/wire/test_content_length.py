"""Content-Length framing: whole streams, byte by byte, every split, any pieces, and invalid headers."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import FrameTooLargeError, ProtocolError, UsageError
from jackstay.protocol.wire._content_length import MAX_HEADER_BYTES, ContentLengthFramer, frame_content_lengths

LIMIT = 10
TOO_LARGE = "too large"
INVALID = "invalid"

# stream, frames with a limit of ten, and how much was received of an incomplete last frame
CORPUS: list[tuple[bytes, list[bytes | str], str]] = [
    (b"", [], ""),
    (b"Content-Length: 2\r\n\r\n{}", [b"{}"], ""),
    (b"Content-Length: 2\n\n{}", [b"{}"], ""),
    (b"content-LENGTH:2\r\n\r\n{}", [b"{}"], ""),
    (b"Content-Length: \t 2 \t\r\n\r\n{}", [b"{}"], ""),
    (b"Content-Length: 002\r\n\r\n{}", [b"{}"], ""),
    (b"Content-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}", [b"{}"], ""),
    (b"Content-Length: 2\r\nX-Empty:\r\nx-a: b: c\r\n\r\n{}", [b"{}"], ""),
    (b"Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]", [b"{}", b"[1]"], ""),
    (b"Content-Length: 4\r\n\r\n\r\n\r\n", [b"\r\n\r\n"], ""),
    (b"\r\n\n\r\nContent-Length: 2\r\n\r\n{}\r\n\r\n", [b"{}"], ""),
    (b"Content-Length: 0\r\n\r\nContent-Length: 1\r\n\r\n1", [b"1"], ""),
    (
        b"Content-Length: 6\r\n\r\n\xff\x00\xe2\x80\xa8\nContent-Length: 1\r\n\r\n1",
        [b"\xff\x00\xe2\x80\xa8\n", b"1"],
        "",
    ),
    (b"Content-Length: 9\r\n\r\n123456789", [b"123456789"], ""),
    (b"Content-Length: 10\r\n\r\n1234567890", [b"1234567890"], ""),
    (b"Content-Length: 11\r\n\r\n12345678901Content-Length: 1\r\n\r\n1", [TOO_LARGE, b"1"], ""),
    (b"Content-Length: 44\r\n\r\n" + b"Content-Length: 1\r\n\r\n1" * 2, [TOO_LARGE], ""),
    (b"Content-Length: 11\r\n\r\n123", [TOO_LARGE], "3 of 11"),
    (b"Content-Length: 11\r\n\r\n", [TOO_LARGE], "0 of 11"),
    (b"Content-Length: 999999999999999\r\n\r\n123", [TOO_LARGE], "3 of 999999999999999"),
    (b"Content-Length: 5\r\n\r\n123", [], "3 of 5"),
    (b"Content-Length: 5\r\n\r\n", [], "0 of 5"),
    (b"Content-Length: 5\r\n\r", [], "20"),
    (b"Content-Length: 5\r\nCont", [], "23"),
    (b"Content-Length: 1\r\n\r\n1Co", [b"1"], "2"),
    (b"Content-Length: 1\r\n\r\n1\r", [b"1"], ""),
    # Invalid headers.
    (b"Content-Length: 1\r\n\r\n1{}\nContent-Length: 1\r\n\r\n1", [b"1", INVALID], ""),
    (b"Hello, world\nContent-Length: 1\r\n\r\n1", [INVALID], ""),
    (b"Content-Type: text/plain\r\n\r\n{}", [INVALID], ""),
    (b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n1", [INVALID], ""),
    (b"Content-Length: 1\r\ncontent-length: 2\r\n\r\n12", [INVALID], ""),
    (b"Content-Length:\r\n\r\n", [INVALID], ""),
    (b"Content-Length: -1\r\n\r\n", [INVALID], ""),
    (b"Content-Length: +1\r\n\r\n1", [INVALID], ""),
    (b"Content-Length: 1.0\r\n\r\n1", [INVALID], ""),
    (b"Content-Length: 0x1\r\n\r\n1", [INVALID], ""),
    (b"Content-Length: 1_0\r\n\r\n1", [INVALID], ""),
    (b"Content-Length: 1, 1\r\n\r\n1", [INVALID], ""),
    ("Content-Length: ١\r\n\r\n1".encode(), [INVALID], ""),
    (b"Content-Length: 1000000000000000\r\n\r\n1", [INVALID], ""),
    (b"Content-Length: " + b"9" * 4_000 + b"\r\n\r\n1", [INVALID], ""),
    (b"Content-Length : 1\r\n\r\n1", [INVALID], ""),
    (b" Content-Length: 1\r\n\r\n1", [INVALID], ""),
    (b": 1\r\n\r\n1", [INVALID], ""),
    (b"\x00\r\n\r\n", [INVALID], ""),
    (b"\xff\xfe: 1\r\n\r\n", [INVALID], ""),
    (b"X: " + b"x" * MAX_HEADER_BYTES, [INVALID], ""),
    (b"X: y\r\n" * (MAX_HEADER_BYTES // 6 + 1), [INVALID], ""),
]


def read_frames(framer: ContentLengthFramer) -> list[bytes | str]:
    frames: list[bytes | str] = []
    while True:
        try:
            frame = framer.next_frame()
        except FrameTooLargeError as error:
            frames.append(TOO_LARGE if error.limit == framer.limit < error.size else "wrong fields")
            continue
        except ProtocolError:
            frames.append(INVALID)
            return frames
        if frame is None:
            return frames
        frames.append(frame)


def read(pieces: list[bytes]) -> tuple[list[bytes | str], str]:
    framer = ContentLengthFramer(LIMIT)
    frames: list[bytes | str] = []
    for piece in pieces:
        framer.feed(piece)
        frames += read_frames(framer)
        assert framer.buffered <= MAX_HEADER_BYTES
        if INVALID in frames:
            break
    rest = ""
    try:
        assert framer.eof() == b""
    except ProtocolError as error:
        rest = str(error).removeprefix("the stream ended inside a frame, after ").removesuffix(" bytes")
    assert framer.buffered == 0
    assert framer.eof() == b""
    return frames, rest


def test_streams_are_split_into_bodies_in_any_pieces(subtests: pytest.Subtests) -> None:
    for stream, frames, rest in CORPUS:
        with subtests.test(stream=stream, frames=frames, rest=rest):
            assert read([stream]) == (frames, rest)
            assert read([stream[at : at + 1] for at in range(len(stream))]) == (frames, rest)
            step = max(1, len(stream) // 200)  # every split, except of the long streams
            for at in range(0, len(stream) + 1, step):
                assert read([stream[:at], stream[at:]]) == (frames, rest)


def test_a_frame_after_a_complete_stream(subtests: pytest.Subtests) -> None:
    for row in [row for row in CORPUS if row[2] == "" and INVALID not in row[1] and not row[0].endswith(b"\r")]:
        with subtests.test(row=row):
            stream, frames, _ = row
            tail = frame_content_lengths([b"tail"]) + b"Con"
            expected = ([*frames, b"tail"], "3")
            assert read([stream, tail]) == expected
            assert read([stream + tail]) == expected


def test_the_maximum_length_of_a_header() -> None:
    end = b"\r\nContent-Length: 1\r\n\r\n"
    header = b"X: " + b"x" * (MAX_HEADER_BYTES - 3 - len(end)) + end
    assert read([header + b"1"]) == ([b"1"], "")
    assert read([b"x" + header + b"1"]) == ([INVALID], "")


PARTS = st.sampled_from(
    [
        b"Content-Length: 2\r\n\r\nab",
        b"content-length:10\n\n0123456789",
        b"Content-Length: 11\r\n\r\n01234567890",
        b"Content-Type: x\r\nContent-Length: 1\r\n\r\n\n",
        b"Content-Length: 0\r\n\r\n",
        b"\r\n",
    ]
)


@given(
    st.lists(PARTS, max_size=10),
    st.binary(max_size=12),
    st.lists(st.integers(min_value=0, max_value=300), max_size=20),
)
def test_any_chunking_gives_the_same_frames(parts: list[bytes], tail: bytes, cuts: list[int]) -> None:
    stream = b"".join(parts) + tail
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert read([stream[start:end] for start, end in pairwise(edges)]) == read([stream])


def test_frames_are_read_one_at_a_time() -> None:
    framer = ContentLengthFramer()
    framer.feed(frame_content_lengths([b"a"]) + frame_content_lengths([b"bb"]))
    assert (framer.next_frame(), framer.buffered) == (b"a", 23)
    assert (framer.next_frame(), framer.buffered) == (b"bb", 0)
    assert framer.next_frame() is None


def test_next_frames_returns_one_frame_at_a_time() -> None:
    framer = ContentLengthFramer(LIMIT)
    framer.feed(b"Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]Content-")
    assert [framer.next_frames() for _ in range(3)] == [[b"{}"], [b"[1]"], []]


def test_eof_before_all_frames_are_read_is_refused() -> None:
    framer = ContentLengthFramer()
    framer.feed(frame_content_lengths([b"a"]))
    with pytest.raises(UsageError):
        framer.eof()


def test_a_body_over_the_limit_is_reported_after_its_header_and_not_buffered() -> None:
    framer = ContentLengthFramer(LIMIT)
    framer.feed(b"Content-Length: 1000000\r\n\r\n")
    with pytest.raises(FrameTooLargeError) as caught:
        framer.next_frame()
    assert (caught.value.size, caught.value.limit, caught.value.code) == (1_000_000, 10, -32600)
    for _ in range(1_000):
        framer.feed(b"x" * 1_000)
        assert framer.next_frame() is None
        assert framer.buffered == 0
    framer.feed(frame_content_lengths([b"ok"]))
    assert framer.next_frame() == b"ok"


def test_an_announced_body_needs_no_memory() -> None:
    framer = ContentLengthFramer()
    tracemalloc.start()
    try:
        framer.feed(b"Content-Length: 16777216\r\n\r\n")
        assert framer.next_frame() is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_048_576  # less than the body; other threads and coverage allocate a little


def test_an_invalid_header_is_final() -> None:
    framer = ContentLengthFramer()
    framer.feed(b'{"jsonrpc":"2.0"}\n')
    framer.feed(b"x" * 1_000)
    for _ in range(2):
        with pytest.raises(ProtocolError) as caught:
            framer.next_frame()
        assert not isinstance(caught.value, FrameTooLargeError)
        assert (caught.value.quote, caught.value.code) == ('{"jsonrpc":"2.0"}', -32700)
        assert "expected a Content-Length header, got a line that is not a header" in str(caught.value)
        framer.feed(frame_content_lengths([b"ok"]))
        assert framer.buffered == 0
    assert framer.eof() == b""


class CountedBytes(bytes):
    """Bytes that count how many of them were searched."""

    searched = 0

    def find(self, part: bytes, start: int, end: int) -> int:  # type: ignore[override]  # the form that is used
        found = super().find(part, start, end)
        CountedBytes.searched += (min(len(self), end) if found < 0 else found + 1) - start
        return found


@pytest.mark.no_cover  # many small pieces
def test_bodies_are_not_searched_and_headers_once(subtests: pytest.Subtests) -> None:
    for size in [1, 7, 65_536]:
        with subtests.test(size=size):
            body = b"\n" * (100_000 if size < 4_096 else 16_777_216)
            stream = frame_content_lengths([body])
            framer = ContentLengthFramer()
            frame = None
            CountedBytes.searched = 0
            for at in range(0, len(stream), size):
                piece = stream[at : at + size]
                framer.feed(piece)
                assert framer._piece == piece  # replaced by bytes that count
                framer._piece = CountedBytes(piece)
                frame = framer.next_frame()
            assert frame == body
            assert CountedBytes.searched == len(stream) - len(body)


def test_a_body_of_16_mib_is_joined_once() -> None:
    framer = ContentLengthFramer()
    size = 16_777_216
    tracemalloc.start()
    try:
        framer.feed(b"Content-Length: %d\r\n\r\n" % size)
        body = None
        for _ in range(256):
            framer.feed(bytes(bytearray(65_536)))
            body = framer.next_frame()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert body is not None
    assert len(body) == size
    assert peak < 2.1 * size
    assert kept < 1.1 * size


def test_frame_content_length() -> None:
    assert (
        frame_content_lengths(["é\n".encode(), b"a"])
        == b"Content-Length: 3\r\n\r\n\xc3\xa9\nContent-Length: 1\r\n\r\na"
    )
