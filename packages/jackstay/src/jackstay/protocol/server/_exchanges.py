"""The requests of a client that are in flight, and every answer that leaves: one each, and none after a cancel.

An exchange is one request and its answer. It begins when a request is handed to a handler and ends with its answer, or
with its cancel; whatever comes for it afterwards is late. Answers of a 2025-03-26 array wait for each other
(`_batches`); an answer larger than a frame may be is replaced, because no peer would read it.

Must never know a state, a method's meaning or which row of the table led here. Above: `_connection`. Below: `_jsonrpc`,
`_batches`, `events`.
"""

from math import inf

from jackstay.errors import Json, McpError, RequestId
from jackstay.protocol._methods import Method
from jackstay.protocol.server._batches import Batches
from jackstay.protocol.server._stateless import RequestMeta
from jackstay.protocol.server.events import Effect, Send, Serve, StopServing
from jackstay.protocol.wire._jsonrpc import (
    ABSENT,
    Absent,
    Batch,
    ErrorCode,
    Request,
    encode_error,
    join_batch,
)

# Nothing is ever put into this one.
_NO_BATCHES = Batches()


class Exchanges:
    """Requests in flight. Effects are appended to `out`, in order."""

    __slots__ = (
        "_batch",
        "_batches",
        "_limit",
        "_member",
        "_out",
        "_progress",
        "counts",
        "in_flight",
        "serial",
    )

    def __init__(self, out: list[Effect], limit: int) -> None:
        self._out = out
        self._limit = limit
        # The serial of each request, by the client's id. Integers and strings never compare equal.
        self.in_flight: dict[RequestId, int] = {}
        self.serial = 0
        self.counts: dict[str, int] = {}
        self._progress: dict[RequestId, float] = {}
        # One for all until an array comes: most connections never see any.
        self._batches = _NO_BATCHES
        # The array whose members are being looked at, and which of them; None between arrays.
        self._batch: int | None = None
        self._member = 0

    def __repr__(self) -> str:
        return f"<Exchanges {self.in_flight!r}>"

    def copy(self, out: list[Effect]) -> "Exchanges":
        """An independent copy, for searching the states of a core."""
        twin = Exchanges(out, self._limit)
        twin.in_flight = self.in_flight.copy()
        twin.serial = self.serial
        twin.counts = self.counts.copy()
        twin._progress = self._progress.copy()
        twin._batches = self._batches.copy()
        twin._batch = self._batch
        twin._member = self._member
        return twin

    def snapshot(self) -> tuple[object, ...]:
        """Everything that matters. Counts and serials only grow, and are compared with nothing that stays."""
        return frozenset(self.in_flight), frozenset(self._progress.items()), self._batches.snapshot()

    def count(self, what: str) -> int:
        """One more of those."""
        self.counts[what] = count = self.counts.get(what, 0) + 1
        return count

    @property
    def is_plain(self) -> bool:
        """True while the only table that knows the requests in flight is `in_flight`: for the hot path."""
        return not self._progress and not self._batches.answers

    # --- requests -----------------------------------------------------------------------------------------------------

    def serve(self, request: Request, row: Method, version: str, meta: RequestMeta | None) -> None:
        """Hand a request to its handler."""
        self.serial += 1
        self.in_flight[request.id] = self.serial
        if self._batch is not None:
            self._batches.expect(self._batch, self._member, request.id)
        self._out.append(Serve(request.id, self.serial, row, request.params, version, meta))

    def is_current(self, id: RequestId, serial: int) -> bool:
        """True if this very request, and not only one of its id, is in flight."""
        return self.in_flight.get(id) == serial

    def advance(self, id: RequestId, progress: float) -> None:
        """Remember how far a request has come."""
        self._progress[id] = progress

    def would_advance(self, id: RequestId, progress: float) -> bool:
        """True if that is further than before: progress must increase (basic/utilities/progress). NaN never does."""
        return self._progress.get(id, -inf) < progress < inf

    def settle(self, id: RequestId, frame: bytes) -> None:
        """Answer a request in flight with this frame, now or with the rest of its array."""
        frame = self._fit(id, frame)
        if not self._forget(id, frame):
            self._out.append(Send(frame, id))

    def stop(self, id: RequestId, reason: str) -> None:
        """Cancel a request in flight: its handler stops, and it has no answer."""
        self._out.append(StopServing(id, self.in_flight[id], reason))
        self._forget(id, None)

    def stop_all(self, reason: str) -> None:
        """Cancel everything in flight. What arrays have of their answers still waits for `flush`."""
        self._out += [StopServing(id, serial, reason) for id, serial in self.in_flight.items()]
        self.in_flight.clear()
        self._progress.clear()

    def _forget(self, id: RequestId, frame: bytes | None) -> bool:
        """Take a request out of every table. True if its answer, where there is one, belongs to an array."""
        del self.in_flight[id]
        self._progress.pop(id, None)
        number = self._batches.settle(id, frame)
        if number is None:
            return False
        self._close(number)
        return True

    def _fit(self, id: RequestId, frame: bytes) -> bytes:
        """The frame, or what is said instead of one that no peer would read."""
        if len(frame) <= self._limit:
            return frame
        self.count("answer too large")
        data: dict[str, Json] = {"size": len(frame), "limit": self._limit}
        said = f"the answer of {len(frame)} bytes is over the limit of {self._limit}; raise max_frame_bytes on both sides"
        return encode_error(id, ErrorCode.INTERNAL_ERROR, said, data)

    # --- answers that are made at once --------------------------------------------------------------------------------

    def reply(self, frame: bytes, about: RequestId | None, error: McpError | None = None) -> None:
        """Send an answer that no handler makes, or put it where the array that is being looked at wants it."""
        if self._batch is None:
            self._out.append(Send(frame, about, error))
        else:
            self._batches.put(self._batch, self._member, frame)

    def reject(
        self, error: McpError, id: RequestId | Absent, unreadable: Absent | None, data: "dict[str, Json]"
    ) -> None:
        """Answer a frame that is no message. `unreadable` is what stands for an id that could not be read.

        An id in flight is taken for unreadable: an answer with it would be the answer to that request.
        """
        assert error.code is not None
        if isinstance(id, Absent) or id in self.in_flight:
            self.reply(encode_error(unreadable, error.code, error.message, data or ABSENT), None, error)
        else:
            self.reply(encode_error(id, error.code, error.message, data or ABSENT), id, error)

    # --- arrays -------------------------------------------------------------------------------------------------------

    @property
    def is_in_array(self) -> bool:
        """True while the members of an array are being looked at."""
        return self._batch is not None

    def open_array(self, batch: Batch) -> None:
        """What is answered from now on belongs to this array."""
        ids = [member.id for member in batch.members if isinstance(member, Request)]
        if self._batches is _NO_BATCHES:
            self._batches = Batches()
        self._batch = self._batches.open(ids[0] if ids else None)

    def look_at(self, member: int) -> None:
        """What is answered from now on belongs to this member."""
        self._member = member

    def close_array(self) -> None:
        """Every member was looked at. The array goes out now if nothing in it is in flight."""
        assert self._batch is not None
        number, self._batch = self._batch, None
        self._close(number)

    def flush_arrays(self) -> None:
        """Send what is there of every array: the rest will not come."""
        for frames, about in self._batches.flush():
            self._send_array(frames, about)

    def _close(self, number: int) -> None:
        answered = self._batches.close(number)
        if answered is not None:
            self._send_array(*answered)

    def _send_array(self, frames: list[bytes], about: RequestId | None) -> None:
        """One array, or nothing if there is nothing to say; single answers where the array would be too large.

        A receiver may answer a batch with one (2025-03-26 basic/index); it need not, and ids say what belongs where.
        """
        if not frames:
            return
        joined = join_batch(frames)
        is_too_large = len(joined) > self._limit
        self._out += [Send(frame, about) for frame in (frames if is_too_large else [joined])]
