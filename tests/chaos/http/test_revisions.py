"""A client with default settings and a server that serves only some revisions, each in a process of its own."""

import pytest

from jackstay.client import connect
from jackstay.transport.http import http
from peers.http_process import Serving
from scripted.loop import timed


@pytest.mark.parametrize("versions", [["2025-11-25"], ["2025-03-26", "2025-06-18"], ["2026-07-28"]])
def test_the_newest_revision_of_the_server_is_found(versions: list[str]) -> None:
    """2026-07-28 basic/versioning: a server without that revision must not be taken for one that has it."""

    @timed
    async def test() -> None:
        async with connect(http(f"http://127.0.0.1:{server.port}/mcp")) as client:
            assert client.protocol_version == versions[-1]
            assert await client.tools.list()

    with Serving(versions=versions) as server:
        test()
