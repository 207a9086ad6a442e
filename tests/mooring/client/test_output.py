"""Whether output is what its schema says; and what is said of schemas that are no use."""

from typing import Any

import pytest

from mooring.client import _output
from mooring.client._output import MAX_SCHEMA_BYTES, checker

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
        ({"pattern": "("}, "x", "the schema itself is not valid"),
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
