"""The messages of an inspected server: kept as lines of a recording, and published with what belongs together.

It is the destination of `RecordedTarget`. A response is paired with its request, a later round of a call with the first
one, and a request that is sent again on another connection with the one that was lost.
"""

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from jackstay.errors import RequestId
from jackstay.inspector._events import EventLog
from jackstay.testing import Side, event_line, frame_line, header_line
from jackstay.types import DECODE_ERRORS

# The size of the kept lines; the oldest are dropped above it.
MAX_KEPT_BYTES: Final = 67_108_864

# A larger message is published without its content, which the page requests when it is opened.
MAX_PUBLISHED_BYTES: Final = 65_536


class OpenRequest(msgspec.Struct):
    """A request without a response yet: the number of its event, its time and what identifies it when sent again."""

    number: int
    at: float
    method: str
    key: bytes


class Transcript:
    """A recording in memory. `save()` returns it as a file for `jackstay replay`."""

    path = "(memory)"
    error: OSError | None = None

    def __init__(
        self,
        target: str,
        events: EventLog,
        clock: Callable[[], float] = time.monotonic,
        *,
        max_kept_bytes: int | None = None,
    ) -> None:
        self._events = events
        self._clock = clock
        self._began = clock()
        self._max_kept_bytes = MAX_KEPT_BYTES if max_kept_bytes is None else max_kept_bytes
        self._header = header_line(target, datetime.now(UTC))
        self._lines: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._connection = 0
        # (connection, side that sent the request, id) -> the request.
        self._open: dict[tuple[int, Side, RequestId], OpenRequest] = {}
        # Requests of the client that a connection left without a response; and first rounds, by request state.
        self._lost: dict[bytes, int] = {}

    def __repr__(self) -> str:
        return f"<Transcript {len(self._lines)} lines, {self._size} bytes>"

    # --- the destination of a recorded target -------------------------------------------------------------------------

    def begin(self) -> int:
        """See `RecordingFile.begin`."""
        self._connection += 1
        self._events.publish("connection", {"connection": self._connection, "at": self._now()})
        return self._connection

    def end(self) -> None:
        """See `RecordingFile.end`. Everything was published by the event before it."""

    def frame(self, sender: Side, connection: int, frame: bytes) -> None:
        """Keep and publish a frame."""
        at = self._now()
        fields: dict[str, Any] = {"at": at, "connection": connection, "from": sender, "size": len(frame)}
        try:
            message = msgspec.json.decode(frame)
        except DECODE_ERRORS:
            message = None
        is_message = isinstance(message, dict) and message.get("jsonrpc") == "2.0"
        if is_message:
            fields |= self._relation(sender, connection, message, at)
        else:
            fields |= {"kind": "garbage", "text": frame[:MAX_PUBLISHED_BYTES].decode("utf-8", "replace")}
        if len(frame) > MAX_PUBLISHED_BYTES:
            fields["is_large"] = True
        elif is_message:
            fields["message"] = msgspec.Raw(frame.strip())
        number = self._events.publish("message", fields)
        if fields.get("kind") == "request":
            request = OpenRequest(number, at, message["method"], _key(message))
            self._open[(connection, sender, message["id"])] = request
        self._keep(number, frame_line(sender, at, connection, frame))

    def event(self, sender: Side, connection: int, what: str, value: RequestId, **more: str | int) -> None:
        """Keep and publish another event of a connection, such as its end."""
        at = self._now()
        fields = {"at": at, "connection": connection, "from": sender, "kind": what, "text": str(value), **more}
        if what == "ended":
            for key in [key for key in self._open if key[0] == connection]:
                request = self._open.pop(key)
                self._lost[request.key] = request.number
        elif what == "lost" and (connection, "client", value) in self._open:
            fields["pair"] = self._open.pop((connection, "client", value)).number
        number = self._events.publish("message", fields)
        self._keep(number, event_line(sender, at, connection, what, value, **more))

    # --- reading ------------------------------------------------------------------------------------------------------

    def find(self, number: int) -> bytes | None:
        """Return the line of the recording with this number of its event, or None if it was dropped."""
        return next((line for other, line in self._lines if other == number), None)

    def save(self) -> bytes:
        """Return the recording as a file."""
        return self._header + b"".join(line for _, line in self._lines)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock() - self._began

    def _keep(self, number: int, line: bytes) -> None:
        self._lines.append((number, line))
        self._size += len(line)
        while self._size > self._max_kept_bytes and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()[1])
        # Requests without a response are no longer matched once they were dropped.
        oldest = self._lines[0][0]
        while self._open and next(iter(self._open.values())).number < oldest:
            del self._open[next(iter(self._open))]
        while self._lost and next(iter(self._lost.values())) < oldest:
            del self._lost[next(iter(self._lost))]

    def _relation(self, sender: Side, connection: int, message: dict[str, Any], at: float) -> dict[str, Any]:
        """Return the kind of a message, and the number of the message that it belongs to."""
        id, method = message.get("id"), message.get("method")
        if isinstance(method, str):
            if not isinstance(id, int | str):
                return {"kind": "notification", "method": method}
            fields: dict[str, Any] = {"kind": "request", "method": method, "id": id}
            again = self._lost.pop(_key(message), None) if sender == "client" else None
            if again is not None:
                fields["again"] = again
            params = message.get("params")
            if isinstance(params, dict) and ("inputResponses" in params or "requestState" in params):
                fields["is_later_round"] = True
            return fields
        other: Side = "server" if sender == "client" else "client"
        fields = {"kind": "error" if "error" in message else "response", "id": id}
        request = self._open.pop((connection, other, id), None) if isinstance(id, int | str) else None
        if request is not None:
            fields |= {"pair": request.number, "method": request.method, "seconds": at - request.at}
        result = message.get("result")
        if isinstance(result, dict):
            if result.get("resultType") == "input_required":
                fields["wants_input"] = True
            fields["is_error"] = result.get("isError") is True
        return fields


def _key(message: dict[str, Any]) -> bytes:
    """Return what a request has in common with the same request on another connection."""
    params = message.get("params")
    if isinstance(params, dict):
        params = {name: value for name, value in params.items() if name != "_meta"}
    return msgspec.json.encode([message.get("method"), params])
