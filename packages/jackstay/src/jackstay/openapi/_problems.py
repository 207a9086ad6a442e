"""Errors of an OpenAPI document, each with its place as a JSON pointer."""

from collections.abc import Iterable

from jackstay.errors import UsageError


class OpenApiError(UsageError):
    """A part of an OpenAPI document cannot be served. `pointer` is its place, such as `#/paths/~1pets/get`.

    `operation` is the name of the operation that it belongs to, or an empty string if it concerns the whole document.
    """

    def __init__(self, message: str, *, pointer: str = "#", operation: str = "") -> None:
        about = f"{operation}: " if operation else ""
        super().__init__(f"{about}{message} (at {pointer})", path=pointer)
        self.reason = message
        self.pointer = pointer
        self.operation = operation

    def about(self, operation: str) -> "OpenApiError":  # type: ignore[override]  # narrower: it names an operation
        """Return this error with the name of the operation."""
        return self if self.operation else OpenApiError(self.reason, pointer=self.pointer, operation=operation)


def join(pointer: str, *steps: str | int) -> str:
    """Return the JSON pointer of a member (RFC 6901)."""
    return "/".join((pointer, *(escape(step) for step in steps)))


def escape(step: str | int) -> str:
    """Return one reference token of a JSON pointer (RFC 6901, section 3)."""
    return str(step).replace("~", "~0").replace("/", "~1")


def names_of(values: Iterable[object]) -> str:
    """Return values as a list for a message."""
    return ", ".join(repr(value) for value in values)
