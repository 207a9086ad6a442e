"""A small user program with complete annotations. It is not run.

`make types` checks it with mypy, `make interop` with pyright, both in strict mode.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, assert_type

import msgspec

from jackstay import Client, Fleet, McpError, OutcomeUnknownError, Server, connect, http, stdio
from jackstay import sync as blocking
from jackstay.client import Clent  # type: ignore[attr-defined]  # noqa: F401  # a misspelt name is an error
from jackstay.server import Context, ToolError
from jackstay.testing import ScriptedPeer, memory_pair
from jackstay.types import CallToolResult, CreateMessageResult, ElicitResult, TextContent, Tool

server = Server("shop", version="1.0", instructions="Orders.")


@dataclass
class Order:
    """What was ordered."""

    number: int
    items: list[str]


class Address(msgspec.Struct):
    """Where to."""

    street: str
    city: str = "Lima"


@server.tool(read_only=True)
async def find(number: Annotated[int, msgspec.Meta(ge=1)]) -> Order:
    """Find an order."""
    return Order(number, ["rope"])


@server.tool
async def send(ctx: Context, number: int) -> str:
    """Send an order, and elicit the address."""
    ctx.progress(1, 2)
    answer = await ctx.elicit("Where to?", Address)
    if not answer.is_accepted:
        raise ToolError("not without an address")
    return f"{number} goes to {answer.data.city}"


@server.resource("orders://{number}")
def order(number: int) -> str:
    """An order as text."""
    return f"order {number}"


@server.prompt
def thank(name: str) -> str:
    """Return thanks."""
    return f"Thank {name}."


async def call(client: Client, number: int) -> str:
    """Call, and handle each kind of outcome."""
    try:
        result = await client.tools.call("find", {"number": number}, timeout=5)
    except OutcomeUnknownError as unknown:
        return f"may have run: {unknown.may_have_run}"
    except McpError as error:
        return f"{error}: {error.retryable}"
    assert_type(result, CallToolResult)
    assert_type(result.text, str)
    return result.text


async def main() -> None:
    """Every kind of connection, with handlers and events."""
    async with connect(stdio("python", "shop.py")) as client:
        tools = await client.tools.list()
        assert_type(tools, list[Tool])
        print([tool.name for tool in tools], await call(client, 7))

        @client.sampling.handle
        async def sample(params: object) -> CreateMessageResult:
            return CreateMessageResult(role="assistant", content=TextContent(text="4"), model="m")

        @client.elicitation.handle
        def request(params: object) -> ElicitResult:
            return ElicitResult(action="decline")

        leave = client.on_event(lambda name, fields: print(name, fields))
        leave()
    connect(stdio("python", "shop.py"), request_timout=5)  # type: ignore[call-arg]  # an unknown option
    connect(stdio("python", "shop.py"), busy="perhaps")  # type: ignore[arg-type]  # as above
    async with connect(http("https://example.org/mcp", auth="token")) as remote:
        await remote.resources.subscribe("orders://1", lambda uri: print(uri))
        await remote.stop(drain=5)
    async with Fleet.from_config("mcp.json") as fleet:
        print(await fleet.tools())
    async with ScriptedPeer() as peer, connect(peer.target) as scripted:
        await scripted.ready(1)
    memory_pair()


def without_a_loop() -> str:
    """The same for blocking code."""
    with blocking.connect(stdio("python", "shop.py")) as client:
        result = client.tools.call("find", {"number": 1})
        assert_type(result, CallToolResult)
        return result.text


if __name__ == "__main__":
    asyncio.run(main())
    server.run(transport="http", port=8000)
