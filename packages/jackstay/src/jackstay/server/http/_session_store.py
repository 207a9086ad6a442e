"""Session stores: the protocol, and an implementation in memory.

A record contains the handshake of a session, its principal, its log level and its subscriptions: all that another
worker needs to serve the next request. Workers change it by what a request changed, because another one may change it
at the same time. `jackstay.testing.SessionStoreSuite` tests an implementation.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import msgspec

from jackstay.protocol.server import ClientParams


def id_hash(id: str) -> str:
    """Return what stands for a session id in messages to other workers and in keys of stores."""
    return hashlib.sha256(id.encode()).hexdigest()[:32]


class SessionRecord(msgspec.Struct, frozen=True):
    """The stored state of a session. `msgspec.json` can encode and decode it."""

    client: ClientParams
    principal: str = ""
    log_level: str = "info"
    uris: tuple[str, ...] = ()
    # The client has sent `notifications/initialized`.
    is_confirmed: bool = False


class SessionChange(msgspec.Struct, frozen=True):
    """What a request changed in a session. None and False: unchanged."""

    subscribed: tuple[str, ...] = ()
    unsubscribed: tuple[str, ...] = ()
    log_level: str | None = None
    is_confirmed: bool = False

    @classmethod
    def between(cls, before: SessionRecord, after: SessionRecord, *, is_confirmed: bool) -> "SessionChange":
        """Return the difference of two records of one session, and whether it was confirmed meanwhile."""
        old, new = set(before.uris), set(after.uris)
        return cls(
            tuple(uri for uri in after.uris if uri not in old),
            tuple(uri for uri in before.uris if uri not in new),
            None if after.log_level == before.log_level else after.log_level,
            is_confirmed,
        )

    def apply(self, record: SessionRecord) -> SessionRecord:
        """Return the changed record."""
        uris = dict.fromkeys((*record.uris, *self.subscribed))
        for uri in self.unsubscribed:
            uris.pop(uri, None)
        return SessionRecord(
            record.client,
            record.principal,
            record.log_level if self.log_level is None else self.log_level,
            tuple(uris),
            record.is_confirmed or self.is_confirmed,
        )


NO_CHANGE = SessionChange()


class SessionStore(Protocol):
    """Stores sessions. Every method may be called at any time. If one raises, the request is refused."""

    @property
    def is_shared(self) -> bool:
        """True if all workers share the sessions, which several workers require."""

    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        """Store or replace the record of a session for `ttl` seconds."""

    async def change(self, id: str, change: SessionChange, ttl: float) -> None:
        """Replace the record of a session by `change.apply(record)`, for `ttl` seconds. An unknown id is not an error.

        In a shared store this must be atomic: two workers may change the same record at once.
        """

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

    async def change(self, id: str, change: SessionChange, ttl: float) -> None:
        """Change the record, and keep it for another `ttl` seconds."""
        record = await self.load(id, ttl)
        if record is not None:
            self._rows[id] = change.apply(record), self._rows[id][1]

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
