"""One POST that is a connection of its own and stays open: a subscription of the stateless era."""

import asyncio
from typing import Any

from jackstay.server import Context
from scripted.asgi import asking, run, stateless, tool
from scripted.posts import serving

# --- subscriptions ----------------------------------------------------------------------------------------------------


def listen(id: Any = "sub", **wanted: Any) -> dict[str, Any]:
    return stateless("subscriptions/listen", {"notifications": wanted or {"toolsListChanged": True}}, id)


def test_a_subscription_is_acknowledged_first_and_told_of_changes() -> None:
    """protocol.md section 8, subscriptions/listen."""

    async def test() -> None:
        server = serving()
        async with asking(server.asgi()) as http:
            response = await http.open("POST", listen())
            acknowledged = await response.message()
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
            changed = await response.message()
            assert changed["method"] == "notifications/tools/list_changed"
            key = "io.modelcontextprotocol/subscriptionId"
            assert {found["params"]["_meta"][key] for found in (acknowledged, changed)} == {"sub"}
            assert len(server._connections) == 1
            response.leave()
            await response.end()
            assert server._connections == {}

    run(test)


def test_a_subscription_ends_gracefully_when_the_app_drains() -> None:
    """protocol.md section 8: `notifications/cancelled`, the complete result, the end of the stream."""

    async def test() -> None:
        server = serving()
        app = server.asgi()
        async with asking(app) as http:
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

    run(test)


def test_a_subscription_goes_through_middleware() -> None:
    async def test() -> None:
        async def around(ctx: Context, call_next: Any) -> bytes:
            return await call_next()

        server = serving()
        server.add_middleware(around)
        app = server.asgi()
        async with asking(app) as http:
            left = await http.open("POST", listen("left"))
            await left.message()
            left.leave()
            await left.end()
            stays = await http.open("POST", listen("stays"))
            await stays.message()
            server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
            assert (await stays.message())["method"] == "notifications/tools/list_changed"
            await app.drain()
            assert stays.messages[-1]["id"] == "stays"
            assert stays.is_complete

    run(test)


def test_a_subscription_stays_alive_and_may_be_silent() -> None:
    """G17."""

    async def test() -> None:
        server = serving()
        async with asking(server.asgi(keepalive=0.02)) as http:
            response = await http.open("POST", listen())
            await response.until(lambda: response.body.count(b": keep-alive") >= 3)

    run(test)


def test_a_subscriber_that_reads_too_slowly_is_dropped() -> None:
    async def test() -> None:
        server = serving()
        uri = "file:///" + "x" * 2000

        @server.resource(uri)
        def there() -> str:
            return "x"

        async with asking(server.asgi(max_stream_bytes=8192)) as http:
            response = await http.open("POST", listen(resourceSubscriptions=[uri]))
            await response.message()
            response.hold()
            for _ in range(10):
                server.notify_resource_updated(uri)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            await response.end()
            assert server._connections == {}

    run(test)
