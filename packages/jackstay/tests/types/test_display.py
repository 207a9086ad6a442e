"""Icons, annotations and names."""

import json

import pytest

from jackstay.types import Annotations, Body, Icon, Implementation, decode, encode_json

# body, and what is written of it
WRITTEN = [
    (Icon("s", "image/png", ["any"], "sepia"), {"src": "s", "mimeType": "image/png", "sizes": ["any"], "theme": "sepia"}),
    (
        Annotations(audience=["robot"], priority=0, last_modified="now"),
        {"audience": ["robot"], "priority": 0, "lastModified": "now"},
    ),
    (
        Implementation("n", "v", title="T", description="d", website_url="w", icons=[Icon("s")]),
        {"name": "n", "version": "v", "title": "T", "description": "d", "websiteUrl": "w", "icons": [{"src": "s"}]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "members"), WRITTEN, ids=lambda value: type(value).__name__)
def test_bodies_are_written_and_read_back(body: Body, members: dict) -> None:
    assert json.loads(encode_json(body)) == members
    assert decode(type(body), encode_json(body)) == body
