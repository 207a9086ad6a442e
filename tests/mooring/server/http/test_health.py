"""What a load balancer is told."""

import json

from mooring.server.http._health import health_answer


class Counted:
    is_draining = False
    connections = 3
    sessions = 2


def test_a_server_that_serves_is_well() -> None:
    status, body = health_answer(Counted(), "demo", "1.2")
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
    status, body = health_answer(counts, "demo", "1.2")
    assert (status, json.loads(body)["status"]) == (503, "draining")
