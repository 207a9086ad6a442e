"""The error catalogue of the tools, and the exceptions of this package.

A failed tool raises `ProContextError` with a code of the catalogue. A wrong setting is a `ConfigError` and an unusable
registry file a `RegistryError`; both are for the user who started the server.
"""

from typing import Literal, TypeAlias

import msgspec

# Every error code of the tools.
Code: TypeAlias = Literal[
    "LIBRARY_NOT_FOUND",
    "LLMS_TXT_NOT_FOUND",
    "LLMS_TXT_FETCH_FAILED",
    "PAGE_NOT_FOUND",
    "PAGE_FETCH_FAILED",
    "TOO_MANY_REDIRECTS",
    "URL_NOT_ALLOWED",
    "INVALID_INPUT",
]


class Row(msgspec.Struct, frozen=True):
    """One error of the catalogue. `message` has a placeholder for the subject: a library id, a URL or an argument."""

    code: Code
    raised_by: tuple[str, ...]
    message: str
    suggestion: str
    recoverable: bool


_RETRY = "The failure may be temporary. Try again in a moment, and inform the user if it fails again."

ROWS: tuple[Row, ...] = (
    Row(
        "LIBRARY_NOT_FOUND",
        ("get_library_docs", "search_docs"),
        "Library '{}' not found in registry.",
        "Call resolve_library with your query to find the correct library ID.",
        False,
    ),
    Row(
        "LLMS_TXT_NOT_FOUND",
        ("get_library_docs",),
        "No table of contents was found for library '{}'.",
        "Read a page of its documentation site directly with read_page, or answer without this library's docs.",
        False,
    ),
    Row(
        "LLMS_TXT_FETCH_FAILED",
        ("get_library_docs",),
        "The table of contents of library '{}' could not be fetched.",
        _RETRY,
        True,
    ),
    Row(
        "PAGE_NOT_FOUND",
        ("read_page",),
        "There is no page at '{}' (HTTP 404).",
        "Call get_library_docs to see which pages there are.",
        False,
    ),
    Row("PAGE_FETCH_FAILED", ("read_page",), "The page '{}' could not be fetched.", _RETRY, True),
    Row(
        "TOO_MANY_REDIRECTS",
        ("get_library_docs", "read_page"),
        "'{}' was redirected more than 3 times.",
        "Call get_library_docs to obtain the address of another page.",
        False,
    ),
    Row(
        "URL_NOT_ALLOWED",
        ("read_page",),
        "URL '{}' is not permitted.",
        "Only URLs from known documentation domains are allowed. Use get_library_docs to obtain valid documentation"
        " URLs.",
        False,
    ),
    Row(
        "INVALID_INPUT",
        ("resolve_library", "get_library_docs", "read_page", "search_docs"),
        "Invalid input: {}.",
        "Correct the named argument by the tool's input schema, and call again.",
        False,
    ),
)

# The catalogue by code.
CATALOGUE: dict[str, Row] = {row.code: row for row in ROWS}

# The part of a URL or an argument that is quoted in a message.
_MAX_SUBJECT_LENGTH = 300


class ProContextError(Exception):
    """A failed tool call. All four fields are returned to the agent."""

    def __init__(self, code: Code, message: str, suggestion: str, recoverable: bool) -> None:
        super().__init__(code, message, suggestion, recoverable)
        self.code = code
        self.message = message
        self.suggestion = suggestion
        self.recoverable = recoverable

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def failure(
    code: Code, subject: str, detail: str = "", *, suggestion: str | None = None, remedy: str = ""
) -> ProContextError:
    """Return the error with this code for `subject`; `detail` is appended as a sentence and has no full stop.

    `remedy` replaces the suggestion of the catalogue and marks the error as not recoverable.
    """
    row = CATALOGUE[code]
    shown = subject if len(subject) <= _MAX_SUBJECT_LENGTH else f"{subject[:_MAX_SUBJECT_LENGTH]}…"
    message = row.message.format(shown)
    if detail:
        message = f"{message} {detail[:1].upper()}{detail[1:]}."
    if remedy:
        return ProContextError(code, message, remedy, False)
    return ProContextError(code, message, row.suggestion if suggestion is None else suggestion, row.recoverable)


class ConfigError(Exception):
    """An invalid setting. `name` is the setting as it was written, `where` the file or the environment."""

    def __init__(self, name: str, problem: str, where: str = "") -> None:
        super().__init__(name, problem, where)
        self.name = name
        self.problem = problem
        self.where = where

    def __str__(self) -> str:
        origin = f" (in {self.where})" if self.where else ""
        return f"{self.name}: {self.problem}{origin}" if self.name else f"{self.problem}{origin}"


class RegistryError(Exception):
    """An unusable registry: unreadable, invalid, or with a wrong checksum. `where` is a file or a URL."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


__all__ = [
    "CATALOGUE",
    "ROWS",
    "Code",
    "ConfigError",
    "ProContextError",
    "RegistryError",
    "Row",
    "failure",
]
