"""The echo server with a limit of ten thousand concurrent requests per client."""

import sys

from jackstay.server import Server

server = Server("echo", version="1.0", max_concurrent=10_000)


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


sys.exit(server.run())
