"""Serve the page of an inspection on loopback until cancelled."""

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from jackstay.errors import UsageError
from jackstay.extras import install_command
from jackstay.inspector._api import InspectorApi

if TYPE_CHECKING:
    from jackstay.inspector._inspection import Inspection


async def serve_inspection(inspection: "Inspection", port: int, on_ready: Callable[[str], object]) -> None:
    """Connect, and serve the page on 127.0.0.1 until cancelled. `on_ready` is called with its URL.

    The key in the URL is random. It is in the fragment, which browsers do not send, so that no log contains it.

    Raises: UsageError if the HTTP parser is missing; TransportError if the port is in use.
    """
    try:
        from jackstay.server.http import Http1Server, bind_sockets  # noqa: PLC0415  # httptools is an extra
    except ImportError as missing:
        raise UsageError(f"the inspector needs the extra `http`: {install_command('http')}") from missing
    token = secrets.token_urlsafe(32)
    sockets = bind_sockets("127.0.0.1", port)
    api = InspectorApi(inspection, token)
    url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/#key={token}"
    server = Http1Server(api.app(), on_ready=lambda: on_ready(url))
    serving = asyncio.ensure_future(server.serve(sockets))
    try:
        await inspection.connect()
        await asyncio.shield(serving)
    finally:
        await inspection.close()
        server.stop()
        await serving
        for sock in sockets:
            sock.close()
        api.close()
