"""Tools: the list, the mode that a seed asks for, and what a call gives."""

import json

import pytest

from jackstay.types import (
    CallToolResult,
    ImageContent,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
    decode,
    encode_json,
    with_members,
)

# members beside name and schema, and the mode
MODES = [
    ({}, "stateful"),
    ({"mode": "stateless"}, "stateless"),
    ({"mode": "stateful"}, "stateful"),
    ({"mode": "stateful", "_meta": {"mode": "stateless"}}, "stateful"),
    ({"mode": "stateless", "_meta": {"mode": "stateful"}}, "stateless"),
    ({"_meta": {"mode": "stateless"}}, "stateless"),
    ({"_meta": {"mode": "stateful"}}, "stateful"),
    ({"_meta": {"other": 1}}, "stateful"),
    ({"_meta": {"mode": 5}}, "stateful"),
    ({"mode": "STATELESS"}, "stateful"),
    ({"mode": "odd", "_meta": {"mode": "stateless"}}, "stateful"),
    ({"mode": None, "_meta": {"mode": "stateless"}}, "stateless"),
    ({"mode": ["stateless"]}, "stateful"),
    ({"x-vendor": 1, "_meta": {"mode": "stateless"}}, "stateless"),
    ({"_meta": None}, "stateful"),
]


@pytest.mark.parametrize(("members", "mode"), MODES, ids=lambda value: str(value))
def test_the_mode_is_the_member_else_the_meta_else_stateful(members: dict, mode: str) -> None:
    tool = decode(Tool, json.dumps({"name": "t", "inputSchema": {}, **members}).encode())
    assert tool.mode == mode


def test_odd_hints_do_not_lose_a_list() -> None:
    members = {
        "tools": [
            {"name": "a", "inputSchema": {}, "execution": {"taskSupport": "sometimes"}},
            {"name": "b", "inputSchema": {"type": 5}, "icons": [{"src": "x", "theme": "sepia"}]},
        ],
        "cacheScope": "galactic",
        "ttlMs": -1,
    }
    result = decode(ListToolsResult, json.dumps(members).encode())
    assert result.tools[0].execution.task_support == "sometimes"
    assert result.tools[1].icons[0].theme == "sepia"
    assert result.raw == members


def test_the_text_of_a_result_is_that_of_its_text_blocks() -> None:
    assert CallToolResult([TextContent("a"), ImageContent("", "m"), TextContent("b")]).text == "a\nb"
    assert CallToolResult([]).text == ""


@pytest.mark.parametrize("value", [{"a": 1}, [1], "s", 0, 1.5, False, True])
def test_structured_content_is_any_json(value: object) -> None:
    result = decode(CallToolResult, json.dumps({"content": [], "structuredContent": value}).encode())
    assert result.structured_content == value
    assert result == CallToolResult([], value)
    assert result.raw == {"content": [], "structuredContent": value}


def test_structured_null_is_told_from_nothing_and_can_be_sent() -> None:
    null = decode(CallToolResult, b'{"content":[],"structuredContent":null}')
    assert null.structured_content is None
    assert null.has("structuredContent")
    assert not CallToolResult([]).has("structuredContent")
    assert with_members(CallToolResult([]), {"structuredContent": None}) == null
    assert encode_json(null) == b'{"content":[],"structuredContent":null}'


def test_a_result_is_written_with_what_was_set() -> None:
    result = CallToolResult(
        [TextContent("a")], {"a": 1}, is_error=True, result_type="complete", meta={"k": 1}
    )
    assert json.loads(encode_json(result)) == {
        "content": [{"type": "text", "text": "a"}],
        "structuredContent": {"a": 1},
        "isError": True,
        "resultType": "complete",
        "_meta": {"k": 1},
    }
    tool = Tool("t", {"type": "object"}, annotations=ToolAnnotations(read_only_hint=True, title="T"))
    assert tool.raw["annotations"] == {"readOnlyHint": True, "title": "T"}
