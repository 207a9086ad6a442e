"""Conversion of schemas for model APIs, and of arguments for the tool.

Strict mode is tested with every module of a registry in packages/jackstay-apcore/tests/converters/test_openai.py.
"""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # no types

from jackstay.models import object_schema, resolve_reference, strict_schema
from jackstay.models._schemas import without_nulls

STRING, NUMBER = {"type": "string"}, {"type": "integer"}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


# --- references -------------------------------------------------------------------------------------------------------


def test_a_pointer_may_lead_anywhere_in_the_schema() -> None:
    """RFC 6901: escapes, and items of lists."""
    root = {"a/b": {"m~n": [{"x": 1}]}}
    assert resolve_reference(root, "#/a~1b/m~0n/0") == {"x": 1}
    assert resolve_reference(root, "#") is root


def test_an_unresolvable_pointer_is_named() -> None:
    for reference in ("#/a", "#/l/1", "#/l/x", "https://example.org/s", "other.json#/a"):
        with pytest.raises(KeyError, match=reference.rpartition("/")[2]):
            resolve_reference({"l": [0]}, reference)


# --- the root ---------------------------------------------------------------------------------------------------------

PLAIN = {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False}

# (name, schema of the server, schema for the model)
ROOTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("unchanged", PLAIN, PLAIN),
    ("nothing", {}, {"type": "object", "properties": {}}),
    ("no properties", {"type": "object"}, {"type": "object", "properties": {}}),
    ("no type", {"properties": {"a": STRING}}, {"type": "object", "properties": {"a": STRING}}),
    (
        "a reference",
        {"$ref": "#/$defs/A", "$defs": {"A": closed(a=STRING)}, "description": "here"},
        {**closed(a=STRING), "$defs": {"A": closed(a=STRING)}, "description": "here"},
    ),
    (
        "alternatives that only require",
        {
            **closed(),
            "properties": {"a": STRING, "b": STRING},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        {"type": "object", "properties": {"a": STRING, "b": STRING}, "required": []},
    ),
    (
        "alternatives with different properties",
        {"oneOf": [closed(kind={"const": "a"}, x=STRING), closed(kind={"const": "b"}, y=STRING)]},
        {
            "type": "object",
            "properties": {"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "x": STRING, "y": STRING},
            "required": ["kind"],
        },
    ),
    (
        "three alternatives of one property, one of them twice",
        {"anyOf": [closed(k={"const": value}) for value in "abcb"]},
        closed(k={"anyOf": [{"const": "a"}, {"const": "b"}, {"const": "c"}]}),
    ),
    (
        "allOf",
        {"allOf": [closed(a=STRING), closed(a={"minLength": 1}, b=NUMBER)], "properties": {"c": STRING}},
        closed(c=STRING, a={"allOf": [STRING, {"minLength": 1}]}, b=NUMBER) | {"required": ["a", "b"]},
    ),
    (
        "properties of the object take precedence over those of alternatives",
        {**closed(a=STRING), "anyOf": [{"properties": {"a": {"const": "x"}, "b": NUMBER}}]},
        {"type": "object", "properties": {"b": NUMBER, "a": STRING}, "required": ["a"]},
    ),
    (
        "alternatives behind references",
        {"anyOf": [{"$ref": "#/$defs/A"}, True], "$defs": {"A": closed(a=STRING)}},
        {"type": "object", "properties": {"a": STRING}, "required": [], "$defs": {"A": closed(a=STRING)}},
    ),
    (
        "keywords that the APIs reject at the root",
        {
            **closed(a=STRING),
            "not": {"required": ["b"]},
            "enum": [{"a": "x"}],
            "const": {"a": "x"},
            "allOf": 5,
        },
        closed(a=STRING),
    ),
    (
        "alternatives below the root are kept",
        closed(a={"oneOf": [STRING, NUMBER]}),
        closed(a={"oneOf": [STRING, NUMBER]}),
    ),
]


def test_the_root_is_a_plain_object(subtests: pytest.Subtests) -> None:
    """OpenAI and Anthropic reject a whole request if one tool has alternatives at its root."""
    for name, schema, expected in ROOTS:
        with subtests.test(name):
            before = copy.deepcopy(schema)
            assert object_schema(schema) == expected
            assert schema == before, "the argument is not changed"


CLOSED = {
    "properties": {"kind": {"enum": ["a", "x"]}, "b": NUMBER},
    "oneOf": [
        {**closed(kind={"const": "a"}, a=STRING), "additionalProperties": False},
        {**closed(kind={"const": "x"}, a=NUMBER), "additionalProperties": False},
    ],
    "allOf": [{"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}],
}
VALUES = st.sampled_from(["a", "x", 1, None])


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("a", "b", "kind"), VALUES)))
def test_merging_accepts_everything_that_the_alternatives_accept(arguments: dict[str, Any]) -> None:
    if Draft202012Validator(CLOSED).is_valid(arguments):
        assert Draft202012Validator(object_schema(CLOSED)).is_valid(arguments)


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"anyOf": [{"$ref": "#/$defs/0"}] * 2, "$defs": {
            str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(20)
        } | {"20": True}},
    ],
)  # fmt: skip
def test_too_many_alternatives_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="more than 200 alternatives"):
        object_schema(schema)


def test_an_unresolvable_reference_at_the_root_is_refused() -> None:
    with pytest.raises(KeyError, match="Gone"):
        object_schema({"$ref": "#/$defs/Gone"})


def test_circular_references_end() -> None:
    circle = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    assert object_schema(circle)["type"] == "object"


# --- strict mode and its arguments ------------------------------------------------------------------------------------


BOTH = {"allOf": [closed(a=STRING), {"properties": {"b": NUMBER}, "required": ["b"]}]}

# (a required property of the server, the same for structured outputs)
STRICT: list[tuple[Any, Any]] = [
    (
        {"type": "string", "format": "date", "minLength": 1, "title": "T"},
        {"type": "string", "format": "date"},
    ),
    ({"type": "string", "format": "uri"}, STRING),
    ({"oneOf": [STRING, NUMBER]}, {"anyOf": [STRING, NUMBER]}),
    (
        {"type": "array", "prefixItems": [STRING, NUMBER]},
        {"type": "array", "items": {"anyOf": [STRING, NUMBER]}},
    ),
    ({"type": "array", "prefixItems": [STRING], "items": STRING}, {"type": "array", "items": STRING}),
    (BOTH, {**closed(a=STRING, b=NUMBER), "additionalProperties": False}),
]


def test_strict_mode_keeps_only_keywords_of_structured_outputs() -> None:
    for schema, expected in STRICT:
        before = copy.deepcopy(schema)
        assert strict_schema(closed(p=schema))["properties"]["p"] == expected
        assert schema == before, "the argument is not changed"


def test_on_closed_is_called_for_each_explicitly_open_object() -> None:
    calls: list[int] = []
    open_object = {"type": "object", "additionalProperties": STRING}
    strict = strict_schema({**closed(a=open_object), "additionalProperties": True}, lambda: calls.append(1))
    assert len(calls) == 2
    assert strict["properties"]["a"]["additionalProperties"] is False


def test_on_closed_is_optional() -> None:
    assert strict_schema({"type": "object", "additionalProperties": True})["required"] == []


OPTIONAL = {
    "type": "object",
    "required": ["must"],
    "properties": {
        "must": STRING,
        "plain": STRING,
        "either": {"type": ["string", "null"]},
        "kinds": {"type": ["string", "integer"]},
        "choice": {"anyOf": [STRING, {"type": "null"}]},
        "choices": {"oneOf": [STRING, NUMBER]},
        "const": {"const": "x"},
        "none": {"const": None},
        "word": {"enum": ["a", "b"]},
        "word_or_none": {"enum": ["a", None]},
        "merged": {"allOf": [STRING]},
        "anything": {},
        "true": True,
        "false": False,
        "reference": {"$ref": "#/$defs/Inner"},
        "list": {"type": "array", "items": {"$ref": "#/$defs/Inner"}},
        "maybe_inner": {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}]},
        "maybe_list": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Inner"}}, {"type": "null"}]},
        "two": {"anyOf": [closed(x=STRING), closed(x=NUMBER)]},
    },
    "$defs": {"Inner": {"type": "object", "properties": {"x": STRING, "y": {"type": ["string", "null"]}}}},
}

INNER = {"x": None, "y": None}

# (the property, the value of the model, the value that is sent; ...: nothing)
NULLS = [
    ("must", None, None),  # required: the server validates it
    ("plain", None, ...),
    ("plain", "a", "a"),
    ("either", None, None),
    ("kinds", None, ...),
    ("choice", None, None),
    ("choices", None, ...),
    ("const", None, ...),
    ("none", None, None),
    ("word", None, ...),
    ("word_or_none", None, None),
    ("merged", None, ...),
    ("anything", None, None),
    ("true", None, None),
    ("false", None, ...),
    ("reference", None, ...),
    ("reference", INNER, {"y": None}),
    ("list", [INNER, INNER], [{"y": None}] * 2),
    ("maybe_inner", INNER, {"y": None}),
    ("maybe_list", [INNER], [{"y": None}]),
    ("two", {"x": None}, {"x": None}),  # ambiguous
    ("invented", None, None),
]


def test_a_null_that_only_strict_mode_allows_is_not_sent() -> None:
    for name, value, sent in NULLS:
        expected = {} if sent is ... else {name: sent}
        assert without_nulls(OPTIONAL, {name: value}) == expected, name


def test_every_optional_property_of_the_table_may_be_null_in_strict_mode() -> None:
    """`strict_schema()` and `without_nulls()` are inverse to each other."""
    strict = strict_schema(OPTIONAL)
    for name, value, sent in NULLS:
        if sent is ... and name != "false":
            part = {**strict["properties"][name], "$defs": strict["$defs"]}
            assert Draft202012Validator(part).is_valid(value), name


def test_arguments_are_unchanged_if_the_schema_cannot_be_followed() -> None:
    definitions = {
        "Odd": {"oneOf": 5},
        "Circle": {"anyOf": [{"$ref": "#/$defs/Circle"}]},
        "Wide": {"anyOf": [{"$ref": "#/$defs/Wider"}] * 30},
        "Wider": {"anyOf": [{"type": "string"}] * 30},
        "Deep": {"enum": 5},
    }
    for name in ("Gone", "Odd", "Circle", "Wide", "Deep"):
        schema = {"type": "object", "properties": {"a": {"$ref": f"#/$defs/{name}"}}, "$defs": definitions}
        assert without_nulls(schema, {"a": None}) == {"a": None}, name
