"""What all bodies share: kept members, `raw`, nulls, and the promises that hold for every class in the public list."""

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
from jackstay.types._body import Kept, constant

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


def test_the_public_list_holds_every_body() -> None:
    def below(cls: type[Body]) -> set[type[Body]]:
        return {cls}.union(*(below(child) for child in cls.__subclasses__()))

    ours = {cls for cls in below(Body) if cls.__module__.startswith("jackstay.types")}
    assert ours == set(BODIES)


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
def test_every_class_is_frozen_documented_and_spelled_in_camel_case(cls: type[Body]) -> None:
    config = cls.__struct_config__
    assert config.frozen
    assert config.omit_defaults
    assert config.forbid_unknown_fields
    assert config.tag is None
    assert cls.__doc__
    for name, wire_name in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
        head, *rest = name.split("_")
        camel = head + "".join(word.capitalize() for word in rest)
        assert wire_name in (camel, EXCEPTIONS.get((cls.__name__, name)) or EXCEPTIONS.get(name))
    assert get_type_hints(cls)


# Python names that are not the wire's in snake_case; with a class where only that class has it.
EXCEPTIONS = {
    "kept": "*",
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


def test_unknown_members_are_beside_the_fields_and_come_back() -> None:
    tool = decode(Tool, json.dumps(TOOL).encode())
    assert tool.name == "t"
    assert tool.title is None
    assert tool.unknown == {"title": None, "x-vendor": {"a": [1, None]}, "mode": "stateless"}
    assert tool.raw == TOOL
    assert json.loads(encode_json(tool)) == TOOL


def test_a_body_without_unknown_members_has_none() -> None:
    tool = decode(Tool, b'{"name":"t","inputSchema":{}}')
    assert tool.kept is None
    assert tool.unknown == {}
    assert tool == Tool("t", {})


def test_raw_is_a_copy_at_every_call() -> None:
    tool = decode(Tool, json.dumps(TOOL).encode())
    tool.raw["x-vendor"]["a"].append("changed")
    tool.raw["inputSchema"]["changed"] = True
    tool.unknown["changed"] = True
    assert tool.raw == TOOL


def test_raw_refuses_what_stayed_in_its_bytes_and_cannot_be_decoded() -> None:
    for text in (b'{"a":1e999}', b'{"a":"\xff"}'):
        params = decode(CallToolRequestParams, b'{"name":"n","arguments":' + text + b"}")
        with pytest.raises(ProtocolError):
            _ = params.raw
        with pytest.raises(ProtocolError):
            params.has("name")


def test_has_tells_a_null_from_nothing() -> None:
    tool = decode(Tool, json.dumps(TOOL).encode())
    assert tool.has("title")
    assert tool.has("name")
    assert tool.has("x-vendor")
    assert not tool.has("description")


@pytest.mark.parametrize("more", [b"", b',"x-vendor":{"big":[1]}', b',"title":null'])
def test_a_body_does_not_keep_its_frame_alive(more: bytes) -> None:
    frame = b'{"tools":[{"name":"' + b"n" * 1_000_000 + b'","inputSchema":{"a":[{}]}' + more + b"}]}"
    before = sys.getrefcount(frame)
    result = decode(ListToolsResult, frame)
    raw = result.raw
    assert sys.getrefcount(frame) == before
    assert raw["tools"][0]["name"] == result.tools[0].name


def test_a_body_moved_to_a_new_parent_takes_its_unknown_members_along() -> None:
    tool = decode(ListToolsResult, json.dumps({"tools": [TOOL]}).encode()).tools[0]
    moved = ListToolsResult([tool, Tool("other", {})], next_cursor="")
    assert moved.raw == {"tools": [TOOL, {"name": "other", "inputSchema": {}}], "nextCursor": ""}


def test_bodies_with_kept_members_compare_copy_and_replace() -> None:
    tool = decode(Tool, json.dumps(TOOL).encode())
    assert tool == decode(Tool, json.dumps(TOOL).encode()) != Tool("t", {"type": "object"})
    assert copy.deepcopy(tool) == copy.copy(tool) == tool
    assert msgspec.structs.replace(tool, name="u").raw == {**TOOL, "name": "u"}
    assert repr(TextContent("x")) == "TextContent(text='x', type='text')"


def test_a_wire_member_cannot_reach_the_field_that_keeps_members() -> None:
    for value in (1, None, {"members": {}}):
        members = {"name": "t", "inputSchema": {}, "*": value, "kept": value}
        tool = decode(Tool, json.dumps(members).encode())
        assert tool.kept == Kept({"*": value, "kept": value})
        assert tool.raw == members


def test_members_can_be_added_by_wire_name() -> None:
    tool = with_members(Tool("t", {}), {"x-vendor": 1, "title": None, "*": 2})
    assert tool.raw == {"name": "t", "inputSchema": {}, "x-vendor": 1, "title": None, "*": 2}
    assert with_members(tool, {"x-vendor": 3}).unknown == {"x-vendor": 3, "title": None, "*": 2}
    assert tool == decode(Tool, encode_json(tool))


def test_a_member_with_a_field_of_its_own_is_not_added_beside_it() -> None:
    with pytest.raises(UsageError) as caught:
        with_members(Tool("t", {}), {"inputSchema": {}})
    assert caught.value.path == "inputSchema"


def test_a_constant_is_always_written_and_need_not_be_said() -> None:
    class Marked(Body, frozen=True):
        kind: str = constant("marked")

    assert encode_json(Marked()) == b'{"kind":"marked"}'
    assert encode_json(TextContent("x")) == b'{"text":"x","type":"text"}'


def test_plain_msgspec_refuses_to_write_a_body_with_kept_members_rather_than_lose_them() -> None:
    with pytest.raises(TypeError):
        msgspec.json.encode(with_members(TextContent("x"), {"vendor": 1}))
