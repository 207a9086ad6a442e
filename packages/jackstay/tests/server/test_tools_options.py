"""The options of tools: timeout, tags, annotations, output_schema, enabled and scopes."""

import math
from typing import Any

import pytest

from jackstay import Server, connect
from jackstay.errors import JsonRpcError, ToolCallError, UsageError
from jackstay.server._tools import ToolOptions, tool_from_function
from jackstay.types import ToolAnnotations
from peers import authored
from scripted.ways import EACH_WAY, HANDSHAKE, STATELESS, reached


async def nothing() -> None: ...


@EACH_WAY
async def test_options_of_tools_over_every_transport(way: str, version: str) -> None:
    async with reached(authored.make(), way, version) as client:
        tools = {tool.name: tool for tool in await client.tools.list()}
        assert list(tools) == ["wait", "block", "quick", "described", "about", "order", "orders", "twice"]
        assert tools["wait"].annotations == ToolAnnotations(title="Waits", read_only_hint=True)
        assert tools["described"].output_schema == {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        }
        with pytest.raises(ToolCallError, match=r"wait was cancelled after its timeout of 0\.05 s"):
            await client.tools.call("wait")
        with pytest.raises(ToolCallError, match=r"block was cancelled after its timeout of 0\.05 s"):
            await client.tools.call("block")
        assert (await client.tools.call("quick")).text == "in time"
        assert (await client.tools.call("described", {"n": "3"})).structured_content == {"n": 3}
        with pytest.raises(ToolCallError, match="described failed"):
            await client.tools.call("described", {"n": "three"})
        with pytest.raises(JsonRpcError, match="unknown tool: hidden"):
            await client.tools.call("hidden")
        with pytest.raises(JsonRpcError, match="resource not found"):
            await client.resources.read("x://hidden")
        with pytest.raises(JsonRpcError, match="unknown prompt: hidden_prompt"):
            await client.prompts.get("hidden_prompt")
        assert await client.resources.list() == []
        assert await client.prompts.list() == []


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
async def test_a_blocking_function_sees_its_timeout(version: str) -> None:
    authored.SAW_TIMEOUT.clear()
    async with connect(authored.make(), versions=(version,)) as client:
        while not authored.SAW_TIMEOUT.is_set():  # again if the thread started after the timeout
            assert (await client.tools.call("block", raise_on_error=False)).is_error


async def test_an_error_of_the_tool_is_not_a_timeout() -> None:
    server = Server("x")

    @server.tool(timeout=60)
    async def fails() -> None:
        raise TimeoutError("of a database")

    async with connect(server) as client:
        with pytest.raises(ToolCallError, match="fails failed"):
            await client.tools.call("fails")


def test_tags_are_kept_and_not_listed() -> None:
    server = Server("x")
    server.tool(tags=["a", "b", "a"])(nothing)
    server.resource("x://y", tags={"c"})(nothing)
    server.prompt(tags={"d"})(nothing)
    server.add_tool("raw", input_schema={"type": "object"}, handler=lambda _: None, tags={"e"}, enabled=False)
    catalogue = server.catalogue
    assert catalogue.tools["nothing"].tags == {"a", "b"}
    assert catalogue.resources["x://y"].tags == {"c"}
    assert catalogue.prompts["nothing"].tags == {"d"}
    assert b"tags" not in catalogue.tools["nothing"].listed
    assert list(catalogue.tools) == ["nothing"]


async def test_a_disabled_tool_keeps_its_name_its_place_and_the_capability() -> None:
    server = Server("x")
    server.tool(name="first", enabled=False)(nothing)
    async with connect(server) as client:
        assert await client.tools.list() == []  # the capability is declared: it may be enabled later
        server.tool(name="second")(nothing)
        with pytest.raises(UsageError, match="duplicate entry in tools: 'first'"):
            server.tool(name="first")(nothing)
        server.catalogue.add_tools(tool_from_function(nothing, options=ToolOptions(name="first")), replace=True)
        assert [tool.name for tool in await client.tools.list()] == ["first", "second"]
        hidden = ToolOptions(name="first", enabled=False)
        server.catalogue.add_tools(tool_from_function(nothing, options=hidden), replace=True)
        assert [tool.name for tool in await client.tools.list()] == ["second"]
        with pytest.raises(UsageError, match="did you mean 'first'"):
            server.remove_tool("firts")
        server.remove_tool("first")
        with pytest.raises(UsageError, match="no such entry in tools: 'first'"):
            server.remove_tool("first")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "nothing: timeout must be a number of seconds above 0, not 0"),
        ({"timeout": True}, "nothing: timeout must be a number of seconds above 0, not True"),
        ({"timeout": "3"}, "nothing: timeout must be a number of seconds above 0, not '3'"),
        ({"timeout": math.inf}, "nothing: timeout must be a number of seconds above 0, not inf"),
        ({"tags": "orders"}, "tags must be a set of strings such as {'orders'}, not 'orders'"),
        ({"tags": 5}, "tags must be a set of strings such as {'orders'}, not 5"),
        ({"tags": [1]}, "tags must be a set of strings such as {'orders'}, not [1]"),
        ({"tags": {"": 1}}, "tags must be a set of strings such as {'orders'}, not {'': 1}"),
        ({"tags": [""]}, "tags must not contain an empty string"),
        ({"scopes": 5}, "scopes must be a set of strings such as {'orders'}, not 5"),
        ({"enabled": 1}, "enabled must be a bool, not 1"),
        ({"annotations": 5}, "nothing: annotations must be a ToolAnnotations or a mapping, not 5"),
        ({"annotations": {"readOnly": True}}, "unknown annotation 'readOnly'; did you mean 'readOnlyHint'?"),
        ({"annotations": {"readOnlyHint": "yes"}}, "nothing: invalid annotations: "),
        (
            {"annotations": {"readOnlyHint": True}, "read_only": False},
            "nothing: read_only=False contradicts annotations=",
        ),
        ({"output_schema": {"type": "array"}}, 'nothing(output_schema) must have "type": "object"'),
        ({"output_schema": 5}, "nothing(output_schema) must be a JSON Schema object, not int"),
        (
            {"output_schema": {"type": "object"}, "structured": False},
            "nothing: structured=False contradicts output_schema",
        ),
    ],
)
def test_bad_values_are_errors_at_registration(options: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Server("x").tool(**options)(nothing)
    assert message in caught.value.message


def test_a_function_on_the_event_loop_has_no_timeout() -> None:
    with pytest.raises(UsageError, match="timeout is not possible: a plain function with blocking=False"):
        Server("x").tool(name="t", timeout=3, blocking=False)(lambda: 1)


def test_annotations_and_keywords_are_merged() -> None:
    given = ToolAnnotations(title="T", read_only_hint=True)
    tool = tool_from_function(nothing, options=ToolOptions(annotations=given, read_only=True, idempotent=True))
    assert tool.body.annotations == ToolAnnotations(title="T", read_only_hint=True, idempotent_hint=True)
