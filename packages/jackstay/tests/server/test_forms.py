"""Elicitation forms from classes and JSON Schemas, and the conversion of responses."""

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.server._forms import read_form
from jackstay.types import RequestedSchema, StringSchema


class Colour(enum.Enum):
    """Of a car."""

    RED = "red"
    BLUE = "blue"


class Car(msgspec.Struct):
    """A car."""

    name: Annotated[str, msgspec.Meta(min_length=1, description="Name of the car")]
    colour: Colour
    doors: int = 4
    price: float | None = None
    is_new: bool = True
    fuel: Literal["petrol", "diesel"] = "petrol"
    extras: list[Literal["radio", "roof"]] = []
    other: Colour | None = None


class Numbered(msgspec.Struct):
    size: Literal[1, 2]


@dataclass
class Nested:
    car: Car


class Loose(TypedDict):
    anything: Any


def test_a_form_from_a_class() -> None:
    form = read_form(Car)
    assert form.schema["type"] == "object"
    assert form.schema["required"] == ["name", "colour"]
    assert form.schema.keys() == {"type", "properties", "required"}
    properties: Any = form.schema["properties"]
    assert properties["name"] == {"type": "string", "minLength": 1, "description": "Name of the car"}
    assert properties["colour"]["type"] == "string"
    assert properties["colour"]["enum"] == ["blue", "red"]
    assert properties["doors"] == {"type": "integer", "default": 4}
    assert properties["price"] == {"type": "number"}
    assert properties["is_new"] == {"type": "boolean", "default": True}
    assert properties["fuel"]["enum"] == ["diesel", "petrol"]
    assert properties["extras"]["items"] == {"type": "string", "enum": ["radio", "roof"]}
    assert properties["other"]["enum"] == ["blue", "red"]


def test_content_is_converted_to_the_class() -> None:
    form = read_form(Car)
    assert form.read({"name": "x", "colour": "red"}) == Car("x", Colour.RED)
    with pytest.raises(UsageError, match="does not match the form"):
        form.read({"name": ""})


def test_one_value_is_a_form_with_one_field() -> None:
    for hint, kind, given, expected in (
        (bool, "boolean", True, True),
        (int, "integer", 3, 3),
        (str, "string", "x", "x"),
        (Colour, "string", "red", Colour.RED),
    ):
        form = read_form(hint)
        properties: Any = form.schema["properties"]
        assert (list(properties), form.schema["required"]) == (["value"], ["value"])
        assert properties["value"]["type"] == kind
        assert form.read({"value": given}) == expected
        with pytest.raises(UsageError, match="does not match the form"):
            form.read({})


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"enum": ["x"]}}},
}


def test_a_form_from_a_schema() -> None:
    form = read_form(SCHEMA)  # type: ignore[arg-type]  # JSON
    assert form.schema == SCHEMA
    assert form.read({"a": 1}) == {"a": 1}
    body = RequestedSchema(properties={"a": StringSchema()})
    assert read_form(body).schema == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_forms_that_are_not_flat_are_rejected_with_the_field(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        (Nested, "Nested.car"),
        (Loose, "Loose.anything"),
        (complex, "complex"),
        ({"type": "object"}, "the form"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, "the form.a"),
        ({"type": "object", "properties": {"a": True}}, "the form.a"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "the form.a"),
        (Numbered, "Numbered.size"),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"enum": [1]}}}}, "the form.a"),
    ]
    for form, path in cases:
        with subtests.test(form=form, path=path):
            with pytest.raises(UsageError) as raised:
                read_form(form)
            assert raised.value.path == path
