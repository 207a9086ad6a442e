"""`APCoreMCP`, at the path that it has in apcore-mcp."""

from apcore_mcp.compat.app import (
    APCoreMCP,
)
from apcore_mcp.server.management import management_surfaces as _compute_management_surfaces  # noqa: F401
from apcore_mcp.server.management import warn_of_open_control as _warn_if_unprotected_control_surface  # noqa: F401
from apcore_mcp.server.management import warn_of_useless_rules as _warn_acl_rules_that_protect_nothing  # noqa: F401

__all__ = ["APCoreMCP"]
