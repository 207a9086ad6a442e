"""A recording answers: in its order, with the ids and tokens of now, as slowly as it is read, and to the end that it had."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import FrameTooLargeError, JsonRpcError, OutcomeUnknownError, TransportError, UsageError
from jackstay.testing import (
    Recorder,
    Refusal,
    ScriptedPeer,
    memory_pair,
    on_fake_clock,
    recorded,
    replayed,
    serve_recording,
)
from jackstay.testing._replayer import DRAIN_SECONDS
from jackstay.types import CreateMessageResult, TextContent
from scripted.tapes import (
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


# --- what is said -----------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_an_answer_has_the_id_and_the_token_of_now_and_all_else_as_it_was(tmp_path: Path) -> None:
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
    caller.say(call("mine", token="t"))
    await caller.until(lambda: len(caller.frames) == 4)
    assert caller.frames[1] == b"Debugger attached."
    del caller.frames[1]
    assert caller.heard == [
        progress("t", 1),
        LOG,
        result("mine", {"n": 12345678901234567890123, "unknown": [None]}),
    ]
    caller.frames.clear()
    assert await caller.hear(call(0, x=1)) == [error(0, -32000, "no", data={"why": None})]
    await caller.leave()


@on_fake_clock
async def test_nobody_who_did_not_ask_hears_of_progress(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1, token=5)), server(progress(5, 1)), server(result(1, {})))
    caller = await Caller.of(path)
    caller.say(call(1))
    assert await caller.quiet() == [result(1, {})]
    await caller.leave()


@on_fake_clock
async def test_a_question_of_the_servers_is_asked_and_its_answer_waited_for(tmp_path: Path) -> None:
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
    for _ in range(2):  # two at once would have the same ids, were they not new
        caller.say(call(1))
        roots, ping = await caller.hear(count=2)
        assert (roots["method"], ping["method"]) == ("roots/list", "ping")
        caller.say(error(roots["id"], -1, "in another order than recorded"))
        assert await caller.quiet() == []
        caller.say(result(ping["id"], {}))
        assert await caller.hear(count=2) == [LOG, result(1, {})]
        caller.say(result(ping["id"], "twice"))
        caller.say(result("nobody's", {}))
    await caller.leave()


@on_fake_clock
async def test_a_question_is_taken_back_by_the_id_that_it_has_now(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1)),
        server(request("q", "roots/list")),
        server(notification("notifications/cancelled", requestId="q", reason="late")),
        server(result(1, {})),
    )
    caller = await Caller.of(path)
    asked, taken_back, _ = await caller.hear(call(1), count=3)
    assert taken_back["params"] == {"requestId": asked["id"], "reason": "late"}
    await caller.leave()


@on_fake_clock
async def test_a_subscription_is_named_by_the_id_that_it_has_now(tmp_path: Path) -> None:
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
    heard = await caller.hear(request("s", "subscriptions/listen"), count=2)
    assert heard == [changed("s"), result("s", {"_meta": {SUBSCRIPTION: "s"}, "k": 1})]
    assert await caller.hear(request(7, "other")) == [result(7, {"text": SUBSCRIPTION})]
    await caller.leave()


@on_fake_clock
async def test_what_a_call_told_a_subscription_is_told_to_the_one_that_is_open_now(tmp_path: Path) -> None:
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
    assert await caller.hear(call(1)) == [result(1, {})], "nobody listens"
    caller.say(request("first", "subscriptions/listen", {"a": 1}))
    assert await caller.hear(call(1), count=2) == [changed("first"), result(1, {})]
    caller.say(request("second", "subscriptions/listen", {"a": 2}))
    assert await caller.hear(call(1), count=2) == [changed("second"), result(1, {})]
    await caller.leave()


@on_fake_clock
async def test_a_change_is_told_once_however_often_its_answer_is_given(tmp_path: Path) -> None:
    """A client that lists anew because of it would otherwise be told for ever."""
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
    caller.say(call(1))
    assert await caller.quiet() == [changed, LOG, result(1, {}), LOG]
    caller.say(call(2))
    assert await caller.quiet() == [LOG, result(2, {})]
    await caller.leave()


@on_fake_clock
async def test_notifications_lead_to_what_they_led_to_and_unknown_ones_to_nothing(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        server(LOG),
        client(notification("notifications/initialized")),
        server(request(1, "roots/list")),
    )
    caller = await Caller.of(path)
    assert await caller.quiet() == [LOG], "it spoke first"
    caller.say(notification("notifications/unheard/of"))
    caller.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert [message["method"] for message in await caller.quiet()] == ["roots/list"]
    await caller.leave()


# --- what is refused --------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_what_was_never_recorded_is_refused_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "x", client(call(1, city="Rome")), server(result(1, {})))
    caller = await Caller.of(path)
    with caplog.at_level(logging.WARNING, "jackstay.testing"):
        (refused,) = await caller.hear(call(1, city="Roma"))
    assert refused["error"]["code"] == -32602
    said = 'line 2: params.arguments.city was "Rome" and is "Roma"'
    assert said in refused["error"]["message"]
    assert refused["error"]["data"]["differences"][0]["path"] == "params.arguments.city"
    assert said in caplog.text
    assert await caller.hear(request(2, "ping")) == [result(2, {})], "clients ask at any time"
    (refused,) = await caller.hear(request(2, "tools/list"))
    assert refused["error"]["code"] == -32601
    await caller.leave()


@on_fake_clock
async def test_a_ping_that_was_recorded_is_played(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(request(1, "ping")), server(error(1, -32000)))
    caller = await Caller.of(path)
    assert await caller.hear(request(2, "ping")) == [error(2, -32000)]
    await caller.leave()


@on_fake_clock
async def test_a_second_request_with_an_open_id_is_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1)),
        server(request(1, "roots/list")),
        client(result(1, {})),
        server(result(1, {})),
    )
    caller = await Caller.of(path)
    asked, refused = await caller.hear(call(5), call(5), count=2)
    assert refused == error(5, -32600, "a request with this id is in flight")
    assert await caller.hear(result(asked["id"], {})) == [result(5, {})]
    asked, *_ = await caller.hear(call(5))
    assert asked["method"] == "roots/list", "and may be used again when it was answered"
    await caller.leave()


@on_fake_clock
async def test_what_is_no_message_is_answered_as_the_protocol_says(tmp_path: Path) -> None:
    caller = await Caller.of(write(tmp_path / "x", client(call(1)), server(result(1, {}))))
    heard = await caller.hear(b"nonsense", b'{"jsonrpc":"2.0","id":4,"method":1}', b"[]", count=3)
    assert [(each.get("id"), each["error"]["code"]) for each in heard] == [
        (None, -32700),
        (4, -32600),
        (None, -32600),
    ]
    caller.say(b'{"jsonrpc":"2.0","id":4,"result":1,"error":2}')
    assert await caller.quiet() == []
    assert await caller.hear([call(1), call(2)], count=2) == [result(1, {}), result(2, {})], "one by one"
    await caller.leave()


def test_a_speed_that_is_none_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x")
    for speed in (0, -1, float("inf"), float("nan"), True, "fast"):
        with pytest.raises(UsageError, match="speed must be a number above 0"):
            replayed(path, speed=speed)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(UsageError, match="there is no recording"):
        replayed(tmp_path / "gone")


# --- ends and silences ------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_call_without_an_answer_stays_open_until_it_is_given_up(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1, token=1)),
        server(progress(1, 1)),
        client(notification("notifications/cancelled", requestId=1)),
    )
    caller = await Caller.of(path)
    caller.say(call(1, token=2))
    assert await caller.quiet() == [progress(2, 1)]
    caller.say(notification("notifications/cancelled", requestId=1))
    caller.say(notification("notifications/cancelled", requestId="never"))
    assert await caller.quiet() == []
    assert await caller.hear(call(1, token=3)) == [progress(3, 1)], "the id is free again"
    await caller.leave()


@on_fake_clock
async def test_a_call_that_is_given_up_in_the_middle_is_played_no_further(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1), at=0),
        server(LOG, at=1),
        server(request(7, "roots/list"), at=2),
        client(result(7, {}), at=3),
        server(result(1, {}), at=4),
    )
    caller = await Caller.of(path, speed=1)
    assert await caller.hear(call(1)) == [LOG]
    caller.say(notification("notifications/cancelled", requestId=1))
    await asyncio.sleep(100)
    assert caller.heard == []
    await caller.hear(call(1))
    (asked,) = await caller.hear()
    caller.say(notification("notifications/cancelled", requestId=1))
    caller.say(result(asked["id"], {}))
    await asyncio.sleep(100)
    assert caller.heard == []
    await caller.leave()


@on_fake_clock
async def test_a_server_that_died_dies_again_after_its_last_words(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1)),
        server(LOG),
        event("server", ended="the server x exited", exit=3),
        {**client(call(1)), "connection": 2},
        {**server(result(1, {"second": True})), "connection": 2},
    )
    target = replayed(path)
    owner = Recorder()
    owner.transport = await target.open(owner, 1 << 20, 1.0)
    owner.transport.send(json.dumps(call(1)).encode(), 1)
    owner.transport.send(json.dumps(call(2)).encode(), 2)
    await owner.until(lambda: owner.ends)
    assert [json.loads(frame) for frame in owner.frames if isinstance(frame, bytes)] == [LOG]
    ((ended, _, _),) = owner.ends
    assert isinstance(ended, TransportError)
    assert str(ended) == "the server x exited (as it was recorded) [exit code 3]"
    await owner.transport.close()
    again = Recorder()
    again.transport = await target.open(again, 1 << 20, 1.0)
    again.transport.send(json.dumps(call(9)).encode(), 1)
    await again.until(lambda: again.frames)
    assert again.frames == [b'{"jsonrpc":"2.0","id":9,"result":{"second": true}}'], "its second life"
    await again.transport.close()
    assert repr(target).startswith(f"<ReplayedTarget <Repertoire {path}: 2 scripts, 2 played>")


@on_fake_clock
async def test_a_recording_that_stops_before_an_answer_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1)))
    caller = await Caller.of(path)
    (refused,) = await caller.hear(call(1))
    assert refused["error"]["message"] == (
        "tools/call was recorded (line 2), but the recording ends before its answer"
    )
    await caller.leave()


@on_fake_clock
async def test_a_message_over_the_clients_limit_is_told_to_it_as_by_any_server(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1)), server(result(1, "x" * 5000)))
    owner = Recorder()
    owner.transport = await replayed(path).open(owner, 1000, 1.0)
    owner.transport.send(json.dumps(call(1)).encode(), 1)
    await owner.until(lambda: owner.frames)
    assert isinstance(owner.frames[0], FrameTooLargeError)
    await owner.transport.close()


# --- time and room ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("speed", "times"), [(None, [0, 0, 0]), (1, [1, 4, 9]), (2, [0.5, 2, 4.5])])
def test_delays_are_kept_where_that_is_asked_for(
    speed: float | None, times: list[float], tmp_path: Path
) -> None:
    path = write(
        tmp_path / "x",
        client(call(1), at=10),
        server(LOG, at=11),
        server(LOG, at=14),
        server(LOG, at=13),
        server(result(1, {}), at=18),
    )

    @on_fake_clock
    async def talk() -> None:
        clock = asyncio.get_running_loop()
        caller = await Caller.of(path, speed)
        caller.say(call(1))
        seen = []
        for count in (1, 1, 2):
            await caller.hear(count=count)
            seen.append(clock.time())
        assert seen == times
        await caller.leave()

    talk()


@on_fake_clock
async def test_a_client_that_does_not_read_is_waited_for_and_misses_nothing(tmp_path: Path) -> None:
    """Two calls whose answers are far more than the connection holds, and more calls behind them."""
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
        caller.say(call(id))
    caller.say(notification("notifications/cancelled", requestId=2))
    assert await caller.quiet() == [], "not pulled"
    caller.pulls = True
    caller.pull()
    await caller.until(lambda: len(caller.frames) >= 303)
    heard = [message.get("id", message.get("params", {}).get("n")) for message in caller.heard]
    assert len(heard) == 303, "what was not read could not be cancelled, either"
    assert heard[:101] == [*range(100), 1]
    assert heard[-1] == 3
    await caller.leave()


@on_fake_clock
async def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1), at=0), server(LOG, at=50), server(result(1, {}), at=100))
    caller = await Caller.of(path, speed=1)
    caller.say(call(1))
    await caller.quiet()
    await caller.leave()


@on_fake_clock
async def test_an_end_waits_for_what_is_still_to_be_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        client(call(1)),
        *[server(notification("notifications/message", data="x" * 1_000_000)) for _ in range(10)],
        event("server", ended="exited"),
    )
    caller = Caller()
    caller.pulls = False
    caller.transport = await replayed(path).open(caller, 1 << 24, 1.0)
    caller.say(call(1))
    assert await caller.quiet() == []
    assert caller.ends == []
    caller.pulls = True
    caller.pull()
    await caller.until(lambda: caller.ends)
    assert len(caller.frames) == 10
    await caller.leave()


# --- to whoever is at the other end -----------------------------------------------------------------------------------


@on_fake_clock
async def test_a_recording_is_served_until_the_client_leaves(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1), at=0), server(result(1, {}), at=0.5))
    pair = memory_pair()
    serving = asyncio.ensure_future(serve_recording(path, pair.server, speed=1))
    async with asyncio.timeout(10):
        caller = Caller()
        caller.transport = await pair.client.open(caller, 1 << 20, 1.0)
        assert await caller.hear(call(3)) == [result(3, {})]
        caller.say(call(4))
        await caller.quiet()
        await caller.leave()
        assert await serving is None
    assert asyncio.get_running_loop().time() <= 1 + DRAIN_SECONDS


@on_fake_clock
async def test_serving_ends_with_the_recorded_end_or_when_it_is_cancelled(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client(call(1)), event("server", ended="exited", exit=-9))
    pair = memory_pair()
    serving = asyncio.ensure_future(serve_recording(path, pair.server))
    caller = Caller()
    caller.transport = await pair.client.open(caller, 1 << 20, 1.0)
    caller.say(call(3))
    assert str(await serving) == "exited (as it was recorded) [signal 9]"
    assert caller.transport.next_frame() is None
    await caller.leave()
    serving = asyncio.ensure_future(serve_recording(path, pair.server))
    await asyncio.sleep(1)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert pair.server.transports == []


@on_fake_clock
async def test_a_client_that_never_reads_does_not_keep_serving_from_its_end(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x", client(call(1)), server(result(1, "x" * 10_000_000)), event("server", ended="exited")
    )
    pair = memory_pair()
    pair.server.stall()
    serving = asyncio.ensure_future(serve_recording(path, pair.server))
    caller = Caller()
    caller.transport = await pair.client.open(caller, 1 << 24, 1.0)
    for id in range(3):
        caller.say(call(id))
    await caller.quiet()
    await caller.leave()
    assert await serving is None
    assert asyncio.get_running_loop().time() <= 2 * DRAIN_SECONDS


@on_fake_clock
async def test_a_frame_over_every_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackstay.testing._replayer.LARGEST_FRAME", 1000)
    caller = await Caller.of(write(tmp_path / "x"))
    (refused,) = await caller.hear(call(1, x="x" * 2000))
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    await caller.leave()


# --- with a real client -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "2024-11-05"])
def test_a_client_finds_in_the_recording_what_it_found_in_the_server(version: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"

    async def use(target: Any) -> list[Any]:
        found: list[Any] = []
        client = connect(target, versions=(version,), backoff_min=0.01)

        @client.sampling.handle
        async def sample(params: Any) -> CreateMessageResult:
            return CreateMessageResult(role="assistant", content=TextContent(text="42"), model="m")

        client.on_notification(lambda one: found.append(one.method))
        async with client:
            found.append(client.server_info)
            found.append((await client.tools.call("fine", {"x": 1})).text)
            for name in ("refused", "deadly", "fine"):
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

            def answer(params: Any) -> Any:
                if params["name"] == "refused":
                    raise Refusal(-32099, "no")
                if params["name"] == "deadly":
                    peer.die(TransportError("died", exit_code=1))
                    return None
                peer.notify("notifications/message", level="info", data=params["arguments"])
                return {"content": [{"type": "text", "text": str(params["arguments"]["x"])}]}

            peer.on["tools/call"] = answer
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
