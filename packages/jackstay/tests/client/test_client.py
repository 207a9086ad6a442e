"""`Client`: opened, shared and stopped, from any task and in any order. Handlers are in `test_client_listening`."""

import asyncio
from typing import Any

import pytest

from jackstay.client import Notification, connect
from jackstay.errors import (
    ClosedError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
    UsageError,
)
from jackstay.testing import ScriptedError, ScriptedPeer, on_fake_clock
from jackstay.transport import memory_pair
from jackstay.types import Implementation
from scripted.peer import ERAS, HANDSHAKE, STATELESS, now, opened, peered, text_result


class FailingTarget:
    """A target that cannot be opened; each time with the next of its errors."""

    is_http = False
    name = "failing"
    init_timeout = None

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.opened = 0

    async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Any:
        self.opened += 1
        raise self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]


# --- opening ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_both_eras_are_negotiated_and_the_server_information_is_available(version: str) -> None:
    async with peered(version) as (client, peer):
        assert (client.state, repr(client)) == ("new", "<Client scripted new>")
        async with client as same:
            assert same is client
            assert (client.state, client.protocol_version) == ("ready", version)
            assert isinstance(client.server_info, Implementation)
            assert client.server_info.name == "scripted"
            assert client.server_capabilities.tools is not None
            assert client.instructions == "be polite"
            assert not client.is_server_stale
            assert await client.ping() == ("ping" if version == HANDSHAKE else "server/discover")
        assert client.state == "closed"
        assert client.is_server_stale
        assert client.protocol_version == version, "of the last connection"
        initialized = peer.got("notifications/initialized")
        assert len(initialized) == (version == HANDSHAKE)


@on_fake_clock
async def test_malformed_server_info_is_tolerated() -> None:
    cases: list[tuple[dict[str, Any], str | None, str | None]] = [
        ({"name": "s"}, "s", ""),
        ({"version": "1", "name": 5}, "", "1"),
        ({"name": "s", "version": "1", "title": 5}, "s", "1"),
        ({"name": "s", "version": "1", "websiteUrl": "x:y"}, "s", "1"),
        ({"name": 5}, None, None),
        ({}, None, None),
    ]
    for info, name, version in cases:
        async with peered(HANDSHAKE) as (client, peer):
            peer.on["initialize"] = {"protocolVersion": HANDSHAKE, "capabilities": {}, "serverInfo": info}
            async with client:
                found = client.server_info
                assert (found and found.name, found and found.version) == (name, version), info


@on_fake_clock
async def test_a_stateless_server_without_a_name_has_none() -> None:
    async with peered(STATELESS) as (client, peer):
        plain = {"resultType": "complete", "supportedVersions": [STATELESS], "capabilities": {}}
        peer.on["server/discover"] = plain
        async with client:
            assert client.server_info is None
            assert client.instructions == ""


@on_fake_clock
async def test_a_server_that_never_answers_the_probe_gets_initialize_too() -> None:
    async with peered() as (client, peer):
        peer.on["server/discover"] = lambda params: None
        async with client:
            assert client.protocol_version == HANDSHAKE
            assert now() == pytest.approx(3, abs=0.1)


@on_fake_clock
async def test_a_slow_stateless_server_is_waited_for() -> None:
    async with peered(STATELESS, init_timeout=20) as (client, peer):
        peer.on["server/discover"] = lambda params: None
        peer.on["initialize"] = lambda params: None
        opening = asyncio.ensure_future(client.open())
        probe = await peer.expect("server/discover")
        initialize = await peer.expect("initialize")
        await asyncio.sleep(2)
        probe.respond(peer.handshake_result())
        peer.respond_error(initialize["id"], -32601)
        await opening
        assert client.protocol_version == STATELESS


@on_fake_clock
async def test_one_era_alone_is_not_probed() -> None:
    async with opened(versions=(HANDSHAKE,)) as (_, peer):
        assert peer.got("server/discover") == []
    async with opened(STATELESS, versions=(STATELESS,)) as (_, peer):
        assert peer.got("initialize") == []


@on_fake_clock
async def test_no_common_version_is_a_permanent_error() -> None:
    async with peered(versions=("2024-11-05",)) as (client, _):
        with pytest.raises(ProtocolError, match="no common protocol version"):
            await client.open()
        assert client.state == "closed"
        assert now() < 1


@on_fake_clock
async def test_open_raises_a_permanent_error_at_once_and_unchanged() -> None:
    """docs/guarantees.md G9."""
    gone = TransportError("no such command", permanent=True)
    client = connect(FailingTarget(gone))
    with pytest.raises(TransportError) as caught:
        await client.open()
    assert caught.value is gone
    assert now() == 0
    with pytest.raises(ClosedError) as later:
        await client.tools.call("x")
    assert later.value.reason is gone
    with pytest.raises(ClosedError):
        await client.ready()
    await client.stop()


@on_fake_clock
async def test_open_raises_the_last_error_after_max_attempts() -> None:
    errors = [TransportError(f"attempt {n}", exit_code=n, stderr_tail=f"tail {n}") for n in (1, 2, 3)]
    target = FailingTarget(*errors)
    client = connect(target, max_attempts=3)
    with pytest.raises(TransportError) as caught:
        await client.open()
    assert caught.value is errors[2]
    assert (caught.value.exit_code, caught.value.stderr_tail) == (3, "tail 3")
    assert target.opened == 3
    assert now() == pytest.approx(3, abs=0.7)


@on_fake_clock
async def test_open_raises_the_last_error_or_a_timeout_after_open_timeout() -> None:
    target = FailingTarget(TransportError("refused"))
    client = connect(target, max_attempts=100, open_timeout=10)
    with pytest.raises(TransportError, match="refused"):
        await client.open()
    assert now() == pytest.approx(10, abs=0.1)
    async with peered(open_timeout=2) as (silent, peer):
        peer.on["server/discover"] = peer.on["initialize"] = lambda params: None
        with pytest.raises(TimeoutError, match="not ready within 2 s"):
            await silent.open()
        assert silent.state == "closed"


@on_fake_clock
async def test_a_cancelled_open_leaves_nothing_behind() -> None:
    """docs/guarantees.md G9: no task and no pending cancellation is left."""
    async with peered() as (client, peer):
        peer.on["server/discover"] = peer.on["initialize"] = lambda params: None
        opening = asyncio.ensure_future(client.open())
        await peer.expect("server/discover")
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert client.state == "closed"
        await asyncio.sleep(0)  # raises if a cancellation is pending


@on_fake_clock
async def test_a_client_is_opened_once() -> None:
    async with opened() as (client, _):
        with pytest.raises(StateError, match="already opened"):
            await client.open()
        await client.ping()


@on_fake_clock
async def test_without_waiting_open_returns_and_ready_waits() -> None:
    async with peered() as (client, _):
        with pytest.raises(StateError, match="not open"):
            await client.ready()
        await client.open(wait=False)
        assert client.state == "starting"
        for unknown in ("server_info", "server_capabilities", "protocol_version", "instructions"):
            with pytest.raises(StateError):
                getattr(client, unknown)
        await client.ready(5)
        await client.ready()
        assert client.state == "ready"


@on_fake_clock
async def test_a_timeout_of_ready_names_the_last_error() -> None:
    client = connect(FailingTarget(TransportError("refused")), max_attempts=100)
    await client.open(wait=False)
    with pytest.raises(TimeoutError, match="not ready within 3 s: refused") as caught:
        await client.ready(3)
    assert isinstance(caught.value.__cause__, TransportError)
    await client.stop()


@on_fake_clock
async def test_invalid_handlers_and_timeouts_are_refused_at_once() -> None:
    wrong: Any = 5
    async with opened() as (client, _):
        for register in (
            client.on_notification,
            client.on_progress,
            client.on_event,
            client.sampling.handle,
            client.elicitation.handle,
        ):
            with pytest.raises(UsageError, match="expected a function, got int"):
                register(wrong)
        for options in ({"handler": wrong}, {"on_end": wrong}):
            with pytest.raises(UsageError, match="expected a function, got int"):
                await client.resources.subscribe("x:y", **options)
        for seconds in ("1", True, float("nan")):
            with pytest.raises(UsageError, match="timeout must be a number of seconds"):
                await client.ready(seconds)  # type: ignore[arg-type]  # on purpose
            with pytest.raises(UsageError, match="drain must be a number of seconds"):
                await client.stop(seconds)  # type: ignore[arg-type]  # on purpose
        assert client.state == "ready"
        await client.ready(-1)
        await client.stop(drain=-1)
        assert client.state == "closed"


def test_options_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="unexpected option 'retries'"):
        connect(memory_pair().client, retries=3)
    with pytest.raises(UsageError, match="close_step must be"):
        connect(memory_pair().client, close_step=0)
    named = connect(memory_pair("weather").client)
    assert (named.settings.name, named.settings.init_timeout) == ("weather", 10.0)
    assert connect(memory_pair("weather").client, name="rain").settings.name == "rain"


@on_fake_clock
async def test_a_target_may_set_the_init_timeout() -> None:
    target = FailingTarget(TransportError("x", permanent=True))
    target.init_timeout = 30.0  # type: ignore[assignment]
    assert connect(target).settings.init_timeout == 30.0
    assert connect(target, init_timeout=1).settings.init_timeout == 1


@on_fake_clock
async def test_configured_capabilities_take_precedence_over_handlers() -> None:
    async with peered(capabilities={"experimental": {}}) as (client, peer):
        client.roots.set(["file:///a"])
        await client.open()
        assert peer.got("initialize")[0]["params"]["capabilities"] == {"experimental": {}}


# --- stopping ---------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_stop_may_be_called_repeatedly_and_concurrently() -> None:
    """docs/guarantees.md G8: also before `open()`."""
    async with peered() as (client, _):
        await client.stop()
        await client.open()
        await asyncio.gather(*(client.stop() for _ in range(5)))
        await client.stop()
        assert client.state == "closed"
        with pytest.raises(ClosedError):
            await client.ping()


@on_fake_clock
async def test_stop_fails_pending_calls_at_once_with_may_have_run() -> None:
    async with opened() as (client, peer):
        written = client.submit("tools/call", {"name": "a"})
        await peer.expect("tools/call")
        peer.pair.client.stall()
        queued = client.submit("tools/call", {"name": "b"})
        await client.stop()
        with pytest.raises(ShutdownError) as sent:
            await written
        with pytest.raises(ShutdownError) as unsent:
            await queued
        assert (sent.value.may_have_run, unsent.value.may_have_run) == (True, False)
        assert now() < 0.1


@on_fake_clock
async def test_draining_refuses_new_calls_and_finishes_pending_ones() -> None:
    async with ScriptedPeer() as peer:
        client = connect(peer.target)
        await client.open()
        listing = asyncio.ensure_future(client.tools.list())  # two pages
        first = await peer.expect("tools/list")
        await asyncio.sleep(1)
        stopping = asyncio.ensure_future(client.stop(drain=10))
        await asyncio.sleep(0)
        for refused in (client.tools.call("x"), client.prompts.list(), client.submit("ping", {})):
            with pytest.raises(ShutdownError, match="no new calls") as raised:
                await refused
            assert raised.value.may_have_run is False
        first.respond({"tools": [], "nextCursor": "2"})
        second = await peer.expect("tools/list")
        assert client.state == "ready"
        second.respond({"tools": []})
        assert await listing == []
        await stopping
        assert client.state == "closed"
        assert [frame for frame in peer.received if frame.get("method") in ("tools/call", "prompts/list", "ping")] == []


@on_fake_clock
async def test_a_drain_that_is_cancelled_leaves_the_client_open_for_calls() -> None:
    async with ScriptedPeer() as peer:
        peer.on["prompts/list"] = {"prompts": []}
        async with connect(peer.target) as client:
            call = client.submit("tools/call", {"name": "x"})
            stopping = asyncio.ensure_future(client.stop(drain=10))
            await asyncio.sleep(1)
            stopping.cancel()
            await asyncio.wait([stopping])
            assert await client.prompts.list() == []
            call.cancel()


@on_fake_clock
async def test_draining_waits_for_pending_calls_for_a_limited_time() -> None:
    async with opened() as (client, peer):
        call = client.submit("tools/call", {"name": "a"})
        stopping = asyncio.ensure_future(client.stop(drain=10))
        await peer.expect("tools/call")
        await asyncio.sleep(4)
        assert client.state == "ready"
        peer.respond(call.id, text_result("in time"))
        await stopping
        assert (await call)["content"][0]["text"] == "in time"
        assert now() == pytest.approx(4, abs=0.1)
    async with opened() as (client, peer):
        call = client.submit("tools/call", {"name": "a"})
        await client.stop(drain=3)
        with pytest.raises(ShutdownError):
            await call
        assert now() == pytest.approx(7, abs=0.1)


@on_fake_clock
async def test_it_is_opened_in_one_task_and_stopped_in_another() -> None:
    """docs/guarantees.md G8."""
    async with peered() as (client, _):
        await asyncio.create_task(client.open())
        await asyncio.create_task(client.ping())  # type: ignore[arg-type]
        await asyncio.create_task(client.stop())
        assert client.state == "closed"


@on_fake_clock
async def test_stopping_before_the_first_step_of_opening_ends_at_once() -> None:
    """docs/guarantees.md G8."""
    async with peered() as (client, _):
        await client.open(wait=False)
        await client.stop()
        assert client.state == "closed"
        assert now() == 0


@on_fake_clock
async def test_a_handler_may_stop_the_client() -> None:
    async with opened() as (client, peer):
        stopped = asyncio.Event()

        async def stop(notification: Notification) -> None:
            await client.stop()
            stopped.set()

        client.on_notification(stop)
        peer.notify("notifications/message", level="info", data="x")
        await stopped.wait()
        await client.stop()
    async with peered() as (client, peer):
        stopped.clear()

        async def elicit(params: Any) -> Any:
            await client.stop()
            stopped.set()

        client.elicitation.handle(elicit)
        await client.open()
        schema = {"type": "object", "properties": {}}
        peer.request(1, "elicitation/create", {"message": "?", "requestedSchema": schema})
        await stopped.wait()
        assert peer.responses(1) == []


@on_fake_clock
async def test_a_hanging_handler_does_not_block_stop(caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as (client, peer):
        started = asyncio.Event()

        async def hang(notification: Notification) -> None:
            started.set()
            await asyncio.Event().wait()

        client.on_notification(hang)
        peer.notify("notifications/message", level="info", data="x")
        await started.wait()
        await client.stop()
        assert now() < 0.1
    async with opened(close_step=1) as (client, peer):
        started.clear()
        release = asyncio.Event()

        async def ignore_cancel(notification: Notification) -> None:
            started.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    pass

        client.on_notification(ignore_cancel)
        peer.notify("notifications/message", level="info", data="x")
        await started.wait()
        await client.stop()
        assert "a handler did not finish after cancellation" in caplog.text
        release.set()


# --- sharing ----------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_many_tasks_share_one_client_and_each_gets_its_own_answer() -> None:
    """docs/guarantees.md G10: safe to share."""
    async with opened() as (client, peer):
        peer.on["tools/call"] = lambda params: text_result(params["name"])

        async def work(name: str) -> None:
            for _ in range(10):
                assert (await client.tools.call(name)).text == name

        await asyncio.gather(*(work(f"t{n}") for n in range(50)))
        assert len(peer.got("tools/call")) == 500


@on_fake_clock
async def test_a_cancelled_call_does_not_affect_the_others() -> None:
    """docs/guarantees.md G10: safe to share."""
    async with opened() as (client, peer):
        peer.on["tools/call"] = lambda params: None if params["name"] == "slow" else text_result("fine")
        slow = asyncio.ensure_future(client.tools.call("slow"))
        await peer.expect("tools/call")
        slow.cancel()
        assert (await client.tools.call("quick")).text == "fine"
        assert client.state == "ready"


@on_fake_clock
async def test_one_reconnect_serves_all_waiting_calls() -> None:
    """docs/guarantees.md G10: one reconnect at a time."""
    async with opened(wait_for_ready=True) as (client, peer):
        peer.on["tools/call"] = text_result("fine")
        peer.crash()
        await peer.until(lambda: client.state == "backoff")
        results = await asyncio.gather(*(client.tools.call("x") for _ in range(20)))
        assert [result.text for result in results] == ["fine"] * 20
        assert peer.connections == 2


# --- reconnecting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_after_a_crash_the_first_call_that_waits_succeeds(version: str) -> None:
    async with opened(version) as (client, peer):
        peer.on["tools/call"] = text_result("back")
        lost = client.submit("resources/read", {"uri": "x"})
        await peer.expect("resources/read")
        peer.crash()
        with pytest.raises(OutcomeUnknownError):
            await lost
        assert client.is_server_stale
        assert (await client.tools.call("x", wait_for_ready=True, timeout=10)).text == "back"
        assert now() == pytest.approx(1, abs=0.3), "the minimum delay"
        assert not client.is_server_stale


@on_fake_clock
async def test_a_server_that_fails_its_handshake_once_is_tried_again() -> None:
    async with peered() as (client, peer):
        answers = iter([ScriptedError(-32603, "not yet")])

        def initialize(params: dict[str, Any]) -> Any:
            for error in answers:
                raise error
            return peer._initialize(params)

        peer.on["initialize"] = initialize
        await client.open()
        assert client.state == "ready"
        assert len(peer.got("initialize")) == 2


def test_the_reason_of_a_failed_opening_is_never_lost() -> None:
    from jackstay.client._client import _root_cause

    reason = TransportError("x")
    assert _root_cause(reason) is reason
    assert _root_cause(ClosedError(reason)) is reason
    late: McpError = TimeoutError(1, sent=False)
    late.__cause__ = ValueError()
    assert _root_cause(late) is late


def test_a_peer_can_be_made_before_there_is_a_loop() -> None:
    assert ScriptedPeer().connections == 0
