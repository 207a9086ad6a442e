"""The Jackstay client, through its public API; over HTTP if the server is a URL."""

import asyncio

from _calling import arguments, measure

from jackstay import connect, http, stdio
from jackstay.transport import Target


def target(server: list[str]) -> Target:
    return http(server[0]) if server[0].startswith("http") else stdio(*server)


async def main() -> None:
    calls, in_flight, server = arguments()
    async with connect(target(server), versions=("2025-11-25",)) as client:

        async def call(text: str) -> str:
            return (await client.tools.call("echo", {"text": text})).text

        await measure(call, calls, in_flight)


asyncio.run(main())
