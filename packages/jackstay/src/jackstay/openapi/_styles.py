"""Serialization of parameter values: the styles of OpenAPI, which follow RFC 6570.

A value is a primitive, a list of primitives, or an object of primitives. `deepObject` also accepts nested values.
"""

from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import quote

import msgspec

from jackstay.errors import Json

# RFC 3986, section 2.3.
_UNRESERVED = "-._~"
# With `allowReserved`, these characters stay as they are. `&`, `#`, `+`, `[` and `]` are encoded nevertheless, because
# they have a meaning in a query or are not allowed in one.
_RESERVED = _UNRESERVED + ":/?@!$'()*,;="

# Encodes a string for its place in a URL.
Encode: TypeAlias = Callable[[str], str]

# The styles of each location, the default first (OpenAPI 3.1, "Style Values").
STYLES: dict[str, tuple[str, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}

_DELIMITERS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_MAX_SAFE_INTEGER = 2.0**53


class UnsuitableValueError(Exception):
    """A value has no form in this style. The message states why."""


def encode_component(value: str) -> str:
    """Percent-encode a string, except for the unreserved characters."""
    return quote(value, safe=_UNRESERVED)


def encode_reserved(value: str) -> str:
    """Percent-encode a string as `allowReserved` requires."""
    return quote(value, safe=_RESERVED)


def keep(value: str) -> str:
    """Return the string unchanged: headers are not percent-encoded."""
    return value


def primitive(value: Json) -> str:
    """Return the string of a primitive value. Raises: UnsuitableValueError for a list or an object."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and abs(value) <= _MAX_SAFE_INTEGER and value.is_integer():
        return str(int(value))  # JSON does not distinguish 1.0 from 1
    if isinstance(value, int | float):
        return msgspec.json.encode(value).decode()
    kind = "null" if value is None else "a list" if isinstance(value, list) else "an object"
    raise UnsuitableValueError(f"{kind} inside a list or an object cannot be sent in this style")


def _items(value: list[Json], encode: Encode) -> list[str]:
    return [encode(primitive(item)) for item in value if item is not None]


def _members(value: dict[str, Json], encode: Encode) -> list[tuple[str, str]]:
    return [(encode(key), encode(primitive(item))) for key, item in value.items() if item is not None]


def simple(value: Json, explode: bool, encode: Encode) -> str:
    """Return a value in the style `simple`: `a,b` or `k,v` or, with `explode`, `k=v`."""
    if isinstance(value, list):
        return ",".join(_items(value, encode))
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" if explode else f"{key},{item}" for key, item in _members(value, encode))
    return encode(primitive(value))


def label(value: Json, explode: bool, encode: Encode) -> str:
    """Return a value in the style `label`: `.a,b` or, with `explode`, `.a.b` and `.k=v`."""
    if explode and isinstance(value, list):
        return "".join(f".{item}" for item in _items(value, encode))
    if explode and isinstance(value, dict):
        return "".join(f".{key}={item}" for key, item in _members(value, encode))
    return "." + simple(value, False, encode)


def matrix(name: str, value: Json, explode: bool, encode: Encode) -> str:
    """Return a value in the style `matrix`: `;name=a,b` or, with `explode`, `;name=a;name=b` and `;k=v`."""
    if explode and isinstance(value, list):
        return "".join(f";{name}={item}" for item in _items(value, encode))
    if explode and isinstance(value, dict):
        return "".join(f";{key}={item}" for key, item in _members(value, encode))
    return f";{name}={simple(value, False, encode)}"


def query(name: str, value: Json, style: str, explode: bool, encode: Encode) -> list[tuple[str, str]]:
    """Return the encoded names and values of a query parameter; none for an empty list or object."""
    encoded = encode_component(name)
    if style == "deepObject":
        return _deep(name, value, encode)
    if isinstance(value, list):
        items = _items(value, encode)
        if explode:
            return [(encoded, item) for item in items]
        return [(encoded, _DELIMITERS[style].join(items))] if items else []
    if isinstance(value, dict):
        members = _members(value, encode)
        if explode:
            return members
        return [(encoded, _DELIMITERS[style].join(part for row in members for part in row))] if members else []
    return [(encoded, encode(primitive(value)))]


def _deep(name: str, value: Json, encode: Encode) -> list[tuple[str, str]]:
    """Return `name[key]=value`. Nested keys and indices of lists are not specified; this is what most servers read."""
    children: list[tuple[str, Json]] = []
    if isinstance(value, dict):
        children = [(f"{name}[{key}]", item) for key, item in value.items()]
    elif isinstance(value, list):
        children = [(f"{name}[{index}]", item) for index, item in enumerate(value)]
    elif value is not None:
        return [(encode_component(name), encode(primitive(value)))]
    return [row for child, item in children for row in _deep(child, item, encode)]
