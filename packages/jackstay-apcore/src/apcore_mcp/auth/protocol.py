"""`Authenticator`, at the path that it has in apcore-mcp."""

from apcore_mcp.compat.authentication import (
    Authenticator,
    call_authenticator,
)

__all__ = ["Authenticator", "call_authenticator"]
