"""Frames as lines: one message, one newline. What every revision of MCP says of stdio (2026-07-28, transports/stdio).

A newline is the byte 0x0A and nothing else: JSON escapes it inside strings, so it cannot stand inside a message, and
other things that editors call line breaks (U+2028, a lone carriage return) are text. A carriage return before the
newline is dropped, because some peers write one. Blank lines are skipped. After a line over the limit the next
newline is a place to start afresh, so such a line costs itself and nothing else.

Must never know what a line says. Above: `_framing`, the transports. Below: `_framer`.
"""

from jackstay.errors import FrameTooLargeError
from jackstay.protocol.wire._framer import MAX_FRAME_BYTES, FedFramer, Unfinished

_BREAKS_TO_SPACES = bytes.maketrans(b"\r\n", b"  ")
_RETURN, _NEWLINE = b"\r\n"


class LineFramer(FedFramer):
    """Cuts a stream into lines. Every byte is looked at once, and only a line that came in pieces is joined."""

    __slots__ = ("_skipped",)

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        super().__init__(limit)
        self._skipped = 0  # bytes seen of the line that is being skipped; 0 when none is

    def next_frame(self) -> bytes | None:
        """The next line that is not blank, without its end, or None until more is fed.

        Raises:
            FrameTooLargeError: once for each line over the limit, as soon as that is known. Pull again: the rest of the
                line is skipped.
        """
        while self._piece:
            piece, start = self._piece, self._offset
            newline = piece.find(b"\n", start)
            if newline < 0:
                self._keep(piece, start)
                continue
            if newline + 1 == len(piece):
                self._advance()
            else:
                self._offset = newline + 1
            if self._skipped:
                self._skipped = 0
                continue
            if self._gathering.size or newline - start > self._limit:
                line = self._join(piece, start, newline)
            else:
                line = piece[start:newline]
            if line.endswith(b"\r"):
                line = line[:-1]
            if line and not line.isspace():
                return line
        return None

    def eof(self) -> Unfinished | None:
        """The line that has no end, or None. It may be a whole message all the same: JSON says itself where it ends.

        Raises:
            UsageError: if frames are left to be pulled.
        """
        self._check_all_pulled()
        skipped, self._skipped = self._skipped, 0
        if skipped:
            return Unfinished(skipped)
        rest = self._gathering.take()
        return Unfinished(len(rest), data=rest) if rest.strip() else None

    def _keep(self, piece: bytes, start: int) -> None:
        """Put by the beginning or middle of a line, or find that the line is over the limit."""
        self._advance()
        if self._skipped:
            self._skipped += len(piece) - start
            return
        size = self._gathering.size + len(piece) - start
        if size > self._limit and not self._fits_without_return(size, piece[-1:]):
            self._gathering.clear()
            self._skipped = size
            raise FrameTooLargeError(size, self._limit)
        self._gathering.add(piece[start:])

    def _join(self, piece: bytes, start: int, newline: int) -> bytes:
        """The line whose end was found, unless it is over the limit: then nothing of it is copied."""
        size = self._gathering.size + newline - start
        last = piece[max(start, newline - 1) : newline]
        if size > self._limit and not self._fits_without_return(size, last):
            self._gathering.clear()
            raise FrameTooLargeError(size, self._limit)
        return self._gathering.take(piece[start:newline])

    def _fits_without_return(self, size: int, last: bytes) -> bool:
        """True if the one byte too many is the carriage return of a line that is just as long as it may be."""
        if size != self._limit + 1:
            return False
        return last == b"\r" if last else self._gathering.ends_with(b"\r")


def frame_line(payload: bytes, limit: int = MAX_FRAME_BYTES) -> bytes:
    """The payload, which must be JSON, as one line.

    JSON has raw line breaks only between tokens, where the text was indented: they become spaces.

    Raises:
        FrameTooLargeError: over the limit; nothing was sent.
    """
    if len(payload) > limit:
        raise FrameTooLargeError(len(payload), limit)
    if (
        _NEWLINE in payload or _RETURN in payload
    ):  # a byte is found in a third of the time that bytes of one take
        payload = payload.translate(_BREAKS_TO_SPACES)
    return payload + b"\n"
