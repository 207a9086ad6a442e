"""Icons, annotations and names."""

import json

from jackstay.types import Annotations, Icon, Implementation, decode, encode_json

# body, and what is written of it
WRITTEN = [
    (
        Icon("s", "image/png", ["any"], "sepia"),
        {"src": "s", "mimeType": "image/png", "sizes": ["any"], "theme": "sepia"},
    ),
    (
        Annotations(audience=["robot"], priority=0, last_modified="now"),
        {"audience": ["robot"], "priority": 0, "lastModified": "now"},
    ),
    (
        Implementation("n", "v", title="T", description="d", website_url="w", icons=[Icon("s")]),
        {"name": "n", "version": "v", "title": "T", "description": "d", "websiteUrl": "w", "icons": [{"src": "s"}]},
    ),
]


def test_bodies_are_written_and_read_back() -> None:
    for body, members in WRITTEN:
        assert json.loads(encode_json(body)) == members
        assert decode(type(body), encode_json(body)) == body
