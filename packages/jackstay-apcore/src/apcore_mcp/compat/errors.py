"""Errors as dicts with `errorType`, for apcore's registry of error formatters and for programs that read them."""

import logging
from typing import Any, Final

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    ErrorFormatterDuplicateError,
    ErrorFormatterRegistry,
    ModuleError,
)
from apcore.cancel import ExecutionCancelledError  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.adapters.errors import INTERNAL, ErrorMapper
from apcore_mcp.compat.constants import ERROR_CODES

logger = logging.getLogger("apcore_mcp.adapters.errors")

# The fields of an error for the caller, with their names in the dict.
_GUIDANCE: Final = {
    "retryable": "retryable",
    "ai_guidance": "aiGuidance",
    "user_fixable": "userFixable",
    "suggestion": "suggestion",
}

# Codes whose details are not for the caller.
_PRIVATE: Final = frozenset({"ACL_DENIED", "CALL_DEPTH_EXCEEDED", "CIRCULAR_CALL", "CALL_FREQUENCY_EXCEEDED"})

# Codes whose message is not for the caller either.
_INTERNAL: Final = frozenset({"MODULE_EXECUTE_ERROR", "GENERAL_INTERNAL_ERROR"})


class MCPErrorFormatter:
    """Formats errors of apcore as dicts with `isError`, `errorType`, `message`, `details` and guidance."""

    def __init__(self) -> None:
        self._mapper = ErrorMapper()

    def format(self, error: BaseException, context: object = None) -> dict[str, Any]:  # noqa: ARG002  # apcore's
        """Return the dict of an error; see `internal_error_response` for an exception that is not of apcore."""
        if isinstance(error, ExecutionCancelledError):
            return {**_response(ERROR_CODES["EXECUTION_CANCELLED"], "Execution was cancelled"), "retryable": True}
        if not isinstance(error, ModuleError):
            return internal_error_response()
        if error.code in _INTERNAL or error.code in _PRIVATE:
            return _response(error.code, "Access denied" if error.code == "ACL_DENIED" else INTERNAL)
        text = self._mapper.describe(error)
        found = _response(error.code, error.message if text.startswith("Module error: ") else text)
        found["details"] = _details(error)
        values = {name: getattr(error, field, None) for field, name in _GUIDANCE.items()}
        return {**found, **{name: value for name, value in values.items() if value is not None}}


# The name by PEP 8.
McpErrorFormatter = MCPErrorFormatter


def internal_error_response() -> dict[str, Any]:
    """Return the dict of an exception whose message is not for the caller."""
    return _response(ERROR_CODES["GENERAL_INTERNAL_ERROR"], INTERNAL)


def register_mcp_formatter() -> None:
    """Register the formatter `mcp` in apcore. Further calls do nothing."""
    try:
        ErrorFormatterRegistry.register("mcp", MCPErrorFormatter())
    except ErrorFormatterDuplicateError:
        logger.debug("the error formatter mcp is registered already")


def _response(code: str, message: str) -> dict[str, Any]:
    return {"isError": True, "errorType": code, "message": message, "details": None}


def _details(error: ModuleError) -> dict[str, Any] | None:
    details = error.details if isinstance(error.details, dict) else None
    if error.code == "APPROVAL_PENDING":
        return {"approvalId": details["approval_id"]} if details and "approval_id" in details else None
    return details


__all__ = ["MCPErrorFormatter", "McpErrorFormatter", "internal_error_response", "register_mcp_formatter"]
