"""Named timers without a clock: a state machine arms names at absolute times and its driver gets those that are due.

The driver sleeps until `next_at` and then calls `due`. Most timers are call deadlines that are disarmed long before
they expire, so a name enters the heap only if it is still armed when the next time is needed.
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

    __slots__ = ("_count", "_heap", "_new", "_sorted", "earliest")

    def __init__(self) -> None:
        # Every name is in one of the two: not yet in the heap, or its live entry there. Every other entry is stale:
        # skipping it is cheaper than finding it. Compared by identity: a name may be armed again for the same time, for
        # example by progress where the hard deadline caps the soft one.
        self._new: dict[Name, float] = {}
        self._sorted: dict[Name, tuple[float, int, Name]] = {}
        # The count breaks ties: names are never compared, and equal times are returned in the order first armed.
        self._heap: list[tuple[float, int, Name]] = []
        self._count = 0
        # No name is armed for an earlier time; exact after `next_at`. A driver whose timer is not later than this has
        # nothing to do.
        self.earliest = inf

    def __repr__(self) -> str:
        return f"<Timers {self.armed!r}>"

    def __len__(self) -> int:
        return len(self._new) + len(self._sorted)

    def __contains__(self, name: Name) -> bool:
        return name in self._new or name in self._sorted

    def arm(self, name: Name, at: float) -> None:
        """Set `name` to expire at `at`, replacing an earlier time."""
        if name in self._sorted:
            del self._sorted[name]
        self._new[name] = at
        if at < self.earliest:  # noqa: PLR1730  # `min()` takes longer, and this runs for every call
            self.earliest = at

    def disarm(self, name: Name) -> None:
        """Disarm `name`; do nothing if it is not armed."""
        if name in self._new:
            del self._new[name]
        elif name in self._sorted:
            del self._sorted[name]

    def at(self, name: Name) -> float | None:
        """Return the time at which `name` expires, or None."""
        if name in self._new:
            return self._new[name]
        entry = self._sorted.get(name)
        return None if entry is None else entry[0]

    @property
    def armed(self) -> dict[Name, float]:
        """The armed names and their times, as a new dict."""
        return {name: entry[0] for name, entry in self._sorted.items()} | self._new

    @property
    def next_at(self) -> float | None:
        """The earliest time armed, or None."""
        heap, live = self._heap, self._sorted
        for name, at in self._new.items():
            self._count += 1
            entry = live[name] = (at, self._count, name)
            heappush(heap, entry)
        self._new.clear()
        if len(heap) > _MIN_STALE + 2 * len(live):
            heap[:] = [entry for entry in heap if live.get(entry[2]) is entry]
            heapify(heap)
        while heap:
            entry = heap[0]
            if live.get(entry[2]) is entry:
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
            del self._sorted[name]
            names.append(name)
        return names
