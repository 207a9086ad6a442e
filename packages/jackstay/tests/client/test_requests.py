"""Requests: options, deadlines, meta, and `submit()`."""

import asyncio
import gc
import logging
from typing import Any

import pytest

from jackstay.client._request_handlers import ClientRequestHandlers
from jackstay.client._requests import Requests
from jackstay.errors import (
    BackpressureError,
    CapabilityError,
    ClosedError,
    JsonRpcError,
    OutcomeUnknownError,
    ProtocolError,
    StateError,
    TimeoutError,
    TransportError,
    UsageError,
)
from jackstay.testing import on_fake_clock
from jackstay.types import ProgressNotificationParams
from scripted.peer import ERAS, STATELESS, opened, peered, text_result


def now() -> float:
    return asyncio.get_running_loop().time()


@on_fake_clock
async def test_invalid_options_are_refused_by_name_and_nothing_is_sent() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"busy": "perhaps"}, "busy"),
        ({"replay": "always"}, "replay"),
        ({"timeout": 0}, "timeout"),
        ({"max_timeout": -1}, "max_timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"max_timeout": "5"}, "max_timeout"),
        ({"timeot": 5}, "timeot"),
        ({"timeout": True}, "timeout"),
        ({"wait_for_ready": "yes"}, "wait_for_ready"),
        ({"wait_for_ready": None}, "wait_for_ready"),
        ({"busy": None}, "busy"),
        ({"replay": None}, "replay"),
        ({"on_progress": 5}, "on_progress"),
        ({"meta": 5}, "meta"),
        ({"meta": {"x": float("inf")}}, "$.x"),
    ]
    async with opened() as (client, peer):
        for options, path in cases:
            with pytest.raises(UsageError) as caught:
                await client.tools.call("x", **options)  # type: ignore[arg-type]  # the mistakes that are tested
            assert caught.value.path == path, options
        with pytest.raises(TypeError, match="unexpected option 'time_out'; did you mean 'timeout'"):
            await client.tools.call("x", time_out=5)  # type: ignore[call-arg]  # as above
        await client.ping()
        assert peer.got("tools/call") == []


@on_fake_clock
async def test_on_progress_and_meta_of_none_add_nothing() -> None:
    """A progress token would let the server extend the deadline."""
    async with opened() as (client, peer):
        peer.on["tools/call"] = text_result("")
        await client.tools.call("x", on_progress=None, meta=None)
        assert "_meta" not in peer.got("tools/call")[0]["params"]


@on_fake_clock
async def test_arguments_that_are_not_json_are_refused_with_their_path() -> None:
    async with opened() as (client, peer):
        with pytest.raises(UsageError) as caught:
            await client.tools.call("x", {"a": [float("nan")]})
        assert caught.value.path == "$.arguments.a[0]"
        assert peer.got("tools/call") == []


@on_fake_clock
async def test_the_soft_deadline_ends_a_call_with_one_cancel() -> None:
    async with opened() as (client, peer):
        with pytest.raises(TimeoutError) as caught:
            await client.tools.call("slow", timeout=2)
        assert caught.value.sent
        assert caught.value.may_have_run is True
        assert now() == pytest.approx(2, abs=0.1)
        cancel = await peer.expect("notifications/cancelled")
        assert cancel["params"]["requestId"] == peer.got("tools/call")[0]["id"]
        peer.respond(peer.got("tools/call")[0]["id"], text_result("late"))
        await client.ping()
        assert len(peer.got("notifications/cancelled")) == 1


@on_fake_clock
async def test_progress_extends_the_soft_deadline_but_not_past_the_hard_one() -> None:
    async with opened() as (client, peer):
        reports: list[float] = []
        call = asyncio.ensure_future(
            client.tools.call(
                "slow", timeout=2, max_timeout=5, on_progress=lambda progress: reports.append(progress.progress)
            )
        )
        message = await peer.expect("tools/call")
        token = message["params"]["_meta"]["progressToken"]
        for step in range(4):
            await asyncio.sleep(1.5)
            if not call.done():
                peer.notify("notifications/progress", progressToken=token, progress=step)
        with pytest.raises(TimeoutError):
            await call
        assert reports == [0, 1, 2]
        assert now() == pytest.approx(6, abs=0.1)


@on_fake_clock
async def test_a_call_without_deadlines_waits() -> None:
    async with opened() as (client, peer):
        call = asyncio.ensure_future(client.tools.call("slow", timeout=None, max_timeout=None))
        message = await peer.expect("tools/call")
        await asyncio.sleep(10_000)
        peer.respond(message["id"], text_result("at last"))
        assert (await call).text == "at last"


@on_fake_clock
async def test_the_last_progress_reaches_its_handler_after_the_response() -> None:
    async with opened() as (client, peer):
        own: list[Any] = []
        all_reports: list[Any] = []

        def call(params: dict[str, Any]) -> dict[str, Any]:
            token = params["_meta"]["progressToken"]
            for step in (1, 2, 3):
                peer.notify("notifications/progress", progressToken=token, progress=step, total=3)
            return text_result("done")

        peer.on["tools/call"] = call
        client.on_progress(all_reports.append)

        async def note(progress: ProgressNotificationParams) -> None:
            own.append(progress.progress)

        await client.tools.call("quick", on_progress=note)
        await asyncio.sleep(0.001)
        assert own == [3], "only the newest progress of a call is queued"
        assert [progress.total for progress in all_reports] == [3]
        await client.tools.call("quick")
        await asyncio.sleep(0.001)
        assert len(all_reports) == 2, "a global handler makes every call request progress"


@on_fake_clock
async def test_progress_of_unknown_and_cancelled_calls_is_dropped() -> None:
    async with opened() as (client, peer):
        reports: list[Any] = []
        call = client.submit("tools/call", {"name": "x"}, on_progress=reports.append)
        await peer.expect("tools/call")
        peer.notify("notifications/progress", progressToken="theirs", progress=1)
        peer.notify("notifications/progress", progressToken=999, progress=1)
        peer.notify("notifications/progress", progressToken=call.id, progress=1)
        await peer.until(lambda: True)
        await client.ping()
        assert len(reports) == 1
        peer.notify("notifications/progress", progressToken=call.id, progress=2)
        call.cancel()
        await client.ping()
        assert len(reports) == 1


# --- submit -----------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_an_invalid_request_is_refused_and_leaves_nothing_pending() -> None:
    wrong: Any = ["Rome"]
    nothing: Any = None
    async with opened() as (client, _):
        for method in ("", nothing, 5):
            with pytest.raises(UsageError, match="method must be a non-empty str"):
                client.submit(method)
        with pytest.raises(UsageError, match="params must be a mapping such as"):
            client.submit("vendor/thing", wrong)
        assert client._requests.connection.open_calls() == []


@on_fake_clock
async def test_submit_returns_the_id_first_and_the_result_as_plain_json() -> None:
    async with opened() as (client, peer):
        call = client.submit("tools/call", {"name": "x", "arguments": {}})
        message = await peer.expect("tools/call")
        assert message["id"] == call.id
        peer.respond(call.id, {"content": [], "extra": 1})
        assert await call == {"content": [], "extra": 1}
        unknown = client.submit("vendor/thing")
        message = await peer.expect("vendor/thing")
        peer.respond_error(message["id"], -32601)
        with pytest.raises(JsonRpcError):
            await unknown


@on_fake_clock
async def test_a_result_of_submit_that_is_not_an_object_is_refused() -> None:
    async with opened() as (client, peer):
        for result in (b"[]", b'"text"', b"1", b'{"a":' + b"9" * 5000 + b"}"):
            call = client.submit("vendor/thing")
            message = await peer.expect("vendor/thing")
            peer.send(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (message["id"], result))
            with pytest.raises(ProtocolError) as caught:
                await call
            assert caught.value.may_have_run is True


@on_fake_clock
async def test_cancelling_a_submitted_call_or_its_awaiter_notifies_the_server_once() -> None:
    async with opened() as (client, peer):
        call = client.submit("tools/call", {"name": "x"})
        await peer.expect("tools/call")
        assert call.cancel()
        await peer.expect("notifications/cancelled")
        second = client.submit("tools/call", {"name": "y"})

        async def wait() -> None:
            await second

        waiting = asyncio.ensure_future(wait())
        await peer.expect("tools/call", 2)
        waiting.cancel()
        await peer.expect("notifications/cancelled", 2)
        ids = [message["params"]["requestId"] for message in peer.got("notifications/cancelled")]
        assert ids == [call.id, second.id]


@on_fake_clock
async def test_submit_checks_the_capabilities() -> None:
    async with opened(server_capabilities={"resources": {"subscribe": False}}) as (client, _):
        with pytest.raises(CapabilityError):
            client.submit("tools/list")
        with pytest.raises(CapabilityError):
            client.submit("resources/subscribe", {"uri": "file:///a"})


# --- rounds and traces ------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_input_requests_are_answered_in_the_next_round() -> None:
    async with peered(STATELESS) as (client, peer):
        client.roots.set(["file:///a"])
        await client.open()
        required = {"inputRequests": {"r": {"method": "roots/list"}}, "requestState": "s"}
        rounds = iter([{"resultType": "input_required", **required}, text_result("done")])
        peer.on["tools/call"] = lambda params: next(rounds)
        assert (await client.tools.call("x")).text == "done"
        params = peer.got("tools/call")[1]["params"]
        assert params["requestState"] == "s"
        assert params["inputResponses"] == {"r": {"roots": [{"uri": "file:///a"}]}}
        peer.on["tools/call"] = {"resultType": "input_required", "requestState": "forever"}
        with pytest.raises(ProtocolError, match="more than 8 times"):
            await client.tools.call("x")
        assert len(peer.got("tools/call")) == 2 + 9
        task = {"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z"}
        more = {"lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": None}
        peer.on["tools/call"] = {"resultType": "task", **task, **more}
        with pytest.raises(ProtocolError):
            await client.tools.call("x")


class Span:
    def __init__(self, name: str) -> None:
        self.name = name
        self.meta = {"traceparent": "00-1"}
        self.ends: list[tuple[int, str]] = []

    def end(self, request_id: int, error: BaseException | None) -> None:
        self.ends.append((request_id, type(error).__name__))


@on_fake_clock
async def test_every_request_has_a_span_that_ends_once() -> None:
    async with opened() as (client, peer):
        spans: list[Span] = []

        def begin(method: str, subject: str) -> Span:
            spans.append(Span(f"{method} {subject}"))
            return spans[-1]

        client.trace_with(begin)
        peer.on["tools/call"] = text_result("")
        await client.tools.call("x", meta={"a": "traceparent"})
        await client.ping(meta={"traceparent": "own"})
        cancelled = client.submit("vendor/thing")
        await peer.expect("vendor/thing")
        cancelled.cancel()
        await peer.expect("notifications/cancelled")
        assert [span.name for span in spans] == ["tools/call x", "ping ", "vendor/thing "]
        assert [end for span in spans for _, end in span.ends] == ["NoneType", "NoneType", "CancelledError"]
        assert peer.got("tools/call")[0]["params"]["_meta"] == {"traceparent": "00-1", "a": "traceparent"}
        assert peer.got("ping")[0]["params"]["_meta"] == {"traceparent": "own"}
        assert client.server_capabilities.tools is not None


@on_fake_clock
async def test_a_timeout_of_wait_until_ready_sent_nothing() -> None:
    async with peered() as (client, peer):
        peer.on["server/discover"] = peer.on["initialize"] = lambda params: None
        await client.open(wait=False)
        with pytest.raises(StateError):
            await client.ping(wait_for_ready=False)
        with pytest.raises(TimeoutError) as caught:
            await client.ping(timeout=1)
        assert not caught.value.sent


# --- cancelling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_a_cancelled_task_notifies_the_server_once(version: str) -> None:
    async with opened(version) as (client, peer):
        task = asyncio.ensure_future(client.tools.call("slow"))
        message = await peer.expect("tools/call")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancel = await peer.expect("notifications/cancelled")
        assert cancel["params"]["requestId"] == message["id"]
        peer.respond(message["id"], text_result("late"))
        await client.ping()
        assert len(peer.got("notifications/cancelled")) == 1


@on_fake_clock
async def test_a_call_in_the_send_queue_is_withdrawn_without_a_notification() -> None:
    async with opened() as (client, peer):
        peer.pair.client.stall()
        task = asyncio.ensure_future(client.tools.call("slow"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        late = asyncio.ensure_future(client.tools.call("slow", timeout=1))
        with pytest.raises(TimeoutError) as caught:
            await late
        assert not caught.value.sent
        peer.pair.client.resume()
        await client.ping()
        assert peer.got("tools/call") == peer.got("notifications/cancelled") == []


@on_fake_clock
async def test_a_response_after_the_cancellation_is_counted_and_ignored() -> None:
    async with opened() as (client, peer):
        events: list[str] = []
        client.on_event(lambda name, fields: events.append(name))
        call = client.submit("tools/call", {"name": "x"})
        message = await peer.expect("tools/call")
        call.cancel()
        await peer.expect("notifications/cancelled")
        peer.respond(message["id"], text_result("crossing"))
        await client.ping()
        assert events.count("jackstay.response.late") == 1


# --- waiting and losing -----------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_call_fails_before_open_and_waits_while_disconnected_unless_disabled() -> None:
    """docs/guarantees.md G5."""
    async with peered() as (client, peer):
        peer.on["tools/call"] = text_result("hi")
        with pytest.raises(StateError, match="not open"):
            await client.tools.call("x")
        await client.open(wait=False)
        with pytest.raises(StateError) as caught:
            await client.tools.call("x", wait_for_ready=False)
        assert caught.value.retryable
        assert (await client.tools.call("x")).text == "hi"
        peer.crash()
        await peer.until(lambda: client.state == "backoff")
        with pytest.raises(StateError) as caught:
            await client.tools.call("x", wait_for_ready=False)
        assert caught.value.retry_in is not None
        assert (await client.tools.call("x")).text == "hi"
        assert len(peer.got("tools/call")) == 2


@on_fake_clock
async def test_waiting_calls_keep_their_order_and_have_deadlines() -> None:
    async with peered(wait_for_ready=True, max_queued=3) as (client, peer):
        await client.open(wait=False)
        calls = [client.submit("tools/call", {"name": name}) for name in "abc"]
        with pytest.raises(BackpressureError):
            await client.tools.call("d")
        await peer.expect("tools/call", 3)
        assert [message["params"]["name"] for message in peer.got("tools/call")] == ["a", "b", "c"]
        for call in calls:
            call.cancel()
        peer.reopens = False
        peer.crash()
        await peer.until(lambda: client.state == "backoff")
        with pytest.raises(TimeoutError) as caught:
            await client.tools.call("e", timeout=3)
        assert not caught.value.sent


@on_fake_clock
async def test_a_written_call_that_is_lost_may_have_run_and_one_in_the_queue_did_not() -> None:
    async with opened() as (client, peer):
        written = client.submit("tools/call", {"name": "a"})
        await peer.expect("tools/call")
        peer.pair.client.stall()
        queued = client.submit("tools/call", {"name": "b"}, wait_for_ready=False)
        peer.crash(TransportError("cut", exit_code=3, stderr_tail="last line\n"))
        with pytest.raises(OutcomeUnknownError) as lost:
            await written
        assert (lost.value.exit_code, lost.value.stderr_tail) == (3, "last line\n")
        with pytest.raises(TransportError) as unsent:
            await queued
        assert unsent.value.may_have_run is False
        peer.pair.client.resume()


@on_fake_clock
async def test_safe_methods_are_replayed_only_if_enabled_per_client_or_call() -> None:
    for options, replayed in (({}, False), ({"replay": "safe"}, True), ({"replay": "never"}, False)):
        for settings in ({}, {"replay": "safe"}):
            async with opened(**settings) as (client, peer):
                events: list[tuple[str, Any]] = []
                client.on_event(lambda name, fields, events=events: events.append((name, fields)))
                call = asyncio.ensure_future(client.resources.read("file:///a", **options))
                await peer.expect("resources/read")
                peer.on["resources/read"] = {"contents": []}
                peer.crash()
                if replayed or (not options and settings):
                    await call
                    assert len(peer.got("resources/read")) == 2
                    names = [name for name, fields in events if fields.get("method") == "resources/read"]
                    assert names == ["jackstay.request.start", "jackstay.request.stop"], "one call, reported once"
                else:
                    with pytest.raises(OutcomeUnknownError):
                        await call
                    await client.ready(60)
                    assert len(peer.got("resources/read")) == 1
    async with opened(replay="safe") as (client, peer):
        unknown = client.submit("vendor/thing")
        await peer.expect("vendor/thing")
        peer.crash()
        with pytest.raises(OutcomeUnknownError):
            await unknown


@on_fake_clock
async def test_capabilities_are_those_of_the_newest_connection() -> None:
    async with opened(server_capabilities={"tools": {}}, wait_for_ready=True) as (client, peer):
        peer.on["prompts/list"] = {"prompts": []}
        with pytest.raises(CapabilityError):
            await client.prompts.list()
        peer.capabilities = {"prompts": {}}
        peer.crash()
        await peer.until(lambda: peer.connections == 2)
        await client.ready()
        await client.prompts.list()
        with pytest.raises(CapabilityError):
            await client.tools.list()


@on_fake_clock
async def test_too_many_open_calls_are_refused_or_wait() -> None:
    async with opened(max_pending=2) as (client, peer):
        first = [client.submit("tools/call", {"name": "x"}) for _ in range(2)]
        with pytest.raises(BackpressureError, match="max_pending is 2"):
            await client.tools.call("y")
        waiting = asyncio.ensure_future(client.tools.call("z", busy="wait"))
        await peer.expect("tools/call", 2)
        for call in first:
            peer.respond(call.id, text_result(""))
            await call
        message = await peer.expect("tools/call", 3)
        peer.respond(message["id"], text_result("z"))
        assert (await waiting).text == "z"


@on_fake_clock
async def test_every_stateless_request_carries_client_info_and_the_meta_of_the_caller() -> None:
    async with opened(STATELESS) as (client, peer):
        peer.on["tools/call"] = text_result("")
        await client.tools.call("x", meta={"tenant": "a"})
        meta = peer.got("tools/call")[0]["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == STATELESS
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "jackstay"
        assert meta["tenant"] == "a"


@on_fake_clock
async def test_wait_until_ready_waits_or_raises_the_reason() -> None:
    requests = Requests(ClientRequestHandlers())
    with pytest.raises(StateError, match="not open"):
        requests.deadline({})
    async with peered(max_attempts=1) as (client, _):
        await client.open(wait=False)
        assert await client.ping(wait_for_ready=True) == "ping"
        await client.stop()
        with pytest.raises(ClosedError):
            await client.ping()


@on_fake_clock
async def test_wait_until_ready_propagates_a_jackstay_timeout_unchanged() -> None:
    async with peered() as (client, _):
        await client.open(wait=False)
        connection = client._requests.connection
        reason = TimeoutError(1, sent=False)

        async def ready(timeout: float | None) -> None:
            raise reason

        connection.ready = ready  # type: ignore[method-assign]
        with pytest.raises(TimeoutError) as caught:
            await client.ping(wait_for_ready=True)
        assert caught.value is reason


# --- calls that are never awaited -------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_failed_call_that_is_never_awaited_is_reported_by_telemetry_and_not_by_asyncio(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "jackstay.client")
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    ends: list[Any] = []
    async with opened() as (client, peer):
        client.on_event(lambda name, fields: ends.append((name, fields)))
        peer.on["tools/call"] = None
        client.submit("tools/call", {"name": "x"}, timeout=1)
        call = client.submit("tools/call", {"name": "y"}, timeout=1)
        await asyncio.sleep(2)
        gc.collect()
        assert reported == []
        with pytest.raises(TimeoutError):
            await call  # late, and it still raises
        del call
        gc.collect()
    failures = [fields["reason"] for name, fields in ends if name == "jackstay.request.exception"]
    assert [type(reason) for reason in failures] == [TimeoutError, TimeoutError]
    assert caplog.text.count("open> failed: ") + caplog.text.count("done> failed: ") == 2
    assert reported == []
