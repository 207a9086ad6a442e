"""`ApprovalBridge`, at the path that it has in apcore-mcp."""

from apcore_mcp.compat.approvals import (
    APPROVAL_META_TOOL_NAMES,
    ApprovalBridge,
)

__all__ = ["APPROVAL_META_TOOL_NAMES", "ApprovalBridge"]
