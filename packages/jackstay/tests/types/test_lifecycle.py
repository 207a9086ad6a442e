"""How connections begin, in both eras."""

import json

import pytest

from jackstay.errors import ProtocolError
from jackstay.types import (
    META_SUBSCRIPTION_ID,
    Body,
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

# body, and what is written of it
WRITTEN = [
    (
        InitializeRequestParams("2025-11-25", ClientCapabilities(roots=RootsCapability(True)), Implementation("n", "v")),
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
]  # fmt: skip


@pytest.mark.parametrize(("body", "members"), WRITTEN, ids=lambda value: type(value).__name__)
def test_bodies_are_written_and_read_back(body: Body, members: dict) -> None:
    assert json.loads(encode_json(body)) == members
    assert decode(type(body), encode_json(body)) == body


@pytest.mark.parametrize("value", [1, "1", 2**70])
def test_a_subscription_keeps_the_kind_of_its_id(value: object) -> None:
    result = decode(SubscriptionsListenResult, json.dumps({"_meta": {META_SUBSCRIPTION_ID: value}}).encode())
    assert result.subscription_id == value
    assert type(result.subscription_id) is type(value)
    assert SubscriptionsListenResult().subscription_id is None


def test_the_meta_of_an_ended_subscription_must_name_it() -> None:
    assert from_json(SubscriptionsListenResultMetaObject, {META_SUBSCRIPTION_ID: 5}).subscription_id == 5
    with pytest.raises(ProtocolError):
        from_json(SubscriptionsListenResultMetaObject, {})
    with pytest.raises(ProtocolError):
        from_json(SubscriptionsListenResultMetaObject, {META_SUBSCRIPTION_ID: 1.0})
