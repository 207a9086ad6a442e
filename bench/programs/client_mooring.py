"""Our client, through its public face."""

import asyncio

from _calling import arguments, measure

from mooring.client import connect
from mooring.transport import stdio


async def main() -> None:
    calls, in_flight, server = arguments()
    async with connect(stdio(*server), versions=("2025-11-25",)) as client:

        async def call(text: str) -> str:
            return (await client.tools.call("echo", {"text": text})).text

        await measure(call, calls, in_flight)


asyncio.run(main())
