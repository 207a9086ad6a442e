# Invariant: bodies do not depend on how a stream is split, written frames can be read, only ProtocolError is raised.
"""Content-Length framing, read from chunks of several small sizes."""

from jackstay.errors import FrameTooLargeError, ProtocolError
from jackstay.protocol.wire._content_length import MAX_HEADER_BYTES, ContentLengthFramer, frame_content_lengths

LIMIT = 16

CORPUS = [
    b"Content-Length: 2\r\n\r\n{}Content-Length: 17\r\n\r\n0123456789abcdefgContent-Length: 1\r\n\r\n1",
    b"Content-Type: application/json\r\ncontent-length:16\n\n0123456789abcdef\r\n\r\n",
    b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n1",
    b"Content-Length: 0\r\n\r\nContent-Length: 5\r\n\r\n123",
]


def fuzz(data: bytes) -> None:
    expected = _read(data, len(data) + 1)
    for size in (1, 2, 3, 7):
        assert _read(data, size) == expected
    if 0 < len(data) <= LIMIT:
        assert _read(frame_content_lengths([data, data]), 5) == ([data, data], "")


def _read(data: bytes, size: int) -> tuple[list[bytes | str], str]:
    framer = ContentLengthFramer(LIMIT)
    frames: list[bytes | str] = []
    for at in range(0, len(data), size):
        framer.feed(data[at : at + size])
        while "lost" not in frames:
            try:
                frame = framer.next_frame()
            except FrameTooLargeError as error:
                frames.append(f"too large: {error.size}")
                continue
            except ProtocolError:
                frames.append("lost")
                break
            if frame is None:
                break
            frames.append(frame)
        assert framer.buffered <= MAX_HEADER_BYTES
    try:
        return frames, framer.eof().decode()
    except ProtocolError as error:
        return frames, str(error)
