"""URI templates: which resources a template names, and what its variables are for one of them.

Of RFC 6570 levels 1 and 2 are here as far as they can be read backwards: `{name}`, which stays within a segment, and
`{+name}`, which may cross slashes; at most one of the latter. The other operators, lists and modifiers expand to text
from which the values cannot be told, and are refused when the template is made. A variable is never empty.

Matching is by searching for the literals, from both ends towards the `{+name}`, and takes time linear in the URI: a
regular expression of the same meaning can be made to backtrack by whoever sends the URI. Searching for the nearest
literal is enough, because `{name}` takes no slash: a literal with one can stand in one place only, and one without can
be left to the next variable.

Values that would lead out of a folder (`..`, a slash or backslash that was percent-encoded, an absolute path) do not
match unless the template allows it: nearly every handler joins them to a path. This is stricter than the RFC.

Must never know a resource. Above: `_resources`. Below: nothing.
"""

import re
from collections.abc import Mapping

from jackstay.errors import UsageError

_EXPRESSION = r"\{([^{}]*)\}"
_NAME = r"\+?[A-Za-z_][A-Za-z0-9_]*"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_OUTSIDE = "/?#"


def check_uri(uri: str, what: str) -> str:
    """The URI, if it is absolute.

    Raises:
        UsageError: without a scheme, or with a space or a control character in it.
    """
    if re.match(_SCHEME, uri) is None or any(character <= " " or character == "\x7f" for character in uri):
        raise UsageError(
            f"{what} must be a URI with a scheme, as file:///notes, not {uri[:100]!r}", path=what
        )
    return uri


class UriTemplate:
    """A template, read. `match` gives the variables of a URI, or None.

    Raises:
        UsageError: for an expression that cannot be read backwards, and for a template that is no URI.
    """

    __slots__ = ("_backward", "_forward", "_head", "_is_open", "_reserved", "_tail", "text", "variables")

    def __init__(self, text: str, *, is_open: bool = False) -> None:
        self.text = text
        self._is_open = is_open
        literals, names = _split(check_uri(text, "uri_template"))
        self.variables = tuple(name.lstrip("+") for name in names)
        if len(set(self.variables)) != len(names):
            raise UsageError(f"{text!r} names a variable twice", path="uri_template")
        reserved = [index for index, name in enumerate(names) if name.startswith("+")]
        if len(reserved) > 1:
            raise UsageError(f"{text!r} has two {{+...}}: one could not tell them apart", path="uri_template")
        # Without a {+name} the last variable takes its part: it, too, ends where the tail begins.
        at = reserved[0] if reserved else len(names) - 1
        self._reserved = reserved[0] if reserved else None
        self._head, self._tail = literals[0], literals[-1]
        # Literals to look for, in the order in which they are looked for; each ends a variable.
        self._forward = tuple(literals[1 : at + 1])
        self._backward = tuple(reversed(literals[at + 1 : -1]))

    def __repr__(self) -> str:
        return f"<UriTemplate {self.text}>"

    def match(self, uri: str) -> Mapping[str, str] | None:
        """The variables of this URI, percent-decoded, or None if the template does not name it."""
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
            if not self._is_open and _leads_out(value, is_reserved):
                return None
            values[name] = value
        return values


def _percent_decoded(part: str) -> str | None:
    from urllib.parse import unquote  # noqa: PLC0415  # slow to load, and most values have nothing to decode

    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        return None


def _leads_out(value: str, is_reserved: bool) -> bool:
    if "\0" in value or "\\" in value:
        return True
    if is_reserved:
        return value.startswith("/") or ".." in value.split("/")
    return "/" in value or value in (".", "..")


def _split(text: str) -> tuple[list[str], list[str]]:
    """The literals around the variables (one more than there are variables), and the variables as they are written."""
    pieces = re.split(_EXPRESSION, text)
    literals, names = pieces[::2], pieces[1::2]
    if any("{" in literal or "}" in literal for literal in literals):
        raise UsageError(f"{text!r} has a brace without its partner", path="uri_template")
    if not names:
        raise UsageError(f"{text!r} has no variable: register it as a resource", path="uri_template")
    for name in names:
        if re.fullmatch(_NAME, name) is None:
            said = f"{{{name}}} in {text!r} cannot be read backwards; use {{name}} or {{+name}}"
            raise UsageError(said, path="uri_template")
    if any(not literal for literal in literals[1:-1]):
        raise UsageError(f"{text!r} has two variables with nothing between them", path="uri_template")
    return literals, names
