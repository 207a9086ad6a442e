"""`render_module_markdown` of apcore-mcp. It needs no other package here."""

import logging
from typing import Any

from apcore_mcp.adapters.descriptions import to_markdown

logger = logging.getLogger("apcore_mcp.markdown")


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


__all__ = ["is_available", "render_module_markdown"]
