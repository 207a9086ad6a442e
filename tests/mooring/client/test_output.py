"""Whether output is what its schema says; and what is said of schemas that are no use."""

from typing import Any

import pytest

from mooring.client._output import MAX_SCHEMA_BYTES, checker

DEEP: dict[str, Any] = {}
for _ in range(3000):
    DEEP = {"not": DEEP}


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
        ({"$ref": "#"}, {}, "the schema cannot be used (RecursionError)"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, {}, "the schema is over 262144 bytes, and was not looked at"),
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
