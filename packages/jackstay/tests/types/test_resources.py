"""Resources: listing, reading and updates."""

import json

from jackstay.types import (
    Annotations,
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

# Body, and its JSON.
WRITTEN = [
    (
        ListResourcesResult(
            [Resource("u", "n", title="T", size=3, icons=[Icon("s")], annotations=Annotations(priority=1))],
            ttl_ms=0,
            cache_scope="public",
        ),
        {
            "resources": [
                {
                    "uri": "u",
                    "name": "n",
                    "title": "T",
                    "size": 3,
                    "icons": [{"src": "s"}],
                    "annotations": {"priority": 1},
                }
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
]


def test_bodies_round_trip() -> None:
    for body, members in WRITTEN:
        assert json.loads(encode_json(body)) == members
        assert decode(type(body), encode_json(body)) == body


def test_an_unknown_audience_is_accepted() -> None:
    members = {"resources": [{"uri": "u", "name": "n", "annotations": HINTS, "icons": [ICON]}]}
    result = decode(ListResourcesResult, json.dumps(members).encode())
    assert result.resources[0].annotations.audience == ["user", "robots"]
    assert result.raw == members


def test_is_part_of() -> None:
    """2025-06-18 server/resources: an update may be of a sub-resource."""
    for uri, whole, expected in [
        ("file:///a/b", "file:///a", True),
        ("file:///a/b", "file:///a/", True),
        ("db://x?row=1", "db://x", True),
        ("doc://x#part", "doc://x", True),
        ("file:///ab", "file:///a", False),
        ("file:///a", "file:///a", False),
        ("file:///a", "file:///a/b", False),
    ]:
        assert is_part_of(uri, whole) is expected
