"""Results that are objects, and the dicts and tuples of apcore-mcp."""

import pytest
from apcore import ModuleAnnotations, ModuleNotFoundError

from apcore_mcp import AnnotationMapper, ErrorMapper
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
