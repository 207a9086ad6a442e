"""The endpoint: its gates in their order, its place under any mount, bodies, verbs, the lifespan, and draining."""

import asyncio
import json
import threading
from typing import Any

import pytest

from jackstay.protocol.http import Refusal, check_access
from jackstay.server import Server
from jackstay.server.http import Principal
from scripted.asgi import Response, asking, initialize, run, stateless, tool


def serving(**options: Any) -> Server:
    server = Server("app", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


ECHO = tool("echo", text="a")


# --- Host, Origin, headers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:8000"}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"host": "[::1]:9"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "localhost.evil.example"}, 403),
        ({"host": "127.0.0.1.nip.io"}, 403),
        ({"host": "evil.example@localhost"}, 400),
        ({"host": ""}, 400),
        ({"host": None}, 400),
        ({"origin": "http://localhost:3000"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost.evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": None}, 415),
        ({"content-encoding": "gzip"}, 415),
        ({"content-length": "16777217"}, 413),
        ({"content-length": "1e3"}, 400),
        ({"accept": "text/html"}, 406),
        ({"accept": "application/json"}, 200),
        ({"mcp-protocol-version": "1999-01-01"}, 400),
        ({"mcp-protocol-version": "2026-07-28"}, 400),
        ({"mcp-protocol-version": "2025-06-18"}, 200),
        ({"mcp-session-id": "ignored"}, 200),
    ],
)
def test_a_request_is_judged_by_its_headers(headers: dict[str, str | None], status: int) -> None:
    """protocol.md sections 6, 7, 10: foreign Host and Origin are refused by default."""

    async def test() -> None:
        async with asking(serving().asgi()) as http:
            answer = await http.post(ECHO, headers=headers)
            assert answer.status == status, answer.body
            if status != 200:
                assert answer.json["error"]["message"]

    run(test)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 200, None),
        ({"mcp-protocol-version": None}, 400, -32020),
        ({"mcp-protocol-version": "2025-11-25"}, 400, -32020),
        ({"mcp-method": None}, 400, -32020),
        ({"mcp-method": "tools/list"}, 400, -32020),
        ({"mcp-name": None}, 400, -32020),
        ({"mcp-name": "other"}, 400, -32020),
        ({"mcp-name": "=?base64?ZWNobw==?="}, 200, None),
        ({"mcp-name": "=?base64?!?="}, 400, -32020),
        ({"mcp-name": "echo\r\nx-evil: 1"}, 400, -32020),
    ],
)
def test_headers_of_the_stateless_era_say_what_the_body_says(
    headers: dict[str, str | None], status: int, code: int | None
) -> None:
    """protocol.md section 6; conformance `http-header-validation`."""

    async def test() -> None:
        async with asking(serving().asgi()) as http:
            call = stateless("tools/call", {"name": "echo", "arguments": {"text": "a"}})
            answer = await http.post(call, headers=headers)
            assert (answer.status, answer.json.get("error", {}).get("code")) == (status, code)
            assert answer.json["id"] == 1

    run(test)


def test_an_unsupported_revision_names_those_that_are() -> None:
    """protocol.md section 2: -32022 with `supported` and `requested`, 400."""

    async def test() -> None:
        async with asking(serving(versions=("2025-11-25", "2026-07-28")).asgi()) as http:
            call = stateless("tools/list")
            call["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2027-01-01"
            answer = await http.post(call, headers={"mcp-protocol-version": "2027-01-01"})
            assert (answer.status, answer.json["error"]["code"]) == (400, -32022)
            assert answer.json["error"]["data"]["supported"] == ["2026-07-28", "2025-11-25"]

    run(test)


def test_an_error_without_an_id_says_null_where_the_revision_wants_it() -> None:
    """connection.md section 6, *Without a readable id*."""

    async def test() -> None:
        async with asking(serving().asgi()) as http:
            for version, has_id in ((None, True), ("2025-06-18", True), ("2025-11-25", False)):
                headers = {"host": "evil.example", "mcp-protocol-version": version}
                answer = await http.post(ECHO, headers=headers)
                assert ("id" in answer.json) is has_id

    run(test)


# --- verbs, paths, mounts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "sessions", "status"),
    [
        ("GET", False, 405),
        ("DELETE", False, 405),
        ("PUT", False, 405),
        ("HEAD", False, 405),
        ("PATCH", True, 405),
        ("OPTIONS", False, 204),
        ("OPTIONS", True, 204),
        ("GET", True, 400),
        ("DELETE", True, 400),
    ],
)
def test_a_verb_is_allowed_or_told_what_is(method: str, sessions: bool, status: int) -> None:
    """protocol.md section 6: GET and DELETE are 405 where there are no sessions."""

    async def test() -> None:
        async with asking(serving().asgi(sessions=sessions)) as http:
            answer = await http.ask(method)
            assert answer.status == status
            if status in (204, 405):
                assert "POST" in answer.headers["allow"]
                assert ("GET" in answer.headers["allow"]) is sessions

    run(test)


def test_a_get_of_the_stateless_era_is_not_allowed_even_with_sessions() -> None:
    async def test() -> None:
        async with asking(serving().asgi(sessions=True)) as http:
            await http.shake_hands()
            headers = {"mcp-protocol-version": "2026-07-28"}
            assert (await http.ask("GET", headers=headers)).status == 405

    run(test)


@pytest.mark.parametrize(
    ("own", "path", "root", "status"),
    [
        ("/mcp", "/mcp", "", 200),
        ("/mcp", "/mcp/", "", 200),
        ("/mcp", "/app/mcp", "/app", 200),
        ("/mcp", "/mcp", "/app", 200),
        ("/", "/", "", 200),
        ("/", "/app", "/app", 200),
        ("/", "/app/", "/app", 200),
        ("/deep/er", "/app/deep/er", "/app/", 200),
        ("/mcp", "/", "", 404),
        ("/mcp", "/mcpx", "", 404),
        ("/mcp", "/application/mcp", "/app", 404),
        ("/mcp", "/mcp/more", "", 404),
    ],
)
def test_it_is_found_at_its_path_under_any_mount_without_redirects(
    own: str, path: str, root: str, status: int
) -> None:
    """ASGI: `path` is the whole, `root_path` the mount; some frameworks strip it."""

    async def test() -> None:
        async with asking(serving().asgi(path=own)) as http:
            answer = await http.post(ECHO, path=path, scope={"root_path": root})
            assert answer.status == status
            if status == 404:
                assert f"MCP is served at {root}{own}".encode() in answer.body

    run(test)


# --- bodies -----------------------------------------------------------------------------------------------------------


def test_a_body_over_the_limit_is_refused_while_it_is_read() -> None:
    """413, before it is all in memory, and the connection is closed: the rest was not read."""

    async def test() -> None:
        async with asking(serving().asgi(max_body_bytes=1024)) as http:
            answer = await http.ask("POST", chunks=[b"x" * 1000, b"x" * 25, b"never read" * 1000])
            assert (answer.status, answer.headers["connection"]) == (413, "close")
            exact = json.dumps(ECHO).encode().ljust(1024)
            assert (await http.ask("POST", chunks=[exact[:500], exact[500:]])).status == 200

    run(test)


def test_a_body_that_does_not_come_in_time_is_refused() -> None:
    async def test() -> None:
        app = serving().asgi(body_timeout=0.02)
        response = Response()
        pieces = [{"type": "http.request", "body": b"{", "more_body": True}]

        async def receive() -> dict[str, Any]:
            if not pieces:
                await asyncio.Event().wait()
            return pieces.pop(0)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        await app(
            {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, response.send
        )
        assert response.status == 408

    run(test)


def test_a_client_that_goes_while_it_sends_is_not_answered() -> None:
    async def test() -> None:
        async with asking(serving().asgi()) as http:
            response = http.start("POST", chunks=[])
            response.leave()
            await response.end()
            assert response.status == 0

    run(test)


def test_the_limit_is_that_of_a_frame_unless_it_is_said() -> None:
    async def test() -> None:
        async with asking(serving(max_frame_bytes=2048).asgi()) as http:
            assert (await http.post(tool("echo", text="x" * 3000))).status == 413

    run(test)


# --- who may call -----------------------------------------------------------------------------------------------------


def test_a_guard_is_asked_before_the_body_is_read() -> None:
    async def test() -> None:
        asked: list[tuple[str, str]] = []

        class Doorkeeper:
            async def admit(self, method: str, path: str, headers: Any) -> Principal | Refusal:
                asked.append((method, path))
                if headers.get("authorization") != "Bearer right":
                    return Refusal(401, -32600, "no", headers=(("www-authenticate", "Bearer"),))
                return Principal("alice")

        server = serving()

        @server.tool
        async def who(ctx: Any) -> str:
            return "x"

        async with asking(server.asgi(guard=Doorkeeper())) as http:
            refused = await http.ask("POST", chunks=[])
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            admitted = await http.post(ECHO, headers={"authorization": "Bearer right"})
            assert admitted.status == 200
            assert asked == [("POST", "/mcp"), ("POST", "/mcp")]
            foreign = await http.post(ECHO, headers={"host": "evil.example"})
            assert foreign.status == 403
            assert len(asked) == 2, "a foreign Host costs nothing but its headers"

    run(test)


# --- ASGI -------------------------------------------------------------------------------------------------------------


def test_the_lifespan_is_lived_and_ends_in_a_drain() -> None:
    async def test() -> None:
        app = serving().asgi()
        sent: list[str] = []
        coming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

        async def receive() -> dict[str, Any]:
            return coming.pop(0)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await app({"type": "lifespan"}, receive, send)
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        assert app.is_draining

    run(test)


def test_a_websocket_is_turned_away_and_an_unknown_scope_is_left_alone() -> None:
    async def test() -> None:
        app = serving().asgi()
        sent: list[str] = []

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await app({"type": "websocket"}, receive, send)
        await app({"type": "something new"}, receive, send)
        assert sent == ["websocket.close"]

    run(test)


def test_draining_ends_at_the_latest_when_its_time_is_over() -> None:
    async def test() -> None:
        server = serving(drain_timeout=0.02)
        began, stubborn = asyncio.Event(), asyncio.Event()

        @server.tool
        async def hang() -> str:
            began.set()
            while not stubborn.is_set():
                try:
                    await stubborn.wait()
                except asyncio.CancelledError:
                    continue
            return "at last"

        app = server.asgi()
        async with asking(app) as http:
            http.start("POST", tool("hang"))
            await began.wait()
            at = asyncio.get_running_loop().time()
            await app.drain()
            assert asyncio.get_running_loop().time() - at < 5
            stubborn.set()

    run(test)


def test_a_server_that_drains_drains_its_apps() -> None:
    async def test() -> None:
        server = serving()
        apps = [server.asgi(), server.asgi(sessions=True)]
        async with asking(apps[0]) as one, asking(apps[1]) as other:
            await other.shake_hands()
            server.drain()
            assert (await one.post(ECHO)).status == 503
            assert (await other.post(ECHO)).status == 503
            await asyncio.sleep(0)
            assert apps[1].sessions == 0

    run(test)


def test_one_server_can_be_served_on_several_loops_at_once() -> None:
    """Several apps per server, several loops."""
    server = serving()
    app = server.asgi()
    failures: list[BaseException] = []

    def serve() -> None:
        async def test() -> None:
            async with asking(app) as http, asking(server.asgi(sessions=True)) as other:
                await other.shake_hands()
                for _ in range(20):
                    assert (await http.post(ECHO)).status == 200
                    assert (await other.post(ECHO)).status == 200

        try:
            run(test)
        except BaseException as error:  # noqa: BLE001  # carried to the test
            failures.append(error)

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []


def test_what_is_added_later_is_offered_to_the_next_request() -> None:
    async def test() -> None:
        server = Server("grows")
        async with asking(server.asgi()) as http:
            before = (await http.post(initialize())).json["result"]["capabilities"]
            server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
            after = (await http.post(initialize())).json["result"]["capabilities"]
            assert ("tools" in before, "tools" in after) == (False, True)

    run(test)


def test_what_stands_beside_the_endpoint_can_be_held_to_its_rules() -> None:
    class Doorkeeper:
        async def admit(self, method: str, path: str, headers: Any) -> Principal:
            return Principal("ann")

    guard = Doorkeeper()
    app = serving().asgi(guard=guard, hosts=("mcp.example.com",))
    assert app.guard is guard
    assert check_access(app.access, {"host": "mcp.example.com"}) is None
    assert check_access(app.access, {"host": "localhost"}) is not None
    assert serving().asgi().guard is None
