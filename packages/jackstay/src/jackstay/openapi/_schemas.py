"""Translates the schemas of a document to JSON Schema 2020-12, for one direction: requests or responses.

References are replaced by what they refer to, because many hosts support no `$ref`. Only a schema that refers to itself
becomes a `$ref` to `$defs`. If the result would be larger than `MAX_INLINE_BYTES`, all named schemas do.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from jackstay.errors import Json
from jackstay.openapi._document import Document, Node, Object, children
from jackstay.openapi._patterns import is_linear
from jackstay.openapi._problems import OpenApiError, join
from jackstay.openapi._vocabulary import CHECKS, SCHEMA, SCHEMA_LIST, SCHEMA_MAP, is_pattern, types_of

Direction: TypeAlias = Literal["request", "response"]

# A schema in the document, and its place.
Place: TypeAlias = tuple[Json, str]

# Combines translated schemas to one.
Combine: TypeAlias = Callable[[Mapping[str, Json]], Object]

# The size of a schema, as JSON, above which named schemas are shared instead of repeated.
MAX_INLINE_BYTES = 131_072
# The limits for one tool, as in `Server.add_tool()`.
MAX_SCHEMA_BYTES = 1_048_576
MAX_SCHEMA_DEPTH = 64

# Longer defaults and examples are left out.
MAX_NOTE_BYTES = 256

# Properties with this keyword are absent in the direction.
_HIDDEN: dict[Direction, str] = {"request": "readOnly", "response": "writeOnly"}
_DEFINITIONS = "#/$defs/"


class Schemas:
    """The schemas of a document in one direction."""

    def __init__(self, document: Document, direction: Direction) -> None:
        self._inline = Translator(document, direction, is_shared=False)
        self._shared = Translator(document, direction, is_shared=True)

    def translate(self, places: Mapping[str, Place], combine: Combine, pointer: str) -> Object:
        """Translate the schemas at these places, and combine them to one schema with `$defs`. `pointer` is its place.

        Raises: OpenApiError for a schema that is invalid or too large.
        """
        try:
            return self._inline.complete(places, combine, pointer, MAX_INLINE_BYTES)
        except TooLargeError:
            return self._shared.complete(places, combine, pointer, MAX_SCHEMA_BYTES)


class TooLargeError(OpenApiError):
    """A schema is too large or too deep."""


class Translator:
    """Translates schemas. `is_shared`: every reference becomes a `$ref` to `$defs`, not only cyclic ones."""

    def __init__(self, document: Document, direction: Direction, *, is_shared: bool) -> None:
        self._document = document
        self._hidden = _HIDDEN[direction]
        self._is_shared = is_shared
        self._translated: dict[str, Json] = {}
        self._names: dict[str, str] = {}
        self._references: dict[str, str] = {}
        self._definitions: dict[str, tuple[Json, int, int, set[str]]] = {}
        self._depth = 0

    def complete(self, places: Mapping[str, Place], combine: Combine, pointer: str, limit: int) -> Object:
        """Translate schemas, combine them, and add `$defs`. Raises: OpenApiError; TooLargeError."""
        self._depth = 0
        combined = combine({name: self.schema(value, place) for name, (value, place) in places.items()})
        size, depth = _measure(combined)
        needed, definitions = _local_references(combined), dict[str, Json]()
        while needed and size <= limit:
            name = needed.pop()
            definitions[name], added, below, inner = self._definition(name)
            size, depth = size + added, max(depth, below + 2)
            needed |= inner - definitions.keys()
        if size > limit:
            raise TooLargeError(
                f"the schema is too large: at least {size} bytes, the limit is {limit}", pointer=pointer
            )
        if depth > MAX_SCHEMA_DEPTH:
            message = f"the schema is nested too deeply: {depth} levels, the limit is {MAX_SCHEMA_DEPTH}"
            raise TooLargeError(message, pointer=pointer)
        return {**combined, "$defs": dict(sorted(definitions.items()))} if definitions else combined

    def _definition(self, name: str) -> tuple[Json, int, int, set[str]]:
        """Return a schema of `$defs`, its size and depth, and the names that it refers to."""
        found = self._definitions.get(name)
        if found is None:
            self._depth = 0
            reference = self._references[name]
            target = self._target(reference, reference)
            found = self._definitions[name] = target, *_measure(target), _local_references(target)
        return found

    def schema(self, value: Json, pointer: str) -> Json:
        """Translate one schema. Raises: OpenApiError; TooLargeError, if it is too deep."""
        if isinstance(value, bool):
            return value
        if not isinstance(value, dict):
            raise OpenApiError(f"a schema must be an object, not {type(value).__name__}", pointer=pointer)
        self._depth += 1
        if self._depth > MAX_SCHEMA_DEPTH:
            message = f"the schema is nested too deeply: the limit is {MAX_SCHEMA_DEPTH} levels"
            raise TooLargeError(message, pointer=pointer)
        try:
            if "$ref" in value:
                return self._reference(value, pointer)
            if "$dynamicRef" in value or "$recursiveRef" in value:
                raise OpenApiError("dynamic references are not supported", pointer=pointer)
            return self._keywords(value, pointer)
        finally:
            self._depth -= 1

    # --- references ---------------------------------------------------------------------------------------------------

    def _reference(self, value: Object, pointer: str) -> Json:
        reference = value["$ref"]
        self._document.target(reference, join(pointer, "$ref"))  # checks that it exists
        assert isinstance(reference, str)
        if self._is_shared or self._document.is_cyclic(reference):
            found: Json = {"$ref": _DEFINITIONS + self._name(reference)}
        else:
            found = self._target(reference, pointer)
        siblings = {} if self._document.is_30 else {key: item for key, item in value.items() if key != "$ref"}
        if self._document.is_30 and isinstance(found, dict) and isinstance(value.get("description"), str):
            siblings = {"description": value["description"]}  # not in 3.0, but common and harmless
        if not siblings:
            return found
        beside = self._keywords(siblings, pointer)
        if not beside or not isinstance(found, dict):
            return found
        notes = beside.keys() <= {"description", "title", "default", "examples", "deprecated"}
        if (notes and "$ref" not in found) or not beside.keys() & found.keys():
            return {**found, **beside}
        return {"allOf": [found], **beside}

    def _target(self, reference: str, pointer: str) -> Json:
        if reference not in self._translated:
            target = self._document.target(reference, pointer)
            self._translated[reference] = self.schema(target.value, target.pointer)
        return self._translated[reference]

    def _name(self, reference: str) -> str:
        """Return the name of a schema in `$defs`: that of the component, with a number if it is already taken."""
        if reference not in self._names:
            last = reference.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
            plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in last) or "root"
            name, number = plain, 2
            while name in self._references:
                name, number = f"{plain}_{number}", number + 1
            self._names[reference], self._references[name] = name, reference
        return self._names[reference]

    # --- keywords -----------------------------------------------------------------------------------------------------

    def _keywords(self, value: Object, pointer: str) -> Object:
        value = _from_30(value) if self._document.is_30 else _examples(value)
        found: Object = {}
        for keyword, item in value.items():
            place = join(pointer, keyword)
            if keyword in SCHEMA:
                found[keyword] = self.schema(item, place)
            elif keyword in SCHEMA_LIST:
                if not isinstance(item, list) or not item:
                    raise OpenApiError(f"{keyword} must be a list of schemas", pointer=place)
                found[keyword] = [self.schema(part, join(place, index)) for index, part in enumerate(item)]
            elif keyword in SCHEMA_MAP:
                found[keyword] = self._map(keyword, item, place)
            elif keyword in CHECKS:
                expected = CHECKS[keyword](item)
                if expected:
                    raise OpenApiError(f"{keyword} must be {expected}, not {item!r:.100}", pointer=place)
                if keyword not in ("default", "examples") or _is_note(item):
                    found[keyword] = list(dict.fromkeys(item)) if keyword == "required" else item  # type: ignore[arg-type]
        self._hide(found, value)
        patterns = found.get("patternProperties")
        if isinstance(patterns, dict) and not all(is_pattern(name) and is_linear(name) for name in patterns):
            for keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties"):
                found.pop(keyword, None)
        return _tidy(found, is_nullable=self._document.is_30 and value.get("nullable") is True)

    def _map(self, keyword: str, item: Json, place: str) -> Object:
        if not isinstance(item, dict):
            raise OpenApiError(f"{keyword} must be an object with schemas", pointer=place)
        return {name: self.schema(part, join(place, name)) for name, part in item.items()}

    def _hide(self, found: Object, value: Object) -> None:
        """Remove properties that are absent in this direction."""
        properties, required = found.get("properties"), found.get("required")
        sources = value.get("properties")
        if not isinstance(properties, dict) or not isinstance(sources, dict):
            return
        hidden = {name for name, source in sources.items() if self._is_hidden(source)}
        for name in hidden:
            properties.pop(name)
        if isinstance(required, list):
            found["required"] = [name for name in required if name not in hidden]

    def _is_hidden(self, source: Json) -> bool:
        if not isinstance(source, dict):
            return False
        if source.get(self._hidden) is True:
            return True
        return "$ref" in source and self._document.resolve(Node(source, "#")).value.get(self._hidden) is True


def _is_note(value: Json) -> bool:
    """Return whether a default or examples are short, and contain nothing that looks like a reference."""
    encoded = msgspec.json.encode(value)
    return len(encoded) <= MAX_NOTE_BYTES and b'"$' not in encoded


def _from_30(value: Object) -> Object:
    """Translate the keywords of 3.0 that differ from JSON Schema, except `nullable`."""
    value = _examples(value)
    for bound in ("Minimum", "Maximum"):
        is_exclusive = value.get(f"exclusive{bound}")
        if isinstance(is_exclusive, bool):
            value = {key: item for key, item in value.items() if key != f"exclusive{bound}"}
            if is_exclusive and bound.lower() in value:
                value[f"exclusive{bound}"] = value.pop(bound.lower())
    return value


def _examples(value: Object) -> Object:
    """Rename `example`, which JSON Schema does not have."""
    if "example" not in value and not isinstance(value.get("examples"), dict):
        return value
    copy = {key: item for key, item in value.items() if key not in ("example", "examples")}
    if "example" in value:
        copy["examples"] = [value["example"]]
    return copy


def _tidy(found: Object, *, is_nullable: bool) -> Object:
    """Add the types that hosts require, and null; leave out what cannot be compiled."""
    pattern = found.get("pattern")
    if isinstance(pattern, str) and not is_pattern(pattern):
        del found["pattern"]
    values = found.get("enum", [found["const"]] if "const" in found else None)
    if "type" not in found and isinstance(values, list) and values:
        found["type"] = types_of(values)
    kind = found.get("type")
    if isinstance(kind, list):
        kind = found["type"] = kind[0] if len(kind) == 1 else list(dict.fromkeys(map(str, kind)))
    if not is_nullable:
        return found
    if kind is not None:
        kinds = kind if isinstance(kind, list) else [kind]
        found["type"] = [*kinds, *(["null"] if "null" not in kinds else [])]
        if isinstance(values, list) and "enum" in found and None not in values:
            found["enum"] = [*values, None]
        return found
    if found.keys() & SCHEMA_LIST:
        notes: Object = {key: found.pop(key) for key in ("title", "description", "default") if key in found}
        return {**notes, "anyOf": [found, {"type": "null"}]}
    return found


# --- measuring --------------------------------------------------------------------------------------------------------


def _measure(schema: Json) -> tuple[int, int]:
    """Return the size as JSON and the depth. Parts that occur several times are visited once."""
    known: dict[int, tuple[int, int]] = {}

    def measure(value: Json) -> tuple[int, int]:
        if not isinstance(value, dict | list):
            return (len(value) + 2 if isinstance(value, str) else 6), 1
        found = known.get(id(value))
        if found is None:
            keys = sum(len(key) + 3 for key in value) if isinstance(value, dict) else 0
            parts = [measure(child) for child in children(value)]
            size = 2 + keys + len(parts) + sum(size for size, _ in parts)
            found = known[id(value)] = size, 1 + max((depth for _, depth in parts), default=0)
        return found

    return measure(schema)


def _local_references(schema: Json) -> set[str]:
    """Return the names of `$defs` that a schema refers to. Parts that occur several times are visited once."""
    seen: set[int] = set()
    names: set[str] = set()
    stack: list[Json] = [schema]
    while stack:
        value = stack.pop()
        if not isinstance(value, dict | list) or id(value) in seen:
            continue
        seen.add(id(value))
        reference = value.get("$ref") if isinstance(value, dict) else None
        if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
            names.add(reference.removeprefix(_DEFINITIONS))
        stack += children(value)
    return names
