"""`server.search_tools()`: two tools in place of a long list, for what the caller sees."""

import json
from typing import Any

import msgspec
import pytest

from chaos.servers_own.conversation import STATELESS, Peer, connected
from jackstay import Context, Server
from jackstay.errors import UsageError
from jackstay.server import Hooks
from jackstay.server._search import MAX_QUERY, MAX_WORDS, Index, words_of
from scripted.asgi import http_client, stateless

ERAS = ("2025-11-25", STATELESS)
PAIR = ["search_tools", "call_tool"]


def make(**options: Any) -> Server:
    server = Server("long", **options)

    @server.tool
    async def create_invoice(customer: str, amount: int) -> str:
        """Bill a customer for an amount of money."""
        return f"{customer} owes {amount}"

    @server.tool(tags={"admin"})
    async def delete_user(user_id: str) -> str:
        """Remove an account permanently."""
        return user_id

    @server.tool
    async def greet(ctx: Context) -> str:
        """Welcome somebody by name."""
        form: Any = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return f"hello {((await ctx.elicit('Name?', form)).content or {})['name']}"

    return server


async def names(peer: Peer) -> list[str]:
    return [row["name"] for row in (await peer.result("tools/list"))["tools"]]


async def find(peer: Peer, query: str, **options: Any) -> list[str]:
    return [row["name"] for row in json.loads(await peer.text("search_tools", query=query, **options))["tools"]]


@pytest.mark.parametrize("version", ERAS)
async def test_a_long_list_is_replaced_by_two_tools(version: str) -> None:
    server = make()
    server.search_tools(above=2)
    async with connected(server, version) as peer:
        assert await names(peer) == PAIR
        assert await find(peer, "send a bill to a customer") == ["create_invoice"]
        found = json.loads(await peer.text("search_tools", query="removing accounts"))["tools"]
        assert found[0]["name"] == "delete_user"
        assert found[0]["inputSchema"]["required"] == ["user_id"]
        assert await peer.text("call_tool", name="create_invoice", arguments={"customer": "Ada", "amount": 5}) == (
            "Ada owes 5"
        )
        assert await peer.text("create_invoice", customer="Ada", amount=7) == "Ada owes 7", "directly, too"
        assert await find(peer, "xyzzy") == []


async def test_a_short_list_stays_as_it_is_and_changes_when_it_grows() -> None:
    server = make()
    server.search_tools(above=3)
    async with connected(server) as peer:
        assert await names(peer) == ["create_invoice", "delete_user", "greet"]
        assert (await peer.error("tools/call", {"name": "search_tools"}))["message"] == "unknown tool: search_tools"
        server.tool(name="more")(lambda: "more")
        await peer.notification("notifications/tools/list_changed")
        assert await names(peer) == PAIR
        assert await find(peer, "more") == ["more"]
        server.remove_tool("more")
        await peer.notification("notifications/tools/list_changed")
        assert len(await names(peer)) == 3


async def test_a_call_by_name_is_the_call_itself() -> None:
    """Its errors, its input rounds, and what middleware sees."""
    seen: list[str] = []

    class Recording(Hooks):
        async def on_call_tool(self, ctx: Context, params: Any, call_next: Any) -> Any:
            seen.append(params.name)
            return await call_next(params)

    server = make(middleware=[Recording()])
    server.search_tools(above=1)
    async with connected(server, STATELESS, {"elicitation": {"form": {}}}) as peer:
        unknown = {"name": "call_tool", "arguments": {"name": "none"}}
        assert (await peer.error("tools/call", unknown))["message"] == "unknown tool: none"
        invalid = await peer.call("call_tool", name="create_invoice", arguments={"amount": "x"})
        assert invalid["isError"]
        assert "customer" in invalid["content"][0]["text"]
        assert (await peer.call("call_tool", nam="x"))["isError"]
        for itself in PAIR:
            assert "cannot call" in (await peer.call("call_tool", name=itself))["content"][0]["text"]
        params: dict[str, Any] = {"name": "call_tool", "arguments": {"name": "greet", "arguments": {}}}
        required = await peer.result("tools/call", params)
        (key,) = required["inputRequests"]
        responses = {key: {"action": "accept", "content": {"name": "Ada"}}}
        result = await peer.result(
            "tools/call", {**params, "requestState": required["requestState"], "inputResponses": responses}
        )
        assert result["content"][0]["text"] == "hello Ada"
    assert seen == ["none", "create_invoice", "call_tool", "call_tool", "call_tool", "greet", "greet"]


async def test_hidden_tools_are_not_found() -> None:
    server = make()
    server.search_tools(above=1)
    server.visible(tags={"admin"}, when=lambda caller: caller.headers.get("x-admin") == "1")
    async with http_client(server.asgi()) as http:
        for headers, expected in (({}, []), ({"x-admin": "1"}, ["delete_user"])):
            call = stateless("tools/call", {"name": "search_tools", "arguments": {"query": "account"}})
            response = await http.post(call, headers=headers)
            found = json.loads(response.json["result"]["content"][0]["text"])["tools"]
            assert [row["name"] for row in found] == expected
            arguments = {"name": "delete_user", "arguments": {"user_id": "7"}}
            call = stateless("tools/call", {"name": "call_tool", "arguments": arguments})
            response = await http.post(call, headers=headers)
            assert ("result" in response.json) == bool(expected)


async def test_the_number_of_results_has_a_default_and_limits() -> None:
    server = Server("many")
    for number in range(60):
        server.tool(name=f"item_{number}", description="An item.", blocking=False)(lambda: "")
    server.search_tools(limit=7)
    async with connected(server) as peer:
        assert len(await find(peer, "items")) == 7
        assert len(await find(peer, "items", limit=1000)) == 50
        assert len(await find(peer, "items", limit=-1)) == 1


def test_bad_options_are_rejected() -> None:
    server = make()
    for options in ({"above": 0}, {"limit": "x"}):
        with pytest.raises(UsageError, match="must be an int from 1"):
            server.search_tools(**options)  # type: ignore[arg-type]  # wrong on purpose
    server.tool(name="call_tool")(lambda: "")
    with pytest.raises(UsageError, match="needs the name 'call_tool', which a tool already has"):
        server.search_tools()
    server.remove_tool("call_tool")
    server.search_tools()
    with pytest.raises(UsageError, match="already called"):
        server.search_tools()


def test_words_are_split_and_lose_their_endings() -> None:
    assert words_of("createPullRequests for the user_ids") == ["creat", "pull", "request", "user", "id"]
    assert words_of("status address") == ["status", "address"]
    assert words_of("companies") == words_of("company")


def test_rare_words_and_names_count_more() -> None:
    index = Index({"a": words_of("red car"), "b": words_of("red red bike"), "c": words_of("red boat boat boat")})
    assert index.find("boat", 5) == ["c"]
    assert index.find("red", 5)[0] == "b"
    assert index.find("red bike", 1) == ["b"]
    assert index.find("bikeshed", 5) == [], "not a word that begins like it"
    assert index.find("", 5) == []
    assert Index({}).find("x", 5) == []


def test_only_the_beginning_of_a_long_query_counts() -> None:
    index = Index({"a": ["first"], "b": ["second"]})
    fillers = " ".join(f"word{number}" for number in range(MAX_WORDS))
    assert index.find(f"second {fillers} first", 5) == ["b"]
    assert index.find("second " + "x" * MAX_QUERY + " first", 5) == ["b"]


def test_unknown_words_find_words_with_the_same_beginning() -> None:
    index = Index({"a": ["calendar"], "b": ["cale"], "c": ["calm"]})
    for query, found in (("calendric", {"a"}), ("calex", set()), ("cal", set()), ("calx", set())):
        assert set(index.find(query, 5)) == found, query


async def test_the_list_is_small() -> None:
    server = Server("many")
    for number in range(200):
        server.tool(name=f"item_{number}", description="An item with a long description.", blocking=False)(lambda: "")
    async with connected(server) as peer:
        before = len(msgspec.json.encode(await peer.result("tools/list")))
        server.search_tools()
        await peer.notification("notifications/tools/list_changed")
        assert len(msgspec.json.encode(await peer.result("tools/list"))) < before / 10
