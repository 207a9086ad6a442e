"""`render_module_markdown` of apcore-mcp. It needs no other package here."""

import logging
from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import Any

from apcore_mcp.adapters.descriptions import to_markdown

logger = logging.getLogger("apcore_mcp.markdown")


@cache
def is_available() -> bool:
    """Return True: the renderer is part of this package."""
    return True


def render_module_markdown(descriptor: Any, *, display: bool = True) -> str | None:  # noqa: ARG001  # of apcore-mcp
    """Return a module as Markdown, or None if its descriptor cannot be rendered."""
    try:
        return to_markdown(descriptor)
    except Exception:  # as documented for apcore-mcp
        logger.warning("cannot render %s", getattr(descriptor, "module_id", "a module"), exc_info=True)
        return None


def descriptor_to_scanned_module(descriptor: Any) -> Any:
    """Return a module as a `ScannedModule` of apcore-toolkit. Raises: ImportError without that package."""
    scanned = import_module("apcore_toolkit").ScannedModule  # not a dependency
    values = {
        "module_id": descriptor.module_id,
        "description": getattr(descriptor, "description", None) or "",
        "input_schema": getattr(descriptor, "input_schema", None) or {},
        "output_schema": getattr(descriptor, "output_schema", None) or {},
        "tags": list(getattr(descriptor, "tags", None) or ()),
        "target": getattr(descriptor, "target", None) or "",
        "version": getattr(descriptor, "version", None) or "1.0.0",
        "annotations": getattr(descriptor, "annotations", None),
        "documentation": getattr(descriptor, "documentation", None),
        "examples": list(getattr(descriptor, "examples", None) or ()),
        "metadata": dict(getattr(descriptor, "metadata", None) or {}),
        "display": getattr(descriptor, "display", None),
        "suggested_alias": None,
        "warnings": [],
    }
    # Not every version has all of these fields.
    accepted = {field.name for field in fields(scanned)}
    return scanned(**{name: value for name, value in values.items() if name in accepted})


__all__ = ["descriptor_to_scanned_module", "is_available", "render_module_markdown"]
