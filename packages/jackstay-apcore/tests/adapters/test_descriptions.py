"""Descriptions of modules for models."""

from types import SimpleNamespace
from typing import Any

from apcore import ModuleAnnotations

from apcore_mcp.adapters.descriptions import describe, to_markdown


def test_guidance_and_intent_words_follow_the_description(descriptor: Any) -> None:
    metadata = {"x-when-to-use": "For shouting", "x-workflow-hints": ["first", "then"], "x-other": "no"}
    found = descriptor(description="Shouts", metadata=metadata)
    assert describe(found, {"guidance": "Be brief"}) == (
        "Shouts\n\nGuidance: Be brief\n\nWhen To Use: For shouting\nWorkflow Hints: ['first', 'then']"
    )
    assert describe(found, {"description": "For MCP"}, is_rich=True).startswith("For MCP\n\nWhen To Use")
    assert describe(descriptor(description="Plain", metadata={}), {}) == "Plain"


def test_markdown_has_annotations_schemas_and_examples(descriptor: Any) -> None:
    example = SimpleNamespace(title="small", inputs={"a": 1}, output={"b": 2})
    found = descriptor(
        {"type": "object"},
        {"type": "object"},
        description="Adds",
        name="Add",
        annotations=ModuleAnnotations(readonly=True),
        examples=[example],
        metadata={},
    )
    text = to_markdown(found)
    assert text.startswith("# Add\n\nAdds\n\n| Annotation | Value |\n|---|---|\n| readonly | true |\n")
    assert "## Parameters\n\n```json" in text
    assert "## Returns\n\n```json" in text
    assert "## Example: small" in text
    assert describe(found, {}, is_rich=True) == text
