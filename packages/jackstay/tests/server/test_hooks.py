"""Typed hooks: decoded params and results for the requests that have a hook, and only for those."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.servers_own.conversation import STATELESS, connected
from jackstay import Context, Server, ToolError, connect
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import CallNext, Hooks, Next, _hooks
from jackstay.server._hooks import HOOKS
from jackstay.transport import stdio
from jackstay.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)
from scripted.asgi import http_client, initialize, stateless, tool

ERAS = ("2024-11-05", "2025-11-25", STATELESS)


def make(*middleware: Any) -> Server:
    server = Server("hooked", middleware=middleware)

    @server.tool(blocking=False)
    def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool
    async def greet(ctx: Context) -> str:
        form: Any = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        answer = await ctx.elicit("Your name?", form)
        return f"hello {(answer.content or {})['name']}"

    @server.resource("test://note")
    def note() -> str:
        return "a note"

    @server.resource("test://note/{number}")
    def numbered(number: str) -> str:
        return number

    @server.prompt
    def explain(topic: str) -> str:
        return f"about {topic}"

    @server.completion("explain", "topic")
    def topics(value: str) -> list[str]:
        return ["mcp"]

    return server


class Doubling(Hooks):
    """Changes the params and the result of calls."""

    async def on_call_tool(
        self,
        ctx: Context,
        params: CallToolRequestParams,
        call_next: CallNext[CallToolRequestParams, CallToolResult],
    ) -> CallToolResult:
        arguments: Any = {name: 2 * int(str(value)) for name, value in params.arguments.items()}
        changed: CallToolRequestParams = msgspec.structs.replace(params, arguments_json=arguments)
        result = await call_next(changed)
        assert ctx.params["arguments"] == arguments
        return CallToolResult(content=[*result.content, TextContent(text="doubled")])


@pytest.mark.parametrize("version", ERAS)
async def test_a_hook_may_change_params_and_results(version: str) -> None:
    async with connected(make(Doubling()), version) as peer:
        result = await peer.call("add", a=3, b=4)
        assert [block["text"] for block in result["content"]] == ["14", "doubled"]
        assert ("resultType" in result) == (version == STATELESS)
        assert [row["name"] for row in (await peer.result("tools/list"))["tools"]] == ["add", "greet"]


def recording(log: list[str], *names: str) -> Hooks:
    """Return hooks of these names that record the types they see."""

    def make_hook(name: str) -> Callable[..., Any]:
        async def typed(self: Hooks, ctx: Context, params: Any, call_next: Any) -> Any:
            result = await call_next(params)
            log.append(f"{name} {type(params).__name__} {type(result).__name__}")
            return result

        async def on_request(self: Hooks, ctx: Context, call_next: Next) -> bytes:
            log.append(f"on_request {ctx.method}")
            return await call_next()

        return on_request if name == "on_request" else typed

    kind: type[Hooks] = type("Recording", (Hooks,), {name: make_hook(name) for name in names})
    return kind()


REQUESTS: dict[str, dict[str, Any]] = {
    "tools/call": {"name": "add", "arguments": {"a": 1}},
    "tools/list": {},
    "resources/read": {"uri": "test://note"},
    "resources/list": {},
    "resources/templates/list": {},
    "prompts/get": {"name": "explain", "arguments": {"topic": "x"}},
    "prompts/list": {},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "explain"},
        "argument": {"name": "topic", "value": "m"},
    },
}


@pytest.mark.parametrize("version", ERAS)
async def test_every_method_has_a_hook_and_a_result_that_is_returned_unchanged_is_the_same(version: str) -> None:
    assert set(REQUESTS) == set(HOOKS)
    log: list[str] = []
    names = ["on_request", *(row.name for row in HOOKS.values())]
    async with connected(make(), version) as plain, connected(make(recording(log, *names)), version) as hooked:
        for method, params in REQUESTS.items():
            assert await hooked.result(method, params) == await plain.result(method, params)
    expected = []
    for method, row in HOOKS.items():
        expected += [f"on_request {method}", f"{row.name} {row.params.__name__} {row.result.__name__}"]
    assert log == expected


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
async def test_requests_without_a_hook_are_not_decoded(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def observe(function: Callable[..., Any]) -> Callable[..., Any]:
        def observed(cls: type, *rest: Any) -> Any:
            decoded.append(cls.__name__)
            return function(cls, *rest)

        return observed

    for name in ("decode", "read_params"):
        monkeypatch.setattr(_hooks, name, observe(getattr(_hooks, name)))
    log: list[str] = []
    async with connected(make(recording(log, "on_list_tools")), version) as peer:
        for method, params in REQUESTS.items():
            await peer.result(method, params)
    assert decoded == ["PaginatedRequestParams", "ListToolsResult"]
    assert log == ["on_list_tools PaginatedRequestParams ListToolsResult"]


async def test_a_hook_filters_a_list_and_replaces_a_resource() -> None:
    class Filter(Hooks):
        async def on_list_tools(
            self,
            ctx: Context,
            params: PaginatedRequestParams,
            call_next: CallNext[PaginatedRequestParams, ListToolsResult],
        ) -> ListToolsResult:
            page = await call_next(params)
            changed: ListToolsResult = msgspec.structs.replace(page, tools=page.tools[:1])
            return changed

        async def on_read_resource(self, ctx: Context, params: Any, call_next: Any) -> ReadResourceResult:
            return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text="replaced")])

    for version in ERAS:
        async with connected(make(Filter()), version) as peer:
            page = await peer.result("tools/list")
            assert [row["name"] for row in page["tools"]] == ["add"]
            assert ("ttlMs" in page) == (version == STATELESS)
            read = await peer.result("resources/read", {"uri": "test://note"})
            assert read["contents"][0]["text"] == "replaced"


async def test_a_tool_error_of_a_hook_is_a_result_for_the_model_and_elsewhere_an_error() -> None:
    class Refusing(Hooks):
        async def on_call_tool(self, ctx: Context, params: Any, call_next: Any) -> CallToolResult:
            raise ToolError("closed today")

        async def on_get_prompt(self, ctx: Context, params: Any, call_next: Any) -> Any:
            raise ToolError("no prompts")

        async def on_list_prompts(self, ctx: Context, params: Any, call_next: Any) -> Any:
            raise JsonRpcError(-32000, "no list")

    for version in ERAS:
        async with connected(make(Refusing()), version) as peer:
            result = await peer.call("add", a=1)
            assert result["isError"]
            assert result["content"][0]["text"] == "closed today"
            assert ("resultType" in result) == (version == STATELESS)
            assert (await peer.error("prompts/get", REQUESTS["prompts/get"]))["message"] == "no prompts"
            assert (await peer.error("prompts/list"))["code"] == -32000


async def test_a_hook_runs_again_with_the_response_if_the_handler_requests_input() -> None:
    log: list[str] = []

    class Catching(Hooks):
        async def on_call_tool(self, ctx: Context, params: Any, call_next: Any) -> CallToolResult:
            log.append("before")
            try:
                result: CallToolResult = await call_next()  # with the params of the request
            except Exception:  # noqa: BLE001  # what a careless hook does
                return CallToolResult(content=[])
            log.append("after")
            return result

    async with connected(make(Catching()), STATELESS, {"elicitation": {"form": {}}}) as peer:
        required = await peer.result("tools/call", {"name": "greet"})
        assert required["resultType"] == "input_required"
        (key,) = required["inputRequests"]
        response = {key: {"action": "accept", "content": {"name": "Ada"}}}
        params = {"name": "greet", "requestState": required["requestState"], "inputResponses": response}
        result = await peer.result("tools/call", params)
        assert result["content"][0]["text"] == "hello Ada"
    assert log == ["before", "before", "after"]


async def test_a_hook_that_returns_something_else_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    class Wrong(Hooks):
        async def on_call_tool(self, ctx: Context, params: Any, call_next: Any) -> Any:
            return "text"

        async def on_get_prompt(self, ctx: Context, params: Any, call_next: Any) -> Any:
            return await call_next({"name": "explain"})

    async with connected(make(Wrong())) as peer:
        assert (await peer.error("tools/call", REQUESTS["tools/call"]))["code"] == -32603
        assert "on_call_tool must return CallToolResult, not str" in caplog.text
        assert (await peer.error("prompts/get", REQUESTS["prompts/get"]))["code"] == -32603
        assert "call_next() expected GetPromptRequestParams, got dict" in caplog.text


async def test_invalid_params_never_reach_a_hook() -> None:
    log: list[str] = []
    async with connected(make(recording(log, "on_call_tool"))) as peer:
        error = await peer.error("tools/call", {"name": 5})
        assert error["code"] == -32602
        assert error["message"].startswith("invalid params for tools/call")
    assert log == []


def test_bad_hooks_are_rejected() -> None:
    class Empty(Hooks):
        pass

    class Misspelled(Hooks):
        async def on_call_tools(self) -> None: ...

    class Plain(Hooks):
        def on_request(self, ctx: Context, call_next: Next) -> Any: ...

    with pytest.raises(UsageError, match="Empty overrides no hook: use one of on_request, on_call_tool"):
        Server("x", middleware=[Empty()])
    with pytest.raises(UsageError, match=r"on_call_tools is not a hook; did you mean 'on_call_tool'\?"):
        Server("x", middleware=[Misspelled()])
    with pytest.raises(UsageError, match=r"Plain\.on_request must be async"):
        Server("x").add_middleware(Plain())
    with pytest.raises(UsageError, match="middleware must be an instance of Doubling, not the class"):
        Server("x", middleware=[Doubling])  # type: ignore[list-item]  # wrong on purpose
    assert len(Server("x", middleware=Doubling())._middleware) == 1


@pytest.mark.parametrize("sessions", [False, True])
async def test_hooks_over_http_in_both_eras(sessions: bool) -> None:
    async with http_client(make(Doubling()).asgi(sessions=sessions)) as http:
        response = await http.post(stateless("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}}))
        assert response.json["result"]["content"][0]["text"] == "10"
        session = (await http.post(initialize())).headers.get("mcp-session-id")
        headers = {} if session is None else {"mcp-session-id": session}
        response = await http.post(tool("add", a=2, b=3), headers=headers)
        assert response.json["result"]["content"][0]["text"] == "10"


PROGRAM = """
from jackstay.server import Hooks, Server

class Logging(Hooks):
    async def on_call_tool(self, ctx, params, call_next):
        result = await call_next(params)
        return type(result)(content=[*result.content, *result.content])

server = Server("x", middleware=[Logging()])

@server.tool
def echo(text: str) -> str:
    return text

server.run()
"""


async def test_hooks_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    async with connect(stdio(sys.executable, str(tmp_path / "program.py"))) as client:
        result = await client.tools.call("echo", {"text": "x"})
        assert [block.text for block in result.content if isinstance(block, TextContent)] == ["x", "x"]
