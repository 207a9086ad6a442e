"""`/health`: status, counts, and the reasons of skipped modules."""

from typing import Any

import pytest
from apcore import Registry

from apcore_mcp.auth.guard import OptionalAuth
from apcore_mcp.catalogue import Catalogue
from apcore_mcp.health import make_health
from jackstay.server import MemoryBackend, Server
from jackstay.server.http import keys
from peers.asgi import request_app_sync

KEY = "alice-0123456789abcdef"


@pytest.fixture
def catalogue(registry: Registry) -> Catalogue:
    made = Catalogue(registry)
    made.refresh()
    made.skip("math.later", "ValueError: /home/alice/secret.py is broken")
    return made


def page(app: Any, catalogue: Catalogue) -> Any:
    return make_health(app, catalogue, 100.0, clock=lambda: 142.5)


def test_health_report(catalogue: Catalogue) -> None:
    response = request_app_sync(page(Server("demo", version="1.2").asgi(), catalogue), "GET", "/health")
    assert response.status == 200
    assert response.json == {
        "status": "ok",
        "name": "demo",
        "version": "1.2",
        "uptime_seconds": 42.5,
        "tools": 3,
        "module_count": 3,
        "skipped_count": 1,
        "connections": 0,
        "sessions": 0,
        "skipped": [{"id": "math.later", "reason": "ValueError: /home/alice/secret.py is broken"}],
    }


@pytest.mark.parametrize("headers", [{"host": "10.0.0.7"}, {"origin": "https://evil.example"}])
def test_other_hosts_get_only_the_status(catalogue: Catalogue, headers: dict[str, str]) -> None:
    """A web page can read it by DNS rebinding."""
    response = request_app_sync(page(Server("demo").asgi(), catalogue), "GET", "/health", **headers)
    assert (response.status, response.json) == (200, {"status": "ok"})


def test_reasons_require_the_token(catalogue: Catalogue) -> None:
    health = page(Server("demo").asgi(auth=keys(KEY)), catalogue)
    response = request_app_sync(health, "GET", "/health")
    assert (response.status, response.json["skipped_count"]) == (200, 1)
    assert b"secret" not in response.body
    assert "skipped" in request_app_sync(health, "GET", "/health", authorization=f"Bearer {KEY}").json


def test_reasons_require_the_token_also_where_none_is_needed(catalogue: Catalogue) -> None:
    for options in ({"require_auth": True, "exempt_paths": ["/health"]}, {"require_auth": False, "exempt_paths": ()}):
        health = page(Server("demo").asgi(auth=OptionalAuth(keys(KEY), **options)), catalogue)
        assert "skipped" not in request_app_sync(health, "GET", "/health").json
        assert "skipped" in request_app_sync(health, "GET", "/health", authorization=f"Bearer {KEY}").json


def test_the_backend_is_shown(catalogue: Catalogue) -> None:
    app = Server("demo", backend=MemoryBackend()).asgi()
    assert request_app_sync(page(app, catalogue), "GET", "/health").json["backend"] == "ok"


def test_draining_server_is_unhealthy(catalogue: Catalogue) -> None:
    app = Server("demo").asgi()
    app.refuse_new()
    response = request_app_sync(page(app, catalogue), "HEAD", "/health")
    assert (response.status, response.json["status"]) == (503, "draining")


def test_only_get_is_allowed(catalogue: Catalogue) -> None:
    assert request_app_sync(page(Server("demo").asgi(), catalogue), "POST", "/health", body={}).status == 405
