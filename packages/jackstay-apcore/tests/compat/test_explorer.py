"""The explorer of apcore-mcp in a Starlette app."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
from apcore import Executor, Identity, Registry
from apcore.observability import UsageCollector
from starlette.applications import Starlette

from apcore_mcp import ExecutionRouter, MCPServerFactory
from apcore_mcp.explorer import create_explorer_mount, create_usage_routes


@contextlib.asynccontextmanager
async def client_of(*routes: Any) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(Starlette(routes=list(routes)))
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        yield client


class Token:
    def authenticate(self, headers: dict[str, str]) -> Identity | None:
        return Identity(id="ann") if headers.get("authorization") == "Bearer good" else None


async def test_page_list_and_call(registry: Registry) -> None:
    tools = MCPServerFactory().build_tools(registry)
    router = ExecutionRouter(Executor(registry))
    mount = create_explorer_mount(tools, router, allow_execute=True, authenticator=Token(), project_name="<x>")
    async with client_of(mount) as client:
        assert "MCP Tool Explorer: &lt;x&gt;" in (await client.get("/explorer/")).text
        listed = (await client.get("/explorer/tools")).json()
        assert [tool["name"] for tool in listed] == [tool.name for tool in tools]
        assert "a" in (await client.get("/explorer/tools/math.add")).json()["inputSchema"]["properties"]
        post = client.post
        assert (await post("/explorer/tools/math.add/validate", json={"a": 1})).json() == {"valid": True}
        assert (await post("/explorer/tools/math.add/validate", json={"a": "x"})).json()["errors"][0]["path"] == "/a"
        assert (await post("/explorer/tools/math.add/call", json={"a": 1})).status_code == 401
        client.headers["Authorization"] = "Bearer good"
        result = (await post("/explorer/tools/math.add/call", json={"a": 1})).json()
        assert (result["content"][0]["text"], result["isError"]) == ('{"total": 3}', False)
        assert len(result["_meta"]["_trace_id"]) == 32
        assert (await post("/explorer/tools/math.add/call", json={"a": "x"})).status_code == 500
        for path in ("", "/validate", "/call"):
            request: Any = post if path else client.get
            assert (await request(f"/explorer/tools/no.such{path}")).status_code == 404
        kind = {"content-type": "application/json"}
        bodies: list[Any] = [{"content": b'{"a": 1}'}, {"json": [1]}, {"content": b"{", "headers": kind}]
        for path in ("validate", "call"):
            for bad in bodies:
                assert (await post(f"/explorer/tools/math.add/{path}", **bad)).status_code == 400


async def test_calls_are_disabled_by_default(registry: Registry) -> None:
    mount = create_explorer_mount(MCPServerFactory().build_tools(registry), None, explorer_prefix="/custom")
    async with client_of(mount) as client:
        assert (await client.post("/custom/tools/math.add/call", json={})).status_code == 403


async def test_usage() -> None:
    collector = UsageCollector()
    collector.record("a.b", "ann", 10.0, success=True)
    async with client_of(*create_usage_routes(collector)) as client:
        assert (await client.get("/explorer/api/usage")).json()["modules"][0]["module_id"] == "a.b"
        assert (await client.get("/explorer/api/usage/a.b?period=1h")).json()["module_id"] == "a.b"
        assert (await client.get("/explorer/api/usage?period=x")).status_code == 400
