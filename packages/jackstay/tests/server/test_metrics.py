"""Prometheus metrics as middleware, and access to the page."""

import asyncio
from typing import Any

import pytest

from chaos.servers_own.conversation import STATELESS, connected
from jackstay import Context, Server, ToolError
from jackstay.errors import JsonRpcError
from jackstay.server import Metrics, prometheus
from jackstay.server._metrics import PATH
from jackstay.server.http import BearerAuth, keys
from scripted.asgi import http_client, stateless

KEY = "a-key-of-more-than-16-characters"


def counted() -> Metrics:
    metrics = prometheus("docs", gauges=lambda: {"pages": 478})
    metrics.count("resolve", "ok", 0.0002)
    metrics.count("resolve", "ok", 0.0002)
    metrics.count("read", "NOT_FOUND", 99.0)
    return metrics


def test_calls_are_counted_by_tool_and_outcome() -> None:
    """Prometheus text format 0.0.4: cumulative buckets, sum and count."""
    text = counted().text()
    assert 'docs_tool_calls_total{tool="resolve",outcome="ok"} 2\n' in text
    assert 'docs_tool_calls_total{tool="read",outcome="NOT_FOUND"} 1\n' in text
    assert 'docs_tool_errors_total{tool="read"} 1\n' in text
    assert 'docs_tool_errors_total{tool="resolve"}' not in text
    assert 'docs_tool_seconds_bucket{tool="resolve",le="0.0005"} 2\n' in text
    assert 'docs_tool_seconds_bucket{tool="read",le="60.0"} 0\n' in text
    assert 'docs_tool_seconds_bucket{tool="read",le="+Inf"} 1\n' in text
    assert 'docs_tool_seconds_sum{tool="read"} 99.000000\n' in text
    assert text.endswith("docs_pages 478\n")
    assert repr(counted()) == "<Metrics of 3 calls>"
    assert prometheus().text() == ""
    metrics = prometheus()
    metrics.count('a"\\\n', "ok", 1)
    assert r'{tool="a\"\\\n",outcome="ok"} 1' in metrics.text()


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
async def test_requests_are_counted_as_middleware(version: str) -> None:
    metrics = prometheus()
    server = Server("counted", middleware=metrics)

    @server.tool
    async def echo(text: str) -> str:
        if text == "refused":
            raise ToolError("no")
        if text == "unavailable":
            raise JsonRpcError(-32000, "unavailable")
        return text

    @server.tool
    async def hang(ctx: Context) -> None:
        started.set()
        await asyncio.Event().wait()

    started = asyncio.Event()
    async with connected(server, version) as peer:
        for text in ("a", "b", "refused"):
            await peer.call("echo", text=text)
        await peer.error("tools/call", {"name": "echo", "arguments": {"text": "unavailable"}})
        await peer.error("tools/call", {"name": "invented"})
        await peer.result("tools/list")
        id = peer.send_request("tools/call", {"name": "hang"})
        await started.wait()
        peer.notify("notifications/cancelled", {"requestId": id})
        await peer.result("tools/list")
    text = metrics.text()
    for line in (
        'mcp_server_tool_calls_total{tool="echo",outcome="ok"} 2',
        'mcp_server_tool_calls_total{tool="echo",outcome="tool_error"} 1',
        'mcp_server_tool_calls_total{tool="echo",outcome="jsonrpc"} 1',
        'mcp_server_tool_calls_total{tool="hang",outcome="cancelled"} 1',
        'mcp_server_tool_errors_total{tool="echo"} 2',
        'mcp_server_requests_total{method="tools/list",outcome="ok"} 2',
        'mcp_server_requests_total{method="tools/call",outcome="jsonrpc"} 2',
        'mcp_server_tool_seconds_count{tool="echo"} 4',
    ):
        assert f"{line}\n" in text, line
    assert "invented" not in text, "callers must not create time series"


async def inner(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def test_only_the_metrics_path_is_served(subtests: pytest.Subtests) -> None:
    """Other requests are passed to the inner application."""
    for method, path, status in (
        ("GET", PATH, 200),
        ("HEAD", PATH, 200),
        ("POST", PATH, 418),
        ("GET", "/metrics/x", 418),
        ("GET", "/mcp", 418),
    ):
        with subtests.test(method=method, path=path):
            async with http_client(counted().wrap_app(inner), path=path) as http:
                response = await http.request(method)
            assert response.status == status
            if status == 200:
                assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
                assert (b"docs_pages 478" in response.body) is (method == "GET")


async def test_metrics_require_the_key() -> None:
    server = Server("counted")
    for app in (
        counted().wrap_app(inner, BearerAuth(keys(KEY))),
        counted().wrap_app(server.asgi(auth=keys(KEY))),
    ):
        async with http_client(app, path=PATH) as http:
            rejected = await http.request("GET")
            assert (rejected.status, b"docs_tool" in rejected.body) == (401, False)
            assert rejected.headers["www-authenticate"].startswith("Bearer")
            assert (await http.request("GET", headers={"authorization": f"Bearer {KEY}"})).status == 200


async def test_calls_over_http_are_on_the_page() -> None:
    metrics = prometheus()
    server = Server("counted", middleware=[metrics])
    server.tool(name="echo", blocking=False)(lambda: "x")
    app = metrics.wrap_app(server.asgi())
    async with http_client(app) as http:
        await http.post(stateless("tools/call", {"name": "echo"}))
    async with http_client(app, path=PATH) as http:
        assert b'mcp_server_tool_calls_total{tool="echo",outcome="ok"} 1' in (await http.request("GET")).body
