"""The members of `_meta`, and the data of errors."""

import json

import pytest

from jackstay.errors import ProtocolError
from jackstay.types import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    META_SUBSCRIPTION_ID,
    ClientCapabilities,
    Error,
    Implementation,
    MissingRequiredClientCapabilityErrorData,
    NotificationMetaObject,
    RequestMetaObject,
    RequestParams,
    ResultMetaObject,
    SamplingCapability,
    UnsupportedProtocolVersionErrorData,
    decode,
    encode_json,
    from_json,
)

# Body, and its JSON.
WRITTEN = [
    (Error(-32603, "m", [1]), {"code": -32603, "message": "m", "data": [1]}),
    (UnsupportedProtocolVersionErrorData(["a"], "b"), {"supported": ["a"], "requested": "b"}),
    (
        MissingRequiredClientCapabilityErrorData(ClientCapabilities(sampling=SamplingCapability(tools={}))),
        {"requiredCapabilities": {"sampling": {"tools": {}}}},
    ),
]


def test_bodies_round_trip() -> None:
    for body, members in WRITTEN:
        assert json.loads(encode_json(body)) == members
        assert decode(type(body), encode_json(body)) == body


def test_the_meta_of_a_request_is_parsed_on_demand() -> None:
    meta = {
        META_PROTOCOL_VERSION: "2026-07-28",
        META_CLIENT_CAPABILITIES: {"elicitation": {}, "x": 1},
        META_CLIENT_INFO: {"name": "n", "version": "v"},
        META_LOG_LEVEL: "info",
        "progressToken": 5,
        "traceparent": "00-…",
    }
    params = decode(RequestParams, json.dumps({"_meta": meta}).encode())
    read = from_json(RequestMetaObject, params.meta)
    assert read.protocol_version == "2026-07-28"
    assert read.client_capabilities.elicitation is not None
    assert read.client_info == Implementation("n", "v")
    assert (read.log_level, read.progress_token) == ("info", 5)
    assert read.unknown == {"traceparent": "00-…"}
    assert read.raw == meta


def test_an_invalid_meta_raises_only_when_it_is_parsed() -> None:
    params = decode(RequestParams, json.dumps({"_meta": {META_CLIENT_INFO: "me"}}).encode())
    with pytest.raises(ProtocolError) as caught:
        from_json(RequestMetaObject, params.meta)
    assert caught.value.path == f"$['{META_CLIENT_INFO}']"


def test_the_meta_of_notifications_and_results_is_parsed_on_demand() -> None:
    assert from_json(NotificationMetaObject, {META_SUBSCRIPTION_ID: "5"}).subscription_id == "5"
    assert from_json(NotificationMetaObject, {}).subscription_id is None
    info = {"name": "n", "version": "v"}
    assert from_json(ResultMetaObject, {META_SERVER_INFO: info}).server_info == Implementation("n", "v")
