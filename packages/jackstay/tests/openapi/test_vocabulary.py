"""Keywords of JSON Schema: shapes, patterns and types."""

from typing import Any

import pytest

from jackstay.openapi._vocabulary import CHECKS, SCHEMA, SCHEMA_LIST, SCHEMA_MAP, is_pattern, types_of


def test_every_keyword_is_in_one_table() -> None:
    tables = [SCHEMA, SCHEMA_LIST, SCHEMA_MAP, frozenset(CHECKS)]
    assert sum(map(len, tables)) == len(frozenset().union(*tables))


@pytest.mark.parametrize(("keyword", "good", "bad"), [
    ("minLength", 3.0, 3.5), ("minimum", 1, True), ("multipleOf", 0.1, -1), ("type", ["null", "string"], "file"),
    ("required", [], [1]), ("deprecated", False, 0), ("examples", [1], {}), ("dependentRequired", {}, []),
])  # fmt: skip
def test_shapes(keyword: str, good: Any, bad: Any) -> None:
    assert CHECKS[keyword](good) == ""
    assert CHECKS[keyword](bad)


def test_patterns_that_python_cannot_compile() -> None:
    assert is_pattern(r"^\d+$")
    assert not any(map(is_pattern, (r"\p{L}", "(?<name>a)", "a{99999999999}")))


def test_types() -> None:
    assert types_of([1, 2.5]) == "number"
    assert types_of([True, None]) == ["boolean", "null"]
