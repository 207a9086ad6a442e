"""The tools' schemas against the reference's, member by member, and the texts that a model reads."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from procontext.tools import INSTRUCTIONS, TOOL_ROWS

ROWS = {row.name: row for row in TOOL_ROWS}

# Reference 2.1, 3.1, 4.1: the members with what bounds them, and what is required.
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

# Reference 2.2, 3.2, 4.2.
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


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_schema_has_what_the_reference_says(name: str) -> None:
    """Reference 2.1, 3.1, 4.1; what is ours beside it is optional."""
    members, required = INPUTS[name]
    schema = ROWS[name].input_schema
    assert schema["required"] == required
    for member, expected in members.items():
        found = dict(schema["properties"][member])
        assert found.pop("description")
        assert found == expected


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_schema_requires_what_the_reference_says(name: str) -> None:
    """Reference 2.2, 3.2, 4.2."""
    schema = ROWS[name].output_schema
    assert schema["required"] == OUTPUTS[name]
    assert set(OUTPUTS[name]) <= set(schema["properties"])


@pytest.mark.parametrize("row", TOOL_ROWS, ids=lambda row: row.name)
def test_every_schema_is_valid_and_every_member_explained(row: Any) -> None:
    """JSON Schema 2020-12; a model reads the descriptions."""
    for schema in (row.input_schema, row.output_schema):
        Draft202012Validator.check_schema(schema)
        assert all(member.get("description") for member in schema["properties"].values())
    assert len(row.description) < 300


def test_the_instructions_are_short_and_name_every_tool() -> None:
    """Under 2,000 characters."""
    assert len(INSTRUCTIONS) < 2000
    assert all(row.name in INSTRUCTIONS for row in TOOL_ROWS)


def test_the_descriptions_of_the_reference_are_word_for_word() -> None:
    """Reference 2.1, 3.1, 4.1."""
    assert ROWS["resolve_library"].description == (
        "Resolve a library name, package name, or alias to a known documentation source. Returns zero or more matches."
        " Always the first step — establishes the library_id used by subsequent tools."
    )
    assert ROWS["get_library_docs"].description.startswith(
        "Fetch the llms.txt table of contents for a library."
    )
    assert ROWS["read_page"].description.endswith("then call again with offset to jump directly to them.")
