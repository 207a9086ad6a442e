"""What a load balancer is told."""

import asyncio
import json
from collections.abc import Mapping

import pytest

from jackstay.errors import Json
from jackstay.server.http._health import health_answer


class Counted:
    is_draining = False
    connections = 3
    sessions = 2


def test_a_server_that_serves_is_well() -> None:
    status, body = asyncio.run(health_answer(Counted(), "demo", "1.2"))
    assert status == 200
    assert json.loads(body) == {
        "status": "ok",
        "name": "demo",
        "version": "1.2",
        "connections": 3,
        "sessions": 2,
    }


def test_a_server_that_drains_asks_for_no_more() -> None:
    counts = Counted()
    counts.is_draining = True
    status, body = asyncio.run(health_answer(counts, "demo", "1.2"))
    assert (status, json.loads(body)["status"]) == (503, "draining")


@pytest.mark.parametrize(("state", "status"), [("ok", 200), ("down", 503), ("unresponsive", 503)])
def test_what_it_depends_on_counts(state: str, status: int) -> None:
    async def check() -> tuple[str, Mapping[str, Json]]:
        return state, {"servers": [state]}

    found, body = asyncio.run(health_answer(Counted(), "demo", "1.2", check))
    told = json.loads(body)
    assert (found, told["status"], told["servers"], told["sessions"]) == (status, state, [state], 2)
