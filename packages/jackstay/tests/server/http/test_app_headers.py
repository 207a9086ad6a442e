"""Headers are read once, before the body: headers that an ASGI server adds later are ignored."""

import asyncio
import json
from typing import Any

import pytest

from jackstay.server import Server
from jackstay.server.http import keys
from scripted.asgi import stateless
from scripted.connection import status, talked

LATE = [
    (b"authorization", b"Bearer 0123456789abcdef"),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"echo"),
    (b"mcp-protocol-version", b"2026-07-28"),
    (b"origin", b"http://localhost"),
    (b"host", b"localhost"),
]
HEAD = [*LATE, (b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream")]


async def post(app: Any, head: list[tuple[bytes, bytes]], late: list[tuple[bytes, bytes]]) -> int:
    """Return the status of a call whose ASGI server adds `late` headers while the body is read."""
    body = json.dumps(stateless("tools/call", {"name": "echo", "arguments": {"text": "a"}})).encode()
    headers = list(head)
    status = 0

    async def receive() -> dict[str, Any]:
        headers.extend(late)
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    return status


async def test_a_header_added_while_the_body_is_read_is_ignored(subtests: pytest.Subtests) -> None:
    for name in [name for name, _ in LATE if name != b"origin"]:
        with subtests.test(name=name):
            server = Server("app")

            @server.tool
            async def echo(text: str) -> str:
                return text

            app = server.asgi(auth=keys({"alice": "0123456789abcdef"}), cors=["http://localhost"])
            late = [row for row in LATE if row[0] == name]
            assert await post(app, HEAD, []) == 200
            assert await post(app, [row for row in HEAD if row[0] != name], late) in (400, 401)
            assert await post(app, HEAD, [(name, b"other")]) == 200


def test_under_plain_uvicorn_with_h11_a_trailer_is_not_a_header() -> None:
    """The setup that docs/deployment.md recommends for apps that are not run by `run()`."""
    server = Server("app")
    runs = []

    @server.tool
    async def echo(text: str) -> str:
        runs.append(text)
        return text

    body = json.dumps(stateless("tools/call", {"name": "echo", "arguments": {"text": "a"}})).encode()
    head = b"".join(b"%b: %b\r\n" % row for row in HEAD if row[0] not in (b"authorization", b"origin"))
    chunk = b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    bearer = b"authorization: Bearer 0123456789abcdef\r\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        start = b"POST /mcp HTTP/1.1\r\ntransfer-encoding: chunked\r\n" + head
        writer.write(start + b"\r\n" + chunk + bearer + b"\r\n")
        assert await status(reader) == b"401"
        assert runs == []

    async def talk_with_header(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        start = b"POST /mcp HTTP/1.1\r\ntransfer-encoding: chunked\r\n" + head
        writer.write(start + bearer + b"\r\n" + chunk + b"\r\n")
        assert await status(reader) == b"200"

    app = server.asgi(auth=keys({"alice": "0123456789abcdef"}))
    talked(talk, app=app, protocol=lambda _: "h11")
    talked(talk_with_header, app=app, protocol=lambda _: "h11")
