"""What the core decides is done, whatever carries the frames: the driver under every connection of a server.

The core (`jackstay.protocol.server`) takes frames and events and returns effects. This file turns handlers into events, and
effects into tasks and frames to send. It decides nothing about the protocol. Events that arise while effects are being done
wait their turn, so the core is never re-entered, and what a handler said before its result leaves before it.

How a frame leaves, and what the end is, differs: over a transport (`_connection`), or in the response to an HTTP request
(`http`). Those classes say it in `_send` and `_close`. There may be ten thousand of these at rest, and one is made for every
HTTP request without a session: so it has slots, and what few need is made when it is asked for.

Above: `_connection`, `http`. Below: `jackstay.protocol` (what to do), `_dispatch` (what a request means).
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Hashable, Mapping
from functools import partial
from typing import Any, ClassVar, Protocol, TypeAlias

import msgspec

from jackstay.errors import FrameTooLargeError, Json, JsonRpcError, MachineError, McpError, RequestId
from jackstay.protocol.server import ServerConnection, ServerOffer
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ABSENT
from jackstay.server._subscriptions import Listening, Quota
from jackstay.server._telemetry import Telemetry

logger = logging.getLogger("jackstay.server")

# A result, encoded; or what will give it; or None: it will be finished by `finish()`.
Outcome: TypeAlias = "bytes | Coroutine[Any, Any, bytes] | None"

# Warnings about a client that breaks rules, before they become fewer.
VIOLATIONS_TOLD = 8

_IS_EAGER = sys.version_info >= (3, 12)


class Handlers(Protocol):
    """Who serves requests: the dispatch."""

    def serve(self, connection: "Driver", request: e.Serve) -> Outcome:
        """The encoded result at once, or a coroutine that gives it, or None. Raises: McpError with a code, to refuse."""

    def notified(self, connection: "Driver", method: str, params: msgspec.Raw | None) -> None:
        """A notification of the client's."""

    def draining(self, connection: "Driver") -> None:
        """The connection takes no new requests: end what would go on for ever."""


class Terms(msgspec.Struct, frozen=True):
    """What a connection begins with, whatever carries it: what it is told and offered, who serves it, and its number."""

    offer: ServerOffer
    offered: frozenset[str]
    handlers: Handlers
    telemetry: Telemetry
    number: int = 0
    # What its client may subscribe to: by itself, and together with others.
    quota: Quota = msgspec.field(default_factory=Quota)


class Caller(msgspec.Struct, frozen=True):
    """Whose request it is: the principal, and the scopes and claims of the token that came with it.

    A session gets another one with each POST, so a request keeps the one that it came with.
    """

    # Empty where nobody had to authenticate.
    principal: str = ""
    # None where callers have no scopes: not over HTTP.
    scopes: frozenset[str] | None = None
    claims: Mapping[str, Json] = {}


_NO_CALLER = Caller()

# Tasks that were cancelled and have not ended yet: the loop itself keeps no task alive.
_LEAVING: set["asyncio.Task[None]"] = set()


class Driver:
    """One connection of a server on one event loop. `number` tells it from others in logs and telemetry.

    `caller` is whom the message that is being received comes from, where that is known (HTTP). `owner` is what its blocking
    functions wait in turn by: None is this connection itself.
    """

    __slots__ = (
        *(
            "__weakref__",
            "_asked",
            "_is_stepping",
            "_later",
            "_listening",
            "_loop",
            "_started",
            "_stop_hooks",
            "_store",
        ),
        *(
            "_tasks",
            "_thread",
            "_wake",
            "_wake_at",
            "core",
            "dropped",
            "handlers",
            "log_level",
            "number",
            "offer",
            "offered",
        ),
        *("caller", "owner", "quota", "telemetry"),
    )

    # Whether what a client subscribes to outlives the request: not in a POST without session.
    KEEPS_SUBSCRIPTIONS: ClassVar[bool] = True

    # What each effect does; a class that does one differently has a table of its own.
    PERFORM: ClassVar[dict[type[e.Effect], Callable[[Any, Any], None]]] = {}

    def __init__(self, terms: Terms, core: ServerConnection | None = None) -> None:
        self.core = ServerConnection(terms.offer) if core is None else core
        self.offer = terms.offer
        self.offered = terms.offered
        self.handlers = terms.handlers
        self.telemetry = terms.telemetry
        self.number = terms.number
        self.quota = terms.quota
        self.caller = _NO_CALLER
        self.owner: Hashable | None = None
        self.log_level = "info"
        self.dropped = 0
        self._store: dict[str, Any] | None = None
        self._listening: Listening | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._later: list[e.Event] = []
        self._is_stepping = False
        self._tasks: dict[int, tuple[asyncio.Task[None], Coroutine[Any, Any, bytes]]] = {}
        self._stop_hooks: dict[int, Callable[[], None]] = {}
        self._started: dict[int, tuple[e.Serve, int]] = {}
        self._asked: dict[object, asyncio.Future[msgspec.Raw]] = {}
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at = 0.0  # of `_wake`; uvloop has handles without `when()`

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number} {self.core!r} {len(self._tasks)} tasks>"

    @property
    def principal(self) -> str:
        """Whom it belongs to, where that was proved (HTTP). It is the same for all messages of a connection."""
        return self.caller.principal

    @property
    def store(self) -> dict[str, Any]:
        """What handlers keep for this connection."""
        if self._store is None:
            self._store = {}
        return self._store

    @property
    def listening(self) -> Listening:
        """Who wants to hear of changes."""
        if self._listening is None:
            self._listening = Listening(self)
        return self._listening

    # --- what its owner does ------------------------------------------------------------------------------------------

    def changed(self, method: str, uri: str, params: bytes) -> None:
        """Something changed that the client may want to hear of. On the loop's thread, where `listening` is made."""
        self.listening.changed(method, uri, params)

    def drain(self) -> None:
        """Take no new requests, give running ones their time, then end."""
        self.step(e.DrainAsked())

    def stop(self) -> None:
        """End at once."""
        self.step(e.StopAsked())

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Call this on the loop's thread: now if this is it, else in its next turn."""
        if threading.get_ident() == self._thread:
            function(*args)
            return
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            pass  # the loop is closed: there is nobody to tell

    def notify(self, method: str, params: bytes, about: RequestId | None = None) -> None:
        """Send a notification. Raises: FrameTooLargeError for one that cannot be sent."""
        limit = self.offer.options.max_frame_bytes
        if len(params) > limit - 256:
            raise FrameTooLargeError(len(params), limit)
        self.step(e.Notified(method, params, about))

    def progressed(self, event: e.Progressed) -> None:
        """Report progress."""
        self.step(event)

    def close_stream(self, about: RequestId, retry: float | None = None) -> bool:  # noqa: ARG002  # for who can
        """End the response that this request is answered in; the client comes back for the answer. False: it cannot be."""
        return False

    async def ask(self, method: str, params: bytes, about: RequestId | None) -> msgspec.Raw:
        """Ask the client, and wait for its answer. Raises: McpError as `docs/errors.md` says."""
        key = object()
        answer: asyncio.Future[msgspec.Raw] = self._loop.create_future()
        self._asked[key] = answer
        self.step(e.Asked(key, method, params, about))
        try:
            return await answer
        except asyncio.CancelledError:
            self.step(e.Withdrew(key))
            raise
        finally:
            del self._asked[key]

    def on_stop(self, serial: int, hook: Callable[[], None]) -> None:
        """Call `hook` when the request with this serial is cancelled, after those that were there before it."""
        before = self._stop_hooks.get(serial)
        self._stop_hooks[serial] = hook if before is None else partial(_both, before, hook)

    # --- stepping -----------------------------------------------------------------------------------------------------

    def step(self, event: e.Event) -> None:
        """Tell the core, and do what it says."""
        self._later.append(event)
        if not self._is_stepping:
            self._work_off()

    def _do(self, effects: e.Effects) -> None:
        """Do these, and then what came of it."""
        self._is_stepping = True
        try:
            perform = self.PERFORM  # as `_perform`, without a call: this runs twice for every request
            for effect in effects:
                perform[type(effect)](self, effect)
        finally:
            self._is_stepping = False
        if self._later:
            self._work_off()
        elif self._wake is not None or self.core.wake_at is not None:
            self._arm()

    def _work_off(self) -> None:
        """Step what arose meanwhile, then sleep until the next timer. If one step raises, the others follow soon."""
        try:
            while self._later:
                event = self._later.pop(0)
                self._is_stepping = True
                try:
                    self._perform(self.core.step(event, self._loop.time()))
                except McpError:
                    # Only what its maker could have known: a notification that is no JSON or too large was refused before.
                    logger.exception("connection %d: %s was not taken", self.number, type(event).__name__)
                finally:
                    self._is_stepping = False
        finally:
            self._arm()
            if self._later:
                self._loop.call_soon(self._work_off)

    def _arm(self) -> None:
        at = self.core.wake_at
        if self._wake is not None and at != self._wake_at:
            self._wake.cancel()
            self._wake = None
        if at is not None and self._wake is None:
            self._wake_at = at
            self._wake = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._wake = None
        # A timer may be a hair early by the clock's grain; the core is asked for what is due at the time it set.
        self._later += self.core.due(max(self._loop.time(), self.core.wake_at or 0.0))
        self._work_off()

    # --- requests -----------------------------------------------------------------------------------------------------

    def finish(self, request: e.Serve, result: bytes) -> None:
        """The encoded result of a request; its answer, if one is still wanted."""
        if self._stop_hooks:
            self._stop_hooks.pop(request.serial, None)
        if self._started:
            self._tell_end(request)
        if self._later:  # only while stepping: what the handler said comes first
            self._later.append(e.Finished(request.id, request.serial, result))
        elif self._is_stepping:
            self._perform(self.core.finish(request.id, request.serial, result, self._loop.time()))
        else:
            self._do(self.core.finish(request.id, request.serial, result, self._loop.time()))

    def fail(self, request: e.Serve, error: McpError) -> None:
        """A request ends with this error."""
        self._stop_hooks.pop(request.serial, None)
        if self._started:
            self._tell_end(request, error)
        self.step(_failure(request, error))

    def _serve(self, request: e.Serve) -> None:
        if self.telemetry.listeners:
            self._started[request.serial] = request, time.monotonic_ns()
            self._tell("request.start", method=request.method.name, id=request.id)
        try:
            work = self.handlers.serve(self, request)
        except McpError as error:
            self.fail(request, error)
        except Exception:  # the edge of the dispatch: what it says stays here
            logger.exception("%s could not be served", request.method.name)
            self.fail(request, JsonRpcError(-32603, "internal error"))
        else:
            if isinstance(work, bytes):
                self.finish(request, work)
            elif work is not None:
                self._start(request, work)

    def _start(self, request: e.Serve, work: Coroutine[Any, Any, bytes]) -> None:
        if _IS_EAGER:
            task: asyncio.Task[None] = asyncio.Task(
                self._run(request, work),
                loop=self._loop,
                eager_start=True,  # type: ignore[call-arg,unused-ignore]  # 3.12
            )
            if task.done():
                return
        else:
            task = asyncio.Task(self._run(request, work), loop=self._loop)
        self._tasks[request.serial] = task, work

    async def _run(self, request: e.Serve, work: Coroutine[Any, Any, bytes]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:
            # By the client or by the end: then nothing is waited for. By the handler itself: the client waits.
            if self.core.in_flight.get(request.id) == request.serial:
                self.fail(request, JsonRpcError(-32603, "the handler was cancelled"))
        except McpError as error:
            self.fail(request, error)
        except Exception:  # the edge of the dispatch: what it says stays here
            logger.exception("%s failed", request.method.name)
            self.fail(request, JsonRpcError(-32603, "internal error"))
        else:
            if result:  # empty: it stays open
                self.finish(request, result)
        finally:
            self._tasks.pop(request.serial, None)

    def _stop_serving(self, effect: e.StopServing) -> None:
        if self._listening is not None:
            self._listening.forget(effect.serial)
        started = self._started.get(effect.serial)
        if started is not None:
            self._tell_end(started[0], JsonRpcError(0, f"cancelled: {effect.reason}"))
        hook = self._stop_hooks.pop(effect.serial, None)
        if hook is not None:
            hook()
        running = self._tasks.pop(effect.serial, None)
        if running is not None:
            task, work = running
            _LEAVING.add(task)
            task.add_done_callback(_LEAVING.discard)
            # A task that is cancelled before its first step never looks at its work, which would be missed.
            task.add_done_callback(lambda _: work.close())
            task.cancel(effect.reason or None)

    # --- other effects ------------------------------------------------------------------------------------------------

    def _perform(self, effects: e.Effects) -> None:
        perform = self.PERFORM
        for effect in effects:
            perform[type(effect)](self, effect)

    def _send(self, effect: e.Send) -> None:
        raise NotImplementedError

    def _close(self, effect: e.Close) -> None:
        raise NotImplementedError

    def _draining(self) -> None:
        """The end has begun."""
        self.handlers.draining(self)

    def _deliver(self, effect: e.Deliver) -> None:
        self.handlers.notified(self, effect.method, effect.params)

    def _complete(self, effect: e.Complete) -> None:
        waiting = self._asked.get(effect.key)
        if waiting is not None and not waiting.done():
            waiting.set_result(msgspec.Raw(bytes(effect.result)))  # a copy: the frame is gone when it is read

    def _fail_ask(self, effect: e.Fail) -> None:
        waiting = self._asked.get(effect.key)
        if waiting is not None and not waiting.done():
            waiting.set_exception(effect.error)

    def _transition(self, effect: e.Transition) -> None:
        logger.debug("connection %d: %s -> %s: %s", self.number, effect.source, effect.target, effect.reason)
        if self.telemetry.listeners:
            fields = {"from": effect.source, "to": effect.target, "reason": effect.reason}
            self._tell("connection.transition", **fields)
        if effect.target == "draining":
            self._draining()
        elif effect.target == "closed" and self._listening is not None:
            self._listening.close()

    def _violation(self, effect: e.Violation) -> None:
        # The first few and then ever fewer, each time their number has doubled: who floods us with rubbish must not fill
        # a disk with what we say of it, nor a pipe that it does not read.
        is_told = effect.count <= VIOLATIONS_TOLD or effect.count.bit_count() == 1
        logger.log(
            logging.WARNING if is_told else logging.DEBUG,
            "connection %d: the client broke a rule: %s (frame of %d bytes; %d so far)",
            self.number,
            effect.reason,
            effect.size,
            effect.count,
        )
        if self.telemetry.listeners:
            self._tell("protocol.violation", reason=effect.reason, frame_size=effect.size)

    def _stray(self, effect: e.Stray) -> None:
        logger.debug("connection %d: a response that nobody waits for (%s)", self.number, effect.kind)

    def _tell(self, name: str, **fields: object) -> None:
        self.telemetry.tell(f"jackstay.server.{name}", self.number, **fields)

    def _tell_end(self, request: e.Serve, error: McpError | None = None) -> None:
        _, started_at = self._started.pop(request.serial, (request, 0))
        about = {"method": request.method.name, "id": request.id}
        duration = time.monotonic_ns() - started_at if started_at else 0
        if error is None:
            self._tell("request.stop", **about, duration_ns=duration)
        else:
            self._tell(
                "request.exception", **about, duration_ns=duration, code=error.code, reason=error.message
            )


def _both(first: Callable[[], None], then: Callable[[], None]) -> None:
    first()
    then()


def _failure(request: e.Serve, error: McpError) -> e.Failed:
    data: Json = None
    if isinstance(error, MachineError):
        data = error.data()
    elif isinstance(error, JsonRpcError):
        data = error.data
    said = ABSENT if data is None else data
    code = -32603 if error.code is None else error.code  # 0 is a code, too
    return e.Failed(request.id, request.serial, code, error.message, said)


def perform_table(kind: type[Driver]) -> dict[type[e.Effect], Callable[[Any, Any], None]]:
    """What each effect does for this kind of connection."""
    return {
        e.Serve: kind._serve,
        e.StopServing: kind._stop_serving,
        e.Send: kind._send,
        e.Deliver: kind._deliver,
        e.Complete: kind._complete,
        e.Fail: kind._fail_ask,
        e.Transition: kind._transition,
        e.Violation: kind._violation,
        e.Stray: kind._stray,
        e.Close: kind._close,
    }
