"""Registries and executors of apcore, and objects that only have their methods."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, Registry

from apcore_mcp import ExecutionRouter, MCPServerFactory, OpenAIConverter, to_openai_tools
from apcore_mcp.backends import AdaptedExecutor, adapt_executor, check_registry, is_executor, is_registry
from apcore_mcp.bridge import Bridge, to_executor
from apcore_mcp.options import make_options


class Definitions:
    """A registry without modules that can be run."""

    def list(self, tags: Any = None, prefix: Any = None) -> list[str]:
        return ["a.b", "a.none"]

    def get_definition(self, module_id: str) -> Any:
        if module_id == "a.none":
            return None
        return SimpleNamespace(
            module_id=module_id,
            name=None,
            description="D",
            documentation=None,
            input_schema={},
            output_schema={},
            annotations=None,
            tags=[],
            version="1.0.0",
            examples=[],
            metadata={"version_hint": "2.0.0"},
        )


class Calls:
    """An executor that only calls."""

    def __init__(self, registry: Any = None) -> None:
        self.registry = registry
        self.calls: list[Any] = []

    async def call_async(self, module_id: str, inputs: Any, **options: Any) -> Any:
        self.calls.append((module_id, inputs, options))
        return {"done": module_id}


class Streams(Calls):
    async def call_async(self, module_id: str, inputs: Any, context: Any = None) -> Any:  # type: ignore[override]
        return {"context": context is not None}

    async def stream(self, module_id: str, inputs: Any, context: Any = None) -> AsyncIterator[Any]:
        yield {"a": {"b": 1}}
        yield {"a": {"c": 2}}


def test_kinds(executor: Executor, registry: Registry) -> None:
    class Wrapper:
        def __getattr__(self, name: str) -> Any:
            return getattr(executor, name)

    assert is_executor(executor)
    assert is_registry(registry)
    assert is_registry(Definitions())
    for complete in (executor, Wrapper()):
        assert adapt_executor(complete) is complete
    adapted = adapt_executor(Calls())
    assert isinstance(adapted, AdaptedExecutor)
    assert adapt_executor(adapted) is adapted
    for other in (registry, None, SimpleNamespace(registry=registry), Calls):
        with pytest.raises(TypeError, match="executor must be an apcore Executor, not"):
            adapt_executor(other)
    for other in (None, {}, object(), executor):
        with pytest.raises(TypeError, match="registry must be an apcore Registry, not"):
            check_registry(other)


def test_something_that_is_no_registry_is_refused_everywhere() -> None:
    with pytest.raises(TypeError):
        MCPServerFactory().build_tools({})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        OpenAIConverter().convert_registry([])  # type: ignore[arg-type]


def test_definitions_without_modules() -> None:
    registry: Any = Definitions()
    tools = MCPServerFactory().build_tools(registry)
    assert [(tool.name, tool.inputSchema) for tool in tools] == [("a.b", {"type": "object", "properties": {}})]
    assert [tool["function"]["name"] for tool in to_openai_tools(registry)] == ["a-b"]


async def test_calls_without_an_executor_of_apcore() -> None:
    calls = Calls(Definitions())
    content, is_error, trace_id = await ExecutionRouter(calls).handle_call("a.b", {"x": 1})
    assert (content[0]["text"], is_error) == ('{"done": "a.b"}', False)
    assert content[0]["_meta"]["traceparent"].split("-")[1] == trace_id
    assert calls.calls == [("a.b", {"x": 1}, {"version_hint": "2.0.0"})]
    bridge = Bridge(calls, make_options())
    assert list(bridge.server.catalogue.tools) == ["a.b"]


async def test_streams_without_an_executor_of_apcore() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["params"]["message"])

    router = ExecutionRouter(Streams())
    extra = {"progress_token": 7, "send_notification": send}
    result = await router.handle_call("any.id", {}, extra=extra)
    assert result.text == '{"a": {"b": 1, "c": 2}}'
    assert sent == ['{"a": {"b": 1}}', '{"a": {"c": 2}}']
    assert (await router.handle_call("any.id", {})).text == '{"context": true}'


async def test_traces_are_passed_on() -> None:
    class Traced(Streams):
        async def call_async_with_trace(self, module_id: str, inputs: Any, context: Any) -> Any:
            return {}, "trace"

    assert await adapt_executor(Traced()).call_async_with_trace("a", {}) == ({}, "trace")


def test_options_without_effect_are_refused() -> None:
    used: list[object] = []
    to_executor(SimpleNamespace(call_async=print, use=used.append), make_options(middleware=["m"]))
    assert used == ["m"]
    for option, method in {"acl": "set_acl", "approval_handler": "set_approval_handler"}.items():
        with pytest.raises(TypeError, match=f"does not support .{method}"):
            to_executor(Calls(), make_options(**{option: object()}))


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ([{"field": "width", "message": "required"}], "- width: required (invalid)"),
        ([{"code": "A", "errors": [{"field": "age", "code": "type", "message": "no"}]}], "- age: no (type)"),
        ([{"code": "ACL_DENIED"}], "- input: is not valid (ACL_DENIED)"),
        ([], "- input: is not valid (invalid)"),
        (None, ""),
    ],
)
async def test_validate_of_another_executor_is_used(errors: Any, text: str) -> None:
    """`validate_inputs` is not without effect there, although the catalogue has no schema."""

    class Validating(Calls):
        def validate(self, module_id: str, inputs: Any, context: Any = None) -> Any:
            assert context is not None
            return SimpleNamespace(valid=errors is None, errors=errors or [])

    result = await ExecutionRouter(Validating(), validate_inputs=True).handle_call("a.b", {})
    assert bool(result.is_error) is (errors is not None)
    assert text in result.text if errors is None else text in result.error_text


async def test_lists_of_another_executor_are_redacted() -> None:
    class Rows:
        async def call_async(self, module_id: str, inputs: Any) -> Any:
            return [{"token": "tok-1", "name": "ann"}]

    schema = {"type": "array", "items": {"$ref": "#/$defs/row"}}
    row = {"type": "object", "properties": {"token": {"type": "string", "x-sensitive": True}}}
    router = ExecutionRouter(Rows(), output_schema_map={"a.b": {**schema, "$defs": {"row": row}}})
    text = (await router.handle_call("a.b", {})).text
    assert "tok-1" not in text
    assert "ann" in text


async def test_formatter_gets_only_objects_and_lists() -> None:
    class Text:
        async def call_async(self, module_id: str, inputs: Any) -> Any:
            return "plain"

    assert (await ExecutionRouter(Text(), output_formatter=repr).handle_call("a.b", {})).text == '"plain"'
