"""Tools from functions, and from handlers with a JSON Schema."""

import functools
from typing import Annotated, Any

import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.server import Context
from jackstay.server._problems import InvalidArguments
from jackstay.server._tools import ToolOptions, tool_from_function, tool_from_schema
from jackstay.types import Icon, Tool, ToolAnnotations, decode

NOW = "2025-11-25"


class Forecast(msgspec.Struct):
    degrees: float


async def forecast(city: str, context: Context, days: int = 3) -> Forecast:
    """The weather.

    Args:
        city: where
    """
    return Forecast(days / 2)


def test_a_tool_from_a_function() -> None:
    tool = tool_from_function(forecast)
    assert (tool.name, tool.is_async, tool.is_blocking) == ("forecast", True, False)
    assert tool.body.description == "The weather."
    assert tool.body.annotations is None
    assert tool.bind(b'{"city":"Rome"}', "C") == (("Rome", "C", 3), {})
    assert msgspec.json.decode(tool.encode_result(Forecast(1.5), NOW))["structuredContent"] == {"degrees": 1.5}
    assert decode(Tool, tool.listed) == tool.body
    assert "outputSchema" in msgspec.json.decode(tool.listed)
    assert "outputSchema" not in msgspec.json.decode(tool.listed_plain)


def test_options_override_what_the_function_has() -> None:
    options = ToolOptions(
        name="weather.now",
        title="Weather",
        description="My tool.",
        read_only=True,
        destructive=False,
        icons=["a.png", Icon(src="b.png")],
        meta={"k": 1},
        structured=False,
    )
    tool = tool_from_function(forecast, options)
    assert msgspec.json.decode(tool.listed) == {
        "name": "weather.now",
        "title": "Weather",
        "description": "My tool.",
        "inputSchema": tool.body.input_schema,
        "annotations": {"readOnlyHint": True, "destructiveHint": False},
        "icons": [{"src": "a.png"}, {"src": "b.png"}],
        "_meta": {"k": 1},
    }
    assert tool.listed_plain is tool.listed


def test_annotations_are_keywords(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("read_only", "read_only_hint"),
        ("destructive", "destructive_hint"),
        ("idempotent", "idempotent_hint"),
        ("open_world", "open_world_hint"),
    ]
    for value in [True, False]:
        for keyword, hint in cases:
            with subtests.test(keyword=keyword, hint=hint, value=value):
                tool = tool_from_function(lambda: 1, options=ToolOptions(name="t", **{keyword: value}))  # type: ignore[arg-type]
                assert tool.body.annotations == ToolAnnotations(**{hint: value})


def test_a_plain_function_is_blocking_by_default() -> None:
    def plain() -> None: ...

    assert tool_from_function(plain).is_blocking
    assert not tool_from_function(plain, options=ToolOptions(blocking=False)).is_blocking


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(UsageError, match="'<lambda>'"):
        tool_from_function(lambda: 1)


def header(name: str) -> Any:
    return msgspec.Meta(extra_json_schema={"x-mcp-header": name})


def test_param_headers() -> None:
    def query(region: Annotated[str, header("Region")]) -> None: ...

    (row,) = tool_from_function(query).param_headers
    assert (row.path, row.header) == (("region",), "Mcp-Param-Region")


def test_an_invalid_param_header_is_rejected() -> None:
    def query(region: Annotated[float, header("Region")]) -> None: ...

    with pytest.raises(UsageError, match=r"query: .*x-mcp-header"):
        tool_from_function(query)


# --- tools with a JSON Schema -----------------------------------------------------------------------------------------

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def handle(arguments: dict[str, Any], context: object) -> dict[str, Any]:
    """Handle it."""
    return arguments


def handle_alone(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


class Handler:
    async def __call__(self, arguments: dict[str, Any], context: object) -> dict[str, Any]:
        return arguments


async def handle_later(extra: int, arguments: dict[str, Any], context: object = None) -> dict[str, Any]:
    return arguments


def test_a_tool_from_a_schema() -> None:
    tool = tool_from_schema(handle, ToolOptions(), SCHEMA)
    assert tool.body.input_schema == SCHEMA
    assert tool.body.description == "Handle it."
    assert tool.bind(b'{"n":1,"more":[2]}', "C") == (({"n": 1, "more": [2]}, "C"), {})
    assert msgspec.json.decode(tool.encode_result({"n": 1}, NOW)) == {"content": [{"type": "text", "text": '{"n":1}'}]}


def test_a_handler_gets_the_context_if_it_has_a_second_parameter(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, Any, bool]] = [
        (handle, ({"n": 1}, "C"), False),
        (handle_alone, ({"n": 1},), False),
        (Handler(), ({"n": 1}, "C"), True),
        (functools.partial(handle_later, 1), ({"n": 1}, "C"), True),
    ]
    for call, expected, is_async in cases:
        with subtests.test(call=call, expected=expected, is_async=is_async):
            tool = tool_from_schema(call, ToolOptions(name="t"), SCHEMA)
            assert tool.bind(b'{"n":1}', "C") == (expected, {})
            assert tool.is_async is is_async


def test_invalid_arguments_are_named() -> None:
    tool = tool_from_schema(handle, ToolOptions(), SCHEMA)
    for data, expected in ((b'{"n":"x"}', "n: 'x' is not of type 'integer'"), (b"[]", "expected object, got array"),
                       (None, "'n' is a required property")):  # fmt: skip
        bound = tool.bind(data, None)
        assert isinstance(bound, InvalidArguments)
        assert [str(problem) for problem in bound.problems] == [expected]


def test_validate_false() -> None:
    tool = tool_from_schema(
        handle, ToolOptions(output_schema={"type": "object", "required": ["n"]}), SCHEMA, validate=False
    )
    assert tool.bind(b'{"n":"x"}', "C") == (({"n": "x"}, "C"), {})
    assert tool.bind(None, "C") == (({}, "C"), {})
    assert msgspec.json.decode(tool.encode_result({}, NOW))["structuredContent"] == {}


def test_output_is_validated() -> None:
    tool = tool_from_schema(handle, ToolOptions(output_schema=SCHEMA), SCHEMA)
    assert msgspec.json.decode(tool.encode_result({"n": 1}, NOW))["structuredContent"] == {"n": 1}
    with pytest.raises(UsageError, match=r"handle.*'n' is a required property"):
        tool.encode_result({}, NOW)


def test_unusable_schemas_are_rejected() -> None:
    with pytest.raises(UsageError, match=r"handle\(input_schema\) must have"):
        tool_from_schema(handle, ToolOptions(), {})
    with pytest.raises(UsageError, match=r"handle\(output_schema\) must have"):
        tool_from_schema(handle, ToolOptions(output_schema={"type": "array"}), SCHEMA)


def test_a_handler_with_other_parameters_is_rejected(subtests: pytest.Subtests) -> None:
    without_signature = type("Odd", (), {"__call__": property(lambda self: 1 / 0)})
    cases: list[Any] = [lambda: 1, lambda a, b, c: 1, without_signature, 3]
    for call in cases:
        with subtests.test(call=call), pytest.raises(UsageError, match="must accept"):
            tool_from_schema(call, ToolOptions(name="t"), SCHEMA)
