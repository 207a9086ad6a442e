"""A client with default settings and a server process that supports only some revisions."""

import pytest

from jackstay.client import connect
from jackstay.transport.http import http
from peers.http_process import Serving


@pytest.mark.parametrize("versions", [["2025-11-25"], ["2025-03-26", "2025-06-18"], ["2026-07-28"]])
async def test_the_newest_common_revision_is_negotiated(versions: list[str]) -> None:
    """2026-07-28 basic/versioning."""
    with Serving(versions=versions) as server:
        async with connect(http(f"http://127.0.0.1:{server.port}/mcp")) as client:
            assert client.protocol_version == versions[-1]
            assert await client.tools.list()
