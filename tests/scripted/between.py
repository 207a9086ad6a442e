"""An in-memory proxy between a scripted server and clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from jackstay.client import Client, connect
from jackstay.proxy import Proxy, ProxyOptions
from jackstay.testing import ScriptedPeer
from jackstay.transport import memory_pair

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
ERAS = (HANDSHAKE, STATELESS)
# The eras of the client and of the server.
PAIRS = tuple((front, back) for front in ERAS for back in ERAS)

FAST = {"backoff_min": 0.5, "backoff_max": 1.0}


class Between:
    """A proxy with its server `peer`; `join()` connects a client."""

    def __init__(self, peer: ScriptedPeer, proxy: Proxy, stack: AsyncExitStack) -> None:
        self.peer = peer
        self.proxy = proxy
        self._stack = stack

    def make(self, version: str = HANDSHAKE, **settings: Any) -> Client:
        """A client of the proxy that is not open yet."""
        pair = memory_pair("front")
        serving = asyncio.ensure_future(self.proxy.serve(pair.server))
        client = connect(pair.client, versions=(version,), **settings)

        async def end() -> None:
            await client.stop()
            await serving

        self._stack.push_async_callback(end)
        return client

    async def join(self, version: str = HANDSHAKE, **settings: Any) -> Client:
        """An open client of the proxy."""
        client = self.make(version, **settings)
        await client.open()
        return client


@asynccontextmanager
async def between(
    back: str = HANDSHAKE,
    capabilities: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Between]:
    """An open proxy for a scripted server of this revision."""
    async with ScriptedPeer(back, capabilities, name="behind") as peer:
        proxy = Proxy(peer.target, ProxyOptions(**options), settings={**FAST, **(settings or {})})
        await proxy.open()
        try:
            async with AsyncExitStack() as stack:
                yield Between(peer, proxy, stack)
        finally:
            await proxy.shutdown()
