"""The types of schemas. Most are in the file that `test_typed_client.py` compares; here are those that are not."""

from typing import Any

import pytest

from jackstay.cli._schema_types import SchemaTypes, class_name, quoted, unique_name

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}

# schema -> type
TYPES: list[tuple[Any, str]] = [
    (True, "Any"),
    ({}, "Any"),
    ({"type": "unknown"}, "Any"),
    ({"type": 3}, "Any"),
    ({"type": "null"}, "None"),
    ({"const": None}, "None"),
    ({"const": 1.5, "type": "number"}, "float"),
    ({"enum": [{}]}, "Any"),
    ({"enum": []}, "Any"),
    ({"type": "array"}, "list[Any]"),
    ({"type": ["null", "integer", "string"]}, "int | str | None"),
    ({"allOf": [{}, {"type": "string"}]}, "str"),
    ({"allOf": [{}]}, "Any"),
    ({"anyOf": [{"type": "string"}, {}]}, "Any"),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "null"}}, "list[str | None]"),
    ({"$ref": "#/anyOf/0", "anyOf": [{"type": "string"}]}, "str"),
    ({"$ref": "#/anyOf/9", "anyOf": [{"type": "string"}]}, "Any"),
    ({"$ref": "#/a~1b", "a/b": {"type": "string"}}, "str"),
    ({"$ref": "#"}, "Any"),
    ({"$ref": "#anchor"}, "Any"),
    ({"anyOf": [OBJECT, {**OBJECT, "title": "other"}]}, "X | X1"),
    ({"oneOf": [OBJECT, OBJECT]}, "X"),
]


@pytest.mark.parametrize(("schema", "expected"), TYPES)
def test_the_type_of_a_schema(schema: Any, expected: str) -> None:
    types = SchemaTypes(set())
    types.use_root(schema if isinstance(schema, dict) else {}, "X")
    assert types.type_of(schema, "X") == expected


def test_names() -> None:
    assert [class_name(text) for text in ("get-weather", "a_b", "1st", "", "!", "été", "²")] == [
        "GetWeather", "AB", "N1st", "", "", "Été", "N2"
    ]  # fmt: skip
    assert [unique_name("a", {"a"}), unique_name("a", {"a", "a_"}, "_"), unique_name("b", {"a"})] == ["a2", "a_2", "b"]
    assert [quoted("a"), quoted('"'), quoted("'\"\\\n")] == ['"a"', "'\"'", '"\'\\"\\\\\\n"']
