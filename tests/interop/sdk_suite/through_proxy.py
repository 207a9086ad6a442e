"""A pytest plugin for the official Python SDK's interaction tests, with our proxy between its client and server.

It replaces the connection factory of the `streamable-http` leg. `JACKSTAY_SUITE_ERA=same` limits the proxy to the
revision of the client, with `per_client`; `free` leaves the era to the proxy, with a shared server.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from tests.interaction import conftest
from tests.interaction._connect import BASE_URL, NO_DNS_REBINDING_PROTECTION
from tests.interaction.transports._bridge import StreamingASGITransport

from jackstay import http
from jackstay.proxy import Proxy, ProxyOptions

ERA = os.environ["JACKSTAY_SUITE_ERA"]


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve the app on a free port, and yield its URL."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.get_running_loop().create_task(server._serve([listener]))
    while not server.started:
        await asyncio.sleep(0.001)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await task
        listener.close()


@asynccontextmanager
async def connect_through_proxy(
    server: Any, *, spec_version: str = LATEST_HANDSHAKE_VERSION, **options: Any
) -> AsyncIterator[Client]:
    """Like `connect_over_streamable_http` of the suite, with the proxy between the client and the server."""
    app = server.streamable_http_app(transport_security=NO_DNS_REBINDING_PROTECTION)
    is_same = ERA == "same"
    settings = {"versions": (spec_version,)} if is_same else {}
    async with server.session_manager.run(), serving(app) as url:
        proxy = Proxy(http(url), ProxyOptions(per_client=is_same), settings=settings)
        await proxy.open()
        try:
            async with (
                httpx2.AsyncClient(transport=StreamingASGITransport(proxy.asgi()), base_url=BASE_URL) as http_client,
                Client(
                    streamable_http_client(f"{BASE_URL}/mcp", http_client=http_client),
                    mode=spec_version if spec_version in MODERN_PROTOCOL_VERSIONS else "legacy",
                    **options,
                ) as client,
            ):
                yield client
        finally:
            await proxy.shutdown()


conftest._FACTORIES["streamable-http"] = connect_through_proxy
