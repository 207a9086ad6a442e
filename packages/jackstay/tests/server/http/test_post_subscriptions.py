"""Subscriptions of 2026-07-28: POSTs that stay open."""

import asyncio
from typing import Any

from jackstay.server import Context
from scripted.asgi import http_client, stateless, tool
from scripted.posts import serving


def listen(id: Any = "sub", **notifications: Any) -> dict[str, Any]:
    return stateless("subscriptions/listen", {"notifications": notifications or {"toolsListChanged": True}}, id)


async def test_a_subscription_is_acknowledged_first_and_then_notified() -> None:
    """2026-07-28 basic/patterns/subscriptions."""
    server = serving()
    async with http_client(server.asgi()) as http:
        response = await http.open("POST", listen())
        acknowledged = await response.message()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
        changed = await response.message()
        assert changed["method"] == "notifications/tools/list_changed"
        key = "io.modelcontextprotocol/subscriptionId"
        assert {found["params"]["_meta"][key] for found in (acknowledged, changed)} == {"sub"}
        assert len(server._connections) == 1
        response.disconnect()
        await response.end()
        assert server._connections == {}


async def test_a_subscription_ends_gracefully_when_the_app_drains() -> None:
    """`notifications/cancelled`, then the complete result, then the end of the stream."""
    server = serving()
    app = server.asgi()
    async with http_client(app) as http:
        response = await http.open("POST", listen(5))
        await response.message()
        await app.drain()
        await response.end()
        _, cancelled, result = response.messages
        assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", 5)
        assert result["id"] == 5
        assert result["result"]["resultType"] == "complete"
        assert response.is_complete
        refused = await http.post(tool("echo", text="a"))
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.json["error"]["data"]["retryable"] is True


async def test_a_subscription_goes_through_middleware() -> None:
    async def middleware(ctx: Context, call_next: Any) -> bytes:
        return await call_next()

    server = serving()
    server.add_middleware(middleware)
    app = server.asgi()
    async with http_client(app) as http:
        left = await http.open("POST", listen("left"))
        await left.message()
        left.disconnect()
        await left.end()
        stays = await http.open("POST", listen("stays"))
        await stays.message()
        server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
        assert (await stays.message())["method"] == "notifications/tools/list_changed"
        await app.drain()
        assert stays.messages[-1]["id"] == "stays"
        assert stays.is_complete


async def test_a_silent_subscription_is_kept_alive() -> None:
    """docs/guarantees.md G17."""
    server = serving()
    async with http_client(server.asgi(keepalive=0.02)) as http:
        response = await http.open("POST", listen())
        await response.until(lambda: response.body.count(b": keep-alive") >= 3)


async def test_a_subscriber_that_reads_too_slowly_is_dropped() -> None:
    server = serving()
    uri = "file:///" + "x" * 2000

    @server.resource(uri)
    def there() -> str:
        return "x"

    async with http_client(server.asgi(max_stream_bytes=8192)) as http:
        response = await http.open("POST", listen(resourceSubscriptions=[uri]))
        await response.message()
        response.pause()
        for _ in range(10):
            server.notify_resource_updated(uri)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await response.end()
        assert server._connections == {}
