"""Our client, as `async with` opens it; `wait_for_ready` says that a call may wait for a new server."""

import asyncio
import sys

from _holding import tell

from mooring import connect, stdio


async def main() -> None:
    async with connect(stdio(*sys.argv[2:]), wait_for_ready=True) as client:

        async def call(name: str) -> str:
            return (await client.tools.call(name)).text

        await tell(call)


asyncio.run(main())
