"""All sessions of one endpoint: opened with an id that nobody can guess, found again by it, ended when nobody comes.

What is remembered is in the session store; what runs is here. A session that is not here is made again from its record: after
another worker opened it, or on another loop than before. It belongs to whoever opened it, and is unknown to anybody else.

A session is forgotten when nothing happened in it for its time to live; while a request runs or a response is open, something
happens (G18). At the cap an idle one makes room, of the caller who has the most; if none is idle, a new one is refused.

Must never know a message. Above: `_app`. Below: `_session`, `_session_store`.
"""

import asyncio
import logging
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable
from heapq import heapify, heappop, heapreplace
from typing import TypeAlias

from jackstay.server.http._event_store import EventStore
from jackstay.server.http._session import Session
from jackstay.server.http._session_store import SessionRecord, SessionStore

logger = logging.getLogger("jackstay.server.http")

# 192 bits: the specification wants them unguessable, and ids travel in logs of others less often than they could.
ID_BYTES = 24

# Idle sessions are looked for this often, or four times in a time to live that is shorter.
SWEEP_EVERY = 4.0

# How many of those that make room are found at a time.
NOTED = 100

# Makes the connection of a session: a new one, or one from a record.
Make: TypeAlias = Callable[[SessionRecord | None], Session]


class Sessions:
    """The sessions of an endpoint. `make` makes the connection of one, which must tell `forget()` when it is over."""

    def __init__(
        self,
        make: Make,
        store: SessionStore,
        events: EventStore | None,
        *,
        ttl: float,
        limit: int,
    ) -> None:
        self._make = make
        self._store = store
        self._events = events
        self._ttl = ttl
        # A store counts from the last request or sweep that told it, so it must not be the first to forget.
        self._sweep_every = min(SWEEP_EVERY, ttl / 4)
        self._store_ttl = ttl + 2 * self._sweep_every
        self._limit = limit
        self._open: dict[str, Session] = {}
        # Those to end when there is no room, the first last, and when they were last used.
        self._longest_idle: list[tuple[float, Session]] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # What a store still has to be told, and nobody waits for.
        self._ended: list[str] = []
        self._clearing: asyncio.Task[None] | None = None
        self._chores: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Sessions {len(self._open)} of {self._limit}>"

    def __len__(self) -> int:
        return len(self._open)

    @property
    def all(self) -> list[Session]:
        """Those that are open here."""
        return list(self._open.values())

    def new(self) -> Session | None:
        """A session that has not begun; `begin()` it after its handshake. None: there are too many."""
        if len(self._open) >= self._limit and not self._make_room():
            return None
        return self._make(None)

    async def begin(self, session: Session) -> None:
        """Its handshake has succeeded: it has an id from now on."""
        session.id = secrets.token_urlsafe(ID_BYTES)
        await self._store.save(session.id, session.record, self._store_ttl)
        self._open[session.id] = session
        self._arm()

    async def find(self, id: str, principal: str) -> Session | None:
        """The session with that id, if it is this principal's; it is in use from now on."""
        record = await self._store.load(id, self._store_ttl)
        session = self._open.get(id)
        if record is None:
            if session is not None:
                session.call(session.stop)  # ended by another worker
            return None
        if not secrets.compare_digest(record.principal.encode(), principal.encode()):
            return None
        loop = asyncio.get_running_loop()
        if session is None or session.loop is not loop:
            if session is not None:
                self._open.pop(
                    id, None
                )  # its loop is gone, or another thread's: its record is all that can be used
                session.call(session.stop)
            session = self._make(record)
            session.id = id
            self._open[id] = session
            self._arm()
        session.last_used = loop.time()
        session.is_used = True
        return session

    async def save(self, session: Session) -> None:
        """Something of it changed that is to be remembered: before it is answered, or the next worker would not know."""
        await _guarded(self._store.save(session.id, session.record, self._store_ttl))

    async def end(self, session: Session) -> None:
        """The client is done with it: it is forgotten when this returns."""
        self._open.pop(session.id, None)
        session.stop()
        await _guarded(self._clear(session.id))

    # --- ends ---------------------------------------------------------------------------------------------------------

    def forget(self, session: Session) -> None:
        """Nothing of it runs here any more.

        What is shared stays: another worker may be serving it, and the store forgets by itself what nobody comes for.
        """
        if self._open.get(session.id) is session:
            del self._open[session.id]
            if not self._store.is_shared:
                self._ended.append(session.id)
                self._clear_soon()

    def _clear_soon(self) -> None:
        """One task for all of them: a thousand sessions may end in one sweep."""
        task = self._clearing
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._clearing = self._do(self._clear_ended())

    async def _clear_ended(self) -> None:
        while self._ended:
            await _guarded(self._clear(self._ended.pop()))

    async def _clear(self, id: str) -> None:
        await self._store.delete(id)
        if self._events is not None:
            await self._events.forget(id)

    def _make_room(self) -> bool:
        """End an idle session of whoever has the most of them. False: none is idle.

        To find it all are looked at, so more than one is taken note of: whoever opens sessions without end costs the others
        a look for every hundred, and the log a line. What is noted holds while it is not used: any other was used later.
        """
        while self._longest_idle and not self._is_idle_since(*self._longest_idle[-1]):
            self._longest_idle.pop()
        if not self._longest_idle:
            self._longest_idle = _choose(self._open.values())[::-1]
            if not self._longest_idle:
                return False
            logger.warning("there are %d sessions; idle ones make room", len(self._open))
        _, oldest = self._longest_idle.pop()
        oldest.call(oldest.stop)
        return True

    def _is_idle_since(self, last_used: float, session: Session) -> bool:
        is_open = self._open.get(session.id) is session
        return is_open and session.is_idle and session.last_used == last_used

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        if self._sweep is None or self._loop is not loop:
            self._loop = loop
            self._sweep = loop.call_later(self._sweep_every, self._sweep_idle)

    def _sweep_idle(self) -> None:
        self._sweep = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        used: list[str] = []
        for session in self.all:
            if session.loop is not loop:
                continue
            if not session.is_idle:
                session.last_used = now
                used.append(session.id)
            elif now - session.last_used >= self._ttl:
                logger.debug("session %d: nothing happened for %g s; it is ended", session.number, self._ttl)
                session.stop()
        if used:
            self._do(self._touch(used))
        if self._open:
            self._arm()

    async def _touch(self, ids: list[str]) -> None:
        """Sessions in use: a stream that is open for hours brings no request that would say so."""
        for id in ids:
            await self._store.load(id, self._store_ttl)

    def _do(self, chore: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Do this beside everything else: it is for a store, and nobody waits."""
        task = asyncio.get_running_loop().create_task(_guarded(chore))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        return task


def _choose(sessions: Iterable[Session]) -> list[tuple[float, Session]]:
    """Idle sessions to end, in order, each with when it was last used: always of the holder who has the most left.

    Of one holder first those that nothing was sent to after `initialize`, then the one idle longest. Only holders with more
    than half as many as the largest one are chosen from, because the largest may open new ones before the choice is used up.
    """
    counts: Counter[tuple[str, str]] = Counter()
    idle: dict[tuple[str, str], list[Session]] = defaultdict(list)
    for session in sessions:
        counts[session.holder] += 1
        if session.is_idle:
            idle[session.holder].append(session)
    order = [(-counts[holder], holder) for holder in idle]
    heapify(order)
    floor = -order[0][0] / 2 if len(order) > 1 else 0
    chosen: list[tuple[float, Session]] = []
    while order and len(chosen) < NOTED and -order[0][0] > floor:
        count, holder = order[0]
        rest = idle[holder]
        if -count == counts[holder]:
            rest.sort(key=lambda session: (session.is_used, session.last_used), reverse=True)
        session = rest.pop()
        chosen.append((session.last_used, session))
        if rest:
            heapreplace(order, (count + 1, holder))
        else:
            heappop(order)
    return chosen


async def _guarded(chore: Coroutine[object, object, None]) -> None:
    try:
        await chore
    except Exception:  # the edge of somebody's store
        logger.exception("a store failed")
