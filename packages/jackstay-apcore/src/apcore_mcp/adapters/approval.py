"""Approval handlers, at the path that they have in apcore-mcp."""

from apcore_mcp.compat.approvals import (
    ElicitationApprovalHandler,
    StorageBackedApprovalHandler,
)

__all__ = ["ElicitationApprovalHandler", "StorageBackedApprovalHandler"]
