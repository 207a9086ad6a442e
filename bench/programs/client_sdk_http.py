"""The official SDK's client over Streamable HTTP, 1.x and 2.x."""

import asyncio

from _calling import arguments, measure
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    calls, in_flight, (url,) = arguments()
    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()

        async def call(text: str) -> str:
            return (await session.call_tool("echo", {"text": text})).content[0].text

        await measure(call, calls, in_flight)


asyncio.run(main())
