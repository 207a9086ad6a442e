"""A server that uses the options of tools and the context, for tests over every transport. As a program: stdio."""

import asyncio
import datetime
import sys
import threading
from dataclasses import dataclass
from typing import Annotated

import msgspec

from jackstay.server import Context, Server

# Set when the blocking tool saw its timeout.
SAW_TIMEOUT = threading.Event()


@dataclass
class Line:
    name: str
    count: int


@dataclass
class Order:
    id: int
    at: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    lines: list[Line]


def make() -> Server:
    server = Server("authored", version="1")

    @server.tool(timeout=0.05, tags={"slow"}, annotations={"title": "Waits", "readOnlyHint": True})
    async def wait() -> str:
        await asyncio.Event().wait()
        return "never"

    @server.tool(timeout=0.05)
    def block(ctx: Context) -> str:
        ctx.cancelled.wait()
        SAW_TIMEOUT.set()
        return "too late"

    @server.tool(timeout=60)
    async def quick() -> str:
        return "in time"

    @server.tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    async def described(n: str) -> dict[str, object]:
        return {"n": int(n) if n.isdigit() else n}

    @server.tool
    async def about(ctx: Context) -> dict[str, object]:
        request = ctx.request
        return {
            "client": None if ctx.client.info is None else ctx.client.info.name,
            "elicits": ctx.client.capabilities.elicitation is not None,
            "request": None if request is None else [request.method, request.path, request.client],
            "host": None if request is None else request.headers["host"],
        }

    @server.tool
    async def order(id: int) -> Order:
        return Order(id, datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), [Line("tea", 2)])

    @server.tool
    async def orders() -> list[Order]:
        return [Order(1, datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), [])]

    @server.tool
    async def twice(n: int) -> int:
        results = [await server.call_tool("described", {"n": str(n)}) for _ in range(2)]
        return sum(result.structured_content["n"] for result in results)  # type: ignore[index,call-overload,misc]

    @server.tool(enabled=False)
    async def hidden() -> str:
        return "hidden"

    @server.resource("x://hidden", enabled=False)
    async def hidden_resource() -> str:
        return "hidden"

    @server.prompt(enabled=False)
    async def hidden_prompt() -> str:
        return "hidden"

    return server


if __name__ == "__main__":
    sys.exit(make().run())
