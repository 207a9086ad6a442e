"""Schemas of apcore modules as MCP and OpenAI take them: references inlined, definitions gone, an object at the root.

Pydantic writes nested models as `$defs` and `$ref`, and not every client follows a reference. So each one is replaced by
what it names. Only places that hold schemas are walked: a default or an enum value that looks like a reference is data,
and a property may be called `$ref`.

A schema that contains itself has no inlined form. `convert_input_schema` then raises, as asked; with `keeps_cycles=True` it
keeps the definitions instead, which MCP and OpenAI both allow, and no tool is lost.

Pure: must never know a registry or a server. Above: the catalogue, the factory, the exports. Below: `jackstay.models`.
"""

from typing import Any, Protocol, TypeAlias

from jackstay.models import copied, look_up, walk_schema

# JSON that is truly unknown, and a JSON Schema that is an object.
Json: TypeAlias = Any
Schema: TypeAlias = dict[str, Json]

# How many references may lead to each other: a bound on the stack, far beyond what people nest.
MAX_DEPTH = 32

# How many schemas an inlined one may have. Twenty models that each use the next one twice would make a million.
MAX_NODES = 20_000

_DEFINITIONS = ("$defs", "definitions")


class Described(Protocol):
    """The part of an apcore `ModuleDescriptor` that is read here."""

    @property
    def module_id(self) -> str:
        """Which module."""

    @property
    def input_schema(self) -> Schema:
        """As pydantic or the author wrote it."""

    @property
    def output_schema(self) -> Schema:
        """As pydantic or the author wrote it."""


class SchemaConverter:
    """Makes schemas ready for MCP and OpenAI. Never changes what it is given. Safe in any thread."""

    def convert_input_schema(self, descriptor: Described, *, keeps_cycles: bool = False) -> Schema:
        """The input schema, with an object at its root.

        Raises:
            ValueError: for references that lead back to themselves (unless `keeps_cycles`), or too deep.
            KeyError: naming a reference that leads nowhere.
        """
        return self._ensure_object_type(self._convert(descriptor.input_schema, keeps_cycles))

    def convert_output_schema(self, descriptor: Described, *, keeps_cycles: bool = False) -> Schema:
        """The output schema; `{}` if the module promises nothing. Raises as `convert_input_schema`."""
        if not descriptor.output_schema:
            return {}
        return self._ensure_object_type(self._convert(descriptor.output_schema, keeps_cycles))

    def _convert(self, schema: Schema, keeps_cycles: bool) -> Schema:
        try:
            return self._inline_refs(schema)
        except ValueError:
            if not keeps_cycles:
                raise
            return _keep_definitions(schema)

    def _inline_refs(self, schema: Schema) -> Schema:
        """Every reference replaced by what it names, and the definitions gone."""
        return _Inliner(schema).inline()

    def _resolve_ref(self, ref_path: str, defs: Schema, visited: set[str], depth: int = 0) -> Schema:
        """What one reference names, itself inlined; for subclasses that meet references of their own."""
        found: Schema = _Inliner({"$defs": defs}).resolve(ref_path, tuple(visited), depth)
        return found

    def _ensure_object_type(self, schema: Schema) -> Schema:
        """The schema with `"type": "object"` at its root, where it says nothing else."""
        if not schema:
            return {"type": "object", "properties": {}}
        return schema if "type" in schema else {"type": "object", **schema}


class _Inliner:
    """One schema on its way. Counts what it has written, so that a small schema cannot become an endless one."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0

    def inline(self) -> Schema:
        """The whole schema."""
        bare = {key: part for key, part in self._root.items() if key not in _DEFINITIONS}
        walked: Schema = self._walk(bare, ("#",), 0)
        # The root may itself be a reference, to a schema with definitions of its own.
        return {key: part for key, part in walked.items() if key not in _DEFINITIONS}

    def resolve(self, reference: str, chain: tuple[str, ...], depth: int) -> Json:
        """What `reference` names, inlined. `chain` is what led here."""
        if reference in chain:
            raise ValueError(f"circular $ref: {' -> '.join((*chain, reference))}")
        if depth >= MAX_DEPTH:
            raise ValueError(f"$ref nested deeper than {MAX_DEPTH}: {reference}")
        return self._walk(look_up(self._root, reference), (*chain, reference), depth + 1)

    def _walk(self, node: Json, chain: tuple[str, ...], depth: int) -> Json:
        if not isinstance(node, dict):
            return node  # true and false are schemas, too
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ValueError(f"the schema has more than {MAX_NODES} parts once its references are inlined")
        made = walk_schema(node, lambda part: self._walk(part, chain, depth))
        reference = made.pop("$ref", None)
        if isinstance(reference, str):
            # What stands beside a reference says more of this place than the definition does.
            found = self.resolve(reference, chain, depth)
            if not isinstance(found, dict):
                found = {} if found else {"not": {}}  # true takes everything, and false nothing
            made = {**found, **made}
        mapping = made.get("discriminator")
        if isinstance(mapping, dict) and "mapping" in mapping:
            # It names definitions that are gone; every branch says by a constant which it is.
            made["discriminator"] = {key: part for key, part in mapping.items() if key != "mapping"}
        return made


def _keep_definitions(schema: Schema) -> Schema:
    """The schema as it is, with what its root refers to spelled out: a root must say that it is an object."""
    made: Schema = copied(schema)
    seen: set[str] = set()
    while isinstance(made.get("$ref"), str):
        reference: str = made.pop("$ref")
        if reference in seen:
            raise ValueError(f"circular $ref: {reference} is nothing but itself")
        seen.add(reference)
        made = {**copied(look_up(schema, reference)), **made}
    _check_references(schema, made)
    return made


def _check_references(root: Schema, node: Json) -> None:
    def check(part: Json) -> Json:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                look_up(root, part["$ref"])
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
]
