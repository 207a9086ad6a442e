"""What all bodies share: extra members, `raw`, nulls, and properties of every public class."""

import copy
import json
import sys
from typing import get_type_hints

import msgspec
import pytest

import jackstay.types
from jackstay.errors import ProtocolError, UsageError
from jackstay.types import (
    Body,
    CallToolRequestParams,
    ListToolsResult,
    TextContent,
    Tool,
    decode,
    encode_json,
    with_members,
)
from jackstay.types._body import ExtraMembers, constant

BODIES = [
    value
    for name in jackstay.types.__all__
    if isinstance(value := getattr(jackstay.types, name), type) and issubclass(value, Body)
]

TOOL = {
    "name": "t",
    "inputSchema": {"type": "object"},
    "title": None,
    "x-vendor": {"a": [1, None]},
    "mode": "stateless",
}


def test_every_body_is_public() -> None:
    def below(cls: type[Body]) -> set[type[Body]]:
        return {cls}.union(*(below(child) for child in cls.__subclasses__()))

    bodies = {cls for cls in below(Body) if cls.__module__.startswith("jackstay.types")}
    assert bodies == set(BODIES)


def test_every_class_is_frozen_documented_and_has_camel_case_wire_names() -> None:
    for cls in BODIES:
        config = cls.__struct_config__
        assert config.frozen, cls
        assert config.omit_defaults, cls
        assert config.forbid_unknown_fields, cls
        assert config.tag is None, cls
        assert cls.__doc__, cls
        for name, wire_name in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
            head, *rest = name.split("_")
            camel = head + "".join(word.capitalize() for word in rest)
            assert wire_name in (camel, EXCEPTIONS.get((cls.__name__, name)) or EXCEPTIONS.get(name)), cls
        assert get_type_hints(cls), cls


# Python names that do not correspond to the wire name.
EXCEPTIONS = {
    "extra": "*",
    "meta": "_meta",
    "arguments_json": "arguments",
    "schema": "$schema",
    "protocol_version": "io.modelcontextprotocol/protocolVersion",
    "client_capabilities": "io.modelcontextprotocol/clientCapabilities",
    "client_info": "io.modelcontextprotocol/clientInfo",
    "log_level": "io.modelcontextprotocol/logLevel",
    "subscription_id": "io.modelcontextprotocol/subscriptionId",
    "server_info": "io.modelcontextprotocol/serverInfo",
}


def test_unknown_members_are_preserved() -> None:
    tool = decode(Tool, json.dumps(TOOL).encode())
    assert tool.name == "t"
    assert tool.title is None
    assert tool.unknown == {"title": None, "x-vendor": {"a": [1, None]}, "mode": "stateless"}
    assert tool.raw == TOOL
    assert json.loads(encode_json(tool)) == TOOL


def test_a_body_without_unknown_members_has_none() -> None:
    tool = decode(Tool, b'{"name":"t","inputSchema":{}}')
    assert tool.extra is None
    assert tool.unknown == {}
    assert tool == Tool("t", {})


def test_raw_is_a_copy_at_every_call() -> None:
    tool = decode(Tool, json.dumps(TOOL).encode())
    tool.raw["x-vendor"]["a"].append("changed")
    tool.raw["inputSchema"]["changed"] = True
    tool.unknown["changed"] = True
    assert tool.raw == TOOL


def test_raw_raises_for_an_undecoded_member_that_is_invalid() -> None:
    for text in (b'{"a":1e999}', b'{"a":"\xff"}'):
        params = decode(CallToolRequestParams, b'{"name":"n","arguments":' + text + b"}")
        with pytest.raises(ProtocolError):
            _ = params.raw
        with pytest.raises(ProtocolError):
            params.has("name")


def test_has_distinguishes_null_from_absent() -> None:
    tool = decode(Tool, json.dumps(TOOL).encode())
    assert tool.has("title")
    assert tool.has("name")
    assert tool.has("x-vendor")
    assert not tool.has("description")


def test_a_body_does_not_keep_its_frame_alive() -> None:
    for more in (b"", b',"x-vendor":{"big":[1]}', b',"title":null'):
        frame = b'{"tools":[{"name":"' + b"n" * 1_000_000 + b'","inputSchema":{"a":[{}]}' + more + b"}]}"
        before = sys.getrefcount(frame)
        result = decode(ListToolsResult, frame)
        raw = result.raw
        assert sys.getrefcount(frame) == before
        assert raw["tools"][0]["name"] == result.tools[0].name


def test_a_body_in_a_new_parent_keeps_its_unknown_members() -> None:
    tool = decode(ListToolsResult, json.dumps({"tools": [TOOL]}).encode()).tools[0]
    moved = ListToolsResult([tool, Tool("other", {})], next_cursor="")
    assert moved.raw == {"tools": [TOOL, {"name": "other", "inputSchema": {}}], "nextCursor": ""}


def test_bodies_with_extra_members_compare_copy_and_replace() -> None:
    tool = decode(Tool, json.dumps(TOOL).encode())
    assert tool == decode(Tool, json.dumps(TOOL).encode()) != Tool("t", {"type": "object"})
    assert copy.deepcopy(tool) == copy.copy(tool) == tool
    assert msgspec.structs.replace(tool, name="u").raw == {**TOOL, "name": "u"}
    assert repr(TextContent("x")) == "TextContent(text='x', type='text')"


def test_a_wire_member_cannot_set_the_extra_field() -> None:
    for value in (1, None, {"members": {}}):
        members = {"name": "t", "inputSchema": {}, "*": value, "extra": value}
        tool = decode(Tool, json.dumps(members).encode())
        assert tool.extra == ExtraMembers({"*": value, "extra": value})
        assert tool.raw == members


def test_members_can_be_added_by_wire_name() -> None:
    tool = with_members(Tool("t", {}), {"x-vendor": 1, "title": None, "*": 2})
    assert tool.raw == {"name": "t", "inputSchema": {}, "x-vendor": 1, "title": None, "*": 2}
    assert with_members(tool, {"x-vendor": 3}).unknown == {"x-vendor": 3, "title": None, "*": 2}
    assert tool == decode(Tool, encode_json(tool))


def test_a_member_with_a_field_cannot_be_added() -> None:
    with pytest.raises(UsageError) as caught:
        with_members(Tool("t", {}), {"inputSchema": {}})
    assert caught.value.path == "inputSchema"


def test_a_constant_is_always_written_and_may_be_omitted() -> None:
    class Marked(Body, frozen=True):
        kind: str = constant("marked")

    assert encode_json(Marked()) == b'{"kind":"marked"}'
    assert encode_json(TextContent("x")) == b'{"text":"x","type":"text"}'


def test_plain_msgspec_raises_for_a_body_with_extra_members() -> None:
    with pytest.raises(TypeError):
        msgspec.json.encode(with_members(TextContent("x"), {"vendor": 1}))
