"""The official SDK's `Client`, 2.x."""

import asyncio
import sys

from _recovery import measure_recovery
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main() -> None:
    async with Client(stdio_client(StdioServerParameters(command=sys.argv[2], args=sys.argv[3:]))) as client:

        async def call(name: str) -> str:
            return (await client.call_tool(name, {})).content[0].text

        await measure_recovery(call)


asyncio.run(main())
