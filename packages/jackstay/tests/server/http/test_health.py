"""The response of `/health`."""

import json
from collections.abc import Mapping

import pytest

from jackstay.errors import Json
from jackstay.server import Server
from jackstay.server.http._health import health_response


class Source:
    server = Server("demo", version="1.2")
    is_draining = False
    connections = 3
    sessions = 2
    backend: str | None = None


async def test_a_serving_endpoint_is_ok() -> None:
    status, body = await health_response(Source())
    assert status == 200
    assert json.loads(body) == {
        "status": "ok",
        "name": "demo",
        "version": "1.2",
        "connections": 3,
        "sessions": 2,
    }


async def test_the_backend_is_shown() -> None:
    source = Source()
    source.backend = "down"
    status, body = await health_response(source)
    assert (status, json.loads(body)["backend"]) == (200, "down")


async def test_a_draining_endpoint_is_503() -> None:
    source = Source()
    source.is_draining = True
    status, body = await health_response(source)
    assert (status, json.loads(body)["status"]) == (503, "draining")


async def test_the_status_depends_on_the_check(subtests: pytest.Subtests) -> None:
    for state, status in (("ok", 200), ("down", 503), ("unresponsive", 503)):
        with subtests.test(state=state, status=status):

            async def check(state: str = state) -> tuple[str, Mapping[str, Json]]:
                return state, {"servers": [state]}

            found, body = await health_response(Source(), check)
            health = json.loads(body)
            assert (found, health["status"], health["servers"], health["sessions"]) == (status, state, [state], 2)
