"""The sessions of an endpoint: ids, lookup, expiry, eviction, and the workers that share them.

The session store has the records, this module the running sessions. Only its principal can find a session. At the limit
an idle session of the caller with the most sessions is evicted. Workers adopt the record with every request and sweep
(with mailboxes once a second); over the bus they announce changes and forward what concerns another worker's request.
"""

import asyncio
import logging
import secrets
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable
from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec

from jackstay.errors import TransportError
from jackstay.protocol.http import Accepts, RequestRefused
from jackstay.protocol.server import ServerState
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import Batch, Error, Message, Notification, Request, encode_error
from jackstay.server._changes import WORKER_METHOD
from jackstay.server._driver import Caller
from jackstay.server.http._channel import Channel
from jackstay.server.http._peer_workers import PeerWorkers
from jackstay.server.http._refusals import BUSY, UNAVAILABLE, WORKER_GONE
from jackstay.server.http._session import Session
from jackstay.server.http._session_store import NO_CHANGE, MemorySessionStore, SessionChange, SessionRecord, id_hash
from jackstay.types import DECODE_ERRORS

if TYPE_CHECKING:
    from jackstay.server._changes import BusLink
    from jackstay.server.http._app import App

logger = logging.getLogger("jackstay.server.http")

# 192 bits: ids must be impossible to guess (2025-11-25 basic/transports, "Session Management").
ID_BYTES = 24

# Seconds between two searches for expired sessions, or a quarter of a shorter TTL.
SWEEP_INTERVAL = 4.0

# How many sessions to evict are selected at a time: this share of the limit, and at least `MIN_EVICTION_BATCH`. The
# selection visits all sessions.
EVICTION_SHARE = 8
MIN_EVICTION_BATCH = 100

# How many records are loaded at once to renew them. A store in Redis has one pipeline for all of them.
TOUCHED_AT_ONCE = 32

# Seconds for which a record is valid if the bus announces its changes reliably.
RECORD_SECONDS = 1.0

# Messages of the bus: the record of a session has changed; it was deleted; a message for the worker that it concerns.
CHANGED = f"{WORKER_METHOD}session_changed"
DELETED = f"{WORKER_METHOD}session_deleted"
FORWARDED = f"{WORKER_METHOD}session_message"
# A worker is alive.
ALIVE = f"{WORKER_METHOD}worker_alive"

# Requests and notifications that change the stored record of a session.
_CHANGING = frozenset({"logging/setLevel", "notifications/initialized", "resources/subscribe", "resources/unsubscribe"})

_Result = TypeVar("_Result")
_Args = ParamSpec("_Args")

_read_forwarded = msgspec.json.Decoder(tuple[str, str]).decode
# The worker that has changed it, the session, what has changed.
_read_changed = msgspec.json.Decoder(tuple[str, str, SessionChange]).decode


class Sessions:
    """The sessions of an endpoint. `bus` connects it with the workers that share the store; None if there are none."""

    def __init__(self, app: "App", bus: "BusLink | None") -> None:
        options = app.options
        self.app = app
        self.workers = PeerWorkers()
        # Whether the response to a request of a session reaches the worker that sent the request.
        self.can_request = bus is not None or not options.shares_sessions
        self._publish = None if bus is None else bus.publish
        self._mailboxes = self.workers.mailboxes = None if bus is None else bus.mailboxes
        self._store = MemorySessionStore() if options.session_store is None else options.session_store
        self.events = options.event_store
        self._ttl = options.session_ttl
        # The store counts from the last request or sweep, so its TTL must be longer.
        self._sweep_interval = min(SWEEP_INTERVAL, self._ttl / 4)
        self._store_ttl = self._ttl + 2 * self._sweep_interval
        self._limit = options.max_sessions
        # By the hashes of their ids, which are what the bus has: whoever can read it cannot use a session.
        self._open: dict[str, Session] = {}
        # The next sessions to evict, in reverse order, and when they were last used.
        self._eviction_candidates: list[tuple[float, Session]] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Ids that are still to be deleted from the stores, in the background.
        self._ended: list[str] = []
        self._clearing: asyncio.Task[None] | None = None
        self._background_tasks: set[asyncio.Task[None]] = set()
        if bus is not None:
            bus.workers.add(self)

    def __repr__(self) -> str:
        return f"<Sessions {len(self._open)} of {self._limit}>"

    def __len__(self) -> int:
        return len(self._open)

    @property
    def all(self) -> list[Session]:
        """The sessions that run in this process."""
        return list(self._open.values())

    def create(self) -> Session:
        """Create a session; `register()` it after its handshake. Raises: RequestRefused if there are too many."""
        self._make_room()
        return Session(self)

    async def register(self, session: Session) -> None:
        """Give a session its id and store it: its handshake has succeeded. Raises: RequestRefused if that failed."""
        id = secrets.token_urlsafe(ID_BYTES)
        await _refuse_if_failed(self._store.save, id, session.record, self._store_ttl)
        self._add(session, id)

    def _add(self, session: Session, id: str) -> None:
        session.id = id
        session.checked_at = session.loop.time()
        self._open[id_hash(id)] = session
        self._schedule_sweep()
        self.app.server._add_connection(session)

    async def find(self, id: str, principal: str) -> Session | None:
        """Return the session with that id if it belongs to this principal, and mark it as used.

        Raises: RequestRefused if too many sessions are open to restore it, or if the store failed.
        """
        loop = asyncio.get_running_loop()
        key = id_hash(id)
        session = self._open.get(key)
        record: SessionRecord | None = None
        if session is None or session.loop is not loop or not self._is_current(session):
            try:
                record = await self._refresh(id)
            except Exception as error:  # a user's store may raise anything
                # What runs here is served: while the store is down, no other worker can have ended it.
                session = self._open.get(key)
                if not isinstance(error, TransportError) or session is None or session.loop is not loop:
                    raise log_store_failure(error) from error
            else:
                if record is None:
                    return None
                session = self._open.get(key)
        found = record or session
        if found is None or not secrets.compare_digest(found.principal.encode(), principal.encode()):
            return None
        if session is None or session.loop is not loop:
            if session is not None:
                self._open.pop(key, None)  # it belongs to another loop: only its record can be used
                session.call(session.stop)
            else:
                self._make_room()
            try:
                session = Session(self, record)
            except Exception as error:  # the record is of a worker with other revisions, or the store returned anything
                raise log_store_failure(error) from error
            self._add(session, id)
        session.last_used = loop.time()
        session.is_used = True
        return session

    async def receive(
        self, session: Session, message: Message, frame: bytes, accepts: Accepts, caller: Caller
    ) -> Channel:
        """Pass a message to its session, and to other workers if it concerns them.

        What it changes is stored before this returns, so that the next request finds the change in any worker.

        Raises: RequestRefused if that worker has died or cannot be reached now.
        """
        members = message.members if isinstance(message, Batch) else (message,)
        if self._publish is not None:
            for member in members:
                if not isinstance(member, Request):  # every worker can serve a request
                    await self._forward(session, member)
        if not any(isinstance(member, Request | Notification) and member.method in _CHANGING for member in members):
            return session.receive(message, frame, accepts, caller)
        before = session.record
        session.unsaved += 1
        try:
            channel = session.receive(message, frame, accepts, caller)
            await session.settled(channel)
            change = SessionChange.between(before, session.record, is_confirmed=_confirms(members))
            if change != NO_CHANGE:
                await _log_failure(self._store.change, session.id, change, self._store_ttl)
                changed = msgspec.json.encode((self.workers.name, id_hash(session.id), change))
                await self._notify_workers(CHANGED, changed.decode())
        finally:
            session.unsaved -= 1
            session.revision += 1
        return channel

    async def end(self, session: Session) -> None:
        """End a session at the request of its client, and delete it from the stores.

        Raises: RequestRefused if the store is down; the session continues.
        """
        try:
            await self._clear(session.id)
        except Exception as error:  # a user's store may raise anything
            refused = log_store_failure(error)
            if isinstance(error, TransportError):
                raise refused from error
        key = id_hash(session.id)
        self._open.pop(key, None)
        session.stop()
        await self._notify_workers(DELETED, key)

    # --- other workers ------------------------------------------------------------------------------------------------

    async def _refresh(self, id: str) -> SessionRecord | None:
        """Load a record. The session that runs here adopts it, and stops if it is gone: another worker has ended it."""
        key = id_hash(id)
        session = self._open.get(key)
        revision = 0 if session is None else session.revision
        if session is not None:
            session.checked_at = session.loop.time()  # not after it was loaded: a change may arrive meanwhile
        try:
            record = await self._store.load(id, self._store_ttl)
            if not isinstance(record, SessionRecord | None):
                raise TypeError(f"the session store returned {type(record).__name__}, not a SessionRecord")
        except BaseException:
            if session is not None:
                session.checked_at = float("-inf")
            raise
        if record is None:
            session = self._open.get(key)
            if session is not None:
                session.call(session.stop)
        elif session is not None and self._store.is_shared:
            session.call(session.adopt, record, revision)
        return record

    def _is_current(self, session: Session) -> bool:
        """Return whether the record was loaded a moment ago; if it changed since, the bus has announced it."""
        if self._mailboxes is None or session.core.state is ServerState.HANDSHAKE:
            return False
        return session.loop.time() - session.checked_at < RECORD_SECONDS

    async def _notify_workers(self, method: str, text: str) -> None:
        """Publish a message, and wait until it is on the bus: other workers receive it before later changes."""
        if self._publish is not None:
            self._publish(method, text)
        if self._mailboxes is not None:
            await self._mailboxes.flush()

    async def _forward(self, session: Session, message: Message) -> None:
        """Pass on a response or a cancellation of a request that this worker does not have.

        Raises: RequestRefused if that worker has died or cannot be reached now.
        """
        assert self._publish is not None
        event = session.core.classify(message, 0)
        worker: str | None = None
        if isinstance(event, e.ResponseReceived):
            is_local = event.response.id in session.core.outgoing_requests
            worker = self.workers.sender_of(event.response.id)
        elif isinstance(event, e.CancelReceived):
            is_local = event.id is None or event.id in session.core.in_flight
        else:
            return
        if is_local or worker == self.workers.name:
            return
        text = msgspec.json.encode((id_hash(session.id), _encode(message).decode())).decode()
        if worker is None or self._mailboxes is None:
            self._publish(FORWARDED, text)
        elif not await _refuse_if_failed(self._mailboxes.send, worker, FORWARDED, text):
            # A worker that was too busy to renew its lease is alive, and its caller would wait forever.
            self._publish(FORWARDED, text)
            raise RequestRefused(WORKER_GONE)

    def receive_published(self, method: str, text: str) -> None:
        """Receive a message of the bus, also of this worker. Thread-safe."""
        if method == ALIVE:
            if self._loop is not None:
                self.workers.received(text, self._loop.time())
            return
        try:
            if method == FORWARDED:
                key, frame = _read_forwarded(text)
                session = self._open.get(key)
                if session is not None:
                    session.call(session.receive_forwarded, frame.encode())
            elif method == CHANGED:
                worker, key, change = _read_changed(text)
                session = self._open.get(key)
                if session is not None and worker != self.workers.name:
                    session.call(session.adopt_change, change)
            elif method == DELETED:
                session = self._open.get(text)
                if session is not None:
                    session.call(session.stop)
        except DECODE_ERRORS:
            logger.warning("the bus delivered a message of another version: %s", method)

    # --- ends ---------------------------------------------------------------------------------------------------------

    def forget(self, session: Session) -> None:
        """Forget a session that has ended in this process: the session calls it, once.

        It stays in a shared store: another worker may serve it, and the store expires it otherwise.
        """
        self.app.server._remove_connection(session)
        key = id_hash(session.id)
        if self._open.get(key) is session:
            del self._open[key]
            if not self._store.is_shared:
                self._ended.append(session.id)
                self._clear_soon()

    def _clear_soon(self) -> None:
        """Delete ended sessions from the stores, with one task for all: a sweep may end a thousand."""
        task = self._clearing
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._clearing = self._run_in_background(self._clear_ended)

    async def _clear_ended(self) -> None:
        while self._ended:
            await _log_failure(self._clear, self._ended.pop())

    async def _clear(self, id: str) -> None:
        await self._store.delete(id)
        if self.events is not None:
            await self.events.forget(id)

    def _make_room(self) -> None:
        """At the limit, end an idle session of the caller with the most sessions.

        The search visits all sessions, so it selects several at a time. A selected session stays a valid
        choice while it is not used, because every other session was used later.

        Raises: RequestRefused if none is idle.
        """
        if len(self._open) < self._limit:
            return
        candidates = self._eviction_candidates
        while candidates and not self._is_idle_since(*candidates[-1]):
            candidates.pop()
        if not candidates:
            size = max(MIN_EVICTION_BATCH, self._limit // EVICTION_SHARE)
            candidates = self._eviction_candidates = _eviction_order(self._open.values(), size)[::-1]
            if not candidates:
                raise RequestRefused(BUSY)
            logger.warning("session limit reached: %d sessions; evicting idle ones", len(self._open))
        _, oldest = candidates.pop()
        oldest.call(oldest.stop)

    def _is_idle_since(self, last_used: float, session: Session) -> bool:
        is_open = self._open.get(id_hash(session.id)) is session
        return is_open and session.is_idle and session.last_used == last_used

    def _schedule_sweep(self) -> None:
        loop = asyncio.get_running_loop()
        if self._sweep is None or self._loop is not loop:
            self._loop = loop
            if self._mailboxes is not None:
                self._mailboxes.join(self.workers.name)
            elif self._publish is not None:
                self.workers.watch(loop.time())
                self._publish(ALIVE, self.workers.name)
            self._sweep = loop.call_later(self._sweep_interval, self._sweep_idle)

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
                logger.debug("session %d: expired after %g s without activity", session.number, self._ttl)
                session.stop()
        if used:
            self._run_in_background(self._touch, used)
        if self._open:
            self._schedule_sweep()

    async def _touch(self, ids: list[str]) -> None:
        """Renew the TTL of sessions in use, and adopt their records: an open stream sends no requests that would."""
        for first in range(0, len(ids), TOUCHED_AT_ONCE):
            some = ids[first : first + TOUCHED_AT_ONCE]
            for result in await asyncio.gather(*map(self._refresh, some), return_exceptions=True):
                if isinstance(result, TransportError):
                    raise result  # the others would fail, too
                if isinstance(result, Exception):  # of one record; a user's store may raise anything
                    log_store_failure(result)

    def _run_in_background(
        self, operation: Callable[_Args, Awaitable[None]], *args: _Args.args, **kw: _Args.kwargs
    ) -> asyncio.Task[None]:
        """Run a store operation in the background."""
        task = asyncio.get_running_loop().create_task(_log_failure(operation, *args, **kw))
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)
        return task


def _confirms(members: Iterable[Message]) -> bool:
    return any(isinstance(member, Notification) and member.method in _CHANGING for member in members)


def _encode(message: Message) -> bytes:
    """Encode a response or a notification, which may be a member of a batch."""
    if isinstance(message, Error):
        return encode_error(message.id, message.code, message.message, message.data)
    return msgspec.json.encode({"jsonrpc": "2.0", **msgspec.structs.asdict(message)})


def _eviction_order(sessions: Collection[Session], size: int) -> list[tuple[float, Session]]:
    """Return at most `size` idle sessions in the order of eviction, each with the time of its last use.

    The next one is always of the caller with the most sessions left: first those that were not used after `initialize`,
    then the longest idle. Only callers with more than half the sessions of the largest one are considered, because that
    one may open new sessions before the selection is used up.
    """
    counts = Counter(map(attrgetter("caller_key"), sessions))
    idle: defaultdict[tuple[str, str], list[Session]] = defaultdict(list)
    for session in sessions:
        if session.is_idle:
            idle[session.caller_key].append(session)
    floor = max(counts[caller_key] for caller_key in idle) / 2 if len(idle) > 1 else 0
    # Each with the number of sessions that its caller then still has, negative.
    ranked = (
        (evicted - counts[caller_key], caller_key, session)
        for caller_key, rest in idle.items()
        for evicted, session in enumerate(sorted(rest, key=attrgetter("is_used", "last_used")))
        if counts[caller_key] - evicted > floor
    )
    return [(session.last_used, session) for _, _, session in nsmallest(size, ranked)]


async def _refuse_if_failed(
    operation: Callable[_Args, Awaitable[_Result]], *args: _Args.args, **kw: _Args.kwargs
) -> _Result:
    try:
        return await operation(*args, **kw)
    except Exception as error:  # a user's store or bus may raise anything
        raise log_store_failure(error) from error


async def _log_failure(operation: Callable[_Args, Awaitable[None]], *args: _Args.args, **kw: _Args.kwargs) -> None:
    try:
        await operation(*args, **kw)
    except Exception as error:  # noqa: BLE001  # a user's store may raise anything
        log_store_failure(error)


def log_store_failure(error: Exception) -> RequestRefused:
    """Log that a store failed, and return the refusal. A store that is down is logged for debugging only."""
    if isinstance(error, TransportError):
        logger.debug("the session store or event store is unavailable: %s", error)
    else:
        logger.error("the session store or event store failed", exc_info=error)
    return RequestRefused(UNAVAILABLE)
