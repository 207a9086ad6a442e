"""Where sessions are remembered: the contract, and the one that keeps them in this process's memory.

A session is remembered as a record: what its client said in the handshake, whom it belongs to, and what it asked for since.
From it any worker can serve the session's next request; nothing that runs is in it. `jackstay.testing.SessionStoreSuite`
checks an implementation against this page.

Must never know a connection. Above: `_sessions`, and whoever writes a store. Below: nothing.
"""

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from jackstay.protocol.server import ClientFacts


class SessionRecord(msgspec.Struct, frozen=True):
    """What is remembered of a session: all of it is data, and `msgspec.json` can write and read it."""

    client: ClientFacts
    principal: str = ""
    log_level: str = "info"
    uris: tuple[str, ...] = ()


class SessionStore(Protocol):
    """Remembers sessions. Every method may be called at any time, and fails by raising: the request is then refused."""

    @property
    def is_shared(self) -> bool:
        """True if every worker sees the same sessions. More than one worker needs that."""

    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        """Remember this for `ttl` seconds from now, instead of what was remembered under that id."""

    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        """What is remembered, for `ttl` seconds from now again; None: nothing, any more or ever."""

    async def delete(self, id: str) -> None:
        """Forget it. An id that is not known is no error."""


class MemorySessions:
    """Sessions in the memory of one process, in the order of their last use."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rows: dict[str, tuple[SessionRecord, float]] = {}

    def __repr__(self) -> str:
        return f"<MemorySessions {len(self._rows)} sessions>"

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_shared(self) -> bool:
        """False: another process has a memory of its own."""
        return False

    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        """Remember this for `ttl` seconds from now, and forget what nobody came for."""
        now = self._clock()
        while self._rows and self._rows[oldest := next(iter(self._rows))][1] <= now:
            del self._rows[oldest]
        self._rows.pop(id, None)
        self._rows[id] = record, now + ttl

    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        """What is remembered, for `ttl` seconds from now again."""
        row = self._rows.pop(id, None)
        if row is None or row[1] <= self._clock():
            return None
        self._rows[id] = row[0], self._clock() + ttl
        return row[0]

    async def delete(self, id: str) -> None:
        """Forget it."""
        self._rows.pop(id, None)


__all__ = ["MemorySessions", "SessionRecord", "SessionStore"]
