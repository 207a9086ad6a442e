"""Prometheus metrics and access to them."""

import pytest

from jackstay.server.http import BearerAuth, keys
from procontext.metrics import PATH, Metrics, MetricsApp
from scripted.asgi import http_client

KEY = "a-key-of-more-than-16-characters"


def counted() -> Metrics:
    metrics = Metrics()
    metrics.count("resolve_library", "ok", 0.0002)
    metrics.count("resolve_library", "ok", 0.0002)
    metrics.count("read_page", "PAGE_NOT_FOUND", 99.0)
    return metrics


def test_calls_are_counted_by_tool_and_outcome() -> None:
    """Prometheus text format 0.0.4: cumulative buckets, sum and count."""
    text = counted().text({"registry_libraries": 478})
    assert 'procontext_tool_calls_total{tool="resolve_library",outcome="ok"} 2\n' in text
    assert 'procontext_tool_calls_total{tool="read_page",outcome="PAGE_NOT_FOUND"} 1\n' in text
    assert 'procontext_tool_seconds_bucket{tool="resolve_library",le="0.0005"} 2\n' in text
    assert 'procontext_tool_seconds_bucket{tool="read_page",le="30.0"} 0\n' in text
    assert 'procontext_tool_seconds_bucket{tool="read_page",le="+Inf"} 1\n' in text
    assert 'procontext_tool_seconds_sum{tool="read_page"} 99.000000\n' in text
    assert text.endswith("procontext_registry_libraries 478\n")
    assert repr(counted()) == "<Metrics of 3 calls>"
    assert "{" not in Metrics().text()


async def inner(scope: object, receive: object, send: object) -> None:
    assert callable(send)
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b""})


REQUESTS: list[tuple[str, str, int]] = [
    ("GET", PATH, 200),
    ("HEAD", PATH, 200),
    ("POST", PATH, 418),
    ("GET", "/metrics/x", 418),
    ("GET", "/mcp", 418),
]


async def test_only_metrics_path_is_served(subtests: pytest.Subtests) -> None:
    """Other requests are passed to the inner application."""
    for method, path, status in REQUESTS:
        with subtests.test(method=method, path=path):
            async with http_client(MetricsApp(inner, counted(), lambda: {"x": 1}, None), path=path) as http:
                response = await http.request(method)
            assert response.status == status
            if status == 200:
                assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
                assert (b"procontext_x 1" in response.body) is (method == "GET")


async def test_metrics_require_the_key() -> None:
    app = MetricsApp(inner, counted(), dict, BearerAuth(keys(KEY)))
    async with http_client(app, path=PATH) as http:
        rejected = await http.request("GET")
        assert (rejected.status, b"procontext_tool" in rejected.body) == (401, False)
        assert rejected.headers["www-authenticate"].startswith("Bearer")
        assert (await http.request("GET", headers={"authorization": f"Bearer {KEY}"})).status == 200
