"""What a return annotation promises, what an answer holds, and that the second keeps the first."""

import dataclasses
import enum
import math
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator

from jackstay.errors import UsageError
from jackstay.server._content import Audio, Image
from jackstay.server._output import answer_content, error_result, read_output, ready_output
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


def decoded(answer: bytes) -> dict[str, Any]:
    result: dict[str, Any] = msgspec.json.decode(answer)
    return result


UNSTRUCTURED = [
    Any, object, None, type(None), str, Annotated[str, "words"], TextContent, Image, Audio, CallToolResult,
    list[TextContent], list[TextContent | ImageContent], list[str | Image], tuple[Image, ...], tuple[str, Image], TextContent | None, str | TextContent,
    Annotated[list[ImageContent], "pictures"],
]  # fmt: skip


@pytest.mark.parametrize("hint", UNSTRUCTURED)
def test_content_promises_nothing(hint: object) -> None:
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


@pytest.mark.parametrize(("hint", "value", "expected"), OBJECTS)
def test_an_object_is_structured_and_said_in_words(hint: Any, value: Any, expected: dict[str, Any]) -> None:
    output = read_output(hint, "t")
    assert output.schema is not None
    assert output.schema["type"] == "object"
    result = decoded(output.answer(value, NOW))
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


@pytest.mark.parametrize(("hint", "value", "expected", "text"), WRAPPED)
def test_anything_else_is_wrapped(hint: Any, value: Any, expected: Any, text: str) -> None:
    output = read_output(hint, "t")
    assert output.schema is not None
    assert output.schema["required"] == ["result"]
    result = decoded(output.answer(value, NOW))
    assert result == {"content": [{"type": "text", "text": text}], "structuredContent": {"result": expected}}
    Draft202012Validator.check_schema(output.schema)
    Draft202012Validator(output.schema).validate(result["structuredContent"])


def test_text_is_structured_when_asked() -> None:
    output = read_output(str, "t", structured=True)
    assert decoded(output.answer("a", NOW))["structuredContent"] == {"result": "a"}


def test_structure_can_be_refused() -> None:
    output = read_output(complex, "t", structured=False)
    assert output.schema is None
    assert decoded(output.answer(3, NOW)) == {"content": [{"type": "text", "text": "3"}]}


def test_structure_needs_something_to_describe() -> None:
    with pytest.raises(UsageError, match="does not say what structure"):
        read_output(Any, "t", structured=True)


@pytest.mark.parametrize("hint", [complex, list[int] | list[str], Annotated[int, msgspec.Meta(min_length=1)]])
def test_an_impossible_annotation_says_what_to_do(hint: object) -> None:
    with pytest.raises(UsageError, match=r"t\(return\).*structured=False"):
        read_output(hint, "t")


def test_a_revision_without_structure_gets_the_text_alone() -> None:
    assert decoded(read_output(Point, "t").answer(Point(1), OLD)) == {
        "content": [{"type": "text", "text": '{"x":1}'}]
    }
    assert decoded(read_output(int, "t").answer(1, OLD)) == {"content": [{"type": "text", "text": "1"}]}


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (Point, {"x": "a"}, "Expected `int`"),
        (Point, Point("a"), "Expected `int`"),  # type: ignore[arg-type]
        (Point, None, "must be an object"),
        (dict[str, int], [1], "must be an object"),
        (dict[str, int], {"a": "b"}, "Expected `int`"),
        (list[int], ["a"], "Expected `int`"),
        (int, None, "Expected `int`"),
        (Point, CallToolResult(content=[], structured_content={"x": "a"}), "Expected `int`"),
        (int, CallToolResult(content=[], structured_content={}), "no member result"),
        (int, CallToolResult(content=[], structured_content={"result": "a"}), "Expected `int`"),
    ],
)
def test_what_breaks_the_promise_is_not_sent(hint: Any, value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_output(hint, "t").answer(value, NOW)


@pytest.mark.parametrize(
    ("value", "said"), [(math.nan, "nan"), ([math.inf], "inf"), (1j, "complex"), ("\ud800", "surrogate")]
)
def test_what_json_cannot_say_is_not_sent(value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        answer_content(value, NOW)


def test_content_is_content() -> None:
    assert decoded(answer_content("hi", NOW)) == {"content": [{"type": "text", "text": "hi"}]}
    assert decoded(answer_content(None, NOW)) == {"content": []}
    assert decoded(answer_content(Image(b"\0"), NOW))["content"][0]["type"] == "image"


def test_a_result_is_sent_as_it_is() -> None:
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
    assert decoded(answer_content(result, NOW)) == expected
    # An error need not have the shape that success has.
    assert decoded(read_output(Trip, "t").answer(result, NOW)) == expected
    del expected["structuredContent"]
    assert decoded(answer_content(result, OLD)) == expected


def test_a_result_is_put_into_what_the_revision_has() -> None:
    result = CallToolResult(content=[ResourceLink(uri="a://b", name="b")])
    assert decoded(answer_content(result, OLD))["content"][0]["type"] == "text"


def test_a_question_is_sent_as_it_is() -> None:
    question = InputRequiredResult(request_state="s")
    expected = {"resultType": "input_required", "requestState": "s"}
    assert decoded(answer_content(question, "2026-07-28")) == expected
    assert decoded(read_output(int, "t").answer(question, "2026-07-28")) == expected


def test_a_failure_is_a_result_in_words() -> None:
    assert decoded(error_result("bad")) == {"content": [{"type": "text", "text": "bad"}], "isError": True}
    assert decoded(error_result("half \ud800"))["content"][0]["text"] == "half ?"


def test_a_ready_schema_is_promised_and_checked_by_whoever_compiled_it() -> None:
    assert ready_output(None, "t", None).schema is None
    unchecked = ready_output({"type": "object"}, "t", None)
    assert decoded(unchecked.answer({"a": 1}, NOW))["structuredContent"] == {"a": 1}
    checked = ready_output({"type": "object"}, "t", lambda data: "no good")
    with pytest.raises(UsageError, match="no good"):
        checked.answer({"a": 1}, NOW)
    with pytest.raises(UsageError, match="must be an object"):
        unchecked.answer("text", NOW)
