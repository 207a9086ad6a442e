"""The echo server, willing to serve ten thousand requests of one client at once."""

import sys

from jackstay.server import Server

server = Server("echo", version="1.0", max_concurrent=10_000)


@server.tool
async def echo(text: str) -> str:
    """Say the same again."""
    return text


sys.exit(server.run())
