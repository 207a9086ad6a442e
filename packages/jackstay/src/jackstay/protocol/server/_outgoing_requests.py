"""The requests that a server sends to its client (sampling, roots, elicitation, ping).

Only the handshake era has them; later revisions put such requests into a result. Each request completes exactly once:
with a response, with an error, or by being cancelled. Messages that may not be sent before the client has confirmed
the handshake are queued here, in order.
"""

from collections.abc import Iterator
from typing import TypeAlias

from jackstay.errors import FrameTooLargeError, Json, JsonRpcError, McpError, RequestId, ShutdownError, UsageError
from jackstay.protocol.server.events import Complete, Effect, Fail, Key, OutgoingRequested, Send
from jackstay.protocol.wire._jsonrpc import ABSENT, Error, Result, encode_notification, encode_request
from jackstay.types import encode_json

# The key of the caller, the method, and the id of the client's request that it belongs to. Not the params: they may be
# large.
OutgoingRequest: TypeAlias = tuple[Key, str, RequestId | None]


class OutgoingRequests:
    """The pending requests to the client. Effects are appended to `out`, in order.

    `ids` yields the ids, in ascending order; without it they count from 1.
    """

    __slots__ = ("_ids", "_last_id", "_limit", "_out", "pending", "queued")

    def __init__(self, out: list[Effect], limit: int, ids: Iterator[int] | None = None) -> None:
        self._out = out
        self._limit = limit
        # Ids increase and are never reused: a response to a lower one is late, to a higher one unknown.
        self._ids = ids
        self._last_id = 0
        self.pending: dict[int, OutgoingRequest] = {}
        # Requests before they are encoded, notifications as they will be sent.
        self.queued: list[OutgoingRequested | Send] = []

    def __len__(self) -> int:
        return len(self.pending) + len(self.queued)

    def __repr__(self) -> str:
        return f"<OutgoingRequests {self.pending!r}, {len(self.queued)} queued>"

    def send(self, event: OutgoingRequested) -> None:
        """Send a request, or fail it if it cannot be encoded or is too large."""
        id = self._last_id + 1 if self._ids is None else next(self._ids)
        try:
            frame = encode_request(id, event.method, event.params)
            if len(frame) > self._limit:
                raise FrameTooLargeError(len(frame), self._limit)
        except (UsageError, FrameTooLargeError) as error:
            self._out.append(Fail(event.key, error))
            return
        self._last_id = id
        self.pending[id] = event.key, event.method, event.related_request_id
        self._out.append(Send(frame, event.related_request_id))

    def classify_stray(self, id: object) -> str:
        """Classify a response to no pending request: `late` if the id was used, else `unknown`."""
        return "late" if isinstance(id, int) and 0 < id <= self._last_id else "unknown"

    def complete(self, response: Result | Error) -> None:
        """Complete a pending request with the response of the client."""
        assert isinstance(response.id, int)
        if isinstance(response, Result):
            key, _, _ = self.pending.pop(response.id)
            self._out.append(Complete(key, response.result))
        else:
            data: Json = None if response.data is ABSENT else response.data
            self.fail(response.id, JsonRpcError(response.code, response.message, data))

    def fail(self, id: int, error: McpError) -> None:
        """Complete a pending request with an error."""
        key, method, _ = self.pending.pop(id)
        self._out.append(Fail(key, error.about(method, id)))

    def fail_all(self) -> None:
        """Fail every pending request: the client will not respond any more."""
        for id in list(self.pending):
            self.fail(id, ShutdownError("the connection closed before the client responded", sent=True))

    def cancel(self, key: Key, reason: str) -> None:
        """Remove the requests of this key, and send a cancellation for those that were sent."""
        self.queued = [
            event for event in self.queued if not (isinstance(event, OutgoingRequested) and event.key == key)
        ]
        for id in [id for id, (owner, _, _) in self.pending.items() if owner == key]:
            _, _, related_request_id = self.pending.pop(id)
            frame = encode_notification("notifications/cancelled", _cancel_params(id, reason))
            self._out.append(Send(frame, related_request_id))

    def send_queued(self) -> None:
        """Send what was queued: the handshake is over."""
        queued, self.queued = self.queued, []
        for waiting in queued:
            if isinstance(waiting, OutgoingRequested):
                self.send(waiting)
            else:
                self._out.append(waiting)

    def drop_queued(self) -> int:
        """Drop the queue and fail the requests in it. Returns the number of notifications that were dropped."""
        queued, self.queued = self.queued, []
        requests = [event for event in queued if isinstance(event, OutgoingRequested)]
        self._out += [
            Fail(event.key, ShutdownError("the connection closed before this request was sent")) for event in requests
        ]
        return len(queued) - len(requests)


def _cancel_params(id: int, reason: str) -> bytes:
    if reason:
        try:
            return b'{"requestId":%d,"reason":%b}' % (id, encode_json(reason))
        except UsageError:
            pass  # the cancellation matters more than a reason that cannot be encoded
    return b'{"requestId":%d}' % id
