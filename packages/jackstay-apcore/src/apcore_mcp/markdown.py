"""Modules as Markdown, at the path that it has in apcore-mcp."""

from apcore_mcp.compat.markdown import (
    is_available,
    render_module_markdown,
)

__all__ = ["is_available", "render_module_markdown"]
