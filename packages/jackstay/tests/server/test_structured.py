"""Output schemas from return annotations, and the encoding of results that conform to them."""

import dataclasses
import enum
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator

from jackstay import Server, connect
from jackstay.errors import ToolCallError, UsageError
from jackstay.server._content import Audio, Image
from jackstay.server._output import encode_content_result, read_output
from jackstay.server._structured import structured_encoder
from jackstay.types import (
    CallToolResult,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    with_members,
)

NOW, OLD = "2025-11-25", "2025-03-26"


class Color(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int


class Node(msgspec.Struct):
    children: list["Node"]


@dataclasses.dataclass
class Leg:
    city: str


class Trip(TypedDict):
    legs: list[Leg]


class Model(pydantic.BaseModel, extra="forbid"):
    a: int = pydantic.Field(alias="A")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return 2 * self.a


@dataclasses.dataclass
class Holder:
    model: Model


def decoded(encoded: bytes) -> dict[str, Any]:
    result: dict[str, Any] = msgspec.json.decode(encoded)
    return result


UNSTRUCTURED = [
    Any, object, None, type(None), str, Annotated[str, "a note"], TextContent, Image, Audio, CallToolResult,
    list[TextContent], list[TextContent | ImageContent], list[str | Image], tuple[Image, ...],
    tuple[str, Image], TextContent | None, str | TextContent,
    Annotated[list[ImageContent], "pictures"],
]  # fmt: skip


def test_annotations_of_content_have_no_schema(subtests: pytest.Subtests) -> None:
    for hint in UNSTRUCTURED:
        with subtests.test(hint=hint):
            assert read_output(hint, "t").schema is None


OBJECTS: list[tuple[Any, Any, dict[str, Any]]] = [
    (Point, Point(1), {"x": 1}),
    (Leg, Leg("Rome"), {"city": "Rome"}),
    (Trip, {"legs": [Leg("Rome")]}, {"legs": [{"city": "Rome"}]}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict, {"a": None}, {"a": None}),
    (Node, Node([Node([])]), {"children": [{"children": []}]}),
    (Model, Model(A=1), {"A": 1, "double": 2}),
    (Holder, Holder(Model(A=1)), {"model": {"A": 1, "double": 2}}),
]


def test_objects_are_structured_and_also_sent_as_text(subtests: pytest.Subtests) -> None:
    for hint, value, expected in OBJECTS:
        with subtests.test(hint=hint, value=value, expected=expected):
            output = read_output(hint, "t")
            assert output.schema is not None
            assert output.schema["type"] == "object"
            result = decoded(output.encode_result(value, NOW))
            assert result["structuredContent"] == expected
            assert msgspec.json.decode(result["content"][0]["text"]) == expected
            Draft202012Validator.check_schema(output.schema)
            Draft202012Validator(output.schema).validate(expected)


WRAPPED: list[tuple[Any, Any, Any, str]] = [
    (int, 3, 3, "3"),
    (bool, True, True, "true"),
    (float, 1.5, 1.5, "1.5"),
    (bytes, b"\0", "AA==", "AA=="),
    (Color, Color.RED, "red", '"red"'),
    (list[int], [1, 2], [1, 2], "[1,2]"),
    (list, [], [], "[]"),
    (list[Any], [None], [None], "[null]"),
    (int | None, None, None, "null"),
    (int | str, "a", "a", "a"),
    (Point | None, Point(1), {"x": 1}, '{"x":1}'),
    (list[Point], [Point(1)], [{"x": 1}], '[{"x":1}]'),
]


def test_other_values_are_wrapped(subtests: pytest.Subtests) -> None:
    for hint, value, expected, text in WRAPPED:
        with subtests.test(hint=hint, value=value, expected=expected, text=text):
            output = read_output(hint, "t")
            assert output.schema is not None
            assert output.schema["required"] == ["result"]
            result = decoded(output.encode_result(value, NOW))
            assert result == {"content": [{"type": "text", "text": text}], "structuredContent": {"result": expected}}
            Draft202012Validator.check_schema(output.schema)
            Draft202012Validator(output.schema).validate(result["structuredContent"])


def test_str_is_structured_with_structured_true() -> None:
    output = read_output(str, "t", structured=True)
    assert decoded(output.encode_result("a", NOW))["structuredContent"] == {"result": "a"}


def test_structured_false_sends_only_content() -> None:
    output = read_output(complex, "t", structured=False)
    assert output.schema is None
    assert decoded(output.encode_result(3, NOW)) == {"content": [{"type": "text", "text": "3"}]}


def test_structured_true_needs_an_annotation_with_a_schema() -> None:
    with pytest.raises(UsageError, match="needs a return annotation"):
        read_output(Any, "t", structured=True)


def test_the_error_for_an_unsupported_annotation_suggests_structured_false(subtests: pytest.Subtests) -> None:
    cases: list[object] = [complex, list[int] | list[str], Annotated[int, msgspec.Meta(min_length=1)]]
    for hint in cases:
        with subtests.test(hint=hint), pytest.raises(UsageError, match=r"t\(return\).*structured=False"):
            read_output(hint, "t")


def test_revisions_without_structured_output_get_only_the_text() -> None:
    assert decoded(read_output(Point, "t").encode_result(Point(1), OLD)) == {
        "content": [{"type": "text", "text": '{"x":1}'}]
    }
    assert decoded(read_output(int, "t").encode_result(1, OLD)) == {"content": [{"type": "text", "text": "1"}]}


def test_values_that_violate_the_output_schema_are_rejected(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, Any, str]] = [
        (Point, {"x": "a"}, "Expected `int`"),
        (Point, Point("a"), "Expected `int`"),  # type: ignore[arg-type]
        (Point, None, "expected an object"),
        (dict[str, int], [1], "expected an object"),
        (dict[str, int], {"a": "b"}, "Expected `int`"),
        (list[int], ["a"], "Expected `int`"),
        (int, None, "Expected `int`"),
        (Point, CallToolResult(content=[], structured_content={"x": "a"}), "Expected `int`"),
        (int, CallToolResult(content=[], structured_content={}), "missing member 'result'"),
        (int, CallToolResult(content=[], structured_content={"result": "a"}), "Expected `int`"),
    ]
    for hint, value, message in cases:
        with subtests.test(hint=hint, value=value), pytest.raises(UsageError, match=message):
            read_output(hint, "t").encode_result(value, NOW)


def test_a_result_object_is_sent_unchanged() -> None:
    result = CallToolResult(
        content=[TextContent(text="a")], structured_content={"x": 1}, is_error=True, meta={"k": None}
    )
    result = with_members(result, {"vendor": [1]})
    expected = {
        "content": [{"text": "a", "type": "text"}],
        "structuredContent": {"x": 1},
        "isError": True,
        "_meta": {"k": None},
        "vendor": [1],
    }
    assert decoded(encode_content_result(result, NOW)) == expected
    # The structured content of an error need not conform to the schema.
    assert decoded(read_output(Trip, "t").encode_result(result, NOW)) == expected
    del expected["structuredContent"]
    assert decoded(encode_content_result(result, OLD)) == expected


def test_the_content_of_a_result_object_is_adapted_to_the_revision() -> None:
    result = CallToolResult(content=[ResourceLink(uri="a://b", name="b")])
    assert decoded(encode_content_result(result, OLD))["content"][0]["type"] == "text"


def test_an_input_required_result_is_sent_unchanged() -> None:
    result = InputRequiredResult(request_state="s")
    expected = {"resultType": "input_required", "requestState": "s"}
    assert decoded(encode_content_result(result, "2026-07-28")) == expected
    assert decoded(read_output(int, "t").encode_result(result, "2026-07-28")) == expected


def refuse(_: bytes) -> None:
    raise ValueError("not valid")


def test_the_output_of_a_tool_with_a_json_schema() -> None:
    unchecked = structured_encoder("t", lambda _: None)
    assert decoded(unchecked({"a": 1}, NOW))["structuredContent"] == {"a": 1}
    checked = structured_encoder("t", refuse)
    with pytest.raises(UsageError, match="not valid"):
        checked({"a": 1}, NOW)
    with pytest.raises(UsageError, match="expected an object"):
        unchecked("text", NOW)


class _Found(pydantic.BaseModel):
    id: int
    aliased: str = pydantic.Field(default="x", serialization_alias="as")


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_union_of_a_model_and_other_types(version: str) -> None:
    server = Server("x")

    @server.tool
    async def find(id: int) -> _Found | str | None:
        return {0: "nothing", 1: _Found(id=1)}.get(id)

    @server.tool
    async def bad() -> _Found | int:
        return "text"  # type: ignore[return-value]

    async with connect(server, versions=(version,)) as client:
        assert (await client.tools.call("find", {"id": 0})).data == "nothing"
        assert (await client.tools.call("find", {"id": 1})).structured_content == {"result": {"id": 1, "as": "x"}}
        assert (await client.tools.call("find", {"id": 1})).data.id == 1
        assert (await client.tools.call("find", {"id": 2})).data is None
        with pytest.raises(ToolCallError, match="bad failed"):
            await client.tools.call("bad")
