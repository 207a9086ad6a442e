"""Validation of output against its schema, and unusable schemas."""

from typing import Any

import pytest
from referencing import Registry

from jackstay.client import _output
from jackstay.client._output import MAX_SCHEMA_BYTES, checker

DEEP: dict[str, Any] = {}
for _ in range(3000):
    DEEP = {"not": DEEP}

WELL_NESTED: dict[str, Any] = {"type": "object"}
for _ in range(20):
    WELL_NESTED = {"type": "object", "properties": {"a": WELL_NESTED}}


def test_a_check_returns_the_first_problem() -> None:
    cases: list[tuple[dict[str, Any], Any, str | None]] = [
        ({"type": "object"}, {}, None),
        ({"type": "integer"}, 1, None),
        ({"type": "integer"}, "1", "$: '1' is not of type 'integer'"),
        ({"properties": {"a": {"items": {"minimum": 3}}}}, {"a": [3, 2]}, "$.a[1]: 2 is less than the minimum of 3"),
        ({"$defs": {"n": {"type": "null"}}, "$ref": "#/$defs/n"}, None, None),
        ({"type": "nonsense"}, {}, "the schema is invalid ('nonsense' is not valid"),
        ({"pattern": "("}, "x", None),
        ({"pattern": r"\p{L}+"}, "x", None),
        ({"$ref": "https://example.com/schema.json"}, {}, "the schema cannot be used (WrappedReferencingError)"),
        ({"$ref": "#"}, {}, "the schema cannot be used (recursive or nested too deeply)"),
        ({"allOf": [{"$ref": "#"}]}, {}, "the schema cannot be used (recursive or nested too deeply)"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, {}, "the schema is larger than 262144 bytes and was not checked"),
        (WELL_NESTED, {}, None),
        (DEEP, {}, "the schema cannot be used (recursive or nested too deeply)"),
    ]
    for schema, output, problem in cases:
        found = checker(schema, seconds=60)(output)
        assert found == problem or (problem is not None and found is not None and found.startswith(problem))


def test_one_check_serves_many_outputs() -> None:
    check = checker({"type": "array", "maxItems": 1}, seconds=60)
    assert check([1]) is None
    assert check([1, 2]) is not None
    assert check([]) is None


# Each definition refers twice to the next: the last is reached 2^30 times.
REFERENCES: dict[str, Any] = {
    "$ref": "#/$defs/0",
    "$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(30)} | {"30": {}},
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# This match would run for years.
ENDLESS = "^(a+)+$"
MATCHED = "a" * 60 + "!"


TOO_COMPLEX = "the output is too complex to check (more than 20000 steps)"


def test_no_schema_and_no_output_of_a_server_runs_forever(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """A check runs on the event loop, so a slow one would block all other calls."""
    cases: list[tuple[dict[str, Any], Any, str | None]] = [
        ({"properties": {"x": {"pattern": ENDLESS, "type": "string"}}}, {"x": MATCHED}, None),
        ({"patternProperties": {ENDLESS: {}}, "additionalProperties": False}, {MATCHED: 1}, None),
        ({"allOf": [{"patternProperties": {ENDLESS: {}}}], "unevaluatedProperties": False}, {MATCHED: 1}, None),
        ({"properties": {"x": {"$schema": DIALECT, "pattern": ENDLESS}}}, {"x": MATCHED}, None),
        (
            {"$schema": DIALECT, "$ref": "#/$defs/x", "$defs": {"x": {"$schema": DIALECT, "pattern": ENDLESS}}},
            MATCHED,
            None,
        ),
        ({"$ref": DIALECT}, {"type": [{"n": n} for n in range(1000)]}, TOO_COMPLEX),
        ({"additionalProperties": False}, {"x": 1}, "$: Additional properties are not allowed ('x' was unexpected)"),
        (REFERENCES, {}, TOO_COMPLEX),
        ({"$dynamicRef": "#/$defs/0", "$defs": REFERENCES["$defs"]}, {}, TOO_COMPLEX),
        ({"uniqueItems": True}, [{"n": n} for n in range(1000)], TOO_COMPLEX),
        ({"uniqueItems": True}, [str(n) for n in range(1000)], None),
        ({"uniqueItems": True}, [{}, {}], "$: [{}, {}] has non-unique elements"),
        ({"items": {}}, [1] * 10_000, TOO_COMPLEX),
        ({"items": {"allOf": [{"minimum": 0}] * 100}}, [1] * 1000, TOO_COMPLEX),
        ({"anyOf": [{"type": "null"}] * 100}, ["word"] * 1000, TOO_COMPLEX),
    ]
    for schema, output, problem in cases:
        with subtests.test(schema=str(schema)[:80]), monkeypatch.context() as patch:
            check = checker(schema, seconds=60)  # only the steps are limited here
            patch.setattr(_output, "MAX_STEPS", 20_000)
            assert check(output) == problem


def test_checking_a_schema_is_limited_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_output, "MAX_STEPS", 20_000)
    schemas: list[dict[str, Any]] = [
        {"type": [{"n": n} for n in range(1000)]},
        {"properties": {str(n): {} for n in range(1000)}},
    ]
    for schema in schemas:
        assert checker(schema, seconds=60)({}) == "the schema is too complex to check (more than 20000 steps)"


def test_an_ordinary_table_is_checked_to_its_end() -> None:
    row = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"],
    }
    schema = {"properties": {"rows": {"items": {"$ref": "#/$defs/row"}}}, "$defs": {"row": row}}
    check = checker(schema, seconds=60)  # on a busy machine it takes more than a second
    rows: list[Any] = [{"a": n, "b": "x"} for n in range(1000)]
    assert check({"rows": rows}) is None
    rows[-1] = {"b": "x"}
    assert check({"rows": rows}) == "$.rows[999]: 'a' is a required property"


# --- what the libraries raise -----------------------------------------------------------------------------------------

HOSTILE: list[tuple[dict[str, Any], Any]] = [
    ({"multipleOf": 0.1}, 10**400),
    ({"$ref": "#/x", "x": "str"}, {}),
    ({"$ref": "#/x", "x": 5}, {}),
    ({"$ref": "#/x", "x": [1]}, {}),
    ({"$id": "http://[::1", "$ref": "x"}, {}),
    ({"$ref": "http://[::1"}, {}),
    ({"allOf": [{}], "$ref": "#/allOf/x"}, {}),
    ({"$ref": "#nowhere"}, {}),
    ({"$dynamicRef": "#nowhere"}, {}),
]


def test_exceptions_of_the_libraries_are_problems() -> None:
    for schema, output in HOSTILE:
        found = checker(schema, seconds=60)(output)
        assert found is not None
        assert found.startswith("the schema cannot be used ("), schema


def test_a_pattern_that_python_cannot_compile_is_not_compiled() -> None:
    assert checker({"pattern": "a{99999999999999999999}"})("a") is None


def test_exceptions_while_a_schema_is_checked_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    for exception in (OverflowError, ValueError, TypeError, AttributeError, MemoryError, KeyError):

        def fail(*_: object, exception: type[Exception] = exception) -> None:
            raise exception

        monkeypatch.setattr(_output, "_resolver", fail)
        assert checker({})({}) == f"the schema cannot be used ({exception.__name__})"


# --- time -------------------------------------------------------------------------------------------------------------


class Ticking:
    """A clock that advances by a second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.mark.parametrize(
    ("schema", "output"),
    [
        ({"items": {"minimum": 0}}, [1] * 100),  # keywords that are not counted
        ({"allOf": [{"$ref": "#/$defs/a"}] * 100, "$defs": {"a": {"const": [1] * 100}}}, [1] * 100),
        (REFERENCES, {}),
    ],
)
def test_a_check_ends_when_its_time_is_over(
    schema: dict[str, Any], output: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = checker(schema, 20)
    clock = Ticking()
    monkeypatch.setattr(_output, "_clock", clock)
    assert check(output) == "checking the output took longer than 20 s"
    assert clock.now == 1 + 21  # started at 1, ended at the first reading after 21
    assert checker({"allOf": [{"type": "object"}] * 100}, 20)({}) == "checking the schema took longer than 20 s"


ANCHORED: dict[str, Any] = {
    "$defs": {
        "x": {"$anchor": "a", "type": "integer"},
        "y": {"$id": "https://example.org/y", "type": "integer"},
    },
    "$dynamicAnchor": "d",
}


@pytest.mark.parametrize(
    "item", [{"$ref": "#a"}, {"$ref": "https://example.org/y"}, {"$anchor": "z", "$dynamicRef": "#a"}]
)
def test_a_schema_is_crawled_for_anchors_once(item: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    crawled = []
    crawl = Registry.crawl

    def count(registry: Any) -> Any:
        crawled.append(registry)
        return crawl(registry)

    monkeypatch.setattr(Registry, "crawl", count)
    check = checker({**ANCHORED, "items": item}, seconds=60)
    assert len(crawled) == 1
    for _ in range(3):
        assert check([1] * 200) is None
        assert check([1] * 200 + ["x"]) == "$[200]: 'x' is not of type 'integer'"
    assert len(crawled) == 1
    checker({"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {}}})([1] * 200)
    assert len(crawled) == 1  # there are no anchors
