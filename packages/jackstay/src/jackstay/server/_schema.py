"""JSON Schema 2020-12 from type hints.

One call takes all hints of a function together, so that a class which two parameters share is defined once. msgspec
makes the schemas; added here are the foreign classes, whose definitions are lifted to the root, and one error for all
the ways in which a hint can be impossible.

Must never know a function or a tool. Above: `_functions`, `_output`. Below: `_foreign`.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from jackstay.errors import Json
from jackstay.server._foreign import Hint, is_path, is_pydantic

Schema: TypeAlias = dict[str, Json]

_REF = "#/$defs/{name}"

# What msgspec raises for a hint it cannot use; the last two for names that do not exist in somebody's class.
UNUSABLE = (TypeError, ValueError, RuntimeError, NameError, AttributeError)


class UnusableHintError(TypeError):
    """A hint has no schema. Never leaves this room: who knows the function and the parameter says it as a UsageError."""


class Schemas(msgspec.Struct, frozen=True):
    """The schema of each hint, in their order, and the definitions that these refer to."""

    schemas: tuple[Schema, ...]
    definitions: dict[str, Json]


def schemas_of(hints: Sequence[Hint], mode: Literal["validation", "serialization"]) -> Schemas:
    """The schemas of adapted hints. `mode` is for pydantic, whose models may read and write different things.

    Raises:
        UnusableHintError: for a hint that has no schema, or that msgspec could not decode; its text is the reason.
    """
    lifted: dict[str, Json] = {}

    def describe(cls: type) -> Schema:
        if is_path(cls):
            return {"type": "string", "format": "path"}
        if is_pydantic(cls):
            return _lift(cls.model_json_schema(ref_template="#/$defs/{model}", mode=mode), cls, lifted, mode)
        raise UnusableHintError(f"JSON has no form for {getattr(cls, '__qualname__', cls)}")

    try:
        schemas, definitions = msgspec.json.schema_components(hints, schema_hook=describe, ref_template=_REF)
        for hint in hints:
            msgspec.json.Decoder[Any](hint)  # refuses some unions that have a schema
    except UNUSABLE as error:
        raise UnusableHintError(" ".join(str(error).split())) from error
    for name in lifted.keys() & definitions.keys():
        raise UnusableHintError(f"two different classes are called {name}")
    return Schemas(schemas, {**lifted, **definitions})


def _lift(schema: Schema, cls: type, lifted: dict[str, Json], mode: str) -> Schema:
    """The schema without its own definitions, which move to the root; under longer names where one is taken."""
    assert is_pydantic(cls)
    definitions = schema.pop("$defs", None)
    if not isinstance(definitions, dict):
        return schema
    if any(name in lifted and lifted[name] != found for name, found in definitions.items()):
        prefix = f"{cls.__module__}.{cls.__qualname__}".replace(".", "_").replace("<locals>", "")
        schema = cls.model_json_schema(ref_template=f"#/$defs/{prefix}_{{model}}", mode=mode)
        renamed = schema.pop("$defs")
        assert isinstance(renamed, dict)
        definitions = {f"{prefix}_{name}": found for name, found in renamed.items()}
    lifted.update(definitions)
    return schema


def object_schema(properties: dict[str, Json], required: list[Json], definitions: dict[str, Json]) -> Schema:
    """An object with these members and no others.

    Closed on purpose: a misspelt optional argument that is quietly dropped lets the default win, and nobody notices.
    Without parameters this is the form that 2025-11-25 server/tools recommends.
    """
    schema: Schema = {"type": "object"}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    if definitions:
        schema["$defs"] = definitions
    return schema


def resolve(schema: Schema, definitions: dict[str, Json]) -> Schema:
    """A schema whose root is not a reference, with the definitions it still needs beside it.

    Until 2025-11-25 the root of an output schema must say `"type": "object"` itself.
    """
    reference = schema.get("$ref")
    name = reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""
    found = definitions.get(name)
    if isinstance(found, dict):
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**found, **beside}
        if f'"#/$defs/{name}"'.encode() not in msgspec.json.encode([schema, definitions]):
            definitions = {key: value for key, value in definitions.items() if key != name}
    return {**schema, "$defs": definitions} if definitions else schema
