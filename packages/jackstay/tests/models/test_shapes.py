"""Tool definitions of each API."""

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
    ("gemini", False, {**COMMON, "parametersJsonSchema": SCHEMA}),
    ("gemini", True, {**COMMON, "parametersJsonSchema": SCHEMA}),
]


def test_a_tool_has_the_shape_of_the_api() -> None:
    for shape, strict, expected in ROWS:
        assert definition(shape, "add", "Adds", SCHEMA, strict=strict) == expected


def test_every_shape_has_a_row() -> None:
    assert {row[0] for row in ROWS} == set(SHAPES)


def test_an_unknown_shape_is_refused_with_the_valid_ones() -> None:
    shapes = "'openai', 'openai-responses', 'anthropic', 'gemini'"
    with pytest.raises(UsageError, match=f"shape must be one of {shapes}, got 'soap'"):
        definition("soap", "add", "", SCHEMA)
