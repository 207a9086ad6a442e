"""The official SDK's session over stdio, 1.x and 2.x."""

import asyncio
import sys

from _recovery import measure_recovery
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main() -> None:
    parameters = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()

        async def call(name: str) -> str:
            return (await session.call_tool(name, {})).content[0].text

        await measure_recovery(call)


asyncio.run(main())
