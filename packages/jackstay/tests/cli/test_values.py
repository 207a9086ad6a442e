"""`key=value` words as typed arguments, by the input schema."""

import pytest

from jackstay.cli._values import parse_arguments, parse_value, schema_types
from jackstay.errors import Json, UsageError

STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}

# schema of the argument, typed text, value
VALUES: list[tuple[Json, str, Json]] = [
    (STRING, "Rome", "Rome"),
    (STRING, "3", "3"),
    (STRING, "", ""),
    (STRING, "null", "null"),
    (STRING, '"quoted"', '"quoted"'),
    (STRING, "a=b", "a=b"),
    (INTEGER, "3", 3),
    (INTEGER, "-3", -3),
    ({"type": "number"}, "1.5", 1.5),
    ({"type": "boolean"}, "true", True),
    ({"type": "array"}, "[1, 2]", [1, 2]),
    ({"type": "object"}, '{"a": null}', {"a": None}),
    ({"type": "null"}, "null", None),
    ({"type": ["string", "null"]}, "null", None),
    ({"type": ["string", "null"]}, "x", "x"),
    ({"type": ["integer", "null"]}, "null", None),
    ({"anyOf": [STRING, {"type": "null"}]}, "3", "3"),
    ({"anyOf": [INTEGER, {"type": "null"}]}, "3", 3),
    ({"oneOf": [INTEGER, STRING]}, "3", "3"),
    ({"enum": ["a", "b"]}, "a", "a"),
    ({"enum": ["1", "2"]}, "1", "1"),
    ({"enum": [1, 2]}, "1", 1),
    ({"const": "x"}, "x", "x"),
    ({"$ref": "#/$defs/City"}, "Rome", "Rome"),
    ({"$ref": "#/$defs/City"}, "[1]", [1]),
    ({}, "3", 3),
    (None, "3", 3),
    (None, "three", "three"),
    (True, "NaN", "NaN"),
]


def test_parse_value() -> None:
    for schema, typed, value in VALUES:
        parsed = parse_value("key", typed, schema)
        assert parsed == value, (schema, typed)
        assert type(parsed) is type(value), (schema, typed)


def test_values_that_must_be_json() -> None:
    rows: list[tuple[Json, str]] = [
        (INTEGER, "three"),
        (INTEGER, ""),
        ({"type": "number"}, "NaN"),
        ({"type": "array"}, "[" * 100_000),
    ]
    for schema, typed in rows:
        with pytest.raises(UsageError, match=r"argument 'key' must be .* as JSON, got"):
            parse_value("key", typed, schema)


ODD_SCHEMAS: list[Json] = [None, 1, [], {"type": 1}, {"type": [1]}, {"anyOf": 1}, {"enum": 1}, {"enum": []}]


def test_schemas_without_types() -> None:
    for schema in ODD_SCHEMAS:
        assert schema_types(schema) == set(), schema


def test_words_override_the_json_object() -> None:
    schema: dict[str, Json] = {"properties": {"city": STRING, "days": INTEGER}}
    parsed = parse_arguments(["days=3", "city=7"], '{"city": "Rome", "more": [1]}', schema)
    assert parsed == {"city": "7", "more": [1], "days": 3}
    assert parse_arguments([], None, {}) == {}
    assert parse_arguments(["a=1"], None, {"properties": []}) == {"a": 1}


USAGE_ERRORS: list[tuple[list[str], str | None, str]] = [
    (["city"], None, "expected KEY=VALUE, got 'city'"),
    (["=x"], None, "expected KEY=VALUE, got '=x'"),
    (["a=1", "a=2"], None, "argument 'a' was passed twice"),
    ([], "{", "--arguments is not JSON"),
    ([], "[]", "--arguments must be a JSON object"),
    ([], '{"a": Infinity}', "--arguments is not JSON: JSON is malformed"),
    ([], "[" * 100_000, "--arguments is not JSON"),
    ([], '"\udcff"', "--arguments is not JSON"),
]


def test_usage_errors() -> None:
    for words, json_text, message in USAGE_ERRORS:
        with pytest.raises(UsageError) as raised:
            parse_arguments(words, json_text, {})
        assert message in str(raised.value), words


def test_a_misspelt_argument_is_named() -> None:
    schema: dict[str, Json] = {"properties": {"title": STRING}}
    with pytest.raises(UsageError, match=r"unknown argument 'titel'; did you mean 'title'\?"):
        parse_arguments(["titel=x"], None, schema)
    assert parse_arguments(["titel=x"], None, {**schema, "additionalProperties": True}) == {"titel": "x"}
    assert parse_arguments(["other=x"], None, schema) == {"other": "x"}
