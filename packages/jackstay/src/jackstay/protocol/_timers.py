"""Every time a core waits for, in one place: armed and disarmed by name, asked for what is due.

A core knows no clock. It arms a name at an absolute time; its driver sleeps until `next_at` and then asks what is
`due`. The heap is lazy: disarming forgets the name and leaves the entry, because most timers are call deadlines that
are disarmed long before they run out, and finding an entry in a heap costs more than skipping it. Left entries are
swept when they outnumber the live ones, so memory follows what is armed, not what has ever been.

Above: the client's and the server's core. Below: nothing.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)

# Fewer left entries than this are not worth rebuilding a heap for.
_SLACK = 64


class Timers(Generic[Name]):
    """Named absolute times. Arming a name again moves it."""

    __slots__ = ("_armed", "_count", "_heap")

    def __init__(self) -> None:
        # The entry of each name that counts; every other entry in the heap was left. By identity: a name may be armed again
        # for the same time, as progress does where the hard deadline caps the soft one.
        self._armed: dict[Name, tuple[float, int, Name]] = {}
        # The count breaks ties, so that names are never compared and equal times come out in the order armed.
        self._heap: list[tuple[float, int, Name]] = []
        self._count = 0

    def __repr__(self) -> str:
        return f"<Timers {self.armed!r}>"

    def __len__(self) -> int:
        return len(self._armed)

    def __contains__(self, name: Name) -> bool:
        return name in self._armed

    def copy(self) -> "Timers[Name]":
        """An independent copy, for searching the states of a core."""
        twin: Timers[Name] = Timers()
        twin._armed = self._armed.copy()
        twin._heap = self._heap.copy()
        twin._count = self._count
        return twin

    def arm(self, name: Name, at: float) -> None:
        """Set `name` to run out at `at`, wherever it stood before."""
        self._count += 1
        entry = self._armed[name] = (at, self._count, name)
        heappush(self._heap, entry)
        if len(self._heap) > _SLACK + 2 * len(self._armed):
            self._sweep()

    def disarm(self, name: Name) -> None:
        """Forget `name`; nothing happens if it is not armed."""
        self._armed.pop(name, None)

    def at(self, name: Name) -> float | None:
        """When `name` runs out, or None."""
        entry = self._armed.get(name)
        return None if entry is None else entry[0]

    @property
    def armed(self) -> dict[Name, float]:
        """What is armed, with its times, for tests and drawings; a new dict each time."""
        return {name: entry[0] for name, entry in self._armed.items()}

    @property
    def next_at(self) -> float | None:
        """The earliest time armed, or None. A driver sleeps until then."""
        heap, armed = self._heap, self._armed
        while heap:
            entry = heap[0]
            if armed.get(entry[2]) is entry:
                return entry[0]
            heappop(heap)
        return None

    def due(self, now: float) -> list[Name]:
        """The names that have run out, earliest first. They are disarmed."""
        names = []
        while (at := self.next_at) is not None and at <= now:
            _, _, name = heappop(self._heap)
            del self._armed[name]
            names.append(name)
        return names

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if self._armed.get(entry[2]) is entry]
        heapify(self._heap)
