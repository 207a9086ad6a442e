"""`AsyncTaskBridge`, at the path that it has in apcore-mcp."""

from apcore_mcp.compat.tasks import (
    META_TOOL_NAMES,
    RESERVED_PREFIX,
    AsyncTaskBridge,
)

__all__ = ["META_TOOL_NAMES", "RESERVED_PREFIX", "AsyncTaskBridge"]
