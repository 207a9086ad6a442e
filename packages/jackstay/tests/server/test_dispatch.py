"""The dispatcher over memory transports: every method, every revision, every error.

How handlers run and fail is tested in `test_dispatch_handlers`.
"""

import threading
from typing import Any

import pytest

from chaos.servers_own.conversation import ALL, HANDSHAKE, STATELESS, connected
from jackstay.errors import JsonRpcError
from jackstay.server import Context, InvalidArguments, Next, ResourceNotFoundError, Server, ToolError
from jackstay.types import CallToolResult, TextContent


def make(**options: Any) -> Server:
    server = Server("test", version="1.0", instructions="Be brief.", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool(blocking=False)
    def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool
    def slow(text: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return text

    @server.tool
    async def broken() -> str:
        raise RuntimeError("the password is 1234")

    @server.tool
    async def refusing() -> str:
        raise ToolError("the city is unknown")

    @server.resource("test://static", mime_type="text/plain")
    def static() -> str:
        return "static text"

    @server.resource("test://items/{id}")
    async def item(id: int) -> str:
        if id > 10:
            raise ResourceNotFoundError
        return f"item {id}"

    @server.prompt
    def review(code: str, times: int = 1) -> str:
        """Review it."""
        return f"review {code} {times}"

    @server.completion("review", "code")
    def codes(value: str) -> list[str]:
        return [name for name in ("alpha", "beta") if name.startswith(value)]

    return server


# --- every revision ---------------------------------------------------------------------------------------------------


async def test_all_methods_in_every_revision(subtests: pytest.Subtests) -> None:
    for version in ALL:
        with subtests.test(version=version):
            async with connected(make(), version) as peer:
                tools = await peer.result("tools/list")
                assert [tool["name"] for tool in tools["tools"]] == ["echo", "add", "slow", "broken", "refusing"]
                assert await peer.text("echo", text="hi") == "hi"
                assert await peer.text("add", a=1) == "2"
                assert await peer.text("slow", text="sync") == "sync"
                resources = await peer.result("resources/list")
                assert [resource["uri"] for resource in resources["resources"]] == ["test://static"]
                templates = await peer.result("resources/templates/list")
                assert templates["resourceTemplates"][0]["uriTemplate"] == "test://items/{id}"
                read = await peer.result("resources/read", {"uri": "test://items/7"})
                assert read["contents"][0]["text"] == "item 7"
                assert (await peer.result("resources/read", {"uri": "test://static"}))["contents"]
                prompts = await peer.result("prompts/list")
                assert prompts["prompts"][0]["name"] == "review"
                got = await peer.result("prompts/get", {"name": "review", "arguments": {"code": "x", "times": "2"}})
                assert got["messages"][0]["content"]["text"] == "review x 2"
                reference = {"type": "ref/prompt", "name": "review"}
                params = {"ref": reference, "argument": {"name": "code", "value": "al"}}
                completed = await peer.result("completion/complete", params)
                assert completed["completion"]["values"] == ["alpha"]
                for result in (tools, resources, read, prompts, got, completed):
                    assert result.get("resultType") == ("complete" if version == STATELESS else None)
                is_cacheable = version == STATELESS
                assert all(("ttlMs" in page) == is_cacheable for page in (tools, resources, templates, read, prompts))


async def test_initialize_returns_the_instructions_and_capabilities(subtests: pytest.Subtests) -> None:
    for version in HANDSHAKE:
        with subtests.test(version=version):
            async with connected(make(), version, is_fresh=True) as peer:
                result = await peer.initialize()
                assert result["instructions"] == "Be brief."
                assert set(result["capabilities"]) == {"tools", "resources", "prompts", "completions", "logging"}
                assert await peer.result("ping") == {}


async def test_discover_returns_the_versions_and_capabilities() -> None:
    async with connected(make(), STATELESS) as peer:
        result = await peer.result("server/discover")
        assert set(result["supportedVersions"]) == set(ALL)
        assert "tools" in result["capabilities"]


# --- errors -----------------------------------------------------------------------------------------------------------

WRONG = [
    ("tools/call", {"name": "nope"}, -32602, "unknown tool: nope"),
    ("tools/call", {"arguments": {}}, -32602, "invalid params for tools/call"),
    ("tools/call", {"name": 3}, -32602, "invalid params for tools/call"),
    ("tools/list", {"cursor": "garbage"}, -32602, "invalid cursor for this list"),
    ("tools/list", {"cursor": 3}, -32602, "invalid params for tools/list"),
    ("prompts/get", {"name": "nope"}, -32602, "unknown prompt: nope"),
    ("prompts/get", {"name": "review"}, -32602, "Invalid arguments: code: missing"),
    ("prompts/get", {"name": "review", "arguments": {"code": 3}}, -32602, "invalid params for prompts/get"),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "nope"}, "argument": {"name": "a", "value": ""}},
     -32602, "unknown prompt: nope"),
    ("completion/complete", {"ref": {"type": "ref/other"}}, -32602, "invalid params for completion/complete"),
]  # fmt: skip


async def test_wrong_params_are_rejected(subtests: pytest.Subtests) -> None:
    for version in ["2025-11-25", STATELESS]:
        for method, params, code, message in WRONG:
            with subtests.test(method=method, params=params, code=code, message=message, version=version):
                async with connected(make(), version) as peer:
                    error = await peer.error(method, dict(params))
                    assert error["code"] == code
                    assert message in error["message"]


async def test_resource_not_found_has_the_code_of_the_revision(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, int]] = [("2025-11-25", -32002), ("2024-11-05", -32002), (STATELESS, -32602)]
    for uri in ["test://nothing", "test://items/eleven", "test://items/11"]:
        for version, code in cases:
            with subtests.test(version=version, code=code, uri=uri):
                async with connected(make(), version) as peer:
                    error = await peer.error("resources/read", {"uri": uri})
                    assert error == {"code": code, "message": "resource not found", "data": {"uri": uri}}


async def test_methods_without_a_capability_are_not_found(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "prompts/get",
        "completion/complete",
        "tasks/list",
    ]
    for method in cases:
        with subtests.test(method=method):
            async with connected(Server("empty")) as peer:
                error = await peer.error(method, {"name": "x", "uri": "x:y"})
                assert error["code"] == -32601


async def test_a_capability_can_be_declared_before_anything_is_registered() -> None:
    async with connected(Server("empty", capabilities=("tools",))) as peer:
        assert (await peer.result("tools/list"))["tools"] == []


async def test_all_wrong_arguments_are_named_in_the_result() -> None:
    async with connected(make()) as peer:
        result = await peer.call("add", a="x", c=1)
        assert result["isError"] is True
        text = result["content"][0]["text"]
        assert "a:" in text
        assert "c: unknown argument" in text


async def test_null_arguments_are_accepted_as_none() -> None:
    async with connected(make()) as peer:
        result = await peer.result("tools/call", {"name": "refusing", "arguments": None})
        assert result["content"][0]["text"] == "the city is unknown"


SHAPES = [
    (lambda tool, invalid: f"{tool}: {len(invalid.problems)}", "add: 1"),
    (lambda tool, invalid: CallToolResult(content=[TextContent(text="custom")], is_error=True), "custom"),
    (lambda tool, invalid: 1 / 0, "on_invalid_arguments for add failed (reference "),
]


async def test_on_invalid_arguments_returns_the_result(subtests: pytest.Subtests) -> None:
    for shape, text in SHAPES:
        with subtests.test(shape=shape, text=text):
            async with connected(make(on_invalid_arguments=shape)) as peer:
                result = await peer.call("add")
                assert result["isError"] is True
                assert result["content"][0]["text"].startswith(text)


async def test_on_invalid_arguments_may_raise_a_protocol_error() -> None:
    def shape(tool: str, invalid: InvalidArguments) -> object:
        raise JsonRpcError(-32602, invalid.text)

    async with connected(make(on_invalid_arguments=shape)) as peer:
        assert (await peer.error("tools/call", {"name": "add"}))["code"] == -32602


# --- resources, completion, logging, lists ----------------------------------------------------------------------------


async def test_subscribe_and_unsubscribe() -> None:
    server = make()
    async with connected(server) as peer:
        server.notify_resource_updated("test://static")
        await peer.result("ping")
        await peer.result("resources/subscribe", {"uri": "test://static"})
        server.notify_resource_updated("test://other")
        server.notify_resource_updated("test://static")
        assert await peer.notification("notifications/resources/updated") == {"uri": "test://static"}
        await peer.result("resources/unsubscribe", {"uri": "test://static"})
        server.notify_resource_updated("test://static")
        await peer.result("ping")
        assert peer.notifications == []


async def test_arguments_without_a_completion_have_no_values() -> None:
    async with connected(make()) as peer:
        for reference in (
            {"type": "ref/prompt", "name": "review"},
            {"type": "ref/resource", "uri": "test://items/{id}"},
        ):
            params = {"ref": reference, "argument": {"name": "times", "value": ""}}
            assert (await peer.result("completion/complete", params))["completion"] == {"values": []}


async def test_a_completion_gets_the_resolved_arguments_and_a_context() -> None:
    server = Server("completing")

    @server.resource("db://{table}/{row}")
    def row(table: str, row: str) -> str:
        return row

    @server.completion("db://{table}/{row}", "row")
    async def rows(value: str, arguments: dict[str, str], ctx: Context) -> list[str]:
        return [f"{arguments.get('table')}-{value}-{ctx.method}"]

    async with connected(server) as peer:
        params = {
            "ref": {"type": "ref/resource", "uri": "db://{table}/{row}"},
            "argument": {"name": "row", "value": "1"},
            "context": {"arguments": {"table": "people"}},
        }
        completed = await peer.result("completion/complete", params)
        assert completed["completion"]["values"] == ["people-1-completion/complete"]


async def test_an_unknown_log_level_is_rejected() -> None:
    async with connected(make()) as peer:
        assert await peer.result("logging/setLevel", {"level": "error"}) == {}
        assert (await peer.error("logging/setLevel", {"level": "loud"}))["code"] == -32602


async def test_pages_are_linked_by_cursors() -> None:
    async with connected(make(page_size=2), STATELESS) as peer:
        names, cursor = [], {}
        for _ in range(3):
            page = await peer.result("tools/list", cursor)
            names += [tool["name"] for tool in page["tools"]]
            cursor = {"cursor": page.get("nextCursor")}
        assert names == ["echo", "add", "slow", "broken", "refusing"]
        assert cursor == {"cursor": None}


async def test_the_cache_of_finalized_pages_is_bounded() -> None:
    server = make()
    async with connected(server, STATELESS) as peer:
        for number in range(70):
            server.tool(name=f"more_{number}")(lambda: None)
            await peer.result("tools/list")
        assert server._dispatch._finalize_page.cache_info().currsize <= 64


# --- middleware -------------------------------------------------------------------------------------------------------


async def test_middleware_runs_around_every_request_in_order() -> None:
    calls: list[str] = []

    def recording(name: str) -> Any:
        async def middleware(ctx: Context, call_next: Next) -> bytes:
            calls.append(f"{name} before {ctx.method}")
            result = await call_next()
            calls.append(f"{name} after")
            return result

        return middleware

    server = make(middleware=[recording("outer")])
    server.add_middleware(recording("inner"))
    async with connected(server) as peer:
        assert await peer.text("add", a=1) == "2"
        assert calls == [
            "outer before tools/call",
            "inner before tools/call",
            "inner after",
            "outer after",
        ]
        assert await peer.text("echo", text="x") == "x"
        assert await peer.result("tools/list")


async def test_middleware_may_raise_errors() -> None:
    async def guard(ctx: Context, call_next: Next) -> bytes:
        if ctx.params.get("name") == "echo":
            raise JsonRpcError(-32603, "not permitted")
        raise ValueError("secret")

    async with connected(make(middleware=[guard])) as peer:
        assert (await peer.error("tools/call", {"name": "echo"}))["message"] == "not permitted"
        message = (await peer.error("tools/call", {"name": "add"}))["message"]
        assert message.startswith("tools/call failed (reference")


async def test_a_subscription_stays_open_through_middleware() -> None:
    async def passing(ctx: Context, call_next: Next) -> bytes:
        return await call_next()

    server = make(middleware=[passing])
    async with connected(server, STATELESS) as peer:
        peer.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        await peer.notification("notifications/subscriptions/acknowledged")
        server.remove_tool("add")
        await peer.notification("notifications/tools/list_changed")
        assert not [frame for frame in peer.frames if frame.get("id") == "s"]


async def test_middleware_that_returns_no_result_is_an_internal_error(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    returned: Any = None

    async def forgetful(ctx: Context, call_next: Next) -> Any:
        await call_next()
        return returned

    for version in ("2025-11-25", STATELESS):
        for returned in (None, b"", b"null", "{}", {"content": []}):
            with subtests.test(version=version, returned=returned):
                caplog.clear()
                async with connected(make(middleware=[forgetful]), version) as peer:
                    error = await peer.error("tools/call", {"name": "add", "arguments": {"a": 1}})
                    assert error["code"] == -32603
                assert "middleware must return the encoded result as bytes" in caplog.text
