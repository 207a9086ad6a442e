"""Session stores: the protocol, and an implementation in memory.

A record contains the handshake of a session, its principal, its log level and its subscriptions: all that another
worker needs to serve the next request. `jackstay.testing.SessionStoreSuite` tests an implementation.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import msgspec

from jackstay.protocol.server import ClientParams


class SessionRecord(msgspec.Struct, frozen=True):
    """The stored state of a session. `msgspec.json` can encode and decode it."""

    client: ClientParams
    principal: str = ""
    log_level: str = "info"
    uris: tuple[str, ...] = ()


class SessionStore(Protocol):
    """Stores sessions. Every method may be called at any time. If one raises, the request is refused."""

    @property
    def is_shared(self) -> bool:
        """True if all workers share the sessions, which several workers require."""

    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        """Store or replace the record of a session for `ttl` seconds."""

    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        """Return the record of a session and keep it for another `ttl` seconds, or None if it is unknown or expired."""

    async def delete(self, id: str) -> None:
        """Delete a session. An unknown id is not an error."""


class MemorySessionStore:
    """Stores sessions in the memory of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # In the order of their last use. The first item of a `dict` takes long to find after many were removed.
        self._rows: OrderedDict[str, tuple[SessionRecord, float]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<MemorySessionStore of {len(self._rows)} sessions>"

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_shared(self) -> bool:
        """False: the memory belongs to one process."""
        return False

    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        """Store the record for `ttl` seconds, and drop expired sessions."""
        now = self._clock()
        while self._rows and self._rows[oldest := next(iter(self._rows))][1] <= now:
            del self._rows[oldest]
        self._rows[id] = record, now + ttl
        self._rows.move_to_end(id)

    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        """Return the record and keep it for another `ttl` seconds."""
        row = self._rows.get(id)
        now = self._clock()
        if row is None or row[1] <= now:
            self._rows.pop(id, None)
            return None
        self._rows[id] = row[0], now + ttl
        self._rows.move_to_end(id)
        return row[0]

    async def delete(self, id: str) -> None:
        """Delete the session."""
        self._rows.pop(id, None)


__all__ = ["MemorySessionStore", "SessionRecord", "SessionStore"]
