"""A server for tests of HTTP sessions, and the streams of a session."""

import asyncio
from typing import Any

from jackstay.server import Context, Server
from jackstay.server.http import App
from jackstay.server.http._session import Session
from scripted.asgi import Http, Response, tool

ELICITATION = {"elicitation": {}}


def serving(**options: Any) -> Server:
    """A server whose tools echo, report progress, and send requests to the client."""
    server = Server("session", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def steps(ctx: Context, count: int) -> str:
        for step in range(count):
            ctx.progress(step + 1, count)
            await asyncio.sleep(0)
        return "done"

    @server.tool
    async def name(ctx: Context) -> str:
        answer = await ctx.elicit("who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"{answer.action}: {answer.content}"

    return server


def progressing(name: str = "steps", id: Any = 1, **arguments: Any) -> dict[str, Any]:
    """A call with a progress token."""
    message = tool(name, id, **arguments)
    message["params"]["_meta"] = {"progressToken": f"token {id}"}
    return message


async def listening(http: Http, last: str | None = None) -> Response:
    """The GET stream, from the event with this id on."""
    headers = {"accept": "text/event-stream", **({} if last is None else {"last-event-id": last})}
    response = await http.open("GET", headers=headers)
    assert response.status == 200, response.body
    return response


def only(app: App) -> Session:
    """The only session."""
    (session,) = app._sessions.all
    return session
