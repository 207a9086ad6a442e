"""Schemas as model APIs take them, and the arguments as the tool takes them back.

Strict mode is tested with every module of a registry in packages/jackstay-apcore/tests/converters/test_openai.py.
"""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # no types

from jackstay.models import look_up, object_schema, strict_schema
from jackstay.models._schemas import without_nulls

STRING, NUMBER = {"type": "string"}, {"type": "integer"}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


# --- references -------------------------------------------------------------------------------------------------------


def test_a_pointer_may_lead_anywhere_in_the_schema() -> None:
    """RFC 6901: escapes, and items of lists."""
    root = {"a/b": {"m~n": [{"x": 1}]}}
    assert look_up(root, "#/a~1b/m~0n/0") == {"x": 1}
    assert look_up(root, "#") is root


@pytest.mark.parametrize("reference", ["#/a", "#/l/1", "#/l/x", "https://example.org/s", "other.json#/a"])
def test_a_pointer_that_leads_nowhere_is_named(reference: str) -> None:
    with pytest.raises(KeyError, match=r"a|1|x|nothing is fetched"):
        look_up({"l": [0]}, reference)


# --- the root ---------------------------------------------------------------------------------------------------------

PLAIN = {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False}

# (what the server says, what the model sees)
ROOTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("as it is", PLAIN, PLAIN),
    ("nothing", {}, {"type": "object", "properties": {}}),
    ("no properties", {"type": "object"}, {"type": "object", "properties": {}}),
    ("no type", {"properties": {"a": STRING}}, {"type": "object", "properties": {"a": STRING}}),
    (
        "a reference",
        {"$ref": "#/$defs/A", "$defs": {"A": closed(a=STRING)}, "description": "here"},
        {**closed(a=STRING), "$defs": {"A": closed(a=STRING)}, "description": "here"},
    ),
    (
        "branches that only require",
        {
            **closed(),
            "properties": {"a": STRING, "b": STRING},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        {"type": "object", "properties": {"a": STRING, "b": STRING}, "required": []},
    ),
    (
        "branches with properties of their own",
        {"oneOf": [closed(kind={"const": "a"}, x=STRING), closed(kind={"const": "b"}, y=STRING)]},
        {
            "type": "object",
            "properties": {"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "x": STRING, "y": STRING},
            "required": ["kind"],
        },
    ),
    (
        "three branches of one property, one of them twice",
        {"anyOf": [closed(k={"const": word}) for word in "abcb"]},
        closed(k={"anyOf": [{"const": "a"}, {"const": "b"}, {"const": "c"}]}),
    ),
    (
        "parts of all",
        {"allOf": [closed(a=STRING), closed(a={"minLength": 1}, b=NUMBER)], "properties": {"c": STRING}},
        closed(c=STRING, a={"allOf": [STRING, {"minLength": 1}]}, b=NUMBER) | {"required": ["a", "b"]},
    ),
    (
        "what the object says stands in every branch",
        {**closed(a=STRING), "anyOf": [{"properties": {"a": {"const": "x"}, "b": NUMBER}}]},
        {"type": "object", "properties": {"b": NUMBER, "a": STRING}, "required": ["a"]},
    ),
    (
        "branches behind references",
        {"anyOf": [{"$ref": "#/$defs/A"}, True], "$defs": {"A": closed(a=STRING)}},
        {"type": "object", "properties": {"a": STRING}, "required": [], "$defs": {"A": closed(a=STRING)}},
    ),
    (
        "what the APIs refuse at the root alone",
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
        "a choice further down is left alone",
        closed(a={"oneOf": [STRING, NUMBER]}),
        closed(a={"oneOf": [STRING, NUMBER]}),
    ),
]


@pytest.mark.parametrize(("schema", "seen"), [row[1:] for row in ROOTS], ids=[row[0] for row in ROOTS])
def test_the_root_is_a_plain_object(schema: dict[str, Any], seen: dict[str, Any]) -> None:
    """OpenAI and Anthropic refuse a whole request for one tool with a choice at its root."""
    before = copy.deepcopy(schema)
    assert object_schema(schema) == seen
    assert schema == before, "what it is given is not changed"


CLOSED = {
    "properties": {"kind": {"enum": ["a", "x"]}, "b": NUMBER},
    "oneOf": [
        {**closed(kind={"const": "a"}, a=STRING), "additionalProperties": False},
        {**closed(kind={"const": "x"}, a=NUMBER), "additionalProperties": False},
    ],
    "allOf": [{"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}],
}
WORDS = st.sampled_from(["a", "x", 1, None])


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("a", "b", "kind"), WORDS)))
def test_what_closed_branches_take_the_plain_object_takes(arguments: dict[str, Any]) -> None:
    """Joining keeps nothing from the model that the server would take."""
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
def test_choices_without_end_are_refused_and_do_not_hang(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="more than 200 choices"):
        object_schema(schema)


def test_a_reference_at_the_root_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(KeyError, match="Gone"):
        object_schema({"$ref": "#/$defs/Gone"})


def test_references_that_lead_to_each_other_end() -> None:
    circle = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    assert object_schema(circle)["type"] == "object"


# --- strict mode and the way back -------------------------------------------------------------------------------------


BOTH = {"allOf": [closed(a=STRING), {"properties": {"b": NUMBER}, "required": ["b"]}]}

# (a required property as the server says it, as structured outputs take it)
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


@pytest.mark.parametrize(("given", "taken"), STRICT)
def test_strict_mode_says_only_what_structured_outputs_take(given: Any, taken: Any) -> None:
    before = copy.deepcopy(given)
    assert strict_schema(closed(p=given))["properties"]["p"] == taken
    assert given == before, "what it is given is not changed"


def test_an_object_that_was_open_by_its_own_word_is_told_of() -> None:
    told: list[int] = []
    open_object = {"type": "object", "additionalProperties": STRING}
    made = strict_schema({**closed(a=open_object), "additionalProperties": True}, lambda: told.append(1))
    assert len(told) == 2
    assert made["properties"]["a"]["additionalProperties"] is False


def test_nobody_need_listen() -> None:
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

# (the property, what the model wrote, what is sent; ... is nothing)
BACK = [
    ("must", None, None),  # required: the server must say what it thinks of it
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
    ("two", {"x": None}, {"x": None}),  # which of them is meant is not for us to say
    ("invented", None, None),
]


@pytest.mark.parametrize(("name", "wrote", "sent"), BACK)
def test_a_null_that_only_strict_mode_allows_is_not_sent(name: str, wrote: Any, sent: Any) -> None:
    expected = {} if sent is ... else {name: sent}
    assert without_nulls(OPTIONAL, {name: wrote}) == expected


def test_every_optional_property_of_the_table_may_be_null_in_strict_mode() -> None:
    """The two rules are one another's inverse: what strict mode lets be null, the way back knows."""
    strict = strict_schema(OPTIONAL)
    for name, wrote, sent in BACK:
        if sent is ... and name != "false":
            part = {**strict["properties"][name], "$defs": strict["$defs"]}
            assert Draft202012Validator(part).is_valid(wrote), name


@pytest.mark.parametrize(
    "part",
    [
        {"$ref": "#/$defs/Gone"},
        {"$ref": "#/$defs/Odd"},
        {"$ref": "#/$defs/Circle"},
        {"$ref": "#/$defs/Wide"},
        {"$ref": "#/$defs/Deep"},
    ],
    ids=lambda part: part["$ref"],
)
def test_where_the_schema_cannot_be_followed_the_arguments_stay(part: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"a": part},
        "$defs": {
            "Odd": {"oneOf": 5},
            "Circle": {"anyOf": [{"$ref": "#/$defs/Circle"}]},
            "Wide": {"anyOf": [{"$ref": "#/$defs/Wider"}] * 30},
            "Wider": {"anyOf": [{"type": "string"}] * 30},
            "Deep": {"enum": 5},
        },
    }
    assert without_nulls(schema, {"a": None}) == {"a": None}
