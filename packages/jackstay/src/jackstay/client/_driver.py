"""The driver of the client's state machine: the only module of this package that does I/O.

The core (`jackstay.protocol.client.ClientConnection`) accepts events and returns effects. The driver turns transports,
timers and callers into events, and effects into frames, futures and tasks; it makes no protocol decisions. Events that
arise while effects are performed are queued, so that frames are sent in the order of their numbers.
"""

import asyncio
import logging
import random
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import ContextVar
from functools import partial
from math import inf
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from jackstay.client._call import Call
from jackstay.client._epoch_handler import MAX_FRAMES_AT_ONCE, EpochHandler
from jackstay.client._request_handlers import ClientRequestHandlers, encode_error
from jackstay.client._telemetry import Telemetry
from jackstay.errors import FrameTooLargeError, JsonRpcError, McpError, StateError, TransportError, UsageError
from jackstay.protocol.client import ClientConnection, Inbox, QueuedNotification, ServerFacts, Settings
from jackstay.protocol.client import events as e
from jackstay.transport import ExchangeTransport, Target, Transport

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader

logger = logging.getLogger("jackstay.client")

R = TypeVar("R")

# While a request of the server is handled: the id of the call whose HTTP response carried it, or 0.
REQUEST_SOURCE: ContextVar[int] = ContextVar("REQUEST_SOURCE", default=0)

_CALLED_FIELDS = frozenset(e.Called.__struct_fields__)

_OTHER_LOOP = "the client was opened on another event loop; create one client per event loop"


class Driver:
    """One client connection on the event loop that creates it. It may be started in one task and stopped in another.

    Callbacks: `on_arrival` is called for each notification as it arrives and consumes it by returning True; `on_notice`
    receives the others one at a time, in order, and raises an McpError for an invalid one; `on_request` handles a
    request of the server and returns the encoded result or raises an McpError with a code; `on_transition` and
    `on_subscription_end` are called for these events.
    `rng` provides backoff jitter and correlation ids.
    """

    def __init__(
        self, target: Target, settings: Settings, telemetry: Telemetry, rng: random.Random | None = None
    ) -> None:
        self.target = target
        self.settings = settings
        self.telemetry = telemetry
        self.core = ClientConnection(settings, is_http=target.is_http)
        self.on_arrival: Callable[[str, msgspec.Raw | None, Call[Any] | None], bool] = lambda *_: False
        self.on_notice: Callable[[QueuedNotification], Awaitable[None]] | None = None
        self.on_request: Callable[[str, bytes], Awaitable[bytes]] = ClientRequestHandlers().handle
        self.on_transition: Callable[[e.Transition], None] = lambda _: None
        self.on_subscription_end: Callable[[str, McpError | None], None] = lambda *_: None
        self._rng = rng or random.Random()  # noqa: S311  # jitter and correlation ids: not security
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()  # of the loop
        self._transport: Transport | None = None
        self._openings: dict[int, asyncio.Task[None]] = {}
        self._opened: dict[int, Transport] = {}
        self._queued_events: deque[e.Event] = deque()
        self._is_stepping = False
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at = inf  # the time of `_wake`; uvloop handles have no `when()`
        self._timers = self.core.calls.timers
        self._tasks: set[asyncio.Task[Any]] = set()
        self._handlers: dict[int | str, asyncio.Task[None]] = {}
        self._inbox = Inbox()
        # Calls with progress notifications in the inbox; the response of a call may be processed before them.
        self._reported: dict[int, Call[Any]] = {}
        self._consumer: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        # Tasks inside `stop()`. If they are handlers, `stop()` neither waits for them nor cancels them.
        self._stoppers: set[asyncio.Task[Any] | None] = set()
        # By tool: the arguments that are also sent as HTTP headers, according to the most recent list.
        self.header_params: dict[str, tuple[ParamHeader, ...]] = {}

    def __repr__(self) -> str:
        return f"<Driver {self.core!r}>"

    # --- operations of the client -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to connect; call this once."""
        self._perform(self.core.start(self._loop.time()))
        self._process_events()

    def submit(
        self,
        method: str,
        params: bytes,
        read: Callable[[msgspec.Raw], R],
        **options: Any,
    ) -> Call[R]:
        """Submit a request. Await its future, or cancel it with `cancel_call()`.

        `options` are kept in the call. Those that are fields of `Called` are for the core.

        Raises: UsageError on another event loop.
        """
        loop = self._loop
        # As `get_running_loop() is not loop`, which is slow before Python 3.12.
        if get_ident() != self._thread or not loop.is_running():
            raise UsageError(_OTHER_LOOP)
        now = loop.time()
        call: Call[R] = Call(asyncio.Future(loop=loop), method, read, now, options)
        if options or self._is_stepping or self.telemetry.listeners:
            fields = {name: options[name] for name in options if name in _CALLED_FIELDS}
            self.step(e.Called(caller=call, method=method, params=params, **fields))
        elif (send := self.core.call(call, method, params, now)) is None:
            self.step(e.Called(caller=call, method=method, params=params))
        else:
            call.id = send.id or 0
            self._is_stepping = True  # as in `_perform()`
            try:
                self._send(send)
            finally:
                self._is_stepping = False
            if self._queued_events:
                self._process_events()
            elif self._timers.earliest < self._wake_at:
                self._arm()
        return call

    def cancel_call(self, call: Call[Any]) -> None:
        """Abandon a call. If its request was written, the server gets one `notifications/cancelled`."""
        exchange = self.core.calls.pending.get(call.id)
        if exchange is None or exchange.caller is not call:
            return  # the call has ended
        call.may_have_run = self.core.calls.may_have_run(exchange)
        self.step(e.CallCancelled(call.id))  # first: a listener may raise KeyboardInterrupt
        reason = asyncio.CancelledError("cancelled by the caller")
        call.emit_end(self.telemetry, "jackstay.request.exception", reason=reason, may_have_run=call.may_have_run)

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification now, or when the transport has room.

        Raises: StateError, ShutdownError, ClosedError or BackpressureError if it cannot be sent.
        """
        event = e.Notified(caller=None, method=method, params=params)
        if self._is_stepping:  # called by a listener: the frames of the current step go first
            self._queued_events.append(event)
            return
        for effect in self.core.step(event, self._loop.time()):
            if isinstance(effect, e.Fail):
                raise effect.error
            self._perform((effect,))
        if self._queued_events:
            self._process_events()

    def source(self) -> int:
        """Return the id of the call whose HTTP response carried the frame that was pulled last, or 0."""
        source: int = getattr(self._transport, "source", 0)
        return source

    def time(self) -> float:
        """Return the time of the event loop."""
        return self._loop.time()

    def server(self) -> ServerFacts:
        """Return what the server declared about itself. Raises: StateError before the first ready."""
        if self.core.server is None:
            raise StateError(self.core.state.value)
        return self.core.server

    async def ready(self, timeout: float | None) -> None:
        """Wait until ready. Raises: the reason if the connection closes, the builtin TimeoutError after `timeout`."""
        self.check_loop()
        waiter = self._loop.create_future()
        self.step(e.ReadyRequested(waiter))
        try:
            async with asyncio.timeout(timeout):
                await waiter
        finally:
            self.step(e.WaitCancelled(waiter))

    async def stop(self) -> None:
        """Close the connection and wait until all tasks have ended. May be called repeatedly and concurrently."""
        self.check_loop()
        current = asyncio.current_task()
        self._stoppers.add(current)
        try:
            try:
                # One iteration of the loop, so that queued frames such as `notifications/cancelled` are flushed.
                await asyncio.sleep(0)
            finally:
                self.step(e.StopRequested())
            await self._closed.wait()
            if self._consumer is not None and self._consumer not in self._stoppers:
                self._consumer.cancel()
            others = self._tasks - self._stoppers
            if others:
                _, unfinished = await asyncio.wait(others, timeout=self.settings.close_timeout)
                for task in unfinished:
                    logger.error("%s: a handler did not finish after cancellation: %r", self.telemetry.client, task)
        finally:
            self._stoppers.discard(current)

    def open_calls(self) -> "list[asyncio.Future[Any]]":
        """Return the futures of all pending calls."""
        callers = [exchange.caller for exchange in self.core.calls.pending.values()]
        return [caller.future for caller in callers if isinstance(caller, Call)]

    def subscription_key(self, id: object) -> str | None:
        """Return the key of the subscription that the request with this id opened, or None."""
        exchange = self.core.calls.pending.get(id) if isinstance(id, int) else None
        return exchange.caller if exchange is not None and isinstance(exchange.caller, str) else None

    def step(self, event: e.Event) -> None:
        """Pass an event to the core and perform the effects."""
        if self._is_stepping:
            self._queued_events.append(event)
            return
        try:
            self._perform(self.core.step(event, self._loop.time(), self._rng.random()))
        finally:
            if self._queued_events:
                self._process_events()
            elif self._timers.earliest < self._wake_at:
                self._arm()

    def pull(self, transport: Transport, epoch: int, max_frames: int = MAX_FRAMES_AT_ONCE) -> None:
        """Process frames, each parsed after the previous one was handled; the rest in the next iteration."""
        loop = self._loop
        if self._is_stepping:  # the transport called back from inside `send()`
            loop.call_soon(self.pull, transport, epoch)
            return
        core, calls, telemetry, now = self.core, self.core.calls, self.telemetry, loop.time()
        accept, next_frame = core.accept, transport.next_frame
        try:
            for _ in range(max_frames):
                if self._transport is not transport or (frame := next_frame()) is None:
                    break
                if isinstance(frame, McpError):
                    is_large = isinstance(frame, FrameTooLargeError)
                    self.step(e.OversizeReceived(epoch, frame) if is_large else e.WentDown(epoch, frame))
                    continue
                message = accept(frame, epoch)
                if not isinstance(message, e.Complete):
                    self._perform(core.process(message, len(frame), epoch, now, self._rng.random()))
                elif not calls.queue and not telemetry.listeners and isinstance(call := message.caller, Call):
                    call.complete(message.result)  # as `_complete()`
                    continue
                else:
                    self._perform((message, *core.flush(now, self._rng.random())))
                if self._queued_events:
                    self._process_events()
            else:
                loop.call_soon(self.pull, transport, epoch)
        except BaseException:
            loop.call_soon(self.pull, transport, epoch)  # the remaining frames
            raise
        finally:
            if self._timers.earliest < self._wake_at:
                self._arm()

    def pop_reported_call(self, id: int | str) -> Call[Any] | None:
        """Return and remove the call of a progress notification from the inbox."""
        return self._reported.pop(id, None) if isinstance(id, int) else None

    def check_loop(self) -> None:
        """Raises: UsageError on another event loop, unless the connection is closed."""
        if not self._closed.is_set() and asyncio.get_running_loop() is not self._loop:
            raise UsageError(_OTHER_LOOP)

    # --- stepping -----------------------------------------------------------------------------------------------------

    def _perform(self, effects: Iterable[e.Effect]) -> None:
        """Perform the effects. If one raises, the others are still performed."""
        self._is_stepping = True
        remaining = iter(effects)
        try:
            for effect in remaining:
                _PERFORM[effect.__class__](self, effect)
        except BaseException:
            self._perform(remaining)
            raise
        finally:
            self._is_stepping = False

    def _process_events(self) -> None:
        """Process queued events, then arm the next timer. If a step raises, the rest is scheduled."""
        try:
            while self._queued_events:
                event = self._queued_events.popleft()
                self._perform(self.core.step(event, self._loop.time(), self._rng.random()))
        finally:
            self._arm()
            if self._queued_events:
                self._loop.call_soon(self._process_events)

    def _arm(self) -> None:
        at = self.core.wake_at
        # A timer that is too early is kept: most deadlines are disarmed long before they expire.
        if at is not None and at >= self._wake_at:
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wake = None if at is None else self._loop.call_at(at, self._tick)
        self._wake_at = inf if at is None else at

    def _tick(self) -> None:
        try:
            if self._transport is not None:
                self.pull(self._transport, self.core.epoch, sys.maxsize)  # a response that was received is in time
        finally:
            self._wake = None
            self._wake_at = inf
            self._queued_events += self.core.due(self._loop.time())
            self._process_events()

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- effects: the transport ---------------------------------------------------------------------------------------

    def _spawn(self, effect: e.Spawn) -> None:
        kept = self._opened.pop(effect.epoch - 1, None)
        if isinstance(kept, ExchangeTransport):  # still open: only its session was lost
            handler = EpochHandler(self, effect.epoch)
            kept.renew(handler)
            self._attach(kept, handler)
            return
        task = self._openings[effect.epoch] = self._task(self._open(effect.epoch))
        task.add_done_callback(partial(self._settle_opening, effect.epoch))

    async def _open(self, epoch: int) -> None:
        handler = EpochHandler(self, epoch)
        try:
            transport = await self.target.open(handler, self.settings.max_frame_bytes, self.settings.close_step)
        except TransportError as error:
            self.step(e.SpawnRefused(epoch, error) if error.permanent else e.SpawnFailed(epoch, error))
        except Exception as error:  # third-party transport
            logger.exception("%s: opening the transport failed", self.telemetry.client)
            self.step(e.SpawnFailed(epoch, TransportError(f"{type(error).__name__}: {error}")))
        else:
            self._attach(transport, handler)
            self.pull(transport, epoch)

    def _attach(self, transport: Transport, handler: EpochHandler) -> None:
        handler.transport = self._opened[handler.epoch] = transport
        if handler.epoch == self.core.epoch:
            self._transport = transport
        self.step(e.Spawned(handler.epoch))

    def _settle_opening(self, epoch: int, task: "asyncio.Task[None]") -> None:
        # Not inside the task, because a task that is cancelled before its first step never runs.
        self._openings.pop(epoch, None)
        if task.cancelled():
            self.step(e.SpawnFailed(epoch, TransportError("closed while starting")))

    def _close(self, effect: e.Close) -> None:
        transport = self._opened.pop(effect.epoch, None)
        if transport is not None:
            if transport is self._transport:
                self._transport = None
            # In this iteration of the loop, before frames are flushed: the core has just decided what was not sent.
            try:
                transport.stop_writing()
            except Exception:  # third-party transport
                logger.exception("%s: stop_writing() of the transport failed", self.telemetry.client)
            self._task(self._end(transport, effect.epoch))
        elif effect.epoch in self._openings:
            self._openings[effect.epoch].cancel()

    async def _end(self, transport: Transport, epoch: int) -> None:
        try:
            await transport.close()
        except Exception:  # third-party transport
            logger.exception("%s: closing the transport failed", self.telemetry.client)
        self.step(e.Reaped(epoch))

    def _send(self, effect: e.Send) -> None:
        transport = self._transport
        try:
            is_accepted = transport is not None and transport.send(effect.frame, effect.number)
        except Exception as error:  # third-party transport
            logger.exception("%s: send() of the transport failed", self.telemetry.client)
            down = TransportError(f"{type(error).__name__}: {error}")
            self._queued_events.append(e.WentDown(self.core.epoch, down))
            return
        if is_accepted:
            return
        if effect.id is not None:
            self._queued_events.append(e.Refused(self.core.epoch, effect.id))
        elif effect.must_arrive:
            self._queued_events.append(e.FrameRefused(self.core.epoch, effect.frame, effect.response_to))
        else:
            logger.info("%s: the transport is busy; a cancellation was not sent", self.telemetry.client)

    def _withdraw(self, effect: e.Withdraw) -> None:
        if self._transport is not None:
            self._transport.withdraw(effect.number)

    def _close_response(self, effect: e.CloseResponse) -> None:
        if isinstance(self._transport, ExchangeTransport):
            self._transport.abort(effect.id)

    # --- effects: calls -----------------------------------------------------------------------------------------------

    def _complete(self, effect: e.Complete) -> None:
        call = cast("Call[Any]", effect.caller)  # callers come from `submit()`
        call.complete(effect.result)
        call.emit_end(self.telemetry, "jackstay.request.stop")

    def _fail(self, effect: e.Fail) -> None:
        call, error = cast("Call[Any] | None", effect.caller), effect.error  # callers come from `submit()`
        if call is None:  # of a notification that was submitted during a step
            logger.warning("%s: %s", self.telemetry.client, error)
            return
        call.fail(error)
        if self.telemetry.listeners:
            if not call.id:
                call.emit_start(self.telemetry, self._rng)  # refused before it got an id
            may_have_run = error.may_have_run
            call.emit_end(self.telemetry, "jackstay.request.exception", reason=error, may_have_run=may_have_run)

    def _accept(self, effect: e.Accept) -> None:
        call = cast("Call[Any]", effect.caller)  # callers come from `submit()`
        is_first = not call.id
        call.id = effect.id
        if is_first and self.telemetry.listeners:
            call.emit_start(self.telemetry, self._rng)

    def _release(self, effect: e.Release) -> None:
        waiter = effect.caller
        if isinstance(waiter, asyncio.Future) and not waiter.done():
            waiter.set_result(None) if effect.error is None else waiter.set_exception(effect.error)

    # --- effects: messages from the server ----------------------------------------------------------------------------

    def _report(self, effect: e.ReportProgress) -> None:
        call = cast("Call[Any]", effect.caller)  # callers come from `submit()`
        call.progress_at = self._loop.time()
        self._arrived("notifications/progress", effect.params, effect.id, call)

    def _arrived(self, method: str, params: msgspec.Raw | None, id: int = 0, call: Any = None) -> None:
        if self.telemetry.listeners:
            self.telemetry.emit("jackstay.notification.received", method=method)
        if self.on_arrival(method, params, call):
            return
        if call is not None:
            self._reported[id] = call
        self._inbox.put(method, params)
        self._wake_consumer()

    def _wake_consumer(self) -> None:
        self._consumer = self._consumer or self._task(self._consume())

    async def _consume(self) -> None:
        """Deliver notifications one at a time.

        The task ends when the inbox is empty; the next one starts a new task.
        """
        try:
            while (notice := self._inbox.pop()) is not None:
                try:
                    if self.on_notice is not None:
                        await self.on_notice(notice)
                except McpError as error:
                    logger.warning("%s: invalid %s: %s", self.telemetry.client, notice.method, error)
                except Exception:  # one failing notification must not stop the next
                    logger.exception("%s: handling a notification failed", self.telemetry.client)
        finally:
            self._consumer = None
            if len(self._inbox) and not self._closed.is_set():
                self._wake_consumer()
            else:
                self._reported.clear()

    def _serve(self, effect: e.Serve) -> None:
        params = b"{}" if effect.params is None else bytes(effect.params)  # a copy: the frame is only valid now
        REQUEST_SOURCE.set(self.source())  # the task copies this context
        self._handlers[effect.id] = self._task(self._handle(effect.id, effect.method, params))

    async def _handle(self, id: int | str, method: str, params: bytes) -> None:
        result, error = b"{}", b""
        try:
            result = await self.on_request(method, params)
        except McpError as failure:
            code = -32603 if failure.code is None else failure.code  # 0 is a valid code
            data = failure.data if isinstance(failure, JsonRpcError) else None
            error = encode_error(code, failure.message, data)
        except Exception:  # user code; its message is logged and not sent to the server
            logger.exception("%s: the handler for %s raised an exception", self.telemetry.client, method)
            error = encode_error(-32603, "the handler failed")
        except asyncio.CancelledError:
            if self._handlers.get(id) is not asyncio.current_task():
                raise  # by the server or by `stop()`: no response is sent
            error = encode_error(-32603, "the handler was cancelled")
        if self._handlers.get(id) is asyncio.current_task():  # otherwise the id belongs to a newer request
            del self._handlers[id]
            self.step(e.Finished(id, result, error))

    def _stop_serving(self, effect: e.StopServing) -> None:
        task = self._handlers.pop(effect.id, None)
        if task is not None and task not in self._stoppers:
            task.cancel()

    def _transition(self, effect: e.Transition) -> None:
        self.telemetry.report_transition(effect)
        if effect.target == "closed":
            self._closed.set()
            self._arm()  # cancels the timer: none is armed in this state
        self.on_transition(effect)


_PERFORM: dict[type[e.Effect], Callable[[Driver, Any], None]] = {
    e.Spawn: Driver._spawn,
    e.Close: Driver._close,
    e.Send: Driver._send,
    e.Resume: lambda self, _: self._queued_events.append(e.Resumed()),
    e.Withdraw: Driver._withdraw,
    e.CloseResponse: Driver._close_response,
    e.Complete: Driver._complete,
    e.Fail: Driver._fail,
    e.Accept: Driver._accept,
    e.Release: Driver._release,
    e.Deliver: lambda self, effect: self._arrived(effect.method, effect.params),
    e.ReportProgress: Driver._report,
    e.Serve: Driver._serve,
    e.StopServing: Driver._stop_serving,
    e.EndSubscription: lambda self, effect: self.on_subscription_end(effect.key, effect.error),
    e.Transition: Driver._transition,
    e.Violation: lambda self, effect: self.telemetry.report_violation(effect),
    e.Warn: lambda self, effect: logger.warning("%s: %s", self.telemetry.client, effect.message),
    e.Stray: lambda self, effect: self.telemetry.report_stray(effect),
    e.Leak: lambda self, effect: logger.error(
        "%s: the transport of epoch %d did not close in time", self.telemetry.client, effect.epoch
    ),
}
