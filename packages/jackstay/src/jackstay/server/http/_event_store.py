"""Event stores of resumable streams: the protocol, and an implementation in memory.

The events of a stream are numbered from 1 without gaps. A client that lost its connection sends the last number that it
received and gets the later events of that stream (2025-11-25 basic/transports, "Resumability and Redelivery").
`jackstay.testing.EventStoreSuite` tests an implementation.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import msgspec

from jackstay.errors import UsageError

# The number of an entry that is not an event: all requests of the stream have ended.
ENDED = -1


class EventStore(Protocol):
    """Stores the events of streams. Stream names are unique within a session.

    If `append` raises, the error is logged and the event cannot be resumed. A store may have a method
    `async append_many(session, events)` with a list of (stream, number, data), which is called instead: one call for
    what was sent in one turn of the loop. It may have `async finish(session, streams)`, which is called when all
    requests of these streams have ended, so that their events need not be kept for long.
    """

    @property
    def is_shared(self) -> bool:
        """True if all workers share the events, which several workers require."""

    async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
        """Store an event. The numbers of one stream arrive in order."""

    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        """Return the events of a stream after a number, in order, or None if some of them are not stored (any more).

        After -1 are all events.
        """

    async def forget(self, session: str) -> None:
        """Delete the events of a session that has ended. A shared store must also expire abandoned sessions itself."""


async def append_all(store: EventStore, session: str, events: Sequence[tuple[str, int, bytes]]) -> None:
    """Store events (stream, number, data) with one call, if the store has `append_many(session, events)`.

    The number `ENDED` means that the requests of the stream have ended.
    """
    added = [event for event in events if event[1] != ENDED]
    append_many = getattr(store, "append_many", None)
    if append_many is not None:
        if added:
            await append_many(session, added)
    else:
        for stream, number, data in added:
            await store.append(session, stream, number, data)
    if len(added) < len(events):
        await getattr(store, "finish")(session, [stream for stream, number, _ in events if number == ENDED])  # noqa: B009


class _SessionEvents(msgspec.Struct):
    """The events of one session, oldest first: the stream, the number, the data."""

    events: deque[tuple[str, int, bytes]]
    size: int = 0
    # By stream: the last number that was dropped.
    dropped: dict[str, int] = {}


class MemoryEventStore:
    """Stores events in the memory of this process. Each session keeps its newest events up to the limits.

    Above `max_total_bytes` the events of the sessions that were inactive longest are deleted.

    Raises: UsageError for a limit below 1.
    """

    def __init__(self, max_events: int = 1024, max_bytes: int = 1_048_576, max_total_bytes: int = 67_108_864) -> None:
        for name, bound in (
            ("max_events", max_events), ("max_bytes", max_bytes), ("max_total_bytes", max_total_bytes)
        ):  # fmt: skip
            if bound < 1:
                raise UsageError(f"{name} must be at least 1, not {bound!r}", path=name)
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._max_total_bytes = max_total_bytes
        # In the order of their last event.
        self._sessions: dict[str, _SessionEvents] = {}
        self._size = 0

    def __repr__(self) -> str:
        return f"<MemoryEventStore of {len(self._sessions)} sessions, {self._size} bytes>"

    @property
    def is_shared(self) -> bool:
        """False: the memory belongs to one process."""
        return False

    async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
        """Store an event, and drop the oldest above the limits."""
        stored = self._sessions.pop(session, None) or _SessionEvents(deque())
        self._sessions[session] = stored
        stored.dropped.setdefault(stream, number - 1)
        stored.events.append((stream, number, data))
        stored.size += len(data)
        self._size += len(data)
        while len(stored.events) > self._max_events or stored.size > self._max_bytes:
            oldest, oldest_number, oldest_data = stored.events.popleft()
            stored.size -= len(oldest_data)
            self._size -= len(oldest_data)
            stored.dropped[oldest] = oldest_number
        if len(stored.dropped) > 2 * self._max_events:
            # Forget streams that have no stored event any more.
            live = {name for name, _, _ in stored.events}
            stored.dropped = {name: number for name, number in stored.dropped.items() if name in live}
        while self._size > self._max_total_bytes and len(self._sessions) > 1:
            await self.forget(next(iter(self._sessions)))

    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        """Return the events of a stream after a number, or None if some of them were dropped."""
        stored = self._sessions.get(session)
        if stored is None or after < stored.dropped.get(stream, after + 1):
            return None
        return [(number, data) for name, number, data in stored.events if name == stream and number > after]

    async def forget(self, session: str) -> None:
        """Delete the events of a session."""
        stored = self._sessions.pop(session, None)
        if stored is not None:
            self._size -= stored.size
