"""Our client, which also asks a silent server for a sign of life every five seconds."""

import asyncio
import sys

from _holding import tell

from jackstay import connect, stdio


async def main() -> None:
    async with connect(stdio(*sys.argv[2:]), keepalive=5) as client:

        async def call(name: str) -> str:
            return (await client.tools.call(name)).text

        await tell(call)


asyncio.run(main())
