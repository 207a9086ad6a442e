"""FastMCP's client, 3.x and 4.x."""

import asyncio
import sys

from _recovery import measure_recovery
from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    async with Client(StdioTransport(command=sys.argv[2], args=sys.argv[3:])) as client:

        async def call(name: str) -> str:
            return (await client.call_tool(name, {})).content[0].text

        await measure_recovery(call)


asyncio.run(main())
