"""The usage of modules, as JSON."""

import asyncio
import json
from typing import Any

import pytest
from apcore import Registry

from apcore_mcp import asgi_app


async def get(app: Any, path: str, query: str = "", method: str = "GET") -> tuple[int, Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(b"host", b"localhost")],
        "query_string": query.encode(),
        "root_path": "",
    }
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.fixture
def called(registry: Registry) -> Any:
    from apcore.observability import UsageCollector

    collector = UsageCollector()
    collector.record("math.add", "ann", 1.5, True)
    return collector


async def test_usage_page(registry: Registry, called: Any) -> None:
    async with asgi_app(registry, usage_collector=called) as app:
        status, found = await get(app, "/inspector/api/usage")
        assert (status, found["period"]) == (200, "24h")
        assert [row["module_id"] for row in found["modules"]] == ["math.add"]
        status, one = await get(app, "/inspector/api/usage/math.add", "period=1h")
        assert (status, one["module_id"]) == (200, "math.add")
        assert (await get(app, "/inspector/api/usage", "period=soon"))[0] == 400
        assert (await get(app, "/inspector/api/usage", method="POST"))[0] == 405
