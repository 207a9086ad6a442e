"""The URIs of mounted servers: prefixed, and restored exactly."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.server._mounted_uris import UriPrefix, translate_uris

ROWS = [
    ("notes://all", "notes://files/all"),
    ("notes://{id}/x", "notes://files/{id}/x"),
    ("file:///a/b", "file://files//a/b"),
    ("urn:isbn:1", "urn:files:isbn:1"),
    ("https://example.org/x", "https://example.org/x"),
    ("HTTP://example.org/x", "HTTP://example.org/x"),
    ("no scheme", "no scheme"),
]


@pytest.mark.parametrize(("uri", "expected"), ROWS)
def test_a_prefix_is_added_and_removed(uri: str, expected: str) -> None:
    prefix = UriPrefix("Files")
    assert prefix.add(uri) == expected
    assert prefix.remove(expected) == (None if expected == uri else uri)
    assert UriPrefix("other").remove(expected) is None
    assert UriPrefix("").add(uri) == uri
    assert UriPrefix("").remove(uri) is None


@given(st.text())
def test_every_uri_is_restored(uri: str) -> None:
    prefix = UriPrefix("p")
    added = prefix.add(uri)
    assert added == uri or prefix.remove(added) == uri


def test_only_uris_of_resources_are_translated() -> None:
    add = UriPrefix("p").add
    link = {"type": "resource_link", "uri": "a://b"}
    result = {"content": [link, {"type": "text", "text": '"uri"'}], "structuredContent": {"uri": "a://b"}}
    translated = json.loads(translate_uris("tools/call", json.dumps(result).encode(), add))
    assert translated["content"][0]["uri"] == "a://p/b"
    assert translated["content"][1] == result["content"][1]
    assert translated["structuredContent"] == {"uri": "a://b"}
    for method, body in (
        ("tools/call", b'{"content":7,"uri":1}'),
        ("tools/call", b'{"uri":"a://b"}'),
        ("resources/read", b'{"contents":[{"uri":7}]}'),
        ("prompts/get", b'{"messages":[{"content":"uri"}],"uri":"a://b"}'),
        ("tools/list", b'{"tools":[{"uri":"a://b"}]}'),
    ):
        assert json.loads(translate_uris(method, body, add)) == json.loads(body), method
