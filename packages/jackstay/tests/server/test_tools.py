"""Tools from functions and from ready schemas."""

import functools
from typing import Annotated, Any

import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.server._problems import InvalidArguments
from jackstay.server._tools import ReadySchema, ToolOptions, tool_from_function, tool_from_schema
from jackstay.types import Icon, Tool, ToolAnnotations, decode

NOW = "2025-11-25"


class Context:
    pass


class Forecast(msgspec.Struct):
    degrees: float


async def forecast(city: str, context: Context, days: int = 3) -> Forecast:
    """The weather.

    Args:
        city: where
    """
    return Forecast(days / 2)


def test_a_function_becomes_a_tool() -> None:
    tool = tool_from_function(forecast, Context)
    assert (tool.name, tool.is_async, tool.is_blocking) == ("forecast", True, False)
    assert tool.body.description == "The weather."
    assert tool.body.annotations is None
    assert tool.bind(b'{"city":"Rome"}', "C") == (("Rome", "C", 3), {})
    assert msgspec.json.decode(tool.answer(Forecast(1.5), NOW))["structuredContent"] == {"degrees": 1.5}
    assert decode(Tool, tool.listed) == tool.body
    assert "outputSchema" in msgspec.json.decode(tool.listed)
    assert "outputSchema" not in msgspec.json.decode(tool.listed_plain)


def test_what_the_author_says_wins() -> None:
    options = ToolOptions(
        name="weather.now",
        title="Weather",
        description="Mine.",
        read_only=True,
        destructive=False,
        icons=["a.png", Icon(src="b.png")],
        meta={"k": 1},
        structured=False,
    )
    tool = tool_from_function(forecast, Context, options)
    assert msgspec.json.decode(tool.listed) == {
        "name": "weather.now",
        "title": "Weather",
        "description": "Mine.",
        "inputSchema": tool.body.input_schema,
        "annotations": {"readOnlyHint": True, "destructiveHint": False},
        "icons": [{"src": "a.png"}, {"src": "b.png"}],
        "_meta": {"k": 1},
    }
    assert tool.listed_plain is tool.listed


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("read_only", "read_only_hint"),
        ("destructive", "destructive_hint"),
        ("idempotent", "idempotent_hint"),
        ("open_world", "open_world_hint"),
    ],
)
@pytest.mark.parametrize("value", [True, False])
def test_a_hint_is_a_keyword(keyword: str, hint: str, value: bool) -> None:
    tool = tool_from_function(lambda: 1, options=ToolOptions(name="t", **{keyword: value}))  # type: ignore[arg-type]
    assert tool.body.annotations == ToolAnnotations(**{hint: value})


def test_a_plain_function_is_blocking_unless_it_says_otherwise() -> None:
    def plain() -> None: ...

    assert tool_from_function(plain).is_blocking
    assert not tool_from_function(plain, options=ToolOptions(blocking=False)).is_blocking


def test_a_tool_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="'<lambda>'"):
        tool_from_function(lambda: 1)


def marked(name: str) -> Any:
    return msgspec.Meta(extra_json_schema={"x-mcp-header": name})


def test_arguments_may_travel_in_headers() -> None:
    def query(region: Annotated[str, marked("Region")]) -> None: ...

    (row,) = tool_from_function(query).param_headers
    assert (row.path, row.header) == (("region",), "Mcp-Param-Region")


def test_a_header_that_cannot_be_one_is_refused() -> None:
    def query(region: Annotated[float, marked("Region")]) -> None: ...

    with pytest.raises(UsageError, match=r"query: .*x-mcp-header"):
        tool_from_function(query)


# --- ready schemas ----------------------------------------------------------------------------------------------------

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


def ready(validate: bool = True, output: dict[str, Any] | None = None) -> ReadySchema:
    return ReadySchema(input_schema=SCHEMA, output_schema=output, validate=validate)


def test_a_ready_schema_becomes_a_tool() -> None:
    tool = tool_from_schema(handle, ready())
    assert tool.body.input_schema == SCHEMA
    assert tool.body.description == "Handle it."
    assert tool.bind(b'{"n":1,"more":[2]}', "C") == (({"n": 1, "more": [2]}, "C"), {})
    assert msgspec.json.decode(tool.answer({"n": 1}, NOW)) == {
        "content": [{"type": "text", "text": '{"n":1}'}]
    }


@pytest.mark.parametrize(
    ("call", "expected", "is_async"),
    [
        (handle, ({"n": 1}, "C"), False),
        (handle_alone, ({"n": 1},), False),
        (Handler(), ({"n": 1}, "C"), True),
        (functools.partial(handle_later, 1), ({"n": 1}, "C"), True),
    ],
)
def test_a_handler_takes_the_context_if_it_can(call: Any, expected: Any, is_async: bool) -> None:
    tool = tool_from_schema(call, ready(), ToolOptions(name="t"))
    assert tool.bind(b'{"n":1}', "C") == (expected, {})
    assert tool.is_async is is_async


def test_wrong_arguments_are_named() -> None:
    tool = tool_from_schema(handle, ready())
    for data, said in ((b'{"n":"x"}', "n: 'x' is not of type 'integer'"), (b"[]", "expected object, got array"),
                       (None, "'n' is a required property")):  # fmt: skip
        bound = tool.bind(data, None)
        assert isinstance(bound, InvalidArguments)
        assert [str(problem) for problem in bound.problems] == [said]


def test_validation_can_be_left_to_the_handler() -> None:
    tool = tool_from_schema(handle, ready(validate=False, output={"type": "object", "required": ["n"]}))
    assert tool.bind(b'{"n":"x"}', "C") == (({"n": "x"}, "C"), {})
    assert tool.bind(None, "C") == (({}, "C"), {})
    assert msgspec.json.decode(tool.answer({}, NOW))["structuredContent"] == {}


def test_output_is_held_to_its_schema() -> None:
    tool = tool_from_schema(handle, ready(output=SCHEMA))
    assert msgspec.json.decode(tool.answer({"n": 1}, NOW))["structuredContent"] == {"n": 1}
    with pytest.raises(UsageError, match=r"handle.*'n' is a required property"):
        tool.answer({}, NOW)


def test_a_schema_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(UsageError, match=r"handle\(input_schema\) must say"):
        tool_from_schema(handle, ReadySchema(input_schema={}))
    with pytest.raises(UsageError, match=r"handle\(output_schema\) must say"):
        tool_from_schema(handle, ReadySchema(input_schema=SCHEMA, output_schema={"type": "array"}))


@pytest.mark.parametrize("call", [lambda: 1, lambda a, b, c: 1, max, 3])
def test_a_handler_that_takes_anything_else_is_refused(call: Any) -> None:
    if call is max:
        call = type("Odd", (), {"__call__": property(lambda self: 1 / 0)})
    with pytest.raises(UsageError, match="must take"):
        tool_from_schema(call, ready(), ToolOptions(name="t"))
