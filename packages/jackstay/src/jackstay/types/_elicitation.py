"""Elicitation: requests to a user, in a form or at a URL, and their results.

A form is a flat JSON Schema object. The class of a field is chosen by its members, because several share a `type`; an
unknown field becomes `UnknownSchema`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from jackstay.types._body import Body, Json, Maybe, MaybeJson, Number, OnWire, constant
from jackstay.types._messages import NotificationParams, Result, TaskAugmentedRequestParams


class FormFieldSchema(Body, frozen=True, kw_only=True):
    """The members that every known field has."""

    title: Maybe[str] = None
    description: Maybe[str] = None


class StringFieldSchema(FormFieldSchema, frozen=True, kw_only=True):
    """The members of every field whose value is a string."""

    type: Literal["string"] = constant("string")
    # Since 2025-11-25, as on every field but the boolean one.
    default: Maybe[str] = None


class StringSchema(StringFieldSchema, frozen=True, kw_only=True):
    """A text field."""

    min_length: Maybe[int] = None
    max_length: Maybe[int] = None
    # "email", "uri", "date" or "date-time"; open.
    format: Maybe[str] = None


class NumberSchema(FormFieldSchema, frozen=True, kw_only=True):
    """A number or an integer."""

    type: Literal["number", "integer"]
    minimum: Maybe[Number] = None
    maximum: Maybe[Number] = None
    default: Maybe[Number] = None


class BooleanSchema(FormFieldSchema, frozen=True, kw_only=True):
    """A boolean."""

    type: Literal["boolean"] = constant("boolean")
    default: Maybe[bool] = None


class EnumOption(Body, frozen=True):
    """A value and its title."""

    const: str
    title: str


class UntitledSingleSelectEnumSchema(StringFieldSchema, frozen=True, kw_only=True):
    """One of several values without titles."""

    enum: Sequence[str]


class TitledSingleSelectEnumSchema(StringFieldSchema, frozen=True, kw_only=True):
    """One of several values with titles (2025-11-25)."""

    one_of: Sequence[EnumOption]


class LegacyTitledEnumSchema(StringFieldSchema, frozen=True, kw_only=True):
    """One of several values with titles in `enum_names`. In 2025-06-18: EnumSchema."""

    enum: Sequence[str]
    enum_names: Maybe[Sequence[str]] = None


class UntitledItems(Body, frozen=True, kw_only=True):
    """The values of an UntitledMultiSelectEnumSchema."""

    enum: Sequence[str]
    type: Literal["string"] = constant("string")


class TitledItems(Body, frozen=True, kw_only=True):
    """The values of a TitledMultiSelectEnumSchema."""

    any_of: Sequence[EnumOption]


class ArrayFieldSchema(FormFieldSchema, frozen=True, kw_only=True):
    """The members of every field whose value is an array (2025-11-25)."""

    type: Literal["array"] = constant("array")
    min_items: Maybe[int] = None
    max_items: Maybe[int] = None
    default: Maybe[Sequence[str]] = None


class UntitledMultiSelectEnumSchema(ArrayFieldSchema, frozen=True, kw_only=True):
    """Any of several values without titles (2025-11-25)."""

    items: UntitledItems


class TitledMultiSelectEnumSchema(ArrayFieldSchema, frozen=True, kw_only=True):
    """Any of several values with titles (2025-11-25)."""

    items: TitledItems


class UnknownSchema(Body, frozen=True):
    """A field of an unknown kind. `raw` is the complete object."""

    type: MaybeJson = None


# One of several values.
SingleSelectEnumSchema: TypeAlias = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema

# Any of several values.
MultiSelectEnumSchema: TypeAlias = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema

# Every kind of choice.
EnumSchema: TypeAlias = SingleSelectEnumSchema | MultiSelectEnumSchema | LegacyTitledEnumSchema

# A field of a form.
PrimitiveSchemaDefinition: TypeAlias = StringSchema | NumberSchema | BooleanSchema | EnumSchema | UnknownSchema


def choose_schema(members: dict[str, Json]) -> type[Body]:
    """Return the class by `type` and by the list of values that is present."""
    match members:
        case {"type": "string", "oneOf": _}:
            return TitledSingleSelectEnumSchema
        case {"type": "string", "enumNames": _}:
            return LegacyTitledEnumSchema
        case {"type": "string", "enum": _}:
            return UntitledSingleSelectEnumSchema
        case {"type": "string"}:
            return StringSchema
        case {"type": "number" | "integer"}:
            return NumberSchema
        case {"type": "boolean"}:
            return BooleanSchema
        case {"type": "array", "items": {"anyOf": _}}:
            return TitledMultiSelectEnumSchema
        case {"type": "array", "items": {"type": "string", "enum": _}}:
            return UntitledMultiSelectEnumSchema
        case _:
            return UnknownSchema


FormField: TypeAlias = OnWire[PrimitiveSchemaDefinition, StringSchema, choose_schema]


class RequestedSchema(Body, frozen=True):
    """A form: its fields by name, in display order."""

    properties: Mapping[str, FormField]
    required: Maybe[Sequence[str]] = None
    type: Literal["object"] = constant("object")
    # Since 2025-11-25.
    schema: Maybe[str] = msgspec.field(default=None, name="$schema")


class ElicitRequestParams(TaskAugmentedRequestParams, frozen=True, kw_only=True):
    """Params of `elicitation/create` (2025-06-18). Decoding returns one of the two subclasses below."""

    message: str

    @staticmethod
    def choose(members: dict[str, Json]) -> type[Body] | None:
        """Return the class by `mode`; an absent one means a form."""
        mode = members.get("mode")
        if mode == "url":
            return ElicitRequestURLParams
        return ElicitRequestFormParams if mode in (None, "form") else None


class ElicitRequestFormParams(ElicitRequestParams, frozen=True, kw_only=True):
    """An elicitation by a form."""

    requested_schema: RequestedSchema
    # Since 2025-11-25.
    mode: Maybe[Literal["form"]] = None


class ElicitRequestURLParams(ElicitRequestParams, frozen=True, kw_only=True):
    """An elicitation at a URL (2025-11-25). Show all of it, do not fetch it, open it only with consent."""

    url: str
    mode: Literal["url"] = constant("url")
    # 2025-11-25 only.
    elicitation_id: Maybe[str] = None


# The value of a field. No revision has null, but some clients send it for an empty field.
ElicitValue: TypeAlias = str | int | float | bool | Sequence[str] | None


class ElicitResult(Result, frozen=True):
    """The result of `elicitation/create`. `content` is present only with "accept", and only for a form."""

    action: Literal["accept", "decline", "cancel"]
    content: Maybe[Mapping[str, ElicitValue]] = None


class ElicitationCompleteNotificationParams(NotificationParams, frozen=True):
    """Params of `notifications/elicitation/complete` (2025-11-25 only)."""

    elicitation_id: str


class URLElicitationRequiredErrorData(Body, frozen=True):
    """The data of error -32042 (2025-11-25 only): the URLs that the user must visit first."""

    elicitations: Sequence[ElicitRequestURLParams]
