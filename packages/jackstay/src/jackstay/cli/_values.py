"""Parse `key=value` words as the arguments of a tool, by its input schema.

A value is used as typed if the schema allows a string; otherwise it is parsed as JSON. Without a type in the schema,
JSON is tried first, then a string. The server validates the arguments.
"""

import json
from collections.abc import Iterable, Mapping

import msgspec

from jackstay.errors import Json, UsageError, did_you_mean

# What msgspec raises for text that is not JSON, cannot be encoded, or is nested too deeply.
_INVALID_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)


def parse_arguments(words: Iterable[str], json_text: str | None, schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return the arguments: those of `--arguments` (`json_text`), updated with the words.

    Raises: UsageError that names the word.
    """
    arguments = {} if json_text is None else _object(json_text)
    known, _ = properties_of(schema)
    seen: set[str] = set()
    for key, text in map(_pair, words):
        if key in seen:
            raise UsageError(f"argument {key!r} was passed twice; for a list use JSON, as in {key}='[1, 2]'", path=key)
        seen.add(key)
        if key not in known and not schema.get("additionalProperties") and (hint := did_you_mean(key, known)):
            raise UsageError(f"unknown argument {key!r}{hint}", path=key)
        arguments[key] = parse_value(key, text, known.get(key))
    return arguments


def pairs(words: Iterable[str]) -> dict[str, str]:
    """Return `KEY=VALUE` words as strings. Raises: UsageError that names the word."""
    return dict(map(_pair, words))


def _pair(word: str) -> tuple[str, str]:
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise UsageError(f"expected KEY=VALUE, got {word!r}; example: city=Rome", path=word)
    return key, text


def parse_value(key: str, text: str, schema: Json) -> Json:
    """Return the value of one argument, by its schema.

    Raises: UsageError if the value must be JSON and is not.
    """
    types = schema_types(schema)
    if "string" in types:
        return None if text == "null" and "null" in types else text
    try:
        value: Json = msgspec.json.decode(text)
    except _INVALID_JSON as error:
        if not types:
            return text
        expected = " or ".join(sorted(types))
        raise UsageError(f"argument {key!r} must be {expected} as JSON, got {text!r}", path=key) from error
    return value


def typed_text(value: Json) -> str:
    """Return a value as a user types it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def schema_types(schema: Json) -> set[str]:
    """Return the types that a schema allows, without resolving references."""
    if not isinstance(schema, dict):
        return set()
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    types = {name for name in names if isinstance(name, str)}
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if not types and isinstance(values, list) and any(isinstance(value, str) for value in values):
        types = {"string"}
    for word in ("anyOf", "oneOf"):
        parts = schema.get(word)
        if isinstance(parts, list):
            types = types.union(*(schema_types(part) for part in parts))
    return types


def properties_of(schema: Mapping[str, Json]) -> tuple[dict[str, Json], list[Json]]:
    """Return the properties of a schema, and the names of those that are required; empty if they are invalid."""
    properties, required = schema.get("properties"), schema.get("required")
    return (properties if isinstance(properties, dict) else {}, required if isinstance(required, list) else [])


def _object(text: str) -> dict[str, Json]:
    try:
        value = msgspec.json.decode(text)
    except _INVALID_JSON as error:
        raise UsageError(f"--arguments is not JSON: {error}", path="--arguments") from error
    if not isinstance(value, dict):
        raise UsageError('--arguments must be a JSON object such as {"city": "Rome"}', path="--arguments")
    return value
