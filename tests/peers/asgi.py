"""Requests to an ASGI app, without a socket."""

import asyncio
import json
from typing import Any

from peers.http_process import HttpReply


async def request_app(
    app: Any, method: str = "POST", path: str = "/mcp", body: Any = None, root: str = "", **headers: str
) -> HttpReply:
    """Send one request and return the complete response. `_` in header names becomes `-`; the Host is localhost."""
    lines = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body is not None:
        lines["content-type"] = "application/json"
    scope = {
        "type": "http",
        "method": method,
        "path": root + path,
        "root_path": root,
        "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
    }
    messages = iter([{"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}])
    sent: list[Any] = []

    async def receive() -> Any:
        message = next(messages, None)
        return message if message is not None else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return HttpReply(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


def request_app_sync(app: Any, *arguments: Any, **more: Any) -> HttpReply:
    """Run `request_app()` on a new event loop."""
    return asyncio.run(request_app(app, *arguments, **more))
