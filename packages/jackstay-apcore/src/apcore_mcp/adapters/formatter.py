"""The error formatter, at the path that it has in apcore-mcp."""

from apcore_mcp.compat.errors import (
    MCPErrorFormatter,
    McpErrorFormatter,
    register_mcp_formatter,
)

__all__ = ["MCPErrorFormatter", "McpErrorFormatter", "register_mcp_formatter"]
