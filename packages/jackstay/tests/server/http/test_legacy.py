"""2024-11-05 on request: one stream, fed by POSTs, with the guards of everything else."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.protocol.http import Refusal
from jackstay.server import Context, Server
from jackstay.server.http import App, Principal
from scripted.asgi import Http, Response, asking, initialize, request, run, tool


def serving(**options: Any) -> Server:
    server = Server("legacy", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def roots(ctx: Context) -> str:
        return str(len(await ctx.roots()))

    return server


async def opened(http: Http, **headers: str) -> tuple[Response, str]:
    stream = await http.open("GET", path="/sse", headers={"accept": "text/event-stream", **headers})
    assert stream.status == 200
    event = await stream.event()
    assert event.event == "endpoint"
    return stream, event.data.decode()


async def said(http: Http, url: str, message: Any, **headers: str) -> Response:
    return await http.post(message, path=url, headers=headers)


def test_a_conversation() -> None:
    """L24:basic/transports: `endpoint` first, then `message` events; POSTs are accepted."""

    async def test() -> None:
        server = serving()
        app = server.asgi(sse_path="/sse")
        async with asking(app) as http:
            stream, url = await opened(http)
            taken = await said(http, url, initialize("2024-11-05", {"roots": {}}))
            assert (taken.status, taken.body) == (202, b"")
            event = await stream.event()
            assert event.event == "message"
            assert b'"protocolVersion":"2024-11-05"' in event.data
            await said(http, url, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            await said(http, url, tool("echo", 1, text="a"))
            assert (await stream.message())["result"]["content"][0]["text"] == "a"
            await said(http, url, tool("roots", 2))
            asked = await stream.message()
            assert asked["method"] == "roots/list"
            await said(http, url, {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
            assert (await stream.message())["result"]["content"][0]["text"] == "0"
            server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
            assert (await stream.message())["method"] == "notifications/tools/list_changed"
            await said(http, url, b"{")
            assert (await stream.message())["error"]["code"] == -32700
            assert app.connections == 1
            stream.leave()
            await stream.end()
            assert (app.connections, server._connections) == (0, {})
            assert (await said(http, url, tool("echo", 3, text="late"))).status == 404

    run(test)


def test_it_is_there_only_on_request() -> None:
    async def test() -> None:
        async with asking(serving().asgi()) as http:
            assert (await http.ask("GET", path="/sse")).status == 404
            assert (await http.post(b"{}", path="/messages?session_id=x")).status == 404

    run(test)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
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
    ],
)
def test_the_guards_are_those_of_everything_else(
    method: str, path: str, headers: dict[str, str], status: int
) -> None:
    async def test() -> None:
        async with asking(serving().asgi(sse_path="/sse")) as http:
            answer = await http.ask(method, b"{}", path=path, headers=headers)
            assert answer.status == status

    run(test)


def test_a_body_over_the_limit_is_refused_while_it_is_read() -> None:
    async def test() -> None:
        async with asking(serving().asgi(sse_path="/sse", max_body_bytes=1024)) as http:
            _, url = await opened(http)
            answer = await http.ask("POST", path=url, chunks=[b"x" * 1000, b"x" * 1000])
            assert answer.status == 413

    run(test)


def test_a_stream_of_somebody_else_is_unknown() -> None:
    class Names:
        async def admit(self, method: str, path: str, headers: Any) -> Principal | Refusal:
            return Principal(headers.get("x-user", ""))

    async def test() -> None:
        async with asking(serving().asgi(sse_path="/sse", guard=Names())) as http:
            stream, url = await opened(http, **{"x-user": "alice"})
            assert (await said(http, url, request("ping"), **{"x-user": "bob"})).status == 404
            assert (await said(http, url, request("ping"), **{"x-user": "alice"})).status == 202
            assert (await stream.message())["result"] == {}

    run(test)


def test_mounted_below_a_path_the_url_begins_there() -> None:
    async def test() -> None:
        async with asking(serving().asgi(sse_path="/sse")) as http:
            stream = await http.open(
                "GET", path="/app/sse", headers={"accept": "text/event-stream"}, scope={"root_path": "/app"}
            )
            url = (await stream.event()).data.decode()
            assert url.startswith("/app/messages?")
            answer = await http.post(request("ping"), path=url, scope={"root_path": "/app"})
            assert answer.status == 202

    run(test)


def test_a_client_that_reads_too_slowly_loses_its_stream(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        server = serving()

        @server.tool
        async def chatter(ctx: Context) -> str:
            for _ in range(100):
                ctx.log("warning", "x" * 1000)
                await asyncio.sleep(0)
            return "unheard"

        app: App = server.asgi(sse_path="/sse", max_stream_bytes=8192)
        async with asking(app) as http:
            stream, url = await opened(http)
            await said(http, url, initialize("2024-11-05"))
            await stream.message()
            stream.hold()
            await said(http, url, tool("chatter", 1))
            await stream.end()
            assert not stream.is_complete

    with caplog.at_level(logging.WARNING, "jackstay.server.http"):
        run(test)
    assert "reads too slowly" in caplog.text


def test_there_are_no_more_streams_than_sessions_may_be() -> None:
    async def test() -> None:
        async with asking(serving().asgi(sse_path="/sse", max_sessions=1)) as http:
            await opened(http)
            refused = await http.ask("GET", path="/sse", headers={"accept": "text/event-stream"})
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")

    run(test)


def test_the_stream_ends_when_the_app_drains() -> None:
    async def test() -> None:
        app = serving().asgi(sse_path="/sse")
        async with asking(app) as http:
            stream, _ = await opened(http)
            await app.drain()
            await stream.end()
            assert stream.is_complete
            assert app.connections == 0

    run(test)
