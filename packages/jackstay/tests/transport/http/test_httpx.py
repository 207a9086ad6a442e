"""httpx clients passed by users; their failures are tested in `test_aiohttp.py`."""

import httpx
import httpx2
import pytest

from jackstay.client import connect
from jackstay.transport.http import http
from jackstay.transport.http._httpx import HttpxClient
from scripted.http import HANDSHAKE, STATELESS, Mcp, served


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
async def test_an_httpx_client_is_used_and_not_closed(library: object, version: str) -> None:
    async with (
        served(Mcp(version, session="s")) as server,
        library.AsyncClient(headers={"X-User": "1"}, trust_env=False) as inner,  # type: ignore[attr-defined]
    ):
        async with connect(http(server.url, client=inner)) as client:
            assert (await client.tools.call("echo", {"a": 1})).text == '{"a": 1}'
        assert not inner.is_closed
        assert server.seen[-1].headers["x-user"] == "1"


def test_the_read_timeout_of_the_client_is_not_used() -> None:
    """Calls have their own deadlines, and streams stay open."""
    client = HttpxClient(httpx.AsyncClient(timeout=httpx.Timeout(5.0, connect=1.0)), httpx)
    assert client._timeout.as_dict() == {"connect": 1.0, "read": None, "write": None, "pool": 5.0}
