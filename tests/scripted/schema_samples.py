"""Sample values of a JSON Schema, with characters that must be encoded where the schema allows them."""

import re
from typing import Any

from jackstay.openapi import max_match_length

FORMATS = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "duration": "PT1S",
    "uuid": "12345678-1234-5678-1234-567812345678",
    "uri": "https://example.org/a?b=c&d",
    "email": "a@example.org",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
}
# Strings that are tried in this order, until one matches the pattern.
STRINGS = ("a b+c&d=é%,;|", "abc", "A1", "1.2", "YWJj", "refs/heads/main", "a" * 40, "sha256:" + "a" * 64, "2026-01-02")


def sample(schema: Any, variant: int = 0) -> Any:
    """Return a value that is valid for most schemas. Another `variant` chooses other alternatives."""
    return _sample(schema, schema, variant, 0)


def _sample(schema: Any, root: Any, variant: int, depth: int) -> Any:
    if isinstance(schema, bool) or not schema:
        return "any"
    schema = _flat(schema, root, variant)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        values = [value for value in schema["enum"] if value is not None]
        return values[variant % len(values)]
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = next(name for name in ([kinds] if isinstance(kinds, str) else kinds) if name != "null" or kinds == "null")
    if kind == "object":
        return _object(schema, root, variant, depth)
    if kind == "array":
        count = max(schema.get("minItems", 0), min(2, schema.get("maxItems", 2)))
        items = [_sample(schema.get("items", {}), root, variant + index, depth + 1) for index in range(count)]
        return [item for index, item in enumerate(items) if item not in items[:index]]
    if kind in ("integer", "number"):
        return _number(schema, kind)
    return {"boolean": variant % 2 == 0, "null": None}.get(kind, None if kind == "null" else _string(schema, variant))


def _flat(schema: dict[str, Any], root: Any, variant: int) -> dict[str, Any]:
    """Resolve references, join `allOf`, and choose one of `anyOf` or `oneOf`."""
    if "$ref" in schema:
        target = root["$defs"][schema["$ref"].rpartition("/")[2]]
        return _flat({**target, **{key: item for key, item in schema.items() if key != "$ref"}}, root, variant)
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            options = [option for option in schema[keyword] if option != {"type": "null"}]
            option = _flat(options[variant % len(options)], root, variant)
            rest = {key: item for key, item in schema.items() if key != keyword}
            joined = _join(rest, option)
            if "properties" in rest and "properties" not in option:  # alternatives of required members
                names = joined.get("required", [])
                joined["properties"] = {name: joined["properties"].get(name, {}) for name in names}
            return _flat(joined, root, variant)
    if "allOf" in schema:
        joined = {key: item for key, item in schema.items() if key != "allOf"}
        for option in schema["allOf"]:
            joined = _join(joined, _flat(option, root, variant))
        return _flat(joined, root, variant)
    return schema


def _join(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    joined = {**first, **second}
    if "properties" in first or "properties" in second:
        joined["properties"] = {**first.get("properties", {}), **second.get("properties", {})}
    joined["required"] = list(dict.fromkeys([*first.get("required", []), *second.get("required", [])]))
    return joined


def _object(schema: dict[str, Any], root: Any, variant: int, depth: int) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if {"text", "base64"} <= properties.keys():  # a file, which has one of the two
        return (
            {"base64": "AAH/", "filename": "a.bin"} if variant % 2 else {"text": "line\r\né", "filename": 'a "b".txt'}
        )
    if depth > 5:
        # Deeper than this, a required member that contains itself has no value.
        properties = {name: properties[name] for name in required if name in properties and depth < 20}
    found = {name: _sample(part, root, variant, depth + 1) for name, part in properties.items()}
    if not found and isinstance(schema.get("additionalProperties"), dict):
        found = {"key": _sample(schema["additionalProperties"], root, variant, depth + 1)}
    return found


def _number(schema: dict[str, Any], kind: str) -> float:
    low = schema.get("minimum", schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else None)
    high = schema.get("maximum")
    value: float = low if low is not None else 7 if high is None else min(7, high)
    return value + 0.5 if kind == "number" and high is None else value


def _string(schema: dict[str, Any], variant: int) -> str:
    if schema.get("format") in FORMATS:
        return FORMATS[schema["format"]]
    start = variant % 4
    for text in STRINGS[start:] + STRINGS[:start]:
        fitted = text[: schema.get("maxLength", 1000)].ljust(schema.get("minLength", 0), "x")
        if "pattern" not in schema or _matches(schema["pattern"], fitted):
            return fitted
    return STRINGS[0]


def _matches(pattern: str, text: str) -> bool:
    return len(text) > max_match_length(pattern) or re.search(pattern, text) is not None
