"""Named timers without a clock: a state machine arms names at absolute times and its driver gets those that are due.

The driver sleeps until `next_at` and then calls `due`. Disarming removes the name and leaves its heap entry:
most timers are call deadlines that are disarmed long before they expire, and skipping an entry is cheaper than finding
it. Stale entries are removed when they outnumber the live ones, so memory is bounded by what is armed.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)

# Rebuilding the heap is not worth it for fewer stale entries than this.
_MIN_STALE = 64


class Timers(Generic[Name]):
    """Named absolute times. Arming a name again moves it."""

    __slots__ = ("_armed", "_count", "_heap", "earliest")

    def __init__(self) -> None:
        # The live entry of each name; every other entry in the heap is stale. Compared by identity: a name may be armed
        # again for the same time, for example by progress where the hard deadline caps the soft one.
        self._armed: dict[Name, tuple[float, int, Name]] = {}
        # The count breaks ties: names are never compared, and equal times are returned in the order armed.
        self._heap: list[tuple[float, int, Name]] = []
        self._count = 0
        # No name is armed for an earlier time; exact after `next_at`. A driver whose timer is not later than this has
        # nothing to do.
        self.earliest = inf

    def __repr__(self) -> str:
        return f"<Timers {self.armed!r}>"

    def __len__(self) -> int:
        return len(self._armed)

    def __contains__(self, name: Name) -> bool:
        return name in self._armed

    def copy(self) -> "Timers[Name]":
        """Return an independent copy, used by the model checker."""
        clone: Timers[Name] = Timers()
        clone._armed = self._armed.copy()
        clone._heap = self._heap.copy()
        clone._count = self._count
        clone.earliest = self.earliest
        return clone

    def arm(self, name: Name, at: float) -> None:
        """Set `name` to expire at `at`, replacing an earlier time."""
        armed, heap = self._armed, self._heap
        count = self._count = self._count + 1
        entry = armed[name] = (at, count, name)
        heappush(heap, entry)
        if at < self.earliest:  # noqa: PLR1730  # `min()` takes longer, and this runs for every call
            self.earliest = at
        if len(heap) > _MIN_STALE + 2 * len(armed):
            self._drop_stale()

    def disarm(self, name: Name) -> None:
        """Disarm `name`; do nothing if it is not armed."""
        self._armed.pop(name, None)

    def at(self, name: Name) -> float | None:
        """Return the time at which `name` expires, or None."""
        entry = self._armed.get(name)
        return None if entry is None else entry[0]

    @property
    def armed(self) -> dict[Name, float]:
        """The armed names and their times, as a new dict."""
        return {name: entry[0] for name, entry in self._armed.items()}

    @property
    def next_at(self) -> float | None:
        """The earliest time armed, or None."""
        heap, armed = self._heap, self._armed
        while heap:
            entry = heap[0]
            if armed.get(entry[2]) is entry:
                self.earliest = entry[0]
                return entry[0]
            heappop(heap)
        self.earliest = inf
        return None

    def due(self, now: float) -> list[Name]:
        """Disarm and return the names that have expired, earliest first."""
        names = []
        while (at := self.next_at) is not None and at <= now:
            _, _, name = heappop(self._heap)
            del self._armed[name]
            names.append(name)
        return names

    def _drop_stale(self) -> None:
        self._heap = [entry for entry in self._heap if self._armed.get(entry[2]) is entry]
        heapify(self._heap)
