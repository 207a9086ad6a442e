"""The responses to batches of requests (2025-03-26 only), collected until a batch is complete.

A client that sends a batch gets one batch back, in the order of its requests and independent of the order in which the
handlers finish. A cancelled member has no response and does not delay the others.
"""

from jackstay.errors import RequestId


class Batches:
    """The incomplete batches. Open one, add or expect a response for each request, then close it."""

    __slots__ = ("_count", "_missing", "_positions", "_related_ids", "responses")

    def __init__(self) -> None:
        self._count = 0
        # By batch number: the responses by member, the number of missing responses, and the id of one of its requests.
        self.responses: dict[int, dict[int, bytes]] = {}
        self._missing: dict[int, int] = {}
        self._related_ids: dict[int, RequestId | None] = {}
        # The batch number and the member of each request in flight.
        self._positions: dict[RequestId, tuple[int, int]] = {}

    def __repr__(self) -> str:
        return f"<Batches missing={self._missing!r}>"

    def open(self, related_request_id: RequestId | None) -> int:
        """Return the number of a new batch, which stays incomplete at least until `close`."""
        self._count += 1
        self.responses[self._count] = {}
        self._missing[self._count] = 1
        self._related_ids[self._count] = related_request_id
        return self._count

    def add(self, number: int, member: int, frame: bytes) -> None:
        """Add the response of a member."""
        self.responses[number][member] = frame

    def expect(self, number: int, member: int, id: RequestId) -> None:
        """Register that the response to this request belongs to this member."""
        self._positions[id] = number, member
        self._missing[number] += 1

    def resolve(self, id: RequestId, frame: bytes | None) -> int | None:
        """Add the response to a request; None if it will have none.

        Returns the number of the batch to `close`, or None if the request is in no batch.
        """
        position = self._positions.pop(id, None)
        if position is None:
            return None
        number, member = position
        if frame is not None:
            self.responses[number][member] = frame
        return number

    def close(self, number: int) -> tuple[list[bytes], RequestId | None] | None:
        """Decrement the missing responses. At zero, return all responses in order and the id of one of the requests."""
        self._missing[number] -= 1
        if self._missing[number]:
            return None
        return self._pop(number)

    def flush(self) -> list[tuple[list[bytes], RequestId | None]]:
        """Remove every batch and return the responses it has."""
        self._positions.clear()
        return [self._pop(number) for number in list(self.responses)]

    def _pop(self, number: int) -> tuple[list[bytes], RequestId | None]:
        del self._missing[number]
        responses = self.responses.pop(number)
        return [responses[member] for member in sorted(responses)], self._related_ids.pop(number)
