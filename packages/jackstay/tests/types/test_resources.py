"""Resources: lists, reads and changes."""

import json

import pytest

from jackstay.types import (
    Annotations,
    Body,
    Icon,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceRequestParams,
    ResourceTemplate,
    ResourceUpdatedNotificationParams,
    SubscribeRequestParams,
    TextResourceContents,
    UnsubscribeRequestParams,
    decode,
    encode_json,
    is_part_of,
)

ICON = {
    "src": "https://example.com/i.png",
    "mimeType": "image/png",
    "sizes": ["48x48", "any"],
    "theme": "dark",
}
HINTS = {"audience": ["user", "robots"], "priority": 0.5, "lastModified": "2026-07-28T00:00:00Z"}

# body, and what is written of it
WRITTEN = [
    (
        ListResourcesResult(
            [Resource("u", "n", title="T", size=3, icons=[Icon("s")], annotations=Annotations(priority=1))],
            ttl_ms=0,
            cache_scope="public",
        ),
        {
            "resources": [
                {"uri": "u", "name": "n", "title": "T", "size": 3, "icons": [{"src": "s"}], "annotations": {"priority": 1}}
            ],
            "ttlMs": 0,
            "cacheScope": "public",
        },
    ),
    (
        ListResourceTemplatesResult([ResourceTemplate("u/{x}", "n", mime_type="m")], next_cursor="2"),
        {"resourceTemplates": [{"uriTemplate": "u/{x}", "name": "n", "mimeType": "m"}], "nextCursor": "2"},
    ),
    (ReadResourceResult([TextResourceContents(uri="u", text="t")]), {"contents": [{"uri": "u", "text": "t"}]}),
    (SubscribeRequestParams("u", meta={"progressToken": 1}), {"uri": "u", "_meta": {"progressToken": 1}}),
    (UnsubscribeRequestParams("u"), {"uri": "u"}),
    (ResourceRequestParams("u"), {"uri": "u"}),
    (ResourceUpdatedNotificationParams("u"), {"uri": "u"}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "members"), WRITTEN, ids=lambda value: type(value).__name__)
def test_bodies_are_written_and_read_back(body: Body, members: dict) -> None:
    assert json.loads(encode_json(body)) == members
    assert decode(type(body), encode_json(body)) == body


def test_an_unknown_audience_fails_nothing() -> None:
    members = {"resources": [{"uri": "u", "name": "n", "annotations": HINTS, "icons": [ICON]}]}
    result = decode(ListResourcesResult, json.dumps(members).encode())
    assert result.resources[0].annotations.audience == ["user", "robots"]
    assert result.raw == members


@pytest.mark.parametrize(
    ("uri", "whole", "expected"),
    [
        ("file:///a/b", "file:///a", True),
        ("file:///a/b", "file:///a/", True),
        ("db://x?row=1", "db://x", True),
        ("doc://x#part", "doc://x", True),
        ("file:///ab", "file:///a", False),
        ("file:///a", "file:///a", False),
        ("file:///a", "file:///a/b", False),
    ],
)
def test_a_part_begins_with_the_whole_and_a_step_further(uri: str, whole: str, expected: bool) -> None:
    """2025-06-18 server/resources: an update may be of a sub-resource."""
    assert is_part_of(uri, whole) is expected
