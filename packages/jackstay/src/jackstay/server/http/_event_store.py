"""Where the events of resumable streams are kept: the contract, and the one that keeps them in this process's memory.

A stream's events are numbered from 1 without gaps. Whoever lost its connection says what it saw last and gets what came
after that, on that stream and on no other (2025-11-25 basic/transports, "Resumability and Redelivery").
`jackstay.testing.EventStoreSuite` checks an implementation against this page.

Must never know a message. Above: `_session`, and whoever writes a store. Below: nothing.
"""

from collections import deque
from typing import Protocol

import msgspec

from jackstay.errors import UsageError


class EventStore(Protocol):
    """Keeps events. Streams are named within their session. What it raises costs the event its place, and is logged."""

    @property
    def is_shared(self) -> bool:
        """True if every worker sees the same events. More than one worker needs that."""

    async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
        """Keep this event. Numbers of one stream come in order."""

    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        """The events of that stream after that number, in order; None: some of them are gone, or it was never kept."""

    async def forget(self, session: str) -> None:
        """The session has ended: forget its events. A store that workers share also forgets what nobody came for."""


class _Kept(msgspec.Struct):
    """The events of one session, oldest first: the stream, the number, the data."""

    events: deque[tuple[str, int, bytes]]
    size: int = 0
    # The number before the first that is still kept, by stream.
    gone: dict[str, int] = {}


class MemoryEvents:
    """Events in the memory of one process. A session keeps its newest, and all of them together those of the newest.

    Raises: UsageError for a bound that would keep nothing.
    """

    def __init__(
        self, max_events: int = 1024, max_bytes: int = 1_048_576, max_total_bytes: int = 67_108_864
    ) -> None:
        for name, bound in (
            ("max_events", max_events), ("max_bytes", max_bytes), ("max_total_bytes", max_total_bytes)
        ):  # fmt: skip
            if bound < 1:
                raise UsageError(f"{name} must be at least 1, not {bound!r}", path=name)
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._max_total_bytes = max_total_bytes
        # In the order in which something was last said in them.
        self._sessions: dict[str, _Kept] = {}
        self._size = 0

    def __repr__(self) -> str:
        return f"<MemoryEvents of {len(self._sessions)} sessions, {self._size} bytes>"

    @property
    def is_shared(self) -> bool:
        """False: another process has a memory of its own."""
        return False

    async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
        """Keep this event, and forget the oldest where there are too many."""
        kept = self._sessions.pop(session, None) or _Kept(deque())
        self._sessions[session] = kept
        kept.gone.setdefault(stream, number - 1)
        kept.events.append((stream, number, data))
        kept.size += len(data)
        self._size += len(data)
        while len(kept.events) > self._max_events or kept.size > self._max_bytes:
            oldest, oldest_number, oldest_data = kept.events.popleft()
            kept.size -= len(oldest_data)
            self._size -= len(oldest_data)
            kept.gone[oldest] = oldest_number
        if len(kept.gone) > 2 * self._max_events:
            # Streams that nothing is kept of any more: that they were there is forgotten too.
            live = {name for name, _, _ in kept.events}
            kept.gone = {name: number for name, number in kept.gone.items() if name in live}
        while self._size > self._max_total_bytes and len(self._sessions) > 1:
            await self.forget(next(iter(self._sessions)))

    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        """The events of that stream after that number."""
        kept = self._sessions.get(session)
        if kept is None or after < kept.gone.get(stream, after + 1):
            return None
        return [(number, data) for name, number, data in kept.events if name == stream and number > after]

    async def forget(self, session: str) -> None:
        """Forget the events of that session."""
        kept = self._sessions.pop(session, None)
        if kept is not None:
            self._size -= kept.size


__all__ = ["EventStore", "MemoryEvents"]
