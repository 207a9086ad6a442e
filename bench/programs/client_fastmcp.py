"""FastMCP's client, 3.x and 4.x."""

import asyncio

from _calling import arguments, measure
from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    calls, in_flight, server = arguments()
    async with Client(StdioTransport(command=server[0], args=server[1:])) as client:

        async def call(text: str) -> str:
            return (await client.call_tool("echo", {"text": text})).content[0].text

        await measure(call, calls, in_flight)


asyncio.run(main())
