"""Errors as dicts with `errorType`, for apcore's registry of error formatters and for programs that read them."""

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    ErrorFormatterDuplicateError,
    ErrorFormatterRegistry,
    ModuleError,
    ModuleExecuteError,
)
from apcore.cancel import ExecutionCancelledError  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.compat.constants import ERROR_CODES

# The message of an internal error.
INTERNAL: Final = "Internal error occurred"
# The message of a call whose cancel token was set.
CANCELLED: Final = "Execution was cancelled"

logger = logging.getLogger("apcore_mcp.adapters.errors")

# The fields of an error for the caller, with their names in the dict.
_GUIDANCE: Final = {
    "retryable": "retryable",
    "ai_guidance": "aiGuidance",
    "user_fixable": "userFixable",
    "suggestion": "suggestion",
}

# Codes whose message and details are not for the caller, with what is shown instead.
_HIDDEN: Final = {
    "ACL_DENIED": "Access denied",
    **dict.fromkeys(
        (
            "CALL_DEPTH_EXCEEDED",
            "CIRCULAR_CALL",
            "CALL_FREQUENCY_EXCEEDED",
            "GENERAL_INTERNAL_ERROR",
        ),
        INTERNAL,
    ),
}

# Codes of errors that pass by themselves.
_RETRYABLE: Final = frozenset({"TASK_LIMIT_EXCEEDED", "CIRCUIT_BREAKER_OPEN", "APPROVAL_TIMEOUT"})

# The messages of some codes, from the details or the message of the error.
_MESSAGES: Final[Mapping[str, Callable[[Mapping[str, Any], str], str]]] = {
    "SCHEMA_VALIDATION_ERROR": lambda details, _: _describe_fields(details.get("errors")),
    "CONFIG_ENV_MAP_CONFLICT": lambda details, _: f"Config env map conflict: {details.get('env_var', 'unknown')}",
    "PIPELINE_ABORT": lambda details, _: f"Pipeline aborted at step: {details.get('step', 'unknown')}",
    "STEP_NOT_FOUND": lambda _, message: f"Pipeline step not found: {message}",
    "VERSION_INCOMPATIBLE": lambda _, message: f"Version incompatible: {message}",
}

# What a model can do when a circuit breaker of apcore is open, and the breaker has no advice of its own.
CIRCUIT_BREAKER_RECOVERY_GUIDANCE: Final = (
    # The text of apcore-mcp, which programs compare.
    "Module's circuit breaker is OPEN — repeated failures have tripped the breaker. Wait until the recovery window"
    " elapses, then retry; the breaker will move to HALF_OPEN and accept a trial call."
)


# The message of apcore for an exception of a module, which contains that of the exception.
_WRAPPED: Final = re.compile(r"Module '.*' raised \w+")


class MCPErrorFormatter:
    """Formats errors of apcore as dicts with `isError`, `errorType`, `message`, `details` and guidance."""

    def format(self, error: Any, context: object = None) -> dict[str, Any]:  # noqa: ARG002  # apcore's
        """Return the dict of an error; see `internal_error_response` for an exception that is not of apcore."""
        if isinstance(error, ExecutionCancelledError):
            return {**_response(ERROR_CODES["EXECUTION_CANCELLED"], CANCELLED), "retryable": True}
        if not is_module_error(error):
            return internal_error_response()
        code = str(error.code)
        if code in _HIDDEN or is_wrapped_exception(error):
            return _response(code, _HIDDEN.get(code, INTERNAL))
        details = error.details if isinstance(error.details, dict) else None
        known = "PIPELINE_ABORT" if type(error).__name__ == "PipelineAbortError" else code
        message = str(error.message)
        found = _response(code, _MESSAGES[known](details or {}, message) if known in _MESSAGES else message)
        found["details"] = _narrow(code, details)
        if code in _RETRYABLE:
            found["retryable"] = True
        for field, name in _GUIDANCE.items():
            value = getattr(error, field, None)
            if value is not None:
                found.setdefault(name, value)
        if code == "CIRCUIT_BREAKER_OPEN":
            found.setdefault("aiGuidance", CIRCUIT_BREAKER_RECOVERY_GUIDANCE)
        return found


def is_module_error(error: object) -> bool:
    """Return whether an object is an error of apcore, or has its `code`, `message` and `details`."""
    return isinstance(error, ModuleError) or all(hasattr(error, name) for name in ("code", "message", "details"))


def is_wrapped_exception(error: object) -> bool:
    """Return whether apcore made this error of another exception, whose message it contains."""
    if not isinstance(error, ModuleExecuteError):
        return False
    return error.cause is not None or _WRAPPED.match(str(error.message)) is not None


def describe_with_guidance(error: Any) -> str:
    """Return the message of an error and its guidance as JSON, as apcore-mcp writes them in a result."""
    found = MCPErrorFormatter().format(error)
    guidance = {name: found[name] for name in _GUIDANCE.values() if name in found}
    return f"{found['message']}\n\n{json.dumps(guidance)}" if guidance else str(found["message"])


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


def _narrow(code: str, details: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the details that are for the caller."""
    if code == "APPROVAL_PENDING":
        return {"approvalId": details["approval_id"]} if details and "approval_id" in details else None
    if code == "APPROVAL_DENIED" and details and details.get("reason"):
        return {"reason": details["reason"]}
    return details


def _describe_fields(rows: object) -> str:
    title = "Schema validation failed"
    if not isinstance(rows, list) or not rows:
        return title
    lines = []
    for row in rows:
        fields = row if isinstance(row, dict) else {"field": "unknown", "message": str(row)}
        path = fields.get("path")
        place = (path or "<root>") if isinstance(path, str) else fields.get("field", "unknown")
        lines.append(f"  {place}: {fields.get('message', 'invalid')}")
    return "\n".join((f"{title}:", *lines))


__all__ = [
    "CANCELLED",
    "CIRCUIT_BREAKER_RECOVERY_GUIDANCE",
    "INTERNAL",
    "MCPErrorFormatter",
    "McpErrorFormatter",
    "describe_with_guidance",
    "internal_error_response",
    "is_module_error",
    "is_wrapped_exception",
    "register_mcp_formatter",
]
