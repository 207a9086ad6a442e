"""The keywords of JSON Schema that are copied from a document, and the shapes that their values must have.

A keyword that is not listed here is left out: extensions, `discriminator`, `xml`, and identifiers such as `$id`.
"""

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from jackstay.errors import Json

# Checks the value of a keyword. Returns what is expected instead, or an empty string.
Check: TypeAlias = Callable[[Json], str]

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

# Keywords with one schema, a list of schemas, and a mapping to schemas.
SCHEMA = frozenset(
    [
        "items",
        "additionalProperties",
        "not",
        "contains",
        "propertyNames",
        "if",
        "then",
        "else",
        "unevaluatedProperties",
        "unevaluatedItems",
        "contentSchema",
    ]
)
SCHEMA_LIST = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
SCHEMA_MAP = frozenset(("properties", "patternProperties", "dependentSchemas"))


def _number(value: Json) -> str:
    return "" if isinstance(value, int | float) and not isinstance(value, bool) else "a number"


def _positive(value: Json) -> str:
    return _number(value) or ("" if isinstance(value, int | float) and value > 0 else "a number above 0")


def _count(value: Json) -> str:
    is_count = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value == int(value)
    return "" if is_count else "an integer of at least 0"


def _boolean(value: Json) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _string(value: Json) -> str:
    return "" if isinstance(value, str) else "a string"


def _list(value: Json) -> str:
    return "" if isinstance(value, list) else "a list"


def _strings(value: Json) -> str:
    return "" if isinstance(value, list) and all(isinstance(item, str) for item in value) else "a list of strings"


def _string_lists(value: Json) -> str:
    is_map = isinstance(value, dict) and not any(map(_strings, value.values()))
    return "" if is_map else "an object with lists of strings"


def _types(value: Json) -> str:
    names = value if isinstance(value, list) else [value]
    return "" if names and all(name in TYPES for name in names) else f"one of {', '.join(TYPES)}"


def _anything(value: Json) -> str:  # noqa: ARG001  # a Check has it
    return ""


CHECKS: dict[str, Check] = {
    "type": _types,
    "enum": _list,
    "const": _anything,
    "default": _anything,
    "required": _strings,
    "dependentRequired": _string_lists,
    "title": _string,
    "description": _string,
    "format": _string,
    "pattern": _string,
    "contentEncoding": _string,
    "contentMediaType": _string,
    "examples": _list,
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _number,
    "exclusiveMaximum": _number,
    "multipleOf": _positive,
    "uniqueItems": _boolean,
    "deprecated": _boolean,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _count),
}


def is_pattern(pattern: str) -> bool:
    """Return whether Python can compile a pattern. OpenAPI has those of ECMAScript, which differ in few points."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def types_of(values: Iterable[Json]) -> Json:
    """Return the `type` of these values: a name, or a list of names."""
    names = sorted({_type_of(value) for value in values})
    if "integer" in names and "number" in names:
        names.remove("integer")
    return names[0] if len(names) == 1 else list(names)


def _type_of(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds: tuple[tuple[type, str], ...] = (
        (str, "string"), (int, "integer"), (float, "number"), (list, "array"), (dict, "object"),
    )  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")
