"""One connection to a plain ASGI app on the HTTP server of `run()`, for tests of raw HTTP."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from jackstay.server.http._listening import Http1Server
from jackstay.server.http._sockets import bind_sockets, port_of

LIMIT = 4096
GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n"
Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def hello(scope: dict, receive: Callable, send: Callable) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


def talked(
    talk: Conversation,
    timeout: float = 5.0,
    keepalive: int = 5,
    app: Any = hello,
    protocol: Any = None,
    *,
    handle: Any = None,
) -> None:
    """Serve on a socket with these limits, connect to it, and run `talk` with the connection.

    `protocol` returns a protocol of uvicorn for a timeout, to be used instead of `Http1Server`. `handle` serves a
    request without ASGI.
    """

    async def test() -> None:
        sockets = bind_sockets("127.0.0.1", 0)
        is_ready = asyncio.Event()
        server: Any
        if protocol is None:
            server = Http1Server(
                app,
                handle=handle,
                keepalive_timeout=keepalive,
                header_timeout=timeout,
                max_header_bytes=LIMIT,
                on_ready=is_ready.set,
            )
        else:
            server = on_uvicorn(app, protocol(timeout), keepalive, is_ready.set)
        serving = asyncio.create_task(server.serve(sockets))
        await is_ready.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(sockets))
        try:
            async with asyncio.timeout(60):
                await talk(reader, writer)
        finally:
            writer.close()
            server.stop()
            await serving

    asyncio.run(test())


def on_uvicorn(app: Any, protocol: Any, keepalive: int, on_ready: Callable[[], None]) -> Any:
    class Server(uvicorn.Server):
        async def serve(self, sockets: list[socket.socket] | None = None) -> None:
            await self._serve(sockets)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready()

        def stop(self) -> None:
            self.should_exit = True

    config = uvicorn.Config(
        app,
        http=protocol,
        log_config=None,
        lifespan="off",
        ws="none",
        timeout_keep_alive=keepalive,
        h11_max_incomplete_event_size=LIMIT,
    )
    return Server(config)


async def status(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if b"content-length: 2" in head.lower():
        await reader.readexactly(2)
    return head.split(b" ")[1]


async def mirror(scope: dict, receive: Callable, send: Callable) -> None:
    """Echo the method, the number of upgrade headers, and the body."""
    body = b""
    is_more = True
    while is_more:
        message = await receive()
        body += message.get("body", b"")
        is_more = message.get("more_body", False)
    names = [name for name, _ in scope["headers"] if name in (b"upgrade", b"http2-settings")]
    echo = b"%b %d %b" % (scope["method"].encode(), len(names), body)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(echo))]})
    await send({"type": "http.response.body", "body": echo})


async def mirrored(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The head and the body of a response."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head, await reader.readexactly(size)
