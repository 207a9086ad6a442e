"""Apps on the page: documents in an opaque origin under their own policy, and calls only of tools for apps."""

from typing import Any

import pytest

from jackstay import Context, connect
from jackstay.apps import App, Apps
from jackstay.errors import UsageError
from jackstay.inspector._apps import MAX_DOCUMENTS, AppDocuments, call_for_app, policy_of
from jackstay.server import Server
from peers.asgi import request_app
from scripted.inspected import Inspected, inspecting, make_server

PAGE = App("ui://a/page", "<!doctype html><p>é", resource_domains=["https://cdn.example.com"])


def test_the_policy_has_a_sandbox_and_no_files_of_the_inspector() -> None:
    policy = policy_of(PAGE)
    assert "'self'" not in policy.replace("frame-ancestors 'self'", "")
    assert policy.endswith("; frame-ancestors 'self'; sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "script-src 'unsafe-inline' https://cdn.example.com;" in policy
    assert "connect-src 'none';" in policy
    assert "base-uri 'none';" in policy
    assert "; font-src https://cdn.example.com;" in policy
    assert "; font-src;" in policy_of(App("ui://b", ""))  # an empty list allows nothing


def test_old_documents_are_dropped() -> None:
    documents = AppDocuments()
    paths = [documents.add(PAGE)["path"] for _ in range(MAX_DOCUMENTS + 1)]
    assert len(set(paths)) == MAX_DOCUMENTS + 1
    assert len(documents._by_name) == MAX_DOCUMENTS


async def test_an_app_calls_only_tools_that_are_for_apps() -> None:
    server = Server("apps")

    @server.tool(app=PAGE, app_only=True)
    def own() -> str:
        return "own"

    @server.tool(meta={"ui": {"visibility": ["model"]}})
    def model() -> str:
        return "model"

    async with connect(server, extensions=[Apps()]) as client:
        assert (await call_for_app(client, "own", {}))["content"][0]["text"] == "own"
        for tool in ("model", "unknown"):
            with pytest.raises(UsageError, match="for apps"):
                await call_for_app(client, tool, {})


async def test_the_document_of_a_tool() -> None:
    server = make_server()

    @server.tool(app=App("ui://demo/page", "<!doctype html><p>demo"))
    def show(context: Context) -> str:
        return "page" if context.shows_apps else "text"

    async with inspecting(server) as inspected:
        await check_document(inspected)


async def check_document(inspected: Inspected) -> None:
    shown: dict[str, Any] = await inspected.get("app/show")
    assert (shown["uri"], shown["border"]) == ("ui://demo/page", True)
    response = await request_app(inspected.app, "GET", shown["path"])  # as a browser does for a frame, without the key
    assert response.status == 200
    assert response.headers["content-security-policy"] == shown["policy"]
    assert "x-frame-options" not in response.headers
    assert response.body == b"<!doctype html><p>demo"
    assert (await request_app(inspected.app, "GET", "/app/unknown")).status == 401
    assert (await request_app(inspected.app, "GET", shown["path"], host="evil.example")).status == 403
    assert (await inspected.request("GET", "/api/app/add")).status == 404
    called = await inspected.post("app-call", tool="show", arguments={})
    assert called["raw"]["content"][0]["text"] == "page"
    assert (await inspected.post("app-call", tool="none"))["failed"]["error"] == "UsageError"
    await inspected.post("app-call", 400, tool="show", arguments=3)
    rows = {row["name"]: row["app"] for row in (await inspected.get("tools"))["tools"]}
    assert (rows["show"], rows["add"]) == ("ui://demo/page", None)
