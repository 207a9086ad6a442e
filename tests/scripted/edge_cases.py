"""Scenarios for every edge of the client's state table. Each brings a client into a state and causes one event.

`scenarios()` returns them by name.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from jackstay.client import _driver as driver
from jackstay.errors import FrameTooLargeError, McpError, TransportError
from jackstay.protocol.client import ClientState
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import FLUSH_BATCH_SIZE
from scripted.transport_harness import LEGACY, LOST, MODERN, SUBSCRIBED, S, TransportHarness

# --- one event, in every state ----------------------------------------------------------------------------------------


async def calls(harness: TransportHarness) -> None:
    harness.call()


async def notifies(harness: TransportHarness) -> None:
    try:
        harness.connection.notify("notifications/roots/list_changed", b"{}")
    except McpError:
        assert harness.state is not S.READY


async def subscribes_and_unsubscribes(harness: TransportHarness) -> None:
    harness.connection.step(SUBSCRIBED)
    harness.connection.step(e.Unsubscribed("k"))


async def waits_for_ready(harness: TransportHarness) -> None:
    harness.later(harness.connection.ready(0.5))
    await asyncio.sleep(0.6)


async def queries_facts(harness: TransportHarness) -> None:
    assert harness.connection.core.is_stale in (True, False)


async def cancels_a_call(harness: TransportHarness) -> None:
    call = harness.call(wait_for_ready=True)
    harness.wrote()
    harness.connection.cancel_call(call)


async def times_out(harness: TransportHarness) -> None:
    harness.call(wait_for_ready=True, timeout=0.1)
    await asyncio.sleep(0.2)


async def stops(harness: TransportHarness) -> None:
    harness.later(harness.connection.stop())


async def transport_wrote(harness: TransportHarness) -> None:
    harness.handler.wrote(1)


async def transport_has_room(harness: TransportHarness) -> None:
    harness.handler.room_made()


async def transport_goes_down(harness: TransportHarness) -> None:
    harness.down()


async def old_transport_goes_down(harness: TransportHarness) -> None:
    handler = driver.EpochHandler(harness.connection, harness.connection.core.epoch - 1)
    handler.went_down(LOST, None, False)


async def an_exchange_is_lost(harness: TransportHarness) -> None:
    harness.handler.exchange_lost(99, LOST, False)


async def a_session_is_lost(harness: TransportHarness) -> None:
    harness.handler.session_lost(99)


async def time_passes(harness: TransportHarness) -> None:
    await asyncio.sleep(1_001)


IN_EVERY_STATE: tuple[Callable[[TransportHarness], Awaitable[None]], ...] = (
    calls,
    notifies,
    subscribes_and_unsubscribes,
    waits_for_ready,
    queries_facts,
    cancels_a_call,
    times_out,
    stops,
    transport_wrote,
    transport_has_room,
    transport_goes_down,
    old_transport_goes_down,
    an_exchange_is_lost,
    a_session_is_lost,
    time_passes,
)


# --- frames -----------------------------------------------------------------------------------------------------------

FRAMES: tuple[dict[str, Any], ...] = (
    {"id": 999, "result": {}},
    {"method": "notifications/cancelled", "params": {"requestId": "q"}},
    {"method": "notifications/message", "params": {"level": "info", "data": "x"}},
    {"id": "q", "method": "ping"},
    {"id": "q", "method": "initialize", "params": {}},
    {"method": "notifications/reset"},
)
LINES: tuple[bytes | McpError, ...] = (b"Listening on stdio...", FrameTooLargeError(2, 1))


async def receives(state: ClientState, frame: dict[str, Any] | bytes | McpError) -> None:
    harness = await TransportHarness().go(state)
    if isinstance(frame, dict):
        await harness.receive(**frame)
    else:
        await harness.receive_frame(frame)
    await harness.end()


async def receives_only_garbage(state: ClientState) -> None:
    harness = await TransportHarness().go(state)
    for _ in range(20):
        await harness.receive_frame(b"Debugger attached.")
    assert harness.state is S.BACKOFF
    await harness.end()


# --- spawning ---------------------------------------------------------------------------------------------------------


async def spawning_ends(result: Exception, *, options: dict[str, Any]) -> None:
    harness = TransportHarness(**options)
    harness.open_results.append(result)
    harness.connection.start()
    await harness.turn()
    await harness.end()


async def a_start_is_abandoned(*, ignores_cancellation: bool, waits: float, is_stopped: bool) -> None:
    """Abandon a start, by the connect deadline or by `stop()`. With `ignores_cancellation` the open succeeds late."""
    harness = TransportHarness(init_timeout=5.0, backoff_min=1.0, close_step=1.0)
    result = asyncio.Event()
    result.ignores_cancellation = ignores_cancellation  # type: ignore[attr-defined]  # read by `open()`
    harness.open_results.append(result)
    harness.connection.start()
    await harness.turn()
    if is_stopped:
        harness.later(harness.connection.stop())
        await harness.turn()
    else:
        await asyncio.sleep(5.1)
        assert harness.state is S.BACKOFF
    await asyncio.sleep(waits)
    result.set()
    await harness.turn()
    await harness.end()


async def an_opening_fails_late(error: TransportError, *, takes: float, is_stopped: bool) -> None:
    """An open that fails some time after it was cancelled."""

    class Late(TransportHarness):
        async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Any:
            self.handlers.append(handler)
            if len(self.handlers) > 1:
                return await TransportHarness.open(self, handler, max_frame_bytes, close_step)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(takes)
            raise error

    harness = Late(init_timeout=5.0, backoff_min=1.0, backoff_jitter=0.0, close_step=1.0)
    harness.connection.start()
    await harness.turn()
    if is_stopped:
        harness.later(harness.connection.stop())
    else:
        await asyncio.sleep(5.001)
    await asyncio.sleep(takes + 1)
    await harness.end()


# --- negotiating ------------------------------------------------------------------------------------------------------

BOTH = ("2025-11-25", "2026-07-28")


async def probing(answer: dict[str, Any] | None, *, is_http: bool = False, then: dict[str, Any] | None = None) -> None:
    """The response to the probe, or None, and the response to `initialize`."""
    harness = TransportHarness(versions=BOTH, init_timeout=9.0, is_http=is_http)
    harness.connection.start()
    await harness.turn()
    if answer is None:
        await asyncio.sleep(3.1)
    else:
        await harness.receive(id=harness.id_of("server/discover"), **answer)
    if then is not None:
        await harness.receive(id=harness.id_of("initialize"), **then)
    await harness.end()


async def exits_while_negotiating(*, versions: tuple[str, ...], times: int) -> None:
    harness = TransportHarness(versions=versions, backoff_min=0.1, backoff_max=0.1, max_attempts=None)
    harness.closing.set()
    harness.connection.start()
    for _ in range(times):
        await harness.turn()
        assert harness.state is S.INITIALIZING
        harness.down(1, is_silent=True)
        await asyncio.sleep(0.2)
    await harness.end()


async def handshake_answered(answer: dict[str, Any]) -> None:
    harness = await TransportHarness().go(S.INITIALIZING)
    await harness.receive(id=harness.id_of("initialize"), **answer)
    await harness.end()


async def never_answered() -> None:
    harness = await TransportHarness(init_timeout=5.0).go(S.INITIALIZING)
    await asyncio.sleep(5.1)
    assert harness.state is S.BACKOFF
    await harness.end()


async def busy_while_negotiating() -> None:
    harness = TransportHarness()
    harness.is_busy = lambda frame: b"initialize" in frame
    harness.connection.start()
    await asyncio.sleep(0.2)
    harness.is_busy = lambda frame: False
    await harness.end()
    harness = await TransportHarness().go(S.INITIALIZING)
    harness.is_busy = lambda frame: True
    await harness.receive(id="p", method="ping")
    harness.is_busy = lambda frame: False
    harness.handler.room_made()
    assert harness.sent[-1] == {"jsonrpc": "2.0", "id": "p", "result": {}}
    await harness.end()


# --- ready ------------------------------------------------------------------------------------------------------------


async def an_error_is_answered() -> None:
    harness = await TransportHarness().go(S.READY)
    call = harness.call()
    await harness.receive(id=call.id, error={"code": -1, "message": "no"})
    assert call.future.done()
    await harness.end()


async def a_request_is_served() -> None:
    harness = await TransportHarness().go(S.READY)
    await harness.receive(id="q", method="sampling/createMessage", params={})
    harness.is_busy = lambda frame: True
    harness.respond_to_server.set()
    await harness.turn()
    harness.is_busy = lambda frame: False
    harness.handler.room_made()
    assert harness.sent[-1]["id"] == "q"
    await harness.end()


async def busy_calls() -> None:
    harness = await TransportHarness(max_pending=1_000).go(S.READY)
    harness.is_busy = lambda frame: True
    harness.call()
    for _ in range(2 * FLUSH_BATCH_SIZE):
        harness.call(busy="wait")
    await asyncio.sleep(0.5)
    harness.is_busy = lambda frame: False
    harness.handler.room_made()
    assert len(harness.sent) >= 2 * FLUSH_BATCH_SIZE
    await harness.end()


async def breaks_between_two_frames() -> None:
    """The first frame breaks the transport, which is then busy."""

    def breaks(frame: bytes) -> bool:
        harness.is_busy = lambda frame: True
        raise OSError("broken pipe")

    harness = await TransportHarness(max_pending=1_000).go(S.READY)
    harness.is_busy = lambda frame: True
    await harness.receive(id="p", method="ping")
    await harness.receive(id="q", method="ping")
    for _ in range(2 * FLUSH_BATCH_SIZE):
        harness.call(busy="wait")
    harness.is_busy = breaks
    harness.handler.room_made()
    assert harness.state is S.BACKOFF
    await harness.end()


async def sweeps(state: ClientState) -> None:
    harness = await TransportHarness(tombstone_sweep=1.0, init_timeout=100.0, backoff_min=20.0).go(state)
    await asyncio.sleep(1.1)
    assert harness.state is state
    await harness.end()


async def silence(*, keepalive: float) -> None:
    harness = await TransportHarness(keepalive=keepalive).go(S.READY)
    await asyncio.sleep(11 + 4 * keepalive)
    await harness.end()


async def a_call_times_out(*, is_answered: bool) -> None:
    """After the timeout the server is checked. It responds to another call, or not at all."""
    harness = await TransportHarness(hang_timeout=1.0).go(S.READY)
    harness.call(timeout=0.5)
    other = harness.call()
    harness.wrote()
    await asyncio.sleep(0.6)
    if is_answered:
        await harness.receive(id=other.id, result={})
    await asyncio.sleep(1.0)
    assert harness.state is (S.READY if is_answered else S.BACKOFF)
    await harness.end()


# --- reconnecting and closing -----------------------------------------------------------------------------------------


async def the_old_transport_takes(seconds: float, *, close_step: float = 30.0, backoff: float = 1.0) -> None:
    """The old transport closes after `seconds`: before or after the backoff, or after `close_step`."""
    harness = TransportHarness(backoff_min=backoff, backoff_max=backoff, close_step=close_step, init_timeout=1_000.0)
    await harness.go(S.BACKOFF)
    await asyncio.sleep(seconds)
    harness.closing.set()
    await asyncio.sleep(2 * backoff)
    assert harness.state is S.INITIALIZING
    await harness.end()


async def stopping_takes_too_long() -> None:
    harness = await TransportHarness(close_step=1.0).go(S.CLOSING)
    await asyncio.sleep(60)
    assert harness.state is S.CLOSED
    harness.closing.set()
    await harness.turn()
    await harness.end()


async def stopped_in_backoff(*, is_reaped: bool) -> None:
    harness = await TransportHarness(backoff_min=20.0).go(S.BACKOFF)
    if is_reaped:
        harness.closing.set()
        await harness.turn()
    harness.later(harness.connection.stop())
    await harness.turn()
    await harness.end()


async def attempts_run_out(*, is_reaped: bool) -> None:
    harness = TransportHarness(max_attempts=1)
    if is_reaped:
        harness.open_results.append(TransportError("no"))
    harness.connection.start()
    await harness.turn()
    if not is_reaped:
        harness.down()
    await harness.end()


async def old_callbacks_while_starting() -> None:
    """Callbacks of an old transport while the next one is opened."""
    harness = TransportHarness(backoff_min=1.0, backoff_max=1.0)
    harness.closing.set()
    await harness.go(S.READY)
    harness.open_results.append(asyncio.Event())
    harness.down()
    await asyncio.sleep(1.1)
    assert harness.state is S.STARTING
    harness.handlers[0].went_down(LOST, None, False)
    await harness.end()


# --- HTTP -------------------------------------------------------------------------------------------------------------


async def over_http(state: ClientState, what: str) -> None:
    harness = TransportHarness(is_http=True)
    harness.closing.set()
    await harness.go(S.READY if state is not S.INITIALIZING else state)
    call, other = (harness.call(), harness.call()) if state is not S.INITIALIZING else (None, None)
    if what == "handshake lost":
        harness.handler.exchange_lost(harness.id_of("initialize"), LOST, False)
    elif what == "handshake forgotten":
        harness.handler.session_lost(harness.id_of("initialize"))
    elif what == "exchange lost" and call is not None:
        harness.handler.exchange_lost(call.id, LOST, False)
    elif call is not None and other is not None:
        first = other.id
        harness.handler.session_lost(call.id)
        await harness.turn()
        assert harness.state is S.INITIALIZING
        if what == "an open POST is answered":
            await harness.receive(id=first, result={})
        elif what == "twice":
            await harness.agree()
            harness.handler.session_lost(other.id)
    await harness.turn()
    await harness.end()


async def with_open_posts(what: str) -> None:
    """The session is lost while other requests are open: the HTTP client is kept."""
    harness = TransportHarness(is_http=True)
    harness.closing.set()
    await harness.go(S.READY)
    refused, other = harness.call(timeout=60), harness.call(timeout=60)
    harness.handler.session_lost(refused.id)
    await harness.turn()
    if what == "the next handshake is lost":
        harness.handler.exchange_lost(harness.id_of("initialize"), LOST, False)
    elif what == "the next handshake is not answered":
        await asyncio.sleep(10.5)
    else:
        await harness.agree()
        harness.handler.session_lost(refused.id)
    await harness.turn()
    assert harness.state is S.BACKOFF
    if what == "answered":
        await harness.receive(id=other.id, result={})
    elif what == "a message":
        await harness.receive(method="notifications/message", params={"level": "info", "data": 1})
    elif what == "lost":
        harness.handler.exchange_lost(other.id, LOST, False)
    elif what == "refused":
        harness.handler.session_lost(other.id)
    elif what == "down":
        harness.down()
    elif what == "the wait is over":
        await asyncio.sleep(2)
        assert harness.state is S.INITIALIZING
    await harness.turn()
    await harness.end()


async def waits_for_a_connection() -> None:
    harness = await TransportHarness(is_http=True).go(S.READY)
    harness.closing.set()
    call = harness.call()
    harness.handler.queued(call.id)
    harness.handler.started(call.id)
    await harness.end()


WITH_OPEN_POSTS = (
    "answered",
    "a message",
    "lost",
    "refused",
    "down",
    "the wait is over",
    "the next handshake is lost",
    "the next handshake is not answered",
)


def scenarios() -> dict[str, Callable[[], Awaitable[None]]]:
    async def run(state: ClientState, action: Callable[[TransportHarness], Awaitable[None]], *, is_http: bool) -> None:
        harness = await TransportHarness(is_http=is_http).go(state)
        await action(harness)
        await harness.turn()
        await harness.end()

    found: dict[str, Callable[[], Awaitable[None]]] = {}
    for state in ClientState:
        for action in IN_EVERY_STATE:
            is_http = action in (an_exchange_is_lost, a_session_is_lost)
            found[f"{action.__name__} in {state.value}"] = partial(run, state, action, is_http=is_http)
    for state in (S.INITIALIZING, S.READY):
        for frame in (*FRAMES, *LINES):
            found[f"{frame!r} in {state.value}"] = partial(receives, state, frame)
        found[f"only invalid lines in {state.value}"] = partial(receives_only_garbage, state)
    for state in (S.STARTING, S.INITIALIZING):
        found[f"sweeping in {state.value}"] = partial(sweeps, state)
    final = TransportError("no such file", permanent=True)
    for name, result in (("fails", TransportError("no")), ("is refused", final)):
        found[f"the spawn {name}"] = partial(spawning_ends, result, options={})
        for takes in (0.0, 1.5, 10.0):
            for is_stopped in (False, True):
                found[f"the spawn {name} after {takes} {is_stopped}"] = partial(
                    an_opening_fails_late, result, takes=takes, is_stopped=is_stopped
                )
    for ignores_cancellation in (False, True):
        for waits in (0.1, 1.5, 20.0):
            for is_stopped in (False, True):
                name = f"a start is abandoned: {ignores_cancellation} {waits} {is_stopped}"
                found[name] = partial(
                    a_start_is_abandoned, ignores_cancellation=ignores_cancellation, waits=waits, is_stopped=is_stopped
                )
    found |= {
        "the probe is rejected": partial(probing, {"error": {"code": -32601, "message": "?"}}, then={"result": LEGACY}),
        "the probe succeeds": partial(probing, {"result": MODERN}),
        "the probe is not answered": partial(probing, None, then={"result": LEGACY}),
        "the handshake fails": partial(handshake_answered, {"error": {"code": -32603, "message": "no"}}),
        "the handshake is refused": partial(
            handshake_answered, {"result": {**LEGACY, "protocolVersion": "1999-01-01"}}
        ),
        "no response": never_answered,
        "it exits on the probe": partial(exits_while_negotiating, versions=BOTH, times=1),
        "it exits twice": partial(exits_while_negotiating, versions=("2025-11-25",), times=2),
        "busy while negotiating": busy_while_negotiating,
        "an error is answered": an_error_is_answered,
        "a request is served": a_request_is_served,
        "busy calls": busy_calls,
        "silence": partial(silence, keepalive=5.0),
        "a call times out, and the server hangs": partial(a_call_times_out, is_answered=False),
        "a call times out, and the server answers": partial(a_call_times_out, is_answered=True),
        "the old transport closes early": partial(the_old_transport_takes, 0.5),
        "the old transport closes late": partial(the_old_transport_takes, 5.0),
        "the old transport exceeds close_step": partial(the_old_transport_takes, 30.0, close_step=1.0),
        "the old transport exceeds close_step within the backoff": partial(
            the_old_transport_takes, 30.0, close_step=1.0, backoff=90.0
        ),
        "stopping takes too long": stopping_takes_too_long,
        "it breaks between two frames": breaks_between_two_frames,
        "stopped in backoff": partial(stopped_in_backoff, is_reaped=False),
        "stopped in backoff after the transport was closed": partial(stopped_in_backoff, is_reaped=True),
        "attempts run out": partial(attempts_run_out, is_reaped=False),
        "attempts run out after the transport was closed": partial(attempts_run_out, is_reaped=True),
        "an old transport goes down while the next one starts": old_callbacks_while_starting,
        "HTTP: the handshake is lost": partial(over_http, S.INITIALIZING, "handshake lost"),
        "HTTP: the handshake's session is lost": partial(over_http, S.INITIALIZING, "handshake forgotten"),
        "HTTP: a request is lost": partial(over_http, S.READY, "exchange lost"),
        "HTTP: the session is lost": partial(over_http, S.READY, "an open POST is answered"),
        "HTTP: the session is lost twice": partial(over_http, S.READY, "twice"),
        "HTTP: a request waits for a connection": waits_for_a_connection,
        **{f"HTTP, with open POSTs: {what}": partial(with_open_posts, what) for what in WITH_OPEN_POSTS},
    }
    return found
