"""Everything that can go wrong, as rows, and the exceptions that carry a row to whoever tells the agent or the person.

The catalogue is the reference's (6.2): a code, who raises it, a sentence, what to do next, and whether the same request may
succeed later. A tool's failure is a `ProContextError`; the tools turn it into the envelope of 6.1. A wrong setting is a
`ConfigError`, a registry file that cannot be used a `RegistryError`: both are for the person who started the server.

Must never know a request. Above: everything in this package. Below: msgspec.
"""

from typing import Literal, TypeAlias

import msgspec

# Every code there is (reference, 6.2).
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
    """One code of the catalogue. `message` has a place for the subject: a library's id, a URL, a field."""

    code: Code
    raised_by: tuple[str, ...]
    message: str
    suggestion: str
    recoverable: bool


_RETRY = "This may pass. Try again in a moment, and tell the user if it fails again."

# The catalogue, in the order of the reference.
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
        "Correct the named argument as the tool's input schema says, and call again.",
        False,
    ),
)

# The same, by code.
CATALOGUE: dict[str, Row] = {row.code: row for row in ROWS}

# What is quoted back of a URL or an argument: enough to recognise it, and no more than that.
_LONGEST_SUBJECT = 300


class ProContextError(Exception):
    """A tool's failure, for the agent. Reference, 6.1: all four fields are told."""

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
    """The row's error about `subject`; `detail` follows its sentence, and is a sentence of its own without the full stop.

    `remedy` takes the place of the row's suggestion where trying again does not help, whatever the row says.
    """
    row = CATALOGUE[code]
    shown = subject if len(subject) <= _LONGEST_SUBJECT else f"{subject[:_LONGEST_SUBJECT]}…"
    message = row.message.format(shown)
    if detail:
        message = f"{message} {detail[:1].upper()}{detail[1:]}."
    if remedy:
        return ProContextError(code, message, remedy, False)
    return ProContextError(
        code, message, row.suggestion if suggestion is None else suggestion, row.recoverable
    )


class ConfigError(Exception):
    """A setting that cannot be used. `name` is the setting as it was written, `where` the file or the environment."""

    def __init__(self, name: str, problem: str, where: str = "") -> None:
        super().__init__(name, problem, where)
        self.name = name
        self.problem = problem
        self.where = where

    def __str__(self) -> str:
        place = f" (in {self.where})" if self.where else ""
        return f"{self.name}: {self.problem}{place}" if self.name else f"{self.problem}{place}"


class RegistryError(Exception):
    """A registry that cannot be used: unreadable, broken, or not what its checksum says. `where` is a file or address."""

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
