"""The HTTP transport with a real client, on a fake clock: sessions."""

import asyncio

import pytest

from jackstay.errors import (
    McpError,
    ProtocolError,
    SessionLostError,
    ShutdownError,
    TimeoutError,
    TransportError,
)
from jackstay.testing import on_fake_clock
from scripted.http import HANDSHAKE, Mcp, Reply, Seen
from scripted.http_client import client_of, declining, idle, turns

# --- sessions ---------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_lost_session_is_renewed_and_the_request_sent_again() -> None:
    """docs/guarantees.md G4: the first call after a redeploy succeeds."""
    script = Mcp(HANDSHAKE, session="s")
    client, server = client_of(script)
    async with client:
        await client.ping()
        started = asyncio.get_running_loop().time()
        script.sessions.clear()
        script.session = "t"
        assert (await client.tools.call("echo", {"n": 1})).text == '{"n": 1}'
        assert asyncio.get_running_loop().time() == started
        assert [seen.headers["mcp-session-id"] for seen in server.received("tools/call")] == ["s1", "t1"]
        assert len(server.received("initialize")) == 2
        assert "mcp-session-id" not in server.received("initialize")[1].headers
    assert [seen.headers["mcp-session-id"] for seen in server.received("DELETE")] == ["t1"]


@on_fake_clock
async def test_many_rejected_requests_lead_to_one_new_session() -> None:
    """docs/guarantees.md G4, G10: sessions are opened one at a time; a late 404 belongs to the old session."""
    late = asyncio.Event()
    script = Mcp(HANDSHAKE, session="s")

    async def call(seen: Seen, reply: Reply) -> None:
        is_late = seen.rpc["params"]["arguments"].get("late")
        if seen.headers["mcp-session-id"] == "s1":
            if is_late:
                await late.wait()
            reply.send(404)
        else:
            reply.result(seen.id, {"content": []})

    script.on["tools/call"] = call
    client, server = client_of(script)
    async with client:
        calls = [asyncio.ensure_future(client.tools.call("echo", {"n": n})) for n in range(5)]
        calls.append(asyncio.ensure_future(client.tools.call("echo", {"late": True})))
        await turns(100)
        assert len(server.received("initialize")) == 2
        assert [call.done() for call in calls] == [True] * 5 + [False]
        assert (await client.tools.call("echo", {"n": 6})).content == []
        late.set()
        assert [(await call).content for call in calls] == [[]] * 6
        assert len(server.received("initialize")) == 2
        assert client.state == "ready"


@on_fake_clock
async def test_a_request_that_is_always_rejected_fails_after_its_attempts() -> None:
    """docs/guarantees.md G4. New sessions are opened with backoff."""

    async def forget(seen: Seen, reply: Reply) -> None:
        reply.send(404)

    client, server = client_of(Mcp(HANDSHAKE, session="s", tools__call=forget), session_attempts=4)
    async with client:
        started = asyncio.get_running_loop().time()
        with pytest.raises(SessionLostError) as raised:
            await client.tools.call("echo")
        assert raised.value.may_have_run is False
        assert len(server.received("tools/call")) == 4
        assert asyncio.get_running_loop().time() - started >= 0.8 + 1.6, "at once, then 1 s, then 2 s, less the jitter"
        assert client.state == "backoff"
        assert len(server.received("initialize")) == 4
        await client.ready()


@on_fake_clock
async def test_a_request_that_is_always_rejected_fails_at_its_deadline() -> None:
    async def forget(seen: Seen, reply: Reply) -> None:
        reply.send(404)

    client, _ = client_of(Mcp(HANDSHAKE, session="s", tools__call=forget))
    async with client:
        with pytest.raises(SessionLostError, match="HTTP 404") as raised:
            await client.tools.call("echo", timeout=5)
        assert raised.value.may_have_run is False


@on_fake_clock
async def test_open_requests_survive_two_lost_sessions() -> None:
    """docs/guarantees.md G3, G4: a 404 never closes the HTTP client and does not affect other open POSTs."""
    script = Mcp(HANDSHAKE, session="s")
    gate = asyncio.Event()

    async def call(seen: Seen, reply: Reply) -> None:
        if seen.rpc["params"]["arguments"].get("slow"):
            await gate.wait()
            reply.result(seen.id, {"content": []})
        else:
            reply.send(404)

    script.on["tools/call"] = call
    client, server = client_of(script)
    async with client:
        slow = asyncio.ensure_future(client.tools.call("echo", {"slow": True}))
        await turns()
        refused = asyncio.ensure_future(client.tools.call("echo", {}, timeout=20))
        while client.state != "backoff":
            await asyncio.sleep(0)
        gate.set()
        assert (await slow).content == []
        assert client.state == "backoff"
        with pytest.raises(SessionLostError):
            await refused
        assert not server.is_closed


@on_fake_clock
async def test_an_open_response_of_the_old_session_is_delivered() -> None:
    """Responses of open POSTs are delivered in the next session."""
    script = Mcp(HANDSHAKE, session="s")
    gate = asyncio.Event()

    async def slow(seen: Seen, reply: Reply) -> None:
        reply.sse()
        await gate.wait()
        reply.event({"jsonrpc": "2.0", "id": seen.id, "result": {"tools": []}})
        reply.end()

    script.on["tools/list"] = slow
    client, server = client_of(script)
    async with client:
        listing = asyncio.ensure_future(client.tools.list())
        await turns()
        script.sessions.clear()
        script.session = "t"
        await client.tools.call("echo")
        gate.set()
        assert await listing == []
        assert len(server.received("tools/list")) == 1


@on_fake_clock
async def test_a_404_without_a_session_or_about_a_method_is_not_a_lost_session() -> None:
    async def unknown(seen: Seen, reply: Reply) -> None:
        reply.error(seen.id, -32601, "no such method", status=404)

    client, server = client_of(Mcp(HANDSHAKE, session="s", tools__call=unknown, prompts__list=declining(404)))
    async with client:
        with pytest.raises(McpError, match="no such method"):
            await client.tools.call("echo")
        assert len(server.received("initialize")) == 1
    client, server = client_of(Mcp(HANDSHAKE, prompts__list=declining(404)))
    async with client:
        with pytest.raises(TransportError, match="HTTP 404"):
            await client.prompts.list()
        assert len(server.received("initialize")) == 1


@on_fake_clock
async def test_a_session_id_that_cannot_be_echoed_is_a_protocol_error() -> None:
    script = Mcp(HANDSHAKE)

    async def odd(seen: Seen, reply: Reply) -> None:
        reply.result(seen.id, script.initialized(), mcp_session_id="a b")

    script.on["initialize"] = odd
    client, _ = client_of(script, max_attempts=1)
    with pytest.raises(ProtocolError, match="must be visible ASCII"):
        await client.open()


@on_fake_clock
async def test_queued_calls_are_sent_in_the_new_session() -> None:
    script = Mcp(HANDSHAKE, session="s")
    gate = asyncio.Event()

    async def refuse(seen: Seen, reply: Reply) -> None:
        if seen.headers["mcp-session-id"] == "s1":
            await gate.wait()
            reply.send(404)
        else:
            reply.result(seen.id, {"content": []})

    script.on["tools/call"] = refuse
    client, server = client_of(script, max_connections=2)
    async with client:
        calls = [asyncio.ensure_future(client.tools.call("echo")) for _ in range(2)]
        await turns()
        waiting = [asyncio.ensure_future(client.tools.list()) for _ in range(2)]
        await turns()
        assert server.received("tools/list") == []
        script.sessions.clear()
        script.session = "t"
        gate.set()
        await asyncio.gather(*calls)
        assert [len(tools) for tools in await asyncio.gather(*waiting)] == [1, 1]
        assert [seen.headers.get("mcp-session-id") for seen in server.received("tools/list")] == ["t1", "t1"]


@on_fake_clock
async def test_a_call_cancelled_during_a_session_renewal_closes_its_response() -> None:
    """No notification is sent, since the session is lost."""
    script = Mcp(HANDSHAKE, session="s", tools__call=idle)
    client, server = client_of(script, init_timeout=20)
    async with client:
        call = asyncio.ensure_future(client.tools.call("echo", timeout=5))
        await turns()
        stalled = server.replies[server.seen.index(server.received("tools/call")[0])]
        script.sessions.clear()

        async def slow(seen: Seen, reply: Reply) -> None:
            await asyncio.sleep(10)
            script.initialize(seen, reply)

        script.on["initialize"] = slow
        assert len(await client.tools.list()) == 1
        with pytest.raises(TimeoutError):
            await call
        assert stalled.gone.is_set()
        assert server.received("notifications/cancelled") == []


# --- the end of a session ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 204, 404, 405, 500])
@on_fake_clock
async def test_close_sends_a_delete_and_ignores_its_status(status: int) -> None:
    """2025-11-25 "Session Management": DELETE; 405 is allowed."""
    client, server = client_of(Mcp(HANDSHAKE, session="s", DELETE=declining(status)))
    async with client:
        pass
    (ended,) = server.received("DELETE")
    assert (ended.headers["mcp-session-id"], ended.headers["mcp-protocol-version"]) == ("s1", HANDSHAKE)


@pytest.mark.parametrize("raised", [None, TransportError("gone"), ZeroDivisionError("odd")])
@on_fake_clock
async def test_a_server_that_does_not_respond_to_the_delete_does_not_block(raised: Exception | None) -> None:
    """Limited by `close_step`."""

    async def stuck(seen: Seen, reply: Reply) -> None:
        if raised is not None:
            raise raised
        await reply.gone.wait()

    client, server = client_of(Mcp(HANDSHAKE, session="s", DELETE=stuck), close_step=2.0)
    async with client:
        started = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - started == (2.0 if raised is None else 0.0)
    assert len(server.received("DELETE")) == 1


@on_fake_clock
async def test_close_ends_calls_at_once_and_closes_every_response() -> None:
    """In the stateless era this cancels them."""
    client, server = client_of(Mcp(tools__call=idle))
    async with client:
        calls = [asyncio.ensure_future(client.tools.call("echo")) for _ in range(3)]
        await turns()
    for call in calls:
        with pytest.raises(ShutdownError):
            await call
    assert all(reply.gone.is_set() for reply in server.replies)
    assert not server.is_closed, "the user closes it"
