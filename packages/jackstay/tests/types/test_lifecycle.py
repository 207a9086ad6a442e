"""The start of a connection in both eras."""

import json

import pytest

from jackstay.errors import ProtocolError
from jackstay.types import (
    META_SUBSCRIPTION_ID,
    ClientCapabilities,
    DiscoverResult,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    RootsCapability,
    ServerCapabilities,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    SubscriptionsListenResultMetaObject,
    ToolsCapability,
    decode,
    encode_json,
    from_json,
)

# Body, and its JSON.
WRITTEN = [
    (
        InitializeRequestParams(
            "2025-11-25", ClientCapabilities(roots=RootsCapability(True)), Implementation("n", "v")
        ),
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {"listChanged": True}},
            "clientInfo": {"name": "n", "version": "v"},
        },
    ),
    (
        InitializeResult("2024-11-05", ServerCapabilities(tools=ToolsCapability()), Implementation("n", "v"), "i"),
        {
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "n", "version": "v"},
            "instructions": "i",
        },
    ),
    (
        DiscoverResult(["2026-07-28"], ServerCapabilities(), ttl_ms=1, cache_scope="public", result_type="complete"),
        {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {},
            "ttlMs": 1,
            "cacheScope": "public",
            "resultType": "complete",
        },
    ),
    (
        SubscriptionsListenRequestParams(SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["u"])),
        {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["u"]}},
    ),
    (
        SubscriptionsAcknowledgedNotificationParams(SubscriptionFilter(task_ids=[]), meta={META_SUBSCRIPTION_ID: 1}),
        {"notifications": {"taskIds": []}, "_meta": {META_SUBSCRIPTION_ID: 1}},
    ),
    (SubscriptionsListenResult(meta={META_SUBSCRIPTION_ID: "a"}), {"_meta": {META_SUBSCRIPTION_ID: "a"}}),
]


def test_bodies_round_trip() -> None:
    for body, members in WRITTEN:
        assert json.loads(encode_json(body)) == members
        assert decode(type(body), encode_json(body)) == body


def test_a_subscription_id_keeps_its_type() -> None:
    for value in [1, "1", 2**70]:
        result = decode(SubscriptionsListenResult, json.dumps({"_meta": {META_SUBSCRIPTION_ID: value}}).encode())
        assert result.subscription_id == value
        assert type(result.subscription_id) is type(value)
        assert SubscriptionsListenResult().subscription_id is None


def test_the_meta_of_an_ended_subscription_is_required() -> None:
    assert from_json(SubscriptionsListenResultMetaObject, {META_SUBSCRIPTION_ID: 5}).subscription_id == 5
    with pytest.raises(ProtocolError):
        from_json(SubscriptionsListenResultMetaObject, {})
    with pytest.raises(ProtocolError):
        from_json(SubscriptionsListenResultMetaObject, {META_SUBSCRIPTION_ID: 1.0})
