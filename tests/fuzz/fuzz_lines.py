# Invariant: the frames are the lines of a stream, independent of how it is split; at most one line is buffered.
"""Line framing, read from chunks of several small sizes, compared with a simple reference implementation."""

from jackstay.errors import FrameTooLargeError
from jackstay.protocol.wire._lines import LineFramer

LIMIT = 16

CORPUS = [
    b"a\nb\r\n\r\n\nc",
    b"0123456789abcdef\n0123456789abcdef\r\n0123456789abcdefg\n0123456789abcdef\rx\n",
    b"\xe2\x80\xa8\n\x00\n\xff",
]


def fuzz(data: bytes) -> None:
    expected = _reference(data)
    for size in (1, 2, 3, 7, len(data) + 1):
        framer = LineFramer(LIMIT)
        frames: list[bytes | None] = []
        for at in range(0, len(data), size):
            framer.feed(data[at : at + size])
            frames += _pull(framer)
            assert framer.buffered <= LIMIT + 1
        rest = framer.eof()
        assert (frames, rest) == expected


def _pull(framer: LineFramer) -> list[bytes | None]:
    frames: list[bytes | None] = []
    while True:
        try:
            frame = framer.next_frame()
        except FrameTooLargeError:
            frames.append(None)
            continue
        if frame is None:
            return frames
        frames.append(frame)


def _reference(data: bytes) -> tuple[list[bytes | None], bytes]:
    *lines, rest = data.split(b"\n")
    bare = [line.removesuffix(b"\r") for line in lines]
    frames = [None if len(line) > LIMIT else line for line in bare if len(line) > LIMIT or line.strip()]
    if len(rest.removesuffix(b"\r")) > LIMIT:
        return [*frames, None], b""
    return frames, rest if rest.strip() else b""
