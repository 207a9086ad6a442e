"""Modules as Markdown, at the path that it has in apcore-mcp."""

from apcore_mcp.compat.markdown import (
    descriptor_to_scanned_module,
    is_available,
    render_module_markdown,
)

__all__ = ["descriptor_to_scanned_module", "is_available", "render_module_markdown"]
