"""Expansion of URI templates (RFC 6570, all four levels)."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from jackstay.errors import UsageError


class _Operator(NamedTuple):
    """A row of the table in RFC 6570, appendix A."""

    first: str
    separator: str
    is_named: bool
    if_empty: str
    allows_reserved: bool


_OPERATORS = {
    "": _Operator("", ",", False, "", False),
    "+": _Operator("", ",", False, "", True),
    "#": _Operator("#", ",", False, "", True),
    ".": _Operator(".", ".", False, "", False),
    "/": _Operator("/", "/", False, "", False),
    ";": _Operator(";", ";", True, "", False),
    "?": _Operator("?", "&", True, "=", False),
    "&": _Operator("&", "&", True, "=", False),
}
_RESERVED = ":/?#[]@!$&'()*+,;="
_VARIABLE = r"([A-Za-z0-9_.%]+)(?::([1-9][0-9]{0,3})|(\*))?"


def expand_template(template: str, values: Mapping[str, Any]) -> str:
    """Return the URI for these values of the variables. A variable without a value is left out, as is None.

    Values are strings, numbers, booleans, lists and mappings.

    Raises: UsageError for an unknown variable or an invalid template.
    """
    names: set[str] = set()

    def replace(match: re.Match[str]) -> str:
        expression = match[1]
        operator = _OPERATORS.get(expression[:1], _OPERATORS[""])
        parts: list[str] = []
        for variable in expression[bool(operator is not _OPERATORS[""]) :].split(","):
            found = re.fullmatch(_VARIABLE, variable)
            if found is None:
                raise UsageError(f"invalid expression {{{expression}}} in {template!r}", path="uri_template")
            names.add(found[1])
            value = values.get(found[1])
            if value is not None and value not in ([], {}):
                parts += _expand(operator, found[1], value, int(found[2] or 0), is_exploded=found[3] is not None)
        return operator.first + operator.separator.join(parts) if parts else ""

    expanded = re.sub(r"\{([^{}]*)\}", replace, template)
    if "{" in expanded or "}" in expanded:
        raise UsageError(f"unbalanced braces in {template!r}", path="uri_template")
    for name in values:
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise UsageError(f"{template!r} has no variable {name!r}; its variables: {known}", path=name)
    return expanded


def _expand(operator: _Operator, name: str, value: Any, prefix: int, *, is_exploded: bool) -> list[str]:
    def quoted(item: Any) -> str:
        return _quote(_text(item), operator.allows_reserved)

    if isinstance(value, Mapping):
        pairs = [(quoted(key), quoted(item)) for key, item in value.items()]
        if is_exploded:
            return [f"{key}={item}" for key, item in pairs]
        joined = ",".join(f"{key},{item}" for key, item in pairs)
    elif isinstance(value, list | tuple):
        items = [quoted(item) for item in value]
        if is_exploded:
            return [_named(operator, name, item) for item in items]
        joined = ",".join(items)
    else:
        text = _text(value)
        joined = _quote(text[:prefix] if prefix else text, operator.allows_reserved)
    return [_named(operator, name, joined)]


def _named(operator: _Operator, name: str, value: str) -> str:
    if not operator.is_named:
        return value
    return f"{name}={value}" if value else f"{name}{operator.if_empty}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _quote(text: str, allows_reserved: bool) -> str:
    from urllib.parse import quote  # noqa: PLC0415  # slow to import, and rarely needed

    if not allows_reserved:
        return quote(text, safe="~")
    # Percent-encoded triplets are kept (RFC 6570, section 3.2.3).
    return "".join(
        part if re.fullmatch("%[0-9A-Fa-f]{2}", part) else quote(part, safe=f"{_RESERVED}~")
        for part in re.split("(%[0-9A-Fa-f]{2})", text)
    )
