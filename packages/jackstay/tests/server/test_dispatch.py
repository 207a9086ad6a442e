"""What each request means, in whole conversations over memory: every method, every revision, every refusal.

What becomes of handlers is in `test_dispatch_handlers`.
"""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from chaos.servers_own.conversation import ALL, HANDSHAKE, STATELESS, run, talking
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
    def codes(typed: str) -> list[str]:
        return [word for word in ("alpha", "beta") if word.startswith(typed)]

    return server


# --- every revision ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL)
def test_a_whole_conversation_in_every_revision(version: str) -> None:
    async def test() -> None:
        async with talking(make(), version) as peer:
            tools = await peer.result("tools/list")
            assert [tool["name"] for tool in tools["tools"]] == ["echo", "add", "slow", "broken", "refusing"]
            assert await peer.text("echo", text="hi") == "hi"
            assert await peer.text("add", a=1) == "2"
            assert await peer.text("slow", text="sync") == "sync"
            resources = await peer.result("resources/list")
            assert [one["uri"] for one in resources["resources"]] == ["test://static"]
            templates = await peer.result("resources/templates/list")
            assert templates["resourceTemplates"][0]["uriTemplate"] == "test://items/{id}"
            read = await peer.result("resources/read", {"uri": "test://items/7"})
            assert read["contents"][0]["text"] == "item 7"
            assert (await peer.result("resources/read", {"uri": "test://static"}))["contents"]
            prompts = await peer.result("prompts/list")
            assert prompts["prompts"][0]["name"] == "review"
            got = await peer.result(
                "prompts/get", {"name": "review", "arguments": {"code": "x", "times": "2"}}
            )
            assert got["messages"][0]["content"]["text"] == "review x 2"
            reference = {"type": "ref/prompt", "name": "review"}
            asked = {"ref": reference, "argument": {"name": "code", "value": "al"}}
            completed = await peer.result("completion/complete", asked)
            assert completed["completion"]["values"] == ["alpha"]
            for result in (tools, resources, read, prompts, got, completed):
                assert result.get("resultType") == ("complete" if version == STATELESS else None)
            is_cacheable = version == STATELESS
            assert all(
                ("ttlMs" in one) == is_cacheable for one in (tools, resources, templates, read, prompts)
            )

    run(test)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_handshake_tells_what_is_offered(version: str) -> None:
    async def test() -> None:
        async with talking(make(), version, is_fresh=True) as peer:
            told = await peer.initialize()
            assert told["instructions"] == "Be brief."
            assert set(told["capabilities"]) == {"tools", "resources", "prompts", "completions", "logging"}
            assert await peer.result("ping") == {}

    run(test)


def test_discovery_tells_what_is_offered() -> None:
    async def test() -> None:
        async with talking(make(), STATELESS) as peer:
            told = await peer.result("server/discover")
            assert set(told["supportedVersions"]) == set(ALL)
            assert "tools" in told["capabilities"]

    run(test)


# --- what is wrong ----------------------------------------------------------------------------------------------------

WRONG = [
    ("tools/call", {"name": "nope"}, -32602, "unknown tool: nope"),
    ("tools/call", {"arguments": {}}, -32602, "the params of tools/call are wrong"),
    ("tools/call", {"name": 3}, -32602, "the params of tools/call are wrong"),
    ("tools/list", {"cursor": "rubbish"}, -32602, "not a cursor of this list"),
    ("tools/list", {"cursor": 3}, -32602, "the params of tools/list are wrong"),
    ("prompts/get", {"name": "nope"}, -32602, "unknown prompt: nope"),
    ("prompts/get", {"name": "review"}, -32602, "Invalid arguments: code: missing"),
    ("prompts/get", {"name": "review", "arguments": {"code": 3}}, -32602, "the params of prompts/get are wrong"),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "nope"}, "argument": {"name": "a", "value": ""}},
     -32602, "nothing is called nope"),
    ("completion/complete", {"ref": {"type": "ref/other"}}, -32602, "the params of completion/complete are wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "params", "code", "message"), WRONG)
@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
def test_wrong_params_are_refused(
    version: str, method: str, params: Mapping[str, Any], code: int, message: str
) -> None:
    async def test() -> None:
        async with talking(make(), version) as peer:
            error = await peer.error(method, dict(params))
            assert error["code"] == code
            assert message in error["message"]

    run(test)


@pytest.mark.parametrize(
    ("version", "code"), [("2025-11-25", -32002), ("2024-11-05", -32002), (STATELESS, -32602)]
)
@pytest.mark.parametrize("uri", ["test://nothing", "test://items/eleven", "test://items/11"])
def test_a_resource_that_does_not_exist_has_the_code_of_its_revision(
    version: str, code: int, uri: str
) -> None:
    async def test() -> None:
        async with talking(make(), version) as peer:
            error = await peer.error("resources/read", {"uri": uri})
            assert error == {"code": code, "message": "there is no such resource", "data": {"uri": uri}}

    run(test)


@pytest.mark.parametrize(
    "method",
    ["tools/list", "tools/call", "resources/list", "resources/read", "resources/subscribe", "prompts/get",
     "completion/complete", "tasks/list"],
)  # fmt: skip
def test_what_is_not_offered_is_no_method(method: str) -> None:
    async def test() -> None:
        async with talking(Server("empty")) as peer:
            error = await peer.error(method, {"name": "x", "uri": "x:y"})
            assert error["code"] == -32601

    run(test)


def test_a_server_may_offer_what_comes_later() -> None:
    async def test() -> None:
        async with talking(Server("empty", offers=("tools",))) as peer:
            assert (await peer.result("tools/list"))["tools"] == []

    run(test)


def test_every_wrong_argument_is_named_in_a_result() -> None:
    async def test() -> None:
        async with talking(make()) as peer:
            result = await peer.call("add", a="x", c=1)
            assert result["isError"] is True
            text = result["content"][0]["text"]
            assert "a:" in text
            assert "c: unknown argument" in text

    run(test)


def test_null_arguments_are_no_arguments() -> None:
    async def test() -> None:
        async with talking(make()) as peer:
            result = await peer.result("tools/call", {"name": "refusing", "arguments": None})
            assert result["content"][0]["text"] == "the city is unknown"

    run(test)


SHAPES = [
    (lambda tool, invalid: f"{tool}: {len(invalid.problems)}", "add: 1"),
    (lambda tool, invalid: CallToolResult(content=[TextContent(text="mine")], is_error=True), "mine"),
    (lambda tool, invalid: 1 / 0, "on_invalid_arguments for add failed (reference "),
]


@pytest.mark.parametrize(("shape", "text"), SHAPES)
def test_an_application_may_shape_the_answer_to_wrong_arguments(shape: Any, text: str) -> None:
    async def test() -> None:
        async with talking(make(on_invalid_arguments=shape)) as peer:
            result = await peer.call("add")
            assert result["isError"] is True
            assert result["content"][0]["text"].startswith(text)

    run(test)


def test_an_application_may_refuse_wrong_arguments_with_an_error() -> None:
    def shape(tool: str, invalid: InvalidArguments) -> object:
        raise JsonRpcError(-32602, invalid.text)

    async def test() -> None:
        async with talking(make(on_invalid_arguments=shape)) as peer:
            assert (await peer.error("tools/call", {"name": "add"}))["code"] == -32602

    run(test)


# --- resources, completion, logging -----------------------------------------------------------------------------------


def test_subscribing_to_a_resource_until_unsubscribing() -> None:
    async def test() -> None:
        server = make()
        async with talking(server) as peer:
            server.notify_resource_updated("test://static")
            await peer.result("ping")
            await peer.result("resources/subscribe", {"uri": "test://static"})
            server.notify_resource_updated("test://other")
            server.notify_resource_updated("test://static")
            assert await peer.note("notifications/resources/updated") == {"uri": "test://static"}
            await peer.result("resources/unsubscribe", {"uri": "test://static"})
            server.notify_resource_updated("test://static")
            await peer.result("ping")
            assert peer.notes == []

    run(test)


def test_what_nothing_completes_has_no_completions() -> None:
    async def test() -> None:
        async with talking(make()) as peer:
            for reference in (
                {"type": "ref/prompt", "name": "review"},
                {"type": "ref/resource", "uri": "test://items/{id}"},
            ):
                asked = {"ref": reference, "argument": {"name": "times", "value": ""}}
                assert (await peer.result("completion/complete", asked))["completion"] == {"values": []}

    run(test)


def test_a_completion_has_what_is_settled_and_a_context() -> None:
    server = Server("completing")

    @server.resource("db://{table}/{row}")
    def row(table: str, row: str) -> str:
        return row

    @server.completion("db://{table}/{row}", "row")
    async def rows(typed: str, settled: dict[str, str], ctx: Context) -> list[str]:
        return [f"{settled.get('table')}-{typed}-{ctx.method}"]

    async def test() -> None:
        async with talking(server) as peer:
            asked = {
                "ref": {"type": "ref/resource", "uri": "db://{table}/{row}"},
                "argument": {"name": "row", "value": "1"},
                "context": {"arguments": {"table": "people"}},
            }
            completed = await peer.result("completion/complete", asked)
            assert completed["completion"]["values"] == ["people-1-completion/complete"]

    run(test)


def test_a_log_level_that_is_none_is_refused() -> None:
    async def test() -> None:
        async with talking(make()) as peer:
            assert await peer.result("logging/setLevel", {"level": "error"}) == {}
            assert (await peer.error("logging/setLevel", {"level": "loud"}))["code"] == -32602

    run(test)


def test_pages_follow_each_other_by_cursor() -> None:
    async def test() -> None:
        async with talking(make(page_size=2), STATELESS) as peer:
            names, cursor = [], {}
            for _ in range(3):
                page = await peer.result("tools/list", cursor)
                names += [tool["name"] for tool in page["tools"]]
                cursor = {"cursor": page.get("nextCursor")}
            assert names == ["echo", "add", "slow", "broken", "refusing"]
            assert cursor == {"cursor": None}

    run(test)


def test_dressed_pages_do_not_pile_up() -> None:
    async def test() -> None:
        server = make()
        async with talking(server, STATELESS) as peer:
            for number in range(70):
                server.tool(name=f"more_{number}")(lambda: None)
                await peer.result("tools/list")
            assert len(server.dispatch._dressed) <= 64

    run(test)


# --- middleware -------------------------------------------------------------------------------------------------------


def test_middleware_is_around_every_request_in_order() -> None:
    said: list[str] = []

    def saying(name: str) -> Any:
        async def middleware(ctx: Context, call_next: Next) -> bytes:
            said.append(f"{name} before {ctx.method}")
            result = await call_next()
            said.append(f"{name} after")
            return result

        return middleware

    async def test() -> None:
        server = make(middleware=[saying("outer")])
        server.add_middleware(saying("inner"))
        async with talking(server) as peer:
            assert await peer.text("add", a=1) == "2"
            assert said == [
                "outer before tools/call",
                "inner before tools/call",
                "inner after",
                "outer after",
            ]
            assert await peer.text("echo", text="x") == "x"
            assert await peer.result("tools/list")

    run(test)


def test_middleware_may_refuse_and_may_fail() -> None:
    async def guard(ctx: Context, call_next: Next) -> bytes:
        if ctx.params.get("name") == "echo":
            raise JsonRpcError(-32603, "not you")
        raise ValueError("secret")

    async def test() -> None:
        async with talking(make(middleware=[guard])) as peer:
            assert (await peer.error("tools/call", {"name": "echo"}))["message"] == "not you"
            message = (await peer.error("tools/call", {"name": "add"}))["message"]
            assert message.startswith("tools/call failed (reference")

    run(test)


def test_a_subscription_stays_open_through_middleware() -> None:
    async def passing(ctx: Context, call_next: Next) -> bytes:
        return await call_next()

    async def test() -> None:
        server = make(middleware=[passing])
        async with talking(server, STATELESS) as peer:
            peer.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
            await peer.note("notifications/subscriptions/acknowledged")
            server.remove_tool("add")
            await peer.note("notifications/tools/list_changed")
            assert not [frame for frame in peer.frames if frame.get("id") == "s"]

    run(test)


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
@pytest.mark.parametrize("given", [None, b"", b"null", "{}", {"content": []}], ids=repr)
def test_middleware_that_returns_no_result_is_an_error_and_leaves_nobody_waiting(
    version: str, given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def forgetful(ctx: Context, call_next: Next) -> Any:
        await call_next()
        return given

    async def test() -> None:
        async with talking(make(middleware=[forgetful]), version) as peer:
            error = await peer.error("tools/call", {"name": "add", "arguments": {"a": 1}})
            assert error["code"] == -32603
        assert "middleware must return an encoded result" in caplog.text

    run(test)
