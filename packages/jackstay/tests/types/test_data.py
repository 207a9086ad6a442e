"""`OutputReader`: structured output as Python objects, from untrusted schemas."""

import datetime
from typing import Any

import pytest

from jackstay.types import WRAPPED, CallToolResult, OutputReader
from jackstay.types._data import MAX_STEPS

ORDER = {
    "title": "order line",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "class": {"type": "string"},
        "a-b": {"type": "integer"},
        "a_b": {"type": "integer"},
        "1st": {"type": "integer"},
        "note": {"type": "string", "default": "none"},
        "tags": {"type": "array", "items": {"type": "string"}, "default": []},
    },
    "required": ["id"],
}


def read(schema: Any, value: Any) -> Any:
    return OutputReader(schema).read(value)


def test_objects_become_dataclasses_with_attributes() -> None:
    reader = OutputReader(ORDER)
    value = {"id": 1, "at": "2026-01-02T03:04:05Z", "class": "A", "a-b": 1, "a_b": 2, "1st": 3, "more": {"x": 1}}
    order = reader.read(value)
    assert type(order).__name__ == "OrderLine"
    assert (order.id, order.class_, order.a_b, order.a_b_, order._1st) == (1, "A", 1, 2, 3)
    assert order.at == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert (order.note, order.tags, order.more) == ("none", None, {"x": 1})
    assert reader.read(value) == order
    assert type(reader.read({"id": 2})) is type(order)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string", "format": "date"}, "2026-01-02", datetime.date(2026, 1, 2)),
        ({"type": "string", "format": "time"}, "03:04:05", datetime.time(3, 4, 5)),
        ({"type": "string", "format": "duration"}, "PT90S", datetime.timedelta(seconds=90)),
        ({"type": "string", "format": "email"}, "a@b", "a@b"),
        ({"type": "string", "format": 5}, "x", "x"),
        ({"type": "string", "format": "date"}, "tomorrow", "tomorrow"),
        ({"type": "integer"}, "three", "three"),
        ({"type": "integer"}, 3.0, 3.0),
        ({"type": ["integer", "null"]}, None, None),
        ({"type": "integer"}, True, True),
        ({"enum": ["a"]}, "b", "b"),
        ({"type": "object"}, {"a": 1}, {"a": 1}),
        (
            {"type": "object", "additionalProperties": {"type": "string", "format": "date"}},
            {"a": "2026-01-02"},
            {"a": datetime.date(2026, 1, 2)},
        ),
        ({"type": "array", "items": {"format": "date"}}, ["2026-01-02"], [datetime.date(2026, 1, 2)]),
        ({"type": "array", "prefixItems": [{"format": "date"}]}, ["2026-01-02", "x"], [datetime.date(2026, 1, 2), "x"]),
        ({"anyOf": [{"type": "integer"}, {"format": "date"}]}, "2026-01-02", datetime.date(2026, 1, 2)),
        ({"oneOf": [{"type": "integer"}]}, "x", "x"),
        ({"allOf": [{"format": "date"}]}, "2026-01-02", datetime.date(2026, 1, 2)),
        ({"$ref": "https://example.org/x"}, 1, 1),
        ({"$ref": "#/$defs/absent"}, 1, 1),
        ({"$ref": "#"}, 1, 1),  # refers to itself
        (True, {"a": 1}, {"a": 1}),
    ],
)
def test_values_and_what_does_not_match(schema: Any, value: Any, expected: Any) -> None:
    if schema is True:
        schema = {"properties": {"a": True}}
        assert read(schema, value).a == 1
        return
    assert read(schema, value) == expected
    assert type(read(schema, value)) is type(expected)


def test_a_recursive_schema_and_a_union_of_objects() -> None:
    node = {
        "type": "object",
        "properties": {"kind": {"const": "node"}, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
        "required": ["kind"],
    }
    leaf = {"type": "object", "properties": {"kind": {"const": "leaf"}}, "additionalProperties": False}
    schema = {"anyOf": [{"$ref": "#/$defs/Leaf"}, {"$ref": "#/$defs/Node"}], "$defs": {"Node": node, "Leaf": leaf}}
    reader = OutputReader(schema)
    found = reader.read({"kind": "node", "next": {"kind": "node", "next": None}})
    assert (type(found).__name__, found.next.kind, found.next.next) == ("Node", "node", None)
    assert type(reader.read({"kind": "leaf"})).__name__ == "Leaf"
    assert reader.read({"kind": "other"}) == {"kind": "other"}
    assert reader.read({"kind": "leaf", "x": 1}) == {"kind": "leaf", "x": 1}


def test_the_work_for_a_value_is_limited() -> None:
    branch = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}] * 20 + [{"type": "null"}]}
    value: Any = 5  # matches nothing, at the deepest place
    for _ in range(30):
        value = [value]
    reader = OutputReader(branch)
    assert reader.read(value) == value
    assert reader._steps <= MAX_STEPS + 30 * 21


def test_only_marked_schemas_are_unwrapped() -> None:
    schema = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    assert read({**schema, WRAPPED: True}, {"result": 3}) == 3
    assert read(schema, {"result": 3}).result == 3
    result = CallToolResult(content=[], structured_content={"result": 3})
    assert result.data == {"result": 3}, "there is no schema"
    assert result.data_as(int) == 3
    assert result.data_as(dict[str, int]) == {"result": 3}
    marked = OutputReader({**schema, WRAPPED: True})
    described = CallToolResult(content=[], structured_content={"result": 3}).with_reader(marked)
    assert (described.data, described) == (3, result)
    assert repr(marked) == "<OutputReader Root>"
