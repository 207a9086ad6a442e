"""`MCPServer`, at the path that it has in apcore-mcp."""

from apcore_mcp.background import (
    MCPServer,
)

__all__ = ["MCPServer"]
