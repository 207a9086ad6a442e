"""The Jackstay client with its default settings."""

import asyncio
import sys

from _recovery import measure_recovery

from jackstay import connect, stdio


async def main() -> None:
    async with connect(stdio(*sys.argv[2:])) as client:

        async def call(name: str) -> str:
            return (await client.tools.call(name)).text

        await measure_recovery(call)


asyncio.run(main())
