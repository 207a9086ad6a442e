"""Calls with the dict `extra` of apcore-mcp."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from apcore import Executor, Identity, Registry

from apcore_mcp import ExecutionRouter, auth_identity_var, elicit, report_progress
from apcore_mcp.compat.calls import ExtraCaller, to_result
from apcore_mcp.server import MCPServerFactory
from apcore_mcp.server.transport import transport_session_var
from apcore_mcp.validation import ArgumentRules
from jackstay.client import connect
from jackstay.errors import CapabilityError, McpError
from jackstay.types import CallToolResult


class Session:
    async def elicit_form(self, message: str, requestedSchema: Any) -> Any:  # noqa: N803
        return SimpleNamespace(action="accept", content={"message": message, "schema": requestedSchema})


async def test_identity_progress_and_session(kinds: SimpleNamespace, registry: Registry) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def execute(inputs: Any, context: Any) -> Any:
        await report_progress(context, 1, 2, "half")
        await report_progress(context, 2)
        return {"who": context.identity.id, "answer": await elicit(context, "Sure?")}

    module = kinds.Later()
    module.input_schema = module.output_schema = {}
    module.execute = execute
    registry.register("x.work", module)
    router = ExecutionRouter(Executor(registry))
    extra = {
        "identity": Identity(id="ann"),
        "session": Session(),
        "progress_token": "t",
        "send_notification": send,
        "_meta": {"apcore": {"version": "1.0.0"}},
    }
    result = await router.handle_call("x.work", {}, extra)
    assert '"who": "ann"' in result.text
    assert '"message": "Sure?"' in result.text
    assert '"schema": {"type": "object", "properties": {}}' in result.text
    assert [message["params"] for message in sent] == [
        {"progressToken": "t", "progress": 1, "total": 2, "message": "half"},
        {"progressToken": "t", "progress": 2, "total": None},
    ]


async def test_identity_of_the_middleware_and_no_session() -> None:
    reset = auth_identity_var.set(Identity(id="bob"))
    try:
        caller = ExtraCaller({"_meta": {"progressToken": 1}})
    finally:
        auth_identity_var.reset(reset)
    assert (caller.principal, dict(caller.meta)) == ("bob", {})
    await caller.flush()
    with pytest.raises(CapabilityError):
        await caller.elicit("Sure?", {})


async def test_cancel(kinds: SimpleNamespace, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call with `call_id` can be cancelled while it runs, or before; ids that never come are forgotten."""
    router: ExecutionRouter
    seen: list[bool] = []

    def work(inputs: Any, context: Any) -> Any:
        assert router.cancel("7", "the user left")
        seen.append(context.cancel_token.is_cancelled)
        return {}

    registry.register("x.work", kinds.Plain(work))
    router = ExecutionRouter(Executor(registry))
    await router.handle_call("x.work", {}, extra={"call_id": 7})
    assert router.cancel("7") is False, "it has ended"
    assert (await router.handle_call("x.work", {}, extra={"call_id": "7"})).is_error
    assert seen == [True], "the second call did not run"
    monkeypatch.setattr("apcore_mcp.compat.calls.MAX_CANCELLED", 2)
    assert [router.cancel(id) for id in "abc"] == [False] * 3
    assert list(router._extra_calls._cancelled) == ["b", "c"]


async def test_router_of_another_kind() -> None:
    """It returns a tuple; the text of an object is structured content, and has to match the schema."""
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    rows = [
        ('{"count": 2}', False, False, {"count": 2}),
        ('{"count": "private"}', False, True, None),
        ('{"count": 1e400}', False, True, None),
        ('{"count": NaN}', False, True, None),
        ('{"count": 0.1234567890123456789012345}', False, True, None),
        ("[" * 100_000, False, True, None),
        ("private", False, True, None),
        ("Access denied", True, True, None),
    ]
    for text, is_error, fails, structured in rows:
        result = to_result(([{"type": "text", "text": text, "_meta": {"a": 1}}], is_error, None), ArgumentRules(schema))
        assert (bool(result.is_error), result.structured_content) == (fails, structured), text[:50]
        assert "private" not in str(result.content)
    assert to_result(([{"type": "text", "text": "{}"}], False, None), None).structured_content == {}
    assert to_result(([{"type": "text", "text": "x"}], False, None), ArgumentRules(schema), "2025-03-26").text == "x"
    known = CallToolResult([])
    assert to_result(known, None) is known


async def test_server_with_a_router_of_another_kind(registry: Registry) -> None:
    class Router:
        async def handle_call(self, name: str, arguments: Any, extra: Any) -> Any:
            return [{"type": "text", "text": f'{{"total": 3, "of": "{name}"}}'}], name.startswith("system."), None

    factory = MCPServerFactory()
    server = factory.create_server()
    factory.register_handlers(server, factory.build_tools(registry), cast(Any, Router()))
    registry.register_internal("system.health.summary", registry.get("math.add"))
    factory.register_resource_handlers(server, registry, cast(Any, Router()))
    async with connect(server) as client:
        called = await client.tools.call("math.add", {"a": 1})
        assert called.structured_content == {"total": 3, "of": "math.add"}
        with pytest.raises(McpError, match="total"):
            await client.resources.read("apcore://system.health.summary")


async def test_start_of_a_task_can_be_cancelled() -> None:
    """The token of its context is cancelled; the session of the transport is passed on."""
    seen: dict[str, Any] = {}

    class Bridge:
        is_meta_tool = staticmethod(lambda _: False)
        is_async_module = staticmethod(lambda _: True)

        async def submit(self, module_id: str, arguments: Any, context: Any, *, session_key: str) -> Any:
            seen.update(session=session_key, found=router.cancel("7"), token=context.cancel_token.is_cancelled)
            return {"task_id": "1"}

    executor = SimpleNamespace(call_async=None)
    executor.call_async = lambda *_: None
    router = ExecutionRouter(cast(Any, executor), async_bridge=Bridge(), descriptor_lookup=lambda _: object())
    reset = transport_session_var.set("s")
    assert not (await router.handle_call("x.work", {}, extra={"call_id": "7"})).is_error
    transport_session_var.reset(reset)
    assert seen == {"session": "s", "found": True, "token": True}
