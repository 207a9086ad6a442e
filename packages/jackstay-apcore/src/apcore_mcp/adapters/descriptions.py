"""Descriptions of modules for models: guidance of the author, intent words, and Markdown with schemas and examples."""

import json
from collections.abc import Mapping
from typing import Any, Final

from apcore_mcp.text import to_utf8

# Metadata for models, appended to a description in this order; `x-when-to-use` is titled "When To Use".
INTENT_KEYS: Final = ("x-when-to-use", "x-when-not-to-use", "x-common-mistakes", "x-workflow-hints")


def describe(descriptor: Any, display: Mapping[str, Any], *, is_rich: bool = False) -> str:
    """Return the description of a module. `is_rich`: as Markdown, unless the author wrote one for MCP (`display`)."""
    text = display.get("description")
    if not text:
        text = to_markdown(descriptor) if is_rich else descriptor.description
    parts = [str(text or "")]
    if display.get("guidance"):
        parts.append(f"Guidance: {display['guidance']}")
    metadata: Any = getattr(descriptor, "metadata", None) or {}
    intents = [
        f"{key[2:].replace('-', ' ').title()}: {metadata[key]}"
        for key in INTENT_KEYS
        if isinstance(metadata, Mapping) and metadata.get(key)
    ]
    if intents:
        parts.append("\n".join(intents))
    return to_utf8("\n\n".join(parts))


def to_markdown(descriptor: Any) -> str:
    """Return a module as Markdown: its title, description, tags, annotations, schemas and examples."""
    parts = [f"# {descriptor.name or descriptor.module_id}", descriptor.description or ""]
    if getattr(descriptor, "tags", None):
        parts.append(f"Tags: {', '.join(descriptor.tags)}")
    declared = _declared(getattr(descriptor, "annotations", None))
    if declared:
        parts.append(
            "\n".join(["| Annotation | Value |", "|---|---|", *(f"| {name} | {value} |" for name, value in declared)])
        )
    for title, schema in (("Parameters", descriptor.input_schema), ("Returns", descriptor.output_schema)):
        if schema:
            parts.append(f"## {title}\n\n{_json(schema)}")
    parts += [
        f"## Example: {example.title}\n\n{_json({'inputs': example.inputs, 'output': example.output})}"
        for example in getattr(descriptor, "examples", None) or ()
    ]
    return "\n\n".join(part for part in parts if part)


def _declared(annotations: Any) -> list[tuple[str, str]]:
    names = ("readonly", "destructive", "idempotent", "requires_approval", "open_world", "streaming", "cacheable")
    return [] if annotations is None else [(name, str(getattr(annotations, name, False)).lower()) for name in names]


def _json(value: Any) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False, default=str)}\n```"


__all__ = ["INTENT_KEYS", "describe", "to_markdown"]
