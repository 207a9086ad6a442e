"""Who may read beside the endpoint: the endpoint's own rules, and for the inspector its own page alone (DNS rebinding, CSRF)."""

import asyncio
from typing import Any

import pytest

from apcore_mcp.admission import admit, check_same_origin
from apcore_mcp.answers import Refused
from jackstay.server import Server
from jackstay.server.http import NOBODY, keys

KEY = "alice-0123456789abcdef"


def scope(**headers: str) -> dict[str, Any]:
    lines = {"host": "localhost:8000", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return {
        "type": "http",
        "method": "GET",
        "path": "/metrics",
        "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
    }


def status_of(app: Any, **headers: str) -> int:
    try:
        asyncio.run(admit(app, scope(**headers)))
    except Refused as error:
        return error.refusal.status
    return 200


def test_without_authentication_everybody_who_calls_it_by_its_name_is_nobody() -> None:
    assert asyncio.run(admit(Server("demo").asgi(), scope())) is NOBODY


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": ""}, 400),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:3000"}, 200),
    ],
)
def test_foreign_names_and_pages_are_refused_as_at_the_endpoint(headers: dict[str, str], status: int) -> None:
    assert status_of(Server("demo").asgi(), **headers) == status


def test_a_token_is_wanted_where_the_endpoint_wants_one() -> None:
    app = Server("demo").asgi(auth=keys({"alice": KEY}))
    assert status_of(app) == 401
    assert status_of(app, authorization="Bearer wrong-0123456789abcdef") == 401
    assert asyncio.run(admit(app, scope(authorization=f"Bearer {KEY}"))).id == "alice"


@pytest.mark.parametrize(
    ("headers", "is_ours"),
    [
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
    ],
)
def test_only_our_own_page_or_no_page_may_drive_the_inspector(headers: dict[str, str], is_ours: bool) -> None:
    refusal = check_same_origin(headers)
    assert (refusal is None) is is_ours
    assert refusal is None or refusal.status == 403
