"""Constants, at the path that they have in apcore-mcp."""

from apcore_mcp.compat.constants import (
    APCORE_EVENTS,
    ERROR_CODES,
    MODULE_ID_PATTERN,
    REGISTRY_EVENTS,
)

__all__ = ["APCORE_EVENTS", "ERROR_CODES", "MODULE_ID_PATTERN", "REGISTRY_EVENTS"]
