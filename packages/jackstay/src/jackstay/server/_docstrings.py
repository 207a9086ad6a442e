"""What a docstring says of a function, and of each of its parameters.

Three habits of writing are read: Google's (`Args:` and indented names), NumPy's (`Parameters` underlined) and reST's
(`:param name:`). Cheaply: lines and indentation, no parser of markup. What is said of parameters moves into the schema,
where a model looks for it; everything else, examples and returns included, stays the description.

Must never know a type. Above: `_functions`. Below: nothing.
"""

import inspect
import re

import msgspec

# Compiled by `re` when the first docstring is read: nobody who only imports this pays for them.
_GOOGLE = r"(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters):\s*$"
_NUMPY = r"(Parameters|Other Parameters)\s*$"
_UNDERLINE = r"-{3,}\s*$"
_REST = r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*[\s*])?(\w+)\s*:\s*(.*)$"
_REST_TYPE = r":type\s+\w+\s*:"
_GOOGLE_NAME = r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$"
_NUMPY_NAMES = r"\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"


class Docstring(msgspec.Struct, frozen=True):
    """The description without what it says of parameters, and that, by name."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """What `text` says; nothing of nothing. Never raises: a docstring is prose, and prose may be anything."""
    if not text:
        return Docstring("", {})
    lines = inspect.cleandoc(text).splitlines()
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
            said, at = _continued(lines, at + 1, 0)
            found.setdefault(field[1], " ".join([field[2].strip(), *said]).strip())
        elif re.match(_REST_TYPE, line):
            _, at = _continued(lines, at + 1, 0)
        else:
            kept.append(line)
            at += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return Docstring(description, {name: said for name, said in found.items() if said})


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _continued(lines: list[str], at: int, indent: int) -> tuple[list[str], int]:
    """The lines from `at` on that are indented deeper, stripped, and where the next thing begins."""
    said: list[str] = []
    while at < len(lines) and lines[at].strip() and _indent(lines[at]) > indent:
        said.append(lines[at].strip())
        at += 1
    return said, at


def _skip_blank(lines: list[str], at: int) -> int:
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def _read_google(lines: list[str], at: int, found: dict[str, str]) -> int:
    """Names one step in, each with its text after a colon; the section ends where the indentation does."""
    at = _skip_blank(lines, at)
    while at < len(lines) and _indent(lines[at]) > 0:
        indent = _indent(lines[at])
        name = re.match(_GOOGLE_NAME, lines[at].strip())
        said, after = _continued(lines, at + 1, indent)
        if name is not None:
            found.setdefault(name[1], " ".join([name[2], *said]).strip())
        at = _skip_blank(lines, after)
    return at


def _read_numpy(lines: list[str], at: int, found: dict[str, str]) -> int:
    """Names at the margin, text below them; the section ends at the next underlined heading, or at prose."""
    at = _skip_blank(lines, at)
    while at < len(lines):
        names = re.match(_NUMPY_NAMES, lines[at])
        is_heading = at + 1 < len(lines) and re.match(_UNDERLINE, lines[at + 1]) is not None
        if names is None or is_heading:
            break
        said, after = _continued(lines, at + 1, 0)
        for name in names[1].split(","):
            found.setdefault(name.strip(" *"), " ".join(said))
        at = _skip_blank(lines, after)
    return at
