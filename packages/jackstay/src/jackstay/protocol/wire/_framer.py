"""The shared code of all framers, which split a stream of bytes into frames: `_lines` and `_content_length`.

Call `feed`, then `next_frame` until it returns None. After a `FrameTooLargeError` call it again: the frame is skipped.
After any other `ProtocolError` every later call raises the same: close the connection.
"""

from collections import deque
from typing import Final

from jackstay.errors import UsageError

# The default limit, in both directions.
MAX_FRAME_BYTES: Final = 16_777_216

# How much of a frame, or of a line before it, an error quotes.
MAX_QUOTE: Final = 120

# How much of the beginning of a larger frame is kept, to find the id of a request.
START_BYTES: Final = 512

# A frame may arrive in pieces of any size. A `bytes` object of one byte takes 42 bytes, so smaller pieces than this are
# joined; above it the overhead is under one per cent and a copy would cost more.
SMALL_PIECE: Final = 4_096

# Joined pieces are flushed at this size: a bytearray that grows to 16 MiB would be reallocated many times.
BUFFER_SIZE: Final = 65_536


class FrameBuffer:
    """The pieces of one incomplete frame. Each byte is copied at most twice, whatever the size of the pieces."""

    __slots__ = ("_pieces", "_small", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._small = bytearray()
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if len(piece) < SMALL_PIECE:
            self._small += piece
            if len(self._small) < BUFFER_SIZE:
                return
            piece = b""
        self._flush_small()
        if piece:
            self._pieces.append(piece)

    def start(self) -> bytes:
        """Return the first bytes."""
        return (self._pieces[0] if self._pieces else bytes(self._small))[:START_BYTES]

    def end(self) -> bytes:
        """Return the last bytes."""
        return ((self._pieces[-1][-START_BYTES:] if self._pieces else b"") + self._small)[-START_BYTES:]

    def pop(self, last: bytes = b"") -> bytes:
        """Return all pieces and `last` as one `bytes` object, and clear the buffer."""
        self._flush_small()
        if last:
            self._pieces.append(last)
        joined = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self.clear()
        return joined

    def clear(self) -> None:
        """Remove all pieces."""
        self._pieces.clear()
        self._small.clear()
        self.size = 0

    def _flush_small(self) -> None:
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()


class BufferedFramer:
    """The base class of all framers: the bytes that were fed and not yet read, in the original pieces.

    `limit` is the maximum size of a frame in bytes, without its header or newline.
    """

    __slots__ = ("_buffer", "_offset", "_pending", "_piece", "limit")

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        if limit < 1:
            raise UsageError(f"max_frame_bytes must be at least 1, not {limit!r}", path="max_frame_bytes")
        self.limit = limit
        self._piece = b""  # read up to `_offset`; replaced by the next piece as soon as all of it was read
        self._offset = 0
        self._pending: deque[bytes] = deque()
        self._buffer = FrameBuffer()

    @property
    def buffered(self) -> int:
        """The number of buffered bytes: of frames not yet read, and of the incomplete one."""
        return len(self._piece) - self._offset + sum(map(len, self._pending)) + self._buffer.size

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add the next bytes of the stream, in pieces of any size."""
        # The caller may reuse a mutable buffer, so everything but `bytes` is copied.
        piece = data if type(data) is bytes else bytes(data)
        if not piece:
            return
        if self._piece:
            self._pending.append(piece)
        else:
            self._piece = piece

    def _advance(self) -> bool:
        """Discard the current piece and make the next one current. Returns False if there is none."""
        self._offset = 0
        self._piece = self._pending.popleft() if self._pending else b""
        return bool(self._piece)

    def _move_to(self, offset: int) -> None:
        """Continue at this offset of the current piece, which may be its end."""
        self._offset = offset
        if offset == len(self._piece):
            self._advance()

    def _check_all_read(self) -> None:
        if self._piece:
            raise UsageError("eof() before all frames were read; call next_frame() until it returns None")

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} limit={self.limit} buffered={self.buffered}>"
