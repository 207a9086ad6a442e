"""Elicitation: what a server may ask of a user, in a form or at a URL, and what comes back.

A form is a flat JSON Schema object. Each field's class is chosen by what is in it, because several share a `type`; a
field of no known kind becomes `UnknownSchema`, and the client that draws the form decides what to do about it.

Above: `_rounds`, clients and servers. Below: `_messages`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from jackstay.types._body import Body, Json, Maybe, MaybeJson, Number, constant, one_of
from jackstay.types._messages import NotificationParams, Result, TaskAugmentedRequestParams


class StringSchema(Body, frozen=True, kw_only=True):
    """A line of text."""

    type: Literal["string"] = constant("string")
    title: Maybe[str] = None
    description: Maybe[str] = None
    min_length: Maybe[int] = None
    max_length: Maybe[int] = None
    # "email", "uri", "date" or "date-time"; open.
    format: Maybe[str] = None
    # Since 2025-11-25, as on every field but the boolean one.
    default: Maybe[str] = None


class NumberSchema(Body, frozen=True, kw_only=True):
    """A number, or a whole one."""

    type: Literal["number", "integer"]
    title: Maybe[str] = None
    description: Maybe[str] = None
    minimum: Maybe[Number] = None
    maximum: Maybe[Number] = None
    default: Maybe[Number] = None


class BooleanSchema(Body, frozen=True, kw_only=True):
    """Yes or no."""

    type: Literal["boolean"] = constant("boolean")
    title: Maybe[str] = None
    description: Maybe[str] = None
    default: Maybe[bool] = None


class EnumOption(Body, frozen=True):
    """A choice, and what to call it."""

    const: str
    title: str


class UntitledSingleSelectEnumSchema(Body, frozen=True, kw_only=True):
    """One of several values, each shown as it is."""

    enum: Sequence[str]
    type: Literal["string"] = constant("string")
    title: Maybe[str] = None
    description: Maybe[str] = None
    default: Maybe[str] = None


class TitledSingleSelectEnumSchema(Body, frozen=True, kw_only=True):
    """One of several values with names (2025-11-25)."""

    one_of: Sequence[EnumOption]
    type: Literal["string"] = constant("string")
    title: Maybe[str] = None
    description: Maybe[str] = None
    default: Maybe[str] = None


class LegacyTitledEnumSchema(Body, frozen=True, kw_only=True):
    """One of several values with names beside them. In 2025-06-18: EnumSchema."""

    enum: Sequence[str]
    enum_names: Maybe[Sequence[str]] = None
    type: Literal["string"] = constant("string")
    title: Maybe[str] = None
    description: Maybe[str] = None
    default: Maybe[str] = None


class UntitledItems(Body, frozen=True, kw_only=True):
    """The values of an UntitledMultiSelectEnumSchema."""

    enum: Sequence[str]
    type: Literal["string"] = constant("string")


class TitledItems(Body, frozen=True, kw_only=True):
    """The values of a TitledMultiSelectEnumSchema."""

    any_of: Sequence[EnumOption]


def choose_items(members: dict[str, Json]) -> type[Body] | None:
    """By the list that is there."""
    if "anyOf" in members:
        return TitledItems
    return UntitledItems if "enum" in members and members.get("type") == "string" else None


class UntitledMultiSelectEnumSchema(Body, frozen=True, kw_only=True):
    """Any of several values, each shown as it is (2025-11-25)."""

    items: UntitledItems
    type: Literal["array"] = constant("array")
    title: Maybe[str] = None
    description: Maybe[str] = None
    min_items: Maybe[int] = None
    max_items: Maybe[int] = None
    default: Maybe[Sequence[str]] = None


class TitledMultiSelectEnumSchema(Body, frozen=True, kw_only=True):
    """Any of several values with names (2025-11-25)."""

    items: TitledItems
    type: Literal["array"] = constant("array")
    title: Maybe[str] = None
    description: Maybe[str] = None
    min_items: Maybe[int] = None
    max_items: Maybe[int] = None
    default: Maybe[Sequence[str]] = None


class UnknownSchema(Body, frozen=True):
    """A field of no known kind. `raw` is all of it; `type` is what it says, if anything."""

    type: MaybeJson = None


# One of several values.
SingleSelectEnumSchema: TypeAlias = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema

# Any of several values.
MultiSelectEnumSchema: TypeAlias = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema

# Every kind of choice.
EnumSchema: TypeAlias = SingleSelectEnumSchema | MultiSelectEnumSchema | LegacyTitledEnumSchema

# A field of a form.
PrimitiveSchemaDefinition: TypeAlias = (
    StringSchema | NumberSchema | BooleanSchema | EnumSchema | UnknownSchema
)


def choose_schema(members: dict[str, Json]) -> type[Body]:
    """By `type`, and then by the list of values that is there."""
    match members.get("type"):
        case "string" if "oneOf" in members:
            return TitledSingleSelectEnumSchema
        case "string" if "enumNames" in members:
            return LegacyTitledEnumSchema
        case "string":
            return UntitledSingleSelectEnumSchema if "enum" in members else StringSchema
        case "number" | "integer":
            return NumberSchema
        case "boolean":
            return BooleanSchema
        case "array":
            items = members.get("items")
            kind = choose_items(items) if isinstance(items, dict) else None
            if kind is None:
                return UnknownSchema
            return TitledMultiSelectEnumSchema if kind is TitledItems else UntitledMultiSelectEnumSchema
        case _:
            return UnknownSchema


if TYPE_CHECKING:
    FormField: TypeAlias = PrimitiveSchemaDefinition
else:
    FormField = one_of(choose_schema, StringSchema)


class RequestedSchema(Body, frozen=True):
    """A form: its fields by name, in the order in which they are to be shown."""

    properties: Mapping[str, FormField]
    required: Maybe[Sequence[str]] = None
    type: Literal["object"] = constant("object")
    # Since 2025-11-25.
    schema: Maybe[str] = msgspec.field(default=None, name="$schema")


class ElicitRequestParams(TaskAugmentedRequestParams, frozen=True, kw_only=True):
    """Params of `elicitation/create` (2025-06-18). Decoding gives one of the two classes below."""

    message: str

    @staticmethod
    def choose(members: dict[str, Json]) -> type[Body] | None:
        """By `mode`; an absent one means a form."""
        mode = members.get("mode")
        if mode == "url":
            return ElicitRequestURLParams
        return ElicitRequestFormParams if mode in (None, "form") else None


class ElicitRequestFormParams(ElicitRequestParams, frozen=True, kw_only=True):
    """A question in a form."""

    requested_schema: RequestedSchema
    # Since 2025-11-25.
    mode: Maybe[Literal["form"]] = None


class ElicitRequestURLParams(ElicitRequestParams, frozen=True, kw_only=True):
    """A question at a URL (2025-11-25): show all of it, never fetch it, go there only if the user says so."""

    url: str
    mode: Literal["url"] = constant("url")
    # 2025-11-25 only.
    elicitation_id: Maybe[str] = None


# What may stand in a field of a form. Null is in no revision, but forms with an empty field send it.
ElicitValue: TypeAlias = str | int | float | bool | Sequence[str] | None


class ElicitResult(Result, frozen=True):
    """The answer to `elicitation/create`. `content` only with "accept", and only of a form."""

    action: Literal["accept", "decline", "cancel"]
    content: Maybe[Mapping[str, ElicitValue]] = None


class ElicitationCompleteNotificationParams(NotificationParams, frozen=True):
    """Params of `notifications/elicitation/complete` (2025-11-25 only)."""

    elicitation_id: str


class URLElicitationRequiredErrorData(Body, frozen=True):
    """The data of -32042 (2025-11-25 only): where the user must go before the request can be answered."""

    elicitations: Sequence[ElicitRequestURLParams]
