"""F-026 over HTTP: the paths, the rules of Host, Origin and token that each is held to, calls, answers, cancellation."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, Registry

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.inspector import Inspector, calls, changes, routes
from apcore_mcp.server.router import ExecutionRouter
from jackstay.server import Server
from jackstay.server.http import App, keys
from peers.asgi import ask, asked

KEY, OTHER = "alice-0123456789abcdef", "bobby-0123456789abcdef"
CALL = {"tool": "math.add", "arguments": {"a": 1}}


def inspector_of(registry: Registry, prefix: str = "/inspector", **options: Any) -> Inspector:
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    app: App = Server("demo", version="1.2").asgi(**options)
    made = routes(app, catalogue, router, prefix)
    assert isinstance(made, Inspector)
    return made


def rows(body: bytes) -> list[Any]:
    return [json.loads(line) for line in body.splitlines() if line.strip()]


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/inspector", "/inspector/"])
def test_the_page_is_served_with_its_policy(registry: Registry, path: str) -> None:
    answer = asked(inspector_of(registry), "GET", path)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script-src 'sha256-" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert asked(inspector_of(registry), "HEAD", path).status == 200


def test_the_page_needs_a_known_host_but_no_token_because_nothing_is_in_it(registry: Registry) -> None:
    inspector = inspector_of(registry, auth=keys(KEY))
    assert asked(inspector, "GET", "/inspector").status == 200
    assert asked(inspector, "GET", "/inspector", host="evil.example").status == 403
    assert b"math.add" not in asked(inspector, "GET", "/inspector").body


def test_another_prefix_and_a_mount_are_followed(registry: Registry) -> None:
    inspector = inspector_of(registry, "/look")
    assert asked(inspector, "GET", "/look").status == 200
    assert asked(inspector, "GET", "/look/api/tools").status == 200
    assert asked(inspector, "GET", "/look/api/tools", root="/bridge").status == 200
    assert repr(inspector).startswith("<Inspector at /look <Calls 0 running>")


# --- reading ----------------------------------------------------------------------------------------------------------


def test_tools_are_listed_and_one_is_shown_whole(registry: Registry) -> None:
    inspector = inspector_of(registry)
    listing = asked(inspector, "GET", "/inspector/api/tools").json
    assert (listing["name"], listing["version"], len(listing["tools"])) == ("demo", "1.2", 4)
    whole = asked(inspector, "GET", "/inspector/api/tools/math.add").json
    assert whole["row"]["name"] == "math.add"
    assert set(whole["input_schema"]["properties"]) == {"a", "b"}
    assert whole["documentation"].startswith("# Add")


def test_a_hidden_module_is_not_there(registry: Registry) -> None:
    answer = asked(inspector_of(registry), "GET", "/inspector/api/tools/no%2Fsuch")
    assert (answer.status, answer.json) == (404, {"error": "Module not found: no/such"})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
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
    ],
)
def test_other_paths_and_verbs_are_refused(registry: Registry, method: str, path: str, status: int) -> None:
    answer = asked(inspector_of(registry, cors=["*"]), method, path)
    assert answer.status == status
    assert "access-control-allow-origin" not in answer.headers
    assert ("allow" in answer.headers) is (status == 405)


# --- who may ----------------------------------------------------------------------------------------------------------

API = [
    ("GET", "/inspector/api/tools", None),
    ("GET", "/inspector/api/tools/math.add", None),
    ("GET", "/inspector/api/events", None),
    ("POST", "/inspector/api/call", CALL),
    ("POST", "/inspector/api/answer", {"call": "x", "accepted": True}),
    ("DELETE", "/inspector/api/call/x", None),
]


@pytest.mark.parametrize(("method", "path", "body"), API)
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        # A page on another port of this machine may call the endpoint, but not drive the inspector.
        {"origin": "http://localhost:3000"},
        {"sec_fetch_site": "cross-site"},
    ],
)
def test_foreign_hosts_and_pages_reach_nothing(
    registry: Registry, method: str, path: str, body: Any, headers: dict[str, str]
) -> None:
    assert asked(inspector_of(registry), method, path, body, **headers).status == 403


@pytest.mark.parametrize(("method", "path", "body"), API)
def test_the_endpoints_token_is_wanted_for_everything(
    registry: Registry, method: str, path: str, body: Any
) -> None:
    answer = asked(inspector_of(registry, auth=keys(KEY)), method, path, body)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_even_cors_for_everybody_does_not_let_another_page_in(registry: Registry) -> None:
    inspector = inspector_of(registry, cors=["*"], hosts=["*"])
    assert asked(inspector, "POST", "/inspector/api/call", CALL, origin="https://evil.example").status == 403


def test_with_the_token_a_call_is_made_in_the_callers_name(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    seen = []
    registry.register("a.who", kinds.Plain(lambda inputs, context: seen.append(context.identity.id) or {}))
    inspector = inspector_of(registry, auth=keys({"alice": KEY}))
    answer = asked(inspector, "POST", "/inspector/api/call", {"tool": "a.who"}, authorization=f"Bearer {KEY}")
    assert rows(answer.body)[-1]["is_error"] is False
    assert seen == ["alice"]


# --- calling ----------------------------------------------------------------------------------------------------------


def test_a_call_is_streamed_as_lines_of_json(registry: Registry) -> None:
    answer = asked(
        inspector_of(registry),
        "POST",
        "/inspector/api/call",
        CALL,
        origin="http://localhost",
        sec_fetch_site="same-origin",
    )
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
    assert [row["type"] for row in rows(answer.body)] == ["began", "result"]
    assert rows(answer.body)[-1]["structured"] == {"total": 3}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"tool": 3}, 400, "a call is"),
        ({"tool": "math.add", "arguments": [1]}, 400, "a call is"),
        ({}, 400, "a call is"),
        ({"tool": "nobody.here"}, 404, "Module not found: nobody.here"),
    ],
)
def test_a_call_that_is_none_is_refused_in_words(
    registry: Registry, body: Any, status: int, said: str
) -> None:
    answer = asked(inspector_of(registry), "POST", "/inspector/api/call", body)
    assert answer.status == status
    assert said in answer.json["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_foreign_page_can_send_unasked_is_not_taken(registry: Registry, kind: str) -> None:
    answer = asked(inspector_of(registry), "POST", "/inspector/api/call", content_type=kind)
    assert answer.status == 415


def test_a_body_over_the_endpoints_limit_is_refused(registry: Registry) -> None:
    inspector = inspector_of(registry, max_body_bytes=1024)
    body = {"tool": "math.add", "arguments": {"a": "x" * 2000}}
    assert asked(inspector, "POST", "/inspector/api/call", body).status == 413


def test_a_draining_server_takes_no_calls_and_no_streams(registry: Registry) -> None:
    inspector = inspector_of(registry)
    inspector._app.refuse_new()
    for answer in (
        asked(inspector, "POST", "/inspector/api/call", CALL),
        asked(inspector, "GET", "/inspector/api/events"),
    ):
        assert answer.status == 503
        assert "retry-after" in answer.headers


def test_limits_are_told_as_passing(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_CALLS", 0)
    monkeypatch.setattr(changes, "MAX_STREAMS", 0)
    inspector = inspector_of(registry)
    assert asked(inspector, "POST", "/inspector/api/call", CALL).status == 503
    assert asked(inspector, "GET", "/inspector/api/events").status == 503


class Page:
    """A page with a call under way: it reads lines, and can leave or break."""

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
        self.left = asyncio.Event()
        self.is_broken = False
        self.lines: asyncio.Queue[Any] = asyncio.Queue()

    def start(self) -> "asyncio.Future[None]":
        return asyncio.ensure_future(self._inspector(self._scope, self._receive, self._send))

    async def _receive(self) -> Any:
        message = next(self._messages, None)
        if message is None:
            await self.left.wait()
            return {"type": "http.disconnect"}
        return message

    async def _send(self, message: Any) -> None:
        if self.is_broken:
            raise OSError("the client has gone")
        for line in message.get("body", b"").splitlines():
            self.lines.put_nowait(json.loads(line))


@pytest.mark.parametrize("way", ["delete", "leave"])
def test_a_call_is_cancelled_by_delete_and_by_leaving(
    registry: Registry, kinds: SimpleNamespace, way: str
) -> None:
    slow = kinds.Slow()
    registry.register("a.slow", slow)

    async def check() -> None:
        inspector = inspector_of(registry)
        page = Page(inspector, {"tool": "a.slow"})
        serving = page.start()
        began = await page.lines.get()
        assert await asyncio.to_thread(slow.began.wait, 20)
        assert len(inspector.calls) == 1
        if way == "delete":
            path = f"/inspector/api/call/{began['call']}"
            assert (await ask(inspector, "DELETE", path)).json == {"cancelled": True}
            assert (await page.lines.get())["type"] == "cancelled"
        else:
            page.left.set()
        await serving
        assert await asyncio.to_thread(slow.was_told.wait, 20)
        assert len(inspector.calls) == 0

    asyncio.run(check())


def test_a_page_whose_connection_broke_cancels_its_call(registry: Registry, kinds: SimpleNamespace) -> None:
    async def check() -> None:
        inspector = inspector_of(registry)
        page = Page(inspector, {"tool": "text.count"})
        page.is_broken = True
        await page.start()
        assert len(inspector.calls) == 0

    asyncio.run(check())


def test_cancelling_what_has_ended_is_no_error(registry: Registry) -> None:
    answer = asked(inspector_of(registry), "DELETE", "/inspector/api/call/ended")
    assert (answer.status, answer.json) == (200, {"cancelled": False})


@pytest.mark.parametrize(("said", "ran"), [(True, 1), (False, 0), ("true", 0), (1, 0), (None, 0)])
def test_only_a_plain_yes_of_the_same_person_is_consent(registry: Registry, said: object, ran: int) -> None:
    async def check() -> None:
        inspector = inspector_of(registry, auth=keys({"alice": KEY, "bob": OTHER}))
        arguments = {"user": "ann", "password": "x"}
        page = Page(inspector, {"tool": "user.remove", "arguments": arguments}, authorization=f"Bearer {KEY}")
        serving = page.start()
        id = (await page.lines.get())["call"]
        assert (await page.lines.get())["type"] == "question"
        answer = {"call": id, "accepted": said}
        path = "/inspector/api/answer"
        stranger = await ask(
            inspector, "POST", path, {"call": id, "accepted": True}, authorization=f"Bearer {OTHER}"
        )
        assert stranger.status == 404
        assert (await ask(inspector, "POST", path, answer, authorization=f"Bearer {KEY}")).status == 200
        assert (await ask(inspector, "POST", path, answer, authorization=f"Bearer {KEY}")).status == 404
        await serving

    asyncio.run(check())
    assert registry.get("user.remove").ran == ran


def test_changes_are_streamed_until_the_page_goes(registry: Registry) -> None:
    async def check() -> None:
        inspector = inspector_of(registry)
        sent: asyncio.Queue[Any] = asyncio.Queue()
        left = asyncio.Event()

        async def receive() -> Any:
            await left.wait()
            return {"type": "http.disconnect"}

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/inspector/api/events",
            "headers": [(b"host", b"localhost")],
        }
        serving = asyncio.ensure_future(inspector(scope, receive, sent.put))
        assert (b"content-type", b"text/event-stream") in (await sent.get())["headers"]
        left.set()
        await serving

    asyncio.run(check())
