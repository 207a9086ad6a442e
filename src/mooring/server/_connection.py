"""The driver of one connection: does what the core decides, and tells it what happened.

The core (`mooring.protocol.server`) takes frames and events and returns effects. This file turns a transport and handlers into
events, and effects into frames and tasks. It decides nothing. A client that reads slowly is not read from until it has
caught up: answers wait here, and with answers waiting no further request is pulled.

Above: `_run` and `_server`, which own connections. Below: `mooring.protocol` (what to do), `mooring.transport` (how frames
move), `_dispatch` (what a request means).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from mooring.errors import FrameTooLargeError, Json, JsonRpcError, MachineError, McpError, RequestId
from mooring.protocol.server import ServerConnection, ServerOffer
from mooring.protocol.server import events as e
from mooring.transport import Target, Transport

logger = logging.getLogger("mooring.server")

# What flushing may take when a connection ends: with the second that handlers get, the process is gone in 1.5 s.
FLUSH_TIMEOUT = 0.4


class Handlers(Protocol):
    """Who serves requests: the dispatch."""

    def serve(self, connection: "Connection", request: e.Serve) -> "bytes | Coroutine[Any, Any, bytes]":
        """The encoded result at once, or a coroutine that gives it. Raises: McpError with a code, to refuse."""

    def notified(self, connection: "Connection", method: str, params: msgspec.Raw | None) -> None:
        """A notification of the client's."""

    def ended(self, connection: "Connection") -> None:
        """The connection is over."""


class Connection:
    """One connection of a server on one event loop."""

    def __init__(self, offer: ServerOffer, handlers: Handlers) -> None:
        self.core = ServerConnection(offer)
        self.offer = offer
        self.handlers = handlers
        self.closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._transport: Transport | None = None
        self._later: deque[e.Event] = deque()
        self._is_stepping = False
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._stop_hooks: dict[int, Callable[[], None]] = {}
        self._asked: dict[object, asyncio.Future[msgspec.Raw]] = {}
        self._backlog: deque[bytes] = deque()
        self._number = 0
        self._written = 0
        self._flushed: asyncio.Event | None = None
        self._wake: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Connection {self.core!r} {len(self._tasks)} running>"

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

    def notify(self, method: str, params: bytes, about: RequestId | None = None) -> None:
        """Send a notification. Raises: UsageError or FrameTooLargeError for one that cannot be sent."""
        self.step(e.Notified(method, params, about))

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
        if transport is None:
            return
        while not self._backlog and (frame := transport.next_frame()) is not None:
            if isinstance(frame, McpError):
                if isinstance(frame, FrameTooLargeError):
                    self.step(e.OversizeReceived(frame.size))
                else:
                    self.step(e.ClientGone())
                continue
            self._is_stepping = True
            try:
                self._perform(self.core.receive(frame, self._loop.time()))
            finally:
                self._is_stepping = False
            if self._later:
                self._work_off()
        self._arm()

    def wrote(self, through: int) -> None:
        self._written = through
        if self._flushed is not None and not self._backlog and through >= self._number:
            self._flushed.set()

    def room_made(self) -> None:
        transport = self._transport
        while self._backlog and transport is not None:
            if not transport.send(self._backlog[0], self._number + 1):
                return
            self._number += 1
            self._backlog.popleft()
        self.frames_arrived()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:  # noqa: ARG002  # the contract's
        logger.debug("the client is gone: %s", error)
        self.step(e.ClientGone())

    # --- stepping -----------------------------------------------------------------------------------------------------

    def step(self, event: e.Event) -> None:
        """Tell the core, and do what it says."""
        if self._is_stepping:
            self._later.append(event)
            return
        self._later.append(event)
        self._work_off()

    def _work_off(self) -> None:
        while self._later:
            event = self._later.popleft()
            self._is_stepping = True
            try:
                self._perform(self.core.step(event, self._loop.time()))
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
        for event in self.core.due(self._loop.time()):
            self.step(event)
        self._arm()

    # --- effects ------------------------------------------------------------------------------------------------------

    def _perform(self, effects: e.Effects) -> None:
        for effect in effects:
            _PERFORM[type(effect)](self, effect)

    def _serve(self, request: e.Serve) -> None:
        try:
            work = self.handlers.serve(self, request)
        except McpError as error:
            self._later.append(_failure(request, error))
        except Exception:  # the edge of the dispatch: what it says stays here
            logger.exception("%s could not be served", request.method.name)
            self._later.append(e.Failed(request.id, request.serial, -32603, "internal error"))
        else:
            if isinstance(work, bytes):
                self._perform(self.core.finish(request.id, request.serial, work, self._loop.time()))
            else:
                self._tasks[request.serial] = self._loop.create_task(self._run(request, work))

    async def _run(self, request: e.Serve, work: Coroutine[Any, Any, bytes]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:
            return  # by the client, or by the end: nothing is answered
        except McpError as error:
            self.step(_failure(request, error))
        except Exception:  # the edge of the user's handler: what it says stays here
            logger.exception("%s failed", request.method.name)
            self.step(e.Failed(request.id, request.serial, -32603, "internal error"))
        else:
            self._perform(self.core.finish(request.id, request.serial, result, self._loop.time()))
            if self._later:
                self._work_off()
        finally:
            self._tasks.pop(request.serial, None)
            self._stop_hooks.pop(request.serial, None)

    def _stop_serving(self, effect: e.StopServing) -> None:
        hook = self._stop_hooks.pop(effect.serial, None)
        if hook is not None:
            hook()
        task = self._tasks.pop(effect.serial, None)
        if task is not None:
            task.cancel(effect.reason or None)

    def _send(self, effect: e.Send) -> None:
        if effect.error is not None:
            logger.debug("refused: %s", effect.error)
        transport = self._transport
        if transport is None:
            return
        if self._backlog or not transport.send(effect.frame, self._number + 1):
            self._backlog.append(effect.frame)
        else:
            self._number += 1

    def _deliver(self, effect: e.Deliver) -> None:
        self.handlers.notified(self, effect.method, effect.params)

    def _complete(self, effect: e.Complete) -> None:
        waiting = self._asked.get(effect.key)
        if waiting is not None and not waiting.done():
            waiting.set_result(msgspec.Raw(bytes(effect.result)))  # a copy: the frame is gone when it is read

    def _fail(self, effect: e.Fail) -> None:
        waiting = self._asked.get(effect.key)
        if waiting is not None and not waiting.done():
            waiting.set_exception(effect.error)

    def _transition(self, effect: e.Transition) -> None:
        logger.debug("%s -> %s: %s", effect.source, effect.target, effect.reason)

    def _violation(self, effect: e.Violation) -> None:
        logger.warning("the client broke a rule: %s (frame of %d bytes)", effect.reason, effect.size)

    def _stray(self, effect: e.Stray) -> None:
        logger.debug("a response that nobody waits for (%s)", effect.kind)

    def _close(self, _: e.Close) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        transport, self._flushed = self._transport, asyncio.Event()
        if transport is not None:
            if self._backlog or self._written < self._number:
                try:
                    async with asyncio.timeout(FLUSH_TIMEOUT):
                        await self._flushed.wait()
                except TimeoutError:
                    logger.debug("the client did not take the last %d answers", len(self._backlog))
            await transport.close()
        self._transport = None
        self.handlers.ended(self)
        self.closed.set()


def _failure(request: e.Serve, error: McpError) -> e.Failed:
    data: Json = None
    if isinstance(error, MachineError):
        data = error.data()
    elif isinstance(error, JsonRpcError):
        data = error.data
    said = msgspec.UNSET if data is None else data
    return e.Failed(request.id, request.serial, error.code or -32603, error.message, said)


_PERFORM: dict[type[e.Effect], Callable[[Connection, Any], None]] = {
    e.Serve: Connection._serve,
    e.StopServing: Connection._stop_serving,
    e.Send: Connection._send,
    e.Deliver: Connection._deliver,
    e.Complete: Connection._complete,
    e.Fail: Connection._fail,
    e.Transition: Connection._transition,
    e.Violation: Connection._violation,
    e.Stray: Connection._stray,
    e.Close: Connection._close,
}
