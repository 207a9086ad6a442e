"""The Jackstay client with a keepalive every five seconds."""

import asyncio
import sys

from _recovery import measure_recovery

from jackstay import connect, stdio


async def main() -> None:
    async with connect(stdio(*sys.argv[2:]), keepalive=5) as client:

        async def call(name: str) -> str:
            return (await client.tools.call(name)).text

        await measure_recovery(call)


asyncio.run(main())
