"""JSON Schemas from type hints: valid 2020-12, and errors for unsupported hints."""

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator

from jackstay.server._schema import UnusableHintError, object_schema, resolve, schemas_of


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
    note: NotRequired[str]


class Inner(pydantic.BaseModel):
    a: int


class Outer(pydantic.BaseModel):
    inner: Inner


def other_outer() -> type[pydantic.BaseModel]:
    class Inner(pydantic.BaseModel):
        b: str

    class Outer(pydantic.BaseModel):
        inner: Inner

    return Outer


ROWS: list[tuple[Any, dict[str, Any]]] = [
    (Any, {}),
    (str, {"type": "string"}),
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (Literal["a", "b"], {"enum": ["a", "b"]}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
    (datetime.date, {"type": "string", "format": "date"}),
    # The format is that of RFC 3339, which requires an offset; a plain datetime may have none.
    (datetime.datetime, {"type": "string"}),
    (Annotated[datetime.datetime, msgspec.Meta(tz=True)], {"type": "string", "format": "date-time"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (decimal.Decimal, {"type": "string", "format": "decimal"}),
    (Path, {"type": "string", "format": "path"}),
    (Annotated[int, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1}),
    (Point, {"$ref": "#/$defs/Point"}),
    (Color, {"$ref": "#/$defs/Color"}),
]


def test_schemas_of(subtests: pytest.Subtests) -> None:
    for hint, expected in ROWS:
        with subtests.test(hint=hint, expected=expected):
            found = schemas_of([hint], "validation")
            assert found.schemas == (expected,)
            Draft202012Validator.check_schema({**found.schemas[0], "$defs": found.definitions})


def test_a_shared_class_is_defined_once() -> None:
    found = schemas_of([Trip, list[Leg]], "validation")
    assert set(found.definitions) == {"Trip", "Leg"}
    assert found.schemas[1] == {"type": "array", "items": {"$ref": "#/$defs/Leg"}}


def test_a_flat_pydantic_model_is_inlined() -> None:
    found = schemas_of([Inner], "validation")
    assert found.schemas[0]["properties"] == {"a": {"title": "A", "type": "integer"}}
    assert found.definitions == {}


def test_the_definitions_of_a_pydantic_model_are_lifted_to_the_root() -> None:
    found = schemas_of([Outer, list[Outer]], "validation")
    assert set(found.definitions) == {"Inner"}
    assert found.schemas[0]["properties"] == {"inner": {"$ref": "#/$defs/Inner"}}


def test_definitions_with_the_same_name_are_renamed() -> None:
    found = schemas_of([Outer, other_outer()], "validation")
    assert len(found.definitions) == 2
    for schema, value in zip(found.schemas, ({"inner": {"a": 1}}, {"inner": {"b": "x"}}), strict=True):
        Draft202012Validator({**schema, "$defs": found.definitions}).validate(value)


class Painted(pydantic.BaseModel):
    color: Color


def test_a_definition_of_a_model_may_have_the_name_of_another_class() -> None:
    for hints, values in (
        ([Outer, msgspec.defstruct("Inner", ["x"])], ({"inner": {"a": 1}}, {"x": 2})),
        ([Painted, Color], ({"color": "red"}, "red")),
    ):
        found = schemas_of(hints, "validation")
        for schema, value in zip(found.schemas, values, strict=True):
            whole = {**schema, "$defs": found.definitions}
            Draft202012Validator(whole).validate(value)
            assert not Draft202012Validator(whole).is_valid("blue")


def test_unsupported_hints_are_rejected_with_one_line(subtests: pytest.Subtests) -> None:
    cases: list[tuple[object, str]] = [
        (complex, "complex has no JSON form"),
        (Callable[[int], int], "has no JSON form"),
        (list[int] | list[str], "more than one array-like"),
        (Inner | int, "custom type"),
        (Annotated[int, msgspec.Meta(min_length=1)], "min_length"),
    ]
    for hint, message in cases:
        with subtests.test(hint=hint):
            with pytest.raises(UnusableHintError, match=message) as caught:
                schemas_of([hint], "validation")
            assert "\n" not in str(caught.value)


def test_an_object_without_members_has_the_form_that_mcp_recommends() -> None:
    assert object_schema({}, [], {}) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_object_schema() -> None:
    schema = object_schema({"a": {}}, ["a"], {"D": {}})
    expected = {"properties": {"a": {}}, "required": ["a"], "$defs": {"D": {}}}
    assert schema == {"type": "object", **expected, "additionalProperties": False}


def resolved(hint: object) -> dict[str, Any]:
    found = schemas_of([hint], "serialization")
    return resolve(found.schemas[0], found.definitions)


def test_the_root_is_never_a_reference() -> None:
    assert resolved(Point) == {
        "title": "Point",
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
    }
    assert resolved(Trip)["$defs"].keys() == {"Leg"}
    assert resolved(int) == {"type": "integer"}


def test_a_recursive_root_keeps_its_definition() -> None:
    schema = resolved(Node)
    assert schema["type"] == "object"
    assert schema["$defs"].keys() == {"Node"}
    Draft202012Validator(schema).validate({"children": [{"children": []}]})


def test_a_description_beside_a_reference_overrides_that_of_the_class() -> None:
    assert resolved(Annotated[Point, msgspec.Meta(description="my point")])["description"] == "my point"
