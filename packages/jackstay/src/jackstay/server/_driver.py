"""`Driver`, the base class of every server connection: performs the effects that the protocol core returns.

The core (`jackstay.protocol.server`) accepts frames and events and returns effects. The driver runs handlers in tasks
and reports their results as events. Subclasses define how a frame is sent and how the connection closes: over a
transport (`_connection`) or in an HTTP response (`http`).
"""

import asyncio
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping
from itertools import chain, count
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import msgspec

from jackstay.errors import FrameTooLargeError, Json, JsonRpcError, MachineError, McpError, RequestId
from jackstay.protocol import LIST_CHANGES, MAX_VIOLATION_WARNINGS
from jackstay.protocol.server import ServerConfig, ServerConnection
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ABSENT
from jackstay.server._telemetry import Telemetry

if TYPE_CHECKING:
    from jackstay.server._subscriptions import Quota, Subscriptions

logger = logging.getLogger("jackstay.server")

# An encoded result, or a coroutine that returns it, or None if `finish()` is called later.
Outcome: TypeAlias = "bytes | Coroutine[Any, Any, bytes] | None"

# Options of tasks that run handlers: their first step runs at once, where Python supports that.
_TASK_OPTIONS: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


class Handlers(Protocol):
    """Serves requests: the dispatcher, or the relay of a proxy."""

    def serve(self, connection: "Driver", request: e.Serve) -> Outcome:
        """Return the encoded result, a coroutine that returns it, or None. Raises: McpError with a code."""

    def notified(self, connection: "Driver", method: str, params: msgspec.Raw | None) -> None:
        """Handle a notification of the client."""


class ConnectionConfig(msgspec.Struct, frozen=True):
    """The parameters of new connections, the same for every transport."""

    server_config: ServerConfig
    capabilities: frozenset[str]
    handlers: Handlers
    telemetry: Telemetry
    # The number of each connection.
    numbers: Iterator[int] = msgspec.field(default_factory=count)
    # Limits the URIs that its client may subscribe to; None for the default.
    quota: "Quota | None" = None


class Caller(msgspec.Struct, frozen=True):
    """The caller of a request: the principal, the scopes and claims of its token, and the headers of the request.

    In an HTTP session every POST may have another token, so each request keeps its own caller.
    """

    # Empty without authentication.
    principal: str = ""
    # None for transports without scopes.
    scopes: frozenset[str] | None = None
    claims: Mapping[str, Json] = {}
    # With names in lower case; empty for other transports than HTTP.
    headers: Mapping[str, str] = {}
    # The method, the path and the address of the client of an HTTP request.
    http: tuple[str, str, str] | None = None

    @property
    def address(self) -> str:
        """Of the client, as the HTTP server reports it; empty for other transports."""
        return "" if self.http is None else self.http[2]


_NO_CALLER = Caller()

# Serves the requests of one method.
Serve: TypeAlias = "Callable[[Driver, e.Serve, Caller], Outcome]"


class SubscriberIndex:
    """The connections of a server by what their clients are notified of. Thread-safe.

    A topic is the URI of a resource, or the method of a notification that a list has changed.
    """

    __slots__ = ("_by_topic", "_changes", "_lock", "number")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A client may subscribe to a resource by several requests, so the subscriptions are counted.
        self._by_topic: dict[str, Counter[Driver]] = {}
        # The number of changes of lists, and which one was the last of each.
        self.number = 0
        self._changes: dict[str, int] = {}

    def add(self, connection: "Driver", topics: Iterable[str]) -> None:
        """Add one subscription to each topic."""
        with self._lock:
            for topic in topics:
                self._by_topic.setdefault(topic, Counter())[connection] += 1

    def remove(self, connection: "Driver", topics: Iterable[str]) -> None:
        """Remove one subscription to each topic."""
        with self._lock:
            for topic in topics:
                counts = self._by_topic[topic]
                counts[connection] -= 1
                if not counts[connection]:
                    del counts[connection]
                    if not counts:
                        del self._by_topic[topic]

    def changed(self, topic: str) -> "list[Driver]":
        """Return the connections whose clients are notified of this topic, which has changed.

        If it is a list, `changes_since()` returns it from now on.
        """
        with self._lock:
            if topic in LIST_CHANGES:
                self.number += 1
                self._changes[topic] = self.number
            return list(self._by_topic.get(topic, ()))

    def changes_since(self, number: int) -> list[str]:
        """Return the methods of the lists that have changed after the change of this number."""
        with self._lock:
            return [method for method, last in self._changes.items() if last > number]


# Tasks that were cancelled and have not ended yet. The loop keeps only weak references to tasks.
_cancelling: set["asyncio.Task[None]"] = set()


class Driver:
    """One connection of a server on one event loop. `number` identifies it in logs and telemetry.

    `caller` is the authenticated sender of the message that is being received (HTTP).

    There may be thousands of idle connections, and HTTP without sessions creates one for every request. Therefore the
    class has slots and creates rarely used parts on first use.
    """

    __slots__ = (
        *("__weakref__", "_is_stepping", "_loop", "_queued_events", "_started", "_stop_hooks"),
        *("_store", "_subscriptions", "_tasks", "_thread", "_wake", "_wake_at", "caller", "capabilities", "core"),
        *("dropped", "handlers", "log_level", "number", "quota", "server_config", "subscriber_index", "telemetry"),
    )

    # Whether subscriptions outlive the request. False for a POST without a session.
    KEEPS_SUBSCRIPTIONS: ClassVar[bool] = True

    # The method of each subclass that performs an effect.
    PERFORM: ClassVar[dict[type[e.Effect], Callable[[Any, Any], None]]] = {}

    def __init_subclass__(cls) -> None:
        cls.PERFORM = {
            e.Serve: cls._serve,
            e.StopServing: cls._stop_serving,
            e.Send: cls._send,
            e.Deliver: cls._deliver,
            e.Complete: cls._complete_client_request,
            e.Fail: cls._complete_client_request,
            e.Transition: cls._transition,
            e.Violation: cls._violation,
            e.Stray: cls._stray,
            e.Close: cls._close,
        }

    def __init__(
        self,
        config: ConnectionConfig,
        core: ServerConnection | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.core = ServerConnection(config.server_config) if core is None else core
        self.server_config = config.server_config
        self.capabilities = config.capabilities
        self.handlers = config.handlers
        self.telemetry = config.telemetry
        self.number = next(config.numbers)
        self.quota = config.quota
        # Of the server, while it notifies this connection of changes.
        self.subscriber_index: SubscriberIndex | None = None
        self.caller = _NO_CALLER
        self.log_level = "info"
        self.dropped = 0
        self._store: dict[str, Any] | None = None
        self._subscriptions: Subscriptions | None = None
        # Passed by connections that are made for every request: before Python 3.12 this function makes a system call.
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self._thread = threading.get_ident()
        self._queued_events: list[e.Event] = []
        self._is_stepping = False
        self._tasks: dict[int, tuple[asyncio.Task[None], Coroutine[Any, Any, bytes]]] = {}
        self._stop_hooks: dict[int, list[Callable[[], None]]] | None = None
        self._started: dict[int, tuple[e.Serve, int]] | None = None
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at = 0.0  # of `_wake`; uvloop has handles without `when()`

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number} {self.core!r} {len(self._tasks)} tasks>"

    @property
    def principal(self) -> str:
        """The authenticated user (HTTP), the same for all messages of a connection."""
        return self.caller.principal

    @property
    def owner(self) -> Hashable:
        """Whose queue in the thread pool its blocking functions use: the principal's, or that of this connection."""
        return ("principal", self.caller.principal) if self.caller.principal else self

    @property
    def store(self) -> dict[str, Any]:
        """Storage of handlers for this connection: `ctx.store`."""
        if self._store is None:
            self._store = {}
        return self._store

    @property
    def subscriptions(self) -> "Subscriptions":
        """The subscriptions of the client."""
        if self._subscriptions is None:
            from jackstay.server._subscriptions import Subscriptions  # noqa: PLC0415  # few connections need it

            self._subscriptions = Subscriptions(self)
        return self._subscriptions

    # --- public methods -----------------------------------------------------------------------------------------------

    @property
    def is_listening(self) -> bool:
        """Whether the client can receive a notification of a changed list now, without a subscription."""
        return True

    @property
    def topics(self) -> Iterator[str]:
        """What the client is notified of, for the index of subscribers."""
        lists = LIST_CHANGES if self.is_listening else ()
        return chain(lists, () if self._subscriptions is None else self._subscriptions.topics)

    def join(self, index: SubscriberIndex) -> None:
        """Be notified of changes from now on, until the connection is removed from the index."""
        self.subscriber_index = index
        index.add(self, self.topics)

    def changed(self, method: str, uri: str, params: bytes) -> None:
        """Notify the client of a change if it subscribed to it. Only on the loop's thread."""
        self.subscriptions.changed(method, uri, params)

    def drain(self) -> None:
        """Reject new requests, give running ones their time, then close."""
        self.step(e.DrainRequested())

    def stop(self) -> None:
        """Close at once."""
        self.step(e.StopRequested())

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the loop's thread: now if this is it, else in the next iteration of the event loop."""
        if threading.get_ident() == self._thread:
            function(*args)
            return
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            pass  # the loop is closed

    def notify(self, method: str, params: bytes, about: RequestId | None = None) -> None:
        """Send a notification. Raises: FrameTooLargeError."""
        limit = self.server_config.options.max_frame_bytes
        if len(params) > limit - 256:
            raise FrameTooLargeError(len(params), limit)
        self.step(e.Notified(method, params, about))

    def progressed(self, event: e.Progressed) -> None:
        """Send progress."""
        self.step(event)

    def close_stream(self, about: RequestId, retry: float | None = None) -> bool:  # noqa: ARG002  # for subclasses
        """Close the response stream of a request; the client reconnects for the result. False: not supported."""
        return False

    async def request(self, method: str, params: bytes, about: RequestId | None) -> msgspec.Raw:
        """Send a request to the client and return its result. Raises: McpError (see `docs/errors.md`)."""
        # The key of the request, which the core returns with the response.
        response: asyncio.Future[msgspec.Raw] = self._loop.create_future()
        self.step(e.OutgoingRequested(response, method, params, about))
        try:
            return await response
        except asyncio.CancelledError:
            self.step(e.OutgoingCancelled(response))
            raise

    def on_stop(self, serial: int, hook: Callable[[], None]) -> None:
        """Call `hook` when the request with this serial is cancelled, after the hooks that were added before."""
        if self._stop_hooks is None:
            self._stop_hooks = {}
        self._stop_hooks.setdefault(serial, []).append(hook)

    # --- stepping -----------------------------------------------------------------------------------------------------

    def step(self, event: e.Event) -> None:
        """Pass an event to the core and perform its effects.

        Events that arise meanwhile are queued, so that the core is never re-entered and the order of messages is kept.
        """
        self._queued_events.append(event)
        if not self._is_stepping:
            self._process_events()

    def _apply(self, effects: e.Effects) -> None:
        """Perform effects, then process the events that they caused."""
        self._is_stepping = True
        try:
            perform = self.PERFORM
            for effect in effects:  # `_perform`, without a call
                perform[type(effect)](self, effect)
        finally:
            self._is_stepping = False
        if self._queued_events:
            self._process_events()
        elif self._wake is not None or self.core.wake_at is not None:
            self._arm()

    def _perform(self, effects: e.Effects) -> None:
        self._is_stepping = True
        try:
            perform = self.PERFORM
            for effect in effects:
                perform[type(effect)](self, effect)
        finally:
            self._is_stepping = False

    def _process_events(self) -> None:
        """Process queued events, then arm the timer. If one of them raises, the others are processed soon after."""
        try:
            while self._queued_events:
                event = self._queued_events.pop(0)
                try:
                    self._perform(self.core.step(event, self._loop.time()))
                except McpError:
                    # Not expected: invalid and oversized notifications are rejected before.
                    logger.exception("connection %d: %s was rejected", self.number, type(event).__name__)
        finally:
            self._arm()
            if self._queued_events:
                self._loop.call_soon(self._process_events)

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
        # A timer may fire slightly early because of the clock's resolution, so use at least the time that was set.
        self._queued_events += self.core.due(max(self._loop.time(), self.core.wake_at or 0.0))
        self._process_events()

    # --- requests -----------------------------------------------------------------------------------------------------

    def finish(self, request: e.Serve, result: bytes) -> None:
        """Send the encoded result of a request, unless it was cancelled."""
        if self._stop_hooks:
            self._stop_hooks.pop(request.serial, None)
        if self._started:
            self._emit_end(request)
        if self._queued_events:  # only during a step: notifications of the handler come first
            self._queued_events.append(e.Finished(request.id, request.serial, result))
        elif self._is_stepping:
            perform = self.PERFORM
            for effect in self.core.finish(request.id, request.serial, result):
                perform[type(effect)](self, effect)
        else:
            self._apply(self.core.finish(request.id, request.serial, result))

    def fail(self, request: e.Serve, error: McpError) -> None:
        """Send the error response of a request."""
        if self._stop_hooks:
            self._stop_hooks.pop(request.serial, None)
        if self._started:
            self._emit_end(request, error)
        data: Json = None
        if isinstance(error, MachineError):
            data = error.data()
        elif isinstance(error, JsonRpcError):
            data = error.data
        code = -32603 if error.code is None else error.code  # 0 is a code, too
        self.step(e.Failed(request.id, request.serial, code, error.message, ABSENT if data is None else data))

    def _serve(self, request: e.Serve) -> None:
        if self.telemetry.listeners:
            self._emit_start(request)
        try:
            work = self.handlers.serve(self, request)
        except Exception as error:  # noqa: BLE001  # reported
            self._raised(request, error)
        else:
            if isinstance(work, bytes):
                self.finish(request, work)
            elif work is not None:
                self._start(request, work)

    def _start(self, request: e.Serve, work: Coroutine[Any, Any, bytes]) -> None:
        task = asyncio.Task(self._run(request, work), loop=self._loop, **_TASK_OPTIONS)
        if not task.done():
            self._tasks[request.serial] = task, work

    async def _run(self, request: e.Serve, work: Coroutine[Any, Any, bytes]) -> None:
        try:
            result = await work
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # reported
            self._raised(request, error)
        else:
            if result:  # empty: the request stays open
                self.finish(request, result)
        finally:
            self._tasks.pop(request.serial, None)

    def _raised(self, request: e.Serve, error: BaseException) -> None:
        """Send the error response for an exception of `Handlers.serve` or of its coroutine."""
        if isinstance(error, asyncio.CancelledError):
            # If the request is still in flight, the handler cancelled itself and the client waits for a response.
            if self.core.in_flight.get(request.id) == request.serial:
                self.fail(request, JsonRpcError(-32603, "the handler was cancelled"))
        elif isinstance(error, McpError):
            self.fail(request, error)
        else:  # a defect; its message must not reach the client
            logger.error("internal error in %s", request.method.name, exc_info=error)
            self.fail(request, JsonRpcError(-32603, "internal error"))

    def _stop_serving(self, effect: e.StopServing) -> None:
        if self._subscriptions is not None:
            self._subscriptions.forget(effect.serial)
        started = self._started.get(effect.serial) if self._started else None
        if started is not None:
            self._emit_end(started[0], JsonRpcError(0, f"cancelled: {effect.reason}"))
        for hook in self._stop_hooks.pop(effect.serial, ()) if self._stop_hooks else ():
            hook()
        running = self._tasks.pop(effect.serial, None)
        if running is not None:
            task, work = running
            _cancelling.add(task)
            task.add_done_callback(_cancelling.discard)
            # A task that is cancelled before its first step never awaits its coroutine, which would cause a warning.
            task.add_done_callback(lambda _: work.close())
            task.cancel(effect.reason or None)

    # --- other effects ------------------------------------------------------------------------------------------------

    def _send(self, effect: e.Send) -> None:
        raise NotImplementedError

    def _close(self, effect: e.Close) -> None:
        raise NotImplementedError

    def _draining(self) -> None:
        """End requests that would stay open forever."""
        if self._subscriptions is not None:
            self._subscriptions.end()

    def _deliver(self, effect: e.Deliver) -> None:
        self.handlers.notified(self, effect.method, effect.params)

    def _complete_client_request(self, effect: e.Complete | e.Fail) -> None:
        response: Any = effect.key  # see `request()`
        if response.done():
            return
        if isinstance(effect, e.Fail):
            response.set_exception(effect.error)
        else:
            response.set_result(msgspec.Raw(bytes(effect.result)))  # a copy: the frame is released before it is read

    def _transition(self, effect: e.Transition) -> None:
        logger.debug("connection %d: %s -> %s: %s", self.number, effect.source, effect.target, effect.reason)
        if self.telemetry.listeners:
            self._emit("connection.transition", **{"from": effect.source, "to": effect.target, "reason": effect.reason})
        if effect.target == "draining":
            self._draining()
        elif effect.target == "closed" and self._subscriptions is not None:
            self._subscriptions.close()

    def _violation(self, effect: e.Violation) -> None:
        # A client that sends garbage must not fill a disk with our warnings, nor a stderr pipe that it does not read.
        is_warning = effect.count <= MAX_VIOLATION_WARNINGS or effect.count.bit_count() == 1
        message = "connection %d: protocol violation by the client: %s (frame of %d bytes; %d so far)"
        log = logger.warning if is_warning else logger.debug
        log(message, self.number, effect.reason, effect.size, effect.count)
        if self.telemetry.listeners:
            self._emit("protocol.violation", reason=effect.reason, frame_size=effect.size)

    def _stray(self, effect: e.Stray) -> None:
        logger.debug("connection %d: unexpected response (%s)", self.number, effect.kind)

    def _emit(self, name: str, **fields: object) -> None:
        self.telemetry.emit(f"jackstay.server.{name}", self.number, **fields)

    def _emit_start(self, request: e.Serve) -> None:
        if self._started is None:
            self._started = {}
        self._started[request.serial] = request, time.monotonic_ns()
        self._emit("request.start", method=request.method.name, id=request.id)

    def _emit_end(self, request: e.Serve, error: McpError | None = None) -> None:
        _, started_at = (self._started or {}).pop(request.serial, (request, 0))
        about = {"method": request.method.name, "id": request.id}
        duration = time.monotonic_ns() - started_at if started_at else 0
        if error is None:
            self._emit("request.stop", **about, duration_ns=duration)
        else:
            self._emit("request.exception", **about, duration_ns=duration, code=error.code, reason=error.message)
