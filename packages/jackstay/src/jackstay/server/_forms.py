"""Forms: what a server may ask a user to fill in, from a class or a ready schema, and what came back, as that class.

A form is flat: text, numbers, yes or no, one or several of a list (client/elicitation, in every revision that has it). A
class with anything deeper is refused when the question is asked, naming the field.

Must never know how a question travels. Above: `_context`. Below: `_schema`, `_foreign`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.server._foreign import adapt, decode_foreign
from jackstay.server._problems import REFUSALS
from jackstay.server._schema import Schema, UnusableHintError, resolve, schemas_of
from jackstay.types import RequestedSchema, encode_json

# What a form is made from: a class, or a schema that is ready.
FormLike = type | Mapping[str, Json] | RequestedSchema

_FLAT = ("string", "integer", "number", "boolean")
_DROPPED = ("additionalProperties", "title", "description", "$schema")


class Form(msgspec.Struct, frozen=True):
    """A form: its schema as JSON, and the class that its answers are, if there is one."""

    schema: Schema
    hint: Any = None

    def read(self, content: Json) -> object:
        """What was filled in, as the class of the form, or as it is.

        Raises:
            UsageError: if it does not fit the form.
        """
        if self.hint is None:
            return content
        try:
            return msgspec.convert(content, self.hint, dec_hook=decode_foreign)
        except REFUSALS as error:
            raise UsageError(f"the answer does not fit the form: {error}", path="content") from error


def read_form(form: FormLike) -> Form:
    """The form that a class or a schema describes.

    Raises:
        UsageError: for one that is not flat, naming the field.
    """
    if isinstance(form, RequestedSchema):
        return Form(form.raw)
    if isinstance(form, Mapping):
        schema: Schema = msgspec.json.decode(encode_json(dict(form)))
        return Form(_check(schema, "the form"))
    name = getattr(form, "__name__", "the form")
    try:
        hint = adapt(form)
        found = schemas_of([hint], "validation")
    except (TypeError, UnusableHintError) as error:
        raise UsageError(f"{name} cannot be a form: {error}", path=name) from error
    schema = resolve(found.schemas[0], found.definitions)
    definitions = schema.pop("$defs", {})
    assert isinstance(definitions, dict)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["properties"] = {
            field: _flatten(described, definitions) for field, described in properties.items()
        }
    return Form(_check({key: part for key, part in schema.items() if key not in _DROPPED}, name), hint)


def _flatten(described: Json, definitions: dict[str, Json]) -> Json:
    """A field without references, and without "or null": an optional field is one that is not required."""
    if not isinstance(described, dict):
        return described
    reference = described.get("$ref")
    if isinstance(reference, str):
        beside = {key: part for key, part in described.items() if key != "$ref"}
        found = _flatten(definitions[reference.removeprefix("#/$defs/")], definitions)
        assert isinstance(found, dict)
        described = {**found, **beside}
    choices = described.get("anyOf")
    if isinstance(choices, list):
        real = [choice for choice in choices if choice != {"type": "null"}]
        if len(real) == 1:
            beside = {key: part for key, part in described.items() if key != "anyOf"}
            found = _flatten(real[0], definitions)
            assert isinstance(found, dict)
            described = {**found, **beside}
            if described.get("default", ...) is None:
                del described["default"]
    if "enum" in described and "type" not in described:
        described = {"type": "string", **described}
    items = described.get("items")
    if isinstance(items, dict):
        described = {**described, "items": _flatten(items, definitions)}
    return described


def _check(schema: Schema, name: str) -> Schema:
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise UsageError(f"{name} must be an object with fields", path=name)
    for field, described in properties.items():
        if not isinstance(described, dict) or not _is_flat(described):
            said = f"{name}.{field} cannot be a field of a form: text, numbers, yes or no, and choices can"
            raise UsageError(said, path=f"{name}.{field}")
    return schema


def _is_flat(described: dict[str, Json]) -> bool:
    if described.get("type") == "array":
        items = described.get("items")
        if not isinstance(items, dict) or not _has_words(items):
            return False
        return "enum" in items or "anyOf" in items or "oneOf" in items
    return described.get("type") in _FLAT and _has_words(described)


def _has_words(described: dict[str, Json]) -> bool:
    """What can be chosen is text, in every revision: a client would show a number, and could not send it."""
    choices = described.get("enum", [])
    return isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)
