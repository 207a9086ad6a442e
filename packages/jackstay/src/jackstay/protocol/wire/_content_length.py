"""Frames behind a header that counts them: `Content-Length: 17`, a blank line, seventeen bytes.

The framing of the Language Server Protocol (3.17, "Base Protocol"), offered as an option beside lines (docs/design/connection.md,
row 3). Names of headers are compared without case; headers other than Content-Length, Content-Type for
instance, are read over; lines may end in CR LF, as the protocol says, or in LF alone. Blank lines between frames are
skipped, and so is a frame of no bytes.

A body over the limit can be skipped, because its end is known. Where a header cannot be read the end of nothing is
known, and to guess would be to read somebody's text as our frames: then the framing is lost and stays lost.

Must never know what a body says. Above: `_framing`, the transports. Below: `_framer`.
"""

from typing import Final, NoReturn

from jackstay.errors import FrameTooLargeError, ProtocolError
from jackstay.protocol.wire._framer import MAX_FRAME_BYTES, FedFramer, Unfinished

# Both headers of the protocol take about a hundred bytes. Forty times that leaves room for others and stops a peer
# that speaks lines, or sends a file, before much of it is kept.
MAX_HEADER_BYTES: Final = 4_096

# A length of more digits (a petabyte is sixteen) is not a long body but a mistake: it would be skipped for ever.
MAX_LENGTH_DIGITS: Final = 15

# How much of a line an error shows.
LONGEST_QUOTE: Final = 120

_LINE_END = b"\r\n"
# What a name is made of: a token of RFC 9110, section 5.6.2.
_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class ContentLengthFramer(FedFramer):
    """Cuts a stream into bodies, by their headers."""

    __slots__ = ("_header_size", "_is_skipping", "_length", "_lost", "_missing")

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        super().__init__(limit)
        self._header_size = 0  # bytes of the header so far; 0 between frames
        self._length: int | None = None  # what the header said
        self._missing = 0  # bytes of the body still to come; 0 while in the header
        self._is_skipping = False
        self._lost: tuple[str, str] | None = None  # what could not be read, and a quote of it

    @property
    def is_lost(self) -> bool:
        """True once a header could not be read. Nothing more will come, and what is fed is dropped."""
        return self._lost is not None

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes of the stream, in pieces of any size. Dropped once the framing is lost."""
        if self._lost is None:
            super().feed(data)

    def next_frame(self) -> bytes | None:
        """The next body, or None until more is fed.

        Raises:
            FrameTooLargeError: once for each body over the limit, when its header was read and before its first byte is.
                Pull again: the body is skipped.
            ProtocolError: if a header cannot be read; from then on always. Close the connection.
        """
        if self._lost is not None:
            raise _loss(*self._lost)
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
                    self._start_afresh()
            elif self._missing:
                self._gathering.add(part)
            else:
                self._start_afresh()
                return self._gathering.take(part) if self._gathering.size else part
        return None

    def eof(self) -> Unfinished | None:
        """The frame that is not whole, or None. `data` is what there is of its body, or of a line of its header.

        Raises:
            UsageError: if frames are left to be pulled.
        """
        self._check_all_pulled()
        data = self._gathering.take()
        length, missing, header_size = self._length, self._missing, self._header_size
        self._start_afresh()
        if missing and length is not None:
            return Unfinished(length - missing, length, data)
        is_between_frames = header_size == len(data) and not data.strip()
        return None if is_between_frames else Unfinished(header_size, data=data)

    def _read_header_line(self) -> None:
        piece, start = self._piece, self._offset
        newline = piece.find(b"\n", start, start + MAX_HEADER_BYTES)
        end = newline + 1 if newline >= 0 else min(len(piece), start + MAX_HEADER_BYTES)
        part = piece[start:end]
        self._header_size += end - start
        self._move_to(end)
        if self._header_size > MAX_HEADER_BYTES:
            self._lose(f"a header of more than {MAX_HEADER_BYTES} bytes", self._gathering.take(part))
        if newline < 0:
            self._gathering.add(part)
            return
        whole = self._gathering.take(part)
        line = whole.rstrip(_LINE_END)
        if line:
            self._read_header(line)
        elif self._length is not None:
            self._begin_body(self._length)
        elif self._header_size > len(whole):
            self._lose("a header without Content-Length", b"")
        else:
            self._header_size = 0  # a blank line between frames

    def _read_header(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if not name or not colon or name.translate(None, _TOKEN):
            self._lose("a line that is not a header", line)
        if name.lower() == b"content-length":
            if self._length is not None:
                self._lose("a second Content-Length in one header", line)
            value = value.strip(b" \t")
            if not value.isdigit() or len(value) > MAX_LENGTH_DIGITS:
                self._lose("a Content-Length that is not a count of bytes", line)
            self._length = int(value)

    def _begin_body(self, length: int) -> None:
        if length == 0:
            self._start_afresh()
            return
        self._missing = length
        if length > self._limit:
            self._is_skipping = True
            raise FrameTooLargeError(length, self._limit)

    def _move_to(self, offset: int) -> None:
        if offset == len(self._piece):
            self._advance()
        else:
            self._offset = offset

    def _start_afresh(self) -> None:
        self._header_size = 0
        self._length = None
        self._missing = 0
        self._is_skipping = False

    def _lose(self, what: str, line: bytes) -> NoReturn:
        self._lost = (what, line[:LONGEST_QUOTE].decode("utf-8", "replace"))
        self._gathering.clear()
        self._start_afresh()
        self._later.clear()
        self._advance()
        raise _loss(*self._lost)


def _loss(what: str, quote: str) -> ProtocolError:
    return ProtocolError(
        f"the framing is lost: {what}, where Content-Length was expected", quote=quote, code=-32700
    )


def frame_content_length(payload: bytes, limit: int = MAX_FRAME_BYTES) -> bytes:
    """The payload behind its header.

    Raises:
        FrameTooLargeError: over the limit; nothing was sent.
    """
    if len(payload) > limit:
        raise FrameTooLargeError(len(payload), limit)
    return b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)
