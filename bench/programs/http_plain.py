"""A prototype of an ASGI server: one asyncio protocol on httptools, without limits, timeouts or pipelining.

It is measured by `http_server_choice.py`, to show the least that a server written for one endpoint could cost.
"""

import asyncio
from typing import Any

import httptools

PHRASES = {200: b"OK", 202: b"Accepted"}


class Plain(asyncio.Protocol):
    """One connection."""

    def __init__(self, app: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.app, self.loop = app, loop
        self.parser = httptools.HttpRequestParser(self)
        self.transport: Any = None
        self.task: asyncio.Task[None] | None = None
        self.url, self.body, self.head = b"", b"", b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_chunked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.client = transport.get_extra_info("peername")

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        scope = {
            "type": "http",
            "method": self.parser.get_method().decode("ascii"),
            "path": self.url.partition(b"?")[0].decode("ascii"),
            "query_string": b"",
            "root_path": "",
            "headers": self.headers,
            "client": self.client,
        }
        self.task = self.loop.create_task(self.app(scope, self.receive, self.send))
        self.url, self.headers = b"", []

    async def receive(self) -> dict[str, Any]:
        body, self.body = self.body, b""
        return {"type": "http.request", "body": body}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status, lines = message["status"], [name + b": " + value for name, value in message["headers"]]
            self.is_chunked = not any(line.startswith(b"content-length") for line in lines)
            if self.is_chunked:
                lines.append(b"transfer-encoding: chunked")
            self.head = b"HTTP/1.1 %d %b\r\n%b\r\n\r\n" % (status, PHRASES[status], b"\r\n".join(lines))
            return
        body = message.get("body", b"")
        if self.is_chunked:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        self.transport.write(self.head + body)


async def serve(app: Any, port: int) -> None:
    """Serve until the process is killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Plain(app, loop), "127.0.0.1", port)
    await server.serve_forever()
