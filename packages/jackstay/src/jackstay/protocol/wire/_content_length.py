"""Frames with a `Content-Length` header, as in the Language Server Protocol (3.17, "Base Protocol").

Header names are case-insensitive, other headers are ignored, and lines may end in CR LF or LF. Blank lines between
frames and empty frames are skipped. A body over the limit is skipped. After an invalid header the position of the next
frame is unknown, so the stream cannot be read any further.
"""

from collections.abc import Sequence
from typing import Final, NoReturn

from jackstay.errors import FrameTooLargeError, ProtocolError
from jackstay.protocol.wire._framer import MAX_FRAME_BYTES, MAX_QUOTE, BufferedFramer

# Both headers of the protocol take about a hundred bytes. Forty times that allows for others, and limits what is
# buffered of a peer that sends lines or a file.
MAX_HEADER_BYTES: Final = 4_096

# A length with more digits (a petabyte has sixteen) is an error: skipping such a body would never end.
MAX_LENGTH_DIGITS: Final = 15

_LINE_END = b"\r\n"
# The characters of a header name: a token of RFC 9110, section 5.6.2.
_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class ContentLengthFramer(BufferedFramer):
    """Splits a stream into bodies by their headers."""

    __slots__ = ("_header_size", "_is_skipping", "_length", "_lost", "_missing")

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        super().__init__(limit)
        self._reset()
        self._lost: ProtocolError | None = None  # a header was invalid

    def _reset(self) -> None:
        self._header_size = 0  # bytes of the current header; 0 between frames
        self._length: int | None = None  # the Content-Length of the current header
        self._missing = 0  # missing bytes of the body; 0 while in the header
        self._is_skipping = False

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add the next bytes of the stream, in pieces of any size. They are dropped once the framing is lost."""
        if self._lost is None:
            super().feed(data)

    def next_frame(self) -> bytes | None:
        """Return the next body, or None until more bytes are fed.

        Raises:
            FrameTooLargeError: once for each body over the limit, after its header. Call again: the body is skipped.
            ProtocolError: a header is invalid; every later call raises the same. Close the connection.
        """
        if self._lost is not None:
            raise self._lost.with_traceback(None)
        while self._piece:
            if not self._missing:
                self._read_header_line()
                continue
            start = self._offset
            end = min(start + self._missing, len(self._piece))
            part = b"" if self._is_skipping else self._piece[start:end]
            self._missing -= end - start
            self._move_to(end)
            if self._is_skipping:
                if not self._missing:
                    self._reset()
            elif self._missing:
                self._buffer.add(part)
            else:
                self._reset()
                return self._buffer.pop(part) if self._buffer.size else part
        return None

    def next_frames(self) -> list[bytes]:
        """Return the next body in a list, or an empty list."""
        body = self.next_frame()
        return [] if body is None else [body]

    def eof(self) -> bytes:
        """Return nothing: a last frame is never complete without all of its bytes.

        Raises:
            ProtocolError: the stream ended inside a frame.
            UsageError: not all frames have been read.
        """
        self._check_all_read()
        data = self._buffer.pop()
        length, missing, header_size = self._length, self._missing, self._header_size
        self._reset()
        received = str(header_size)
        if missing and length is not None:
            received = f"{length - missing} of {length}"
        elif header_size == len(data) and not data.strip():
            return b""  # between two frames
        raise ProtocolError(f"the stream ended inside a frame, after {received} bytes")

    def _read_header_line(self) -> None:
        piece, start = self._piece, self._offset
        newline = piece.find(b"\n", start, start + MAX_HEADER_BYTES)
        end = newline + 1 if newline >= 0 else min(len(piece), start + MAX_HEADER_BYTES)
        part = piece[start:end]
        self._header_size += end - start
        self._move_to(end)
        if self._header_size > MAX_HEADER_BYTES:
            self._fail(f"a header of more than {MAX_HEADER_BYTES} bytes", self._buffer.pop(part))
        if newline < 0:
            self._buffer.add(part)
            return
        whole = self._buffer.pop(part)
        line = whole.rstrip(_LINE_END)
        if line:
            self._read_header(line)
        elif self._length is not None:
            self._begin_body(self._length)
        elif self._header_size > len(whole):
            self._fail("a header without Content-Length", b"")
        else:
            self._header_size = 0  # a blank line between frames

    def _read_header(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if not name or not colon or name.translate(None, _TOKEN):
            self._fail("a line that is not a header", line)
        if name.lower() == b"content-length":
            if self._length is not None:
                self._fail("a second Content-Length in one header", line)
            value = value.strip(b" \t")
            if not value.isdigit() or len(value) > MAX_LENGTH_DIGITS:
                self._fail("a Content-Length that is not a count of bytes", line)
            self._length = int(value)

    def _begin_body(self, length: int) -> None:
        if length == 0:
            self._reset()
            return
        self._missing = length
        if length > self.limit:
            self._is_skipping = True
            raise FrameTooLargeError(length, self.limit)

    def _fail(self, problem: str, line: bytes) -> NoReturn:
        quote = line[:MAX_QUOTE].decode("utf-8", "replace")
        self._lost = ProtocolError(f"expected a Content-Length header, got {problem}", quote=quote, code=-32700)
        self._buffer.clear()
        self._reset()
        self._pending.clear()
        self._advance()
        raise self._lost


def frame_content_lengths(payloads: Sequence[bytes]) -> bytes:
    """Return the payloads, each with its header. They must be within the limit."""
    return b"".join([b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload) for payload in payloads])
