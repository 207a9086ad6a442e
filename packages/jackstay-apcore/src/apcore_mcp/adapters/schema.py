"""Schemas of apcore modules for MCP and OpenAI: references inlined, definitions removed, an object at the root.

Pydantic writes nested models as `$defs` and `$ref`, and not every client follows references. Only positions that
contain schemas are visited: a default or an enum value that looks like a reference is data. A recursive schema cannot
be inlined; with `keeps_cycles=True` its definitions are kept, which MCP and OpenAI allow.
"""

from typing import Any, Protocol, TypeAlias

from jackstay.models import deep_copy, resolve_reference, walk_schema

# Any JSON value, and a JSON Schema object.
Json: TypeAlias = Any
Schema: TypeAlias = dict[str, Json]

# The maximum nesting of references.
MAX_DEPTH = 32

# The maximum number of subschemas after inlining. Twenty models that each use the next one twice would have a million.
MAX_NODES = 20_000

_DEFINITIONS = ("$defs", "definitions")

# Keywords that only describe.
_ANNOTATIONS = ("$schema", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")


class UnsupportedReferenceError(ValueError, KeyError):
    """A reference to another document, which is not fetched. A ValueError, as in apcore-mcp."""


class Described(Protocol):
    """The part of an apcore `ModuleDescriptor` that is read here."""

    @property
    def module_id(self) -> str:
        """The id of the module."""

    @property
    def input_schema(self) -> Schema:
        """The schema as Pydantic or the author wrote it."""

    @property
    def output_schema(self) -> Schema:
        """The schema as Pydantic or the author wrote it."""


class SchemaConverter:
    """Converts schemas for MCP and OpenAI. Does not change its arguments. Thread-safe.

    `strict` forbids additional properties in every object that does not mention them.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._is_strict = strict

    def convert_input_schema(
        self, descriptor: Described, *, keeps_cycles: bool = False, strict: bool | None = None
    ) -> Schema:
        """Return the input schema, with an object at its root. `strict` replaces that of the converter.

        Raises:
            ValueError: for circular references (unless `keeps_cycles`) or too deep nesting.
            KeyError: for a reference that cannot be resolved.
        """
        return self._ensure_object_type(self._convert(descriptor.input_schema, keeps_cycles, strict))

    def convert_output_schema(
        self, descriptor: Described, *, keeps_cycles: bool = False, strict: bool | None = None
    ) -> Schema:
        """Return the output schema, or `{}` if the module has none. Raises as `convert_input_schema`."""
        if not descriptor.output_schema:
            return {}
        return self._ensure_object_type(self._convert(descriptor.output_schema, keeps_cycles, strict))

    def _convert(self, schema: Schema, keeps_cycles: bool, strict: bool | None) -> Schema:
        try:
            converted = self._inline_refs(schema)
        except ValueError:
            if not keeps_cycles:
                raise
            converted = _keep_definitions(schema)
        return _close(converted) if (self._is_strict if strict is None else strict) else converted

    def _inline_refs(self, schema: Schema) -> Schema:
        """Replace every reference by its target and remove the definitions."""
        return _Inliner(schema).inline()

    def _resolve_ref(self, ref_path: str, defs: Schema, visited: set[str], depth: int = 0) -> Schema:
        """Return the inlined target of one reference, for subclasses."""
        found: Schema = _Inliner({"$defs": defs}).resolve(ref_path, tuple(visited), depth)
        return found

    def _ensure_object_type(self, schema: Schema) -> Schema:
        """Add `"type": "object"` at the root, if it has no type, or has properties and the type of another value."""
        if not schema:
            return {"type": "object", "properties": {}}
        kinds = schema.get("type")
        is_object = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
        if "type" not in schema or ("properties" in schema and not is_object):
            return {**schema, "type": "object"} if "type" in schema else {"type": "object", **schema}
        return schema


class _Inliner:
    """Inlines one schema, and limits the number of subschemas, because inlining can be exponential."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0
        self._anchors: Schema | None = None
        # JSON Schema draft 7, section 8.3: keywords beside a reference are ignored.
        self._only_references = "/draft-0" in str(root.get("$schema"))

    def inline(self) -> Schema:
        """Return the inlined schema."""
        bare = {key: part for key, part in self._root.items() if key not in _DEFINITIONS}
        walked: Schema = self._walk(bare, ("#",), 0)
        # The root may be a reference to a schema with definitions of its own.
        return {key: part for key, part in walked.items() if key not in _DEFINITIONS}

    def resolve(self, reference: str, chain: tuple[str, ...], depth: int) -> Json:
        """Return the inlined target of `reference`. `chain` has the references that led here."""
        if depth >= MAX_DEPTH:
            raise ValueError(f"$ref nested deeper than {MAX_DEPTH}: {reference}")
        base = self._root.get("$id")
        if isinstance(base, str) and base and reference.startswith(base.rstrip("#") + "#"):
            reference = reference[len(base.rstrip("#")) :]  # to this schema, by its absolute URI
        if not reference.startswith("#"):
            raise UnsupportedReferenceError(f"Unsupported $ref format: {reference} is outside this schema")
        if reference in chain:
            raise ValueError(f"Circular $ref detected: {' -> '.join((*chain, reference))}")
        if self._anchors is None:
            self._anchors = _read_anchors(self._root)
        target = self._anchors.get(reference)
        if target is None:
            target = resolve_reference(self._root, reference)
        return self._walk(target, (*chain, reference), depth + 1)

    def _walk(self, node: Json, chain: tuple[str, ...], depth: int) -> Json:
        if not isinstance(node, dict):
            return node  # true and false are schemas as well
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ValueError(f"the schema has more than {MAX_NODES} subschemas after inlining its references")
        made = walk_schema(node, lambda part: self._walk(part, chain, depth))
        if depth > 0:
            made.pop("$anchor", None)  # a target may be inlined more than once
        reference = made.pop("$ref", None)
        if isinstance(reference, str):
            # Keywords beside a reference take precedence over the definition.
            found = self.resolve(reference, chain, depth)
            if self._only_references:
                made = {key: part for key, part in made.items() if key in _ANNOTATIONS or key.startswith("x-")}
            if not isinstance(found, dict):
                if not made:
                    return found
                found = {} if found else {"not": {}}  # true accepts everything, false nothing
            made = {**found, **made}
        mapping = made.get("discriminator")
        if isinstance(mapping, dict) and "mapping" in mapping:
            # The mapping refers to removed definitions; every branch has a constant anyway.
            made["discriminator"] = {key: part for key, part in mapping.items() if key != "mapping"}
        return made


def _read_anchors(root: Schema) -> Schema:
    """Return the subschemas with `$anchor` by reference. Those inside another document (`$id`) are not included."""
    found: Schema = {}

    def read(part: Json) -> Json:
        if isinstance(part, dict) and (part is root or not isinstance(part.get("$id"), str)):
            if isinstance(part.get("$anchor"), str):
                found.setdefault(f"#{part['$anchor']}", part)
            walk_schema(part, read)
        return part

    read(root)
    return found


def _close(schema: Json) -> Json:
    """Forbid additional properties in every object that does not mention them."""
    if not isinstance(schema, dict):
        return schema
    made = walk_schema(schema, _close)
    kinds = made.get("type")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds) or (kinds is None and "properties" in made):
        made.setdefault("additionalProperties", False)
    return made


def _keep_definitions(schema: Schema) -> Schema:
    """Return the schema with its definitions, and with a reference at its root inlined, because a root needs a type."""
    made: Schema = deep_copy(schema)
    seen: set[str] = set()
    while isinstance(made.get("$ref"), str):
        reference: str = made.pop("$ref")
        if reference in seen:
            raise ValueError(f"Circular $ref detected: {reference} refers only to itself")
        seen.add(reference)
        made = {**deep_copy(resolve_reference(schema, reference)), **made}
    _check_references(schema, made)
    return made


def _check_references(root: Schema, node: Json) -> None:
    def check(part: Json) -> Json:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                resolve_reference(root, part["$ref"])
            walk_schema(part, check)
        return part

    check(node)


__all__ = [
    "MAX_DEPTH",
    "MAX_NODES",
    "Described",
    "Json",
    "Schema",
    "SchemaConverter",
    "UnsupportedReferenceError",
]
