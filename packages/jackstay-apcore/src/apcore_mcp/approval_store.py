"""Approval stores, at the path that they have in apcore-mcp."""

from apcore_mcp.compat.approvals import (
    ApprovalStore,
    InMemoryApprovalStore,
)

__all__ = ["ApprovalStore", "InMemoryApprovalStore"]
