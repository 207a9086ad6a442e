"""The HTTP+SSE transport of 2024-11-05: one stream, POSTed messages, and the checks of Streamable HTTP."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.protocol.http import ErrorResponse
from jackstay.server import Context, Server
from jackstay.server.http import App, Principal
from scripted.asgi import Http, Response, http_client, initialize, request, tool


def serving(**options: Any) -> Server:
    server = Server("legacy", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def roots(ctx: Context) -> str:
        return str(len(await ctx.list_roots()))

    return server


async def opened(http: Http, **headers: str) -> tuple[Response, str]:
    stream = await http.open("GET", path="/sse", headers={"accept": "text/event-stream", **headers})
    assert stream.status == 200
    event = await stream.event()
    assert event.event == "endpoint"
    return stream, event.data.decode()


async def post(http: Http, url: str, message: Any, **headers: str) -> Response:
    return await http.post(message, path=url, headers=headers)


async def test_a_conversation() -> None:
    """2024-11-05 basic/transports: an `endpoint` event, then `message` events; POSTs get 202."""
    server = serving()
    app = server.asgi(sse_path="/sse")
    async with http_client(app) as http:
        stream, url = await opened(http)
        accepted = await post(http, url, initialize("2024-11-05", {"roots": {}}))
        assert (accepted.status, accepted.body) == (202, b"")
        event = await stream.event()
        assert event.event == "message"
        assert b'"protocolVersion":"2024-11-05"' in event.data
        await post(http, url, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        await post(http, url, tool("echo", 1, text="a"))
        assert (await stream.message())["result"]["content"][0]["text"] == "a"
        await post(http, url, tool("roots", 2))
        server_request = await stream.message()
        assert server_request["method"] == "roots/list"
        await post(http, url, {"jsonrpc": "2.0", "id": server_request["id"], "result": {"roots": []}})
        assert (await stream.message())["result"]["content"][0]["text"] == "0"
        server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        await post(http, url, b"{")
        assert (await stream.message())["error"]["code"] == -32700
        assert app.connections == 1
        stream.disconnect()
        await stream.end()
        assert (app.connections, server._connections) == (0, {})
        assert (await post(http, url, tool("echo", 3, text="late"))).status == 404


async def test_it_is_disabled_by_default() -> None:
    async with http_client(serving().asgi()) as http:
        assert (await http.request("GET", path="/sse")).status == 404
        assert (await http.post(b"{}", path="/messages?session_id=x")).status == 404


async def test_the_checks_are_those_of_streamable_http(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, dict[str, str], int]] = [
        ("GET", "/sse", {"host": "evil.example"}, 403),
        ("GET", "/sse", {"origin": "https://evil.example"}, 403),
        ("GET", "/sse", {"accept": "application/json"}, 406),
        ("POST", "/sse", {}, 405),
        ("GET", "/messages", {"accept": "text/event-stream"}, 405),
        ("DELETE", "/sse", {}, 405),
        ("POST", "/messages", {}, 404),
        ("POST", "/messages?session_id=guessed", {}, 404),
        ("POST", "/messages?session_id=guessed", {"host": "evil.example"}, 403),
        ("POST", "/messages?session_id=guessed", {"content-type": "text/plain"}, 415),
        ("POST", "/messages?session_id=guessed", {"content-length": "99999999999"}, 413),
    ]
    for method, path, headers, status in cases:
        with subtests.test(method=method, path=path, headers=headers, status=status):
            async with http_client(serving().asgi(sse_path="/sse")) as http:
                answer = await http.request(method, b"{}", path=path, headers=headers)
                assert answer.status == status


async def test_a_body_above_the_limit_is_refused_while_it_is_read() -> None:
    async with http_client(serving().asgi(sse_path="/sse", max_body_bytes=1024)) as http:
        _, url = await opened(http)
        answer = await http.request("POST", path=url, chunks=[b"x" * 1000, b"x" * 1000])
        assert answer.status == 413


async def test_a_stream_of_another_principal_is_unknown() -> None:
    class HeaderGuard:
        async def authenticate(self, method: str, path: str, headers: Any) -> Principal | ErrorResponse:
            return Principal(headers.get("x-user", ""))

    async with http_client(serving().asgi(sse_path="/sse", guard=HeaderGuard())) as http:
        stream, url = await opened(http, **{"x-user": "alice"})
        assert (await post(http, url, request("ping"), **{"x-user": "bob"})).status == 404
        assert (await post(http, url, request("ping"), **{"x-user": "alice"})).status == 202
        assert (await stream.message())["result"] == {}


async def test_below_a_mount_the_messages_url_includes_its_path() -> None:
    async with http_client(serving().asgi(sse_path="/sse")) as http:
        stream = await http.open(
            "GET", path="/app/sse", headers={"accept": "text/event-stream"}, scope={"root_path": "/app"}
        )
        url = (await stream.event()).data.decode()
        assert url.startswith("/app/messages?")
        answer = await http.post(request("ping"), path=url, scope={"root_path": "/app"})
        assert answer.status == 202


async def test_the_stream_of_a_slow_reader_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    server = serving()

    @server.tool
    async def chatter(ctx: Context) -> str:
        for _ in range(100):
            ctx.log("warning", "x" * 1000)
            await asyncio.sleep(0)
        return "not delivered"

    app: App = server.asgi(sse_path="/sse", max_stream_bytes=8192)
    with caplog.at_level(logging.WARNING, "jackstay.server.http"):
        async with http_client(app) as http:
            stream, url = await opened(http)
            await post(http, url, initialize("2024-11-05"))
            await stream.message()
            stream.pause()
            await post(http, url, tool("chatter", 1))
            await stream.end()
            assert not stream.is_complete
    assert "reads too slowly" in caplog.text


async def test_the_number_of_streams_is_limited_by_max_sessions() -> None:
    async with http_client(serving().asgi(sse_path="/sse", max_sessions=1)) as http:
        await opened(http)
        refused = await http.request("GET", path="/sse", headers={"accept": "text/event-stream"})
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")


async def test_the_stream_ends_when_the_app_drains() -> None:
    app = serving().asgi(sse_path="/sse")
    async with http_client(app) as http:
        stream, _ = await opened(http)
        await app.drain()
        await stream.end()
        assert stream.is_complete
        assert app.connections == 0
