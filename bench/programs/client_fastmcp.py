"""FastMCP's client, 3.x and 4.x; over HTTP if the server is a URL."""

import asyncio

from _calling import arguments, measure
from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    calls, in_flight, server = arguments()
    is_http = server[0].startswith("http")
    target = server[0] if is_http else StdioTransport(command=server[0], args=server[1:])
    async with Client(target) as client:

        async def call(text: str) -> str:
            return (await client.call_tool("echo", {"text": text})).content[0].text

        await measure(call, calls, in_flight)


asyncio.run(main())
