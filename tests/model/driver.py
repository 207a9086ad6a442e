"""A model of the world around the client's driver: it runs the real `Driver` through sequences of small actions.

`World` has a transport, a server and a caller whose steps are the actions: in one iteration of the event loop or in
several. `FakeLoop` is an event loop whose iterations and clock are actions too, so that `search()` can try every
sequence. The invariants do not depend on the loop: `run_on_real_loop()` checks them on asyncio and uvloop.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from jackstay.client._call import Call
from jackstay.client._driver import Driver
from jackstay.client._telemetry import Telemetry
from jackstay.errors import McpError, TransportError
from jackstay.protocol.client import Settings
from jackstay.transport import TransportHandler
from model.harness import HANDSHAKE, initialized

MAX_CALLS = 3
CAPACITY = 2  # frames in the queue of the transport; then it is busy


class Violation(AssertionError):
    """An invariant does not hold; the message has the sequence of actions."""


# --- the event loop ---------------------------------------------------------------------------------------------------


class FakeLoop(asyncio.AbstractEventLoop):
    """An event loop without I/O, whose iterations are calls of `iterate()` and whose clock is `now`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ready: deque[asyncio.Handle] = deque()
        self.timers: list[asyncio.TimerHandle] = []
        self.errors: list[BaseException | str] = []

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_closed(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self.ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self.timers, timer)
        return timer

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context.get("exception") or context["message"])

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by `TimerHandle.cancel()`."""

    def live_timers(self) -> list[asyncio.TimerHandle]:
        return sorted(timer for timer in self.timers if not timer.cancelled())

    @contextmanager
    def running(self) -> Iterator[None]:
        asyncio.events._set_running_loop(self)
        try:
            yield
        finally:
            asyncio.events._set_running_loop(None)

    def iterate(self) -> None:
        """Run one iteration: the handles that are ready now. Ctrl-C ends it early, as in the loops of asyncio."""
        while self.timers and self.timers[0].when() <= self.now:
            self.ready.append(heapq.heappop(self.timers))
        for _ in range(len(self.ready)):
            handle = self.ready.popleft()
            if not handle.cancelled():
                try:
                    handle._run()
                except KeyboardInterrupt:
                    return

    def settle(self) -> None:
        """Run iterations until nothing is ready. The clock does not advance."""
        for _ in range(200):
            if not self.ready and not (self.timers and self.timers[0].when() <= self.now):
                return
            self.iterate()
        raise Violation("the loop does not become idle")


# --- the transport and the server -------------------------------------------------------------------------------------


class Wire:
    """A transport as the contract describes it, that writes in the next iteration, and a server behind it."""

    def __init__(self, world: World, handler: TransportHandler) -> None:
        self.world = world
        self.handler = handler
        self.queue: deque[tuple[int, bytes]] = deque()
        self.inbound: deque[bytes] = deque()
        self.unanswered: list[dict[str, Any]] = []
        self.is_stalled = self.is_stopped = self.is_closed = self.is_down = False
        self.flushing: asyncio.Handle | None = None
        self.must_report_room = False

    def send(self, frame: bytes, number: int) -> bool:
        if self.is_stopped or self.is_down:
            return False
        if len(self.queue) >= CAPACITY:
            self.must_report_room = True
            return False
        self.queue.append((number, frame))
        self._schedule()
        return True

    def _schedule(self) -> None:
        if self.flushing is None:
            self.flushing = self.world.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self.flushing = None
        if self.is_stalled or self.is_stopped or not self.queue:
            return
        while self.queue:
            number, frame = self.queue.popleft()
            self.world.written(self, frame)
        self.handler.wrote(number)
        self._report_room()

    def _report_room(self) -> None:
        if self.must_report_room and not self.is_stopped and len(self.queue) < CAPACITY:
            self.must_report_room = False
            self.handler.room_made()

    def withdraw(self, number: int) -> bool:
        before = len(self.queue)
        self.queue = deque(queued for queued in self.queue if queued[0] != number)
        if self.must_report_room:
            self.world.loop.call_soon(self._report_room)
        return len(self.queue) < before

    def next_frame(self) -> bytes | McpError | None:
        return self.inbound.popleft() if self.inbound else None

    async def flush(self) -> bool:
        raise NotImplementedError

    def stop_writing(self) -> None:
        self.is_stopped = True
        self.queue.clear()

    async def close(self) -> None:
        self.stop_writing()
        await asyncio.sleep(0)
        self.is_closed = True

    # --- what the peer does -------------------------------------------------------------------------------------------

    def stall(self, *, is_stalled: bool) -> None:
        self.is_stalled = is_stalled
        if not is_stalled and self.queue:
            self._schedule()

    def receive(self, message: dict[str, Any]) -> None:
        if not self.inbound:  # one read may have several frames
            self.world.loop.call_soon(self._arrive)
        self.inbound.append(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def _arrive(self) -> None:
        if not self.is_closed:
            self.handler.frames_arrived()

    def respond(self) -> None:
        request = self.unanswered.pop(0)
        result = initialized() if request["method"] == "initialize" else {"content": []}
        self.world.answered.add(request["params"].get("number"))
        self.receive({"id": request["id"], "result": result})

    def die(self) -> None:
        self.is_down = True
        self.handler.went_down(TransportError("the server exited"), 1, False)


# --- the world --------------------------------------------------------------------------------------------------------


class World:
    """A connection, its transports, and its callers. Every action is a method, possible if `enabled()` lists it."""

    name, is_http, init_timeout = "model", False, None

    def __init__(self, loop: Any, call_timeout: float = 5.0) -> None:
        self.loop = loop
        settings = Settings(
            versions=HANDSHAKE,
            wait_for_ready=True,
            max_attempts=2,
            session_attempts=2,
            hang_timeout=None,
            request_timeout=call_timeout,
            name="model",
        )
        self.connection = Driver(self, settings, Telemetry("model"), random.Random(1))
        self.connection.on_notice = self._on_notice
        self.connection.on_request = self._on_request
        self.wires: list[Wire] = []
        self.calls: list[Call[Any]] = []
        self.cancelled: set[int] = set()  # the index in `calls`
        self.requests: set[int] = set()  # calls whose request was written
        self.answered: set[int | None] = set()
        self.stops: list[asyncio.Task[None]] = []
        self.interrupts = 0  # that the next telemetry event raises, as Ctrl-C in a listener
        self.notices: list[str] = []
        self.noticed = self.served = 0

    # --- the target and the callbacks of the connection ---------------------------------------------------------------

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> Wire:
        await asyncio.sleep(0)
        self.wires.append(Wire(self, handler))
        return self.wires[-1]

    def _on_event(self, name: str, fields: Any) -> None:
        if self.interrupts and name in ("jackstay.request.exception", "jackstay.request.stop"):
            self.interrupts -= 1
            raise KeyboardInterrupt

    async def _on_notice(self, notice: Any) -> None:
        await asyncio.sleep(0)
        self.notices.append(notice.method)

    async def _on_request(self, method: str, params: Any) -> bytes:
        await self.loop.create_future()
        raise AssertionError

    def written(self, wire: Wire, frame: bytes) -> None:
        if wire.is_stopped or wire.is_closed:
            raise Violation("a frame was written after the transport was closed")
        message = json.loads(frame)
        if "method" in message and "id" in message:
            wire.unanswered.append(message)
            if "number" in message["params"]:
                self.requests.add(message["params"]["number"])

    # --- actions ------------------------------------------------------------------------------------------------------

    @property
    def wire(self) -> Wire | None:
        return self.wires[-1] if self.wires and not self.wires[-1].is_closed else None

    def enabled(self) -> list[str]:
        found = ["iterate", "tick"]
        wire = self.wire
        if len(self.calls) < MAX_CALLS:
            found.append("call")
        if any(not call.future.done() for call in self.calls):
            found.append("cancel")
            if self.connection.telemetry.listeners and not self.interrupts:
                found.append("interrupt")
        if len(self.stops) < 2:
            found.append("stop")
        if wire is not None and not wire.is_down:
            found += ["resume" if wire.is_stalled else "stall", "die"]
            if wire.unanswered:
                found.append("respond")
            if self.noticed < 2:
                found.append("notify")
            if not self.served:
                found.append("request")
        return found

    def act(self, action: str) -> None:
        try:
            self.named_actions()[action]()
        except KeyboardInterrupt:
            pass  # by a listener, in a callback that the model calls itself

    def named_actions(self) -> dict[str, Callable[[], None]]:
        """Return what each action does."""
        return {
            "call": self.do_call,
            "cancel": self.do_cancel,
            "stop": self.do_stop,
            "listen": self.do_listen,
            "interrupt": self.do_interrupt,
            "stall": self.do_stall,
            "resume": self.do_resume,
            "die": self.do_die,
            "respond": self.do_respond,
            "notify": self.do_notify,
            "request": self.do_request,
        }

    def do_call(self) -> None:
        params = msgspec.json.encode({"number": len(self.calls)})
        interrupts, self.interrupts = self.interrupts, 0  # otherwise the caller gets KeyboardInterrupt and no call
        self.calls.append(self.connection.submit("tools/call", params, bytes))
        self.interrupts = interrupts

    def do_cancel(self) -> None:
        number = next(number for number, call in enumerate(self.calls) if not call.future.done())
        self.calls[number].future.cancel()
        self.cancelled.add(number)
        self.connection.cancel_call(self.calls[number])

    def do_stop(self) -> None:
        self.stops.append(self.loop.create_task(self.connection.stop()))

    def do_listen(self) -> None:
        self.connection.telemetry.subscribe(self._on_event)  # without a listener, calls take a shorter path

    def do_interrupt(self) -> None:
        self.interrupts = 1

    def do_stall(self) -> None:
        assert self.wire is not None
        self.wire.stall(is_stalled=True)

    def do_resume(self) -> None:
        assert self.wire is not None
        self.wire.stall(is_stalled=False)

    def do_die(self) -> None:
        assert self.wire is not None
        self.wire.die()

    def do_respond(self) -> None:
        assert self.wire is not None
        self.wire.respond()

    def do_notify(self) -> None:
        assert self.wire is not None
        self.noticed += 1
        self.wire.receive({"method": f"notifications/n{self.noticed}"})

    def do_request(self) -> None:
        assert self.wire is not None
        self.served += 1
        self.wire.receive({"id": f"s{self.served}", "method": "roots/list"})

    # --- invariants ---------------------------------------------------------------------------------------------------

    def check_outcomes(self) -> None:
        """What a caller knows is true: nothing ran that "did not run", and no result that was not sent."""
        for number, call in enumerate(self.calls):
            future = call.future
            if not future.done():
                continue
            if future.cancelled():
                must_hold = number not in self.requests or call.may_have_run
            elif (error := call.retrieve_exception()) is not None:
                must_hold = number not in self.requests or getattr(error, "may_have_run", True)
            else:
                must_hold = number in self.answered
            if not must_hold:
                raise Violation(f"call {number} ended with {future!r}; written: {sorted(self.requests)}")

    def check_nothing_left(self) -> None:
        """After `stop()`: every call has its outcome, and no task, timer, transport or event is left."""
        connection = self.connection
        left: dict[str, object] = {
            "calls": [call for call in self.calls if not call.future.done()],
            "tasks": list(connection._tasks),
            "handlers": connection._handlers,
            "opening": connection._openings,
            "transports": connection._opened,
            "open transports": [wire for wire in self.wires if not wire.is_closed],
            "events": list(connection._queued_events),
            "timer": connection._wake,
            "stops": [stop for stop in self.stops if not stop.done()],
            "frames": [wire.queue for wire in self.wires if wire.queue],
        }
        found = {name: value for name, value in left.items() if value}
        if found:
            raise Violation(f"left after stop(): {found}")
        self.check_outcomes()


# --- the search -------------------------------------------------------------------------------------------------------


class FakeWorld(World):
    """A world on a `FakeLoop`, whose iterations and clock are actions."""

    def __init__(self) -> None:
        loop = FakeLoop()
        with loop.running():
            super().__init__(loop)

    def named_actions(self) -> dict[str, Callable[[], None]]:
        """Return what each action does."""
        return {**super().named_actions(), "iterate": self.do_iterate, "tick": self.do_tick}

    def do_iterate(self) -> None:
        self.loop.iterate()

    def do_tick(self) -> None:
        """Advance the clock to the next timer and run it."""
        timers = self.loop.live_timers()
        if timers:
            self.loop.now = max(self.loop.now, timers[0].when())
        self.loop.iterate()

    def run(self, actions: tuple[str, ...]) -> tuple[list[str], object]:
        """Start, perform the actions, and end. Returns what was possible after the actions, and their state."""
        with self.loop.running():
            self.connection.start()
            for action in actions:
                self.act(action)
                self.check()
            enabled, state = self.enabled(), self.state()
            self.end()
            return enabled, state

    def check(self) -> None:
        self.check_outcomes()
        if self.loop.errors:
            raise Violation(f"an exception reached the event loop: {self.loop.errors[0]!r}")
        if not self.loop.ready:
            self.check_idle()

    def check_idle(self) -> None:
        """While nothing is ready: the driver is armed for the next timer, and has processed everything."""
        connection, at = self.connection, self.connection.core.wake_at
        armed = [timer.when() for timer in self.loop.live_timers() if timer._callback == connection._tick]
        if at is not None and not any(when <= at for when in armed):
            raise Violation(f"the timer for {at} is lost at {self.loop.now}: armed for {armed}")
        if len(armed) > 1:
            raise Violation(f"two timers are armed: {armed}")
        if connection._queued_events:
            raise Violation(f"no wake-up for the events {list(connection._queued_events)}")
        wire = connection._transport
        if isinstance(wire, Wire) and wire.inbound:
            raise Violation(f"no wake-up for {len(wire.inbound)} received frames")
        if len(connection._inbox) and connection._consumer is None and not self.stops:
            raise Violation("no wake-up for the notifications in the inbox")

    def end(self) -> None:
        """Settle, then stop, and check what is left."""
        self.interrupts = 0
        self.loop.settle()
        self.check()
        self.do_stop()
        self.loop.settle()  # without a deadline: the transport and the handlers end at once
        self.check()
        self.check_nothing_left()
        timers = self.loop.live_timers()
        if timers:
            raise Violation(f"timers are left after stop(): {timers}")

    def state(self) -> object:
        """Return a key of the state: two sequences with the same key have the same future."""
        loop, connection, core = self.loop, self.connection, self.connection.core
        return (
            core.state,
            min(core.epoch, 3),
            tuple(
                (call.future.done(), number in self.requests, number in self.answered, bool(call.id))
                for number, call in enumerate(self.calls)
            ),
            tuple(_name_of(handle) for handle in loop.ready),
            tuple((_name_of(timer), round(timer.when() - loop.now, 3)) for timer in loop.live_timers()),
            tuple(type(event) for event in connection._queued_events),
            None if core.wake_at is None else round(core.wake_at - loop.now, 3),
            len(connection._tasks),
            connection._consumer is not None,
            len(connection._inbox),
            len(connection._handlers),
            tuple(
                (
                    len(wire.queue), len(wire.inbound), len(wire.unanswered), wire.is_stalled, wire.is_stopped,
                    wire.is_closed, wire.is_down, wire.must_report_room,
                )
                for wire in self.wires[-2:]
            ),
            tuple(stop.done() for stop in self.stops),
            (self.interrupts, self.noticed, self.served, bool(connection.telemetry.listeners)),
        )  # fmt: skip


def _name_of(handle: asyncio.Handle) -> str:
    callback = handle._callback
    return getattr(callback, "__qualname__", type(callback).__name__)


# The beginnings from which the search starts.
OPENED = ("iterate", "iterate", "iterate", "iterate", "respond", "iterate", "iterate")
BEGINNINGS = {
    "new": (),
    "ready": OPENED,
    "listening": (*OPENED, "listen"),
    "one call": (*OPENED, "call", "iterate"),
    "two calls": (*OPENED, "listen", "call", "call", "iterate"),
    "reconnecting": (*OPENED, "listen", "call", "iterate", "die", "call"),
}


def search(beginning: tuple[str, ...], depth: int) -> int:
    """Try every sequence of up to `depth` actions after this beginning. Returns the number of states.

    Sequences that lead to a known state are not continued. Raises: Violation with the shortest sequence.
    """
    seen: set[object] = set()
    frontier: list[tuple[str, ...]] = [()]
    for _ in range(depth + 1):
        following: list[tuple[str, ...]] = []
        for actions in frontier:
            try:
                enabled, state = FakeWorld().run((*beginning, *actions))
            except Violation as violation:
                raise Violation(f"{' '.join((*beginning, *actions))}: {violation}") from None
            if state not in seen:
                seen.add(state)
                following += [(*actions, action) for action in enabled]
        frontier = following
    return len(seen)


# --- real loops -------------------------------------------------------------------------------------------------------


async def run_on_real_loop(actions: tuple[str, ...]) -> None:
    """Perform the actions on the running loop and stop; `tick` waits for the next timer of the connection."""
    world = World(asyncio.get_running_loop(), call_timeout=0.01)
    try:
        await _run_on_real_loop(world, actions)
    finally:
        for call in world.calls:
            call.retrieve_exception()


async def _run_on_real_loop(world: World, actions: tuple[str, ...]) -> None:
    world.connection.start()
    for action in (*OPENED, *actions):
        if action == "iterate":
            await asyncio.sleep(0)
        elif action == "tick":
            at = world.connection.core.wake_at
            if at is not None and at - world.loop.time() < 1:
                await asyncio.sleep(max(0.0, at - world.loop.time()))
        elif action in world.enabled():
            world.act(action)
        world.check_outcomes()
    world.interrupts = 0
    world.do_stop()
    await asyncio.wait(world.stops)
    world.check_nothing_left()
