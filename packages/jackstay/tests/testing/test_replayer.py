"""Replay: recorded messages with current ids and tokens, backpressure, delays and the recorded end."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import FrameTooLargeError, JsonRpcError, OutcomeUnknownError, TransportError, UsageError
from jackstay.testing import (
    RecordingHandler,
    ScriptedError,
    ScriptedPeer,
    memory_pair,
    on_fake_clock,
    recorded,
    replayed,
    serve_recording,
)
from jackstay.testing._replayer import DRAIN_SECONDS
from jackstay.types import CreateMessageResult, TextContent
from scripted.cassettes import (
    Caller,
    client,
    error,
    event,
    messages,
    notification,
    request,
    result,
    server,
    write,
)

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LOG = notification("notifications/message", level="info", data="x")


def call(id: Any, token: Any = None, **arguments: Any) -> dict[str, Any]:
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return request(id, "tools/call", {"name": "a", "arguments": arguments, **meta})


def progress(token: Any, value: int) -> dict[str, Any]:
    return notification("notifications/progress", progressToken=token, progress=value)


# --- messages ---------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_response_has_the_current_id_and_token_and_is_otherwise_unchanged(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1, token=5)),
        server(progress(5, 1)),
        event("server", text="Debugger attached."),
        server(LOG),
        server(result(1, {"n": 12345678901234567890123, "unknown": [None]})),
        client(call(2, x=1)),
        server(error(2, -32000, "no", data={"why": None})),
    )
    caller = await Caller.of(path)
    caller.send_message(call("other", token="t"))
    await caller.until(lambda: len(caller.frames) == 4)
    assert caller.frames[1] == b"Debugger attached."
    del caller.frames[1]
    assert caller.received == [
        progress("t", 1),
        LOG,
        result("other", {"n": 12345678901234567890123, "unknown": [None]}),
    ]
    caller.frames.clear()
    assert await caller.exchange(call(0, x=1)) == [error(0, -32000, "no", data={"why": None})]
    await caller.disconnect()


@on_fake_clock
async def test_progress_is_not_sent_unless_requested(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1, token=5)), server(progress(5, 1)), server(result(1, {})))
    caller = await Caller.of(path)
    caller.send_message(call(1))
    assert await caller.settle() == [result(1, {})]
    await caller.disconnect()


@on_fake_clock
async def test_a_request_of_the_server_is_sent_and_its_response_awaited(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1)),
        server(request("q", "roots/list")),
        server(request("r", "ping")),
        client(result("r", {})),
        server(LOG),
        client(result("q", {"roots": []})),
        server(result(1, {})),
    )
    caller = await Caller.of(path)
    for _ in range(2):  # each time with new ids
        caller.send_message(call(1))
        roots, ping = await caller.exchange(count=2)
        assert (roots["method"], ping["method"]) == ("roots/list", "ping")
        caller.send_message(error(roots["id"], -1, "in another order than recorded"))
        assert await caller.settle() == []
        caller.send_message(result(ping["id"], {}))
        assert await caller.exchange(count=2) == [LOG, result(1, {})]
        caller.send_message(result(ping["id"], "twice"))
        caller.send_message(result("unknown", {}))
    await caller.disconnect()


@on_fake_clock
async def test_a_request_of_the_server_is_cancelled_by_its_current_id(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1)),
        server(request("q", "roots/list")),
        server(notification("notifications/cancelled", requestId="q", reason="late")),
        server(result(1, {})),
    )
    caller = await Caller.of(path)
    sent, cancelled, _ = await caller.exchange(call(1), count=3)
    assert cancelled["params"] == {"requestId": sent["id"], "reason": "late"}
    await caller.disconnect()


@on_fake_clock
async def test_a_subscription_is_named_by_its_current_id(tmp_path: Path) -> None:
    def changed(id: Any) -> dict[str, Any]:
        return notification("notifications/tools/list_changed", _meta={SUBSCRIPTION: id, "x": 1})

    path = write(
        tmp_path / "x",
        client(request(1, "subscriptions/listen")),
        server(changed(1)),
        server(result(1, {"_meta": {SUBSCRIPTION: 1}, "k": 1})),
        client(request(2, "other")),
        server(result(2, {"text": SUBSCRIPTION})),
    )
    caller = await Caller.of(path)
    received = await caller.exchange(request("s", "subscriptions/listen"), count=2)
    assert received == [changed("s"), result("s", {"_meta": {SUBSCRIPTION: "s"}, "k": 1})]
    assert await caller.exchange(request(7, "other")) == [result(7, {"text": SUBSCRIPTION})]
    await caller.disconnect()


@on_fake_clock
async def test_a_notification_of_a_subscription_is_sent_to_an_open_one(tmp_path: Path) -> None:
    def changed(id: Any) -> dict[str, Any]:
        return notification("notifications/x", _meta={SUBSCRIPTION: id})

    path = write(
        tmp_path / "x",
        client(request(1, "subscriptions/listen", {"a": 1})),
        client(request(2, "subscriptions/listen", {"a": 2})),
        client(call(3)),
        server(changed(2)),
        server(result(3, {})),
        event("client", ended="closed"),
    )
    caller = await Caller.of(path)
    assert await caller.exchange(call(1)) == [result(1, {})], "no subscription is open"
    caller.send_message(request("first", "subscriptions/listen", {"a": 1}))
    assert await caller.exchange(call(1), count=2) == [changed("first"), result(1, {})]
    caller.send_message(request("second", "subscriptions/listen", {"a": 2}))
    assert await caller.exchange(call(1), count=2) == [changed("second"), result(1, {})]
    await caller.disconnect()


@on_fake_clock
async def test_a_change_notification_is_not_repeated(tmp_path: Path) -> None:
    """A client lists again after each change notification, so repeating it would cause an endless loop."""
    changed = notification("notifications/tools/list_changed")
    path = write(
        tmp_path / "x",
        client(call(1)),
        server(changed),
        server(LOG),
        server(result(1, {})),
        server(LOG),
    )
    caller = await Caller.of(path)
    caller.send_message(call(1))
    assert await caller.settle() == [changed, LOG, result(1, {}), LOG]
    caller.send_message(call(2))
    assert await caller.settle() == [LOG, result(2, {})]
    await caller.disconnect()


@on_fake_clock
async def test_notifications_are_matched_and_unknown_ones_ignored(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        server(LOG),
        client(notification("notifications/initialized")),
        server(request(1, "roots/list")),
    )
    caller = await Caller.of(path)
    assert await caller.settle() == [LOG], "sent first"
    caller.send_message(notification("notifications/unknown"))
    caller.send_message({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert [message["method"] for message in await caller.settle()] == ["roots/list"]
    await caller.disconnect()


# --- errors -----------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_an_unrecorded_request_gets_an_error_that_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "x", client(call(1, city="Rome")), server(result(1, {})))
    caller = await Caller.of(path)
    with caplog.at_level(logging.WARNING, "jackstay.testing"):
        (refused,) = await caller.exchange(call(1, city="Roma"))
    assert refused["error"]["code"] == -32602
    difference = 'line 2: params.arguments.city was "Rome", got "Roma"'
    assert difference in refused["error"]["message"]
    assert refused["error"]["data"]["differences"][0]["path"] == "params.arguments.city"
    assert difference in caplog.text
    assert await caller.exchange(request(2, "ping")) == [result(2, {})], "clients may ping at any time"
    (refused,) = await caller.exchange(request(2, "tools/list"))
    assert refused["error"]["code"] == -32601
    await caller.disconnect()


@on_fake_clock
async def test_a_ping_that_was_recorded_is_played(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(request(1, "ping")), server(error(1, -32000)))
    caller = await Caller.of(path)
    assert await caller.exchange(request(2, "ping")) == [error(2, -32000)]
    await caller.disconnect()


@on_fake_clock
async def test_a_second_request_with_an_open_id_is_rejected(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1)),
        server(request(1, "roots/list")),
        client(result(1, {})),
        server(result(1, {})),
    )
    caller = await Caller.of(path)
    sent, refused = await caller.exchange(call(5), call(5), count=2)
    assert refused == error(5, -32600, "a request with this id is in flight")
    assert await caller.exchange(result(sent["id"], {})) == [result(5, {})]
    sent, *_ = await caller.exchange(call(5))
    assert sent["method"] == "roots/list", "the id is free after the response"
    await caller.disconnect()


@on_fake_clock
async def test_invalid_messages_get_error_responses(tmp_path: Path) -> None:
    caller = await Caller.of(write(tmp_path / "x", client(call(1)), server(result(1, {}))))
    received = await caller.exchange(b"nonsense", b'{"jsonrpc":"2.0","id":4,"method":1}', b"[]", count=3)
    assert [(message.get("id"), message["error"]["code"]) for message in received] == [
        (None, -32700),
        (4, -32600),
        (None, -32600),
    ]
    caller.send_message(b'{"jsonrpc":"2.0","id":4,"result":1,"error":2}')
    assert await caller.settle() == []
    assert await caller.exchange([call(1), call(2)], count=2) == [result(1, {}), result(2, {})], "one by one"
    await caller.disconnect()


def test_an_invalid_speed_is_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "x")
    for speed in (0, -1, float("inf"), float("nan"), True, "fast"):
        with pytest.raises(UsageError, match="speed must be a number above 0"):
            replayed(path, speed=speed)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(UsageError, match="no such recording"):
        replayed(tmp_path / "gone")


# --- the end of a connection ------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_call_without_a_response_stays_open_until_it_is_cancelled(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1, token=1)),
        server(progress(1, 1)),
        client(notification("notifications/cancelled", requestId=1)),
    )
    caller = await Caller.of(path)
    caller.send_message(call(1, token=2))
    assert await caller.settle() == [progress(2, 1)]
    caller.send_message(notification("notifications/cancelled", requestId=1))
    caller.send_message(notification("notifications/cancelled", requestId="never"))
    assert await caller.settle() == []
    assert await caller.exchange(call(1, token=3)) == [progress(3, 1)], "the id is free again"
    await caller.disconnect()


@on_fake_clock
async def test_a_cancelled_call_is_played_no_further(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1), at=0),
        server(LOG, at=1),
        server(request(7, "roots/list"), at=2),
        client(result(7, {}), at=3),
        server(result(1, {}), at=4),
    )
    caller = await Caller.of(path, speed=1)
    assert await caller.exchange(call(1)) == [LOG]
    caller.send_message(notification("notifications/cancelled", requestId=1))
    await asyncio.sleep(100)
    assert caller.received == []
    await caller.exchange(call(1))
    (sent,) = await caller.exchange()
    caller.send_message(notification("notifications/cancelled", requestId=1))
    caller.send_message(result(sent["id"], {}))
    await asyncio.sleep(100)
    assert caller.received == []
    await caller.disconnect()


@on_fake_clock
async def test_a_recorded_crash_is_replayed_after_the_last_messages(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1)),
        server(LOG),
        event("server", ended="the server x exited", exit=3),
        {**client(call(1)), "connection": 2},
        {**server(result(1, {"second": True})), "connection": 2},
    )
    target = replayed(path)
    handler = RecordingHandler()
    handler.transport = await target.open(handler, 1 << 20, 1.0)
    handler.transport.send(json.dumps(call(1)).encode(), 1)
    handler.transport.send(json.dumps(call(2)).encode(), 2)
    await handler.until(lambda: handler.ends)
    assert [json.loads(frame) for frame in handler.frames if isinstance(frame, bytes)] == [LOG]
    ((ended, _, _),) = handler.ends
    assert isinstance(ended, TransportError)
    assert str(ended) == "the server x exited (replayed) [exit code 3]"
    await handler.transport.close()
    again = RecordingHandler()
    again.transport = await target.open(again, 1 << 20, 1.0)
    again.transport.send(json.dumps(call(9)).encode(), 1)
    await again.until(lambda: again.frames)
    assert again.frames == [b'{"jsonrpc":"2.0","id":9,"result":{"second": true}}'], "the second connection"
    await again.transport.close()
    assert repr(target).startswith(f"<ReplayedTarget <Cassette {path}: 2 interactions, 2 played>")


@on_fake_clock
async def test_a_recording_that_ends_before_a_response_gives_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1)))
    caller = await Caller.of(path)
    (refused,) = await caller.exchange(call(1))
    assert refused["error"]["message"] == "the recording ends before the response to tools/call (line 2)"
    await caller.disconnect()


@on_fake_clock
async def test_a_message_over_the_limit_of_the_client_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1)), server(result(1, "x" * 5000)))
    handler = RecordingHandler()
    handler.transport = await replayed(path).open(handler, 1000, 1.0)
    handler.transport.send(json.dumps(call(1)).encode(), 1)
    await handler.until(lambda: handler.frames)
    assert isinstance(handler.frames[0], FrameTooLargeError)
    await handler.transport.close()


# --- delays and backpressure ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("speed", "times"), [(None, [0, 0, 0]), (1, [1, 4, 9]), (2, [0.5, 2, 4.5])])
@on_fake_clock
async def test_speed_keeps_the_recorded_delays(speed: float | None, times: list[float], tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1), at=10),
        server(LOG, at=11),
        server(LOG, at=14),
        server(LOG, at=13),
        server(result(1, {}), at=18),
    )
    clock = asyncio.get_running_loop()
    caller = await Caller.of(path, speed)
    caller.send_message(call(1))
    seen = []
    for count in (1, 1, 2):
        await caller.exchange(count=count)
        seen.append(clock.time())
    assert seen == times
    await caller.disconnect()


@on_fake_clock
async def test_a_client_that_does_not_read_misses_nothing(tmp_path: Path) -> None:
    """Three calls whose responses are larger than the buffers of the connection."""
    path = write(
        tmp_path / "x",
        client(call(1)),
        *[server(notification("notifications/message", n=n, data="x" * 100_000)) for n in range(100)],
        server(result(1, {})),
    )
    caller = Caller()
    caller.pulls = False
    caller.transport = await replayed(path).open(caller, 1 << 24, 1.0)
    for id in (1, 2, 3):
        caller.send_message(call(id))
    caller.send_message(notification("notifications/cancelled", requestId=2))
    assert await caller.settle() == [], "not pulled"
    caller.pulls = True
    caller.pull()
    await caller.until(lambda: len(caller.frames) >= 303)
    received = [message.get("id", message.get("params", {}).get("n")) for message in caller.received]
    assert len(received) == 303, "the cancellation was not read before"
    assert received[:101] == [*range(100), 1]
    assert received[-1] == 3
    await caller.disconnect()


@on_fake_clock
async def test_a_client_that_disconnects_during_a_call_leaves_nothing_behind(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1), at=0), server(LOG, at=50), server(result(1, {}), at=100))
    caller = await Caller.of(path, speed=1)
    caller.send_message(call(1))
    await caller.settle()
    await caller.disconnect()


@on_fake_clock
async def test_a_recorded_end_waits_until_everything_is_sent(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1)),
        *[server(notification("notifications/message", data="x" * 1_000_000)) for _ in range(10)],
        event("server", ended="exited"),
    )
    caller = Caller()
    caller.pulls = False
    caller.transport = await replayed(path).open(caller, 1 << 24, 1.0)
    caller.send_message(call(1))
    assert await caller.settle() == []
    assert caller.ends == []
    caller.pulls = True
    caller.pull()
    await caller.until(lambda: caller.ends)
    assert len(caller.frames) == 10
    await caller.disconnect()


# --- serve_recording --------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_recording_is_served_until_the_client_disconnects(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1), at=0), server(result(1, {}), at=0.5))
    pair = memory_pair()
    serving = asyncio.ensure_future(serve_recording(path, pair.server, speed=1))
    async with asyncio.timeout(10):
        caller = Caller()
        caller.transport = await pair.client.open(caller, 1 << 20, 1.0)
        assert await caller.exchange(call(3)) == [result(3, {})]
        caller.send_message(call(4))
        await caller.settle()
        await caller.disconnect()
        assert await serving is None
    assert asyncio.get_running_loop().time() <= 1 + DRAIN_SECONDS


@on_fake_clock
async def test_serving_ends_with_the_recorded_end_or_when_it_is_cancelled(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1)), event("server", ended="exited", exit=-9))
    pair = memory_pair()
    serving = asyncio.ensure_future(serve_recording(path, pair.server))
    caller = Caller()
    caller.transport = await pair.client.open(caller, 1 << 20, 1.0)
    caller.send_message(call(3))
    assert str(await serving) == "exited (replayed) [signal 9]"
    assert caller.transport.next_frame() is None
    await caller.disconnect()
    serving = asyncio.ensure_future(serve_recording(path, pair.server))
    await asyncio.sleep(1)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert pair.server.transports == []


@on_fake_clock
async def test_a_client_that_never_reads_does_not_delay_the_end(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1)), server(result(1, "x" * 10_000_000)), event("server", ended="exited"))
    pair = memory_pair()
    pair.server.stall()
    serving = asyncio.ensure_future(serve_recording(path, pair.server))
    caller = Caller()
    caller.transport = await pair.client.open(caller, 1 << 24, 1.0)
    for id in range(3):
        caller.send_message(call(id))
    await caller.settle()
    await caller.disconnect()
    assert await serving is None
    assert asyncio.get_running_loop().time() <= 2 * DRAIN_SECONDS


@on_fake_clock
async def test_a_frame_over_the_limit_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackstay.testing._replayer.MAX_FRAME", 1000)
    caller = await Caller.of(write(tmp_path / "x"))
    (refused,) = await caller.exchange(call(1, x="x" * 2000))
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    await caller.disconnect()


# --- with a real client -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "2024-11-05"])
def test_a_client_gets_the_same_results_from_the_recording(version: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"

    async def use(target: Any) -> list[Any]:
        found: list[Any] = []
        client = connect(target, versions=(version,), backoff_min=0.01)

        @client.sampling.handle
        async def sample(params: Any) -> CreateMessageResult:
            return CreateMessageResult(role="assistant", content=TextContent(text="42"), model="m")

        client.on_notification(lambda notification: found.append(notification.method))
        async with client:
            found.append(client.server_info)
            found.append((await client.tools.call("fine", {"x": 1})).text)
            for name in ("reject", "crash", "fine"):
                try:
                    found.append((await client.tools.call(name, {"x": 2})).text)
                except (JsonRpcError, OutcomeUnknownError) as caught:
                    found.append((type(caught), caught.code))
                await client.ready()
            await asyncio.sleep(1)
        return found

    @on_fake_clock
    async def record() -> None:
        async with ScriptedPeer(version) as peer:

            def respond(params: Any) -> Any:
                if params["name"] == "reject":
                    raise ScriptedError(-32099, "no")
                if params["name"] == "crash":
                    peer.crash(TransportError("died", exit_code=1))
                    return None
                peer.notify("notifications/message", level="info", data=params["arguments"])
                return {"content": [{"type": "text", "text": str(params["arguments"]["x"])}]}

            peer.on["tools/call"] = respond
            seen.append(await use(recorded(peer.target, first)))

    @on_fake_clock
    async def replay() -> None:
        seen.append(await use(recorded(replayed(first), second)))

    seen: list[list[Any]] = []
    record()
    replay()
    assert seen[0] == seen[1]
    assert (JsonRpcError, -32099) in seen[0]
    assert (OutcomeUnknownError, None) in seen[0]
    assert messages(first, "client") == messages(second, "client")
    assert messages(first, "server") == messages(second, "server")
