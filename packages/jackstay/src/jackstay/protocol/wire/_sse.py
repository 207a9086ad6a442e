"""Server-sent events as bytes, both ways: a reader that is fed chunks and pulled for events, and a writer.

The rules are the "event stream" chapter of the WHATWG HTML standard: lines end in LF, CR or CRLF, a blank line ends an
event, a colon in front makes a comment. Three things are ours:

- `data` stays bytes. What is inside is JSON, and the JSON-RPC decoder is the one place that judges its UTF-8; a text
  decoder here would turn bad bytes into replacement characters that look like valid JSON. The names that are text
  (`event`, `id`) must be UTF-8, or the stream is broken: an id that was repaired could not be given back.
- A block with an `id` or a `retry` but without data is handed on, with empty data, where a browser would keep it to
  itself. Revision 2025-11-25 primes a client with exactly such an event (basic/transports, "Sending Messages"), and
  whoever may have to resume wants to see it. Empty data is one rule for the caller: nothing to decode.
- An event may hold `limit` bytes of data, enforced while reading. One that is larger costs itself and nothing else:
  it is skipped to its blank line, and its id still counts, or a resumed stream would begin with it for ever.

This file must never know what the events mean: no method, no status, no time. Above: the HTTP transports, client and
server. Below: `_framer`.
"""

import msgspec

from jackstay.errors import FrameTooLargeError, ProtocolError, UsageError
from jackstay.protocol.wire._framer import MAX_FRAME_BYTES, FedFramer, Unfinished

# A proxy that sees nothing for a minute may cut the stream; this is what we send it instead (G17).
KEEP_ALIVE = b": keep-alive\n\n"

# `retry` beyond this is clamped: 31 years of milliseconds, far from where arithmetic on times loses precision, and it
# keeps a line of a million digits away from int().
MAX_RETRY = 999_999_999_999

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIELDS = frozenset((b"data", b"event", b"id", b"retry"))

# What may stand in a line before data of exactly the limit.
_LONGEST_PREFIX = len(_BYTE_ORDER_MARK + b"data: ")


class ServerSentEvent(msgspec.Struct, frozen=True):
    """One event. `id` and `retry` (milliseconds) are what this event itself set; None where it did not."""

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventReader(FedFramer):
    """Reads events from one response. `feed()` it what arrived, then pull `next_event()` until it returns None.

    `last_event_id` is where to resume after the event pulled last (WHATWG: it outlives events without an id, and an
    event that never ended does not move it). `retry` is the reconnection time in milliseconds, None until the server
    sets one. Both outlive `eof()`, so that the same reader can read the stream that resumes this one.
    """

    __slots__ = (
        *("_data", "_ended_in_return", "_error", "_event", "_event_bytes", "_id", "_is_at_start", "_retry"),
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
        # The event being read. The first data line is kept as it is; most events have no second.
        self._data: bytes | bytearray | None = None
        self._event = ""
        self._id: str | None = None
        self._retry: int | None = None
        self._skips_event = False
        self._event_bytes = 0

    def __repr__(self) -> str:
        state = "broken, " if self._error else ""
        return f"<EventReader {state}{self.events_read} read, last id {self.last_event_id!r}, buffered={self.buffered}>"

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take what arrived. Then pull `next_event()` until it returns None: only pulling enforces the limit."""
        chunk = data if type(data) is bytes else bytes(data)
        if not chunk or self._error is not None:
            return
        # CR and CRLF become LF here, at the speed of C. A CR at the very end counts at once (the event must not wait
        # for the next chunk), and a LF that then comes first belonged to it.
        if self._ended_in_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._ended_in_return = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        super().feed(chunk)

    def next_event(self) -> ServerSentEvent | None:
        """The next whole event, or None until more is fed.

        Raises:
            FrameTooLargeError: once for each event over the limit, as soon as that is known. Pull again: the rest of it
                is skipped.
            ProtocolError: an `event` or `id` is not UTF-8. The stream is broken, and every later pull raises the same.
        """
        if self._error is not None:
            raise self._error
        while (line := self._next_line()) is not None:
            if line:
                self._take_line(line)
            elif (event := self._finish_event()) is not None:
                self.events_read += 1
                return event
        return None

    def eof(self) -> Unfinished | None:
        """What the stream ended in the middle of, or None. Call when it has ended and all events are pulled.

        The standard discards an event that is not followed by a blank line; `received` says how much there was of it.
        For a caller that still waits for an answer the end means that the outcome is unknown, with or without such a
        rest. The reader holds nothing afterwards.

        Raises:
            UsageError: if events are left to be pulled.
        """
        self._check_all_pulled()
        rest = self._gathering.take()
        if rest.startswith(b":") or (self._is_at_start and _BYTE_ORDER_MARK.startswith(rest)):
            rest = b""  # a comment, or not even the whole mark
        received = self._event_bytes + len(rest)
        self._is_at_start = True
        self._ended_in_return = False
        self._skips_line = False
        self._forget_event()
        return Unfinished(received) if received else None

    def _next_line(self) -> bytes | None:
        """A line without its end, or None. Every byte is looked at once, whatever the chunks."""
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
                self._event_bytes += end - start
                continue
            line = piece[start:end]
            if self._gathering.size:
                line = self._gathering.take(line)
            if self._is_at_start:
                self._is_at_start = False
                line = line.removeprefix(_BYTE_ORDER_MARK)
            if len(line) > self._limit + _LONGEST_PREFIX:
                self._skip_event(len(line))
                continue
            return line
        return None

    def _keep(self, piece: bytes) -> None:
        """Put by the beginning or middle of a line, or find that the line is over the limit."""
        size = self._gathering.size + len(piece)
        if not self._skips_line and size <= self._limit + _LONGEST_PREFIX:
            self._gathering.add(piece)
        elif self._skips_line:
            self._event_bytes += len(piece)
        else:
            self._gathering.clear()
            self._is_at_start = False
            self._skips_line = True
            self._skip_event(size)

    def _skip_event(self, size: int) -> None:
        self._event_bytes += size
        self._data = None
        if not self._skips_event:
            self._skips_event = True
            raise FrameTooLargeError(size, self._limit)

    def _take_line(self, line: bytes) -> None:
        # Comments and unknown fields are not counted: they are not kept, and a stream that only says "alive" for
        # months must not end for it. One line, of whatever kind, is bounded all the same.
        if line.startswith(b"data:"):
            self._event_bytes += len(line) + 1
            self._take_data(line[6:] if line.startswith(b" ", 5) else line[5:])
            return
        name, _, value = line.partition(b":")
        if name not in _FIELDS:
            return
        self._event_bytes += len(line) + 1
        value = value.removeprefix(b" ")
        if name == b"data":  # a field without a colon has an empty value
            self._take_data(b"")
        elif name == b"event":
            self._event = self._decode("event", value)
        elif name == b"id":
            if b"\0" not in value:
                self._id = self._decode("id", value)
        elif value.isdigit():
            digits = value.lstrip(b"0")
            # Effective at once, as in the standard: a server may say it and close without a blank line.
            self.retry = self._retry = min(int(digits[:13] or b"0"), MAX_RETRY)

    def _take_data(self, value: bytes) -> None:
        if self._skips_event:
            return
        if self._data is None:
            self._data = value
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += b"\n"
            self._data += value
        if len(self._data) > self._limit:
            self._event_bytes -= len(self._data)  # counted already, line by line
            self._skip_event(len(self._data))

    def _finish_event(self) -> ServerSentEvent | None:
        event = None
        if self._id is not None:
            self.last_event_id = self._id
        is_told = self._data is not None or self._id is not None or self._retry is not None
        if is_told and not self._skips_event:
            data = b"" if self._data is None else bytes(self._data)
            event = ServerSentEvent(data, self._event or "message", self._id, self._retry)
        self._forget_event()
        return event

    def _forget_event(self) -> None:
        self._data = None
        self._event = ""
        self._id = None
        self._retry = None
        self._skips_event = False
        self._event_bytes = 0

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


def encode_event(
    data: bytes, event: str | None = None, id: str | None = None, retry: int | None = None
) -> bytes:
    """One whole event, ready to be written. Empty `data` with an `id` is a priming event.

    Line ends inside `data` become separate data lines, which the reader joins with LF: JSON does not mind, since a
    line end cannot stand inside a JSON string.

    Raises:
        UsageError: a line end or lone surrogate in `event` or `id`, NUL in `id`, an empty `event`, a `retry` out of range.
    """
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    if event is None and id is None and retry is None:
        return b"data: %b\n\n" % data
    parts: list[bytes] = []
    if event is not None:
        if not event:
            raise UsageError(
                "an event's name must not be empty: readers would call it 'message'", path="event"
            )
        parts += (b"event: ", _encode_field("event", event), b"\n")
    if id is not None:
        parts += (b"id: ", _encode_field("id", id), b"\n")
    if retry is not None:
        if not 0 <= retry <= MAX_RETRY:
            raise UsageError(f"retry must be from 0 to {MAX_RETRY} milliseconds, not {retry}", path="retry")
        parts.append(b"retry: %d\n" % retry)
    parts += (b"data: ", data, b"\n\n")
    return b"".join(parts)


def encode_comment(text: str) -> bytes:
    """A comment, which readers skip: for keep-alives and for people who look at the wire.

    Raises:
        UsageError: a line end or lone surrogate in `text`.
    """
    return b": " + _encode_field("comment", text) + b"\n\n"


def _encode_field(field: str, value: str) -> bytes:
    if "\n" in value or "\r" in value:
        raise UsageError(f"a server-sent {field} must not contain a line end: {value[:64]!r}", path=field)
    if (
        field == "id" and "\0" in value
    ):  # readers ignore such an id, and no other field (WHATWG HTML, "event stream")
        raise UsageError(f"a server-sent id must not contain NUL: {value[:64]!r}", path=field)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"a server-sent {field} contains a lone surrogate: {value[:64]!r}", path=field
        ) from error
