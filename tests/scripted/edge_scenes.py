"""The scenes that walk the client's table: a connection in a state, as a user, a transport, a server or the clock would bring
it there, and one thing that happens. `scenes()` is all of them, by name.

Above: tests of the client's table. Below: `scripted.stage`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from jackstay.client import _connection as driver
from jackstay.errors import FrameTooLargeError, McpError, TransportError
from jackstay.protocol.client import ClientState
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import BITE
from scripted.stage import LEGACY, LOST, MODERN, SUBSCRIBED, S, Stage

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


async def a_call_times_out(*, is_answered: bool) -> None:
    """Then the server is checked; it answers another call meanwhile, or nothing."""
    stage = await Stage(hang_timeout=1.0).go(S.READY)
    stage.call(timeout=0.5)
    other = stage.call()
    stage.wrote()
    await asyncio.sleep(0.6)
    if is_answered:
        await stage.say(id=other.id, result={})
    await asyncio.sleep(1.0)
    assert stage.state is (S.READY if is_answered else S.BACKOFF)
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


async def with_open_posts(what: str) -> None:
    """The session is lost while other requests are open: the HTTP client is kept, whatever becomes of the next session."""
    stage = Stage(is_http=True)
    stage.closing.set()
    await stage.go(S.READY)
    refused, other = stage.call(timeout=60), stage.call(timeout=60)
    stage.owner.session_lost(refused.id)
    await stage.turn()
    if what == "the next handshake is lost":
        stage.owner.exchange_lost(stage.id_of("initialize"), LOST, False)
    elif what == "the next handshake is not answered":
        await asyncio.sleep(10.5)
    else:
        await stage.agree()
        stage.owner.session_lost(refused.id)
    await stage.turn()
    assert stage.state is S.BACKOFF
    if what == "answered":
        await stage.say(id=other.id, result={})
    elif what == "a message":
        await stage.say(method="notifications/message", params={"level": "info", "data": 1})
    elif what == "lost":
        stage.owner.exchange_lost(other.id, LOST, False)
    elif what == "refused":
        stage.owner.session_lost(other.id)
    elif what == "down":
        stage.down()
    elif what == "the wait is over":
        await asyncio.sleep(2)
        assert stage.state is S.INITIALIZING
    await stage.turn()
    await stage.end()


async def waits_for_a_connection() -> None:
    stage = await Stage(is_http=True).go(S.READY)
    stage.closing.set()
    call = stage.call()
    stage.owner.queued(call.id)
    stage.owner.started(call.id)
    await stage.end()


WITH_OPEN_POSTS = (
    "answered", "a message", "lost", "refused", "down", "the wait is over",
    "the next handshake is lost", "the next handshake is not answered",
)  # fmt: skip


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
        "a call times out, and the server hangs": partial(a_call_times_out, is_answered=False),
        "a call times out, and the server answers": partial(a_call_times_out, is_answered=True),
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
        "HTTP: a request waits for a connection": waits_for_a_connection,
        **{f"HTTP, with open POSTs: {what}": partial(with_open_posts, what) for what in WITH_OPEN_POSTS},
    }  # fmt: skip
    return found
