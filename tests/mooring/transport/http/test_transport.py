"""The whole transport under a real client: eras, sessions, what waits, what goes down, and the end. On a clock of its own."""

import asyncio
import logging
from typing import Any

import pytest

from mooring.client import Client, connect
from mooring.errors import (
    BackpressureError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    SessionLostError,
    ShutdownError,
    TimeoutError,
    TransportError,
    UsageError,
)
from mooring.testing import on_fake_clock
from mooring.testing.transport_suite import Recorder
from mooring.transport import ExchangeOwner, ExchangeTransport
from mooring.transport.http import http
from scripted.http import HANDSHAKE, STATELESS, Mcp, MemoryHttp, Reply, Script, Seen

URL = "http://127.0.0.1/mcp"


def client_of(script: Script, **options: Any) -> tuple[Client, MemoryHttp]:
    server = MemoryHttp(script)
    shape = {name: options.pop(name) for name in ("max_connections",) if name in options}
    return connect(http(URL, client=server, **shape), **options), server


async def turns(count: int = 30) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def idle(seen: Seen, reply: Reply) -> None:
    await reply.gone.wait()


# --- choosing the era -------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_stateless_server_is_found_with_one_request() -> None:
    """docs/design/connection.md, "Choosing the era": the probe is always `server/discover`."""
    client, server = client_of(Mcp())
    async with client:
        assert client.protocol_version == STATELESS
    assert [seen.what for seen in server.seen] == ["server/discover"]


def _declines(status: int, body: bytes = b"", kind: str = "text/plain") -> Script:
    async def decline(seen: Seen, reply: Reply) -> None:
        reply.send(status, body, kind)

    return decline


NOT_FOUND = b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Missing session ID"}}'


@pytest.mark.parametrize(
    "declines",
    [
        _declines(400),
        _declines(400, NOT_FOUND, "application/json"),
        _declines(404),
        _declines(405),
        _declines(406, b"no"),
        _declines(500),
        _declines(202),
        _declines(200, b"<html>", "text/html"),
        _declines(200, NOT_FOUND.replace(b'"server-error"', b"null"), "application/json"),
    ],
)
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
@on_fake_clock
async def test_a_server_that_declines_the_probe_gets_initialize(declines: Script, version: str) -> None:
    """protocol section 5: 4xx with an empty or unrecognised body means `initialize`."""
    client, server = client_of(Mcp(version, server__discover=declines))
    async with client:
        assert client.protocol_version == version
        assert (await client.tools.call("echo")).text == "{}"
    assert len(server.heard("server/discover")) == 1


@on_fake_clock
async def test_a_modern_error_to_the_probe_is_never_followed_by_initialize() -> None:
    """protocol section 5: a recognised modern error means a modern server, and another of its revisions."""

    async def other(seen: Seen, reply: Reply) -> None:
        reply.error(
            seen.id, -32022, "unsupported", data={"supported": ["2027-01-01"], "requested": STATELESS}
        )

    client, server = client_of(Mcp(server__discover=other))
    with pytest.raises(ProtocolError, match="the server speaks 2027-01-01"):
        await client.open()
    assert [seen.what for seen in server.seen] == ["server/discover"]


@pytest.mark.parametrize("status", [401, 403])
@on_fake_clock
async def test_a_refused_credential_is_final(status: int) -> None:
    """Row 5: permanent, at once."""
    client, server = client_of(Mcp(server__discover=_declines(status)))
    with pytest.raises(TransportError, match=f"HTTP {status}") as raised:
        await client.open()
    assert raised.value.permanent
    assert len(server.seen) == 1


@on_fake_clock
async def test_a_server_that_is_only_busy_has_said_nothing_about_its_era() -> None:
    """429 and 503 are tried again, later, with the probe."""
    answers = [_declines(503), _declines(429)]
    script = Mcp()

    async def discover(seen: Seen, reply: Reply) -> None:
        if answers:
            await answers.pop(0)(seen, reply)
        else:
            reply.result(seen.id, script.discovered())

    script.on["server/discover"] = discover
    client, server = client_of(script)
    async with client:
        assert client.protocol_version == STATELESS
    assert [seen.what for seen in server.seen] == ["server/discover"] * 3


@on_fake_clock
async def test_a_refusal_is_told_in_the_servers_words() -> None:
    """What happened, to what, and what to try: a status alone says none of it."""

    async def refuse(seen: Seen, reply: Reply) -> None:
        reply.error(None, -32600, "does not answer as that Host\x1b[2J", status=403)

    client, _ = client_of(refuse)
    with pytest.raises(TransportError, match=r"HTTP 403: refused: .*does not answer as that Host") as raised:
        await client.open()
    assert str(raised.value).isprintable()


@on_fake_clock
async def test_a_url_without_a_server_says_so_at_once() -> None:
    """Row 15: a first connect that cannot work must say so soon."""

    async def nothing(seen: Seen, reply: Reply) -> None:
        reply.send(404, b"no such page", "text/html")

    client, server = client_of(nothing)
    with pytest.raises(TransportError, match="no MCP server at this URL: it answered HTTP 404") as raised:
        await client.open()
    assert raised.value.permanent
    assert raised.value.details["quote"] == "no such page"
    assert [seen.what for seen in server.seen] == ["server/discover", "initialize", "GET"]


@on_fake_clock
async def test_an_error_to_initialize_stands_where_there_is_no_older_server_either() -> None:
    script = Mcp(HANDSHAKE)

    async def refuse(seen: Seen, reply: Reply) -> None:
        reply.error(seen.id, -32603, "out of order")

    script.on["initialize"] = refuse
    client, _ = client_of(script, max_attempts=1)
    with pytest.raises(McpError, match="out of order"):
        await client.open()


@on_fake_clock
async def test_a_server_that_was_there_and_is_a_404_for_a_while_is_waited_for() -> None:
    """A redeploy behind a proxy: not permanent, once the server has been seen."""
    script = Mcp(HANDSHAKE)
    client, _ = client_of(script)
    async with client:
        script.on.update(
            {name: _declines(404) for name in ("server/discover", "initialize", "GET", "tools/list")}
        )
        script.on["ping"] = _declines(404)

        async def unreachable(seen: Seen, reply: Reply) -> None:
            raise TransportError("refused")

        script.on["tools/call"] = unreachable
        with pytest.raises(TransportError, match="refused"):
            await client.tools.call("echo")
        assert client.state == "backoff"
        await asyncio.sleep(10)
        assert client.state in ("backoff", "initializing", "starting")
        script.on.clear()
        await client.ready(60)
        assert (await client.tools.call("echo")).text == "{}"


@on_fake_clock
async def test_the_verdict_is_remembered_and_forgotten_when_it_fails() -> None:
    """ "Choosing the era": it belongs to the client's configuration and survives restarts."""
    script = Mcp(HANDSHAKE)
    client, server = client_of(script)

    async def unreachable(seen: Seen, reply: Reply) -> None:
        raise TransportError("refused")

    async with client:
        script.on["tools/call"] = unreachable
        with pytest.raises(TransportError):
            await client.tools.call("echo")
        await client.ready(60)
        assert [seen.what for seen in server.seen].count("server/discover") == 1
        script.version = STATELESS
        with pytest.raises(TransportError):
            await client.tools.call("echo")
        await client.ready(60)
        assert client.protocol_version == STATELESS


# --- sessions ---------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_forgotten_session_is_made_again_without_delay_and_the_refused_request_sent_again_once() -> (
    None
):
    """G4: the first call after a redeploy succeeds."""
    script = Mcp(HANDSHAKE, session="s")
    client, server = client_of(script)
    async with client:
        await client.ping()
        started = asyncio.get_running_loop().time()
        script.sessions.clear()
        script.session = "t"
        assert (await client.tools.call("echo", {"n": 1})).text == '{"n": 1}'
        assert asyncio.get_running_loop().time() == started
        assert [seen.headers["mcp-session-id"] for seen in server.heard("tools/call")] == ["s1", "t1"]
        assert len(server.heard("initialize")) == 2
        assert "mcp-session-id" not in server.heard("initialize")[1].headers
    assert [seen.headers["mcp-session-id"] for seen in server.heard("DELETE")] == ["t1"]


@on_fake_clock
async def test_many_refused_requests_make_one_new_session_and_a_late_404_cannot_end_it() -> None:
    """G4, G10: one at a time; an old 404 that comes late belongs to the old session."""
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
        assert len(server.heard("initialize")) == 2
        assert [call.done() for call in calls] == [True] * 5 + [False]
        assert (await client.tools.call("echo", {"n": 6})).content == []
        late.set()
        assert [(await call).content for call in calls] == [[]] * 6
        assert len(server.heard("initialize")) == 2
        assert client.state == "ready"


@on_fake_clock
async def test_a_request_that_is_refused_twice_fails_and_surely_did_not_run() -> None:
    """G4: re-sent once. Two losses within 10 s are a failure: a server that forgets everything is not hammered."""

    async def forget(seen: Seen, reply: Reply) -> None:
        reply.send(404)

    client, server = client_of(Mcp(HANDSHAKE, session="s", tools__call=forget))
    async with client:
        with pytest.raises(SessionLostError) as raised:
            await client.tools.call("echo")
        assert raised.value.may_have_run is False
        assert len(server.heard("tools/call")) == 2
        assert client.state == "backoff"


@on_fake_clock
async def test_an_open_response_of_the_old_session_still_brings_its_answer() -> None:
    """docs/design/connection.md: the epoch fences the session, not the responses of open POSTs."""
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
        assert len(server.heard("tools/list")) == 1


@on_fake_clock
async def test_a_404_without_a_session_or_about_a_method_is_not_a_lost_session() -> None:
    async def unknown(seen: Seen, reply: Reply) -> None:
        reply.error(seen.id, -32601, "no such method", status=404)

    client, server = client_of(Mcp(HANDSHAKE, session="s", tools__call=unknown, prompts__list=_declines(404)))
    async with client:
        with pytest.raises(McpError, match="no such method"):
            await client.tools.call("echo")
        assert len(server.heard("initialize")) == 1
    client, server = client_of(Mcp(HANDSHAKE, prompts__list=_declines(404)))
    async with client:
        with pytest.raises(TransportError, match="HTTP 404"):
            await client.prompts.list()
        assert len(server.heard("initialize")) == 1


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
async def test_calls_that_wait_when_a_session_is_lost_go_out_under_the_new_one() -> None:
    """What was not sent yet must not be sent under an id that is gone."""
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
        assert server.heard("tools/list") == []
        script.sessions.clear()
        script.session = "t"
        gate.set()
        await asyncio.gather(*calls)
        assert [len(tools) for tools in await asyncio.gather(*waiting)] == [1, 1]
        assert [seen.headers.get("mcp-session-id") for seen in server.heard("tools/list")] == ["t1", "t1"]


@on_fake_clock
async def test_a_call_that_is_given_up_while_the_session_is_made_again_leaves_no_response_open() -> None:
    """There is nobody to tell: its session is gone. But a response that nobody reads would keep a connection for good."""
    script = Mcp(HANDSHAKE, session="s", tools__call=idle)
    client, server = client_of(script, init_timeout=20)
    async with client:
        call = asyncio.ensure_future(client.tools.call("echo", timeout=5))
        await turns()
        stalled = server.replies[server.seen.index(server.heard("tools/call")[0])]
        script.sessions.clear()

        async def slow(seen: Seen, reply: Reply) -> None:
            await asyncio.sleep(10)
            script.initialize(seen, reply)

        script.on["initialize"] = slow
        assert len(await client.tools.list()) == 1
        with pytest.raises(TimeoutError):
            await call
        assert stalled.gone.is_set()
        assert server.heard("notifications/cancelled") == []


# --- the end of a session ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 204, 404, 405, 500])
@on_fake_clock
async def test_the_session_is_ended_at_close_whatever_the_server_says_to_that(status: int) -> None:
    """2025-11-25 "Session Management": DELETE; 405 is allowed."""
    client, server = client_of(Mcp(HANDSHAKE, session="s", DELETE=_declines(status)))
    async with client:
        pass
    (ended,) = server.heard("DELETE")
    assert (ended.headers["mcp-session-id"], ended.headers["mcp-protocol-version"]) == ("s1", HANDSHAKE)


@pytest.mark.parametrize("raised", [None, TransportError("gone"), ZeroDivisionError("odd")])
@on_fake_clock
async def test_a_server_that_does_not_answer_the_end_holds_nobody_up(raised: Exception | None) -> None:
    """Bounded by one step of the close."""

    async def stuck(seen: Seen, reply: Reply) -> None:
        if raised is not None:
            raise raised
        await reply.gone.wait()

    client, server = client_of(Mcp(HANDSHAKE, session="s", DELETE=stuck), close_step=2.0)
    async with client:
        started = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - started == (2.0 if raised is None else 0.0)
    assert len(server.heard("DELETE")) == 1


@on_fake_clock
async def test_closing_releases_callers_at_once_and_closes_every_response() -> None:
    """Row 22; in the stateless era closing is the cancel."""
    client, server = client_of(Mcp(tools__call=idle))
    async with client:
        calls = [asyncio.ensure_future(client.tools.call("echo")) for _ in range(3)]
        await turns()
    for call in calls:
        with pytest.raises(ShutdownError):
            await call
    assert all(reply.gone.is_set() for reply in server.replies)
    assert not server.is_closed, "it was handed in, and is its user's"


# --- what waits -------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_no_more_requests_than_allowed_are_under_way_and_the_rest_keep_their_order() -> None:
    gate = asyncio.Event()
    most = running = 0

    async def call(seen: Seen, reply: Reply) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1
        reply.result(seen.id, {"content": []})

    client, server = client_of(Mcp(tools__call=call), max_connections=4)
    async with client:
        calls = [asyncio.ensure_future(client.tools.call("echo", {"n": n})) for n in range(10)]
        await turns()
        assert len(server.heard("tools/call")) == 4
        gate.set()
        await asyncio.gather(*calls)
    assert most == 4
    assert [seen.rpc["params"]["arguments"]["n"] for seen in server.heard("tools/call")] == list(range(10))


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
@on_fake_clock
async def test_a_call_that_is_given_up_while_it_waits_was_never_sent_and_needs_no_cancel(
    version: str,
) -> None:
    """G11: never for a call still in our queue."""
    client, server = client_of(Mcp(version, tools__call=idle), max_connections=1)
    async with client:
        one = asyncio.ensure_future(client.tools.call("echo", {"n": 1}))
        await turns()
        two = asyncio.ensure_future(client.tools.call("echo", {"n": 2}))
        await turns()
        two.cancel()
        await turns()
        assert server.heard("notifications/cancelled") == []
        one.cancel()
        await turns()
        assert [seen.rpc["params"]["arguments"]["n"] for seen in server.heard("tools/call")] == [1]


@on_fake_clock
async def test_a_call_that_is_given_up_makes_room_for_the_next() -> None:
    async def first_stalls(seen: Seen, reply: Reply) -> None:
        if seen.rpc["params"]["arguments"]["n"] == 1:
            await reply.gone.wait()
        else:
            reply.result(seen.id, {"content": []})

    client, _ = client_of(Mcp(tools__call=first_stalls), max_connections=1)
    async with client:
        one = asyncio.ensure_future(client.tools.call("echo", {"n": 1}))
        await turns()
        two = asyncio.ensure_future(client.tools.call("echo", {"n": 2}))
        await turns()
        one.cancel()
        assert (await two).content == []


@on_fake_clock
async def test_a_full_queue_is_busy_and_tells_of_room() -> None:
    """Row 14."""
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
async def test_answers_to_the_server_and_subscriptions_never_wait_behind_calls() -> None:
    """A call that waits for our answer to the server's question must not wait for a free place as well."""
    script = Mcp(HANDSHAKE, session="s")
    answered = asyncio.Event()

    async def call(seen: Seen, reply: Reply) -> None:
        reply.sse()
        ask = {"method": "roots/list", "jsonrpc": "2.0", "id": "q"}
        reply.event(ask)
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
    """A server that listens: `streams` are the open ones, with the time each was opened."""

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
        self.say(
            "notifications/subscriptions/acknowledged", notifications=seen.rpc["params"]["notifications"]
        )
        await reply.gone.wait()

    def say(self, method: str, **params: Any) -> None:
        seen, reply = self.streams[-1]
        params["_meta"] = {"io.modelcontextprotocol/subscriptionId": seen.id}
        reply.event({"jsonrpc": "2.0", "method": method, "params": params})


@on_fake_clock
async def test_a_subscription_does_not_use_up_a_place() -> None:
    listening = Listening()
    client, _ = client_of(Mcp(subscriptions__listen=listening), max_connections=1)
    changed: list[str] = []
    async with client:
        await client.resources.subscribe("file:///a", changed.append)
        assert (await client.tools.call("echo")).text == "{}"
        listening.say("notifications/resources/updated", uri="file:///a")
        await turns()
        assert changed == ["file:///a"]
        await client.resources.unsubscribe("file:///a")
        await turns()
        assert listening.streams[0][1].gone.is_set(), "G11: closing the response is the cancel"


@on_fake_clock
async def test_a_subscription_whose_response_was_lost_is_opened_again_with_a_new_id() -> None:
    """2026-07-28 subscriptions/listen: a bare drop is a loss, and the client listens again; more and more slowly."""
    listening = Listening()
    client, server = client_of(Mcp(subscriptions__listen=listening), backoff_jitter=0.0)
    changed: list[str] = []
    client.on_notification(lambda notice: None)
    async with client:
        await client.resources.subscribe("file:///a", changed.append)
        await turns()
        assert len(listening.streams) == 2, "the lists, too"
        began = asyncio.get_running_loop().time()
        for _, reply in list(listening.streams):
            reply.cut()
        await asyncio.sleep(5)
        assert [at - began for at in listening.times[2:]] == [1.0, 1.0]
        assert client.state == "ready"
        listening.say("notifications/resources/updated", uri="file:///a")
        await turns()
        assert changed == ["file:///a"]
        ids = [seen.id for seen in server.heard("subscriptions/listen")]
        assert len(set(ids)) == 4
        listening.is_broken = True
        began = asyncio.get_running_loop().time()
        listening.streams[-1][1].end()
        await asyncio.sleep(8)
        assert [at - began for at in listening.times[4:]] == [1.0, 3.0, 7.0]
        listening.is_broken = False
        await asyncio.sleep(10)
        listening.say("notifications/resources/updated", uri="file:///a")
        await turns()
        assert changed == ["file:///a"] * 2
        listening.streams[-1][1].end()
        await turns()
    await asyncio.sleep(60)
    assert len(listening.times) == 8, "nothing is left that would open it again"


@on_fake_clock
async def test_a_lost_subscription_that_is_not_wanted_any_more_stays_closed() -> None:
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
async def test_a_lost_subscription_is_opened_once_where_the_connection_is_made_again_meanwhile() -> None:
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
            script.on["subscriptions/listen"] = _declines(403)
            reply.cut()
        else:
            meta = {"io.modelcontextprotocol/subscriptionId": seen.id}
            reply.event(
                {"jsonrpc": "2.0", "id": seen.id, "result": {"resultType": "complete", "_meta": meta}}
            )
            reply.end()
        await asyncio.sleep(60)
        assert len(ends) == 1
        assert isinstance(ends[0], TransportError) is is_refused


# --- going down -------------------------------------------------------------------------------------------------------


async def unreachable(seen: Seen, reply: Reply) -> None:
    raise TransportError("cannot connect")


@on_fake_clock
async def test_down_is_said_only_when_nothing_can_be_reached_and_nothing_else_is_open() -> None:
    """docs/design/connection.md, "Over HTTP"."""
    gate = asyncio.Event()

    async def slow(seen: Seen, reply: Reply) -> None:
        await gate.wait()
        reply.result(seen.id, {"tools": []})

    script = Mcp(tools__list=slow, tools__call=unreachable)
    client, _ = client_of(script)
    async with client:
        listing = asyncio.ensure_future(client.tools.list())
        await turns()
        with pytest.raises(TransportError, match="cannot connect") as raised:
            await client.tools.call("echo")
        assert raised.value.may_have_run is False
        assert client.state == "ready"
        gate.set()
        await listing
        with pytest.raises(TransportError):
            await client.tools.call("echo")
        assert client.state == "backoff"
        await client.ready(60)
        assert client.state == "ready"


@on_fake_clock
async def test_calls_that_all_fail_to_connect_go_down_once() -> None:
    script = Mcp(tools__call=unreachable)
    client, _ = client_of(script)
    downs: list[str] = []
    client.on_event(lambda name, fields: downs.append(fields["to"]) if "to" in fields else None)
    async with client:
        calls = [client.tools.call("echo") for _ in range(5)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in ended] == [TransportError] * 5
        assert downs.count("backoff") == 1


@on_fake_clock
async def test_a_first_connect_that_is_refused_is_tried_again_and_then_told() -> None:
    """Row 15."""
    client, server = client_of(unreachable, max_attempts=3)
    with pytest.raises(TransportError, match="cannot connect") as raised:
        await client.open()
    assert raised.value.details["attempts"] == 3
    assert [seen.what for seen in server.seen] == ["server/discover"] * 3


@on_fake_clock
async def test_an_http_client_of_ours_is_closed_with_the_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MemoryHttp] = []

    def make(**options: Any) -> MemoryHttp:
        made.append(MemoryHttp(Mcp()))
        return made[-1]

    monkeypatch.setattr("mooring.transport.http._target.default_http_client", make)
    async with connect(http(URL)) as client:
        assert client.state == "ready"
        assert not made[0].is_closed
    assert made[0].is_closed
    assert len(made) == 1


@on_fake_clock
async def test_an_http_client_that_does_not_close_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck(MemoryHttp):
        async def close(self) -> None:
            await super().close()
            await asyncio.sleep(1000)

    monkeypatch.setattr("mooring.transport.http._target.default_http_client", lambda **_: Stuck(Mcp()))
    async with connect(http(URL), close_step=2.0):
        pass
    assert "does not close" in caplog.text


# --- arguments in headers ---------------------------------------------------------------------------------------------


def _tool(name: str, mark: str | None = None, **more: Any) -> dict[str, Any]:
    region = {"type": "string"} | ({} if mark is None else {"x-mcp-header": mark})
    return {"name": name, "inputSchema": {"type": "object", "properties": {"region": region}}, **more}


def _lists(*tools: dict[str, Any]) -> Script:
    async def list_(seen: Seen, reply: Reply) -> None:
        reply.result(
            seen.id, {"tools": tools, "resultType": "complete", "ttlMs": 60000, "cacheScope": "private"}
        )

    return list_


@on_fake_clock
async def test_marked_arguments_travel_in_headers_once_the_tool_was_listed() -> None:
    """2026-07-28 "Custom Headers from Tool Parameters"."""
    client, server = client_of(Mcp(tools__list=_lists(_tool("query", "Region"))))
    async with client:
        await client.tools.list()
        await client.tools.call("query", {"region": "eu ☃"})
        await client.tools.call("query", {})
        with pytest.raises(UsageError, match="must be a string"):
            await client.tools.call("query", {"region": 1})
    first, second = server.heard("tools/call")
    assert first.headers["mcp-param-region"] == "=?base64?ZXUg4piD?="
    assert "mcp-param-region" not in second.headers


@on_fake_clock
async def test_tools_whose_marks_break_the_rules_are_left_out_of_the_list(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """protocol section 6: HTTP clients MUST drop them, with a warning; in the handshake era the mark means nothing."""
    tools = (_tool("good"), _tool("bad", "no header name"))
    client, _ = client_of(Mcp(tools__list=_lists(*tools)))
    async with client:
        assert [tool.name for tool in await client.tools.list()] == ["good"]
    assert "the tool 'bad' is left out" in caplog.text
    client, _ = client_of(Mcp(HANDSHAKE, tools__list=_lists(*tools)))
    async with client:
        assert [tool.name for tool in await client.tools.list()] == ["good", "bad"]


@on_fake_clock
async def test_a_header_mismatch_is_answered_by_a_new_list_and_one_more_try() -> None:
    """protocol section 6: on -32020 the client re-lists tools and retries once."""

    async def call(seen: Seen, reply: Reply) -> None:
        if "mcp-param-region" in seen.headers:
            reply.result(seen.id, {"content": []})
        else:
            reply.error(seen.id, -32020, "Mcp-Param-Region is missing")

    script = Mcp(tools__list=_lists(_tool("query")), tools__call=call)
    client, server = client_of(script)
    async with client:
        await client.tools.list()
        script.on["tools/list"] = _lists(_tool("query", "Region"))
        assert (await client.tools.call("query", {"region": "eu"})).content == []
        assert len(server.heard("tools/call")) == 2
        script.on["tools/list"] = _lists(_tool("query"))
        client.cache.clear()
        await client.tools.list()
        with pytest.raises(McpError, match="Mcp-Param-Region"):
            await client.tools.call("query", {"region": "eu"})
        assert len(server.heard("tools/call")) == 4, "once, and not for ever"


# --- the contract itself ----------------------------------------------------------------------------------------------


class Owner(Recorder):
    """A recorder that hears of single requests, too."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[tuple[int, McpError, bool]] = []
        self.sessions: list[int] = []

    def exchange_lost(self, id: int, error: McpError, was_declined: bool) -> None:
        self.lost.append((id, error, was_declined))
        self._changed.set()

    def session_lost(self, id: int) -> None:
        self.sessions.append(id)
        self._changed.set()

    def marked_arguments(self, tool: str) -> tuple[()]:
        return ()


def _request(id: int, method: str = "ping") -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b"}' % (id, method.encode())


async def open_transport(script: Script, **shape: Any) -> tuple[Any, Owner, MemoryHttp]:
    server, owner = MemoryHttp(script), Owner()
    transport = await http(URL, client=server, **shape).open(owner, 4096, 2.0)
    owner.transport = transport
    assert isinstance(transport, ExchangeTransport)
    assert isinstance(owner, ExchangeOwner)
    return transport, owner, server


@on_fake_clock
async def test_an_owner_that_cannot_hear_of_single_requests_is_refused() -> None:
    with pytest.raises(UsageError, match="ExchangeOwner"):
        await http(URL, client=MemoryHttp(Mcp())).open(Recorder(), 4096, 2.0)


@on_fake_clock
async def test_what_waits_can_be_withdrawn_and_flush_waits_for_the_rest() -> None:
    gate = asyncio.Event()

    async def slow(seen: Seen, reply: Reply) -> None:
        await gate.wait()
        reply.result(seen.id, {})

    transport, owner, server = await open_transport(slow, max_connections=1)
    assert await transport.flush()
    assert transport.send(_request(1), 1)
    assert transport.send(_request(2), 2)
    assert transport.send(_request(3), 3)
    assert "open=1 waiting=2" in repr(transport)
    assert not transport.withdraw(1), "it is under way"
    assert transport.withdraw(2)
    assert not transport.withdraw(2)
    flushing = asyncio.ensure_future(transport.flush())
    await turns()
    assert not flushing.done()
    gate.set()
    assert await flushing
    assert [seen.id for seen in server.seen] == [1, 3]
    assert [b'"id": 1' in owner.frames[0], b'"id": 3' in owner.frames[1]] == [True, True]
    await transport.close()
    await transport.close()
    assert not transport.send(_request(4), 4)
    assert not await transport.flush()


@on_fake_clock
async def test_a_large_frame_waits_only_behind_an_empty_queue() -> None:
    """The contract: an empty queue takes any legal frame, and holds 8 MiB otherwise."""
    transport, _, _ = await open_transport(idle, max_connections=1)
    big = b'{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":"%b"}}' % (b"y" * 8 * 1024 * 1024)
    assert transport.send(_request(1), 1)
    assert transport.send(big, 2)
    assert not transport.send(_request(3), 3)
    await transport.close()


@on_fake_clock
async def test_flush_ends_when_the_transport_does() -> None:
    transport, owner, _ = await open_transport(idle)
    transport.send(_request(1), 1)
    flushing = asyncio.ensure_future(transport.flush())
    await turns()
    await transport.close()
    assert await flushing is False
    assert owner.ends == [], "never after close"


@on_fake_clock
async def test_a_frame_that_is_no_message_is_refused_by_its_sender() -> None:
    transport, _, _ = await open_transport(idle)
    with pytest.raises(UsageError, match="only JSON-RPC messages"):
        transport.send(b"[]", 1)
    transport.hang_up(99)
    await transport.close()


@on_fake_clock
async def test_a_transport_that_is_down_takes_nothing_more() -> None:
    transport, owner, _ = await open_transport(unreachable)
    transport.send(_request(1), 1)
    await owner.until(lambda: owner.ends)
    assert [(id, str(error), was_declined) for id, error, was_declined in owner.lost] == [
        (1, "cannot connect", False)
    ]
    assert owner.ends[0][1:] == (None, True)
    assert not transport.send(_request(2), 2)
    await transport.close()


@on_fake_clock
async def test_a_timeout_while_waiting_for_a_place_says_that_it_was_cancelled_in_vain_only_if_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """G11 and row 2: the deadline covers queueing, too."""
    caplog.set_level(logging.INFO)
    client, server = client_of(Mcp(tools__call=idle), max_connections=1)
    async with client:
        first = asyncio.ensure_future(client.tools.call("echo"))
        await turns()
        with pytest.raises(TimeoutError):
            await client.tools.call("echo", timeout=1)
        assert len(server.heard("tools/call")) == 1
        first.cancel()


@on_fake_clock
async def test_replaying_is_asked_for_or_does_not_happen() -> None:
    """G7: at most once by default; `replay="safe"` sends what is safe again after a loss of the connection."""
    count = 0

    async def cut(seen: Seen, reply: Reply) -> None:
        nonlocal count
        count += 1
        reply.cut()

    client, _ = client_of(Mcp(tools__list=cut))
    async with client:
        with pytest.raises(OutcomeUnknownError):
            await client.tools.list()
    assert count == 1
