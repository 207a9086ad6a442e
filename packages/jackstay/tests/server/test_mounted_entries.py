"""Entries that are made from the list items of another server."""

import json
from typing import Any

import pytest

from jackstay.errors import ProtocolError
from jackstay.server import Kind, make_entry, read_key
from jackstay.server._mounted_entries import MountedPrompt, MountedResource, MountedTool


def made(kind: Kind, item: dict[str, Any], key: str) -> Any:
    original, members = read_key(kind, json.dumps(item).encode())
    return make_entry(kind, members, key, original=original)


def test_a_tool_keeps_unknown_members_and_has_no_output_schema_for_old_clients() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    item = {"name": "t", "inputSchema": schema, "outputSchema": {"type": "object"}, "unknown": [1]}
    entry = made(Kind.TOOLS, item, "p_t")
    assert isinstance(entry, MountedTool)
    assert (entry.key, entry.original, entry.body.name) == ("p_t", "t", "p_t")
    assert json.loads(entry.listed) == {**item, "name": "p_t"}
    assert "outputSchema" not in json.loads(entry.listed_plain)
    assert len(entry.param_headers) == 1
    with pytest.raises(AssertionError, match="served by its own server"):
        entry.call()


def test_resources_templates_and_prompts() -> None:
    resource = made(Kind.RESOURCES, {"uri": "a://b", "name": "n"}, "a://p/b")
    assert isinstance(resource, MountedResource)
    assert resource.template is None
    template = made(Kind.TEMPLATES, {"uriTemplate": "a://{x}", "name": "n"}, "a://p/{x}")
    assert template.template.match("a://p/1") == {"x": "1"}
    prompt = made(Kind.PROMPTS, {"name": "n"}, "p_n")
    assert isinstance(prompt, MountedPrompt)


def test_a_template_that_cannot_be_matched_matches_nothing() -> None:
    template = made(Kind.TEMPLATES, {"uriTemplate": "a://b{?x*,y}{&z}", "name": "n"}, "a://b{?x*,y}{&z}").template
    assert template.match("a://b?x=1") is None
    assert template.variables == ()


@pytest.mark.parametrize("item", [b"7", b"{}", b'{"name":7}', b'{"name":"t"}', b'{"name":"t","inputSchema":7}'])
def test_an_invalid_item_is_a_protocol_error(item: bytes) -> None:
    def read() -> object:
        name, members = read_key(Kind.TOOLS, item)
        return make_entry(Kind.TOOLS, members, name)

    with pytest.raises(ProtocolError):
        read()
