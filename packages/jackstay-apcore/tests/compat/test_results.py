"""Results that are objects, and the dicts and tuples of apcore-mcp."""

from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, ModuleAnnotations, ModuleError, ModuleNotFoundError, Registry

from apcore_mcp import AnnotationMapper, ErrorMapper, ExecutionRouter
from apcore_mcp.compat.results import DirectResult, FactoryTool
from jackstay.types import CallToolResult, TextContent, ToolAnnotations


def test_result_of_a_call_is_a_tuple() -> None:
    result = DirectResult([TextContent(text="a")], is_error=True, meta={"traceparent": "00-abc-def-01"})
    content, is_error, trace_id = result
    assert content == [{"type": "text", "text": "a", "_meta": {"traceparent": "00-abc-def-01"}}]
    assert (is_error, trace_id, len(result), result[1]) == (True, "abc", 3, True)
    assert tuple(DirectResult([])) == ([], False, None)


def test_error_is_a_dict() -> None:
    error = ModuleNotFoundError(module_id="a.b")
    result = ErrorMapper().to_mcp_error(error)
    assert result["errorType"] == "MODULE_NOT_FOUND"
    assert result == ErrorMapper().format(error)
    assert dict(result) == ErrorMapper().format(error)
    assert "isError" in result
    assert "is_error" not in result
    assert result.get("nothing", 1) == 1
    assert result == CallToolResult([TextContent(text="Module not found: a.b")], is_error=True)
    assert result != CallToolResult([])


def test_hints_are_a_dict() -> None:
    hints = AnnotationMapper().to_mcp_annotations(ModuleAnnotations(readonly=True))
    plain = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": False, "openWorldHint": True}
    assert hints == {**plain, "title": None}
    assert (hints.readOnlyHint, hints.get("openWorldHint"), hints.get("x"), "x" in hints) == (True, True, None, False)
    assert hints == ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=False, open_world_hint=True
    )
    assert hash(hints) == hash(AnnotationMapper().to_mcp_annotations(ModuleAnnotations(readonly=True)))
    with pytest.raises(AttributeError, match="nothing"):
        _ = hints.nothing


def test_tool_has_the_names_of_the_sdk() -> None:
    tool = FactoryTool(name="a", input_schema={"type": "object"})
    assert (tool.inputSchema, tool.outputSchema) == ({"type": "object"}, None)


async def test_errors_of_direct_calls_have_the_texts_of_apcore_mcp(registry: Registry, kinds: SimpleNamespace) -> None:
    """Over MCP, and in the attributes, they have ours. Sensitive arguments are hidden in both."""

    def fail(inputs: Any, _: Any) -> Any:
        raise ModuleError(code="NO_STOCK", message=f"none for {inputs['password']}", suggestion="Order", retryable=True)

    schema = {"type": "object", "properties": {"password": {"type": "string", "x-sensitive": True}}}
    registry.register("x.stock", kinds.Plain(fail, input_schema=schema))
    router = ExecutionRouter(Executor(registry))
    result = await router.handle_call("x.stock", {"password": "hunter22"})
    ((part,), is_error, trace_id) = result
    assert part["text"] == 'none for ***REDACTED***\n\n{"retryable": true, "suggestion": "Order"}'
    assert part["_meta"]["traceparent"].split("-")[1] == trace_id
    assert is_error
    assert result.error_text == "Module error: NO_STOCK\nMessage: none for ***REDACTED***\nSuggestion: Order"
    validating = ExecutionRouter(Executor(registry), validate_inputs=True)
    ((part,), _, _) = await validating.handle_call("math.add", {})
    assert part["text"].startswith("Validation failed:\n- a: ")


async def test_own_texts_of_errors_are_kept(registry: Registry) -> None:
    class Mapper(ErrorMapper):
        def describe(self, error: BaseException) -> str:
            return "Oops"

    ((part,), _, _) = await ExecutionRouter(Executor(registry), error_mapper=Mapper()).handle_call("no.such", {})
    assert part["text"] == "Oops"
