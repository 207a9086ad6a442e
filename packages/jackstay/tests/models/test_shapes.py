"""Tools as each API writes them."""

import pytest

from jackstay.errors import UsageError
from jackstay.models import SHAPES, definition

SCHEMA = {"type": "object", "properties": {}}
COMMON = {"name": "add", "description": "Adds"}

# (shape, strict, the whole definition)
ROWS = [
    ("openai", False, {"type": "function", "function": {**COMMON, "parameters": SCHEMA}}),
    ("openai", True, {"type": "function", "function": {**COMMON, "parameters": SCHEMA, "strict": True}}),
    ("openai-responses", False, {"type": "function", **COMMON, "parameters": SCHEMA, "strict": False}),
    ("openai-responses", True, {"type": "function", **COMMON, "parameters": SCHEMA, "strict": True}),
    ("anthropic", False, {**COMMON, "input_schema": SCHEMA}),
    ("anthropic", True, {**COMMON, "input_schema": SCHEMA, "strict": True}),
]


@pytest.mark.parametrize(("shape", "strict", "whole"), ROWS)
def test_a_tool_in_the_shape_of_an_api(shape: str, strict: bool, whole: object) -> None:
    assert definition(shape, "add", "Adds", SCHEMA, strict=strict) == whole


def test_every_shape_has_a_row() -> None:
    assert {row[0] for row in ROWS} == set(SHAPES)


def test_a_shape_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        UsageError, match="shape must be one of openai, openai-responses, anthropic, not 'soap'"
    ):
        definition("soap", "add", "", SCHEMA)
