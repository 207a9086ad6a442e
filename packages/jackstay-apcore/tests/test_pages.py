"""Routing of the pages besides the endpoint."""

from typing import Any

import pytest
from apcore import MetricsCollector, Registry

from apcore_mcp import asgi_app
from peers.asgi import request_app


async def responses(registry: Registry, *paths: str, **options: Any) -> list[Any]:
    async with asgi_app(registry, **options) as app:
        return [await request_app(app, "GET", path) for path in paths]


async def test_only_health_is_served_by_default(registry: Registry) -> None:
    found = await responses(registry, "/health", "/metrics", "/inspector", "/healthy")
    assert [response.status for response in found] == [200, 404, 404, 404]
    assert found[0].json["tools"] == 4


@pytest.mark.parametrize("options", [{"metrics": True}, {"metrics_collector": MetricsCollector()}])
async def test_metrics_page(registry: Registry, options: dict[str, Any]) -> None:
    (response,) = await responses(registry, "/metrics", **options)
    assert response.status == 200
    assert b"apcore_mcp_tools 4\n" in response.body


async def test_inspector_prefix(registry: Registry) -> None:
    paths = ("/look", "/look/", "/look/api/tools", "/looking", "/inspector")
    found = await responses(registry, *paths, explorer=True, inspector_prefix="/look")
    assert [response.status for response in found] == [200, 200, 200, 404, 404]


async def test_inspector_calls_are_counted(registry: Registry) -> None:
    async def main() -> bytes:
        async with asgi_app(registry, explorer=True, metrics=True) as app:
            body = {"tool": "math.add", "arguments": {"a": 1}}
            assert (await request_app(app, "POST", "/inspector/api/call", body)).status == 200
            numbers: bytes = (await request_app(app, "GET", "/metrics")).body
            return numbers

    assert b'apcore_mcp_tool_calls_total{tool="math.add",outcome="ok"} 1\n' in await main()


async def test_mounted_app(registry: Registry) -> None:
    async def main() -> list[int]:
        async with asgi_app(registry, explorer=True) as app:
            return [
                (await request_app(app, "GET", path, root="/sub")).status
                for path in ("/health", "/inspector/api/tools")
            ]

    assert await main() == [200, 200]


async def test_root_redirects_to_the_inspector(registry: Registry) -> None:
    """Only with the inspector, and only for GET."""

    async def main() -> list[Any]:
        async with asgi_app(registry, explorer=True) as app:
            return [
                await request_app(app, "GET", "/"),
                await request_app(app, "GET", "/", root="/sub"),
                await request_app(app, "POST", "/", {}),
                await request_app(app, "GET", "/other"),
            ]

    plain, mounted, posted, other = await main()
    assert (plain.status, plain.headers["location"]) == (307, "/inspector")
    assert (mounted.status, mounted.headers["location"]) == (307, "/sub/inspector")
    assert (posted.status, other.status) == (404, 404)
    assert (await responses(registry, "/"))[0].status == 404
