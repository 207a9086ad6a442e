"""Elicitation forms: the requested schema from a class or a JSON Schema, and the response as an instance of the class.

A form is flat: strings, numbers, booleans and choices (client/elicitation, in every revision that has it). A class with
nested fields is rejected. `bool`, `str`, `int`, `float` and an enum are forms with one field.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.server._foreign import adapt, decode_foreign
from jackstay.server._schema import Schema, UnusableHintError, resolve, schemas_of
from jackstay.types import DECODE_ERRORS, RequestedSchema, encode_json

# A class, or a JSON Schema.
FormLike = type | Mapping[str, Json] | RequestedSchema

_FLAT = ("string", "integer", "number", "boolean")
# The name of the only field of a form that is one value.
_VALUE = "value"
_DROPPED = ("additionalProperties", "title", "description", "$schema")


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
    except (TypeError, UnusableHintError) as error:
        raise UsageError(f"{name} cannot be used as a form: {error}", path=name) from error
    schema = resolve(found.schemas[0], found.definitions)
    definitions = schema.pop("$defs", {})
    assert isinstance(definitions, dict)
    value = _flatten(schema, definitions)
    if isinstance(value, dict) and value.get("type") in _FLAT:
        single: Schema = {"type": "object", "properties": {_VALUE: value}, "required": [_VALUE]}
        return Form(_check(single, name), hint, _VALUE)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["properties"] = {field: _flatten(described, definitions) for field, described in properties.items()}
    return Form(_check({key: part for key, part in schema.items() if key not in _DROPPED}, name), hint)


def _flatten(described: Json, definitions: dict[str, Json]) -> Json:
    """Resolve references, and remove "or null": a field is optional if it is not required."""
    if not isinstance(described, dict):
        return described
    reference = described.get("$ref")
    if isinstance(reference, str):
        described = _replace(described, "$ref", definitions[reference.removeprefix("#/$defs/")], definitions)
    choices = described.get("anyOf")
    if isinstance(choices, list):
        real = [choice for choice in choices if choice != {"type": "null"}]
        if len(real) == 1:
            described = _replace(described, "anyOf", real[0], definitions)
            if described.get("default", ...) is None:
                del described["default"]
    if "enum" in described and "type" not in described:
        described = {"type": "string", **described}
    items = described.get("items")
    if isinstance(items, dict):
        described = {**described, "items": _flatten(items, definitions)}
    return described


def _replace(described: Schema, keyword: str, by: Json, definitions: dict[str, Json]) -> Schema:
    """Return a schema with the members of another one in place of a keyword; those beside it take precedence."""
    found = _flatten(by, definitions)
    assert isinstance(found, dict)
    return {**found, **{key: part for key, part in described.items() if key != keyword}}


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
