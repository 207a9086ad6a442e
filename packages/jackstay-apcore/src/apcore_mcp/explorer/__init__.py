"""The explorer of apcore-mcp, which is the inspector here."""

from apcore_mcp.compat.explorer import (
    create_explorer_mount,
    create_usage_routes,
)

__all__ = ["create_explorer_mount", "create_usage_routes"]
