"""The HTTP routes of the inspector: access control, calls, answers, cancellation."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, Registry

from apcore_mcp.auth.guard import OptionalAuth
from apcore_mcp.catalogue import Catalogue
from apcore_mcp.inspector import Inspector, calls, changes, routes
from apcore_mcp.server.router import ExecutionRouter
from jackstay.server import Server
from jackstay.server.http import App, keys
from peers.asgi import request_app, request_app_sync

KEY, OTHER = "alice-0123456789abcdef", "bobby-0123456789abcdef"
CALL = {"tool": "math.add", "arguments": {"a": 1}}


def inspector_of(registry: Registry, prefix: str = "/inspector", **options: Any) -> Inspector:
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    app: App = Server("demo", version="1.2").asgi(**options)
    inspector = routes(app, catalogue, router, prefix)
    assert isinstance(inspector, Inspector)
    return inspector


def rows(body: bytes) -> list[Any]:
    return [json.loads(line) for line in body.splitlines() if line.strip()]


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/inspector", "/inspector/"])
def test_page_has_a_content_security_policy(registry: Registry, path: str) -> None:
    response = request_app_sync(inspector_of(registry), "GET", path)
    assert (response.status, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script-src 'self'" in response.headers["content-security-policy"]
    assert response.headers["cache-control"] == "no-store"
    assert request_app_sync(inspector_of(registry), "HEAD", path).status == 200


def test_page_needs_a_known_host_but_no_token(registry: Registry) -> None:
    inspector = inspector_of(registry, auth=keys(KEY))
    assert request_app_sync(inspector, "GET", "/inspector").status == 200
    assert request_app_sync(inspector, "GET", "/inspector", host="evil.example").status == 403
    assert b"math.add" not in request_app_sync(inspector, "GET", "/inspector").body


def test_prefix_and_mount(registry: Registry) -> None:
    inspector = inspector_of(registry, "/tools-ui")
    assert request_app_sync(inspector, "GET", "/tools-ui").status == 200
    assert request_app_sync(inspector, "GET", "/tools-ui/api/tools").status == 200
    assert request_app_sync(inspector, "GET", "/tools-ui/api/tools", root="/bridge").status == 200
    assert repr(inspector).startswith("<Inspector at /tools-ui <Calls 0 running>")


# --- reading ----------------------------------------------------------------------------------------------------------


def test_list_and_details(registry: Registry) -> None:
    inspector = inspector_of(registry)
    listing = request_app_sync(inspector, "GET", "/inspector/api/tools").json
    assert (listing["name"], listing["version"], len(listing["tools"])) == ("demo", "1.2", 4)
    details = request_app_sync(inspector, "GET", "/inspector/api/tools/math.add").json
    assert details["row"]["name"] == "math.add"
    assert set(details["input_schema"]["properties"]) == {"a", "b"}
    assert details["documentation"].startswith("# Add")


def test_unknown_module_is_not_found(registry: Registry) -> None:
    response = request_app_sync(inspector_of(registry), "GET", "/inspector/api/tools/no%2Fsuch")
    assert (response.status, response.json) == (404, {"error": "Module not found: no/such"})


REJECTED = [
    ("GET", "/inspector/api/nothing", 404),
    ("GET", "/inspector/other", 404),
    ("GET", "/inspector/tools", 404),
    ("GET", "/inspector/api/", 404),
    ("POST", "/inspector", 405),
    ("POST", "/inspector/api/tools", 405),
    ("HEAD", "/inspector/api/events", 405),
    ("GET", "/inspector/api/call", 405),
    ("POST", "/inspector/api/call/abc", 405),
    ("OPTIONS", "/inspector/api/call", 405),
    ("GET", "/inspector/api/answer", 405),
]


def test_other_paths_and_methods_are_rejected(registry: Registry, subtests: pytest.Subtests) -> None:
    inspector = inspector_of(registry, cors=["*"])
    for method, path, status in REJECTED:
        with subtests.test(method=method, path=path):
            response = request_app_sync(inspector, method, path)
            assert response.status == status
            assert "access-control-allow-origin" not in response.headers
            assert ("allow" in response.headers) is (status == 405)


# --- access -----------------------------------------------------------------------------------------------------------

API = [
    ("GET", "/inspector/api/tools", None),
    ("GET", "/inspector/api/tools/math.add", None),
    ("GET", "/inspector/api/events", None),
    ("POST", "/inspector/api/call", CALL),
    ("POST", "/inspector/api/answer", {"call": "x", "accepted": True}),
    ("DELETE", "/inspector/api/call/x", None),
]


FOREIGN: list[dict[str, str]] = [
    {"host": "evil.example"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    # A page on another port of this machine may call the endpoint, but not use the inspector.
    {"origin": "http://localhost:3000"},
    {"sec_fetch_site": "cross-site"},
]


def test_other_hosts_and_pages_are_rejected(registry: Registry, subtests: pytest.Subtests) -> None:
    inspector = inspector_of(registry)
    for method, path, body in API:
        for headers in FOREIGN:
            with subtests.test(method=method, path=path, headers=headers):
                assert request_app_sync(inspector, method, path, body, **headers).status == 403


def test_api_requires_the_token(registry: Registry, subtests: pytest.Subtests) -> None:
    inspector = inspector_of(registry, auth=keys(KEY))
    for method, path, body in API:
        with subtests.test(method=method, path=path):
            response = request_app_sync(inspector, method, path, body)
            assert response.status == 401
            assert response.headers["www-authenticate"].startswith("Bearer")


def test_cors_does_not_allow_other_pages(registry: Registry) -> None:
    inspector = inspector_of(registry, cors=["*"], hosts=["*"])
    assert request_app_sync(inspector, "POST", "/inspector/api/call", CALL, origin="https://evil.example").status == 403


def test_call_uses_the_principal_of_the_token(registry: Registry, kinds: SimpleNamespace) -> None:
    seen = []
    registry.register("a.identity", kinds.Plain(lambda inputs, context: seen.append(context.identity.id) or {}))
    inspector = inspector_of(registry, auth=keys({"alice": KEY}))
    response = request_app_sync(
        inspector, "POST", "/inspector/api/call", {"tool": "a.identity"}, authorization=f"Bearer {KEY}"
    )
    assert rows(response.body)[-1]["is_error"] is False
    assert seen == ["alice"]


# --- calling ----------------------------------------------------------------------------------------------------------


def test_traceback_needs_a_key_also_where_none_is_needed(registry: Registry, kinds: SimpleNamespace) -> None:
    """These requests have no address, so they are not of this machine."""
    registry.register("test.fails", kinds.Plain(lambda *_: 1 / 0))
    inspector = inspector_of(registry, auth=OptionalAuth(keys(KEY), require_auth=False, exempt_paths=()))
    body = {"tool": "test.fails", "arguments": {}}
    for headers, is_shown in (({}, False), ({"authorization": f"Bearer {KEY}"}, True)):
        response = request_app_sync(inspector, "POST", "/inspector/api/call", body, **headers)
        assert ("debug" in rows(response.body)[-1]) is is_shown


def test_calls_can_be_forbidden(registry: Registry) -> None:
    inspector = inspector_of(registry)
    inspector._may_call = False
    response = request_app_sync(inspector, "POST", "/inspector/api/call", body=CALL)
    assert (response.status, response.json["error"]) == (403, "this server does not allow calls from the inspector")


def test_call_is_streamed_as_json_lines(registry: Registry) -> None:
    response = request_app_sync(
        inspector_of(registry),
        "POST",
        "/inspector/api/call",
        CALL,
        origin="http://localhost",
        sec_fetch_site="same-origin",
    )
    assert (response.status, response.headers["content-type"]) == (200, "application/x-ndjson")
    assert [row["type"] for row in rows(response.body)] == ["began", "result"]
    assert rows(response.body)[-1]["structured"] == {"total": 3}


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ({"tool": 3}, 400, "the body must be"),
        ({"tool": "math.add", "arguments": [1]}, 400, "the body must be"),
        ({}, 400, "the body must be"),
        ({"tool": "nobody.here"}, 404, "Module not found: nobody.here"),
    ],
)
def test_invalid_call_bodies(registry: Registry, body: Any, status: int, problem: str) -> None:
    response = request_app_sync(inspector_of(registry), "POST", "/inspector/api/call", body)
    assert response.status == status
    assert problem in response.json["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_body_must_be_json(registry: Registry, kind: str) -> None:
    response = request_app_sync(inspector_of(registry), "POST", "/inspector/api/call", content_type=kind)
    assert response.status == 415


def test_large_body_is_rejected(registry: Registry) -> None:
    inspector = inspector_of(registry, max_body_bytes=1024)
    body = {"tool": "math.add", "arguments": {"a": "x" * 2000}}
    assert request_app_sync(inspector, "POST", "/inspector/api/call", body).status == 413


def test_draining_server_rejects_calls_and_streams(registry: Registry) -> None:
    inspector = inspector_of(registry)
    inspector._app.refuse_new()
    for response in (
        request_app_sync(inspector, "POST", "/inspector/api/call", CALL),
        request_app_sync(inspector, "GET", "/inspector/api/events"),
    ):
        assert response.status == 503
        assert "retry-after" in response.headers


def test_exceeded_limits_are_503(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_CALLS", 0)
    monkeypatch.setattr(changes, "MAX_STREAMS", 0)
    inspector = inspector_of(registry)
    assert request_app_sync(inspector, "POST", "/inspector/api/call", CALL).status == 503
    assert request_app_sync(inspector, "GET", "/inspector/api/events").status == 503


class Page:
    """A page with a running call: it reads lines, and can disconnect or fail."""

    def __init__(self, inspector: Inspector, body: Any, **headers: str) -> None:
        lines = {"host": "localhost", "content-type": "application/json", **headers}
        self._scope = {
            "type": "http",
            "method": "POST",
            "path": "/inspector/api/call",
            "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
        }
        self._inspector = inspector
        self._messages = iter([{"type": "http.request", "body": json.dumps(body).encode()}])
        self.disconnected = asyncio.Event()
        self.is_broken = False
        self.lines: asyncio.Queue[Any] = asyncio.Queue()

    def start(self) -> "asyncio.Future[None]":
        return asyncio.ensure_future(self._inspector(self._scope, self._receive, self._send))

    async def _receive(self) -> Any:
        message = next(self._messages, None)
        if message is None:
            await self.disconnected.wait()
            return {"type": "http.disconnect"}
        return message

    async def _send(self, message: Any) -> None:
        if self.is_broken:
            raise OSError("the client has disconnected")
        for line in message.get("body", b"").splitlines():
            self.lines.put_nowait(json.loads(line))


@pytest.mark.parametrize("way", ["delete", "disconnect"])
async def test_delete_and_disconnect_cancel_a_call(registry: Registry, kinds: SimpleNamespace, way: str) -> None:
    slow = kinds.Slow()
    registry.register("a.slow", slow)

    inspector = inspector_of(registry)
    page = Page(inspector, {"tool": "a.slow"})
    serving = page.start()
    started = await page.lines.get()
    assert await asyncio.to_thread(slow.started.wait, 20)
    assert len(inspector.calls) == 1
    if way == "delete":
        path = f"/inspector/api/call/{started['call']}"
        assert (await request_app(inspector, "DELETE", path)).json == {"cancelled": True}
        assert (await page.lines.get())["type"] == "cancelled"
    else:
        page.disconnected.set()
    await serving
    assert await asyncio.to_thread(slow.was_cancelled.wait, 20)
    assert len(inspector.calls) == 0


async def test_broken_connection_cancels_the_call(registry: Registry, kinds: SimpleNamespace) -> None:
    inspector = inspector_of(registry)
    page = Page(inspector, {"tool": "text.count"})
    page.is_broken = True
    await page.start()
    assert len(inspector.calls) == 0


def test_cancelling_an_ended_call(registry: Registry) -> None:
    response = request_app_sync(inspector_of(registry), "DELETE", "/inspector/api/call/ended")
    assert (response.status, response.json) == (200, {"cancelled": False})


@pytest.mark.parametrize(("accepted", "ran"), [(True, 1), (False, 0), ("true", 0), (1, 0), (None, 0)])
async def test_only_true_from_the_same_principal_is_consent(registry: Registry, accepted: object, ran: int) -> None:
    inspector = inspector_of(registry, auth=keys({"alice": KEY, "bob": OTHER}))
    arguments = {"user": "ann", "password": "x"}
    page = Page(inspector, {"tool": "user.remove", "arguments": arguments}, authorization=f"Bearer {KEY}")
    serving = page.start()
    id = (await page.lines.get())["call"]
    assert (await page.lines.get())["type"] == "question"
    answer = {"call": id, "accepted": accepted}
    path = "/inspector/api/answer"
    other = await request_app(inspector, "POST", path, {"call": id, "accepted": True}, authorization=f"Bearer {OTHER}")
    assert other.status == 404
    assert (await request_app(inspector, "POST", path, answer, authorization=f"Bearer {KEY}")).status == 200
    assert (await request_app(inspector, "POST", path, answer, authorization=f"Bearer {KEY}")).status == 404
    await serving
    assert registry.get("user.remove").ran == ran


async def test_changes_are_streamed_until_disconnect(registry: Registry) -> None:
    async def check() -> None:
        inspector = inspector_of(registry)
        sent: asyncio.Queue[Any] = asyncio.Queue()
        disconnected = asyncio.Event()

        async def receive() -> Any:
            await disconnected.wait()
            return {"type": "http.disconnect"}

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/inspector/api/events",
            "headers": [(b"host", b"localhost")],
        }
        serving = asyncio.ensure_future(inspector(scope, receive, sent.put))
        assert (b"content-type", b"text/event-stream") in (await sent.get())["headers"]
        disconnected.set()
        await serving

    await check()


# --- the first screen, validation, copies and metrics -----------------------------------------------------------------


def test_about_has_the_endpoint(registry: Registry) -> None:
    about = request_app_sync(inspector_of(registry), "GET", "/inspector/api/about", host="localhost:8000").json
    assert (about["title"], about["sections"]) == ("Tool Inspector", ["tools", "resources"])
    endpoint, config, shell = about["start"]
    assert endpoint == {"label": "Endpoint", "text": "http://localhost:8000/mcp"}
    assert json.loads(config["text"]) == {"mcpServers": {"demo": {"url": "http://localhost:8000/mcp"}}}
    assert shell["text"] == "jackstay tools http://localhost:8000/mcp"


def test_validation_runs_nothing(registry: Registry) -> None:
    body = {"tool": "math.add", "arguments": {"a": "x"}}
    found = request_app_sync(inspector_of(registry), "POST", "/inspector/api/validate", body).json
    assert [problem["field"] for problem in found["problems"]] == ["a"]
    body = {"tool": "math.add", "arguments": {"a": 1}}
    assert request_app_sync(inspector_of(registry), "POST", "/inspector/api/validate", body).json == {"problems": []}


def test_a_call_is_copied(registry: Registry) -> None:
    body = {"format": "curl", "method": "tools/call", "params": {"name": "math.add", "arguments": {"a": 1}}}
    inspector = inspector_of(registry)
    text = request_app_sync(inspector, "POST", "/inspector/api/snippet", body).json["text"]
    assert text.startswith("curl http://localhost/mcp ")
    for wrong in ({"format": "perl"}, {"params": []}):
        response = request_app_sync(inspector, "POST", "/inspector/api/snippet", {**body, **wrong})
        assert response.status == 400


def test_metrics_are_a_section(registry: Registry) -> None:
    catalogue = Catalogue(registry)
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    app: App = Server("demo").asgi()
    inspector = routes(app, catalogue, router, metrics=lambda: b"tools 4\n")
    about = request_app_sync(inspector, "GET", "/inspector/api/about").json
    assert about["sections"] == ["tools", "resources", "metrics"]
    assert request_app_sync(inspector, "GET", "/inspector/api/metrics").json == {"text": "tools 4\n"}
    assert request_app_sync(inspector_of(registry), "GET", "/inspector/api/metrics").json == {"text": ""}
