"""`key=value` words as the arguments of a tool, typed by its schema.

What the schema calls a string stays as it was typed; anything else is JSON. Where the schema does not say, JSON is tried,
and what is none is a string. The server has the last word on whether the arguments are right: here only what cannot be
understood is refused.

Above: `_call`. Below: nothing.
"""

import json
from collections.abc import Iterable, Mapping

from jackstay.errors import Json, UsageError


def arguments_of(words: Iterable[str], whole: str | None, schema: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments: those of `--arguments` (`whole`), and the words on top.

    Raises: UsageError, naming the word.
    """
    arguments = {} if whole is None else _object(whole)
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    seen: set[str] = set()
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UsageError(f"{word!r} is not key=value: an argument is written like city=Rome", path=word)
        if key in seen:
            raise UsageError(f"{key} is given twice; a list is written as JSON: {key}='[1, 2]'", path=key)
        seen.add(key)
        arguments[key] = value_of(key, text, known.get(key))
    return arguments


def value_of(key: str, text: str, schema: Json) -> Json:
    """What was typed for one argument, by the schema of that argument.

    Raises: UsageError for what is no JSON where it must be.
    """
    types = types_of(schema)
    if "string" in types:
        return None if text == "null" and "null" in types else text
    try:
        return _json(text)
    except ValueError as error:
        if not types:
            return text
        raise UsageError(
            f"{key} must be {' or '.join(sorted(types))}, and {text!r} is not JSON", path=key
        ) from error


def types_of(schema: Json) -> set[str]:
    """The types that a schema allows, as far as it says so itself: no reference is followed."""
    if not isinstance(schema, dict):
        return set()
    said = schema.get("type")
    types = (
        {said}
        if isinstance(said, str)
        else {one for one in said if isinstance(one, str)}
        if isinstance(said, list)
        else set()
    )
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if not types and isinstance(values, list) and any(isinstance(value, str) for value in values):
        types = {"string"}
    for word in ("anyOf", "oneOf"):
        parts = schema.get(word)
        if isinstance(parts, list):
            types = types.union(*(types_of(part) for part in parts))
    return types


def _object(text: str) -> dict[str, Json]:
    try:
        value = _json(text)
    except ValueError as error:
        raise UsageError(f"--arguments is not JSON: {error}", path="--arguments") from error
    if not isinstance(value, dict):
        raise UsageError("--arguments must be a JSON object", path="--arguments")
    return value


def _json(text: str) -> Json:
    """The value. Raises: ValueError."""
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")
