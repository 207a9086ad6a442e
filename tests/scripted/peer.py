"""A client with a scripted peer, and common results of servers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jackstay.client import Client, connect
from jackstay.testing import ScriptedPeer

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
ERAS = (HANDSHAKE, STATELESS)


@asynccontextmanager
async def peered(version: str = HANDSHAKE, **options: Any) -> AsyncIterator[tuple[Client, ScriptedPeer]]:
    """A client that is not open yet, and its peer; both are closed at the end."""
    capabilities = options.pop("server_capabilities", None)
    async with ScriptedPeer(version, capabilities) as peer:
        client = connect(peer.target, **options)
        try:
            yield client, peer
        finally:
            await client.stop()


@asynccontextmanager
async def opened(version: str = HANDSHAKE, **options: Any) -> AsyncIterator[tuple[Client, ScriptedPeer]]:
    """A client that is ready, and its peer."""
    async with peered(version, **options) as (client, peer):
        await client.open()
        yield client, peer


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A tool as a server lists it."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def text_result(text: str, **more: Any) -> dict[str, Any]:
    """A tool result with this text."""
    return {"content": [{"type": "text", "text": text}], **more}


def now() -> float:
    """The time of the loop (the fake clock, if there is one)."""
    return asyncio.get_running_loop().time()


def listen(client: Client) -> list[tuple[str, dict[str, Any]]]:
    """Every event of its telemetry, from now on."""
    events: list[tuple[str, dict[str, Any]]] = []
    client.on_event(lambda name, fields: events.append((name, dict(fields))))
    return events
