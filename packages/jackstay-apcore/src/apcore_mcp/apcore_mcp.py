"""`APCoreMCP`, at the path that it has in apcore-mcp."""

from apcore_mcp.compat.app import (
    APCoreMCP,
)

__all__ = ["APCoreMCP"]
