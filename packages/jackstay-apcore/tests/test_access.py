"""Access control of the pages besides the endpoint (DNS rebinding, CSRF)."""

from typing import Any

import pytest

from apcore_mcp.access import authorize
from jackstay.inspector import RequestRejected, check_same_origin
from jackstay.server import Server
from jackstay.server.http import ANONYMOUS, keys

KEY = "alice-0123456789abcdef"


def scope(**headers: str) -> dict[str, Any]:
    lines = {"host": "localhost:8000", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return {
        "type": "http",
        "method": "GET",
        "path": "/metrics",
        "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
    }


async def status_of(app: Any, **headers: str) -> int:
    try:
        await authorize(app, scope(**headers))
    except RequestRejected as error:
        return error.response.status
    return 200


async def test_anonymous_without_authentication() -> None:
    assert await authorize(Server("demo").asgi(), scope()) is ANONYMOUS


HOSTS_AND_ORIGINS: list[tuple[dict[str, str], int]] = [
    ({"host": "evil.example"}, 403),
    ({"host": ""}, 400),
    ({"origin": "https://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "http://localhost:3000"}, 200),
]


async def test_hosts_and_origins() -> None:
    for headers, status in HOSTS_AND_ORIGINS:
        assert await status_of(Server("demo").asgi(), **headers) == status, headers


async def test_token_is_required() -> None:
    app = Server("demo").asgi(auth=keys({"alice": KEY}))
    assert await status_of(app) == 401
    assert await status_of(app, authorization="Bearer wrong-0123456789abcdef") == 401
    assert (await authorize(app, scope(authorization=f"Bearer {KEY}"))).id == "alice"


SAME_ORIGIN: list[tuple[dict[str, str], bool]] = [
    ({"host": "localhost:8000"}, True),
    ({"host": "localhost:8000", "origin": "http://localhost:8000"}, True),
    (
        {"host": "Localhost:8000", "origin": "http://LOCALHOST:8000", "sec-fetch-site": "same-origin"},
        True,
    ),
    ({"host": "localhost:8000", "sec-fetch-site": "none"}, True),
    ({"host": "localhost:8000", "origin": "http://localhost:3000"}, False),
    ({"host": "localhost:8000", "origin": "http://127.0.0.1:8000"}, False),
    ({"host": "localhost:8000", "origin": "null"}, False),
    ({"host": "localhost:8000", "origin": "http://["}, False),
    ({"host": "localhost:8000", "sec-fetch-site": "same-site"}, False),
    ({"host": "localhost:8000", "sec-fetch-site": "cross-site"}, False),
    ({"host": "", "origin": "http://localhost"}, False),
]


def test_check_same_origin(subtests: pytest.Subtests) -> None:
    for headers, is_allowed in SAME_ORIGIN:
        with subtests.test(headers=headers):
            response = check_same_origin(headers)
            assert (response is None) is is_allowed
            assert response is None or response.status == 403
