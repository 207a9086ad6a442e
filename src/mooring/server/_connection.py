"""The driver of one connection: does what the core decides, and tells it what happened.

The core (`mooring.protocol.server`) takes frames and events and returns effects. This file turns a transport and handlers
into events, and effects into frames and tasks. It decides nothing about the protocol. Events that arise while effects are
being done wait their turn, so the core is never re-entered, and what a handler said before its result leaves before it.

A client that reads slowly is not read from until it has caught up: answers wait here, and with answers waiting no further
request is pulled (at most 8 MiB are queued below). Progress and log messages are dropped meanwhile, and other notifications
kept once each, so that what waits is bounded by what the client asked for.

Above: `_server`, which owns connections. Below: `mooring.protocol` (what to do), `mooring.transport` (how frames move),
`_dispatch` (what a request means).
"""

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

import msgspec

from mooring.errors import FrameTooLargeError, Json, JsonRpcError, MachineError, McpError, RequestId
from mooring.protocol.server import ServerConnection, ServerOffer
from mooring.protocol.server import events as e
from mooring.protocol.wire import ABSENT
from mooring.server._subscriptions import Listening
from mooring.server._telemetry import Telemetry
from mooring.transport import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, Target, Transport

logger = logging.getLogger("mooring.server")

# What flushing may take when a connection ends: with the second that handlers get, the process is gone in 1.5 s.
FLUSH_TIMEOUT = 0.35
FLUSH_LOOK = 0.005

# Frames pulled in one turn of the loop. Between turns handlers run and answer, so that a client which pipelines more
# quick requests than `max_concurrent` is served and not refused; and other connections have their turn.
PULLED_IN_A_TURN = 64

# What a client that reads slowly does without.
DISPENSABLE = frozenset({"notifications/message", "notifications/progress"})

# A result, encoded; or what will give it; or None: it will be finished by `finish()`.
Outcome: TypeAlias = "bytes | Coroutine[Any, Any, bytes] | None"

_IS_EAGER = sys.version_info >= (3, 12)


class Handlers(Protocol):
    """Who serves requests: the dispatch."""

    def serve(self, connection: "Connection", request: e.Serve) -> Outcome:
        """The encoded result at once, or a coroutine that gives it, or None. Raises: McpError with a code, to refuse."""

    def notified(self, connection: "Connection", method: str, params: msgspec.Raw | None) -> None:
        """A notification of the client's."""

    def draining(self, connection: "Connection") -> None:
        """The connection takes no new requests: end what would go on for ever."""


class Connection:
    """One connection of a server on one event loop. `number` tells it from others in logs and telemetry."""

    def __init__(
        self,
        offer: ServerOffer,
        offered: frozenset[str],
        handlers: Handlers,
        *,
        telemetry: Telemetry,
        number: int = 0,
        core: ServerConnection | None = None,
    ) -> None:
        self.core = ServerConnection(offer) if core is None else core
        self.offer = offer
        self.offered = offered
        self.handlers = handlers
        self.telemetry = telemetry
        self.number = number
        self.closed = asyncio.Event()
        # What handlers keep for this connection, and whom it belongs to where that is known (HTTP).
        self.store: dict[str, Any] = {}
        self.principal = ""
        self.log_level = "info"
        self.listening = Listening(self)
        self.dropped = 0
        # Who wants to know that the end has begun.
        self.on_draining: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._transport: Transport | None = None
        self._later: deque[e.Event] = deque()
        self._is_stepping = False
        self._is_gone = False
        self._pull: asyncio.Handle | None = None
        self._tasks: dict[int, tuple[asyncio.Task[None], Coroutine[Any, Any, bytes]]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._stop_hooks: dict[int, Callable[[], None]] = {}
        self._started: dict[int, tuple[e.Serve, int]] = {}
        self._asked: dict[object, asyncio.Future[msgspec.Raw]] = {}
        self._backlog: deque[bytes] = deque()
        self._notices: set[tuple[str, bytes]] = set()
        self._number = 0
        self._written = 0
        self._last_size = 0
        self._wake: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return (
            f"<Connection {self.number} {self.core!r} {len(self._tasks)} tasks, {len(self._backlog)} waiting>"
        )

    # --- what its owner does ------------------------------------------------------------------------------------------

    async def open(self, target: Target, close_step: float = 2.0) -> None:
        """Begin to serve over this target. Raises: TransportError."""
        self._transport = await target.open(self, self.offer.options.max_frame_bytes, close_step)
        self.frames_arrived()

    def drain(self) -> None:
        """Take no new requests, give running ones their time, then end."""
        self.step(e.DrainAsked())

    def stop(self) -> None:
        """End at once."""
        self.step(e.StopAsked())

    def call(self, function: Callable[..., None], *args: object) -> None:
        """Call this on the loop's thread: now if this is it, else in its next turn."""
        if threading.get_ident() == self._thread:
            function(*args)
            return
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            pass  # the loop is closed: there is nobody to tell

    def notify(self, method: str, params: bytes, about: RequestId | None = None) -> None:
        """Send a notification, or drop it where the client reads too slowly for such things.

        Raises: FrameTooLargeError for one that cannot be sent.
        """
        limit = self.offer.options.max_frame_bytes
        if len(params) > limit - 256:
            raise FrameTooLargeError(len(params), limit)
        if self._backlog:
            notice = (method, params)
            if method in DISPENSABLE or notice in self._notices:
                self.dropped += 1
                return
            self._notices.add(notice)
        self.step(e.Notified(method, params, about))

    def progressed(self, event: e.Progressed) -> None:
        """Report progress, or drop it where the client reads too slowly."""
        if self._backlog:
            self.dropped += 1
        else:
            self.step(event)

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
        """Call `hook` when the request with this serial is cancelled."""
        self._stop_hooks[serial] = hook

    # --- what the transport tells (its owner's side of the contract) --------------------------------------------------

    def frames_arrived(self) -> None:
        transport = self._transport
        if transport is None or self._pull is not None:
            return
        for _ in range(PULLED_IN_A_TURN):
            if self._backlog and not self._is_gone:
                return  # until `room_made`
            frame = transport.next_frame()
            if frame is None:
                if self._is_gone:
                    self.step(e.ClientGone())
                return
            self._receive(frame)
        self._pull = self._loop.call_soon(self._pull_on)

    def wrote(self, through: int) -> None:
        self._written = through

    def room_made(self) -> None:
        transport = self._transport
        while self._backlog and transport is not None:
            if not transport.send(self._backlog[0], self._number + 1):
                return
            self._took(self._backlog.popleft())
        self._notices.clear()
        self.frames_arrived()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:  # noqa: ARG002  # the contract's
        # What it sent before is still served: `server < requests > answers` ends its input before we have begun.
        logger.debug("connection %d: the client is gone: %s", self.number, error)
        self._is_gone = True
        self.frames_arrived()

    def _pull_on(self) -> None:
        self._pull = None
        self.frames_arrived()

    def _receive(self, frame: bytes | McpError) -> None:
        if isinstance(frame, FrameTooLargeError):
            self.step(e.OversizeReceived(frame.size))
        elif isinstance(frame, McpError):
            logger.debug("connection %d: %s", self.number, frame)  # the stream is lost: `went_down` follows
        else:
            self._do(self.core.receive(frame, self._loop.time()))

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
            self._perform(effects)
        finally:
            self._is_stepping = False
        if self._later:
            self._work_off()
        elif self._wake is not None or self.core.wake_at is not None:
            self._arm()

    def _work_off(self) -> None:
        while self._later:
            event = self._later.popleft()
            self._is_stepping = True
            try:
                self._perform(self.core.step(event, self._loop.time()))
            except McpError:
                # Only what its maker could have known: a notification that is no JSON or too large was refused before.
                logger.exception("connection %d: %s was not taken", self.number, type(event).__name__)
            finally:
                self._is_stepping = False
        self._arm()

    def _arm(self) -> None:
        at = self.core.wake_at
        if self._wake is not None and (at is None or at != self._wake.when()):
            self._wake.cancel()
            self._wake = None
        if at is not None and self._wake is None:
            self._wake = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._wake = None
        # A timer may be a hair early by the clock's grain; the core is asked for what is due at the time it set.
        for event in self.core.due(max(self._loop.time(), self.core.wake_at or 0.0)):
            self.step(event)
        self._arm()

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
        self.listening.forget(effect.serial)
        started = self._started.get(effect.serial)
        if started is not None:
            self._tell_end(started[0], JsonRpcError(0, f"cancelled: {effect.reason}"))
        hook = self._stop_hooks.pop(effect.serial, None)
        if hook is not None:
            hook()
        running = self._tasks.pop(effect.serial, None)
        if running is not None:
            task, work = running
            self._leaving.add(task)  # the loop itself keeps no task alive
            task.add_done_callback(self._leaving.discard)
            # A task that is cancelled before its first step never looks at its work, which would be missed.
            task.add_done_callback(lambda _: work.close())
            task.cancel(effect.reason or None)

    # --- other effects ------------------------------------------------------------------------------------------------

    def _perform(self, effects: e.Effects) -> None:
        for effect in effects:
            _PERFORM[type(effect)](self, effect)

    def _send(self, effect: e.Send) -> None:
        if effect.error is not None:
            logger.debug("connection %d: refused: %s", self.number, effect.error)
        transport = self._transport
        if transport is None:
            return
        if self._backlog or not transport.send(effect.frame, self._number + 1):
            self._backlog.append(effect.frame)
        else:
            self._took(effect.frame)

    def _took(self, frame: bytes) -> None:
        self._number += 1
        self._last_size = len(frame)

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
            self.handlers.draining(self)
            if self.on_draining is not None:
                self.on_draining()

    def _violation(self, effect: e.Violation) -> None:
        logger.warning(
            "connection %d: the client broke a rule: %s (frame of %d bytes)",
            self.number,
            effect.reason,
            effect.size,
        )
        if self.telemetry.listeners:
            self._tell("protocol.violation", reason=effect.reason, frame_size=effect.size)

    def _stray(self, effect: e.Stray) -> None:
        logger.debug("connection %d: a response that nobody waits for (%s)", self.number, effect.kind)

    def _tell(self, name: str, **fields: object) -> None:
        self.telemetry.tell(f"mooring.server.{name}", self.number, **fields)

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

    # --- the end ------------------------------------------------------------------------------------------------------

    def _close(self, _: e.Close) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        transport = self._transport
        if transport is not None:
            end = self._loop.time() + FLUSH_TIMEOUT
            while not self._is_flushed(transport):
                if self._loop.time() >= end:
                    logger.debug("connection %d: the client did not take the last answers", self.number)
                    break
                await asyncio.sleep(FLUSH_LOOK)
            await transport.close()
        self._transport = None
        self._backlog.clear()
        if self._pull is not None:
            self._pull.cancel()
        self.closed.set()

    def _is_flushed(self, transport: Transport) -> bool:
        """Whether every byte is with the operating system, or can never be.

        The contract tells when a frame was begun, not when it was finished. What is left of one takes a place in the
        queue, so it is asked how many frames fit: all of them, if it is empty; none, if it is shut, or if more than the
        queue's bytes are left. What is put in for asking is taken out again in the same turn.
        """
        if self._backlog and self._is_gone and self._written >= self._number:
            pass  # refused although nothing is queued: shut, unless what is left is large
        elif self._backlog or self._written < self._number:
            return False
        taken = 0
        while taken < MAX_QUEUED_FRAMES and transport.send(b"{}", self._number + taken + 1):
            taken += 1
        for place in range(taken):
            transport.withdraw(self._number + place + 1)
        return taken == MAX_QUEUED_FRAMES or (taken == 0 and self._last_size + 2 <= MAX_QUEUED_BYTES)


def _failure(request: e.Serve, error: McpError) -> e.Failed:
    data: Json = None
    if isinstance(error, MachineError):
        data = error.data()
    elif isinstance(error, JsonRpcError):
        data = error.data
    said = ABSENT if data is None else data
    return e.Failed(request.id, request.serial, error.code or -32603, error.message, said)


_PERFORM: dict[type[e.Effect], Callable[[Connection, Any], None]] = {
    e.Serve: Connection._serve,
    e.StopServing: Connection._stop_serving,
    e.Send: Connection._send,
    e.Deliver: Connection._deliver,
    e.Complete: Connection._complete,
    e.Fail: Connection._fail_ask,
    e.Transition: Connection._transition,
    e.Violation: Connection._violation,
    e.Stray: Connection._stray,
    e.Close: Connection._close,
}
