"""The answers to arrays of requests (2025-03-26 only), collected until every member of an array has its own.

A client that sends an array gets one array back, in the order of its requests, however the handlers end. A member that
was cancelled has no answer and holds nothing up.

Must never know what a member is or who answers it. Above: `_connection`. Below: nothing.
"""

from jackstay.errors import RequestId


class Batches:
    """Arrays that are not answered yet. Open one, put or expect an answer for each request, then close it."""

    __slots__ = ("_abouts", "_count", "_places", "_waiting", "answers")

    def __init__(self) -> None:
        self._count = 0
        # By the number of the array: the answers by member, how many are waited for, and a request that is in it.
        self.answers: dict[int, dict[int, bytes]] = {}
        self._waiting: dict[int, int] = {}
        self._abouts: dict[int, RequestId | None] = {}
        # Where the answer to a request in flight belongs.
        self._places: dict[RequestId, tuple[int, int]] = {}

    def __repr__(self) -> str:
        return f"<Batches waiting={self._waiting!r}>"

    def copy(self) -> "Batches":
        """An independent copy, for searching the states of a core."""
        twin = Batches()
        if self.answers:
            twin.answers = {number: answers.copy() for number, answers in self.answers.items()}
            twin._waiting = self._waiting.copy()
            twin._abouts = self._abouts.copy()
            twin._places = self._places.copy()
        twin._count = self._count
        return twin

    def snapshot(self) -> frozenset[object]:
        """Everything that matters, without the numbers, which only tell arrays apart."""
        return frozenset(
            (
                tuple(sorted(answers.items())),
                frozenset((id, member) for id, (batch, member) in self._places.items() if batch == number),
            )
            for number, answers in self.answers.items()
        )

    def open(self, about: RequestId | None) -> int:
        """The number of a new array. It waits for `close` until its members have been looked at."""
        self._count += 1
        self.answers[self._count] = {}
        self._waiting[self._count] = 1
        self._abouts[self._count] = about
        return self._count

    def put(self, number: int, member: int, frame: bytes) -> None:
        """That member is answered already."""
        self.answers[number][member] = frame

    def expect(self, number: int, member: int, id: RequestId) -> None:
        """The answer to that request will be that member's."""
        self._places[id] = number, member
        self._waiting[number] += 1

    def settle(self, id: RequestId, frame: bytes | None) -> int | None:
        """That request has its answer, or (None) will have none. Then `close` the array whose number this returns.

        None: the request is in no array.
        """
        place = self._places.pop(id, None)
        if place is None:
            return None
        number, member = place
        if frame is not None:
            self.answers[number][member] = frame
        return number

    def close(self, number: int) -> tuple[list[bytes], RequestId | None] | None:
        """One answer less is waited for. When none is: all of them in order, and a request that was in the array."""
        self._waiting[number] -= 1
        if self._waiting[number]:
            return None
        return self._pop(number)

    def flush(self) -> list[tuple[list[bytes], RequestId | None]]:
        """What is there of every array; none is left."""
        self._places.clear()
        return [self._pop(number) for number in list(self.answers)]

    def _pop(self, number: int) -> tuple[list[bytes], RequestId | None]:
        del self._waiting[number]
        answers = self.answers.pop(number)
        return [answers[member] for member in sorted(answers)], self._abouts.pop(number)
