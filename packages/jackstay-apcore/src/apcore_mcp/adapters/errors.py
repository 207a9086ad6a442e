"""Errors of apcore as MCP tool results with messages that a client may read.

The messages contain only what the caller can correct. Everything else (callers, ACL rules, exceptions of modules) is
logged. apcore wraps an exception of a module in `ModuleExecuteError` with the original message, so such an error is an
internal one, like any other exception.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    ACLDeniedError,
    ApprovalPendingError,
    CallDepthExceededError,
    CallFrequencyExceededError,
    CircularCallError,
    ErrorCodes,
    InvalidInputError,
    ModuleError,
    ModuleNotFoundError,
    ModuleTimeoutError,
    SchemaValidationError,
)
from apcore.cancel import ExecutionCancelledError  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.compat.errors import (
    CANCELLED,
    CIRCUIT_BREAKER_RECOVERY_GUIDANCE,
    INTERNAL,
    MCPErrorFormatter,
    describe_with_guidance,
    internal_error_response,
    is_module_error,
    is_wrapped_exception,
)
from apcore_mcp.compat.results import ErrorResult
from apcore_mcp.secrets import hide
from apcore_mcp.tracing import traced
from jackstay.types import CallToolResult, TextContent

_logger = traced("apcore_mcp.adapters.errors")

# The first line for invalid input.
INVALID: Final = "Input validation failed:"

# apcore's code for a chunk of a stream that is not an object.
BAD_CHUNK: Final = "STREAM_CHUNK_NOT_OBJECT"


# The key in `_meta` of a result.
META_KEY: Final = "apcore"

# The facts of an author's error that are shown as text, with their titles.
_FACTS: Final = {
    "approvalId": "Approval id",
    "message": "Message",
    "aiGuidance": "Guidance",
    "suggestion": "Suggestion",
}

# The guidance of an error in `_meta`.
_GUIDANCE: Final = ("aiGuidance", "suggestion", "retryable", "userFixable")

_APCORE_CODES: Final = frozenset(value for name, value in vars(ErrorCodes).items() if name.isupper())


class ErrorMapper:
    """Converts exceptions to tool results. A subclass may override `describe`."""

    def to_mcp_error(self, error: BaseException) -> ErrorResult:
        """Return a result with `isError`. An internal error is logged with its traceback.

        It can be read as a dict as well, with `errorType`, `message` and so on.

        What the author of a module wrote for the caller (message, guidance, suggestion) is a second block, and in
        `_meta`.
        """
        text = self.describe(error)
        facts = _facts_of(error) if text.startswith("Module error: ") else {}
        lines = [f"{title}: {hide(str(facts[key]))}" for key, title in _FACTS.items() if key in facts]
        meta = {key: hide(value) if isinstance(value, str) else value for key, value in facts.items()}
        made = self._make_error_result(text, "\n".join(lines), meta)
        result = ErrorResult(made.content, is_error=True, meta=made.meta)
        result.__dict__["error"] = error
        if type(self).describe is ErrorMapper.describe and text != INTERNAL:
            result.__dict__["direct_text"] = hide(describe_with_guidance(error))
        return result

    def format(self, error: BaseException, context: object = None) -> dict[str, Any]:
        """Return the error as a dict, for apcore's registry of error formatters."""
        return MCPErrorFormatter().format(error, context)

    def to_mcp_error_any(self, error: Any) -> dict[str, Any]:
        """As `format`, for any object."""
        return self.format(error)

    def describe(self, error: BaseException) -> str:
        """Return only the message."""
        try:
            for kind, code, format_message in _DESCRIPTIONS:
                if isinstance(error, kind) or (not isinstance(error, ModuleError) and _code_of(error) == code):
                    return format_message(error)
            return self._sanitize_message(error)
        except Exception:  # a failure to describe an error must not be raised
            _logger.exception("cannot describe an error of type %s", type(error).__name__)
            return INTERNAL

    def _sanitize_message(self, error: BaseException) -> str:
        code = _code_of(error)
        if isinstance(error, ExecutionCancelledError):
            _logger.info("%s", error.message)
            return CANCELLED
        if code is not None and not is_wrapped_exception(error):
            _logger.warning("module error %s", code, exc_info=error)
            return f"Module error: {code}"
        cause = error.cause if isinstance(error, ModuleError) and error.cause is not None else error
        _logger.error("a module failed: %s", type(cause).__name__, exc_info=cause)
        return INTERNAL

    def _format_validation_errors(self, error: SchemaValidationError) -> str:
        return _describe_invalid(error)

    def _make_error_result(
        self, message: str, details: str = "", meta: Mapping[str, Any] | None = None
    ) -> CallToolResult:
        # The message may contain a lone surrogate.
        texts = [hide(text).encode(errors="replace").decode() for text in (message, details) if text]
        content = [TextContent(text=text) for text in texts]
        if not meta:
            return CallToolResult(content=content, is_error=True)
        return CallToolResult(content=content, is_error=True, meta={META_KEY: dict(meta)})


def _facts_of(error: BaseException) -> dict[str, Any]:
    """Return what the author of a module wrote in an error, not what apcore wrote for one of its own codes."""
    if isinstance(error, ApprovalPendingError) and error.approval_id is not None:
        advice = "after it was approved, call again with approvalId in _meta"
        return {"code": error.code, "approvalId": str(error.approval_id), "suggestion": advice}
    code = _code_of(error)
    if code is None or (code in _APCORE_CODES and code != ErrorCodes.MODULE_EXECUTE_ERROR):
        return {}
    fields = ("ai_guidance", "suggestion", "retryable", "user_fixable")
    values = dict(zip(_GUIDANCE, (getattr(error, field, None) for field in fields), strict=True))
    facts = {"code": code, "message": getattr(error, "message", None), **values}
    return {key: value for key, value in facts.items() if isinstance(value, str | bool) and value != ""}


def _code_of(error: BaseException) -> str | None:
    """Return the code of an error of apcore, or of one with the same attributes; None for others."""
    return str(getattr(error, "code", "")) if is_module_error(error) else None


def format_field_errors(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the message for invalid input, from rows of field, message and code."""
    return "\n".join((INVALID, *(f"- {field}: {message} ({code})" for field, message, code in rows)))


def _describe_invalid(error: SchemaValidationError) -> str:
    """List the fields. apcore has `path` and `keyword`; older versions had `field` and `code`."""
    if error.message.startswith("Output validation failed"):
        _logger.error("the output of a module does not match its schema: %s", error.message)
        return f"Module error: {error.code}"
    details: object = error.details
    rows = details.get("errors") if isinstance(details, Mapping) else None
    if not isinstance(rows, list) or not rows:
        return f"{INVALID}\n- {error.message}" if error.message else INVALID
    return format_field_errors(_read_row(row) for row in rows)


def read_field_errors(result: Any) -> list[tuple[str, str, str]]:
    """Return the rows for `format_field_errors` of a result of `Executor.validate()`; empty if it is valid."""
    if result.valid:
        return []
    found: list[tuple[str, str, str]] = []
    rows: Iterable[Any] = getattr(result, "errors", None) or ({},)
    for row in rows:
        nested = row.get("errors") if isinstance(row, Mapping) else None
        found += map(_read_row, nested or (row,))
    return found


def _read_row(row: Any) -> tuple[str, str, str]:
    if not isinstance(row, Mapping):
        return "input", str(row), "invalid"
    path = row.get("field") or row.get("path") or "input"
    if isinstance(path, list | tuple):
        path = ".".join(map(str, path)) or "input"
    message = str(row.get("message") or "is not valid")
    return (
        str(path).strip("/").replace("/", "."),
        message,
        str(row.get("code") or row.get("keyword") or "invalid"),
    )


def _describe_missing(error: ModuleNotFoundError) -> str:
    return _describe_detail(error, "Module not found: {}", "module_id")


def _describe_timeout(error: ModuleTimeoutError) -> str:
    return _describe_detail(error, "Module timed out after {}ms", "timeout_ms")


def _describe_detail(error: ModuleError, text: str, name: str) -> str:
    """Format the text with a detail of the error. Without that detail, return the message of apcore."""
    details: object = error.details
    known = details.get(name) if isinstance(details, Mapping) else None
    return text.format(known) if known is not None else error.message or INTERNAL


def _describe_input(error: InvalidInputError) -> str:
    details: object = error.details
    if isinstance(details, Mapping) and details.get("code") == BAD_CHUNK:
        # apcore reports it as input, but it is output of the module.
        _logger.error("a module streamed a chunk that is not an object: %s", error.message)
        return f"Module error: {BAD_CHUNK}"
    return f"Invalid input: {error.message}"


# The first matching class, or code of another class, is used.
_DESCRIPTIONS: Final[tuple[tuple[type[ModuleError], str, Callable[[Any], str]], ...]] = (
    (ModuleNotFoundError, "MODULE_NOT_FOUND", _describe_missing),
    (SchemaValidationError, "SCHEMA_VALIDATION_ERROR", _describe_invalid),
    (ACLDeniedError, "ACL_DENIED", lambda _: "Access denied"),
    (ModuleTimeoutError, "MODULE_TIMEOUT", _describe_timeout),
    (InvalidInputError, "GENERAL_INVALID_INPUT", _describe_input),
    (CallDepthExceededError, "CALL_DEPTH_EXCEEDED", lambda _: "Call depth limit exceeded"),
    (CircularCallError, "CIRCULAR_CALL", lambda _: "Circular call detected"),
    (CallFrequencyExceededError, "CALL_FREQUENCY_EXCEEDED", lambda _: "Call frequency limit exceeded"),
)

__all__ = [
    "BAD_CHUNK",
    "CIRCUIT_BREAKER_RECOVERY_GUIDANCE",
    "INTERNAL",
    "INVALID",
    "META_KEY",
    "ErrorMapper",
    "format_field_errors",
    "internal_error_response",
    "read_field_errors",
]
