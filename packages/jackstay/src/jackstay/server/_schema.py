"""JSON Schema 2020-12 from type hints, by msgspec, with support for pydantic models and paths.

The hints of a function are processed together, so that a class that two parameters share is defined once.
"""

from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from jackstay.errors import Json
from jackstay.server._foreign import Hint, is_path, is_pydantic

Schema: TypeAlias = dict[str, Json]

_REF = "#/$defs/{name}"

# What msgspec raises for an unsupported hint. The last two are for unresolved names in annotations of a class.
UNUSABLE = (TypeError, ValueError, RuntimeError, NameError, AttributeError)


class UnusableHintError(TypeError):
    """A hint has no schema. Internal: callers raise a UsageError with the names instead."""


class Schemas(msgspec.Struct, frozen=True):
    """The schemas of hints, in their order, and the definitions that they refer to."""

    schemas: tuple[Schema, ...]
    definitions: dict[str, Json]


def schemas_of(
    hints: Sequence[Hint], mode: Literal["validation", "serialization"], reserved: Collection[str] = ()
) -> Schemas:
    """Return the schemas of adapted hints. `mode` is for pydantic models, whose input and output may differ.

    Definitions of pydantic models get longer names instead of the `reserved` ones.

    Raises:
        UnusableHintError: for a hint without a schema, or that msgspec cannot decode.
    """
    lifted: dict[str, Json] = {}

    def describe(cls: type) -> Schema:
        if is_path(cls):
            return {"type": "string", "format": "path"}
        if is_pydantic(cls):
            return _lift(cls.model_json_schema(ref_template="#/$defs/{model}", mode=mode), cls, lifted, mode, reserved)
        raise UnusableHintError(f"{getattr(cls, '__qualname__', cls)} has no JSON form")

    try:
        schemas, definitions = msgspec.json.schema_components(hints, schema_hook=describe, ref_template=_REF)
        for hint in hints:
            msgspec.json.Decoder[Any](hint)  # rejects some unions that have a schema
    except UNUSABLE as error:
        raise UnusableHintError(" ".join(str(error).split())) from error
    # An enum beside a model that has it, or two classes of one name.
    if not reserved and lifted.keys() & definitions.keys():
        return schemas_of(hints, mode, reserved=definitions.keys())
    return Schemas(schemas, {**lifted, **definitions})


def _lift(schema: Schema, cls: Any, lifted: dict[str, Json], mode: str, reserved: Collection[str]) -> Schema:
    """Move the definitions of a schema to `lifted`, under longer names if there is a conflict."""
    definitions: Any = schema.pop("$defs", {})
    if any(name in reserved or lifted.get(name, found) != found for name, found in definitions.items()):
        prefix = f"{cls.__module__}.{cls.__qualname__}".replace(".", "_").replace("<locals>", "")
        schema = cls.model_json_schema(ref_template=f"#/$defs/{prefix}_{{model}}", mode=mode)
        renamed: Any = schema.pop("$defs")
        definitions = {f"{prefix}_{name}": found for name, found in renamed.items()}
    lifted.update(definitions)
    return schema


def object_schema(properties: dict[str, Json], required: list[Json], definitions: dict[str, Json]) -> Schema:
    """Return the schema of an object with these members and no others.

    Other members are forbidden, because a misspelled optional argument would otherwise be ignored silently. Without
    parameters this is the form that 2025-11-25 server/tools recommends, with `properties`, which model APIs require.
    """
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    if definitions:
        schema["$defs"] = definitions
    return schema


def resolve(schema: Schema, definitions: dict[str, Json]) -> Schema:
    """Return a schema whose root is not a reference, with the definitions that it needs.

    Until 2025-11-25 the root of an output schema must have `"type": "object"` itself.
    """
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    found = definitions.get(name)
    if isinstance(found, dict):
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**found, **beside}
        if f'"#/$defs/{name}"'.encode() not in msgspec.json.encode([schema, definitions]):
            definitions = {key: value for key, value in definitions.items() if key != name}
    return {**schema, "$defs": definitions} if definitions else schema
