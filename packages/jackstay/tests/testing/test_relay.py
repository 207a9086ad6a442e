"""In the middle: every frame passes unchanged, a slow end slows the other, and whoever ends, nothing said is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jackstay.errors import OutcomeUnknownError, TransportError, UsageError
from jackstay.testing import Passed, memory_pair, on_fake_clock, pass_through
from jackstay.testing._numbering import FIRST
from jackstay.testing._recording import MAX_RECORDED_FRAME
from jackstay.testing._relay import FLUSH, PATIENCE
from jackstay.transport import MemoryTransport
from scripted.tapes import Caller, error, notification, request, result

META = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


class HttpLike:
    """The back over something like HTTP, in memory: what is sent must be a message, and requests are lost one by one."""

    is_http = True
    name = "web"
    init_timeout = None

    def __init__(self, pair: Any) -> None:
        self.pair = pair
        self.hung_up: list[int] = []
        self.owner: Any = None

    async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
        self.owner = owner
        outer = self

        class Exchanging(MemoryTransport):
            def send(self, frame: bytes, number: int) -> bool:
                if not frame.startswith(b"{"):
                    raise UsageError("only JSON-RPC messages can be sent over HTTP")
                return super().send(frame, number)

            def hang_up(self, id: int) -> None:
                outer.hung_up.append(id)

            def renew(self, owner: Any) -> None:
                raise AssertionError("never")

        transport = Exchanging(self.pair.client, owner, max_frame_bytes)
        if self.pair.server._lonely:
            transport.meet(self.pair.server._lonely.popleft())
        self.pair.client.transports.append(transport)
        return transport


class Middle:
    """A client, a server, and what passes between them."""

    def __init__(self, *, is_http: bool) -> None:
        self.front, self.back = memory_pair("front"), memory_pair("back")
        self.client, self.server = Caller(), Caller()
        self.web = HttpLike(self.back) if is_http else None
        self.passing: asyncio.Future[Passed]

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Middle"]:
        self.server.transport = await self.back.server.open(self.server, MAX_RECORDED_FRAME, 1.0)
        self.client.transport = await self.front.client.open(self.client, MAX_RECORDED_FRAME, 1.0)
        self.passing = asyncio.ensure_future(pass_through(self.front.server, self.web or self.back.client))
        await asyncio.sleep(0)
        yield self
        self.passing.cancel()
        await asyncio.gather(self.passing, return_exceptions=True)
        await self.client.leave()
        await self.server.leave()
        assert [*self.front.server.transports, *self.back.client.transports] == [], "both were closed"


def middle(*, is_http: bool = False) -> Any:
    return Middle(is_http=is_http).open()


def ended(now: Middle) -> bool:
    return bool(now.client.ends)


@on_fake_clock
async def test_every_frame_passes_as_it_is() -> None:
    async with middle() as now:
        said = [
            b'{"jsonrpc":"2.0", "id":0,"method":"a"}',
            b"rubbish \xff",
            b'{"jsonrpc":"2.0","id":"x","method":"b"}',
        ]
        for frame in said:
            now.client.say(frame)
        await now.server.until(lambda: len(now.server.frames) == 3)
        assert now.server.frames == said
        for frame in said:
            now.server.say(frame)
        await now.client.until(lambda: len(now.client.frames) == 3)
        assert now.client.frames == said


@pytest.mark.parametrize("slow", ["client", "server"])
def test_a_slow_end_slows_the_other_and_nothing_is_lost(slow: str) -> None:
    @on_fake_clock
    async def test() -> None:
        async with middle() as now:
            reader, writer = (now.client, now.server) if slow == "client" else (now.server, now.client)
            reader.pulls = False
            count, frame = 0, b"x" * 1_000_000
            while writer.transport.send(b"%d" % count + frame, count + 1):
                count += 1
                await asyncio.sleep(0)
                assert count < 100, "somebody takes without end"
            reader.pulls = True
            reader.pull()
            await reader.until(lambda: len(reader.frames) == count)
            assert all(frame.startswith(b"%dx" % n) for n, frame in enumerate(reader.frames))

    test()


@on_fake_clock
async def test_when_the_server_dies_its_last_words_come_first() -> None:
    async with middle() as now:
        now.client.pulls = False
        frames = [b"%d" % n + b"x" * 50_000 for n in range(5)]
        for frame in frames:
            now.server.say(frame)
        await now.server.transport.flush()
        now.back.cut(TransportError("died", exit_code=3))
        await asyncio.sleep(0)
        now.client.pulls = True
        now.client.pull()
        passed = await now.passing
        assert (str(passed.error), passed.was_silent) == ("died [exit code 3]", False)
        await now.client.until(lambda: ended(now))
        assert now.client.frames == frames
        assert asyncio.get_running_loop().time() < 0.1


@on_fake_clock
async def test_a_server_that_never_said_a_word_is_told_from_one_that_did() -> None:
    async with middle() as now:
        now.back.cut(TransportError("no such file"))
        assert (await now.passing).was_silent


@on_fake_clock
async def test_a_client_that_leaves_is_answered_for_a_moment() -> None:
    """`jackstay record x -- server < requests > answers`: the end of its input is not the end of its interest."""
    async with middle() as now:
        now.client.say(request(1))
        now.client.say(request(2, "subscriptions/listen"))
        await now.server.until(lambda: len(now.server.frames) == 2)
        front = now.front.server.transports[0]
        front._owner.went_down(TransportError("the client closed our stdin"), None, False)
        await asyncio.sleep(PATIENCE / 2)
        now.server.say(notification("notifications/progress"))
        await asyncio.sleep(PATIENCE * 0.9)
        now.server.say(result(1, {}))
        assert await now.passing == Passed()
        assert now.client.heard == [notification("notifications/progress"), result(1, {})]
        assert asyncio.get_running_loop().time() == pytest.approx(PATIENCE * 1.4), (
            "a subscription is not waited for"
        )


@on_fake_clock
async def test_a_server_that_does_not_answer_is_not_waited_for_longer() -> None:
    async with middle() as now:
        now.client.say(request(1))
        await now.server.until(lambda: now.server.frames)
        await now.client.leave()
        assert await now.passing == Passed()
        assert asyncio.get_running_loop().time() <= PATIENCE + FLUSH


@on_fake_clock
async def test_a_client_that_does_not_read_cannot_hold_the_end_up() -> None:
    async with middle() as now:
        now.client.pulls = False
        now.front.server.stall()
        for n in range(12):
            now.server.say(b"%d" % n + b"x" * 1_000_000)
            await asyncio.sleep(0)
        now.back.cut()
        assert (await now.passing).error is not None
        assert asyncio.get_running_loop().time() <= PATIENCE + FLUSH + 0.01


@on_fake_clock
async def test_what_is_over_every_limit_is_told_and_the_rest_passes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jackstay.testing._relay.MAX_RECORDED_FRAME", 1000)
    async with middle() as now:
        now.server.say(b"x" * 1001)
        now.server.say(b"next")
        await now.client.until(lambda: now.client.frames)
        assert now.client.frames == [b"next"]
    assert "a message is lost: a frame of at least 1001 bytes" in caplog.text


@on_fake_clock
async def test_what_cannot_be_opened_leaves_nothing_open() -> None:
    class Refusing:
        name, is_http, init_timeout = "x", False, None

        async def open(self, *how: Any) -> Any:
            raise TransportError("no", permanent=True)

    pair = memory_pair()
    with pytest.raises(TransportError, match="no"):
        await pass_through(Refusing(), pair.client)
    assert pair.client.transports == []


# --- over HTTP --------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_over_http_ids_are_numbers_and_come_back_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    async with middle(is_http=True) as now:
        now.client.say(b"rubbish")
        now.client.say(request(0))
        now.client.say(request(3))
        await now.server.until(lambda: len(now.server.frames) == 2)
        assert [message["id"] for message in now.server.heard] == [FIRST, 3]
        now.server.say(request("q", "roots/list"))
        now.server.say(result(FIRST, {}))
        now.server.say(error(3, -1))
        now.server.say(result(FIRST, "twice"))
        assert await now.client.hear(count=4) == [
            request("q", "roots/list"),
            result(0, {}),
            error(3, -1),
            result(FIRST, "twice"),
        ]
        now.client.say(result("q", {}))
        await now.server.until(lambda: len(now.server.frames) == 3)
        assert now.server.heard[-1] == result("q", {})
    assert "a message is lost: only JSON-RPC messages" in caplog.text


@on_fake_clock
async def test_a_request_that_is_lost_over_http_is_answered_with_an_error() -> None:
    async with middle(is_http=True) as now:
        for id in (0, 1):
            now.client.say(request(id))
        await now.server.until(lambda: len(now.server.frames) == 2)
        now.web.owner.exchange_lost(FIRST, OutcomeUnknownError("cut"), False)
        now.web.owner.exchange_lost(1, TransportError("HTTP 404"), True)
        unknown, declined = await now.client.hear(count=2)
        assert (unknown["id"], unknown["error"]["code"]) == (0, -32603)
        assert unknown["error"]["data"] == {"mayHaveRun": True}
        assert "cut; it may have run" in unknown["error"]["message"]
        assert (declined["id"], declined["error"]["code"]) == (1, -32601), (
            "so that a client tries `initialize`"
        )
        assert declined["error"]["data"] == {"mayHaveRun": False}


@pytest.mark.parametrize("id", [0, 7])
def test_a_session_that_is_lost_over_http_is_the_end(id: int) -> None:
    @on_fake_clock
    async def test() -> None:
        async with middle(is_http=True) as now:
            now.client.say(request(7))
            await now.server.until(lambda: now.server.frames)
            now.web.owner.session_lost(id)
            passed = await now.passing
            assert "forgot the session" in str(passed.error)
            assert [message["id"] for message in now.client.heard] == ([7] if id else [])

    test()


@on_fake_clock
async def test_a_stateless_call_over_http_is_cancelled_by_closing_its_response() -> None:
    async with middle(is_http=True) as now:
        now.client.say(request("a", "tools/call", META))
        now.client.say(request(5, "tools/call", {}))
        for params in ({"requestId": "a"}, {"requestId": 5}, {"requestId": "a"}, {}):
            now.client.say(notification("notifications/cancelled", **params))
        now.client.say(notification("notifications/other"))
        await now.server.until(lambda: len(now.server.frames) == 6)
        methods = [message["method"] for message in now.server.heard]
        assert methods == [
            "tools/call",
            "tools/call",
            *["notifications/cancelled"] * 3,
            "notifications/other",
        ]
        assert now.web.hung_up == [FIRST]


@on_fake_clock
async def test_arguments_that_travel_in_headers_are_learnt_from_the_list_that_passes() -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    async with middle(is_http=True) as now:
        now.client.say(request(1, "tools/list"))
        now.client.say(request(2, "tools/list"))
        await now.server.until(lambda: len(now.server.frames) == 2)
        now.server.say(result(1, {"tools": [{"name": "t", "inputSchema": schema}, {"name": "u"}, "odd"]}))
        now.server.say(result(2, {"tools": "odd"}))
        await now.client.hear(count=2)
        (row,) = now.web.owner.marked_arguments("t")
        assert row.header == "Mcp-Param-Region"
        assert list(now.web.owner.marked_arguments("unknown")) == []
