"""Every edge of the client's table, walked through the real driver: `Connection`, a scripted transport, a clock that jumps.

A scene brings a connection into a state as a user, a transport, a server or the clock would, and then lets one thing happen.
The core's `fire` is watched, so what counts is what the table was asked, not what a scene meant to ask. Every branch of every
cell must have been walked; a cell the table calls impossible must not have been, and raises here if it is.

Some pairs have no cause from outside, because the driver drops the event before the core sees it. They are stepped by hand,
each with the reason why nothing else brings them about; a pair that a scene does bring about may not be among them.
"""

import asyncio
import functools
import json
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from mooring.client import _connection as driver
from mooring.client._call import Call
from mooring.client._connection import Connection
from mooring.client._telemetry import Telemetry
from mooring.errors import FrameTooLargeError, McpError, TransportError
from mooring.protocol import Era
from mooring.protocol.client import ClientConnection, ClientState, ServerFacts, Settings
from mooring.protocol.client import events as e
from mooring.protocol.client._calls import BITE
from mooring.protocol.client._table import CELLS, ROWS
from mooring.testing import run_on_fake_clock

S = ClientState
Edge = tuple[type[e.Event], ClientState, int]

LOST = TransportError("lost")
LEGACY = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
MODERN = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}
SUBSCRIBED = e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None)


class Watched(ClientConnection):
    """The core, with a note of every branch that it takes."""

    __slots__ = ()
    seen: set[Edge]  # of the scene that runs

    def _fire(self, event: e.Event) -> None:
        kind = type(event)
        is_of_epoch = isinstance(event, e.TransportEvent) and kind is not e.ExchangeLost
        if is_of_epoch and event.epoch != self.epoch:  # type: ignore[attr-defined]  # as just seen
            kind = e.StaleHappened
        cell, branch = CELLS[kind][self.state], 0
        while cell.when is not None and not self.WHEN[cell.when](self, event):
            assert cell.otherwise is not None
            cell, branch = cell.otherwise, branch + 1
        self.seen.add((kind, self.state, branch))
        super()._fire(event)


class Wire:
    """A transport that does as the stage says, and that nothing stops from speaking after it was closed."""

    def __init__(self, stage: "Stage", owner: Any) -> None:
        self.stage = stage
        self.owner = owner
        self.inbox: deque[bytes | McpError] = deque()

    def send(self, frame: bytes, number: int) -> bool:
        if self.stage.is_busy(frame):
            return False
        self.stage.sent.append(json.loads(frame))
        self.stage.number = number
        return True

    def withdraw(self, number: int) -> bool:
        return True

    def next_frame(self) -> bytes | McpError | None:
        return self.inbox.popleft() if self.inbox else None

    async def flush(self) -> bool:
        return True

    async def close(self) -> None:
        await self.stage.closing.wait()


class HttpWire(Wire):
    """The same, where requests travel one by one."""

    def hang_up(self, id: int) -> None:
        pass

    def renew(self, owner: Any) -> None:
        self.owner = owner
        self.stage.owners.append(owner)


class Stage:
    """A target and the connection to it. `go(state)` brings it there."""

    init_timeout = None
    name = "stage"

    def __init__(self, *, is_http: bool = False, **options: Any) -> None:
        self.is_http = is_http
        self.sent: list[dict[str, Any]] = []
        self.number = 0
        self.is_busy: Callable[[bytes], bool] = lambda frame: False
        self.fates: deque[Exception | asyncio.Event] = deque()  # of the openings to come; then they succeed
        self.closing = asyncio.Event()
        self.wires: list[Wire] = []
        self.owners: list[Any] = []
        options = {"versions": ("2025-11-25",), "tombstone_sweep": 1_000.0, "close_step": 30.0, **options}
        self.connection = Connection(self, Settings(**options), Telemetry("stage"))
        self.connection.on_request = self.handle
        self.answer_to_server = asyncio.Event()
        self.tasks: list[asyncio.Task[Any]] = []

    async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
        self.owners.append(owner)
        if self.fates:
            fate = self.fates.popleft()
            if isinstance(fate, Exception):
                raise fate
            try:
                await fate.wait()
            except asyncio.CancelledError:
                if not getattr(fate, "is_stubborn", False):
                    raise
                await fate.wait()
        self.wires.append((HttpWire if self.is_http else Wire)(self, owner))
        return self.wires[-1]

    async def handle(self, method: str, params: Any) -> bytes:
        await self.answer_to_server.wait()
        return b"{}"

    # --- what a scene does --------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClientState:
        return self.connection.core.state

    @property
    def owner(self) -> Any:
        return self.owners[-1]

    async def turn(self, count: int = 6) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def say(self, **message: Any) -> None:
        await self.say_line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def say_line(self, frame: bytes | McpError) -> None:
        wire = self.wires[-1]
        wire.inbox.append(frame)
        wire.owner.frames_arrived()
        await self.turn()

    def id_of(self, method: str) -> int:
        return next(int(message["id"]) for message in reversed(self.sent) if message.get("method") == method)

    def wrote(self) -> None:
        self.owner.wrote(self.number)

    def down(self, code: int | None = None, *, is_silent: bool = False) -> None:
        self.owner.went_down(LOST, code, is_silent)

    def call(self, **how: Any) -> Call[Any]:
        call: Call[Any] = self.connection.submit("tools/call", b"{}", bytes, **how)
        call.future.add_done_callback(lambda future: future.cancelled() or future.exception())
        return call

    def later(self, work: Any) -> None:
        async def quietly() -> None:
            try:
                await work
            except (McpError, TimeoutError):
                pass

        self.tasks.append(asyncio.ensure_future(quietly()))

    async def agree(self) -> None:
        await self.say(id=self.id_of("initialize"), result=LEGACY)
        assert self.state is S.READY

    async def go(self, state: ClientState) -> "Stage":
        """There, the plainest way; closing and backoff hold the old transport until `closing` is set."""
        if state is S.STARTING:
            self.fates.append(asyncio.Event())
        self.connection.start()
        await self.turn()
        if state in (S.READY, S.BACKOFF, S.CLOSING, S.CLOSED):
            await self.agree()
        if state is S.BACKOFF:
            self.down()
        if state in (S.CLOSING, S.CLOSED):
            self.later(self.connection.stop())
            await self.turn()
        if state is S.CLOSED:
            self.closing.set()
            await self.turn()
        assert self.state is state, self.connection
        return self

    async def end(self) -> None:
        for fate in self.fates:
            if isinstance(fate, asyncio.Event):
                fate.set()
        self.closing.set()
        self.answer_to_server.set()
        await self.connection.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


# --- one thing that happens, in every state ---------------------------------------------------------------------------


async def calls(stage: Stage) -> None:
    stage.call()


async def notifies(stage: Stage) -> None:
    try:
        stage.connection.notify("notifications/roots/list_changed", b"{}")
    except McpError:
        assert stage.state is not S.READY


async def subscribes_and_leaves(stage: Stage) -> None:
    stage.connection.step(SUBSCRIBED)
    stage.connection.step(e.Unsubscribed("k"))


async def waits_for_ready(stage: Stage) -> None:
    stage.later(stage.connection.ready(0.5))
    await asyncio.sleep(0.6)


async def asks_what_is_known(stage: Stage) -> None:
    stage.connection.is_stale()


async def gives_up(stage: Stage) -> None:
    call = stage.call(wait_for_ready=True)
    stage.wrote()
    stage.connection.give_up(call)


async def runs_out_of_time(stage: Stage) -> None:
    stage.call(wait_for_ready=True, timeout=0.1)
    await asyncio.sleep(0.2)


async def stops(stage: Stage) -> None:
    stage.later(stage.connection.stop())


async def transport_wrote(stage: Stage) -> None:
    stage.owner.wrote(1)


async def transport_has_room(stage: Stage) -> None:
    stage.owner.room_made()


async def transport_goes_down(stage: Stage) -> None:
    stage.down()


async def transport_of_the_past_goes_down(stage: Stage) -> None:
    owner = driver.Owner(stage.connection, stage.connection.core.epoch - 1)
    owner.went_down(LOST, None, False)


async def an_exchange_is_lost(stage: Stage) -> None:
    stage.owner.exchange_lost(99, LOST, False)


async def a_session_is_lost(stage: Stage) -> None:
    stage.owner.session_lost(99)


async def time_passes(stage: Stage) -> None:
    await asyncio.sleep(1_001)


EVERYWHERE: tuple[Callable[[Stage], Awaitable[None]], ...] = (
    calls, notifies, subscribes_and_leaves, waits_for_ready, asks_what_is_known, gives_up, runs_out_of_time, stops,
    transport_wrote, transport_has_room, transport_goes_down, transport_of_the_past_goes_down, an_exchange_is_lost,
    a_session_is_lost, time_passes,
)  # fmt: skip

# --- frames, where frames are read ------------------------------------------------------------------------------------

FRAMES: tuple[dict[str, Any], ...] = (
    {"id": 999, "result": {}},
    {"method": "notifications/cancelled", "params": {"requestId": "q"}},
    {"method": "notifications/message", "params": {"level": "info", "data": "x"}},
    {"id": "q", "method": "ping"},
    {"id": "q", "method": "initialize", "params": {}},
    {"method": "notifications/reset"},
)
LINES: tuple[bytes | McpError, ...] = (b"Listening on stdio...", FrameTooLargeError(2, 1))


async def hears(state: ClientState, frame: dict[str, Any] | bytes | McpError) -> None:
    stage = await Stage().go(state)
    if isinstance(frame, dict):
        await stage.say(**frame)
    else:
        await stage.say_line(frame)
    await stage.end()


async def hears_only_rubbish(state: ClientState) -> None:
    stage = await Stage().go(state)
    for _ in range(20):
        await stage.say_line(b"Debugger attached.")
    assert stage.state is S.BACKOFF
    await stage.end()


# --- spawning ---------------------------------------------------------------------------------------------------------


async def spawning_ends(fate: Exception, *, options: dict[str, Any]) -> None:
    stage = Stage(**options)
    stage.fates.append(fate)
    stage.connection.start()
    await stage.turn()
    await stage.end()


async def a_start_is_given_up(*, is_stubborn: bool, waits: float, is_stopped: bool) -> None:
    """By the connect deadline or by `stop()`; a stubborn one does not hear of it and succeeds all the same, late."""
    stage = Stage(init_timeout=5.0, backoff_min=1.0, close_step=1.0)
    fate = asyncio.Event()
    fate.is_stubborn = is_stubborn  # type: ignore[attr-defined]  # read by `open()`
    stage.fates.append(fate)
    stage.connection.start()
    await stage.turn()
    if is_stopped:
        stage.later(stage.connection.stop())
        await stage.turn()
    else:
        await asyncio.sleep(5.1)
        assert stage.state is S.BACKOFF
    await asyncio.sleep(waits)
    fate.set()
    await stage.turn()
    await stage.end()


async def an_opening_fails_late(error: TransportError, *, takes: float, is_stopped: bool) -> None:
    """A target that ends its opening with an error, so long after it was told to stop."""

    class Late(Stage):
        async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
            self.owners.append(owner)
            if len(self.owners) > 1:
                return await Stage.open(self, owner, max_frame_bytes, close_step)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(takes)
            raise error

    stage = Late(init_timeout=5.0, backoff_min=1.0, backoff_jitter=0.0, close_step=1.0)
    stage.connection.start()
    await stage.turn()
    if is_stopped:
        stage.later(stage.connection.stop())
    else:
        await asyncio.sleep(5.001)
    await asyncio.sleep(takes + 1)
    await stage.end()


# --- negotiating ------------------------------------------------------------------------------------------------------

BOTH = ("2025-11-25", "2026-07-28")


async def probing(
    answer: dict[str, Any] | None, *, is_http: bool = False, then: dict[str, Any] | None = None
) -> None:
    """The probe gets this answer, or none at all; `initialize` gets `then`."""
    stage = Stage(versions=BOTH, init_timeout=9.0, is_http=is_http)
    stage.connection.start()
    await stage.turn()
    if answer is None:
        await asyncio.sleep(3.1)
    else:
        await stage.say(id=stage.id_of("server/discover"), **answer)
    if then is not None:
        await stage.say(id=stage.id_of("initialize"), **then)
    await stage.end()


async def dying_in_the_negotiation(*, versions: tuple[str, ...], times: int) -> None:
    stage = Stage(versions=versions, backoff_min=0.1, backoff_max=0.1, max_attempts=9)
    stage.closing.set()
    stage.connection.start()
    for _ in range(times):
        await stage.turn()
        assert stage.state is S.INITIALIZING
        stage.down(1, is_silent=True)
        await asyncio.sleep(0.2)
    await stage.end()


async def handshake_answered(answer: dict[str, Any]) -> None:
    stage = await Stage().go(S.INITIALIZING)
    await stage.say(id=stage.id_of("initialize"), **answer)
    await stage.end()


async def never_answered() -> None:
    stage = await Stage(init_timeout=5.0).go(S.INITIALIZING)
    await asyncio.sleep(5.1)
    assert stage.state is S.BACKOFF
    await stage.end()


async def busy_while_negotiating() -> None:
    stage = Stage()
    stage.is_busy = lambda frame: b"initialize" in frame
    stage.connection.start()
    await asyncio.sleep(0.2)
    stage.is_busy = lambda frame: False
    await stage.end()
    stage = await Stage().go(S.INITIALIZING)
    stage.is_busy = lambda frame: True
    await stage.say(id="p", method="ping")
    stage.is_busy = lambda frame: False
    stage.owner.room_made()
    assert stage.sent[-1] == {"jsonrpc": "2.0", "id": "p", "result": {}}
    await stage.end()


# --- ready ------------------------------------------------------------------------------------------------------------


async def an_error_is_answered() -> None:
    stage = await Stage().go(S.READY)
    call = stage.call()
    await stage.say(id=call.id, error={"code": -1, "message": "no"})
    assert call.future.done()
    await stage.end()


async def a_request_is_served() -> None:
    stage = await Stage().go(S.READY)
    await stage.say(id="q", method="sampling/createMessage", params={})
    stage.is_busy = lambda frame: True
    stage.answer_to_server.set()
    await stage.turn()
    stage.is_busy = lambda frame: False
    stage.owner.room_made()
    assert stage.sent[-1]["id"] == "q"
    await stage.end()


async def busy_calls() -> None:
    stage = await Stage(max_pending=1_000).go(S.READY)
    stage.is_busy = lambda frame: True
    stage.call()
    for _ in range(2 * BITE):
        stage.call(busy="wait")
    await asyncio.sleep(0.5)
    stage.is_busy = lambda frame: False
    stage.owner.room_made()
    assert len(stage.sent) >= 2 * BITE
    await stage.end()


async def breaks_between_two_frames() -> None:
    """The first frame breaks the transport, which then says busy to the others: they are heard of after its end."""

    def breaks(frame: bytes) -> bool:
        stage.is_busy = lambda frame: True
        raise OSError("broken pipe")

    stage = await Stage(max_pending=1_000).go(S.READY)
    stage.is_busy = lambda frame: True
    await stage.say(id="p", method="ping")
    await stage.say(id="q", method="ping")
    for _ in range(2 * BITE):
        stage.call(busy="wait")
    stage.is_busy = breaks
    stage.owner.room_made()
    assert stage.state is S.BACKOFF
    await stage.end()


async def sweeps(state: ClientState) -> None:
    stage = await Stage(tombstone_sweep=1.0, init_timeout=100.0, backoff_min=20.0).go(state)
    await asyncio.sleep(1.1)
    assert stage.state is state
    await stage.end()


async def silence(*, keepalive: float) -> None:
    stage = await Stage(keepalive=keepalive).go(S.READY)
    await asyncio.sleep(11 + 4 * keepalive)
    await stage.end()


# --- coming back, and ending ------------------------------------------------------------------------------------------


async def the_old_transport_takes(seconds: float, *, close_step: float = 30.0, backoff: float = 1.0) -> None:
    """Before it is gone: longer than the backoff, shorter, or longer than anybody waits."""
    stage = Stage(backoff_min=backoff, backoff_max=backoff, close_step=close_step, init_timeout=1_000.0)
    await stage.go(S.BACKOFF)
    await asyncio.sleep(seconds)
    stage.closing.set()
    await asyncio.sleep(2 * backoff)
    assert stage.state is S.INITIALIZING
    await stage.end()


async def stopping_takes_too_long() -> None:
    stage = await Stage(close_step=1.0).go(S.CLOSING)
    await asyncio.sleep(60)
    assert stage.state is S.CLOSED
    stage.closing.set()
    await stage.turn()
    await stage.end()


async def stopped_in_backoff(*, is_reaped: bool) -> None:
    stage = await Stage(backoff_min=20.0).go(S.BACKOFF)
    if is_reaped:
        stage.closing.set()
        await stage.turn()
    stage.later(stage.connection.stop())
    await stage.turn()
    await stage.end()


async def attempts_run_out(*, is_reaped: bool) -> None:
    stage = Stage(max_attempts=1)
    if is_reaped:
        stage.fates.append(TransportError("no"))
    stage.connection.start()
    await stage.turn()
    if not is_reaped:
        stage.down()
    await stage.end()


async def gone_while_starting_again() -> None:
    """What an old transport says when the next one is on its way."""
    stage = Stage(backoff_min=1.0, backoff_max=1.0)
    stage.closing.set()
    await stage.go(S.READY)
    stage.fates.append(asyncio.Event())
    stage.down()
    await asyncio.sleep(1.1)
    assert stage.state is S.STARTING
    stage.owners[0].went_down(LOST, None, False)
    await stage.end()


# --- HTTP -------------------------------------------------------------------------------------------------------------


async def over_http(state: ClientState, what: str) -> None:
    stage = Stage(is_http=True)
    stage.closing.set()
    await stage.go(S.READY if state is not S.INITIALIZING else state)
    call, other = (stage.call(), stage.call()) if state is not S.INITIALIZING else (None, None)
    if what == "handshake lost":
        stage.owner.exchange_lost(stage.id_of("initialize"), LOST, False)
    elif what == "handshake forgotten":
        stage.owner.session_lost(stage.id_of("initialize"))
    elif what == "exchange lost" and call is not None:
        stage.owner.exchange_lost(call.id, LOST, False)
    elif call is not None and other is not None:
        first = other.id
        stage.owner.session_lost(call.id)
        await stage.turn()
        assert stage.state is S.INITIALIZING
        if what == "an open POST is answered":
            await stage.say(id=first, result={})
        elif what == "twice":
            await stage.agree()
            stage.owner.session_lost(other.id)
    await stage.turn()
    await stage.end()


def scenes() -> dict[str, Callable[[], Awaitable[None]]]:
    async def thing(
        state: ClientState, happens: Callable[[Stage], Awaitable[None]], *, is_http: bool
    ) -> None:
        stage = await Stage(is_http=is_http).go(state)
        await happens(stage)
        await stage.turn()
        await stage.end()

    found: dict[str, Callable[[], Awaitable[None]]] = {}
    for state in ClientState:
        for happens in EVERYWHERE:
            is_http = happens in (an_exchange_is_lost, a_session_is_lost)
            found[f"{happens.__name__} in {state.value}"] = partial(thing, state, happens, is_http=is_http)
    for state in (S.INITIALIZING, S.READY):
        for frame in (*FRAMES, *LINES):
            found[f"{frame!r} in {state.value}"] = partial(hears, state, frame)
        found[f"rubbish in {state.value}"] = partial(hears_only_rubbish, state)
    for state in (S.STARTING, S.INITIALIZING):
        found[f"sweeping in {state.value}"] = partial(sweeps, state)
    final = TransportError("no such file", permanent=True)
    for name, fate in (("fails", TransportError("no")), ("is refused", final)):
        found[f"the spawn {name}"] = partial(spawning_ends, fate, options={})
        for takes in (0.0, 1.5, 10.0):
            for is_stopped in (False, True):
                found[f"the spawn {name} after {takes} {is_stopped}"] = partial(
                    an_opening_fails_late, fate, takes=takes, is_stopped=is_stopped
                )
    for is_stubborn in (False, True):
        for waits in (0.1, 1.5, 20.0):
            for is_stopped in (False, True):
                name = f"a start is given up: {is_stubborn} {waits} {is_stopped}"
                found[name] = partial(
                    a_start_is_given_up, is_stubborn=is_stubborn, waits=waits, is_stopped=is_stopped
                )
    found |= {
        "the probe is not understood": partial(probing, {"error": {"code": -32601, "message": "?"}}, then={"result": LEGACY}),
        "the probe is understood": partial(probing, {"result": MODERN}),
        "the probe is not answered": partial(probing, None, then={"result": LEGACY}),
        "the handshake fails": partial(handshake_answered, {"error": {"code": -32603, "message": "no"}}),
        "the handshake is refused": partial(handshake_answered, {"result": {**LEGACY, "protocolVersion": "1999-01-01"}}),
        "nobody answers": never_answered,
        "the probe kills it": partial(dying_in_the_negotiation, versions=BOTH, times=1),
        "it dies and dies": partial(dying_in_the_negotiation, versions=("2025-11-25",), times=2),
        "busy while negotiating": busy_while_negotiating,
        "an error is answered": an_error_is_answered,
        "a request is served": a_request_is_served,
        "busy calls": busy_calls,
        "silence": partial(silence, keepalive=5.0),
        "the old transport is soon gone": partial(the_old_transport_takes, 0.5),
        "the old transport is late": partial(the_old_transport_takes, 5.0),
        "the old transport stays, and is waited for": partial(the_old_transport_takes, 30.0, close_step=1.0),
        "the old transport stays for most of the backoff": partial(the_old_transport_takes, 30.0, close_step=1.0, backoff=90.0),
        "stopping takes too long": stopping_takes_too_long,
        "it breaks between two frames": breaks_between_two_frames,
        "stopped in backoff": partial(stopped_in_backoff, is_reaped=False),
        "stopped in backoff with nothing left": partial(stopped_in_backoff, is_reaped=True),
        "attempts run out": partial(attempts_run_out, is_reaped=False),
        "attempts run out with nothing left": partial(attempts_run_out, is_reaped=True),
        "gone while starting again": gone_while_starting_again,
        "HTTP: the handshake is lost": partial(over_http, S.INITIALIZING, "handshake lost"),
        "HTTP: the handshake's session is lost": partial(over_http, S.INITIALIZING, "handshake forgotten"),
        "HTTP: a request is lost": partial(over_http, S.READY, "exchange lost"),
        "HTTP: the session is lost": partial(over_http, S.READY, "an open POST is answered"),
        "HTTP: the session is lost twice": partial(over_http, S.READY, "twice"),
    }  # fmt: skip
    return found


@functools.cache
def walked() -> dict[Edge, str]:
    """Every branch that a scene walked, with the scene."""
    found: dict[Edge, str] = {}
    for name, scene in scenes().items():
        seen = play(scene)
        for edge in seen:
            found.setdefault(edge, name)
    return found


def play(scene: Callable[[], Awaitable[None]]) -> set[Edge]:
    with pytest.MonkeyPatch.context() as patch:
        seen: set[Edge] = set()
        patch.setattr(Watched, "seen", seen, raising=False)
        patch.setattr(driver, "ClientConnection", partial(Watched, is_strict=True))

        async def whole() -> None:
            await scene()
            await asyncio.sleep(0)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert left == set(), f"tasks are left: {left}"

        run_on_fake_clock(whole())
    return seen


# --- what nothing outside brings about --------------------------------------------------------------------------------

EARLIER, LATER = (S.STARTING, S.INITIALIZING), (S.BACKOFF, S.CLOSING, S.CLOSED)
FACTS = ServerFacts("2025-11-25", Era.HANDSHAKE)

# The reason, and the pairs: how to make the event, and the states.
BY_HAND: dict[str, tuple[tuple[Callable[[int], e.Event], tuple[ClientState, ...]], ...]] = {
    "the driver forgets a handler when its server is gone": (
        (lambda epoch: e.Replied("q"), (*EARLIER, *LATER)),
    ),
    "`give_up()` looks first whether the call is still open": (
        (lambda epoch: e.GaveUp(1), (S.CLOSING, S.CLOSED)),
    ),
    "a timer that ran out in the same moment as the one that led here": (
        (lambda epoch: e.Expired(1), (S.CLOSING, S.CLOSED)),
        (lambda epoch: e.RetryDue(1), (S.STARTING, *LATER)),
        (lambda epoch: e.ProbeExpired(), (S.READY, *LATER)),
        (lambda epoch: e.ConnectExpired(), LATER),
        (lambda epoch: e.KeepaliveDue(), (*EARLIER, *LATER)),
        (lambda epoch: e.Settled(), (*EARLIER, *LATER)),
        (lambda epoch: e.BackoffElapsed(), (*EARLIER, S.READY, S.CLOSING, S.CLOSED)),
        (lambda epoch: e.SweepDue(), (S.CLOSING, S.CLOSED)),
        (lambda epoch: e.CloseExpired(), (*EARLIER, S.READY, S.CLOSED)),
    ),
    "a frame was offered and refused in the turn that led here": (
        (lambda epoch: e.Refused(epoch, 1), (S.STARTING, S.CLOSING, S.CLOSED)),
        (lambda epoch: e.FrameRefused(epoch, b"{}"), (S.STARTING, S.CLOSING, S.CLOSED)),
        (lambda epoch: e.Resumed(), (*EARLIER, S.CLOSING, S.CLOSED)),
    ),
    "the driver says that it was spawned first, and then that it is up, in one turn": (
        (lambda epoch: e.CameUp(epoch), (S.STARTING, S.READY)),
    ),
    "the end of a transport that a later one has replaced is stale": (
        (lambda epoch: e.Reaped(epoch), (*EARLIER, S.READY)),
    ),
    "frames are pulled from the live transport only": (
        (lambda epoch: e.AnswerReceived(1, None, LOST), LATER),
        (lambda epoch: e.StrayReceived(1), (S.STARTING, *LATER)),
        (lambda epoch: e.CancelReceived(1), (S.STARTING, *LATER)),
        (lambda epoch: e.NotificationReceived("notifications/message", None), (S.STARTING, *LATER)),
        (lambda epoch: e.RequestReceived("q", "ping", None), (S.STARTING, *LATER)),
        (lambda epoch: e.InitializeReceived(), (S.STARTING, *LATER)),
        (lambda epoch: e.ResetReceived(), (S.STARTING, *LATER)),
        (lambda epoch: e.GarbageReceived(LOST, 1), (S.STARTING, *LATER)),
        (lambda epoch: e.StruckOut(LOST), (S.STARTING, *LATER)),
        (lambda epoch: e.OversizeReceived(epoch, LOST), (S.STARTING, *LATER)),
    ),
    "the core makes it of something that happens in another state": (
        (lambda epoch: e.Negotiated(version="2025-11-25", server=FACTS), (S.READY, *LATER)),
        (lambda epoch: e.Offered(Era.HANDSHAKE, "2025-11-25"), LATER),
        (lambda epoch: e.NegotiationFailed(LOST), LATER),
        (lambda epoch: e.NegotiationRefused(LOST), LATER),
        (lambda epoch: e.KeepaliveMissed(), (*EARLIER, *LATER)),
        (lambda epoch: e.AttemptsExhausted(), (*EARLIER, S.READY, S.CLOSING, S.CLOSED)),
    ),
}


async def an_answer_while_a_session_is_renewed() -> None:
    """Renewing is one turn of the core's, so an answer cannot come between; it is stepped in the middle of it by hand."""

    class Slow(Stage):
        """A target over HTTP whose transports cannot renew: each session is opened anew, which takes a while."""

        async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
            self.is_http = False  # what `open()` makes is then no transport that could renew
            wire = await Stage.open(self, owner, max_frame_bytes, close_step)
            self.fates.append(asyncio.Event())
            return wire

    stage = Slow(is_http=True)
    stage.closing.set()
    await stage.go(S.READY)
    refused, open_post = stage.call(), stage.call()
    stage.owner.session_lost(refused.id)
    assert stage.state is S.STARTING
    stage.connection.step(e.AnswerReceived(open_post.id, None, LOST))
    assert open_post.future.done()
    await stage.end()


@functools.cache
def stepped() -> dict[Edge, str]:
    """Every branch that was walked by hand, with the reason."""

    async def step(make: Callable[[int], e.Event], state: ClientState) -> None:
        stage = await Stage().go(state)
        stage.connection.step(make(stage.connection.core.epoch))
        await stage.turn()
        await stage.end()

    found: dict[Edge, str] = {}
    for reason, pairs in BY_HAND.items():
        for make, states in pairs:
            for state in states:
                mine = {edge for edge in play(partial(step, make, state)) if edge[0] is type(make(1))}
                assert any(edge[1] is state for edge in mine), (make(1), state)
                found |= {edge: reason for edge in mine if edge[1] is state}
    renewing = play(an_answer_while_a_session_is_renewed)
    found |= {
        edge: "renewing takes no time" for edge in renewing if edge[:2] == (e.AnswerReceived, S.STARTING)
    }
    return found


# --- the proof --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ROWS, ids=lambda event: event.__name__)
def test_every_edge_of_this_row_is_walked_through_the_driver_or_impossible(event: type[e.Event]) -> None:
    """Section 2, the whole table: each pair, and each answer to each question of a pair."""
    for state, cell in CELLS[event].items():
        for branch, each in enumerate(cell.branches()):
            is_walked = (event, state, branch) in walked() or (event, state, branch) in stepped()
            assert is_walked is not each.is_impossible, f"{event.__name__} in {state.value}, branch {branch}"


def test_what_is_stepped_by_hand_is_brought_about_by_nothing_else() -> None:
    """The list of exceptions stays short: a pair that a scene reaches leaves it."""
    assert {edge: walked()[edge] for edge in stepped() if edge in walked()} == {}


def test_most_of_what_can_happen_happened_by_itself() -> None:
    """What is done about by hand are pairs that the table ignores, counts or refuses: none that leads on."""
    leading = {
        edge
        for edge in stepped()
        if list(CELLS[edge[0]][edge[1]].branches())[edge[2]].to not in (None, S.BACKOFF)
    }
    assert leading == {(e.CameUp, S.STARTING, 0)}
