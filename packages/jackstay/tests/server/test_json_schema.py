"""JSON Schemas of applications: limits, references, validation and errors."""

import sys
from typing import Any

import pytest
from referencing import Registry

from jackstay.errors import UsageError
from jackstay.server._json_schema import check_schema, compile_validator

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "legs": {"type": "array", "items": {"$ref": "#/$defs/leg"}}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"leg": {"type": "object", "properties": {"days": {"type": "integer"}}}},
}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def test_a_schema_is_copied() -> None:
    original = {"type": "object", "properties": {}}
    copy = check_schema(original, "s")
    original["type"] = "array"
    assert copy == {"type": "object", "properties": {}}


def test_unusable_schemas_are_rejected(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ({"type": "object", "x": object()}, "s has no JSON form"),
        ({"type": "object", "x": float("nan")}, "s has no JSON form"),
        ([], "must be a JSON Schema object"),
        ({"type": "array"}, "must have"),
        ({}, "must have"),
        (deep(40), "nested too deeply: the limit is 64"),
        ({"type": "object", "description": "x" * 1_048_577}, "the limit is 1048576"),
        ({"type": "object", "enum": [[[[]]]] * 400_000}, "too large"),
    ]
    for schema, message in cases:
        with subtests.test(message), pytest.raises(UsageError, match=message):
            check_schema(schema, "s")


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    invalid = compile_validator(schema, "s")(value)
    return [] if invalid is None else sorted(str(problem) for problem in invalid.problems)


def test_all_problems_are_named() -> None:
    assert problems(CITY, {"city": "Rome", "legs": [{"days": 1}]}) == []
    assert problems(CITY, {"legs": [{"days": "x"}, 3], "zz": 1}) == [
        "'city' is a required property",
        "Additional properties are not allowed ('zz' was unexpected)",
        "legs[0].days: 'x' is not of type 'integer'",
        "legs[1]: 3 is not of type 'object'",
    ]


def test_the_dialect_of_the_schema_is_used() -> None:
    # Draft 7 has no `prefixItems`.
    tuple_of = {"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{"type": "string"}]}
    assert problems(tuple_of, [1]) == []
    assert problems({"prefixItems": [{"type": "string"}]}, [1]) == ["[0]: 1 is not of type 'string'"]


def test_an_invalid_schema_is_rejected_at_registration(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ({"type": "wrong"}, "s is invalid at #/type"),
        ({"properties": {"a": {"minimum": "x"}}}, "s is invalid at #/properties/a/minimum"),
        ({"$ref": "https://example.com/s.json"}, "external references are not fetched"),
        ({"allOf": [{"$dynamicRef": "file:///etc/passwd#a"}]}, "external references are not fetched"),
    ]
    for schema, message in cases:
        with subtests.test(message), pytest.raises(UsageError, match=message):
            compile_validator(schema, "s")


def test_a_reference_by_id_inside_the_document_is_allowed() -> None:
    schema = {
        "$defs": {"a": {"$id": "https://example.com/a", "type": "string"}},
        "$ref": "https://example.com/a",
    }
    assert problems(schema, 3) == ["3 is not of type 'string'"]


def test_unresolvable_and_infinite_references_are_problems_and_not_exceptions(subtests: pytest.Subtests) -> None:
    for reference in ["#/$defs/nowhere", "#"]:
        with subtests.test(reference=reference):
            assert problems({"allOf": [{"$ref": reference}]}, 3)[0].startswith("validation failed")


def test_the_error_for_a_missing_extra_has_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(UsageError, match=r"pip install 'jackstay\[schema\]', or pass validate=False"):
        compile_validator(CITY, "s")


def count_crawls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    crawled: list[object] = []
    crawl = Registry.crawl

    def count(registry: Any) -> Any:
        crawled.append(registry)
        return crawl(registry)

    monkeypatch.setattr(Registry, "crawl", count)
    return crawled


def test_a_schema_is_crawled_once_and_not_for_each_call(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for reference in ["#a", "https://example.org/y"]:
        with subtests.test(reference=reference):
            schema = {
                "type": "object",
                "properties": {"a": {"items": {"$ref": reference}}},
                "$defs": {
                    "x": {"$anchor": "a", "type": "integer"},
                    "y": {"$id": "https://example.org/y", "type": "integer"},
                },
            }
            crawled = count_crawls(monkeypatch)
            validate = compile_validator(schema, "s")
            before = len(crawled)
            assert validate({"a": [1] * 500}) is None
            assert problems(schema, {"a": [1, "x"]}) == ["a[1]: 'x' is not of type 'integer'"]
            assert validate({"a": [1] * 500}) is None
            assert len(crawled) == before + 1  # of the second schema, inside `problems`


def test_an_exception_during_validation_is_a_problem() -> None:
    schema = {"type": "object", "properties": {"n": {"multipleOf": 0.1}}}
    assert problems(schema, {"n": 10**400}) == ["validation failed (OverflowError)"]


def test_an_exception_during_compilation_is_a_usage_error(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = [
        {"pattern": "a{99999999999999999999}"},
        {"$id": "http://a", "$defs": {"x": {"$id": "http://[::1"}}},
    ]
    message = r"s is not supported \((OverflowError|ValueError)\)"
    for schema in cases:
        with subtests.test(schema=schema), pytest.raises(UsageError, match=message):
            compile_validator({"type": "object", **schema}, "s")
