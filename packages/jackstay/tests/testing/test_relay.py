"""The relay: frames are forwarded unchanged, with backpressure, and none is lost when a side ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jackstay.errors import OutcomeUnknownError, TransportError, UsageError
from jackstay.protocol.wire import decode
from jackstay.testing import RelayResult, memory_pair, on_fake_clock, pass_through
from jackstay.testing._recording import MAX_RECORDED_FRAME
from jackstay.testing._relay import DRAIN_TIMEOUT, FIRST, FLUSH, IdMap, finishes_within
from jackstay.transport import MemoryTransport
from scripted.cassettes import Caller, error, notification, request, result

META = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class HttpLike:
    """An in-memory upstream that behaves like HTTP: it accepts only messages, and requests fail independently."""

    is_http = True
    name = "web"
    init_timeout = None

    def __init__(self, pair: Any) -> None:
        self.pair = pair
        self.aborted: list[int] = []
        self.handler: Any = None

    async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Any:
        self.handler = handler
        outer = self

        class Exchanging(MemoryTransport):
            def send(self, frame: bytes, number: int) -> bool:
                if not frame.startswith(b"{"):
                    raise UsageError("not a JSON-RPC message")
                return super().send(frame, number)

            def abort(self, id: int) -> None:
                outer.aborted.append(id)

            def renew(self, handler: Any) -> None:
                raise AssertionError("never")

        transport = Exchanging(self.pair.client, handler, max_frame_bytes)
        if self.pair.server.unpaired:
            transport.pair_with(self.pair.server.unpaired.popleft())
        self.pair.client.transports.append(transport)
        return transport


class Harness:
    """A client, a server, and a relay between them."""

    def __init__(self, *, is_http: bool) -> None:
        self.front, self.back = memory_pair("front"), memory_pair("back")
        self.client, self.server = Caller(), Caller()
        self.web = HttpLike(self.back) if is_http else None
        self.running: asyncio.Future[RelayResult]

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Harness"]:
        self.server.transport = await self.back.server.open(self.server, MAX_RECORDED_FRAME, 1.0)
        self.client.transport = await self.front.client.open(self.client, MAX_RECORDED_FRAME, 1.0)
        self.running = asyncio.ensure_future(pass_through(self.front.server, self.web or self.back.client))
        await asyncio.sleep(0)
        yield self
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        await self.client.disconnect()
        await self.server.disconnect()
        assert [*self.front.server.transports, *self.back.client.transports] == [], "both were closed"


def harness(*, is_http: bool = False) -> Any:
    return Harness(is_http=is_http).open()


def ended(relay: Harness) -> bool:
    return bool(relay.client.ends)


@on_fake_clock
async def test_every_frame_is_forwarded_unchanged() -> None:
    async with harness() as relay:
        frames = [
            b'{"jsonrpc":"2.0", "id":0,"method":"a"}',
            b"garbage \xff",
            b'{"jsonrpc":"2.0","id":"x","method":"b"}',
        ]
        for frame in frames:
            relay.client.send_message(frame)
        await relay.server.until(lambda: len(relay.server.frames) == 3)
        assert relay.server.frames == frames
        for frame in frames:
            relay.server.send_message(frame)
        await relay.client.until(lambda: len(relay.client.frames) == 3)
        assert relay.client.frames == frames


@pytest.mark.parametrize("slow", ["client", "server"])
@on_fake_clock
async def test_a_slow_side_slows_the_other_and_nothing_is_lost(slow: str) -> None:
    async with harness() as relay:
        reader, writer = (relay.client, relay.server) if slow == "client" else (relay.server, relay.client)
        reader.pulls = False
        count, frame = 0, b"x" * 1_000_000
        while writer.transport.send(b"%d" % count + frame, count + 1):
            count += 1
            await asyncio.sleep(0)
            assert count < 100, "no backpressure"
        reader.pulls = True
        reader.pull()
        await reader.until(lambda: len(reader.frames) == count)
        assert all(frame.startswith(b"%dx" % n) for n, frame in enumerate(reader.frames))


@on_fake_clock
async def test_the_last_messages_of_a_crashed_server_are_delivered_first() -> None:
    async with harness() as relay:
        relay.client.pulls = False
        frames = [b"%d" % n + b"x" * 50_000 for n in range(5)]
        for frame in frames:
            relay.server.send_message(frame)
        await relay.server.transport.flush()
        relay.back.cut(TransportError("died", exit_code=3))
        await asyncio.sleep(0)
        relay.client.pulls = True
        relay.client.pull()
        passed = await relay.running
        assert (str(passed.error), passed.was_silent) == ("died [exit code 3]", False)
        await relay.client.until(lambda: ended(relay))
        assert relay.client.frames == frames
        assert asyncio.get_running_loop().time() < 0.1


@on_fake_clock
async def test_was_silent_is_true_for_a_server_that_sent_nothing() -> None:
    async with harness() as relay:
        relay.back.cut(TransportError("no such file"))
        assert (await relay.running).was_silent


@on_fake_clock
async def test_a_client_that_disconnects_still_gets_responses_for_a_moment() -> None:
    """`jackstay record x -- server < requests > responses`: the client still reads after the end of its input."""
    async with harness() as relay:
        relay.client.send_message(request(1))
        relay.client.send_message(request(2, "subscriptions/listen"))
        await relay.server.until(lambda: len(relay.server.frames) == 2)
        front = relay.front.server.transports[0]
        front._handler.went_down(TransportError("the client closed stdin"), None, False)
        await asyncio.sleep(DRAIN_TIMEOUT / 2)
        relay.server.send_message(notification("notifications/progress"))
        await asyncio.sleep(DRAIN_TIMEOUT * 0.9)
        relay.server.send_message(result(1, {}))
        assert await relay.running == RelayResult()
        assert relay.client.received == [notification("notifications/progress"), result(1, {})]
        assert asyncio.get_running_loop().time() == pytest.approx(DRAIN_TIMEOUT * 1.4), "not for subscriptions"


@on_fake_clock
async def test_a_server_that_does_not_respond_is_not_waited_for() -> None:
    async with harness() as relay:
        relay.client.send_message(request(1))
        await relay.server.until(lambda: relay.server.frames)
        await relay.client.disconnect()
        assert await relay.running == RelayResult()
        assert asyncio.get_running_loop().time() <= DRAIN_TIMEOUT + FLUSH


@on_fake_clock
async def test_a_client_that_does_not_read_cannot_delay_the_end() -> None:
    async with harness() as relay:
        relay.client.pulls = False
        relay.front.server.stall()
        for n in range(12):
            relay.server.send_message(b"%d" % n + b"x" * 1_000_000)
            await asyncio.sleep(0)
        relay.back.cut()
        assert (await relay.running).error is not None
        assert asyncio.get_running_loop().time() <= DRAIN_TIMEOUT + FLUSH + 0.01


@on_fake_clock
async def test_a_frame_over_the_limit_is_logged_and_dropped(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jackstay.testing._relay.MAX_RECORDED_FRAME", 1000)
    async with harness() as relay:
        relay.server.send_message(b"x" * 1001)
        relay.server.send_message(b"next")
        await relay.client.until(lambda: relay.client.frames)
        assert relay.client.frames == [b"next"]
    assert "dropped a message: a frame of at least 1001 bytes" in caplog.text


@on_fake_clock
async def test_a_failed_open_leaves_nothing_open() -> None:
    class Refusing:
        name, is_http, init_timeout = "x", False, None

        async def open(self, *arguments: Any) -> Any:
            raise TransportError("no", permanent=True)

    pair = memory_pair()
    with pytest.raises(TransportError, match="no"):
        await pass_through(Refusing(), pair.client)
    assert pair.client.transports == []


# --- over HTTP --------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_over_http_ids_are_mapped_and_restored(caplog: pytest.LogCaptureFixture) -> None:
    async with harness(is_http=True) as relay:
        relay.client.send_message(b"garbage")
        relay.client.send_message(request(0))
        relay.client.send_message(request(3))
        await relay.server.until(lambda: len(relay.server.frames) == 2)
        assert [message["id"] for message in relay.server.received] == [FIRST, 3]
        relay.server.send_message(request("q", "roots/list"))
        relay.server.send_message(result(FIRST, {}))
        relay.server.send_message(error(3, -1))
        relay.server.send_message(result(FIRST, "twice"))
        assert await relay.client.exchange(count=4) == [
            request("q", "roots/list"),
            result(0, {}),
            error(3, -1),
            result(FIRST, "twice"),
        ]
        relay.client.send_message(result("q", {}))
        await relay.server.until(lambda: len(relay.server.frames) == 3)
        assert relay.server.received[-1] == result("q", {})
    assert "dropped a message: not a JSON-RPC message" in caplog.text


@on_fake_clock
async def test_a_request_that_is_lost_over_http_gets_an_error_response() -> None:
    async with harness(is_http=True) as relay:
        for id in (0, 1):
            relay.client.send_message(request(id))
        await relay.server.until(lambda: len(relay.server.frames) == 2)
        relay.web.handler.exchange_lost(FIRST, OutcomeUnknownError("cut"), False)
        relay.web.handler.exchange_lost(1, TransportError("HTTP 404"), True)
        unknown, declined = await relay.client.exchange(count=2)
        assert (unknown["id"], unknown["error"]["code"]) == (0, -32603)
        assert unknown["error"]["data"] == {"mayHaveRun": True}
        assert "cut; it may have run" in unknown["error"]["message"]
        assert (declined["id"], declined["error"]["code"]) == (1, -32601), "so that a client falls back to initialize"
        assert declined["error"]["data"] == {"mayHaveRun": False}


@pytest.mark.parametrize("id", [0, 7])
@on_fake_clock
async def test_a_session_that_is_lost_over_http_ends_the_relay(id: int) -> None:
    async with harness(is_http=True) as relay:
        relay.client.send_message(request(7))
        await relay.server.until(lambda: relay.server.frames)
        relay.web.handler.session_lost(id)
        passed = await relay.running
        assert "dropped the session" in str(passed.error)
        assert [message["id"] for message in relay.client.received] == ([7] if id else [])


@on_fake_clock
async def test_a_stateless_call_over_http_is_cancelled_by_closing_its_response() -> None:
    async with harness(is_http=True) as relay:
        relay.client.send_message(request("a", "tools/call", META))
        relay.client.send_message(request(5, "tools/call", {}))
        for params in ({"requestId": "a"}, {"requestId": 5}, {"requestId": "a"}, {}):
            relay.client.send_message(notification("notifications/cancelled", **params))
        relay.client.send_message(notification("notifications/other"))
        await relay.server.until(lambda: len(relay.server.frames) == 6)
        methods = [message["method"] for message in relay.server.received]
        assert methods == [
            "tools/call",
            "tools/call",
            *["notifications/cancelled"] * 3,
            "notifications/other",
        ]
        assert relay.web.aborted == [FIRST]


@on_fake_clock
async def test_header_params_are_read_from_the_forwarded_tool_list() -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    async with harness(is_http=True) as relay:
        relay.client.send_message(request(1, "tools/list"))
        relay.client.send_message(request(2, "tools/list"))
        await relay.server.until(lambda: len(relay.server.frames) == 2)
        relay.server.send_message(result(1, {"tools": [{"name": "t", "inputSchema": schema}, {"name": "u"}, "odd"]}))
        relay.server.send_message(result(2, {"tools": "odd"}))
        await relay.client.exchange(count=2)
        (row,) = relay.web.handler.header_params("t")
        assert row.header == "Mcp-Param-Region"
        assert list(relay.web.handler.header_params("unknown")) == []


@on_fake_clock
async def test_a_wait_ends_with_the_work_or_the_limit() -> None:
    loop = asyncio.get_running_loop()
    assert await finishes_within(1, asyncio.sleep(0.5))
    assert loop.time() == 0.5
    assert not await finishes_within(1, asyncio.Event().wait())
    assert loop.time() == 1.5


# --- request ids ------------------------------------------------------------------------------------------------------


def out(id_map: IdMap, message: Any) -> Any:
    frame = json.dumps(message).encode()
    return json.loads(id_map.to_server(decode(frame), frame))


def back(id_map: IdMap, message: Any) -> Any:
    frame = json.dumps(message).encode()
    return json.loads(id_map.to_client(decode(frame), frame))


@pytest.mark.parametrize("id", [0, "a", "1"])
def test_an_id_that_http_does_not_accept_is_mapped_and_restored(id: Any) -> None:
    id_map = IdMap()
    sent = request(id, "tools/call", name="a")
    assert out(id_map, sent) == {**sent, "id": FIRST}
    assert out(id_map, {"jsonrpc": "2.0", "id": "b", "method": "ping"})["id"] == FIRST + 1
    assert (id_map.given(id), id_map.own(FIRST), id_map.own("x")) == (FIRST, id, "x")
    assert back(id_map, result(FIRST, {"x": 1})) == result(id, {"x": 1})
    assert back(id_map, error(FIRST, -1, data=2)) == error(id, -1, data=2)
    cancelled = notification("notifications/cancelled", requestId=id, reason="r")
    assert out(id_map, cancelled)["params"] == {"requestId": FIRST, "reason": "r"}
    id_map.forget(id)
    id_map.forget(id)
    assert back(id_map, result(FIRST, {})) == result(FIRST, {})


def test_an_id_that_http_accepts_is_unchanged_unless_it_is_in_use() -> None:
    id_map = IdMap()
    for message in (request(1), request(-1), notification("x"), result("q", {}), [request(1)]):
        frame = json.dumps(message).encode()
        assert id_map.to_server(decode(frame), frame) is frame
    out(id_map, request(0))
    assert out(id_map, request(FIRST))["id"] == FIRST + 1
    for message in (
        result(5, {}),
        error(5, 1),
        error(None, 1),
        notification("x"),
        {"jsonrpc": "2.0", "method": "y"},
    ):
        frame = json.dumps(message).encode()
        assert id_map.to_client(decode(frame), frame) is frame
    for params in ({"requestId": 5}, {"requestId": None}, {}, [1]):
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert out(id_map, cancelled) == cancelled


def test_a_subscription_is_named_by_the_clients_own_id() -> None:
    id_map = IdMap()
    out(id_map, request("s", "subscriptions/listen"))

    def changed(id: Any) -> dict[str, Any]:
        return notification("notifications/tools/list_changed", _meta={SUBSCRIPTION: id})

    assert back(id_map, changed(FIRST)) == changed("s")
    assert back(id_map, result(FIRST, {"_meta": {SUBSCRIPTION: FIRST}})) == result("s", {"_meta": {SUBSCRIPTION: "s"}})
    for other in (changed(5), changed("x"), notification("x", text=SUBSCRIPTION)):
        assert back(id_map, other) == other


def test_a_frame_that_cannot_be_decoded_is_unchanged() -> None:
    id_map = IdMap()
    out(id_map, request(0))
    frame = b'{"jsonrpc":"2.0","method":"x","params":{"%b":%b}}' % (SUBSCRIPTION.encode(), b"9" * 5000)
    assert id_map.to_client(decode(frame), frame) is frame
