"""Ready schemas: bounded, local, compiled once, and every problem named."""

import sys
from typing import Any

import pytest
from referencing import Registry

from jackstay.errors import UsageError
from jackstay.server import _ready
from jackstay.server._ready import check_ready, compile_ready

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
    given = {"type": "object", "properties": {}}
    copy = check_ready(given, "s", must_be_object=True)
    given["type"] = "array"
    assert copy == {"type": "object", "properties": {}}


def test_a_schema_may_describe_anything_where_it_need_not_be_an_object() -> None:
    assert check_ready({"type": "array"}, "s", must_be_object=False) == {"type": "array"}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "object", "x": object()}, "s is not JSON"),
        ({"type": "object", "x": float("nan")}, "s is not JSON"),
        ([], "must be a JSON Schema object"),
        ({"type": "array"}, "must say"),
        ({}, "must say"),
        (deep(40), "nested deeper than 64"),
        ({"type": "object", "description": "x" * 1_048_577}, "at most 1048576"),
        ({"type": "object", "enum": [[[[]]]] * 400_000}, "at most"),
    ],
)
def test_what_cannot_be_used_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_ready(schema, "s", must_be_object=True)


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    invalid = compile_ready(schema, "s")(value)
    return [] if invalid is None else sorted(str(problem) for problem in invalid.problems)


def test_every_problem_is_named() -> None:
    assert problems(CITY, {"city": "Rome", "legs": [{"days": 1}]}) == []
    assert problems(CITY, {"legs": [{"days": "x"}, 3], "zz": 1}) == [
        "'city' is a required property",
        "Additional properties are not allowed ('zz' was unexpected)",
        "legs[0].days: 'x' is not of type 'integer'",
        "legs[1]: 3 is not of type 'object'",
    ]


def test_another_dialect_is_respected_where_it_is_named() -> None:
    # Draft 7 has no `prefixItems`.
    tuple_of = {"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{"type": "string"}]}
    assert problems(tuple_of, [1]) == []
    assert problems({"prefixItems": [{"type": "string"}]}, [1]) == ["[0]: 1 is not of type 'string'"]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "wrong"}, "s is not valid at #/type"),
        ({"properties": {"a": {"minimum": "x"}}}, "s is not valid at #/properties/a/minimum"),
        ({"$ref": "https://example.com/s.json"}, "references are not fetched"),
        ({"allOf": [{"$dynamicRef": "file:///etc/passwd#a"}]}, "references are not fetched"),
    ],
)
def test_a_bad_schema_is_refused_at_registration(schema: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compile_ready(schema, "s")


def test_a_reference_to_a_part_of_the_document_by_its_id_is_local() -> None:
    schema = {
        "$defs": {"a": {"$id": "https://example.com/a", "type": "string"}},
        "$ref": "https://example.com/a",
    }
    assert problems(schema, 3) == ["3 is not of type 'string'"]


@pytest.mark.parametrize("reference", ["#/$defs/nowhere", "#"])
def test_a_reference_to_nowhere_or_forever_is_a_problem_and_not_an_exception(reference: str) -> None:
    assert problems({"allOf": [{"$ref": reference}]}, 3)[0].startswith("the schema cannot be used")


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema.exceptions", None)
    with pytest.raises(UsageError, match=r"pip install 'jackstay\[schema\]', or pass validate=False"):
        compile_ready(CITY, "s")


def test_the_limits_are_as_documented() -> None:
    assert (_ready.MAX_SCHEMA_BYTES, _ready.MAX_SCHEMA_DEPTH) == (1_048_576, 64)


def count_crawls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    crawled: list[object] = []
    crawl = Registry.crawl

    def count(registry: Any) -> Any:
        crawled.append(registry)
        return crawl(registry)

    monkeypatch.setattr(Registry, "crawl", count)
    return crawled


@pytest.mark.parametrize("reference", ["#a", "https://example.org/y"])
def test_a_schema_is_searched_for_names_once_and_not_for_each_argument(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"items": {"$ref": reference}}},
        "$defs": {
            "x": {"$anchor": "a", "type": "integer"},
            "y": {"$id": "https://example.org/y", "type": "integer"},
        },
    }
    crawled = count_crawls(monkeypatch)
    validate = compile_ready(schema, "s")
    before = len(crawled)
    assert validate({"a": [1] * 500}) is None
    assert problems(schema, {"a": [1, "x"]}) == ["a[1]: 'x' is not of type 'integer'"]
    assert validate({"a": [1] * 500}) is None
    assert len(crawled) == before + 1  # of the second schema, inside `problems`


def test_an_argument_that_the_library_cannot_compare_is_a_problem_and_not_an_exception() -> None:
    schema = {"type": "object", "properties": {"n": {"multipleOf": 0.1}}}
    assert problems(schema, {"n": 10**400}) == ["the schema cannot be used (OverflowError)"]


@pytest.mark.parametrize(
    "schema",
    [{"pattern": "a{99999999999999999999}"}, {"$id": "http://a", "$defs": {"x": {"$id": "http://[::1"}}}],
)
def test_a_schema_that_makes_the_library_raise_is_refused_at_registration(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"s cannot be used \((OverflowError|ValueError)\)"):
        compile_ready({"type": "object", **schema}, "s")
