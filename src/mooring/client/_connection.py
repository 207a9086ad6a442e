"""The driver: does what the core decides, and tells it what happened. The only file here that touches loop and wire.

The core (`mooring.protocol.ClientConnection`) takes events and returns effects. This file turns transports, timers and
callers into events, and effects into frames, futures and tasks. It decides nothing: what it does not find in an
effect, it does not do. Everything runs on one event loop; events that arise while effects are being done wait their
turn, so the core is never re-entered.

No task is tied to the one that opened the connection: it can be opened here and closed there, in any order, and a
cancelled opener leaves nothing behind.

Above: `_client`, the public face. Below: `mooring.protocol` (what to do), `mooring.transport` (how frames move).
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

import msgspec

from mooring.client._telemetry import Telemetry
from mooring.errors import FrameTooLargeError, McpError, StateError, TransportError
from mooring.protocol.client import ClientConnection, Inbox, Notice, ServerFacts, Settings
from mooring.protocol.client import events as e
from mooring.transport import Target, Transport

logger = logging.getLogger("mooring.client")

R = TypeVar("R")


class Call(Generic[R]):
    """One call under way, as its caller holds it: await it, or give it up with `cancel()`.

    `id` is the id of its request; it changes if the call is sent again after a loss.
    """

    __slots__ = ("_read", "corr_id", "future", "id", "method", "on_progress", "started_at", "started_ns")

    def __init__(
        self,
        future: "asyncio.Future[R]",
        method: str,
        read: Callable[[msgspec.Raw], R],
        on_progress: Callable[[msgspec.Raw], None] | None,
    ) -> None:
        self.future = future
        self.method = method
        self.id = 0
        self.on_progress = on_progress
        self._read = read
        self.corr_id = ""
        self.started_at = 0
        self.started_ns = 0

    def __repr__(self) -> str:
        return f"<Call {self.id} {self.method} {'done' if self.future.done() else 'open'}>"

    def complete(self, result: msgspec.Raw) -> None:
        """Read the result now, while its frame is there, and give it to whoever awaits."""
        if self.future.done():
            return
        try:
            value = self._read(result)
        except McpError as error:
            error.may_have_run = True  # it was answered: with something that cannot be read
            self.future.set_exception(error.about(self.method, self.id))
        else:
            self.future.set_result(value)

    def fail(self, error: McpError) -> None:
        """End it with this error."""
        if not self.future.done():
            self.future.set_exception(error)


class _Owner:
    """Who a transport of one epoch reports to: the connection, with that epoch on every event."""

    __slots__ = ("connection", "epoch", "transport")

    def __init__(self, connection: "Connection", epoch: int) -> None:
        self.connection = connection
        self.epoch = epoch
        self.transport: Transport | None = None

    def frames_arrived(self) -> None:
        if self.transport is not None:
            self.connection.pull(self.transport, self.epoch)

    def wrote(self, through: int) -> None:
        self.connection.step(e.Wrote(self.epoch, through))

    def room_made(self) -> None:
        self.connection.step(e.RoomMade(self.epoch))

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        self.connection.tell_exit(exit_code)
        self.connection.step(e.WentDown(self.epoch, error, exit_code, was_silent))


class Connection:
    """One client connection on one event loop.

    `on_notice` takes notifications one at a time, in order; `on_request` answers requests of the server's with an
    encoded result, or raises an McpError with a code; `on_transition` hears of every change of state.
    """

    def __init__(self, target: Target, settings: Settings, telemetry: Telemetry) -> None:
        self.target = target
        self.settings = settings
        self.telemetry = telemetry
        self.core = ClientConnection(settings, is_http=target.is_http)
        self.on_notice: Callable[[Notice], Awaitable[None]] | None = None
        self.on_request: Callable[[str, msgspec.Raw | None], Awaitable[bytes]] | None = None
        self.on_transition: Callable[[e.Transition], None] | None = None
        self.on_subscription_end: Callable[[str, McpError | None], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: Transport | None = None
        self._openings: dict[int, asyncio.Task[None]] = {}
        self._opened: dict[int, Transport] = {}
        self._later: deque[e.Event] = deque()
        self._is_stepping = False
        self._wake: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._handlers: dict[int | str, asyncio.Task[None]] = {}
        self._inbox = Inbox()
        self._reported: dict[int, Call[Any]] = {}
        self._consumer: asyncio.Task[None] | None = None
        self._closed: asyncio.Event | None = None

    def __repr__(self) -> str:
        return f"<Connection {self.core!r}>"

    # --- what the face asks -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin connecting on the running loop. Raises: StateError if it was begun before."""
        if self._loop is not None:
            raise StateError(self.core.state.value, message="a connection is opened once; make a new client")
        self._loop = asyncio.get_running_loop()
        self._closed = asyncio.Event()
        self._is_stepping = True
        try:
            self._perform(self.core.start(self._loop.time()))
        finally:
            self._is_stepping = False
        self._work_off()

    def submit(
        self,
        method: str,
        params: bytes,
        read: Callable[[msgspec.Raw], R],
        on_progress: Callable[[msgspec.Raw], None] | None = None,
        **how: Any,
    ) -> Call[R]:
        """Make a call; `how` are fields of `Called`. Await its future, and `give_up()` when nobody does any more."""
        loop = self._running()
        call = Call(loop.create_future(), method, read, on_progress)
        event = e.Called(
            caller=call, method=method, params=params, wants_progress=on_progress is not None, **how
        )
        self.step(event)
        return call

    async def call(self, *args: Any, **how: Any) -> Any:
        """`submit()` and wait. A caller that is cancelled gives the call up: the server is told, once."""
        call = self.submit(*args, **how)
        try:
            return await call.future
        except asyncio.CancelledError:
            self.give_up(call)
            raise

    def give_up(self, call: Call[Any]) -> None:
        """Nobody waits for this call any more."""
        if call.id:
            self.step(e.GaveUp(call.id))

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification. Raises: StateError, ShutdownError or ClosedError when that cannot be done now."""
        for effect in self._ask(e.Notified(caller=None, method=method, params=params)):
            if isinstance(effect, e.Fail):
                raise effect.error

    def server(self) -> ServerFacts:
        """What the server said of itself. Raises: StateError before the first ready."""
        (told,) = self._ask(e.ServerAsked(None))
        assert isinstance(told, e.Tell)  # the table answers this event with this effect in every state
        if told.server is None:
            raise told.error or StateError(self.core.state.value)
        return told.server

    async def ready(self, timeout: float | None) -> None:
        """Wait for ready. Raises: the reason if it closes first, the builtin TimeoutError after `timeout`."""
        waiter = self._running().create_future()
        self.step(e.ReadyAsked(waiter))
        try:
            async with asyncio.timeout(timeout):
                await waiter
        finally:
            self.step(e.WaitGivenUp(waiter))

    async def stop(self) -> None:
        """End it, and return when nothing of it is left. May be called by many, and again."""
        if self._loop is None or self._closed is None:
            return
        self.step(e.StopAsked())
        await self._closed.wait()
        mine = asyncio.current_task()
        while others := [task for task in self._tasks if task is not mine]:
            await asyncio.wait(others)

    def open_calls(self) -> "list[asyncio.Future[Any]]":
        """The futures of the calls that have no outcome yet."""
        callers = [exchange.caller for exchange in self.core.calls.pending.values()]
        return [caller.future for caller in callers if isinstance(caller, Call)]

    def standing_key(self, id: int) -> str | None:
        """The subscription that the request with this id opened."""
        exchange = self.core.calls.pending.get(id)
        return exchange.caller if exchange is not None and isinstance(exchange.caller, str) else None

    def step(self, event: e.Event) -> None:
        """Tell the core, and do what it says."""
        if self._is_stepping:
            self._later.append(event)
            return
        loop = self._running()
        self._is_stepping = True
        try:
            self._perform(self.core.step(event, loop.time(), random.random()))  # noqa: S311  # jitter, not a secret
        finally:
            self._is_stepping = False
        self._work_off()

    def pull(self, transport: Transport, epoch: int) -> None:
        """Take every frame that is there, one at a time: the next is parsed when the last was handled."""
        loop = self._running()
        core, now = self.core, loop.time()
        while self._transport is transport and (frame := transport.next_frame()) is not None:
            if isinstance(frame, McpError):
                fault = (
                    e.OversizeReceived(epoch, frame)
                    if isinstance(frame, FrameTooLargeError)
                    else e.WentDown(epoch, frame)
                )
                self.step(fault)
                continue
            self._is_stepping = True
            try:
                self._perform(core.receive(frame, epoch, now))
            finally:
                self._is_stepping = False
            if self._later:
                self._work_off()
        self._arm()

    def tell_exit(self, code: int | None) -> None:
        """A child process ended."""
        if code is not None and self.telemetry.listeners:
            self.telemetry.tell("mooring.child.exit", code=max(code, 0), signal=max(-code, 0))

    # --- stepping -----------------------------------------------------------------------------------------------------

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise StateError(
                self.core.state.value, message="the client is not open; use `async with` or `open()`"
            )
        return self._loop

    def _ask(self, event: e.Event) -> e.Effects:
        """Step an event whose effects are an answer; frames among them are sent, the rest is the asker's."""
        effects = self.core.step(event, self._running().time())
        for effect in effects:
            if isinstance(effect, e.Send):
                self._send(effect)
        return effects

    def _work_off(self) -> None:
        """Step what arose meanwhile, then sleep until the next timer."""
        while self._later:
            event = self._later.popleft()
            self._is_stepping = True
            try:
                self._perform(self.core.step(event, self._running().time(), random.random()))  # noqa: S311  # jitter
            finally:
                self._is_stepping = False
        self._arm()

    def _arm(self) -> None:
        at = self.core.wake_at
        wake = self._wake
        if at is None:
            if wake is not None:
                wake.cancel()
                self._wake = None
        elif wake is None or at < wake.when():
            # A timer that is too early is left: most deadlines are disarmed long before they pass.
            if wake is not None:
                wake.cancel()
            self._wake = self._running().call_at(at, self._tick)

    def _tick(self) -> None:
        self._wake = None
        for event in self.core.due(self._running().time()):
            self.step(event)
        self._arm()

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._running().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- effects ------------------------------------------------------------------------------------------------------

    def _perform(self, effects: e.Effects) -> None:
        for effect in effects:
            _PERFORM[type(effect)](self, effect)

    def _spawn(self, effect: e.Spawn) -> None:
        self._openings[effect.epoch] = self._task(self._open(effect.epoch))

    async def _open(self, epoch: int) -> None:
        owner = _Owner(self, epoch)
        try:
            transport = await self.target.open(owner, self.settings.max_frame_bytes, self.settings.close_step)
        except TransportError as error:
            self.step(e.SpawnRefused(epoch, error) if error.permanent else e.SpawnFailed(epoch, error))
        except asyncio.CancelledError:
            # Ours is the only hand on this task: a transport that is no longer wanted.
            self.step(e.SpawnFailed(epoch, TransportError("closed while it was starting")))
        except Exception as error:  # the edge of somebody else's transport
            logger.exception("%s: the transport could not be opened", self.telemetry.client)
            self.step(e.SpawnFailed(epoch, TransportError(f"{type(error).__name__}: {error}")))
        else:
            owner.transport = self._opened[epoch] = transport
            if epoch == self.core.epoch:
                self._transport = transport
            self.step(e.Spawned(epoch))
            self.step(e.CameUp(epoch))
            self.pull(transport, epoch)

    def _close(self, effect: e.Close) -> None:
        transport = self._opened.pop(effect.epoch, None)
        opening = self._openings.pop(effect.epoch, None)
        if transport is not None:
            if transport is self._transport:
                self._transport = None
            self._task(self._end(transport, effect.epoch))
        elif opening is not None and not opening.done():
            opening.cancel()

    async def _end(self, transport: Transport, epoch: int) -> None:
        try:
            await transport.close()
        except Exception:  # the edge of somebody else's transport
            logger.exception("%s: the transport could not be closed", self.telemetry.client)
        self.step(e.Reaped(epoch))

    def _send(self, effect: e.Send) -> None:
        transport = self._transport
        is_taken = transport is not None and transport.send(effect.frame, effect.number)
        if not is_taken and effect.id is not None:
            self._later.append(e.Refused(self.core.epoch, effect.id))

    def _withdraw(self, effect: e.Withdraw) -> None:
        if self._transport is not None:
            self._transport.withdraw(effect.number)

    def _complete(self, effect: e.Complete) -> None:
        call = effect.caller
        assert isinstance(call, Call)  # only `submit()` makes callers
        call.complete(effect.result)
        self._reported.pop(effect.id, None)
        if self.telemetry.listeners:
            self._tell_end("mooring.request.stop", call)

    def _fail(self, effect: e.Fail) -> None:
        call = effect.caller
        assert isinstance(call, Call)  # only `submit()` makes callers
        call.fail(effect.error)
        self._reported.pop(effect.id, None)
        if self.telemetry.listeners:
            reason, may_have_run = effect.error, effect.error.may_have_run
            self._tell_end("mooring.request.exception", call, reason=reason, may_have_run=may_have_run)

    def _accept(self, effect: e.Accept) -> None:
        call = effect.caller
        assert isinstance(call, Call)  # only `submit()` makes callers
        call.id = effect.id
        if self.telemetry.listeners:
            call.corr_id = random.randbytes(8).hex()  # noqa: S311  # it tells calls apart, it hides nothing
            call.started_at, call.started_ns = time.monotonic_ns(), time.time_ns()
            self.telemetry.tell("mooring.request.start", **_about(call))

    def _tell_end(self, name: str, call: Call[Any], **more: object) -> None:
        duration = time.monotonic_ns() - call.started_at if call.started_at else 0
        self.telemetry.tell(name, **_about(call), duration_ns=duration, **more)

    def _release(self, effect: e.Release) -> None:
        waiter = effect.caller
        if isinstance(waiter, asyncio.Future) and not waiter.done():
            if effect.error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(effect.error)

    def _deliver(self, effect: e.Deliver) -> None:
        self._inbox.put(effect.method, effect.params)
        if self.telemetry.listeners:
            self.telemetry.tell("mooring.notification.received", method=effect.method)
        self._wake_consumer()

    def _report(self, effect: e.Report) -> None:
        call = effect.caller
        assert isinstance(call, Call)  # only `submit()` makes callers
        self._reported[effect.id] = call
        self._inbox.put("notifications/progress", effect.params)
        self._wake_consumer()

    def _wake_consumer(self) -> None:
        if self._consumer is None:
            self._consumer = self._task(self._consume())

    async def _consume(self) -> None:
        """Hand notifications over, one at a time. The task ends when there are none, and is made again for the next."""
        try:
            while (notice := self._inbox.take()) is not None:
                if self.on_notice is not None:
                    await self.on_notice(notice)
        finally:
            self._consumer = None

    def reported(self, id: int) -> Call[Any] | None:
        """The open call that progress with this token belongs to."""
        return self._reported.get(id)

    def _serve(self, effect: e.Serve) -> None:
        # The frame is gone when the task runs: the params are copied here.
        params = None if effect.params is None else msgspec.Raw(bytes(effect.params))
        self._handlers[effect.id] = self._task(self._handle(effect.id, effect.method, params))

    async def _handle(self, id: int | str, method: str, params: msgspec.Raw | None) -> None:
        result, error = b"{}", b""
        try:
            if self.on_request is None:
                error = _error(-32601, f"{method} is not handled here")
            else:
                result = await self.on_request(method, params)
        except McpError as refusal:
            error = _error(refusal.code or -32603, refusal.message)
        except Exception:  # the edge of the user's handler; what it says stays here
            logger.exception("%s: the handler for %s raised", self.telemetry.client, method)
            error = _error(-32603, "the handler failed")
        finally:
            self._handlers.pop(id, None)
        self.step(e.Replied(id, result, error))

    def _stop_serving(self, effect: e.StopServing) -> None:
        task = self._handlers.pop(effect.id, None)
        if task is not None:
            task.cancel()

    def _end_subscription(self, effect: e.EndSubscription) -> None:
        if self.on_subscription_end is not None:
            self.on_subscription_end(effect.key, effect.error)

    def _transition(self, effect: e.Transition) -> None:
        logger.info("%s: %s -> %s", self.telemetry.client, effect.source, effect.target)
        if self.telemetry.listeners:
            fields = {"from": effect.source, "to": effect.target, "reason": effect.reason}
            self.telemetry.tell(
                "mooring.connection.transition", **fields, epoch=effect.epoch, attempt=effect.attempt
            )
        if effect.target == "closed" and self._closed is not None:
            self._closed.set()
        if self.on_transition is not None:
            self.on_transition(effect)

    def _violation(self, effect: e.Violation) -> None:
        logger.warning("%s: %s (frame of %d bytes)", self.telemetry.client, effect.reason, effect.size)
        if self.telemetry.listeners:
            self.telemetry.tell("mooring.protocol.violation", reason=effect.reason, frame_size=effect.size)

    def _stray(self, effect: e.Stray) -> None:
        logger.debug("%s: an answer that nobody waits for (%s)", self.telemetry.client, effect.kind)
        if self.telemetry.listeners:
            self.telemetry.tell(f"mooring.response.{effect.kind}", count=effect.count)

    def _leak(self, effect: e.Leak) -> None:
        logger.error(
            "%s: the transport of epoch %d could not be closed in time", self.telemetry.client, effect.epoch
        )

    def _tell(self, effect: e.Tell) -> None:
        """Read by who asked: see `server()`."""

    def _hang_up(self, effect: e.HangUp) -> None:
        """Only requests that travel one by one have a response to close: the HTTP transport overrides nothing here."""


def _about(call: Call[Any]) -> dict[str, object]:
    return {"method": call.method, "id": call.id, "corr_id": call.corr_id, "system_time_ns": call.started_ns}


def _error(code: int, message: str) -> bytes:
    return msgspec.json.encode({"code": code, "message": message})


_PERFORM: dict[type[e.Effect], Callable[[Connection, Any], None]] = {
    e.Spawn: Connection._spawn,
    e.Close: Connection._close,
    e.Send: Connection._send,
    e.Withdraw: Connection._withdraw,
    e.HangUp: Connection._hang_up,
    e.Complete: Connection._complete,
    e.Fail: Connection._fail,
    e.Accept: Connection._accept,
    e.Release: Connection._release,
    e.Tell: Connection._tell,
    e.Deliver: Connection._deliver,
    e.Report: Connection._report,
    e.Serve: Connection._serve,
    e.StopServing: Connection._stop_serving,
    e.EndSubscription: Connection._end_subscription,
    e.Transition: Connection._transition,
    e.Violation: Connection._violation,
    e.Stray: Connection._stray,
    e.Leak: Connection._leak,
}
