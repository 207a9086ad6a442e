"""URI templates (RFC 6570) that are matched against URIs to get the values of their variables.

Supported are `{name}`, which matches within a path segment, and one `{+name}`, which may contain slashes. Values that
could escape from a directory (`..`, encoded slashes, absolute paths) do not match unless traversal is allowed, because
most handlers join them to a path. This is stricter than the RFC.
"""

import re
from collections.abc import Mapping

from jackstay.errors import UsageError

_EXPRESSION = r"\{([^{}]*)\}"
_NAME = r"\+?[A-Za-z_][A-Za-z0-9_]*"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_OUTSIDE = "/?#"


def check_uri(uri: str, what: str) -> str:
    """Return the URI.

    Raises:
        UsageError: if it has no scheme, or contains a space or a control character.
    """
    if re.match(_SCHEME, uri) is None or any(character <= " " or character == "\x7f" for character in uri):
        raise UsageError(f"{what} must be a URI with a scheme, such as file:///notes, not {uri[:100]!r}", path=what)
    return uri


class UriTemplate:
    """A parsed URI template. Variables are never empty.

    Matching searches for the literals from both ends towards `{+name}`, in linear time. A regular expression could be
    made to backtrack by a malicious URI. The nearest literal is always the right one, because `{name}` contains no
    slash.

    Raises:
        UsageError: for an expression that cannot be matched unambiguously, and for an invalid URI.
    """

    __slots__ = ("_allow_traversal", "_backward", "_forward", "_head", "_reserved", "_tail", "text", "variables")

    def __init__(self, text: str, *, allow_traversal: bool = False) -> None:
        self.text = text
        self._allow_traversal = allow_traversal
        literals, names = _split(check_uri(text, "uri_template"))
        self.variables = tuple(name.lstrip("+") for name in names)
        if len(set(self.variables)) != len(names):
            raise UsageError(f"duplicate variable in {text!r}", path="uri_template")
        reserved = [index for index, name in enumerate(names) if name.startswith("+")]
        if len(reserved) > 1:
            raise UsageError(f"more than one {{+name}} in {text!r}: the match is ambiguous", path="uri_template")
        # Without a {+name} the last variable is treated like it: it ends where the tail begins.
        at = reserved[0] if reserved else len(names) - 1
        self._reserved = reserved[0] if reserved else None
        self._head, self._tail = literals[0], literals[-1]
        # Literals in the order in which they are searched for; each one ends a variable.
        self._forward = tuple(literals[1 : at + 1])
        self._backward = tuple(reversed(literals[at + 1 : -1]))

    def __repr__(self) -> str:
        return f"<UriTemplate {self.text}>"

    def match(self, uri: str) -> Mapping[str, str] | None:
        """Return the percent-decoded variables of a URI, or None if it does not match."""
        head, tail = self._head, self._tail
        begin, end = len(head), len(uri) - len(tail)
        if begin >= end or not uri.startswith(head) or not uri.endswith(tail):
            return None
        before: list[str] = []
        for literal in self._forward:
            at = uri.find(literal, begin + 1, end)
            if at < 0:
                return None
            before.append(uri[begin:at])
            begin = at + len(literal)
        after: list[str] = []
        for literal in self._backward:
            at = uri.rfind(literal, begin, end - 1)
            if at < 0:
                return None
            after.append(uri[at + len(literal) : end])
            end = at
        if begin >= end:
            return None
        return self._decoded([*before, uri[begin:end], *reversed(after)])

    def _decoded(self, parts: list[str]) -> Mapping[str, str] | None:
        values: dict[str, str] = {}
        for index, (name, part) in enumerate(zip(self.variables, parts, strict=True)):
            is_reserved = index == self._reserved
            if not is_reserved and any(character in part for character in _OUTSIDE):
                return None
            value = _percent_decoded(part) if "%" in part else part
            if value is None:
                return None
            if not self._allow_traversal and _is_traversal(value, is_reserved):
                return None
            values[name] = value
        return values


def _percent_decoded(part: str) -> str | None:
    from urllib.parse import unquote  # noqa: PLC0415  # slow to import, and rarely needed

    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        return None


def _is_traversal(value: str, is_reserved: bool) -> bool:
    if "\0" in value or "\\" in value:
        return True
    if is_reserved:
        return value.startswith("/") or ".." in value.split("/")
    return "/" in value or value in (".", "..")


def _split(text: str) -> tuple[list[str], list[str]]:
    """Return the literals around the variables (one more than variables), and the expressions without braces."""
    pieces = re.split(_EXPRESSION, text)
    literals, names = pieces[::2], pieces[1::2]
    if any("{" in literal or "}" in literal for literal in literals):
        raise UsageError(f"unbalanced braces in {text!r}", path="uri_template")
    if not names:
        raise UsageError(f"no variable in {text!r}: register it as a resource", path="uri_template")
    for name in names:
        if re.fullmatch(_NAME, name) is None:
            message = f"unsupported expression {{{name}}} in {text!r}; use {{name}} or {{+name}}"
            raise UsageError(message, path="uri_template")
    if any(not literal for literal in literals[1:-1]):
        raise UsageError(f"adjacent variables in {text!r}: put a literal between them", path="uri_template")
    return literals, names
