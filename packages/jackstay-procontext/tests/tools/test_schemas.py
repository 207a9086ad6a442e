"""The schemas, descriptions and instructions of the tools."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from procontext.tools import INSTRUCTIONS, TOOL_ROWS

ROWS = {row.name: row for row in TOOL_ROWS}

# The required members, with their constraints. Further members must be optional.
INPUTS: dict[str, tuple[dict[str, dict[str, Any]], list[str]]] = {
    "resolve_library": ({"query": {"type": "string", "minLength": 1, "maxLength": 500}}, ["query"]),
    "get_library_docs": (
        {"library_id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"}},
        ["library_id"],
    ),
    "read_page": (
        {
            "url": {"type": "string", "maxLength": 2048},
            "offset": {"type": "integer", "minimum": 1, "default": 1},
            "limit": {"type": "integer", "minimum": 1, "default": 2000},
        },
        ["url"],
    ),
}

OUTPUTS = {
    "resolve_library": ["matches"],
    "get_library_docs": ["library_id", "name", "content", "cached", "cached_at", "stale"],
    "read_page": [
        "url",
        "headings",
        "total_lines",
        "offset",
        "limit",
        "content",
        "cached",
        "cached_at",
        "stale",
    ],
}


def test_input_schemas(subtests: pytest.Subtests) -> None:
    for name, (members, required) in INPUTS.items():
        with subtests.test(name=name):
            schema = ROWS[name].input_schema
            assert schema["required"] == required
            for member, expected in members.items():
                found = dict(schema["properties"][member])
                assert found.pop("description")
                assert found == expected


def test_output_schemas(subtests: pytest.Subtests) -> None:
    for name, required in OUTPUTS.items():
        with subtests.test(name=name):
            schema = ROWS[name].output_schema
            assert schema["required"] == required
            assert set(required) <= set(schema["properties"])


def test_schemas_are_valid_and_described(subtests: pytest.Subtests) -> None:
    """The schemas conform to JSON Schema 2020-12."""
    for row in TOOL_ROWS:
        with subtests.test(row=row):
            for schema in (row.input_schema, row.output_schema):
                Draft202012Validator.check_schema(schema)
                assert all(member.get("description") for member in schema["properties"].values())
            assert len(row.description) < 300


def test_instructions() -> None:
    assert len(INSTRUCTIONS) < 2000
    assert all(row.name in INSTRUCTIONS for row in TOOL_ROWS)


def test_descriptions() -> None:
    assert ROWS["resolve_library"].description == (
        "Resolve a library name, package name, or alias to a known documentation source. Returns zero or more matches."
        " Always the first step — establishes the library_id used by subsequent tools."
    )
    assert ROWS["get_library_docs"].description.startswith("Fetch the llms.txt table of contents for a library.")
    assert ROWS["read_page"].description.endswith("then call again with offset to jump directly to them.")
