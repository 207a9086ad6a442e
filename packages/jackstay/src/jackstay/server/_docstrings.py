"""Parsing of docstrings in the Google, NumPy and reST styles, by lines and indentation.

The descriptions of parameters are for the schema. Everything else, including examples and returns, is the description.
"""

import inspect
import re

import msgspec

# Strings, not compiled: that would slow down the import.
_GOOGLE = r"(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters):\s*$"
_NUMPY = r"(Parameters|Other Parameters)\s*$"
_UNDERLINE = r"-{3,}\s*$"
_REST = r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*[\s*])?(\w+)\s*:\s*(.*)$"
_REST_TYPE = r":type\s+\w+\s*:"
_GOOGLE_NAME = r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$"
_NUMPY_NAMES = r"\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"


class Docstring(msgspec.Struct, frozen=True):
    """The description without the section on parameters, and the descriptions of parameters by name."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """Parse a docstring. Never raises."""
    if not text:
        return Docstring("", {})
    lines = inspect.cleandoc(text).splitlines()
    if ":" not in text and "---" not in text:  # no section: the patterns need not be compiled
        return Docstring(_join(lines), {})
    kept: list[str] = []
    found: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if re.match(_GOOGLE, line):
            at = _read_google(lines, at + 1, found)
        elif re.match(_NUMPY, line) and at + 1 < len(lines) and re.match(_UNDERLINE, lines[at + 1]):
            at = _read_numpy(lines, at + 2, found)
        elif field := re.match(_REST, line):
            continuation, at = _continued(lines, at + 1, 0)
            found.setdefault(field[1], " ".join([field[2].strip(), *continuation]).strip())
        elif re.match(_REST_TYPE, line):
            _, at = _continued(lines, at + 1, 0)
        else:
            kept.append(line)
            at += 1
    return Docstring(_join(kept), {name: text for name, text in found.items() if text})


def _join(lines: list[str]) -> str:
    """Join lines, with at most one blank line in a row: a removed section leaves two."""
    text = "\n".join(lines)
    return (re.sub(r"\n{3,}", "\n\n", text) if "\n\n\n" in text else text).strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _continued(lines: list[str], at: int, indent: int) -> tuple[list[str], int]:
    """Return the stripped lines from `at` on that are indented deeper, and the index after them."""
    stripped: list[str] = []
    while at < len(lines) and lines[at].strip() and _indent(lines[at]) > indent:
        stripped.append(lines[at].strip())
        at += 1
    return stripped, at


def _skip_blank(lines: list[str], at: int) -> int:
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def _read_google(lines: list[str], at: int, found: dict[str, str]) -> int:
    """Read indented `name: text` entries until the indentation ends. Returns the index after them."""
    at = _skip_blank(lines, at)
    while at < len(lines) and _indent(lines[at]) > 0:
        indent = _indent(lines[at])
        name = re.match(_GOOGLE_NAME, lines[at].strip())
        continuation, after = _continued(lines, at + 1, indent)
        if name is not None:
            found.setdefault(name[1], " ".join([name[2], *continuation]).strip())
        at = _skip_blank(lines, after)
    return at


def _read_numpy(lines: list[str], at: int, found: dict[str, str]) -> int:
    """Read names with indented text below them until a heading or prose. Returns the index after them."""
    at = _skip_blank(lines, at)
    while at < len(lines):
        names = re.match(_NUMPY_NAMES, lines[at])
        is_heading = at + 1 < len(lines) and re.match(_UNDERLINE, lines[at + 1]) is not None
        if names is None or is_heading:
            break
        description, after = _continued(lines, at + 1, 0)
        for name in names[1].split(","):
            found.setdefault(name.strip(" *"), " ".join(description))
        at = _skip_blank(lines, after)
    return at
