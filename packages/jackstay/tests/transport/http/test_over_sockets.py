"""Faults over real sockets: a server that cuts, stalls, resets, half-closes and restarts (docs/guarantees.md)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import uvloop

from jackstay.client import Client, connect
from jackstay.errors import (
    FrameTooLargeError,
    OutcomeUnknownError,
    TimeoutError,
    TransportError,
)
from jackstay.transport.http import http
from scripted import certificates
from scripted.http import HANDSHAKE, STATELESS, HttpServer, Mcp, Reply, Script, Seen, served

ERAS = pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
FAST: dict[str, Any] = {"backoff_min": 0.02, "backoff_max": 0.05}


@pytest.fixture(scope="module", autouse=True)
def _open_the_pipe_of_uvloop() -> None:
    """uvloop opens a pipe for signals with its first loop and keeps it."""
    uvloop.new_event_loop().close()


@ERAS
async def test_many_calls_share_a_few_connections(version: str) -> None:
    """docs/guarantees.md G10: the client can be shared, and `max_connections` is kept."""
    async with served(Mcp(version, session="s")) as server:
        async with connect(http(server.url, max_connections=8)) as client:
            results = await asyncio.gather(*(client.tools.call("echo", {"n": n}) for n in range(200)))
            assert [result.text for result in results] == [f'{{"n": {n}}}' for n in range(200)]
        assert server.accepted <= 10


async def test_tls_with_a_ca_of_the_user(tmp_path: Path) -> None:
    context, ca = certificates.make(tmp_path)
    async with served(Mcp(HANDSHAKE, session="s"), context) as server:
        url = server.url.replace("http:", "https:")
        async with connect(http(url, ca=ca, auth="token")) as client:
            assert (await client.tools.call("echo")).text == "{}"
        assert {seen.headers["authorization"] for seen in server.seen} == {"Bearer token"}
        with pytest.raises(TransportError, match=r"untrusted certificate .*ca=FILE") as raised:
            await connect(http(url)).open()
        assert raised.value.permanent, "a retry cannot help"


async def test_the_wrong_scheme_is_reported(tmp_path: Path) -> None:
    """A lost handshake is a TransportError with a hint: no call has run."""
    context, _ = certificates.make(tmp_path)
    async with served(Mcp(HANDSHAKE), context) as server:
        with pytest.raises(TransportError, match=r"lost.*should the URL begin with https://\?") as raised:
            await connect(http(server.url), max_attempts=1).open()
        assert raised.value.may_have_run is False


async def test_a_server_without_tls_is_reported() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match=r"the server does not use TLS; should the URL begin with http://"):
            await connect(http(f"https://127.0.0.1:{port}/mcp"), max_attempts=1).open()


@pytest.mark.parametrize(
    "body",
    [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{"],
    ids=["too short", "invalid chunk"],
)
async def test_a_server_that_never_ends_its_responses_is_tried_twice(body: bytes) -> None:
    """It responded over plain http, so the error does not suggest https."""

    async def cut(_: Seen, reply: Reply) -> None:
        reply.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + body)
        reply.transport.close()

    async with served(cut) as server:
        with pytest.raises(TransportError, match=r"^the response is incomplete") as raised:
            await connect(http(server.url), **FAST).open()
        assert raised.value.absent
        assert "https" not in str(raised.value)
        assert len(server.seen) == 2


@pytest.mark.parametrize(("closed", "settings"), [(1, {}), (4, {"max_attempts": 5})])
async def test_a_server_that_closes_its_first_connections_is_tried_again(closed: int, settings: dict[str, Any]) -> None:
    """By default once, as it may be starting; as often as the settings allow."""
    answer = Mcp(HANDSHAKE)

    async def starting(seen: Seen, reply: Reply) -> None:
        if len(server.seen) <= closed:
            reply.transport.close()
        else:
            await answer(seen, reply)

    async with served(starting) as server, connect(http(server.url), **FAST, **settings) as client:
        assert (await client.tools.call("echo")).text == "{}"


async def test_a_server_that_was_ready_may_close_connections_for_long() -> None:
    """No number of starts is too many for a server that responded once."""
    answer = Mcp(HANDSHAKE, session="s")
    is_down = False
    closed = asyncio.Semaphore(0)

    async def restarting(seen: Seen, reply: Reply) -> None:
        if is_down:
            reply.transport.close()
            closed.release()
        else:
            await answer(seen, reply)

    async with served(restarting) as server, connect(http(server.url), **FAST, keepalive=0.05) as client:
        is_down = True
        for _ in range(8):
            await closed.acquire()
        is_down = False
        assert (await client.tools.call("echo")).text == "{}"


@ERAS
def test_calls_succeed_on_uvloop(version: str) -> None:
    async def work() -> None:
        async with served(Mcp(version, session="s")) as server, connect(http(server.url)) as client:
            results = await asyncio.gather(*(client.tools.call("echo", {"n": n}) for n in range(20)))
            assert [result.text for result in results] == [f'{{"n": {n}}}' for n in range(20)]

    uvloop.run(asyncio.wait_for(work(), 30))


async def _resets(seen: Seen, reply: Any) -> None:
    reply.cut()


async def _closes(seen: Seen, reply: Any) -> None:
    reply.transport.close()


async def _ends_a_stream(seen: Seen, reply: Any) -> None:
    reply.sse()
    reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
    reply.end()


async def _resets_a_stream(seen: Seen, reply: Any) -> None:
    reply.sse()
    reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
    reply.cut()


async def _half_closes(seen: Seen, reply: Any) -> None:
    reply.sse()
    reply.half_close()


async def _sends_a_wrong_length(seen: Seen, reply: Any) -> None:
    reply.head(200, {"content-type": "application/json"}, 1000)
    reply.write(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % seen.id)
    reply.transport.close()


async def _cuts_the_answer(seen: Seen, reply: Any) -> None:
    reply.sse()
    reply.write(b'data: {"jsonrpc":"2.0","id":%d,"result":{}}\n' % seen.id)  # without a blank line
    reply.end()


@pytest.mark.parametrize(
    "fault",
    [
        _resets,
        _closes,
        _ends_a_stream,
        _resets_a_stream,
        _half_closes,
        _sends_a_wrong_length,
        _cuts_the_answer,
    ],
)
@ERAS
async def test_a_response_that_ends_without_its_answer_fails_only_that_call(version: str, fault: Script) -> None:
    """docs/guarantees.md G2, G3."""
    script = Mcp(version, session="s", tools__call=fault)
    async with served(script) as server, connect(http(server.url)) as client:
        with pytest.raises(OutcomeUnknownError) as raised:
            await client.tools.call("echo", timeout=None, max_timeout=None)
        assert raised.value.may_have_run is True
        assert client.state == "ready"
        assert len(await client.tools.list()) == 1
        assert len(server.received("tools/call")) == 1, "docs/guarantees.md G7: not sent again"


async def test_a_cancelled_stateless_call_closes_its_connection() -> None:
    """docs/guarantees.md G11: a call is cancelled by its task or by its deadline."""
    gone: list[asyncio.Event] = []
    begun = asyncio.Event()

    async def stall(seen: Seen, reply: Reply) -> None:
        gone.append(reply.gone)
        begun.set()
        await reply.gone.wait()

    async with served(Mcp(tools__call=stall)) as server, connect(http(server.url)) as client:
        call = asyncio.ensure_future(client.tools.call("echo"))
        await begun.wait()
        call.cancel()
        await gone[0].wait()
        begun.clear()
        while not begun.is_set():  # a busy machine may need more than the deadline to connect
            with pytest.raises(TimeoutError):
                await client.tools.call("echo", timeout=0.5)
        await gone[1].wait()
        assert server.received("notifications/cancelled") == []
        assert client.state == "ready"


async def test_a_cancelled_handshake_call_sends_one_notification() -> None:
    """docs/guarantees.md G11."""
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def stall(seen: Seen, reply: Reply) -> None:
        reply.sse()
        begun.set()
        await reply.gone.wait()

    async def accept(seen: Seen, reply: Reply) -> None:
        reply.send(202)
        cancelled.set()

    script = Mcp(HANDSHAKE, session="s", tools__call=stall, notifications__cancelled=accept)
    async with served(script) as server, connect(http(server.url)) as client:
        call = asyncio.ensure_future(client.tools.call("echo"))
        await begun.wait()
        call.cancel()
        await cancelled.wait()
        assert len(await client.tools.list()) == 1
        (cancelled,) = server.received("notifications/cancelled")
        assert cancelled.rpc["params"]["requestId"] == server.received("tools/call")[0].id


async def test_after_a_redeploy_the_next_call_succeeds() -> None:
    """docs/guarantees.md G4. Connections to the old server are not used, even if the client has not read their end."""
    server = HttpServer(Mcp(HANDSHAKE, session="old"))
    await server.start()
    async with connect(http(server.url)) as client:
        await client.tools.list()
        await server.stop()
        again = HttpServer(Mcp(HANDSHAKE, session="new"))
        again.port = server.port
        await again.start()
        calls = await asyncio.gather(*(client.tools.call("echo", {"n": n}) for n in range(5)))
        assert [call.text for call in calls] == [f'{{"n": {n}}}' for n in range(5)]
        assert len(again.received("initialize")) == 1
        assert {seen.headers["mcp-session-id"] for seen in again.received("tools/call")} == {"old1", "new1"}
    await again.stop()
    assert again.failures == server.failures == []


async def _refused(client: Client) -> TransportError:
    """Call until the connection is refused: the first call may use a connection that is being closed."""
    while True:
        try:
            await client.tools.call("echo")
        except OutcomeUnknownError:
            continue
        except TransportError as error:
            return error


@ERAS
async def test_a_stopped_server_is_reconnected_when_it_is_back(version: str) -> None:
    """docs/guarantees.md G5: refused means "not sent", and the client reconnects automatically."""
    server = HttpServer(Mcp(version, session="s"))
    await server.start()
    async with connect(http(server.url), **FAST) as client:
        await client.tools.list()
        await server.stop()
        error = await _refused(client)
        assert "cannot connect" in str(error)
        assert (error.may_have_run, error.retryable) == (False, True)
        assert client.state == "backoff"
        await server.start()
        assert (await client.tools.call("echo", wait_for_ready=True)).text == "{}"
    await server.stop()


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_response_over_the_limit_is_cut_off(is_stream: bool) -> None:
    """The limit is enforced while reading: the connection is closed, and only that call fails."""
    ended = asyncio.Event()

    async def flood(seen: Seen, reply: Reply) -> None:
        if is_stream:
            reply.sse()
            reply.write(b"data: ")
        else:
            reply.head(200, {"content-type": "application/json"}, None)
        while not reply.gone.is_set():
            reply.write(b"x" * 65_536)
            await asyncio.sleep(0)
        ended.set()

    script = Mcp(tools__call=flood)
    async with served(script) as server, connect(http(server.url), max_frame_bytes=1_000_000) as client:
        with pytest.raises(FrameTooLargeError) as raised:
            await client.tools.call("echo")
        assert 1_000_000 < raised.value.size < 1_600_000
        await ended.wait()
        assert len(await client.tools.list()) == 1


async def test_a_large_response_within_the_limit_is_complete() -> None:
    """docs/guarantees.md G16."""
    text = "x" * 15_000_000
    async with served(Mcp()) as server, connect(http(server.url)) as client:
        assert len((await client.tools.call("echo", {"t": text})).text) > len(text)


async def test_the_end_of_an_http_sse_server_is_an_unknown_outcome() -> None:
    streams: list[Reply] = []
    called = asyncio.Event()
    inner = Mcp("2024-11-05")

    async def old(seen: Seen, reply: Reply) -> None:
        if seen.method == "GET":
            streams.append(reply)
            reply.sse()
            reply.event(b"/post?s=1", event="endpoint")
            await reply.gone.wait()
        elif seen.path == "/post?s=1":
            reply.send(202)
            if seen.what == "initialize":
                streams[-1].event({"jsonrpc": "2.0", "id": seen.id, "result": inner.initialized()})
            elif seen.what == "ping":
                streams[-1].event({"jsonrpc": "2.0", "id": seen.id, "result": {}})
            elif seen.what == "tools/call":
                called.set()
        else:
            reply.send(405)

    async with served(old) as server, connect(http(server.url), **FAST) as client:
        assert client.protocol_version == "2024-11-05"
        assert await client.ping() == "ping"
        call = asyncio.ensure_future(client.tools.call("echo"))
        await called.wait()
        streams[-1].cut()
        with pytest.raises(OutcomeUnknownError):
            await call
        await client.ready(60)
        assert len(streams) == 2


@ERAS
async def test_a_client_can_be_opened_and_closed_in_any_task_and_a_cancelled_open_leaves_nothing(
    version: str,
) -> None:
    """docs/guarantees.md G8, G9."""
    begun = asyncio.Event()

    async def never(seen: Seen, reply: Reply) -> None:
        begun.set()
        await reply.gone.wait()

    async with served(Mcp(version, session="s")) as server:
        client = connect(http(server.url))
        await asyncio.create_task(client.open())
        assert (await client.tools.call("echo")).text == "{}"
        await asyncio.create_task(client.stop())
        await client.stop()
    async with served(never) as server:
        client = connect(http(server.url))
        opening = asyncio.create_task(client.open())
        await begun.wait()
        opening.cancel()
        await asyncio.wait((opening,))
        assert opening.cancelled()
        assert client.state == "closed"


async def test_a_web_page_is_quoted_in_the_error() -> None:
    """A failed first connect is not retried if the URL serves something else."""

    async def page(seen: Seen, reply: Reply) -> None:
        reply.send(200, b"<!doctype html><title>hello", "text/html; charset=utf-8")

    async with served(page) as server:
        with pytest.raises(
            TransportError, match=r"no MCP server at http://.*: HTTP 200, initialize returned 'text/html'"
        ) as raised:
            await connect(http(server.url)).open()
        assert raised.value.absent
        assert raised.value.details["quote"] == "<!doctype html><title>hello"
        assert [seen.what for seen in server.seen] == ["server/discover", "initialize"]
