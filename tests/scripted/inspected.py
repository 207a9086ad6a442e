"""A server with every feature, inspected in memory."""

import inspect
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

from jackstay import Server
from jackstay.client import as_target
from jackstay.inspector import Choice, Inspection
from jackstay.inspector._api import InspectorApi
from jackstay.server import Context
from peers.asgi import request_app

KEY = "a-random-key"


def make_server() -> Server:
    server = Server("demo", version="1.2", instructions="Use add.")

    @server.tool(read_only=True)
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def count(context: Context) -> str:
        await context.progress(1, 2, "one")
        return "two"

    @server.tool
    def broken() -> str:
        raise RuntimeError("out of order")

    @server.tool
    async def survey(context: Context) -> str:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        answer = await context.elicit("Who are you?", schema)
        return f"{answer.action} {answer.content}"

    @server.tool
    async def write(context: Context) -> str:
        return (await context.sample("Write a poem.", max_tokens=10)).text

    @server.resource("note://today")
    def today() -> str:
        """The note of today."""
        return "buy milk"

    @server.resource("note://{day}")
    def note(day: str) -> str:
        return f"note of {day}"

    @server.prompt
    def greet(name: str) -> str:
        """Greet someone."""
        return f"Greet {name}"

    return server


class Inspected:
    """An inspection with its API. `get()` and `post()` send a request of the page."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.inspection = Inspection([Choice("demo", "a server in memory", as_target(server))])
        self.api = InspectorApi(self.inspection, KEY)
        self.app = self.api.app()

    async def request(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        headers.setdefault("authorization", f"Bearer {KEY}")
        return await request_app(self.app, method, path, body, **headers)

    async def get(self, path: str) -> Any:
        response = await self.request("GET", f"/api/{path}")
        assert response.status == 200, response.body
        return response.json

    async def post(self, path: str, status: int = 200, /, **body: Any) -> Any:
        response = await self.request("POST", f"/api/{path}", body)
        assert response.status == status, response.body
        return response.json

    async def call(self, tool: str, **arguments: Any) -> list[dict[str, Any]]:
        body = {"tool": tool, "arguments": arguments, "timeout": 60}
        response = await self.request("POST", "/api/call", body)
        return [json.loads(line) for line in response.body.splitlines() if line.strip()]

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The data of the published events of these kinds."""
        found = []
        for _, event in self.inspection.events.after(0):
            _, kind, data = event.decode().strip().split("\n")
            if kind.removeprefix("event: ") in kinds:
                found.append(json.loads(data.removeprefix("data: ")))
        return found


@asynccontextmanager
async def inspecting(server: Server | None = None) -> AsyncIterator[Inspected]:
    """Connect an inspection to a server; by default to the one of this file."""
    made = Inspected(server or make_server())
    await made.inspection.connect()
    # Until the server has acknowledged the subscription to its lists, so that no message is on its way.
    async for event in made.inspection.events.follow():
        if b"subscriptions/acknowledged" in event:
            break
    try:
        yield made
    finally:
        await made.inspection.close()
        made.api.close()


def with_inspected(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Call a test with an `Inspected` as its first argument; the others are fixtures."""

    @wraps(test)
    async def run(**fixtures: Any) -> None:
        async with inspecting() as inspected:
            await test(inspected, **fixtures)

    signature = inspect.signature(test)
    rest = list(signature.parameters.values())[1:]
    run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # read by pytest
    return run
