"""The official SDK's client: 1.x and 2.x have the same session over stdio."""

import asyncio

from _calling import arguments, measure
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main() -> None:
    calls, in_flight, server = arguments()
    parameters = StdioServerParameters(command=server[0], args=server[1:])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()

        async def call(text: str) -> str:
            return (await session.call_tool("echo", {"text": text})).content[0].text

        await measure(call, calls, in_flight)


asyncio.run(main())
