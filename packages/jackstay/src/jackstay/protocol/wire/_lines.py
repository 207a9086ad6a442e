"""Newline-delimited frames, as every revision of MCP requires for stdio (2026-07-28 basic/transports/stdio).

Only the byte 0x0A ends a line: JSON escapes it in strings, and other line separators (U+2028, a lone carriage return)
are part of the text. A carriage return before the newline is removed, because some peers send one. Blank lines and
lines over the limit are skipped. `framing_of` also returns the other framing that options name.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from jackstay.errors import FrameTooLargeError
from jackstay.protocol.wire._framer import MAX_FRAME_BYTES, START_BYTES, BufferedFramer
from jackstay.protocol.wire._jsonrpc import may_have_id_at_end

if TYPE_CHECKING:
    from jackstay.protocol.wire._content_length import ContentLengthFramer

# The names that options use.
FRAMINGS = ("lines", "content-length")

# The class of the framer, of which each connection has one, and the function that frames payloads within the limit.
Framing: TypeAlias = "tuple[type[LineFramer | ContentLengthFramer], Callable[[Sequence[bytes]], bytes]]"

_BREAKS_TO_SPACES = bytes.maketrans(b"\r\n", b"  ")
_RETURN, _NEWLINE = b"\r\n"


class LineFramer(BufferedFramer):
    """Splits a stream into lines. Every byte is searched once, and only a line that arrived in pieces is joined."""

    __slots__ = ("_beginning", "_end", "_skipped", "waits_for_id")

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        super().__init__(limit)
        self._skipped = 0  # received bytes of the line that is being skipped; 0 if there is none
        # Report a request over the limit at its end, if it has no id at its beginning. For servers: a client that never
        # ends a line gets no response.
        self.waits_for_id = False
        self._beginning = b""  # of a line that is skipped and not reported yet
        self._end = b""

    def next_frame(self) -> bytes | None:
        """Return the next line that is not blank, without its line end, or None until more bytes are fed.

        Raises:
            FrameTooLargeError: once for each line over the limit, as early as possible. Call again: the line is
            skipped.
        """
        while self._piece:
            piece, start = self._piece, self._offset
            newline = piece.find(b"\n", start)
            if newline < 0:
                self._keep(piece, start)
                continue
            self._move_to(newline + 1)
            if self._skipped:
                size, self._skipped = self._skipped + newline - start, 0
                if self._beginning:
                    raise self._report_at_end(size, piece[start:newline])
                continue
            if self._buffer.size or newline - start > self.limit:
                line = self._join(piece, start, newline)
            else:
                line = piece[start:newline]
            if line.endswith(b"\r"):
                line = line[:-1]
            if line and not line.isspace():
                return line
        return None

    def next_frames(self) -> list[bytes]:
        """Return at least the next line, and those after it that can be split at once, last first.

        The list is empty until more bytes are fed. Raises: as `next_frame`.
        """
        piece, start = self._piece, self._offset
        if not piece:
            return []
        end = piece.rfind(b"\n", start)
        # If all lines together are within the limit, then each of them is.
        if end < 0 or end - start > self.limit or self._buffer.size or self._skipped or _RETURN in piece:
            line = self.next_frame()
            return [] if line is None else [line]
        if end + 1 != len(piece):
            self._offset = end + 1
        elif self._pending:
            self._advance()
        else:
            self._piece, self._offset = b"", 0
        lines = piece[start:end].split(b"\n")
        lines.reverse()
        return list(filter(bytes.strip, lines)) or self.next_frames()  # blank lines are skipped

    def eof(self) -> bytes:
        """Return the last line if it has no newline, else nothing. It may be a message: JSON is self-delimiting.

        Raises:
            UsageError: not all frames have been read.
        """
        self._check_all_read()
        self._skipped, self._beginning = 0, b""
        rest = self._buffer.pop()
        return rest if rest.strip() else b""

    def _keep(self, piece: bytes, start: int) -> None:
        """Buffer the beginning or middle of a line, or raise if the line is over the limit."""
        self._advance()
        if self._skipped:
            self._skipped += len(piece) - start
            if self._beginning:
                self._end = (self._end + piece[max(start, len(piece) - START_BYTES) :])[-START_BYTES:]
            return
        size = self._buffer.size + len(piece) - start
        if size > self.limit and not self._fits_without_return(size, piece[-1:]):
            self._skipped = size
            beginning, end = self._drop(piece, start)
            if not self.waits_for_id or not may_have_id_at_end(beginning):
                raise FrameTooLargeError(size, self.limit, start=beginning, end=end)
            self._beginning, self._end = beginning, end
            return
        self._buffer.add(piece[start:])

    def _join(self, piece: bytes, start: int, newline: int) -> bytes:
        """Return the line that ends at `newline`, or raise if it is over the limit."""
        size = self._buffer.size + newline - start
        last = piece[max(start, newline - 1) : newline]
        if size > self.limit and not self._fits_without_return(size, last):
            beginning, end = self._drop(piece[:newline], start)
            raise FrameTooLargeError(size, self.limit, start=beginning, end=end)
        return self._buffer.pop(piece[start:newline])

    def _drop(self, piece: bytes, start: int) -> tuple[bytes, bytes]:
        """Drop what is buffered of the line. Return the first and the last bytes."""
        beginning = self._buffer.start() or piece[start : start + START_BYTES]
        end = (self._buffer.end() + piece[max(start, len(piece) - START_BYTES) :])[-START_BYTES:]
        self._buffer.clear()
        return beginning, end

    def _report_at_end(self, size: int, last: bytes) -> FrameTooLargeError:
        beginning, end = self._beginning, (self._end + last)[-START_BYTES:]
        self._beginning = self._end = b""
        return FrameTooLargeError(size, self.limit, start=beginning, end=end)

    def _fits_without_return(self, size: int, last: bytes) -> bool:
        """Return True if the line is within the limit without its carriage return."""
        return size == self.limit + 1 and (last or self._buffer.end()).endswith(b"\r")


def frame_lines(payloads: Sequence[bytes]) -> bytes:
    """Return the payloads, which must be JSON within the limit, one on each line.

    In JSON raw line breaks occur only between tokens, for indentation; they are replaced by spaces.
    """
    # Searching for an int takes a third of the time of searching for a `bytes` object of length one. Counting the
    # newlines of the lines takes longer than both searches and this copy.
    text = b"".join(payloads)
    if _RETURN in text or _NEWLINE in text:
        payloads = [payload.translate(_BREAKS_TO_SPACES) for payload in payloads]
    return b"\n".join((*payloads, b""))


def framing_of(name: str) -> Framing:
    """Return one of FRAMINGS. The second is loaded on first use: no revision of MCP has it."""
    if name == "content-length":
        from jackstay.protocol.wire._content_length import ContentLengthFramer, frame_content_lengths  # noqa: PLC0415

        return ContentLengthFramer, frame_content_lengths
    return LineFramer, frame_lines
