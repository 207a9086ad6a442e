"""`AuthMiddleware`, at the path that it has in apcore-mcp."""

from apcore_mcp.compat.authentication import (
    AuthMiddleware,
    auth_identity_var,
    extract_headers,
    get_current_identity,
)

__all__ = ["AuthMiddleware", "auth_identity_var", "extract_headers", "get_current_identity"]
