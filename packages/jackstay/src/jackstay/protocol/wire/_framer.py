"""What every framing promises, whichever way frames are marked on the wire.

A framer cuts a stream of bytes into frames. Bytes are fed as they come; frames are pulled one at a time, so that the
next is not cut before the last was handled (docs/design/connection.md, row 16). It must never know what a frame says: no JSON, no
encoding, no message.

Above: the transports. Below, side by side: `_lines` and `_content_length`, listed by name in `_framing`.
"""

from collections import deque
from typing import Final, Protocol

import msgspec

from jackstay.errors import UsageError

# docs/design/connection.md, row 17: the seed's limit, in both directions.
MAX_FRAME_BYTES: Final = 16_777_216

# A frame may arrive in any pieces. One byte kept as an object of its own takes 42, so pieces below this are gathered;
# above it an object's overhead is under one per cent and a copy would cost more.
SMALL_PIECE: Final = 4_096

# Gathered pieces are set aside at this size: a bytearray that grows to 16 MiB would be moved many times.
GATHERED_PIECE: Final = 65_536


class Unfinished(msgspec.Struct, frozen=True, gc=False):
    """What a stream ended in the middle of.

    `received` counts the bytes there were of the last frame, `expected` those it was to have, where the framing says
    so. `data` holds what was received unless it was being skipped: a last line without its newline may well be a
    whole message.
    """

    received: int
    expected: int | None = None
    data: bytes = b""


class Framer(Protocol):
    """Feed it, then pull until it gives None.

    After a `FrameTooLargeError` pull again: that frame is being skipped and its bytes are not kept. After any other
    `ProtocolError` the framing is lost for good and every later pull raises the same: close the connection.
    """

    @property
    def limit(self) -> int:
        """The largest frame that is taken, in bytes, without what marks its beginning and end."""

    @property
    def buffered(self) -> int:
        """How many bytes it holds: of frames not yet pulled, and of the one not yet complete."""

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes of the stream, in pieces of any size."""

    def next_frame(self) -> bytes | None:
        """The next complete frame, never empty, or None until more is fed.

        Raises:
            FrameTooLargeError: once for each frame over the limit, as soon as that is known.
            ProtocolError: if the bytes are not frames; `_lines` never does.
        """

    def eof(self) -> Unfinished | None:
        """What the stream ended in the middle of, or None. Call when the stream has ended and all frames are pulled.

        The framer holds nothing afterwards.
        """


class Gathering:
    """The pieces of one frame that is not yet complete. Each byte is copied once or twice, whatever the pieces."""

    __slots__ = ("_pieces", "_small", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._small = bytearray()
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if len(piece) < SMALL_PIECE:
            self._small += piece
            if len(self._small) < GATHERED_PIECE:
                return
            piece = b""
        self._set_small_aside()
        if piece:
            self._pieces.append(piece)

    def ends_with(self, byte: bytes) -> bool:
        if self._small or not self._pieces:
            return self._small.endswith(byte)
        return self._pieces[-1].endswith(byte)

    def take(self, last: bytes = b"") -> bytes:
        """All of it as one, with `last` at its end; then it is empty."""
        self._set_small_aside()
        if last:
            self._pieces.append(last)
        taken = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self.clear()
        return taken

    def clear(self) -> None:
        """Hold nothing."""
        self._pieces.clear()
        self._small.clear()
        self.size = 0

    def _set_small_aside(self) -> None:
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()


class FedFramer:
    """The part that all framers share: what was fed and not yet looked at, in the pieces it came in."""

    __slots__ = ("_gathering", "_later", "_limit", "_offset", "_piece")

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        if limit < 1:
            raise UsageError(f"a frame limit is at least 1 byte, not {limit}", path="max_frame_bytes")
        self._limit = limit
        self._piece = b""  # looked at up to `_offset`; never all of it: then the next takes its place
        self._offset = 0
        self._later: deque[bytes] = deque()
        self._gathering = Gathering()

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def buffered(self) -> int:
        return len(self._piece) - self._offset + sum(map(len, self._later)) + self._gathering.size

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        # A reader may use the same buffer again for the next bytes, so only `bytes` are kept as they are.
        piece = data if type(data) is bytes else bytes(data)
        if not piece:
            return
        if self._piece:
            self._later.append(piece)
        else:
            self._piece = piece

    def _advance(self) -> bool:
        """Let go of the first piece, for the next if there is one."""
        self._offset = 0
        self._piece = self._later.popleft() if self._later else b""
        return bool(self._piece)

    def _check_all_pulled(self) -> None:
        if self._piece:
            raise UsageError("pull frames until there are no more before you end the stream")

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} limit={self.limit} buffered={self.buffered}>"
