"""Server-sent events: an incremental reader and an encoder (WHATWG HTML, "Server-sent events").

The `data` of an event stays `bytes`: a lenient text decoder could turn invalid bytes into valid JSON. An `event` or
`id` that is not UTF-8 is an error. Events with an `id` or `retry` but without data are returned too, because revision
2025-11-25 uses them to enable resumption (basic/transports, "Sending Messages").
"""

import msgspec

from jackstay.errors import FrameTooLargeError, ProtocolError, UsageError
from jackstay.protocol.wire._framer import MAX_FRAME_BYTES, BufferedFramer

# Proxies may close a stream without traffic; this comment keeps it open (docs/guarantees.md G17).
KEEP_ALIVE = b": keep-alive\n\n"

# A larger `retry` is clamped to this, 31 years in milliseconds: floats stay exact, and int() never gets a million
# digits.
MAX_RETRY = 999_999_999_999

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIELDS = frozenset((b"data", b"event", b"id", b"retry"))

# The longest prefix of a line whose data has exactly the maximum size.
_MAX_PREFIX = len(_BYTE_ORDER_MARK + b"data: ")


class ServerSentEvent(msgspec.Struct, frozen=True):
    """One event. `id` and `retry` (milliseconds) are None if the event did not set them."""

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventReader(BufferedFramer):
    """Reads events from one response. Call `feed`, then `next_event` until it returns None.

    `last_event_id` is where to resume after the last event that was read: events without an id and incomplete events do
    not change it. `retry` is the reconnection time in milliseconds, None until the server sets one.

    An event may have `limit` bytes of data. A larger one is skipped up to its blank line, but its id still counts:
    otherwise a resumed stream would always begin with it.
    """

    __slots__ = (
        *("_data", "_ended_in_return", "_error", "_event", "_id", "_is_at_start", "_retry"),
        *("_skips_event", "_skips_line", "events_read", "last_event_id", "retry"),
    )

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        super().__init__(limit)
        self.last_event_id = ""
        self.retry: int | None = None
        self.events_read = 0
        self._is_at_start = True
        self._ended_in_return = False
        self._skips_line = False
        self._error: ProtocolError | None = None
        self._reset_event()

    def _reset_event(self) -> None:
        """Begin an event. Its first data line is not copied; most events have only one."""
        self._data: bytes | bytearray | None = None
        self._event = ""
        self._id: str | None = None
        self._retry: int | None = None
        self._skips_event = False

    def __repr__(self) -> str:
        state = "broken, " if self._error else ""
        return f"<EventReader {state}{self.events_read} read, last id {self.last_event_id!r}, buffered={self.buffered}>"

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add received bytes. Then call `next_event()` until it returns None: only this enforces the limit."""
        chunk = data if type(data) is bytes else bytes(data)
        if not chunk or self._error is not None:
            return
        # Normalise CR and CRLF to LF. A CR at the end of a chunk counts immediately, so that the event need not wait
        # for the next chunk; an LF at the start of the next chunk then belongs to it.
        if self._ended_in_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._ended_in_return = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        super().feed(chunk)

    def next_event(self) -> ServerSentEvent | None:
        """Return the next complete event, or None until more bytes are fed.

        Raises:
            FrameTooLargeError: once for each event over the limit, as early as possible. Call again: it is skipped.
            ProtocolError: an `event` or `id` is not UTF-8. Every later call raises the same.
        """
        if self._error is not None:
            raise self._error
        while (line := self._next_line()) is not None:
            if line:
                self._process_line(line)
            elif (event := self._finish_event()) is not None:
                self.events_read += 1
                return event
        return None

    def _next_line(self) -> bytes | None:
        """Return a line without its line end, or None. Every byte is searched once, whatever the size of the chunks."""
        while self._piece:
            piece, start = self._piece, self._offset
            end = piece.find(b"\n", start)
            if end < 0:
                self._advance()
                self._keep(piece[start:])
                continue
            if end + 1 == len(piece):
                self._advance()
            else:
                self._offset = end + 1
            if self._skips_line:
                self._skips_line = False
                continue
            line = piece[start:end]
            if self._buffer.size:
                line = self._buffer.pop(line)
            if self._is_at_start:
                self._is_at_start = False
                line = line.removeprefix(_BYTE_ORDER_MARK)
            if len(line) > self.limit + _MAX_PREFIX:
                self._skip_event(len(line))
                continue
            return line
        return None

    def _keep(self, piece: bytes) -> None:
        """Buffer the beginning or middle of a line, or raise if the line is over the limit."""
        size = self._buffer.size + len(piece)
        if self._skips_line:
            return
        if size <= self.limit + _MAX_PREFIX:
            self._buffer.add(piece)
        else:
            self._buffer.clear()
            self._is_at_start = False
            self._skips_line = True
            self._skip_event(size)

    def _skip_event(self, size: int) -> None:
        self._data = None
        if not self._skips_event:
            self._skips_event = True
            raise FrameTooLargeError(size, self.limit)

    def _process_line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._add_data(line[6:] if line.startswith(b" ", 5) else line[5:])
            return
        name, _, value = line.partition(b":")
        if name not in _FIELDS:
            return
        value = value.removeprefix(b" ")
        if name == b"data":  # a field without a colon has an empty value
            self._add_data(b"")
        elif name == b"event":
            self._event = self._decode("event", value)
        elif name == b"id":
            if b"\0" not in value:
                self._id = self._decode("id", value)
        elif value.isdigit():
            digits = value.lstrip(b"0")
            # Effective immediately, as in the standard: a server may send it and close without a blank line.
            self.retry = self._retry = min(int(digits[:13] or b"0"), MAX_RETRY)

    def _add_data(self, value: bytes) -> None:
        if self._skips_event:
            return
        if self._data is None:
            self._data = value
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += b"\n"
            self._data += value
        if len(self._data) > self.limit:
            self._skip_event(len(self._data))

    def _finish_event(self) -> ServerSentEvent | None:
        event = None
        if self._id is not None:
            self.last_event_id = self._id
        has_fields = self._data is not None or self._id is not None or self._retry is not None
        if has_fields and not self._skips_event:
            data = b"" if self._data is None else bytes(self._data)
            event = ServerSentEvent(data, self._event or "message", self._id, self._retry)
        self._reset_event()
        return event

    def _decode(self, field: str, value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            while self._piece:
                self._advance()
            self._error = ProtocolError(
                f"the {field} of a server-sent event is not UTF-8 (byte {error.start})",
                path=f"event {self.events_read + 1}",
                quote=value[:64].decode("ascii", "backslashreplace"),
            )
            raise self._error from error


def encode_event(data: bytes, event: str | None = None, id: str | None = None, retry: int | None = None) -> bytes:
    """Encode one event. Empty `data` with an `id` is a priming event.

    Line ends in `data` become separate data lines, which the reader joins with LF. This does not change JSON, in which
    line ends cannot occur inside strings.

    Raises:
        UsageError: a line end or lone surrogate in `event` or `id`, NUL in `id`, an empty `event`, an invalid `retry`.
    """
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    if event is None and id is None and retry is None:
        return b"data: %b\n\n" % data
    parts: list[bytes] = []
    if event is not None:
        if not event:
            raise UsageError("event must not be empty: readers would use 'message'", path="event")
        parts += (b"event: ", _encode_field("event", event), b"\n")
    if id is not None:
        parts += (b"id: ", _encode_field("id", id), b"\n")
    if retry is not None:
        if not 0 <= retry <= MAX_RETRY:
            raise UsageError(f"retry must be from 0 to {MAX_RETRY} milliseconds, not {retry!r}", path="retry")
        parts.append(b"retry: %d\n" % retry)
    parts += (b"data: ", data, b"\n\n")
    return b"".join(parts)


def _encode_field(field: str, value: str) -> bytes:
    if "\n" in value or "\r" in value:
        raise UsageError(f"{field} must not contain a line end: {value[:64]!r}", path=field)
    # Readers ignore such an id, but accept NUL in other fields.
    if field == "id" and "\0" in value:
        raise UsageError(f"id must not contain NUL: {value[:64]!r}", path=field)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{field} must not contain a lone surrogate: {value[:64]!r}", path=field) from error
