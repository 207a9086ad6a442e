"""Elicitation: classes of form fields, modes and results."""

import json

import pytest

from jackstay.errors import ProtocolError
from jackstay.types import (
    BooleanSchema,
    ElicitationCompleteNotificationParams,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    EnumOption,
    LegacyTitledEnumSchema,
    NumberSchema,
    RequestedSchema,
    StringSchema,
    TitledItems,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UnknownSchema,
    UntitledItems,
    UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
    URLElicitationRequiredErrorData,
    decode,
    encode_json,
)

# A field of a form, and its class.
FIELDS = [
    ({"type": "string"}, StringSchema),
    ({"type": "string", "format": "phone", "minLength": 1, "default": "d"}, StringSchema),
    ({"type": "number", "minimum": 0.5, "maximum": 2, "default": 1}, NumberSchema),
    ({"type": "integer", "title": "T"}, NumberSchema),
    ({"type": "boolean", "default": False}, BooleanSchema),
    ({"type": "string", "enum": ["a"]}, UntitledSingleSelectEnumSchema),
    ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, LegacyTitledEnumSchema),
    ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, TitledSingleSelectEnumSchema),
    ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1}, UntitledMultiSelectEnumSchema),
    (
        {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "default": ["a"]},
        TitledMultiSelectEnumSchema,
    ),
    ({"type": "array", "items": {"type": "string"}}, UnknownSchema),
    ({"type": "array", "items": {"enum": ["a"]}}, UnknownSchema),
    ({"type": "array", "items": []}, UnknownSchema),
    ({"type": "array"}, UnknownSchema),
    ({"type": "object", "properties": {}}, UnknownSchema),
    ({"type": ["string", "null"]}, UnknownSchema),
    ({"type": None}, UnknownSchema),
    ({"enum": ["a"]}, UnknownSchema),
    ({}, UnknownSchema),
]


def test_the_class_of_a_form_field() -> None:
    for field, expected in FIELDS:
        members = {
            "message": "m",
            "requestedSchema": {"type": "object", "properties": {"f": field, "g": {"type": "string"}}},
        }
        params = decode(ElicitRequestParams, json.dumps(members).encode())
        assert type(params) is ElicitRequestFormParams
        assert type(params.requested_schema.properties["f"]) is expected
        assert params.raw == members


def test_the_order_of_the_fields_is_preserved() -> None:
    names = ["zebra", "apple", "mango"]
    members = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    assert list(decode(RequestedSchema, json.dumps(members).encode()).properties) == names


# Body, and its JSON.
WRITTEN = [
    (
        ElicitRequestFormParams(
            message="m",
            requested_schema=RequestedSchema(
                {
                    "a": StringSchema(max_length=5),
                    "b": NumberSchema(type="integer"),
                    "c": UntitledMultiSelectEnumSchema(items=UntitledItems(enum=["x"])),
                    "d": TitledMultiSelectEnumSchema(items=TitledItems(any_of=[EnumOption("x", "X")])),
                    "e": TitledSingleSelectEnumSchema(one_of=[EnumOption("x", "X")]),
                },
                ["a"],
                schema="https://json-schema.org/draft/2020-12/schema",
            ),
        ),
        {
            "message": "m",
            "requestedSchema": {
                "type": "object",
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "required": ["a"],
                "properties": {
                    "a": {"type": "string", "maxLength": 5},
                    "b": {"type": "integer"},
                    "c": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
                    "d": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}},
                    "e": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
                },
            },
        },
    ),
    (
        ElicitRequestURLParams(message="m", url="https://example.com", elicitation_id="e"),
        {"message": "m", "mode": "url", "url": "https://example.com", "elicitationId": "e"},
    ),
    (
        ElicitResult("accept", {"a": "s", "b": 1, "c": 1.5, "d": True, "e": ["x"], "f": None}),
        {"action": "accept", "content": {"a": "s", "b": 1, "c": 1.5, "d": True, "e": ["x"], "f": None}},
    ),
    (ElicitResult("decline"), {"action": "decline"}),
    (ElicitationCompleteNotificationParams("e"), {"elicitationId": "e"}),
    (
        URLElicitationRequiredErrorData([ElicitRequestURLParams(message="m", url="u")]),
        {"elicitations": [{"message": "m", "mode": "url", "url": "u"}]},
    ),
]


def test_bodies_round_trip() -> None:
    for body, members in WRITTEN:
        assert json.loads(encode_json(body)) == members
        assert decode(type(body), encode_json(body)) == body


def test_the_mode_selects_the_class_and_an_unknown_one_is_rejected() -> None:
    for mode in ["form", None, "url", "voice", 5]:
        members = {
            "message": "m",
            "mode": mode,
            "url": "u",
            "requestedSchema": {"type": "object", "properties": {}},
        }
        expected = {
            "form": ElicitRequestFormParams,
            None: ElicitRequestFormParams,
            "url": ElicitRequestURLParams,
        }.get(mode)
        if expected is None:
            with pytest.raises(ProtocolError):
                decode(ElicitRequestParams, json.dumps(members).encode())
        else:
            params = decode(ElicitRequestParams, json.dumps(members).encode())
            assert type(params) is expected
            assert params.raw == members


def test_url_params_are_not_a_form() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(URLElicitationRequiredErrorData, b'{"elicitations":[{"message":"m","url":"u"}]}')
    assert caught.value.path == "$.elicitations[0]"
