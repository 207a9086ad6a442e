"""URI templates (RFC 6570) that are matched against URIs to get the values of their variables.

Values that could escape from a directory (`..`, encoded slashes, absolute paths) do not match unless traversal is
allowed, because most handlers join them to a path. This is stricter than the RFC.
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
    """A parsed URI template. Variables are never empty, except those of `{?a,b}`.

    Supported are `{name}`, which matches within a path segment; one `{+name}`, which may contain slashes, or one
    `{/name*}`, which matches a slash and segments with slashes between them; `{/a,b}`, the same as `/{a}/{b}`; and
    `{?a,b}` at the end, whose variables may be absent.

    Matching searches for the literals from both ends towards `{+name}`, in linear time. A regular expression could be
    made to backtrack by a malicious URI. The nearest literal is always the right one, because `{name}` contains no
    slash.

    Raises:
        UsageError: for an expression that cannot be matched unambiguously, and for an invalid URI.
    """

    def __init__(self, text: str, *, allow_traversal: bool = False) -> None:
        self.text = text
        self._allow_traversal = allow_traversal
        path, self.query = _split_query(check_uri(text, "uri_template"))
        self._has_segments = re.search(r"\{/[^{}]*\*\}", path) is not None
        literals, names = _split(re.sub(r"\{/([^{}]*)\}", _as_segments, path), text, bool(self.query))
        self._names = tuple(name.lstrip("+") for name in names)
        self.variables = (*self._names, *self.query)
        if len(set(self.variables)) != len(self.variables):
            raise UsageError(f"duplicate variable in {text!r}", path="uri_template")
        # At most one index.
        self._reserved = [index for index, name in enumerate(names) if name.startswith("+")]
        if len(self._reserved) > 1:
            raise UsageError(f"more than one {{+name}} in {text!r}: the match is ambiguous", path="uri_template")
        # Without a {+name} the last variable is treated like it: it ends where the tail begins.
        at = max(self._reserved, default=len(names) - 1)
        self._head, self._tail = literals[0], literals[-1]
        # Literals in the order in which they are searched for; each one ends a variable.
        self._forward = literals[1 : at + 1]
        self._backward = literals[at + 1 : -1][::-1]

    def __repr__(self) -> str:
        return f"<UriTemplate {self.text}>"

    def match(self, uri: str) -> Mapping[str, str] | None:
        """Return the percent-decoded variables of a URI, or None if it does not match."""
        if not self.query:
            return self._match_path(uri)
        path, _, query = uri.partition("?")
        values = self._match_path(path) if self._names else ({} if path == self._head else None)
        found = None if values is None else self._match_query(query)
        return None if values is None or found is None else {**values, **found}

    def _match_query(self, query: str) -> Mapping[str, str] | None:
        values: dict[str, str] = {}
        for pair in query.split("&") if query else ():
            name, _, part = pair.partition("=")
            value = _percent_decoded(part)
            if name not in self.query or name in values or "#" in part or value is None:
                return None
            if not self._allow_traversal and _is_traversal(value, is_reserved=True):
                return None
            values[name] = value
        return values

    def _match_path(self, uri: str) -> Mapping[str, str] | None:
        if not uri.startswith(self._head) or not uri.endswith(self._tail):
            return None
        left = uri[len(self._head) : len(uri) - len(self._tail)]
        before: list[str] = []
        for literal in self._forward:
            at = left.find(literal, 1)
            if at < 0:
                return None
            before.append(left[:at])
            left = left[at + len(literal) :]
        after: list[str] = []
        for literal in self._backward:
            at = left.rfind(literal, 0, -1)
            if at < 0:
                return None
            after.insert(0, left[at + len(literal) :])
            left = left[:at]
        return self._decoded([*before, left, *after]) if left else None

    def _decoded(self, parts: list[str]) -> Mapping[str, str] | None:
        values: dict[str, str] = {}
        for index, (name, part) in enumerate(zip(self._names, parts, strict=True)):
            is_reserved = index in self._reserved
            if not is_reserved and any(character in part for character in _OUTSIDE):
                return None
            if is_reserved and self._has_segments and _is_no_path(part):
                return None
            value = _percent_decoded(part) if "%" in part else part
            if value is None or (not self._allow_traversal and _is_traversal(value, is_reserved)):
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


def _is_no_path(part: str) -> bool:
    """Return whether this cannot be what `{/name*}` expands to after its first slash."""
    return "?" in part or "#" in part or "%2f" in part.lower() or "" in part.split("/")


def _split_query(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the template without its `{?a,b}`, and the names in it."""
    path, found, query = text.partition("{?")
    if not found:
        return text, ()
    names = tuple(query.removesuffix("}").split(","))
    if (
        not query.endswith("}")
        or "?" in path
        or any(re.fullmatch(_NAME.removeprefix(r"\+?"), name) is None for name in names)
    ):
        raise UsageError(f"{{?a,b}} must be the end of {text!r} and its only query", path="uri_template")
    return path, names


def _as_segments(expression: re.Match[str]) -> str:
    """Return `{/a,b*}` as `/{a}/{+b}`."""
    names = expression[1].split(",")
    return "".join(f"/{{+{name[:-1]}}}" if name.endswith("*") else f"/{{{name}}}" for name in names)


def _split(text: str, whole: str, has_query: bool) -> tuple[list[str], list[str]]:
    """Return the literals around the variables (one more than variables), and the expressions without braces."""
    pieces = re.split(_EXPRESSION, text)
    literals, names = pieces[::2], pieces[1::2]
    if any("{" in literal or "}" in literal for literal in literals):
        raise UsageError(f"unbalanced braces in {whole!r}", path="uri_template")
    if not names and not has_query:
        raise UsageError(f"no variable in {whole!r}: register it as a resource", path="uri_template")
    for name in names:
        if re.fullmatch(_NAME, name) is None:
            message = (
                f"unsupported expression {{{name}}} in {whole!r}; use {{name}}, {{+name}}, {{/name*}} or {{?name}}"
            )
            raise UsageError(message, path="uri_template")
    if any(not literal for literal in literals[1:-1]):
        raise UsageError(f"adjacent variables in {whole!r}: put a literal between them", path="uri_template")
    return literals, names
