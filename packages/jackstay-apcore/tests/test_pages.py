"""What is served beside the endpoint: which pages there are by which options, at which paths, and the endpoint everywhere else."""

import asyncio
from typing import Any

import pytest
from apcore import MetricsCollector, Registry

from apcore_mcp import asgi_app
from peers.asgi import ask


def answers(registry: Registry, *paths: str, **options: Any) -> list[Any]:
    async def main() -> list[Any]:
        async with asgi_app(registry, **options) as app:
            return [await ask(app, "GET", path) for path in paths]

    return asyncio.run(main())


def test_health_is_always_there_and_the_others_are_asked_for(registry: Registry) -> None:
    found = answers(registry, "/health", "/metrics", "/inspector", "/healthy")
    assert [answer.status for answer in found] == [200, 404, 404, 404]
    assert found[0].json["tools"] == 4


@pytest.mark.parametrize("options", [{"metrics": True}, {"metrics_collector": MetricsCollector()}])
def test_metrics_are_served_where_they_are_asked_for_or_a_collector_is_given(
    registry: Registry, options: dict[str, Any]
) -> None:
    (answer,) = answers(registry, "/metrics", **options)
    assert answer.status == 200
    assert b"apcore_mcp_tools 4.0" in answer.body


def test_the_inspector_is_at_its_prefix_and_below(registry: Registry) -> None:
    paths = ("/look", "/look/", "/look/api/tools", "/looking", "/inspector")
    found = answers(registry, *paths, explorer=True, inspector_prefix="/look")
    assert [answer.status for answer in found] == [200, 200, 200, 404, 404]


def test_a_call_of_the_inspector_is_counted_like_any_other(registry: Registry) -> None:
    async def main() -> bytes:
        async with asgi_app(registry, explorer=True, metrics=True) as app:
            body = {"tool": "math.add", "arguments": {"a": 1}}
            assert (await ask(app, "POST", "/inspector/api/call", body)).status == 200
            numbers: bytes = (await ask(app, "GET", "/metrics")).body
            return numbers

    assert b'apcore_mcp_tool_calls_total{outcome="ok",tool="math.add"} 1.0' in asyncio.run(main())


def test_a_mount_is_followed(registry: Registry) -> None:
    async def main() -> list[int]:
        async with asgi_app(registry, explorer=True) as app:
            return [
                (await ask(app, "GET", path, root="/sub")).status
                for path in ("/health", "/inspector/api/tools")
            ]

    assert asyncio.run(main()) == [200, 200]


def test_the_address_of_the_server_leads_to_the_inspector(registry: Registry) -> None:
    """Only where there is one, and only for who reads."""

    async def main() -> list[Any]:
        async with asgi_app(registry, explorer=True) as app:
            return [
                await ask(app, "GET", "/"),
                await ask(app, "GET", "/", root="/sub"),
                await ask(app, "POST", "/", {}),
                await ask(app, "GET", "/other"),
            ]

    plain, mounted, posted, other = asyncio.run(main())
    assert (plain.status, plain.headers["location"]) == (307, "/inspector")
    assert (mounted.status, mounted.headers["location"]) == (307, "/sub/inspector")
    assert (posted.status, other.status) == (404, 404)
    assert answers(registry, "/")[0].status == 404
