"""`key=value` by the schema of the tool: strings as typed, everything else JSON."""

import pytest

from jackstay.cli._values import arguments_of, types_of, value_of
from jackstay.errors import Json, UsageError

STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}

# the schema of an argument, what was typed, what it is
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


@pytest.mark.parametrize(("schema", "typed", "value"), VALUES)
def test_a_value_is_typed_by_its_schema(schema: Json, typed: str, value: Json) -> None:
    given = value_of("key", typed, schema)
    assert given == value
    assert type(given) is type(value)


@pytest.mark.parametrize(
    ("schema", "typed"),
    [(INTEGER, "three"), (INTEGER, ""), ({"type": "number"}, "NaN"), ({"type": "array"}, "[" * 100_000)],
    ids=["word", "nothing", "NaN", "deep"],
)
def test_what_is_no_json_where_it_must_be_is_refused_by_name(schema: Json, typed: str) -> None:
    with pytest.raises(UsageError, match=r"key must be .* is not JSON"):
        value_of("key", typed, schema)


ODD_SCHEMAS: list[Json] = [None, 1, [], {"type": 1}, {"type": [1]}, {"anyOf": 1}, {"enum": 1}, {"enum": []}]


@pytest.mark.parametrize("schema", ODD_SCHEMAS, ids=str)
def test_a_schema_that_says_nothing_has_no_types(schema: Json) -> None:
    assert types_of(schema) == set()


def test_words_stand_on_top_of_the_whole() -> None:
    schema: dict[str, Json] = {"properties": {"city": STRING, "days": INTEGER}}
    given = arguments_of(["days=3", "city=7"], '{"city": "Rome", "more": [1]}', schema)
    assert given == {"city": "7", "more": [1], "days": 3}
    assert arguments_of([], None, {}) == {}
    assert arguments_of(["a=1"], None, {"properties": []}) == {"a": 1}


MISTAKES = [
    (["city"], None, "'city' is not key=value"),
    (["=x"], None, "'=x' is not key=value"),
    (["a=1", "a=2"], None, "a is given twice"),
    ([], "{", "--arguments is not JSON"),
    ([], "[]", "--arguments must be a JSON object"),
    ([], '{"a": Infinity}', "Infinity is not JSON"),
]


@pytest.mark.parametrize(("words", "whole", "said"), MISTAKES)
def test_a_mistake_is_refused_by_name(words: list[str], whole: str | None, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        arguments_of(words, whole, {})
    assert said in str(raised.value)
