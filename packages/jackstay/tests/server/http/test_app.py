"""The ASGI app: header checks, mounts, bodies, methods, the lifespan, and draining."""

import asyncio
import json
import threading
from typing import Any

from jackstay.protocol.http import ErrorResponse, check_access
from jackstay.server import Server
from jackstay.server.http import Principal
from scripted.asgi import Response, http_client, initialize, run, stateless, tool
from scripted.gate import Gate


def serving(**options: Any) -> Server:
    server = Server("app", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


ECHO = tool("echo", text="a")


# --- Host, Origin, headers --------------------------------------------------------------------------------------------


HEADER_CASES: list[tuple[dict[str, str | None], int]] = [
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
]


async def test_headers_are_checked() -> None:
    """A Host or Origin that is not allowed is refused by default (2025-11-25 basic/transports, "Security Warning")."""
    async with http_client(serving().asgi()) as http:
        for headers, status in HEADER_CASES:
            answer = await http.post(ECHO, headers=headers)
            assert answer.status == status, (headers, answer.body)
            if status != 200:
                assert answer.json["error"]["message"], headers


MIRRORED_HEADER_CASES: list[tuple[dict[str, str | None], int, int | None]] = [
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
]


async def test_headers_must_match_the_body_of_a_stateless_request() -> None:
    """2026-07-28 basic/transports/streamable-http; conformance `http-header-validation`."""
    async with http_client(serving().asgi()) as http:
        for headers, status, code in MIRRORED_HEADER_CASES:
            call = stateless("tools/call", {"name": "echo", "arguments": {"text": "a"}})
            answer = await http.post(call, headers=headers)
            assert (answer.status, answer.json.get("error", {}).get("code")) == (status, code), headers
            assert answer.json["id"] == 1


async def test_an_unsupported_revision_gets_the_supported_ones() -> None:
    """2026-07-28 basic/versioning: -32022 with `supported` and `requested`, HTTP 400."""
    async with http_client(serving(versions=("2025-11-25", "2026-07-28")).asgi()) as http:
        call = stateless("tools/list")
        call["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2027-01-01"
        answer = await http.post(call, headers={"mcp-protocol-version": "2027-01-01"})
        assert (answer.status, answer.json["error"]["code"]) == (400, -32022)
        assert answer.json["error"]["data"]["supported"] == ["2026-07-28", "2025-11-25"]


async def test_an_error_without_an_id_has_a_null_id_if_the_revision_requires_it() -> None:
    async with http_client(serving().asgi()) as http:
        for version, has_id in ((None, True), ("2025-06-18", True), ("2025-11-25", False)):
            headers = {"host": "evil.example", "mcp-protocol-version": version}
            answer = await http.post(ECHO, headers=headers)
            assert ("id" in answer.json) is has_id


# --- methods, paths, mounts -------------------------------------------------------------------------------------------


METHOD_CASES = [
    ("GET", False, 405),
    ("DELETE", False, 405),
    ("PUT", False, 405),
    ("HEAD", False, 405),
    ("PATCH", True, 405),
    ("OPTIONS", False, 204),
    ("OPTIONS", True, 204),
    ("GET", True, 400),
    ("DELETE", True, 400),
]


async def test_a_method_is_allowed_or_refused_with_the_allowed_ones() -> None:
    """GET and DELETE are 405 without sessions (2025-11-25 basic/transports)."""
    for method, sessions, status in METHOD_CASES:
        async with http_client(serving().asgi(sessions=sessions)) as http:
            answer = await http.request(method)
            assert answer.status == status, (method, sessions)
            if status in (204, 405):
                assert "POST" in answer.headers["allow"], method
                assert ("GET" in answer.headers["allow"]) is sessions, method


async def test_a_stateless_get_is_not_allowed_even_with_sessions() -> None:
    async with http_client(serving().asgi(sessions=True)) as http:
        await http.handshake()
        headers = {"mcp-protocol-version": "2026-07-28"}
        assert (await http.request("GET", headers=headers)).status == 405


# The path option, the path of the request, the root_path of the mount, and the expected status.
PATH_CASES = [
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
]


async def test_the_endpoint_is_found_under_any_mount_without_redirects() -> None:
    """ASGI: `path` includes `root_path`, the path of the mount; some frameworks strip it."""
    for own, path, root, status in PATH_CASES:
        async with http_client(serving().asgi(path=own)) as http:
            answer = await http.post(ECHO, path=path, scope={"root_path": root})
            assert answer.status == status, (own, path, root)
            if status == 404:
                assert f"MCP is served at {root}{own}".encode() in answer.body


# --- bodies -----------------------------------------------------------------------------------------------------------


async def test_a_body_above_the_limit_is_refused_while_it_is_read() -> None:
    """413 before all of it is in memory. The connection is closed, because the rest was not read."""
    async with http_client(serving().asgi(max_body_bytes=1024)) as http:
        answer = await http.request("POST", chunks=[b"x" * 1000, b"x" * 25, b"never read" * 1000])
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        exact = json.dumps(ECHO).encode().ljust(1024)
        assert (await http.request("POST", chunks=[exact[:500], exact[500:]])).status == 200


async def test_a_slow_body_is_refused() -> None:
    app = serving().asgi(body_timeout=0.02)
    response = Response()
    chunks = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> dict[str, Any]:
        if not chunks:
            await asyncio.Event().wait()
        return chunks.pop(0)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    await app({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, response.send)
    assert response.status == 408


async def test_a_client_that_disconnects_while_sending_gets_no_response() -> None:
    async with http_client(serving().asgi()) as http:
        response = http.start("POST", chunks=[])
        response.disconnect()
        await response.end()
        assert response.status == 0


async def test_the_body_limit_defaults_to_max_frame_bytes() -> None:
    async with http_client(serving(max_frame_bytes=2048).asgi()) as http:
        assert (await http.post(tool("echo", text="x" * 3000))).status == 413


# --- authentication ---------------------------------------------------------------------------------------------------


async def test_a_guard_runs_before_the_body_is_read() -> None:
    calls: list[tuple[str, str]] = []

    class TokenGuard:
        async def authenticate(self, method: str, path: str, headers: Any) -> Principal | ErrorResponse:
            calls.append((method, path))
            if headers.get("authorization") != "Bearer right":
                return ErrorResponse(401, -32600, "no", headers=(("www-authenticate", "Bearer"),))
            return Principal("alice")

    server = serving()

    @server.tool
    async def who(ctx: Any) -> str:
        return "x"

    async with http_client(server.asgi(guard=TokenGuard())) as http:
        refused = await http.request("POST", chunks=[])
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        allowed = await http.post(ECHO, headers={"authorization": "Bearer right"})
        assert allowed.status == 200
        assert calls == [("POST", "/mcp"), ("POST", "/mcp")]
        foreign = await http.post(ECHO, headers={"host": "evil.example"})
        assert foreign.status == 403
        assert len(calls) == 2, "a foreign Host is refused before the guard"


# --- ASGI -------------------------------------------------------------------------------------------------------------


async def test_lifespan_events_are_acknowledged_and_shutdown_drains() -> None:
    app = serving().asgi()
    sent: list[str] = []
    events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> dict[str, Any]:
        return events.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert app.is_draining


async def test_a_websocket_is_closed_and_an_unknown_scope_is_ignored() -> None:
    app = serving().asgi()
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await app({"type": "websocket"}, receive, send)
    await app({"type": "something new"}, receive, send)
    assert sent == ["websocket.close"]


async def test_drain_returns_after_its_timeout() -> None:
    server = serving(drain_timeout=0.02)
    started, release = asyncio.Event(), asyncio.Event()

    @server.tool
    async def hang() -> str:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    app = server.asgi()
    async with http_client(app) as http:
        http.start("POST", tool("hang"))
        await started.wait()
        await app.drain()  # returns although the handler ignores its cancellation
        release.set()


async def test_requests_above_the_limit_are_refused_without_running() -> None:
    server = Server("limited")
    gate = Gate(server)
    async with http_client(server.asgi(max_requests=1)) as http:
        running = http.start("POST", stateless("tools/call", {"name": "wait", "arguments": {}}))
        await gate.began.wait()
        refused = await http.post(stateless("tools/list", id=2))
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.json["error"]["data"] == {"retryable": True, "mayHaveRun": False, "reason": "busy"}
        gate.open.set()
        await running.end()
        assert (await http.post(stateless("tools/list", id=2))).status == 200


async def test_draining_a_server_drains_its_apps() -> None:
    server = serving()
    apps = [server.asgi(), server.asgi(sessions=True)]
    async with http_client(apps[0]) as stateless_client, http_client(apps[1]) as session_client:
        await session_client.handshake()
        server.drain()
        assert (await stateless_client.post(ECHO)).status == 503
        assert (await session_client.post(ECHO)).status == 503
        await asyncio.sleep(0)
        assert apps[1].sessions == 0


def test_one_server_can_run_on_several_loops_at_once() -> None:
    """Several apps per server, several loops."""
    server = serving()
    app = server.asgi()
    failures: list[BaseException] = []

    def serve() -> None:
        async def test() -> None:
            async with http_client(app) as http, http_client(server.asgi(sessions=True)) as other:
                await other.handshake()
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
        thread.join(120)
    assert failures == []


async def test_a_tool_added_later_changes_the_capabilities_of_the_next_handshake() -> None:
    server = Server("grows")
    async with http_client(server.asgi()) as http:
        before = (await http.post(initialize())).json["result"]["capabilities"]
        server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
        after = (await http.post(initialize())).json["result"]["capabilities"]
        assert ("tools" in before, "tools" in after) == (False, True)


def test_guard_and_access_are_public_for_routes_beside_the_endpoint() -> None:
    class TokenGuard:
        async def authenticate(self, method: str, path: str, headers: Any) -> Principal:
            return Principal("ann")

    guard = TokenGuard()
    app = serving().asgi(guard=guard, hosts=("mcp.example.com",))
    assert app.guard is guard
    assert check_access(app.access, {"host": "mcp.example.com"}) is None
    assert check_access(app.access, {"host": "localhost"}) is not None
    assert serving().asgi().guard is None
