"""A real client with an HTTP server in memory, and common scripts."""

import asyncio
from typing import Any

from jackstay.client import Client, connect
from jackstay.errors import TransportError
from jackstay.transport.http import http
from scripted.http import MemoryHttp, Reply, Script, Seen

URL = "http://127.0.0.1/mcp"


def client_of(script: Script, **options: Any) -> tuple[Client, MemoryHttp]:
    """A client that is not open yet, and the server behind its HTTP client."""
    server = MemoryHttp(script)
    shape = {name: options.pop(name) for name in ("max_connections",) if name in options}
    return connect(http(URL, client=server, **shape), **options), server


async def turns(count: int = 30) -> None:
    """Run `count` iterations of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def idle(seen: Seen, reply: Reply) -> None:
    """Never respond."""
    await reply.gone.wait()


async def unreachable(seen: Seen, reply: Reply) -> None:
    """Refuse the connection."""
    raise TransportError("cannot connect")


def declining(status: int, body: bytes = b"", kind: str = "text/plain") -> Script:
    """Respond to everything with this status."""

    async def decline(seen: Seen, reply: Reply) -> None:
        reply.send(status, body, kind)

    return decline
