"""Default values and validation of arguments."""

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


def test_defaults_are_filled_in_at_every_level() -> None:
    rules = ArgumentRules(NESTED)
    given = {"n": 1, "who": {}}
    assert rules.fill(given) == {"n": 1, "list": [], "who": {"name": "ann"}}
    assert given == {"n": 1, "who": {}}
    assert rules.fill({"who": "not an object"})["who"] == "not an object"


def test_defaults_are_copied() -> None:
    """A module may modify its arguments."""
    rules = ArgumentRules(NESTED)
    rules.fill({})["list"].append(1)
    assert rules.fill({})["list"] == []


def test_arguments_are_unchanged_without_defaults() -> None:
    rules = ArgumentRules({"type": "object", "properties": {"a": {}, "b": False}})
    given: dict[str, Any] = {}
    assert rules.fill(given) is given
    assert ArgumentRules({"type": "object"}).fill(given) is given


PROBLEMS: list[tuple[Any, Any]] = [
    ({"n": 10}, ("n", "violates maximum 9", "maximum")),
    ({"n": "x"}, ("n", "must be integer", "type")),
    ({"list": [1, "x"]}, ("list.1", "must be integer", "type")),
    ({"who": {}}, ("who.age", "Field required", "required")),
    ({"kind": "secret"}, ("kind", "must be one of 'a', 'b'", "enum")),
    ({"flag": 1}, ("flag", "must be boolean or null", "type")),
    ({"one": 1}, ("one", "violates oneOf", "oneOf")),
    ({"closed": {"x": 1}}, ("closed.x", "Unknown field", "additionalProperties")),
]


def test_problems_do_not_contain_values() -> None:
    """A value may be secret or large."""
    for arguments, problem in PROBLEMS:
        assert ArgumentRules(NESTED).problems(arguments) == [problem], arguments


def test_problem_at_the_root() -> None:
    rules = ArgumentRules({"type": "object", "minProperties": 1})
    assert rules.problems({}) == [("input", "violates minProperties 1", "minProperties")]


def test_number_of_problems_is_limited() -> None:
    assert len(ArgumentRules(NESTED).problems({"list": ["x"] * 200})) == MAX_PROBLEMS


def test_recursive_schema() -> None:
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


ALTERNATIVES: list[tuple[Any, Any]] = [
    ({"who": {"name": "ann", "age": "x"}}, [("who.age", "must be integer", "type")]),
    ({"who": {}}, [("who.name", "Field required", "required")]),
    ({"who": 7}, [("who", "violates anyOf", "anyOf")]),
    ({"size": "y"}, [("size", "violates anyOf", "anyOf")]),
    ({"who": None}, []),
]


def test_intended_alternative_is_reported() -> None:
    """The errors of an optional model name its fields."""
    for arguments, problems in ALTERNATIVES:
        assert ArgumentRules(MAYBE).problems(arguments) == problems, arguments


def test_exceptions_of_the_library_are_problems() -> None:
    rules = ArgumentRules({"type": "object", "properties": {"n": {"multipleOf": 0.1}}})
    assert rules.problems({"n": 10**400}) == [("input", "the schema cannot be used (OverflowError)", "schema")]
    dangling = ArgumentRules({"type": "object", "properties": {"n": {"$ref": "#nowhere"}}})
    assert dangling.problems({"n": 1}) == [("input", "the schema cannot be used (WrappedReferencingError)", "schema")]


def test_schema_is_crawled_once(
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


def test_dialect_of_the_schema() -> None:
    """In draft 7, keywords beside a reference have no effect, and `items` may be a list."""
    definitions = {"count": {"type": "number"}}
    schema = {"properties": {"count": {"$ref": "#/definitions/count", "maximum": 5}}, "definitions": definitions}
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    assert ArgumentRules(draft_7).problems({"count": 100}) == []
    assert len(ArgumentRules(schema).problems({"count": 100})) == 1
