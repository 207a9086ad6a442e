"""Parsing of docstrings in the Google, NumPy and reST styles, by lines and indentation.

The descriptions of parameters are for the schema. Everything else, including examples and returns, is the description.
"""

import inspect
import re
from collections import deque
from collections.abc import Iterable

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
    lines = deque(inspect.cleandoc(text).splitlines())
    if ":" not in text and "---" not in text:  # no section: the patterns need not be compiled
        return Docstring(_join(lines), {})
    kept: list[str] = []
    found: dict[str, str] = {}
    while lines:
        line = lines.popleft()
        if re.match(_GOOGLE, line):
            _read_google(lines, found)
        elif re.match(_NUMPY, line) and lines and re.match(_UNDERLINE, lines[0]):
            lines.popleft()
            _read_numpy(lines, found)
        elif field := re.match(_REST, line):
            found.setdefault(field[1], " ".join([field[2].strip(), *_continued(lines, 0)]).strip())
        elif re.match(_REST_TYPE, line):
            _continued(lines, 0)
        else:
            kept.append(line)
    return Docstring(_join(kept), {name: text for name, text in found.items() if text})


def _join(lines: Iterable[str]) -> str:
    """Join lines, with at most one blank line in a row: a removed section leaves two."""
    text = "\n".join(lines)
    return (re.sub(r"\n{3,}", "\n\n", text) if "\n\n\n" in text else text).strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _continued(lines: deque[str], indent: int) -> list[str]:
    """Remove the next lines that are indented deeper, and return them stripped."""
    stripped: list[str] = []
    while lines and lines[0].strip() and _indent(lines[0]) > indent:
        stripped.append(lines.popleft().strip())
    return stripped


def _skip_blank(lines: deque[str]) -> None:
    while lines and not lines[0].strip():
        lines.popleft()


def _read_google(lines: deque[str], found: dict[str, str]) -> None:
    """Read indented `name: text` entries until the indentation ends."""
    _skip_blank(lines)
    while lines and _indent(lines[0]) > 0:
        line = lines.popleft()
        continuation = _continued(lines, _indent(line))
        if name := re.match(_GOOGLE_NAME, line.strip()):
            found.setdefault(name[1], " ".join([name[2], *continuation]).strip())
        _skip_blank(lines)


def _read_numpy(lines: deque[str], found: dict[str, str]) -> None:
    """Read names with indented text below them until a heading or prose."""
    _skip_blank(lines)
    while lines and (names := re.match(_NUMPY_NAMES, lines[0])):
        if len(lines) > 1 and re.match(_UNDERLINE, lines[1]):
            break  # a heading
        lines.popleft()
        description = " ".join(_continued(lines, 0))
        for name in names[1].split(","):
            found.setdefault(name.strip(" *"), description)
        _skip_blank(lines)
