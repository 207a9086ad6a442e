"""The client's requests in flight, and every response that is sent.

A request is in flight from the time it is passed to a handler until the response or a cancellation; a later result is
dropped. A client that sends a batch (2025-03-26 only) gets one batch back, in the order of its requests and independent
of the order in which the handlers finish. A cancelled member has no response and does not delay the others.
"""

import msgspec

from jackstay.errors import Json, McpError, RequestId
from jackstay.protocol._methods import Method
from jackstay.protocol.server._stateless import RequestMeta
from jackstay.protocol.server.events import Effect, Send, Serve, StopServing
from jackstay.protocol.wire._jsonrpc import ABSENT, Absent, Batch, Request, encode_error, join_batch


class PendingBatch(msgspec.Struct, eq=False):
    """A batch that is being processed or has requests in flight."""

    # The id of one of its requests, or None if it has none.
    related_request_id: RequestId | None
    # The index of each request in flight, by id, and the responses by index.
    members: dict[RequestId, int] = msgspec.field(default_factory=dict)
    responses: dict[int, bytes] = msgspec.field(default_factory=dict)


# Shared by all connections without a batch, and never modified.
_NO_BATCHES: dict[RequestId, PendingBatch] = {}


class PeerRequests:
    """The requests in flight. Effects are appended to `out`, in order.

    `receive` and `finish` of the connection use the public members directly: a request without progress and without a
    batch is open while its id is in `in_flight`, and nothing else refers to it.
    """

    __slots__ = ("_batch", "_limit", "_out", "batches", "in_flight", "member", "progress", "serial")

    def __init__(self, out: list[Effect], limit: int) -> None:
        self._out = out
        self._limit = limit
        # The serial number of each request, by the id of the client. Integers and strings never compare equal.
        self.in_flight: dict[RequestId, int] = {}
        self.serial = 0
        # The last progress of each request that reported any.
        self.progress: dict[RequestId, float] = {}
        # The batch of each request in flight that belongs to one. Replaced when the first batch arrives; most
        # connections never receive one.
        self.batches = _NO_BATCHES
        # The batch that is being processed, and the index of the current member; None between batches.
        self._batch: PendingBatch | None = None
        self.member = 0

    def __repr__(self) -> str:
        return f"<PeerRequests {self.in_flight!r}>"

    # --- requests -----------------------------------------------------------------------------------------------------

    def serve(self, request: Request, method: Method, version: str, meta: RequestMeta | None) -> None:
        """Pass a request to its handler."""
        self.serial += 1
        self.in_flight[request.id] = self.serial
        if self._batch is not None:
            self.batches[request.id] = self._batch
            self._batch.members[request.id] = self.member
        self._out.append(Serve(request.id, self.serial, method, request.params, version, meta))

    def respond(self, id: RequestId, frame: bytes) -> None:
        """Respond to a request in flight with this frame, now or with the rest of its batch."""
        if not self._forget(id, frame):
            self._out.append(Send(frame, id))

    def stop(self, id: RequestId, reason: str) -> None:
        """Cancel a request in flight: its handler is cancelled, and no response is sent."""
        self._out.append(StopServing(id, self.in_flight[id], reason))
        self._forget(id, None)

    def stop_all(self, reason: str) -> None:
        """Cancel all requests in flight. The responses that batches already have are kept for `flush_batches`."""
        self._out += [StopServing(id, serial, reason) for id, serial in self.in_flight.items()]
        self.in_flight.clear()
        self.progress.clear()

    def _forget(self, id: RequestId, frame: bytes | None) -> bool:
        """Remove a request. Returns True if its response, if any, belongs to a batch."""
        del self.in_flight[id]
        self.progress.pop(id, None)
        batch = self.batches.pop(id, None)
        if batch is None:
            return False
        member = batch.members.pop(id)
        if frame is not None:
            batch.responses[member] = frame
        if not batch.members and batch is not self._batch:
            self._send_batch(batch)
        return True

    # --- responses that no handler makes ------------------------------------------------------------------------------

    def reply(self, frame: bytes, related_request_id: RequestId | None, error: McpError | None = None) -> None:
        """Send a response that no handler makes, or add it to the batch that is being processed."""
        if self._batch is None:
            self._out.append(Send(frame, related_request_id, error))
        else:
            self._batch.responses[self.member] = frame

    def reject(
        self, error: McpError, id: RequestId | Absent, unreadable: Absent | None, data: "dict[str, Json]"
    ) -> None:
        """Send an error response to a frame that is not a message. `unreadable` replaces an id that could not be read.

        An id that is in flight counts as unreadable: the client would match the error to that request.
        """
        assert error.code is not None
        readable = None if isinstance(id, Absent) or id in self.in_flight else id
        frame = encode_error(unreadable if readable is None else readable, error.code, error.message, data or ABSENT)
        self.reply(frame, readable, error)

    # --- batches ------------------------------------------------------------------------------------------------------

    def open_batch(self, batch: Batch) -> None:
        """Begin a batch: later responses belong to it."""
        ids = [member.id for member in batch.members if isinstance(member, Request)]
        if self.batches is _NO_BATCHES:
            self.batches = {}
        self._batch = PendingBatch(ids[0] if ids else None)

    def close_batch(self) -> None:
        """End the processing of a batch. It is sent now if none of its requests is in flight."""
        batch, self._batch = self._batch, None
        assert batch is not None
        if not batch.members:
            self._send_batch(batch)

    def flush_batches(self) -> None:
        """Send the available responses of every batch: no more will follow."""
        for batch in dict.fromkeys(self.batches.values()):
            self._send_batch(batch)
        self.batches.clear()

    def _send_batch(self, batch: PendingBatch) -> None:
        """Send one batch; nothing if it is empty, and single responses if it would be over the limit.

        A server may respond to a batch with a batch but need not (2025-03-26 basic/index).
        """
        frames = [batch.responses[member] for member in sorted(batch.responses)]
        if not frames:
            return
        joined = join_batch(frames)
        is_too_large = len(joined) > self._limit
        self._out += [Send(frame, batch.related_request_id) for frame in (frames if is_too_large else [joined])]
