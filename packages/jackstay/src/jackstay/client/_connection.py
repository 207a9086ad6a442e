"""The driver: does what the core decides, and tells it what happened. The only file here that touches loop and wire.

The core (`jackstay.protocol.client.ClientConnection`) takes events and returns effects. This file turns transports, timers
and callers into events, and effects into frames, futures and tasks. It decides nothing: what it does not find in an
effect, it does not do. Everything runs on one event loop; events that arise while effects are being done wait their
turn, so that frames leave in the order of their numbers.

No task is tied to the one that opened the connection: it can be opened here and closed there, in any order, and a
cancelled opener leaves nothing behind.

Above: `_client`, the public face. Below: `jackstay.protocol` (what to do), `jackstay.transport` (how frames move).
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from jackstay.client._call import Call
from jackstay.client._error import encode_error
from jackstay.client._messages import REQUEST_SOURCE, source_of
from jackstay.client._owner import Owner
from jackstay.client._telemetry import Telemetry
from jackstay.errors import (
    FrameTooLargeError,
    JsonRpcError,
    McpError,
    StateError,
    TransportError,
    UsageError,
)
from jackstay.protocol.client import ClientConnection, Inbox, Notice, ServerFacts, Settings
from jackstay.protocol.client import events as e
from jackstay.transport import ExchangeTransport, Target, Transport
from jackstay.types import ProgressNotificationParams

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader

logger = logging.getLogger("jackstay.client")

R = TypeVar("R")

_NOT_OPEN = "the client is not open; use `async with` or `open()`"
_OTHER_LOOP = "the client was opened on another event loop; each loop needs its own"

# Of a server that breaks rules on and on so many are told, and then ever fewer: it must not fill a disk. As our server does.
VIOLATIONS_TOLD = 8


class Connection:
    """One client connection on one event loop.

    `on_arrival` sees each notification as it arrives and takes it by returning True; `on_notice` gets the others one at a
    time, in order; `on_request` answers requests of the server's with an encoded result, or raises an McpError with a
    code; `on_transition` and `on_subscription_end` hear of those. `lots` is where chance comes from.
    """

    def __init__(
        self, target: Target, settings: Settings, telemetry: Telemetry, lots: random.Random | None = None
    ) -> None:
        self.target = target
        self.settings = settings
        self.telemetry = telemetry
        self.core = ClientConnection(settings, is_http=target.is_http)
        self.on_arrival: Callable[[str, msgspec.Raw | None, Call[Any] | None], bool] | None = None
        self.on_notice: Callable[[Notice], Awaitable[None]] | None = None
        self.on_request: Callable[[str, msgspec.Raw | None], Awaitable[bytes]] | None = None
        self.on_transition: Callable[[e.Transition], None] | None = None
        self.on_subscription_end: Callable[[str, McpError | None], None] | None = None
        self._lots = lots or random.Random()  # noqa: S311  # jitter and names of calls: nothing is hidden by it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: Transport | None = None
        self._openings: dict[int, asyncio.Task[None]] = {}
        self._opened: dict[int, Transport] = {}
        self._later: deque[e.Event] = deque()
        self._is_stepping = False
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at = 0.0  # of `_wake`; uvloop has handles without `when()`
        self._tasks: set[asyncio.Task[Any]] = set()
        self._handlers: dict[int | str, asyncio.Task[None]] = {}
        self._inbox = Inbox()
        # Calls whose progress waits in the inbox: an answer may overtake it, and the last report is still theirs.
        self._reported: dict[int, Call[Any]] = {}
        self._consumer: asyncio.Task[None] | None = None
        self._closed: asyncio.Event | None = None
        self._violations = 0
        # Tasks that wait in `stop()`: they are not waited for, and not cancelled, if they are handlers.
        self._stoppers: set[asyncio.Task[Any] | None] = set()
        # Which arguments of which tools travel in headers, too, by the list fetched last.
        self.marked_arguments: dict[str, tuple[ParamHeader, ...]] = {}

    def __repr__(self) -> str:
        return f"<Connection {self.core!r}>"

    # --- what the face asks -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin connecting on the running loop. Raises: StateError if it was begun before."""
        if self._loop is not None:
            raise StateError(self.core.state.value, message="a connection is opened once; make a new client")
        self._loop = asyncio.get_running_loop()
        self._closed = asyncio.Event()
        self._do(self.core.start(self._loop.time()))
        self._work_off()

    def submit(
        self,
        method: str,
        params: bytes,
        read: Callable[[msgspec.Raw], R],
        on_progress: Callable[[ProgressNotificationParams], object] | None = None,
        **how: Any,
    ) -> Call[R]:
        """Make a call; `how` are fields of `Called`. Await its future, and `give_up()` when nobody does any more.

        Raises: StateError if it was never opened, UsageError on another loop than its own.
        """
        loop = self._running()
        if asyncio.get_running_loop() is not loop:
            raise UsageError(_OTHER_LOOP)
        call = Call(loop.create_future(), method, read, on_progress)
        self.step(e.Called(caller=call, method=method, params=params, **how))
        return call

    def give_up(self, call: Call[Any]) -> None:
        """Nobody waits for this call any more: the server is told, once, if it was written."""
        exchange = self.core.calls.pending.get(call.id)
        if exchange is None or exchange.caller is not call:
            return  # it ended meanwhile
        call.may_have_run = self.core.calls.may_have_run(exchange)
        if self.telemetry.listeners and call.corr_id:
            call.emit_end(
                self.telemetry,
                "jackstay.request.exception",
                reason=asyncio.CancelledError("the caller gave it up"),
                may_have_run=call.may_have_run,
            )
        self.step(e.GaveUp(call.id))

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification, now or when there is room.

        Raises: StateError, ShutdownError, ClosedError or BackpressureError when that cannot be done.
        """
        event = e.Notified(caller=None, method=method, params=params)
        if self._is_stepping:  # from a listener: frames that are about to be sent go first
            self._later.append(event)
            return
        for effect in self._ask(event):
            if isinstance(effect, e.Fail):
                raise effect.error

    def server(self) -> ServerFacts:
        """What the server said of itself. Raises: StateError before the first ready."""
        told = self._asked()
        if told.server is None:
            raise told.error or StateError(self.core.state.value)
        return told.server

    def is_stale(self) -> bool:
        """Whether what is known of the server is from before the last loss. Raises: StateError before it was opened."""
        return self._asked().is_stale

    def _asked(self) -> e.Tell:
        (told,) = self._ask(e.ServerAsked(None))
        assert isinstance(told, e.Tell)  # the table answers this event with this effect in every state
        return told

    async def ready(self, timeout: float | None) -> None:
        """Wait for ready. Raises: the reason if it closes first, the builtin TimeoutError after `timeout`."""
        self.check_loop()
        waiter = self._running().create_future()
        self.step(e.ReadyAsked(waiter))
        try:
            async with asyncio.timeout(timeout):
                await waiter
        finally:
            self.step(e.WaitGivenUp(waiter))

    async def stop(self) -> None:
        """End it, and return when nothing of it is left. May be called by many, from anywhere, and again."""
        if self._loop is None or self._closed is None:
            return
        self.check_loop()
        mine = asyncio.current_task()
        self._stoppers.add(mine)
        try:
            try:
                await asyncio.sleep(
                    0
                )  # one turn: what is queued is flushed, such as the cancellation of a call
            finally:
                self.step(e.StopAsked())
            await self._closed.wait()
            if self._consumer is not None and self._consumer not in self._stoppers:
                self._consumer.cancel()
            others = self._tasks - self._stoppers
            if others:
                _, stubborn = await asyncio.wait(others, timeout=self.settings.close_timeout)
                for task in stubborn:
                    logger.error("%s: a handler does not end: %r", self.telemetry.client, task)
        finally:
            self._stoppers.discard(mine)

    def open_calls(self) -> "list[asyncio.Future[Any]]":
        """The futures of the calls that have no outcome yet."""
        callers = [exchange.caller for exchange in self.core.calls.pending.values()]
        return [caller.future for caller in callers if isinstance(caller, Call)]

    def standing_key(self, id: int | str | None) -> str | None:
        """The subscription that the request with this id opened."""
        exchange = self.core.calls.pending.get(id) if isinstance(id, int) else None
        return exchange.caller if exchange is not None and isinstance(exchange.caller, str) else None

    def is_standing(self, key: str) -> bool:
        """Whether a request for this subscription is under way or open."""
        return any(each.caller == key for each in self.core.calls.pending.values())

    def step(self, event: e.Event) -> None:
        """Tell the core, and do what it says."""
        if self._is_stepping:
            self._later.append(event)
            return
        try:
            self._do(self.core.step(event, self._running().time(), self._lots.random()))
        finally:
            if self._later:
                self._work_off()
            else:
                self._arm()

    def pull(self, transport: Transport, epoch: int) -> None:
        """Take every frame that is there, one at a time: the next is parsed when the last was handled."""
        loop = self._running()
        if self._is_stepping:  # a transport that tells from inside `send()`
            loop.call_soon(self.pull, transport, epoch)
            return
        core, now = self.core, loop.time()
        try:
            while self._transport is transport and (frame := transport.next_frame()) is not None:
                if isinstance(frame, McpError):
                    is_large = isinstance(frame, FrameTooLargeError)
                    self.step(e.OversizeReceived(epoch, frame) if is_large else e.WentDown(epoch, frame))
                    continue
                self._do(core.receive(frame, epoch, now, self._lots.random()))
                if self._later:
                    self._work_off()
        except BaseException:
            loop.call_soon(self.pull, transport, epoch)  # the frames behind this one
            raise
        finally:
            self._arm()

    def tell_exit(self, code: int | None) -> None:
        """A child process ended."""
        if code is not None and self.telemetry.listeners:
            self.telemetry.tell("jackstay.child.exit", code=max(code, 0), signal=max(-code, 0))

    def reported(self, id: int | str) -> Call[Any] | None:
        """The call that a report of progress taken from the inbox belongs to."""
        return self._reported.pop(id, None) if isinstance(id, int) else None

    def check_loop(self) -> None:
        """Refuse to go on where it does not live, unless nothing of it lives any more. Raises: UsageError, StateError."""
        is_over = self._closed is not None and self._closed.is_set()
        if not is_over and asyncio.get_running_loop() is not self._running():
            raise UsageError(_OTHER_LOOP)

    # --- stepping -----------------------------------------------------------------------------------------------------

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise StateError("new", message=_NOT_OPEN)
        return self._loop

    def _ask(self, event: e.Event) -> e.Effects:
        """Step an event whose effects are an answer; frames among them are sent, the rest is the asker's."""
        effects = self.core.step(event, self._running().time())
        for effect in effects:
            if isinstance(effect, e.Send):
                self._send(effect)
        if self._later and not self._is_stepping:
            self._work_off()
        return effects

    def _do(self, effects: Iterable[e.Effect]) -> None:
        """Perform these effects. If one raises, the others are performed all the same."""
        self._is_stepping = True
        remaining = iter(effects)
        try:
            for effect in remaining:
                _PERFORM[effect.__class__](self, effect)
        except BaseException:
            self._do(remaining)
            raise
        finally:
            self._is_stepping = False

    def _work_off(self) -> None:
        """Step what arose meanwhile, then sleep until the next timer. If one step raises, the others follow soon."""
        try:
            while self._later:
                event = self._later.popleft()
                self._do(self.core.step(event, self._running().time(), self._lots.random()))
        finally:
            self._arm()
            if self._later:
                self._running().call_soon(self._work_off)

    def _arm(self) -> None:
        at = self.core.wake_at
        wake = self._wake
        if at is None:
            if wake is not None:
                wake.cancel()
                self._wake = None
        elif wake is None or at < self._wake_at:
            # A timer that is too early is left: most deadlines are disarmed long before they pass.
            if wake is not None:
                wake.cancel()
            self._wake_at = at
            self._wake = self._running().call_at(at, self._tick)

    def _tick(self) -> None:
        self._wake = None
        self._later += self.core.due(self._running().time())
        self._work_off()

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._running().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- effects: the transport ---------------------------------------------------------------------------------------

    def _spawn(self, effect: e.Spawn) -> None:
        kept = self._opened.pop(effect.epoch - 1, None)
        if isinstance(kept, ExchangeTransport):  # not closed: only its session was lost
            owner = Owner(self, effect.epoch)
            kept.renew(owner)
            self._take_over(kept, owner)
            return
        task = self._openings[effect.epoch] = self._task(self._open(effect.epoch))
        task.add_done_callback(partial(self._settle_opening, effect.epoch))

    async def _open(self, epoch: int) -> None:
        owner = Owner(self, epoch)
        try:
            transport = await self.target.open(owner, self.settings.max_frame_bytes, self.settings.close_step)
        except TransportError as error:
            self.step(e.SpawnRefused(epoch, error) if error.permanent else e.SpawnFailed(epoch, error))
        except Exception as error:  # the edge of somebody else's transport
            logger.exception("%s: the transport could not be opened", self.telemetry.client)
            self.step(e.SpawnFailed(epoch, TransportError(f"{type(error).__name__}: {error}")))
        else:
            self._take_over(transport, owner)
            self.pull(transport, epoch)

    def _take_over(self, transport: Transport, owner: Owner) -> None:
        owner.transport = self._opened[owner.epoch] = transport
        if owner.epoch == self.core.epoch:
            self._transport = transport
        self.step(e.Spawned(owner.epoch))
        self.step(e.CameUp(owner.epoch))

    def _settle_opening(self, epoch: int, task: "asyncio.Task[None]") -> None:
        # Not caught inside the task: one that is cancelled before its first step never runs.
        self._openings.pop(epoch, None)
        if task.cancelled():
            self.step(e.SpawnFailed(epoch, TransportError("closed while it was starting")))

    def _close(self, effect: e.Close) -> None:
        transport = self._opened.pop(effect.epoch, None)
        if transport is not None:
            if transport is self._transport:
                self._transport = None
            # In this turn of the loop, before its frames are flushed: the core has just decided what was surely not sent.
            try:
                transport.stop_writing()
            except Exception:  # the edge of somebody else's transport
                logger.exception("%s: the transport could not stop writing", self.telemetry.client)
            self._task(self._end(transport, effect.epoch))
        elif effect.epoch in self._openings:
            self._openings[effect.epoch].cancel()

    async def _end(self, transport: Transport, epoch: int) -> None:
        try:
            await transport.close()
        except Exception:  # the edge of somebody else's transport
            logger.exception("%s: the transport could not be closed", self.telemetry.client)
        self.step(e.Reaped(epoch))

    def _send(self, effect: e.Send) -> None:
        transport = self._transport
        try:
            is_taken = transport is not None and transport.send(effect.frame, effect.number)
        except Exception as error:  # the edge of somebody else's transport
            logger.exception("%s: the transport could not send", self.telemetry.client)
            down = TransportError(f"{type(error).__name__}: {error}")
            self._later.append(e.WentDown(self.core.epoch, down))
            return
        if is_taken:
            return
        if effect.id is not None:
            self._later.append(e.Refused(self.core.epoch, effect.id))
        elif effect.must_arrive:
            self._later.append(e.FrameRefused(self.core.epoch, effect.frame, effect.answers))
        else:
            logger.info("%s: the transport is busy; a cancellation was not sent", self.telemetry.client)

    def _resume(self, _: e.Resume) -> None:
        self._later.append(e.Resumed())

    def _withdraw(self, effect: e.Withdraw) -> None:
        if self._transport is not None:
            self._transport.withdraw(effect.number)

    def _hang_up(self, effect: e.HangUp) -> None:
        if isinstance(self._transport, ExchangeTransport):
            self._transport.hang_up(effect.id)

    def _leak(self, effect: e.Leak) -> None:
        client, epoch = self.telemetry.client, effect.epoch
        logger.error("%s: the transport of epoch %d could not be closed in time", client, epoch)

    # --- effects: calls -----------------------------------------------------------------------------------------------

    def _complete(self, effect: e.Complete) -> None:
        call = effect.caller
        assert isinstance(call, Call)  # only `submit()` makes callers
        call.complete(effect.result)
        if self.telemetry.listeners:
            call.emit_end(self.telemetry, "jackstay.request.stop")

    def _fail(self, effect: e.Fail) -> None:
        call, error = effect.caller, effect.error
        if call is None:  # of a notification that was made while other effects were being done
            logger.warning("%s: %s", self.telemetry.client, error)
            return
        assert isinstance(call, Call)  # only `submit()` makes callers
        call.fail(error)
        if self.telemetry.listeners:
            if not call.id:
                call.emit_start(self.telemetry, self._lots)  # refused at once: its beginning is its end
            may_have_run = error.may_have_run
            call.emit_end(
                self.telemetry, "jackstay.request.exception", reason=error, may_have_run=may_have_run
            )

    def _accept(self, effect: e.Accept) -> None:
        call = effect.caller
        assert isinstance(call, Call)  # only `submit()` makes callers
        is_first = not call.id
        call.id = effect.id
        if is_first and self.telemetry.listeners:
            call.emit_start(self.telemetry, self._lots)

    def _release(self, effect: e.Release) -> None:
        waiter = effect.caller
        if isinstance(waiter, asyncio.Future) and not waiter.done():
            if effect.error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(effect.error)

    def _tell(self, effect: e.Tell) -> None:
        """Read by who asked: see `server()`."""

    # --- effects: what the server says --------------------------------------------------------------------------------

    def _deliver(self, effect: e.Deliver) -> None:
        self._arrived(effect.method, effect.params)

    def _report(self, effect: e.Report) -> None:
        call = effect.caller
        assert isinstance(call, Call)  # only `submit()` makes callers
        call.progress_at = self._running().time()
        self._arrived("notifications/progress", effect.params, effect.id, call)

    def _arrived(self, method: str, params: msgspec.Raw | None, id: int = 0, call: Any = None) -> None:
        if self.telemetry.listeners:
            self.telemetry.tell("jackstay.notification.received", method=method)
        if self.on_arrival is not None and self.on_arrival(method, params, call):
            return
        if call is not None:
            self._reported[id] = call
        self._inbox.put(method, params)
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
        except Exception:  # the outermost edge: one that cannot be handled must not stop the next
            logger.exception("%s: a notification could not be handled", self.telemetry.client)
        finally:
            self._consumer = None
            if len(self._inbox) and self._closed is not None and not self._closed.is_set():
                self._wake_consumer()
            else:
                self._reported.clear()

    def _serve(self, effect: e.Serve) -> None:
        params = None if effect.params is None else msgspec.Raw(bytes(effect.params))  # the frame goes
        REQUEST_SOURCE.set(source_of(self._transport))  # the task has a copy of this context
        self._handlers[effect.id] = self._task(self._handle(effect.id, effect.method, params))

    async def _handle(self, id: int | str, method: str, params: msgspec.Raw | None) -> None:
        result, error = b"{}", b""
        try:
            if self.on_request is None:
                error = encode_error(-32601, f"{method} is not handled here")
            else:
                result = await self.on_request(method, params)
        except McpError as refusal:
            code = -32603 if refusal.code is None else refusal.code  # 0 is a code, too
            data = refusal.data if isinstance(refusal, JsonRpcError) else None
            error = encode_error(code, refusal.message, data)
        except Exception:  # the edge of the user's handler; what it says stays here
            logger.exception("%s: the handler for %s raised", self.telemetry.client, method)
            error = encode_error(-32603, "the handler failed")
        except asyncio.CancelledError:
            if self._handlers.get(id) is not asyncio.current_task():
                raise  # by the server, or by our end: nothing is answered
            error = encode_error(-32603, "the handler was cancelled")
        if self._handlers.get(id) is asyncio.current_task():  # else the id is another request's by now
            del self._handlers[id]
            self.step(e.Replied(id, result, error))

    def _stop_serving(self, effect: e.StopServing) -> None:
        task = self._handlers.pop(effect.id, None)
        if task is not None and task not in self._stoppers:
            task.cancel()

    def _end_subscription(self, effect: e.EndSubscription) -> None:
        if self.on_subscription_end is not None:
            self.on_subscription_end(effect.key, effect.error)

    def _transition(self, effect: e.Transition) -> None:
        self.telemetry.log_transition(effect.source, effect.target, effect.reason, effect.attempt)
        if self.telemetry.listeners:
            fields = {"from": effect.source, "to": effect.target, "reason": effect.reason}
            self.telemetry.tell(
                "jackstay.connection.transition", **fields, epoch=effect.epoch, attempt=effect.attempt
            )
        if effect.target == "closed" and self._closed is not None:
            self._closed.set()
        if self.on_transition is not None:
            self.on_transition(effect)

    def _violation(self, effect: e.Violation) -> None:
        self._violations = count = self._violations + 1
        level = logging.WARNING if count <= VIOLATIONS_TOLD or count.bit_count() == 1 else logging.DEBUG
        said = "%s: %s (frame of %d bytes; %d so far)"
        logger.log(level, said, self.telemetry.client, effect.reason, effect.size, count)
        if self.telemetry.listeners:
            self.telemetry.tell("jackstay.protocol.violation", reason=effect.reason, frame_size=effect.size)

    def _stray(self, effect: e.Stray) -> None:
        logger.debug("%s: an answer that nobody waits for (%s)", self.telemetry.client, effect.kind)
        if self.telemetry.listeners:
            self.telemetry.tell(f"jackstay.response.{effect.kind}", count=effect.count)


_PERFORM: dict[type[e.Effect], Callable[[Connection, Any], None]] = {
    e.Spawn: Connection._spawn,
    e.Close: Connection._close,
    e.Send: Connection._send,
    e.Resume: Connection._resume,
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
    e.Warn: lambda self, effect: logger.warning("%s: %s", self.telemetry.client, effect.message),
    e.Stray: Connection._stray,
    e.Leak: Connection._leak,
}
