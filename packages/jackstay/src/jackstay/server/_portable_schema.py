"""Input schemas in a form that every host accepts. Hosts pass them to models whose APIs support a part of JSON Schema.

References are replaced by what they refer to, unless a type is recursive; every `enum` has a `type`; every array has
`items`. The test of this module has the rules and their sources.
"""

import msgspec

from jackstay.errors import Json
from jackstay.server._schema import Schema

# A schema that would be larger keeps its references: types that contain each other many times grow exponentially.
MAX_BYTES = 65_536

_PREFIX = "#/$defs/"
_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (type(None), "null"), (list, "array"),
)  # fmt: skip
# Keywords whose value is a schema, a list of schemas, or a mapping of names to schemas.
_ONE = frozenset({"additionalProperties", "contains", "items", "not", "propertyNames"})
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"$defs", "patternProperties", "properties"})


class _TooLarge(Exception):
    """The schema without references is larger than MAX_BYTES."""


def make_portable(schema: Schema) -> Schema:
    """Return an equivalent schema of an object. The order of a tuple's types is lost; the decoder checks it."""
    found = schema.get("$defs")
    definitions = found if isinstance(found, dict) else {}
    recursive = {name for name in definitions if name in _reachable(definitions[name], definitions)}
    root = {key: value for key, value in schema.items() if key != "$defs"}
    try:
        inlined = _Inliner(definitions, recursive).convert(root)
    except _TooLarge:
        recursive = set(definitions)
        inlined = _Inliner(definitions, recursive).convert(root)
    assert isinstance(inlined, dict)
    used = _reachable(inlined, definitions) & recursive
    if used:
        inliner = _Inliner(definitions, recursive)
        inlined["$defs"] = {name: inliner.convert(definitions[name]) for name in definitions if name in used}
    return inlined


def _references(schema: Json) -> set[str]:
    found: set[str] = set()
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found.add(reference.removeprefix(_PREFIX))
        for inner in schema.values():
            found |= _references(inner)
    elif isinstance(schema, list):
        for inner in schema:
            found |= _references(inner)
    return found


def _reachable(schema: Json, definitions: Schema) -> set[str]:
    """Return the names of the definitions that a schema refers to, directly or not."""
    found: set[str] = set()
    waiting = _references(schema)
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in found:
            found.add(name)
            waiting |= _references(definitions[name])
    return found


class _Inliner:
    def __init__(self, definitions: Schema, kept: set[str]) -> None:
        self._definitions = definitions
        self._kept = kept
        self._left = MAX_BYTES

    def convert(self, schema: Json) -> Json:
        if not isinstance(schema, dict):
            return schema
        reference = schema.get("$ref")
        name = reference.removeprefix(_PREFIX) if isinstance(reference, str) else ""
        if name in self._definitions and name not in self._kept:
            target = self._definitions[name]
            assert isinstance(target, dict)
            self._left -= len(msgspec.json.encode(target))
            if self._left < 0:
                raise _TooLarge
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            return self.convert({**target, **beside})
        made = {key: self._member(key, value) for key, value in schema.items()}
        discriminator = made.get("discriminator")
        if isinstance(discriminator, dict) and "mapping" in discriminator:
            made["discriminator"] = {key: value for key, value in discriminator.items() if key != "mapping"}
        values = made.get("enum", [made["const"]] if "const" in made else None)
        if isinstance(values, list) and "type" not in made:
            _add_type(made, values)
        if made.get("type") == "array":
            _add_items(made)
        return made

    def _member(self, key: str, value: Json) -> Json:
        if key in _ONE:
            return self.convert(value)
        if key in _MANY and isinstance(value, list):
            return [self.convert(item) for item in value]
        if key in _NAMED and isinstance(value, dict):
            return {name: self.convert(item) for name, item in value.items()}
        return value


def _add_type(schema: Schema, values: list[Json]) -> None:
    """Add the type of the values. Values of several types become alternatives: `type` must not be a list."""
    by_kind: dict[str, list[Json]] = {}
    for value in values:
        by_kind.setdefault(next((name for kind, name in _TYPES if isinstance(value, kind)), "object"), []).append(value)
    if len(by_kind) == 1:
        schema["type"] = next(iter(by_kind))
    elif "enum" in schema and "anyOf" not in schema:
        del schema["enum"]
        schema["anyOf"] = [{"type": kind, "enum": found} for kind, found in by_kind.items()]


def _add_items(schema: Schema) -> None:
    prefix = schema.pop("prefixItems", None)
    if not isinstance(prefix, list):
        schema.setdefault("items", {})
        return
    options: list[Json] = []
    for option in (*prefix, schema.get("items", False)):
        if option is not False and option not in options:
            options.append(option)
    schema["items"] = options[0] if len(options) == 1 else {"anyOf": options}
