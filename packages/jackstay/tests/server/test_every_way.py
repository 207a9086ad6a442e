"""Visibility, enabling, middleware, state, mounts with transforms and the search: in memory, over stdio and over HTTP,
with clients of both eras."""

import asyncio
import json

import pytest

from jackstay.errors import JsonRpcError, ToolCallError
from peers.composed import make, make_searched
from scripted.ways import EACH_WAY, reached

LISTED = ["note", "shout", "flood", "switch", "shop_find"]


@EACH_WAY
async def test_a_composed_server_is_the_same_everywhere(way: str, version: str) -> None:
    async with reached(make(), way, version, "composed.py") as client:
        has_changed = asyncio.Event()
        client.on_notification(lambda sent: has_changed.set() if sent.method.endswith("list_changed") else None)
        tools = {tool.name: tool for tool in await client.tools.list()}
        assert list(tools) == LISTED, "what is hidden or disabled is not listed"
        assert list(tools["shop_find"].input_schema["properties"]) == ["product"]
        for hidden in ("secret", "late"):
            with pytest.raises(JsonRpcError, match=f"unknown tool: {hidden}"):
                await client.tools.call(hidden)
        assert (await client.tools.call("shop_find", {"product": "tea"})).text == "2 of tea"
        assert (await client.resources.read("shop://shop/7")).contents[0].text == "product 7"

        # The state of the lifespan, and the cache: an equal call does not run again.
        assert [(await client.tools.call("note", {"text": text})).text for text in ("a", "a", "b")] == ["1", "1", "2"]
        with pytest.raises(ToolCallError, match="rate limit of 3 requests"):
            await client.tools.call("note", {"text": "c"})
        with pytest.raises(ToolCallError, match="not here"):
            await client.tools.call("shout")
        with pytest.raises(ToolCallError, match="more than the limit of 10000"):
            await client.tools.call("flood")

        await client.tools.call("switch")
        if way != "http":  # without sessions there is no stream for it
            await has_changed.wait()
        assert [tool.name for tool in await client.tools.list()] == [*LISTED[:3], "late", "switch", "shop_find"]
        assert (await client.tools.call("late")).text == "late"


@EACH_WAY
async def test_the_search_is_the_same_everywhere(way: str, version: str) -> None:
    async with reached(make_searched(), way, version, "composed_searched.py") as client:
        assert [tool.name for tool in await client.tools.list()] == ["search_tools", "call_tool"]

        async def find(query: str) -> list[str]:
            found = await client.tools.call("search_tools", {"query": query})
            return [row["name"] for row in json.loads(found.text)["tools"]]

        assert await find("look for products") == ["shop_find"]
        assert "secret" not in await find("reveal a secret")
        call = {"name": "shop_find", "arguments": {"product": "tea"}}
        assert (await client.tools.call("call_tool", call)).text == "2 of tea"
        with pytest.raises(JsonRpcError, match="unknown tool: secret"):
            await client.tools.call("call_tool", {"name": "secret", "arguments": {}})
