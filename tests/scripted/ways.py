"""A server in memory, over stdio and over HTTP, each with a client of both eras."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from jackstay import Client, Server, connect
from scripted.places import ROOT

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
EACH_WAY = pytest.mark.parametrize(
    ("way", "version"), [(way, version) for way in ("memory", "stdio", "http") for version in (HANDSHAKE, STATELESS)]
)


@asynccontextmanager
async def reached(server: Server, way: str, version: str, peer: str = "authored.py") -> AsyncIterator[Client]:
    """Connect a client to `server`; over stdio to the program `tests/peers/PEER`, which serves the same."""
    if way == "memory":
        async with connect(server, versions=(version,)) as client:
            yield client
    elif way == "stdio":
        async with connect(ROOT / "tests" / "peers" / peer, versions=(version,)) as client:
            yield client
    else:
        async with (
            on_port(server.asgi()) as port,
            connect(f"http://127.0.0.1:{port}/mcp", versions=(version,)) as client,
        ):
            yield client


@asynccontextmanager
async def on_port(app: Any, lifespan: Any = "on") -> AsyncIterator[int]:
    """Serve an ASGI app with uvicorn on a free port."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    serving = uvicorn.Server(uvicorn.Config(app, lifespan=lifespan, log_config=None, timeout_graceful_shutdown=2))
    task = asyncio.get_running_loop().create_task(serving._serve([listening]))
    while not serving.started and not task.done():
        await asyncio.sleep(0)
    try:
        yield listening.getsockname()[1]
    finally:
        serving.should_exit = True
        await task
        listening.close()
