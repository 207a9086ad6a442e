"""Elicitation forms: the requested schema from a class or a JSON Schema, and the response as an instance of the class.

A form is flat: strings, numbers, booleans and choices (client/elicitation, in every revision that has it). A class with
nested fields is rejected. `bool`, `str`, `int`, `float` and an enum are forms with one field.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.server._foreign import adapt, decode_foreign
from jackstay.server._portable_schema import make_portable
from jackstay.server._schema import Schema, schemas_of
from jackstay.types import DECODE_ERRORS, RequestedSchema, encode_json

# A class, or a JSON Schema.
FormLike = type | Mapping[str, Json] | RequestedSchema

_FLAT = ("string", "integer", "number", "boolean")
# The name of the only field of a form that is one value.
_VALUE = "value"
_DROPPED = ("additionalProperties", "title", "description", "$schema", "$defs")


class Form(msgspec.Struct, frozen=True):
    """The schema of a form, and the class of its responses, if there is one."""

    schema: Schema
    hint: Any = None
    # The only field, if the response is its value.
    field: str = ""

    def read(self, content: Json) -> object:
        """Convert the content of a response to the class of the form, if there is one.

        Raises:
            UsageError: if it does not match the form.
        """
        if self.hint is None:
            return content
        if self.field:
            content = content.get(self.field) if isinstance(content, dict) else None
        try:
            return msgspec.convert(content, self.hint, dec_hook=decode_foreign)
        except DECODE_ERRORS as error:
            raise UsageError(f"the content does not match the form: {error}", path="content") from error


def read_form(form: FormLike) -> Form:
    """Create a form from a class or a JSON Schema.

    Raises:
        UsageError: for a form that is not flat; the message names the field.
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
    except TypeError as error:
        raise UsageError(f"{name} cannot be used as a form: {error}", path=name) from error
    schema = make_portable({**found.schemas[0], "$defs": found.definitions})
    value = _required(schema)
    if value.get("type") in _FLAT:
        single: Schema = {"type": "object", "properties": {_VALUE: value}, "required": [_VALUE]}
        return Form(_check(single, name), hint, _VALUE)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["properties"] = {field: _required(described) for field, described in properties.items()}
    return Form(_check({key: part for key, part in schema.items() if key not in _DROPPED}, name), hint)


def _required(described: Any) -> Schema:
    """Return the schema of a field without "or null": a field is optional if it is not required."""
    schema: Schema = dict(described)
    choices = [choice for choice in described.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        del schema["anyOf"]
        schema = {**choices[0], **schema}
        if schema.get("default", ...) is None:
            del schema["default"]
    return schema


def _check(schema: Schema, name: str) -> Schema:
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise UsageError(f"{name} must be an object with fields", path=name)
    for field, described in properties.items():
        if not isinstance(described, dict) or not _is_flat(described):
            message = f"{name}.{field} cannot be a form field: only str, int, float, bool and choices of str can"
            raise UsageError(message, path=f"{name}.{field}")
    return schema


def _is_flat(described: dict[str, Json]) -> bool:
    if described.get("type") == "array":
        items = described.get("items")
        if not isinstance(items, dict) or not _has_string_choices(items):
            return False
        return "enum" in items or "anyOf" in items or "oneOf" in items
    return described.get("type") in _FLAT and _has_string_choices(described)


def _has_string_choices(described: dict[str, Json]) -> bool:
    """Choices must be strings, in every revision."""
    choices = described.get("enum", [])
    return isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)
