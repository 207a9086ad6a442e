"""What went wrong in apcore, in words that a client may read.

The texts are the contract: they name what the caller can mend, and nothing else. Who called, which rule denied it, what a
module's exception said and where: all that goes to the log. A raw exception of a module arrives as `ModuleExecuteError` with
the original text in its message, so that class is told as an internal error, like any exception that is not apcore's.

Must never raise, whatever it is given. Above: the router. Below: `apcore.errors`, `jackstay.types`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    ACLDeniedError,
    CallDepthExceededError,
    CallFrequencyExceededError,
    CircularCallError,
    InvalidInputError,
    ModuleError,
    ModuleExecuteError,
    ModuleNotFoundError,
    ModuleTimeoutError,
    SchemaValidationError,
)

from apcore_mcp.secrets import hide
from apcore_mcp.tracing import traced
from jackstay.types import CallToolResult, TextContent

_logger = traced("apcore_mcp.adapters.errors")

# What is said where nothing may be told, and how invalid input begins.
INTERNAL: Final = "Internal error occurred"
INVALID: Final = "Input validation failed:"

# apcore's word for a chunk of a stream that is no object.
BAD_CHUNK: Final = "STREAM_CHUNK_NOT_OBJECT"


class ErrorMapper:
    """Makes results of exceptions. A subclass may override `describe`."""

    def to_mcp_error(self, error: BaseException) -> CallToolResult:
        """The result with `isError` that tells of `error`. What is not told is logged, at ERROR with its traceback."""
        return self._make_error_result(self.describe(error))

    def describe(self, error: BaseException) -> str:
        """The words alone."""
        try:
            for kind, say in _TEXTS:
                if isinstance(error, kind):
                    return say(error)
            return self._sanitize_message(error)
        except Exception:  # whatever an error is made of, it must not become another
            _logger.exception("an error of %s could not be described", type(error).__name__)
            return INTERNAL

    def _sanitize_message(self, error: BaseException) -> str:
        if isinstance(error, ModuleError) and not isinstance(error, ModuleExecuteError):
            _logger.warning("module error %s", error.code, exc_info=error)
            return f"Module error: {error.code}"
        cause = error.cause if isinstance(error, ModuleError) and error.cause is not None else error
        _logger.error("a module failed: %s", type(cause).__name__, exc_info=cause)
        return INTERNAL

    def _format_validation_errors(self, error: SchemaValidationError) -> str:
        return _say_invalid(error)

    def _make_error_result(self, message: str) -> CallToolResult:
        # What failed may have failed with half a character.
        text = hide(message).encode(errors="replace").decode()
        return CallToolResult(content=[TextContent(text=text)], is_error=True)


def say_fields(rows: Iterable[tuple[str, str, str]]) -> str:
    """The text of invalid input, from rows of field, message and code."""
    return "\n".join((INVALID, *(f"- {field}: {message} ({code})" for field, message, code in rows)))


def _say_invalid(error: SchemaValidationError) -> str:
    """Field by field. apcore says `path` and `keyword`; older ones said `field` and `code`."""
    if error.message.startswith("Output validation failed"):
        _logger.error("a module's output breaks its schema: %s", error.message)
        return f"Module error: {error.code}"
    details: object = error.details
    rows = details.get("errors") if isinstance(details, Mapping) else None
    if not isinstance(rows, list) or not rows:
        return f"{INVALID}\n- {error.message}" if error.message else INVALID
    return say_fields(_read_row(row) for row in rows)


def _read_row(row: Any) -> tuple[str, str, str]:
    if not isinstance(row, Mapping):
        return "input", str(row), "invalid"
    place = row.get("field") or row.get("path") or "input"
    if isinstance(place, list | tuple):
        place = ".".join(map(str, place)) or "input"
    message = str(row.get("message") or "is not valid")
    return (
        str(place).strip("/").replace("/", "."),
        message,
        str(row.get("code") or row.get("keyword") or "invalid"),
    )


def _say_missing(error: ModuleNotFoundError) -> str:
    return _say_detail(error, "Module not found: {}", "module_id")


def _say_late(error: ModuleTimeoutError) -> str:
    return _say_detail(error, "Module timed out after {}ms", "timeout_ms")


def _say_detail(error: ModuleError, text: str, name: str) -> str:
    """The text with a detail of the error; without that detail, apcore's own words, which name no more (seed 6.4)."""
    details: object = error.details
    known = details.get(name) if isinstance(details, Mapping) else None
    return text.format(known) if known is not None else error.message or INTERNAL


def _say_input(error: InvalidInputError) -> str:
    details: object = error.details
    if isinstance(details, Mapping) and details.get("code") == BAD_CHUNK:
        # apcore calls it input, but it is what the module said.
        _logger.error("a module's stream is not objects: %s", error.message)
        return f"Module error: {BAD_CHUNK}"
    return f"Invalid input: {error.message}"


# The first class that fits says it.
_TEXTS: Final[tuple[tuple[type[ModuleError], Callable[[Any], str]], ...]] = (
    (ModuleNotFoundError, _say_missing),
    (SchemaValidationError, _say_invalid),
    (ACLDeniedError, lambda _: "Access denied"),
    (ModuleTimeoutError, _say_late),
    (InvalidInputError, _say_input),
    (CallDepthExceededError, lambda _: "Call depth limit exceeded"),
    (CircularCallError, lambda _: "Circular call detected"),
    (CallFrequencyExceededError, lambda _: "Call frequency limit exceeded"),
)

__all__ = ["BAD_CHUNK", "INTERNAL", "INVALID", "ErrorMapper", "say_fields"]
