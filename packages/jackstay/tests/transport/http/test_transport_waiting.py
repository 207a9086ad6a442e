"""The HTTP transport with a real client, on a fake clock: queued requests and subscriptions."""

import asyncio
from typing import Any

import pytest

from jackstay.errors import (
    BackpressureError,
    McpError,
    ShutdownError,
    TimeoutError,
    TransportError,
)
from jackstay.testing import on_fake_clock
from scripted.http import HANDSHAKE, STATELESS, Mcp, Reply, Seen
from scripted.http_client import client_of, declining, idle, turns, unreachable

# --- queued requests --------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_requests_are_limited_by_max_connections_and_keep_their_order() -> None:
    gate = asyncio.Event()
    peak = running = 0

    async def call(seen: Seen, reply: Reply) -> None:
        nonlocal peak, running
        running += 1
        peak = max(peak, running)
        await gate.wait()
        running -= 1
        reply.result(seen.id, {"content": []})

    client, server = client_of(Mcp(tools__call=call), max_connections=4)
    async with client:
        calls = [asyncio.ensure_future(client.tools.call("echo", {"n": n})) for n in range(10)]
        await turns()
        assert len(server.received("tools/call")) == 4
        gate.set()
        await asyncio.gather(*calls)
    assert peak == 4
    assert [seen.rpc["params"]["arguments"]["n"] for seen in server.received("tools/call")] == list(range(10))


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
@on_fake_clock
async def test_a_queued_call_is_cancelled_without_a_notification(
    version: str,
) -> None:
    """docs/guarantees.md G11."""
    client, server = client_of(Mcp(version, tools__call=idle), max_connections=1)
    async with client:
        first = asyncio.ensure_future(client.tools.call("echo", {"n": 1}))
        await turns()
        second = asyncio.ensure_future(client.tools.call("echo", {"n": 2}))
        await turns()
        second.cancel()
        await turns()
        assert server.received("notifications/cancelled") == []
        first.cancel()
        await turns()
        assert [seen.rpc["params"]["arguments"]["n"] for seen in server.received("tools/call")] == [1]


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
@pytest.mark.parametrize("how", ["deadline", "stop", "server goes away"])
@on_fake_clock
async def test_queued_calls_are_reported_as_not_sent(how: str, version: str) -> None:
    """2 connections and 5 calls: 3 did not run."""
    script = Mcp(version, tools__call=idle)
    client, server = client_of(script, max_connections=2, wait_for_ready=False)
    async with client:
        calls = [asyncio.ensure_future(client.tools.call("echo", {"n": n}, timeout=5)) for n in range(5)]
        await turns()
        assert len(server.received("tools/call")) == 2
        if how == "stop":
            await client.stop()
        elif how == "server goes away":
            server.script = unreachable
            for reply in server.replies:
                reply.cut()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [getattr(error, "may_have_run", None) for error in outcomes] == [True] * 2 + [False] * 3
        kind = {"deadline": TimeoutError, "stop": ShutdownError, "server goes away": TransportError}[how]
        assert all(type(error) is kind for error in outcomes[2:]), outcomes
    await server.close()


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
@on_fake_clock
async def test_queued_calls_do_not_indicate_a_hung_server(version: str) -> None:
    """The check for a hung server does not wait for a free connection, and queued calls do not start it."""
    gate = asyncio.Event()

    async def slow(seen: Seen, reply: Reply) -> None:
        await gate.wait()
        reply.result(seen.id, {"content": [], "resultType": "complete"})

    client, _ = client_of(Mcp(version, tools__call=slow), max_connections=1, hang_timeout=1.0)
    async with client:
        first = asyncio.ensure_future(client.tools.call("echo", timeout=100))
        await turns()
        second = asyncio.ensure_future(client.tools.call("echo", timeout=5))
        with pytest.raises(TimeoutError) as raised:
            await second
        assert raised.value.may_have_run is False
        await client.ping()
        await asyncio.sleep(5)
        gate.set()
        assert (await first).content == []
        assert client.state == "ready"


@on_fake_clock
async def test_a_withdrawn_call_makes_room_in_a_full_queue() -> None:
    """Both sending and withdrawing a call free a place in the queue."""
    client, server = client_of(Mcp(tools__call=idle), max_connections=1, max_pending=3000)
    async with client:
        calls = [asyncio.ensure_future(client.tools.call("echo", timeout=60)) for _ in range(1025)]
        await turns()
        waiting = asyncio.ensure_future(client.tools.call("echo", {"last": True}, busy="wait", timeout=None))
        await turns()
        for call in calls[1:]:
            call.cancel()
        await turns()
        calls[0].cancel()
        await turns()
        assert [seen.rpc["params"]["arguments"] for seen in server.received("tools/call")] == [
            {},
            {"last": True},
        ]
        waiting.cancel()
        await asyncio.gather(waiting, *calls, return_exceptions=True)


@on_fake_clock
async def test_a_cancelled_call_makes_room_for_the_next() -> None:
    async def first_stalls(seen: Seen, reply: Reply) -> None:
        if seen.rpc["params"]["arguments"]["n"] == 1:
            await reply.gone.wait()
        else:
            reply.result(seen.id, {"content": []})

    client, _ = client_of(Mcp(tools__call=first_stalls), max_connections=1)
    async with client:
        first = asyncio.ensure_future(client.tools.call("echo", {"n": 1}))
        await turns()
        second = asyncio.ensure_future(client.tools.call("echo", {"n": 2}))
        await turns()
        first.cancel()
        assert (await second).content == []


@on_fake_clock
async def test_a_full_queue_is_busy_until_there_is_room() -> None:
    gate = asyncio.Event()

    async def call(seen: Seen, reply: Reply) -> None:
        await gate.wait()
        reply.result(seen.id, {"content": []})

    client, _ = client_of(Mcp(tools__call=call), max_connections=1, max_pending=3000)
    async with client:
        calls = [client.submit("tools/call", {"name": "echo"}, timeout=None) for _ in range(1025)]
        with pytest.raises(BackpressureError, match="transport busy after 3 attempts"):
            await client.tools.call("echo")
        waiting = asyncio.ensure_future(client.tools.call("echo", busy="wait", timeout=None))
        await turns()
        assert not waiting.done()
        gate.set()
        assert (await waiting).content == []
        await asyncio.gather(*(call.future for call in calls))


@on_fake_clock
async def test_responses_to_the_server_and_subscriptions_are_not_queued() -> None:
    """A call may depend on the response to a request of the server."""
    script = Mcp(HANDSHAKE, session="s")
    answered = asyncio.Event()

    async def call(seen: Seen, reply: Reply) -> None:
        reply.sse()
        request_roots = {"method": "roots/list", "jsonrpc": "2.0", "id": "q"}
        reply.event(request_roots)
        await answered.wait()
        reply.event({"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}})
        reply.end()

    async def answer(seen: Seen, reply: Reply) -> None:
        assert seen.rpc["result"]["roots"][0]["uri"] == "file:///a"
        answered.set()
        reply.send(202)

    script.on.update({"tools/call": call, "response": answer})
    client, _ = client_of(script, max_connections=1)
    client.roots.set(["file:///a"])
    async with client:
        assert (await client.tools.call("echo")).content == []


class Listening:
    """A server with subscriptions; `streams` are the open ones, with their times."""

    def __init__(self) -> None:
        self.streams: list[tuple[Seen, Reply]] = []
        self.times: list[float] = []
        self.is_broken = False

    async def __call__(self, seen: Seen, reply: Reply) -> None:
        self.times.append(asyncio.get_running_loop().time())
        if self.is_broken:
            reply.send(503)
            return
        self.streams.append((seen, reply))
        reply.sse()
        self.send("notifications/subscriptions/acknowledged", notifications=seen.rpc["params"]["notifications"])
        await reply.gone.wait()

    def send(self, method: str, **params: Any) -> None:
        seen, reply = self.streams[-1]
        params["_meta"] = {"io.modelcontextprotocol/subscriptionId": seen.id}
        reply.event({"jsonrpc": "2.0", "method": method, "params": params})


@on_fake_clock
async def test_a_subscription_does_not_count_as_a_connection() -> None:
    listening = Listening()
    client, _ = client_of(Mcp(subscriptions__listen=listening), max_connections=1)
    changed: list[str] = []
    async with client:
        await client.resources.subscribe("file:///a", changed.append)
        assert (await client.tools.call("echo")).text == "{}"
        listening.send("notifications/resources/updated", uri="file:///a")
        await turns()
        assert changed == ["file:///a"]
        await client.resources.unsubscribe("file:///a")
        await turns()
        assert listening.streams[0][1].gone.is_set(), (
            "docs/guarantees.md G11: closing the response cancels the subscription"
        )


@on_fake_clock
async def test_a_lost_subscription_is_opened_again_with_a_new_id() -> None:
    """2026-07-28 subscriptions/listen: a dropped stream is opened again with backoff."""
    listening = Listening()
    client, server = client_of(Mcp(subscriptions__listen=listening), backoff_jitter=0.0)
    changed: list[str] = []
    client.on_notification(lambda notice: None)
    async with client:
        await client.resources.subscribe("file:///a", changed.append)
        await turns()
        assert len(listening.streams) == 2, "including the lists"
        began = asyncio.get_running_loop().time()
        for _, reply in list(listening.streams):
            reply.cut()
        await asyncio.sleep(5)
        assert [at - began for at in listening.times[2:]] == [1.0, 1.0]
        assert client.state == "ready"
        listening.send("notifications/resources/updated", uri="file:///a")
        await turns()
        assert changed == ["file:///a"]
        ids = [seen.id for seen in server.received("subscriptions/listen")]
        assert len(set(ids)) == 4
        listening.is_broken = True
        began = asyncio.get_running_loop().time()
        listening.streams[-1][1].end()
        await asyncio.sleep(8)
        assert [at - began for at in listening.times[4:]] == [1.0, 3.0, 7.0]
        listening.is_broken = False
        await asyncio.sleep(10)
        listening.send("notifications/resources/updated", uri="file:///a")
        await turns()
        assert changed == ["file:///a"] * 2
        listening.streams[-1][1].end()
        await turns()
    await asyncio.sleep(60)
    assert len(listening.times) == 8, "it is not opened again"


@on_fake_clock
async def test_a_lost_subscription_that_was_cancelled_stays_closed() -> None:
    listening = Listening()
    client, _ = client_of(Mcp(subscriptions__listen=listening))
    async with client:
        await client.resources.subscribe("file:///a")
        listening.streams[-1][1].cut()
        await turns()
        await client.resources.unsubscribe("file:///a")
        await asyncio.sleep(60)
        assert len(listening.times) == 1


@on_fake_clock
async def test_a_lost_subscription_is_opened_once_after_a_reconnect() -> None:
    listening = Listening()
    script = Mcp(subscriptions__listen=listening)
    client, _ = client_of(script, backoff_min=0.5)
    async with client:
        await client.resources.subscribe("file:///a")
        script.on["tools/call"] = unreachable
        listening.streams[-1][1].cut()
        await turns()
        with pytest.raises(TransportError):
            await client.tools.call("echo")
        assert client.state == "backoff"
        await asyncio.sleep(60)
        assert client.state == "ready"
        assert len(listening.times) == 2


@pytest.mark.parametrize("is_refused", [True, False])
@on_fake_clock
async def test_a_subscription_that_the_server_ended_is_ended(is_refused: bool) -> None:
    ends: list[McpError | None] = []
    listening = Listening()
    script = Mcp(subscriptions__listen=listening)
    client, _ = client_of(script)
    async with client:
        await client.resources.subscribe("file:///a", on_end=ends.append)
        seen, reply = listening.streams[-1]
        if is_refused:
            script.on["subscriptions/listen"] = declining(403)
            reply.cut()
        else:
            meta = {"io.modelcontextprotocol/subscriptionId": seen.id}
            reply.event({"jsonrpc": "2.0", "id": seen.id, "result": {"resultType": "complete", "_meta": meta}})
            reply.end()
        await asyncio.sleep(60)
        assert len(ends) == 1
        assert isinstance(ends[0], TransportError) is is_refused
