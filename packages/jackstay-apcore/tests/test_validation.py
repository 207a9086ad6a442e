"""F-023: defaults, and every wrong field by its name."""

from typing import Any

import pytest
from referencing import Registry

from apcore_mcp.validation import MAX_PROBLEMS, ArgumentRules

NESTED = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "default": 5, "maximum": 9},
        "list": {"type": "array", "default": [], "items": {"type": "integer"}},
        "who": {
            "type": "object",
            "properties": {"name": {"type": "string", "default": "ann"}},
            "required": ["age"],
        },
        "kind": {"enum": ["a", "b"]},
        "flag": {"type": ["boolean", "null"]},
        "odd": True,
        "one": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        "closed": {"type": "object", "additionalProperties": False},
    },
}


def test_defaults_are_filled_in_at_every_level_and_given_values_stay() -> None:
    rules = ArgumentRules(NESTED)
    given = {"n": 1, "who": {}}
    assert rules.fill(given) == {"n": 1, "list": [], "who": {"name": "ann"}}
    assert given == {"n": 1, "who": {}}
    assert rules.fill({"who": "not an object"})["who"] == "not an object"


def test_a_default_is_a_new_value_each_time() -> None:
    """A module may append to what it is given."""
    rules = ArgumentRules(NESTED)
    rules.fill({})["list"].append(1)
    assert rules.fill({})["list"] == []


def test_without_defaults_the_arguments_are_handed_on_as_they_are() -> None:
    rules = ArgumentRules({"type": "object", "properties": {"a": {}, "b": False}})
    given: dict[str, Any] = {}
    assert rules.fill(given) is given
    assert ArgumentRules({"type": "object"}).fill(given) is given


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"n": 10}, ("n", "breaks maximum 9", "maximum")),
        ({"n": "x"}, ("n", "must be integer", "type")),
        ({"list": [1, "x"]}, ("list.1", "must be integer", "type")),
        ({"who": {}}, ("who.age", "Field required", "required")),
        ({"kind": "secret"}, ("kind", "must be one of 'a', 'b'", "enum")),
        ({"flag": 1}, ("flag", "must be boolean or null", "type")),
        ({"one": 1}, ("one", "does not fit oneOf", "oneOf")),
        ({"closed": {"x": 1}}, ("closed.x", "Unknown field", "additionalProperties")),
    ],
)
def test_a_wrong_field_is_named_with_its_rule_and_never_its_value(arguments: Any, problem: Any) -> None:
    """The value may be secret, or a megabyte."""
    assert ArgumentRules(NESTED).problems(arguments) == [problem]


def test_problems_of_the_whole_are_of_the_input() -> None:
    rules = ArgumentRules({"type": "object", "minProperties": 1})
    assert rules.problems({}) == [("input", "breaks minProperties 1", "minProperties")]


def test_a_million_wrong_numbers_are_one_mistake() -> None:
    assert len(ArgumentRules(NESTED).problems({"list": ["x"] * 200})) == MAX_PROBLEMS


def test_what_fits_has_no_problems_also_in_a_schema_that_contains_itself() -> None:
    schema = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/N"}},
        "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}},
    }
    rules = ArgumentRules(schema)
    assert rules.problems({"next": {"next": {}}}) == []
    assert rules.problems({"next": {"next": 1}}) == [("next.next", "must be object", "type")]


MAYBE = {
    "type": "object",
    "properties": {
        "who": {
            "anyOf": [
                {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["name"]},
                {"type": "null"},
            ]
        },
        "size": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "string", "enum": ["x"]}]},
    },
}


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ({"who": {"name": "ann", "age": "x"}}, [("who.age", "must be integer", "type")]),
        ({"who": {}}, [("who.name", "Field required", "required")]),
        ({"who": 7}, [("who", "does not fit anyOf", "anyOf")]),
        ({"size": "y"}, [("size", "does not fit anyOf", "anyOf")]),
        ({"who": None}, []),
    ],
)
def test_in_a_choice_the_alternative_that_was_meant_is_told(arguments: Any, problems: Any) -> None:
    """An optional model: its fields are named, and not the choice between it and null."""
    assert ArgumentRules(MAYBE).problems(arguments) == problems


def test_what_the_library_raises_is_a_problem_and_not_an_exception() -> None:
    rules = ArgumentRules({"type": "object", "properties": {"n": {"multipleOf": 0.1}}})
    assert rules.problems({"n": 10**400}) == [
        ("input", "the schema cannot be used (OverflowError)", "schema")
    ]
    nowhere = ArgumentRules({"type": "object", "properties": {"n": {"$ref": "#nowhere"}}})
    assert nowhere.problems({"n": 1}) == [
        ("input", "the schema cannot be used (WrappedReferencingError)", "schema")
    ]


def test_a_schema_is_searched_for_names_once_and_not_for_each_argument(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crawled: list[object] = []
    crawl = Registry.crawl

    def count(registry: Any) -> Any:
        crawled.append(registry)
        return crawl(registry)

    monkeypatch.setattr(Registry, "crawl", count)
    defs = {"x": {"$anchor": "a", "type": "integer"}}
    rules = ArgumentRules({"type": "object", "properties": {"l": {"items": {"$ref": "#a"}}}, "$defs": defs})
    for _ in range(3):
        assert rules.problems({"l": [1] * 300}) == []
    assert len(crawled) == 1
