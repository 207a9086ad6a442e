"""The app on a real HTTP server: official clients, frameworks that mount it, and misbehaving raw sockets."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Mount

from jackstay.server import Context, Server
from jackstay.server.http import MemoryEventStore
from jackstay.server.http._listening import Http1Server
from jackstay.server.http._stream import Stream
from scripted.asgi import STATELESS, initialize, stateless, tool

# "own" is the HTTP server of `run()`.
PARSERS = ["h11", "httptools", "own"]


@asynccontextmanager
async def on_uvicorn(
    app: Any, http: Any = "httptools", lifespan: Any = "off", send_buffer: int | None = None
) -> AsyncIterator[int]:
    """Serve this app on a free port; `send_buffer` is the size of the send buffer of each connection."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    if send_buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    if http == "own":
        listening.listen()  # a connection may come before the task has begun
        own = Http1Server(app)
        serving = asyncio.get_running_loop().create_task(own.serve([listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            own.stop()
            await serving
        return
    config = uvicorn.Config(app, host="127.0.0.1", port=0, http=http, lifespan=lifespan, log_config=None)
    config.timeout_graceful_shutdown = 2
    server = uvicorn.Server(config)
    task = asyncio.get_running_loop().create_task(server._serve([listening]))
    while not server.started:
        await asyncio.sleep(0)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        listening.close()


def serving() -> Server:
    server = Server("real")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def steps(ctx: Context, count: int) -> str:
        for step in range(count):
            ctx.progress(step + 1, count)
            await asyncio.sleep(0.001)
        return "done"

    @server.tool
    async def elicit(ctx: Context) -> str:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        answer = await ctx.elicit("Your name?", schema)
        return str(answer.content)

    @server.tool
    async def reconnect(ctx: Context) -> str:
        ctx.close_stream(retry=0.05)
        await asyncio.sleep(0.02)
        return "resumed"

    return server


# --- official clients -------------------------------------------------------------------------------------------------


async def use_everything(
    session: ClientSession, server: Server, changes: asyncio.Queue[Any], *, can_elicit: bool
) -> None:
    await session.initialize()
    names = {found.name for found in (await session.list_tools()).tools}
    assert names == {"echo", "steps", "elicit", "reconnect"}
    called = await session.call_tool("echo", {"text": "h\xe9llo"})
    assert called.content == [types.TextContent(type="text", text="h\xe9llo")]
    progress: list[float] = []

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)

    await session.call_tool("steps", {"count": 3}, progress_callback=progressed)
    assert progress == [1, 2, 3]
    if can_elicit:
        elicited = await session.call_tool("elicit", {})
        assert elicited.content[0].text == "{'name': 'Bob'}"
        server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
        first = await changes.get()
        assert isinstance(first.root, types.ToolListChangedNotification)
    many = await asyncio.gather(*(session.call_tool("echo", {"text": str(n)}) for n in range(20)))
    assert [found.content[0].text for found in many] == [str(n) for n in range(20)]


async def answer(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Bob"})


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("options", [{}, {"sessions": True}, {"sessions": True, "event_store": True}])
async def test_the_official_client_over_streamable_http(parser: str, options: dict[str, Any]) -> None:
    server = serving()
    if options.get("event_store"):
        options["event_store"] = MemoryEventStore()
    app = server.asgi(**options)
    changes: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ServerNotification) and "list_changed" in message.root.method:
            changes.put_nowait(message)

    async with (
        on_uvicorn(app, parser) as port,
        streamable_http_client(f"http://127.0.0.1:{port}/mcp") as (read, write, _),
        ClientSession(read, write, elicitation_callback=answer, message_handler=on_message) as session,
    ):
        await use_everything(session, server, changes, can_elicit=bool(options))
    assert app.connections == 0, "the client ended its session"


async def test_the_official_client_reconnects_for_a_response() -> None:
    """Polling of 2025-11-25 with the reconnection of the official SDK."""
    app = serving().asgi(sessions=True, event_store=MemoryEventStore())
    async with (
        on_uvicorn(app) as port,
        streamable_http_client(f"http://127.0.0.1:{port}/mcp") as (read, write, _),
        ClientSession(read, write, read_timeout_seconds=timedelta(seconds=10)) as session,
    ):
        await session.initialize()
        called = await session.call_tool("reconnect", {})
        assert called.content[0].text == "resumed"


async def test_the_official_client_over_http_and_sse() -> None:
    """2024-11-05."""
    server = serving()
    app = server.asgi(sse_path="/sse")
    changes: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ServerNotification) and "list_changed" in message.root.method:
            changes.put_nowait(message)

    async with (
        on_uvicorn(app) as port,
        sse_client(f"http://127.0.0.1:{port}/sse") as (read, write),
        ClientSession(read, write, elicitation_callback=answer, message_handler=on_message) as session,
    ):
        await use_everything(session, server, changes, can_elicit=True)


# --- frameworks -------------------------------------------------------------------------------------------------------


def in_fastapi_by_route(server: Server) -> tuple[Any, str]:
    app = FastAPI()
    app.router.add_route("/tools/mcp", server.asgi(path="/tools/mcp", sessions=True))
    return app, "/tools/mcp"


def in_fastapi_by_mount(server: Server) -> tuple[Any, str]:
    app = FastAPI()
    app.mount("/app", server.asgi(sessions=True))
    return app, "/app/mcp"


def in_starlette_below_two_mounts(server: Server) -> tuple[Any, str]:
    inner = Starlette(routes=[Mount("/b", server.asgi(sessions=True))])
    return Starlette(routes=[Mount("/a", inner)]), "/a/b/mcp"


def in_starlette_at_the_root(server: Server) -> tuple[Any, str]:
    return Starlette(routes=[Mount("/", server.asgi(path="/", sessions=True))]), "/"


@pytest.mark.parametrize(
    "mount",
    [in_fastapi_by_route, in_fastapi_by_mount, in_starlette_below_two_mounts, in_starlette_at_the_root],
)
async def test_it_works_mounted(mount: Callable[[Server], tuple[Any, str]]) -> None:
    """Any root_path, without redirects and without lifespan events."""
    app, path = mount(serving())
    async with on_uvicorn(app, lifespan="on") as port:
        status, headers, body = await send(port, "POST", initialize(), path=path)
        assert status == 200, body
        assert "mcp-session-id" in headers
        async with (
            streamable_http_client(f"http://127.0.0.1:{port}{path}") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            called = await session.call_tool("echo", {"text": "mounted"})
            assert called.content[0].text == "mounted"


# --- raw sockets ------------------------------------------------------------------------------------------------------


def written(port: int, method: str, body: Any, path: str = "/mcp", headers: dict[str, str] | None = None) -> bytes:
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/json"}
    fields |= {"Content-Length": str(len(encoded)), **(headers or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + encoded


async def send(
    port: int, method: str, body: Any = b"", path: str = "/mcp", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(written(port, method, body, path, headers))
        return await answered(reader)
    finally:
        writer.close()


async def answered(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(fields.get("content-length", 0)))
    return int(head[0].split()[1]), fields, body


ECHO = tool("echo", text="a")


@pytest.mark.parametrize("parser", PARSERS)
async def test_a_foreign_host_or_origin_is_refused(parser: str) -> None:
    """DNS rebinding (2025-11-25 basic/transports, "Security Warning"); conformance `dns-rebinding-protection`."""
    async with on_uvicorn(serving().asgi(), parser) as port:
        assert (await send(port, "POST", ECHO))[0] == 200
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
            assert (await send(port, "POST", ECHO, headers=headers))[0] == 403


@pytest.mark.parametrize("parser", PARSERS)
async def test_a_body_above_the_limit_is_refused_by_its_length_and_while_it_is_read(parser: str) -> None:
    async with on_uvicorn(serving().asgi(max_body_bytes=2048), parser) as port:
        status, _, body = await send(port, "POST", b"x" * 4096)
        assert (status, b"over the limit" in body) == (413, True)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        fields = f"Host: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        writer.write(f"POST /mcp HTTP/1.1\r\n{fields}\r\n".encode())
        for _ in range(5):
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
        status, fields_back, _ = await answered(reader)
        assert (status, fields_back["connection"]) == (413, "close")
        assert await reader.read() == b"", "the connection is closed"
        writer.close()


SMUGGLED = b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


AMBIGUOUS = [
    "Content-Length: 5\r\nContent-Length: 200\r\n",
    "Content-Length: 5, 200\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: 0x5\r\n",
    "Content-Length: -1\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "Transfer-Encoding: xchunked\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Content-Length: 5\r\nMcp-Name: a\x00b\r\n",
    "Content-Length: 5\r\nMcp-Name: a\nX: b\r\n",
]


@pytest.mark.parametrize("parser", PARSERS)
async def test_an_ambiguous_request_serves_no_smuggled_one(
    parser: str, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """At most one response, and none to a second request that is hidden in the body of the first."""
    caplog.set_level(logging.CRITICAL)
    async with on_uvicorn(serving().asgi(), parser) as port:
        for fields in AMBIGUOUS:
            with subtests.test(fields=fields):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n{fields}\r\n"
                writer.write(head.encode("latin-1") + b"0\r\n\r\n" + SMUGGLED)
                writer.write_eof()
                responses = await reader.read()
                writer.close()
                assert b" 200 " not in responses.split(b"\r\n")[0]
                assert responses.count(b"HTTP/1.1 403") <= 1
                # The server still serves.
                assert (await send(port, "POST", ECHO))[0] == 200


async def test_a_duplicate_header_is_refused() -> None:
    """A router that reads only the first line would see another value."""
    async with on_uvicorn(serving().asgi()) as port:
        call = json.dumps(stateless("tools/call", {"name": "echo", "arguments": {"text": "a"}})).encode()
        fields = (
            f"Host: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {len(call)}\r\n"
            f"MCP-Protocol-Version: {STATELESS}\r\nMcp-Method: tools/call\r\n"
            "Mcp-Name: echo\r\nMcp-Name: other\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST /mcp HTTP/1.1\r\n{fields}\r\n".encode() + call)
        status, _, body = await answered(reader)
        assert (status, json.loads(body)["error"]["code"]) == (400, -32020)
        writer.close()


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with on_uvicorn(serving().asgi()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(10):
            writer.write(written(port, "POST", tool("echo", number, text=str(number))))
        for number in range(10):
            status, _, body = await answered(reader)
            assert (status, json.loads(body)["id"]) == (200, number)
        writer.close()


@pytest.mark.parametrize("parser", PARSERS)
async def test_closing_the_socket_cancels_stateless_requests_only(parser: str) -> None:
    """2026-07-28 basic/patterns/cancellation, and 2025-11-25 basic/transports for earlier revisions."""
    server = serving()
    started, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    cancelled: list[bool] = []

    @server.tool
    async def wait() -> str:
        started.set()
        try:
            await release.wait()
            cancelled.append(False)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        finally:
            ended.set()
        return "waited"

    async with on_uvicorn(server.asgi(), parser) as port:
        stateless_headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "wait"}
        for message, headers in ((stateless("tools/call", {"name": "wait"}), stateless_headers), (tool("wait"), {})):
            started.clear()
            ended.clear()
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(written(port, "POST", message, headers=headers))
            await started.wait()
            writer.close()
            await writer.wait_closed()
            if not headers:
                await asyncio.sleep(0.1)  # the server may notice the disconnect, and must not cancel
                release.set()
            await ended.wait()
    assert cancelled == [True, False]


async def test_a_hundred_slow_readers_need_little_memory_and_are_disconnected(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stream buffers less than 256 KiB; then it is closed, which is logged."""
    server = serving()
    max_waiting = 0
    put = Stream.put

    def recorded_put(self: Stream, chunk: bytes, *, is_response: bool = False) -> bool:
        nonlocal max_waiting
        is_open = put(self, chunk, is_response=is_response)
        max_waiting = max(max_waiting, self.waiting)
        return is_open

    monkeypatch.setattr(Stream, "put", recorded_put)

    @server.tool
    async def chatter(ctx: Context) -> str:
        while True:
            ctx.log("warning", "x" * 8000)
            await asyncio.sleep(0.001)

    app = server.asgi()
    log = {"io.modelcontextprotocol/logLevel": "info"}
    message = stateless("tools/call", {"name": "chatter"}, **log)
    headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "chatter"}
    loop = asyncio.get_running_loop()
    caplog.set_level(logging.CRITICAL, "uvicorn.error")
    caplog.set_level(logging.WARNING, "jackstay.server.http")
    async with on_uvicorn(app, send_buffer=8192) as port:
        peers = []
        for _ in range(100):
            peer = socket.socket()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.setblocking(False)
            await loop.sock_connect(peer, ("127.0.0.1", port))
            await loop.sock_sendall(peer, written(port, "POST", message, headers=headers))
            peers.append(peer)
        while sum("reads too slowly" in record.getMessage() for record in caplog.records) < 100:
            await asyncio.sleep(0.01)
        for peer in peers:
            peer.close()
    assert 32 * 1024 < max_waiting < 256 * 1024 - 65_536
    assert sum("reads too slowly" in record.getMessage() for record in caplog.records) == 100


async def test_drain_refuses_new_requests_and_waits_for_running_ones() -> None:
    """New requests get 503 with `Retry-After: 1`."""
    server = serving()
    started, gate = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        started.set()
        await gate.wait()
        return "waited"

    app = server.asgi()
    async with on_uvicorn(app) as port:
        running = asyncio.get_running_loop().create_task(send(port, "POST", tool("wait")))
        await started.wait()
        draining = asyncio.get_running_loop().create_task(app.drain())
        await asyncio.sleep(0)  # the drain has begun
        status, headers, _ = await send(port, "POST", ECHO)
        assert (status, headers["retry-after"]) == (503, "1")
        gate.set()
        await draining
        assert (await running)[0] == 200
