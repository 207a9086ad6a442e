"""`build_acl_from_config`, at the path that it has in apcore-mcp."""

from apcore_mcp.config import (
    build_acl_from_config,
)

__all__ = ["build_acl_from_config"]
