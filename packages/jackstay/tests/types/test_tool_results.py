"""Results of tools: their text, errors and structured content."""

import json

import pytest

from jackstay.errors import ToolCallError
from jackstay.types import (
    CallToolResult,
    ImageContent,
    TextContent,
    Tool,
    ToolAnnotations,
    decode,
    encode_json,
    with_members,
)


def test_text_joins_the_text_blocks() -> None:
    assert CallToolResult([TextContent("a"), ImageContent("", "m"), TextContent("b")]).text == "a\nb"
    assert CallToolResult([]).text == ""


@pytest.mark.parametrize(("content", "reason"), [([TextContent("no"), TextContent("city")], "no\ncity"), ([], "")])
def test_the_error_of_a_tool_is_never_its_output(content: list[TextContent], reason: str) -> None:
    result = CallToolResult(content, structured_content={"result": 1}, is_error=True)
    assert result.error_text == reason
    for read in (lambda: result.text, lambda: result.data, lambda: result.data_as(int)):
        with pytest.raises(ToolCallError, match=f"the tool failed: {reason or 'it returned no reason'}") as failed:
            read()
        assert (failed.value.tool, failed.value.result) == ("", result)
    assert CallToolResult([TextContent("sunny")]).error_text == ""


def test_structured_content_is_any_json() -> None:
    for value in [{"a": 1}, [1], "s", 0, 1.5, False, True]:
        result = decode(CallToolResult, json.dumps({"content": [], "structuredContent": value}).encode())
        assert result.structured_content == value
        assert result == CallToolResult([], value)
        assert result.raw == {"content": [], "structuredContent": value}


def test_structured_null_is_distinct_from_absent() -> None:
    null = decode(CallToolResult, b'{"content":[],"structuredContent":null}')
    assert null.structured_content is None
    assert null.has("structuredContent")
    assert not CallToolResult([]).has("structuredContent")
    assert with_members(CallToolResult([]), {"structuredContent": None}) == null
    assert encode_json(null) == b'{"content":[],"structuredContent":null}'


def test_a_result_is_written_without_defaults() -> None:
    result = CallToolResult([TextContent("a")], {"a": 1}, is_error=True, result_type="complete", meta={"k": 1})
    assert json.loads(encode_json(result)) == {
        "content": [{"type": "text", "text": "a"}],
        "structuredContent": {"a": 1},
        "isError": True,
        "resultType": "complete",
        "_meta": {"k": 1},
    }
    tool = Tool("t", {"type": "object"}, annotations=ToolAnnotations(read_only_hint=True, title="T"))
    assert tool.raw["annotations"] == {"readOnlyHint": True, "title": "T"}


def test_a_notebook_shows_the_output_or_the_text() -> None:
    result = CallToolResult(content=[TextContent(text="a < b & c")])
    assert result._repr_html_() == "<pre>a &lt; b &amp; c</pre>"
    failed = CallToolResult(content=[TextContent(text="no city")], is_error=True)
    assert failed._repr_html_() == "<pre>The tool failed: no city</pre>"
    structured = CallToolResult(content=[], structured_content={"a": [1]})
    assert structured._repr_html_() == '<pre>{\n  "a": [\n    1\n  ]\n}</pre>'
    long = CallToolResult(content=[TextContent(text="x" * 20_000)])
    assert len(long._repr_html_()) < 10_100
