"""Servers over HTTP for tests of the client: a script responds to each request, byte by byte if necessary.

A script is `async def script(seen, reply)`. It runs behind a real socket (`served`), where it can cut or stall the
connection and send wrong lengths, or behind an in-memory HTTP client (`MemoryHttp`), for tests with a fake clock. `Mcp`
is a script that implements MCP of a given revision; a test can replace its methods.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from jackstay.errors import McpError, OutcomeUnknownError
from jackstay.protocol.wire import encode_event

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
GONE = object()


class Seen:
    """A received request."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body

    def __repr__(self) -> str:
        return f"<{self.method} {self.path} {self.body[:80]!r}>"

    @property
    def rpc(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body) if self.body else {}
        return found

    @property
    def id(self) -> Any:
        return self.rpc.get("id")

    @property
    def what(self) -> str:
        """The JSON-RPC method, `response`, or the HTTP method."""
        return self.rpc.get("method", "response") if self.body else self.method


class Reply:
    """The response to one request, made by a script. `gone` is set when the client has disconnected."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def head(self, status: int, headers: dict[str, str] | Sequence[tuple[str, str]], length: int | None) -> None:
        """Send status and headers; `length` None: a chunked body."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Send a part of the body."""
        raise NotImplementedError

    def end(self) -> None:
        """End the body."""
        raise NotImplementedError

    def cut(self) -> None:
        """Break the connection."""
        raise NotImplementedError

    def send(self, status: int, body: bytes = b"", kind: str = "", **headers: str) -> None:
        """Send a complete response; `_` in header names becomes `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if kind:
            named["content-type"] = kind
        self.head(status, named, len(body))
        if body:
            self.write(body)
        self.end()

    def json(self, value: Any, status: int = 200, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send(status, body, "application/json", **headers)

    def result(self, id: Any, result: Any, **headers: str) -> None:
        self.json({"jsonrpc": "2.0", "id": id, "result": result}, **headers)

    def error(self, id: Any, code: int, message: str = "no", status: int = 400, data: Any = None) -> None:
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self.json({"jsonrpc": "2.0", "id": id, "error": error}, status)

    def sse(self, **headers: str) -> None:
        """Begin an SSE stream."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.head(200, {"content-type": "text/event-stream", **named}, None)

    def event(self, value: Any, **fields: Any) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.write(encode_event(data, **fields))


Script = Callable[[Seen, Reply], Awaitable[None]]


# --- over a real socket -----------------------------------------------------------------------------------------------


class _SocketReply(Reply):
    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self.transport = transport
        self.is_chunked = False

    def head(self, status: int, headers: dict[str, str] | Sequence[tuple[str, str]], length: int | None) -> None:
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
        self.is_chunked = length is None
        pairs.append(("transfer-encoding", "chunked") if length is None else ("content-length", str(length)))
        lines = "".join(f"{name}: {value}\r\n" for name, value in pairs)
        self.transport.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode("latin-1"))

    def write(self, data: bytes) -> None:
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self.is_chunked else data)

    def raw(self, data: bytes) -> None:
        """Send raw bytes."""
        self.transport.write(data)

    def end(self) -> None:
        if self.is_chunked:
            self.transport.write(b"0\r\n\r\n")

    def cut(self) -> None:
        self.transport.abort()

    def half_close(self) -> None:
        self.transport.write_eof()


class _Connection(asyncio.Protocol):
    def __init__(self, server: "HttpServer") -> None:
        self.server = server
        self.buffer = b""
        self.reply: _SocketReply | None = None
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:  # uvloop's is not an asyncio.Transport
        self.transport: asyncio.Transport = transport
        self.server.connections.add(self)
        self.server.accepted += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._next()

    def _next(self) -> None:
        if self.task is not None or (end := self.buffer.find(b"\r\n\r\n")) < 0:
            return
        first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", "0"))
        if len(self.buffer) < end + 4 + size:
            return
        body, self.buffer = self.buffer[end + 4 : end + 4 + size], self.buffer[end + 4 + size :]
        method, path, _ = first.split(" ")
        seen = Seen(method, path, headers, body)
        self.server.seen.append(seen)
        self.reply = _SocketReply(self.transport)
        self.task = asyncio.get_running_loop().create_task(self._answer(seen, self.reply))

    async def _answer(self, seen: Seen, reply: _SocketReply) -> None:
        try:
            await self.server.script(seen, reply)
        except Exception as error:  # noqa: BLE001  # raised at the end of `served`
            self.server.failures.append(error)
            self.transport.abort()
        self.task = None
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        self.server.connections.discard(self)
        if self.reply is not None:
            self.reply.gone.set()


class HttpServer:
    """A script on a socket. `seen` are all requests, `accepted` the number of connections."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.connections: set[_Connection] = set()
        self.accepted = 0
        self.failures: list[Exception] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def received(self, what: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.what == what]

    async def start(self, ssl: Any = None) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port, ssl=ssl)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Accept no more connections, abort the open ones and wait until the loop has closed their sockets."""
        assert self._server is not None
        self._server.close()
        tasks = [connection.task for connection in self.connections if connection.task is not None]
        for connection in list(self.connections):
            connection.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        while self.connections:
            await asyncio.sleep(0)  # Python 3.11's wait_closed() does not wait for connections


@asynccontextmanager
async def served(script: Script, ssl: Any = None) -> AsyncIterator[HttpServer]:
    server = HttpServer(script)
    await server.start(ssl)
    try:
        yield server
    finally:
        await server.stop()
    assert server.failures == []


# --- in memory --------------------------------------------------------------------------------------------------------


class MemoryReply(Reply):
    """An in-memory response, which is also an `HttpResponse`."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.was_closed = False
        self._chunks: asyncio.Queue[bytes | McpError | None] = asyncio.Queue()

    def head(self, status: int, headers: dict[str, str] | Sequence[tuple[str, str]], length: int | None) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in dict(headers).items()}
        if not self.begun.done():
            self.begun.set_result(None)

    def write(self, data: bytes) -> None:
        self._chunks.put_nowait(data)

    def end(self) -> None:
        self._chunks.put_nowait(None)

    def cut(self) -> None:
        broken = OutcomeUnknownError("the connection broke")
        if self.begun.done():
            self._chunks.put_nowait(broken)
        else:
            self.begun.set_exception(broken)

    async def chunks(self) -> AsyncIterator[bytes]:
        while not self.was_closed:
            chunk = await self._chunks.get()
            if chunk is None:
                return
            if isinstance(chunk, McpError):
                raise chunk
            yield chunk

    async def close(self) -> None:
        self.was_closed = True
        self.gone.set()
        self._chunks.put_nowait(None)


class MemoryHttp:
    """An `HttpClient` whose server is a script. If the script raises an McpError, `send()` raises it."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.urls: list[str] = []
        self.replies: list[MemoryReply] = []
        self.is_closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    def received(self, what: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.what == what]

    async def send(self, method: str, url: str, headers: Sequence[tuple[str, str]], body: bytes | None) -> MemoryReply:
        folded = {name.lower(): value for name, value in headers}
        seen = Seen(method, "/" + url.partition("://")[2].partition("/")[2], folded, body or b"")
        self.seen.append(seen)
        self.urls.append(url)
        reply = MemoryReply()
        self.replies.append(reply)
        task = asyncio.get_running_loop().create_task(self._run(seen, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await reply.begun
        except asyncio.CancelledError:
            reply.gone.set()
            raise
        return reply

    async def _run(self, seen: Seen, reply: MemoryReply) -> None:
        try:
            await self.script(seen, reply)
        except Exception as error:
            if not reply.begun.done():
                reply.begun.set_exception(error)
            elif not reply.begun.cancelled():  # otherwise the client was cancelled
                raise

    async def close(self) -> None:
        self.is_closed = True
        for task in self._tasks:
            task.cancel()


# --- MCP --------------------------------------------------------------------------------------------------------------

TOOL = {"name": "echo", "inputSchema": {"type": "object"}}
CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {},
    "logging": {},
}


class Mcp:
    """A server of one revision. `on` has the scripts of a test by method (including `GET` and `DELETE`)."""

    def __init__(self, version: str = STATELESS, session: str | None = None, **on: Script) -> None:
        self.version = version
        self.session = session
        self.sessions: list[str] = []
        self.on: dict[str, Script] = {name.replace("__", "/"): script for name, script in on.items()}
        self.in_flight = 0

    async def __call__(self, seen: Seen, reply: Reply) -> None:
        what = seen.what
        if what in self.on:
            await self.on[what](seen, reply)
        elif self.is_forgotten(seen):
            reply.error(seen.id, -32600, "session not found", status=404)
        elif what == "server/discover" and self.version == STATELESS:
            reply.result(seen.id, self.discovered())
        elif what == "initialize" and self.version != STATELESS:
            self.initialize(seen, reply)
        elif what in ("GET", "DELETE"):
            reply.send(405)
        elif seen.id is None or what == "response":
            reply.send(202)
        elif what == "tools/list":
            reply.result(seen.id, {"tools": [TOOL], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
        elif what == "tools/call":
            text = json.dumps(seen.rpc["params"].get("arguments", {}))
            reply.result(seen.id, {"content": [{"type": "text", "text": text}], "resultType": "complete"})
        elif what == "ping":
            reply.result(seen.id, {})
        else:
            reply.error(seen.id, -32601, f"no {what}", status=404 if self.version == STATELESS else 400)

    def is_forgotten(self, seen: Seen) -> bool:
        session = seen.headers.get("mcp-session-id")
        return session is not None and session not in self.sessions

    def discovered(self) -> dict[str, Any]:
        return {
            "supportedVersions": [STATELESS],
            "capabilities": CAPABILITIES,
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        }

    def initialize(self, seen: Seen, reply: Reply) -> None:
        headers: dict[str, str] = {}
        if self.session is not None:
            self.sessions.append(f"{self.session}{len(self.sessions) + 1}")
            headers["mcp_session_id"] = self.sessions[-1]
        reply.result(seen.id, self.initialized(), **headers)

    def initialized(self) -> dict[str, Any]:
        info = {"name": "scripted", "version": "1"}
        return {"protocolVersion": self.version, "capabilities": CAPABILITIES, "serverInfo": info}
