"""Whether output is what its schema says; and what is said of schemas that are no use."""

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


@pytest.mark.parametrize(
    ("schema", "output", "flaw"),
    [
        ({"type": "object"}, {}, None),
        ({"type": "integer"}, 1, None),
        ({"type": "integer"}, "1", "$: '1' is not of type 'integer'"),
        ({"properties": {"a": {"items": {"minimum": 3}}}}, {"a": [3, 2]}, "$.a[1]: 2 is less than the minimum of 3"),
        ({"$defs": {"n": {"type": "null"}}, "$ref": "#/$defs/n"}, None, None),
        ({"type": "nonsense"}, {}, "the schema itself is not valid ('nonsense' is not valid"),
        ({"pattern": "("}, "x", None),
        ({"pattern": r"\p{L}+"}, "x", None),
        ({"$ref": "https://example.com/schema.json"}, {}, "the schema cannot be used (WrappedReferencingError)"),
        ({"$ref": "#"}, {}, "the schema cannot be used (it refers to itself, or goes too deep)"),
        ({"allOf": [{"$ref": "#"}]}, {}, "the schema cannot be used (it refers to itself, or goes too deep)"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, {}, "the schema is over 262144 bytes, and was not looked at"),
        (WELL_NESTED, {}, None),
        (DEEP, {}, "the schema is nested too deeply, and was not looked at"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_sentence(schema: dict[str, Any], output: Any, flaw: str | None) -> None:
    found = checker(schema)(output)
    assert found == flaw or (flaw is not None and found is not None and found.startswith(flaw))


def test_one_check_serves_many_outputs() -> None:
    check = checker({"type": "array", "maxItems": 1})
    assert check([1]) is None
    assert check([1, 2]) is not None
    assert check([]) is None


# Each definition refers twice to the next: the last is reached 2^30 times.
REFERENCES: dict[str, Any] = {
    "$ref": "#/$defs/0",
    "$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(30)} | {"30": {}},
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# No match in the lifetime of anybody.
ENDLESS = "^(a+)+$"
TAKEN = "a" * 60 + "!"


@pytest.mark.parametrize(
    ("schema", "output", "flaw"),
    [
        ({"properties": {"x": {"pattern": ENDLESS, "type": "string"}}}, {"x": TAKEN}, None),
        ({"patternProperties": {ENDLESS: {}}, "additionalProperties": False}, {TAKEN: 1}, None),
        ({"allOf": [{"patternProperties": {ENDLESS: {}}}], "unevaluatedProperties": False}, {TAKEN: 1}, None),
        ({"properties": {"x": {"$schema": DIALECT, "pattern": ENDLESS}}}, {"x": TAKEN}, None),
        ({"$schema": DIALECT, "$ref": "#/$defs/x", "$defs": {"x": {"$schema": DIALECT, "pattern": ENDLESS}}}, TAKEN, None),
        ({"$ref": DIALECT}, {"type": [{"n": n} for n in range(1000)]}, "it is too much to be checked (over 20000 steps)"),
        ({"additionalProperties": False}, {"x": 1}, "$: Additional properties are not allowed ('x' was unexpected)"),
        (REFERENCES, {}, "it is too much to be checked (over 20000 steps)"),
        ({"$dynamicRef": "#/$defs/0", "$defs": REFERENCES["$defs"]}, {}, "it is too much to be checked (over 20000 steps)"),
        ({"uniqueItems": True}, [{"n": n} for n in range(1000)], "it is too much to be checked (over 20000 steps)"),
        ({"uniqueItems": True}, [str(n) for n in range(1000)], None),
        ({"uniqueItems": True}, [{}, {}], "$: [{}, {}] has non-unique elements"),
        ({"items": {}}, [1] * 10_000, "it is too much to be checked (over 20000 steps)"),
        ({"items": {"allOf": [{"minimum": 0}] * 100}}, [1] * 1000, "it is too much to be checked (over 20000 steps)"),
        ({"anyOf": [{"type": "null"}] * 100}, ["word"] * 1000, "it is too much to be checked (over 20000 steps)"),
    ],
)  # fmt: skip
def test_no_schema_and_no_output_of_a_server_takes_for_ever(
    schema: dict[str, Any], output: Any, flaw: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check runs on the event loop: a server that could make it hang would hold up every other."""
    check = checker(schema)
    monkeypatch.setattr(_output, "MAX_STEPS", 20_000)
    assert check(output) == flaw


@pytest.mark.parametrize(
    "schema", [{"type": [{"n": n} for n in range(1000)]}, {"properties": {str(n): {} for n in range(1000)}}]
)
def test_no_schema_takes_for_ever_to_be_looked_at(
    schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above: whether a schema is one is checked by the same rules."""
    monkeypatch.setattr(_output, "MAX_STEPS", 20_000)
    assert checker(schema)({}) == "the schema is too much to be looked at (over 20000 steps)"


def test_an_ordinary_table_is_checked_to_its_end() -> None:
    row = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"],
    }
    check = checker({"properties": {"rows": {"items": {"$ref": "#/$defs/row"}}}, "$defs": {"row": row}})
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


@pytest.mark.parametrize(("schema", "output"), HOSTILE)
def test_whatever_the_libraries_raise_a_check_returns_a_sentence(schema: dict[str, Any], output: Any) -> None:
    found = checker(schema)(output)
    assert found is not None
    assert found.startswith("the schema cannot be used (")


def test_a_pattern_that_python_cannot_compile_is_not_compiled() -> None:
    assert checker({"pattern": "a{99999999999999999999}"})("a") is None


@pytest.mark.parametrize(
    "exception", [OverflowError, ValueError, TypeError, AttributeError, MemoryError, KeyError]
)
def test_an_exception_while_a_schema_is_looked_at_is_a_sentence_too(
    exception: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise exception

    monkeypatch.setattr(_output, "_resolver", fail)
    assert checker({})({}) == f"the schema cannot be used ({exception.__name__})"


# --- time -------------------------------------------------------------------------------------------------------------


class Ticking:
    """A clock that goes on by a second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.mark.parametrize(
    ("schema", "output"),
    [
        ({"items": {"minimum": 0}}, [1] * 100),  # rules that are not counted
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
    assert check(output) == "it takes too long to be checked (over 20 s)"
    assert clock.now == 1 + 21  # begun at 1, ended at the first reading behind 21
    assert checker({"allOf": [{"type": "object"}] * 100}, 20)({}) == (
        "the schema takes too long to be looked at (over 20 s)"
    )


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
def test_a_schema_is_searched_for_names_once_whatever_refers_to_them(
    item: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    crawled = []
    crawl = Registry.crawl

    def count(registry: Any) -> Any:
        crawled.append(registry)
        return crawl(registry)

    monkeypatch.setattr(Registry, "crawl", count)
    check = checker({**ANCHORED, "items": item})
    assert len(crawled) == 1
    for _ in range(3):
        assert check([1] * 200) is None
        assert check([1] * 200 + ["x"]) == "$[200]: 'x' is not of type 'integer'"
    assert len(crawled) == 1
    checker({"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {}}})([1] * 200)
    assert len(crawled) == 1  # there is nothing to search for
