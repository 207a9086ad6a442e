"""What passes through a proxy, in every pair of eras: nothing is lost, nothing is added that the other side must not see."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from jackstay.errors import JsonRpcError
from jackstay.proxy import Proxy, ProxyOptions
from jackstay.testing import Refusal, on_fake_clock
from jackstay.transport.http import http
from jackstay.types import CallToolResult, Implementation, UnknownContent
from scripted.between import ERAS, HANDSHAKE, PAIRS, STATELESS, Between, between
from scripted.http import Mcp, MemoryHttp, Reply, Seen


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_a_client_is_told_what_the_server_behind_is(front: str, back: str) -> None:
    """The front declares what the server has: its name, its words, its capabilities."""
    async with between(back, {"tools": {}, "experimental": {"own": {"depth": 3}}}) as made:
        client = await made.join(front)
        assert client.server_info == Implementation(name="behind", version="1")
        assert client.instructions == "ask nicely"
        told = client.server_capabilities.raw
        assert told["experimental"] == {"own": {"depth": 3}}
        assert told["tools"] == {"listChanged": True}, "it may come back as another"
        assert "logging" not in told
        assert "resources" not in told


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_a_call_and_its_result_pass_as_they_are(front: str, back: str) -> None:
    """Members and content that nobody knows are kept; arguments and the caller's own `_meta` arrive."""
    answer = {
        "content": [{"type": "hologram", "depth": 3}],
        "structuredContent": {"big": 12345678901234567890, "exact": 1.0},
        "unheardOf": [1, {"x": None}],
        "_meta": {"org.example/trace": "t"},
    }
    async with between(back) as made:
        client = await made.join(front)
        made.peer.on["tools/call"] = answer
        result = await client.tools.call(
            "t", {"a": [1, None, "ä"], "_meta": "an argument of that name"}, meta={"org.example/mine": 7}
        )
        assert isinstance(result, CallToolResult)
        assert isinstance(result.content[0], UnknownContent)
        told = result.raw
        assert told["structuredContent"] == answer["structuredContent"]
        assert told["unheardOf"] == answer["unheardOf"]
        assert told["_meta"]["org.example/trace"] == "t"
        call = (await made.peer.expect("tools/call")).params
        assert call["arguments"] == {"a": [1, None, "ä"], "_meta": "an argument of that name"}
        assert call["name"] == "t"
        assert call["_meta"]["org.example/mine"] == 7


@on_fake_clock
async def test_a_result_is_not_made_again_between_two_of_one_era() -> None:
    """Bytes are bytes: order, spaces and numbers of a result arrive as they were written."""
    async with between() as made:
        client = await made.join()
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        heard = await made.peer.expect("tools/call")
        made.peer.send(b'{"jsonrpc":"2.0","id":%d,"result":{ "z" : 1.50, "content":[ ] ,"a":1e2}}' % heard.id)
        assert await call == {"z": 1.5, "content": [], "a": 100.0}


METHODS = [
    ("tools/list", {"cursor": "c"}, {"tools": [], "nextCursor": "d"}),
    ("resources/list", {"cursor": ""}, {"resources": []}),
    ("resources/templates/list", {}, {"resourceTemplates": []}),
    ("prompts/list", {}, {"prompts": [{"name": "p"}]}),
    ("resources/read", {"uri": "a:b"}, {"contents": [{"uri": "a:b", "text": "t"}]}),
    ("prompts/get", {"name": "p", "arguments": {"x": "1"}}, {"messages": []}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x", "value": ""}},
        {"completion": {"values": ["one"], "total": 1}},
    ),
]


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_every_other_request_passes_too(front: str, back: str) -> None:
    """Lists with their cursors, resources, prompts, completion."""
    async with between(back) as made:
        client = await made.join(front)
        for method, params, answer in METHODS:
            made.peer.on[method] = answer
            result = await client.submit(method, params)
            assert {name: result[name] for name in answer} == answer
            heard = dict((await made.peer.expect(method)).params)
            heard.pop("_meta", None)
            assert heard == params


@pytest.mark.parametrize("back", ERAS)
@on_fake_clock
async def test_a_stateless_client_gets_what_its_revision_demands(back: str) -> None:
    """2026-07-28: every result says what it is; lists say how long they may be kept: from an older server, not at all."""
    async with between(back) as made:
        client = await made.join(STATELESS)
        made.peer.on["tools/list"] = {
            "tools": [],
            "resultType": "complete",
            "ttlMs": 5,
            "cacheScope": "public",
        }
        made.peer.on["prompts/list"] = {"prompts": []}
        made.peer.on["tools/call"] = {"content": []}
        tools = await client.submit("tools/list")
        assert (tools["ttlMs"], tools["cacheScope"]) == (5, "public"), "the server's own word stands"
        prompts = await client.submit("prompts/list")
        assert prompts["resultType"] == "complete"
        if back == HANDSHAKE:
            assert (prompts["ttlMs"], prompts["cacheScope"]) == (0, "private")
        assert "ttlMs" not in await client.submit("tools/call", {"name": "t"})


@pytest.mark.parametrize("code", [-32077, 0])
@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_an_error_of_the_server_passes_with_code_and_data(front: str, back: str, code: int) -> None:
    def refuse(_: object) -> None:
        raise Refusal(code, "not today", {"because": ["it", {"rains": True}]})

    async with between(back) as made:
        client = await made.join(front)
        made.peer.on["tools/call"] = refuse
        with pytest.raises(JsonRpcError) as told:
            await client.tools.call("t")
        assert told.value.code == code
        assert told.value.message == "not today"
        assert told.value.data == {"because": ["it", {"rains": True}]}


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_progress_reaches_the_caller_under_its_own_token(front: str, back: str) -> None:
    async with between(back) as made:
        client = await made.join(front)
        seen: list[Any] = []
        call = asyncio.ensure_future(client.tools.call("t", on_progress=lambda one: seen.append(one.raw)))
        heard = await made.peer.expect("tools/call")
        token = heard.params["_meta"]["progressToken"]
        made.peer.notify("notifications/progress", progressToken=token, progress=1, total=2, extra="kept")
        made.peer.notify("notifications/progress", progressToken=token, progress=2, message="done")
        heard.answer({"content": []})
        await call
        assert [(one["progress"], one.get("extra"), one.get("message")) for one in seen][-1] == (
            2,
            None,
            "done",
        )
        assert all(one["progressToken"] != "nobody's" for one in seen)


@on_fake_clock
async def test_progress_is_not_asked_of_the_server_where_no_client_wants_it() -> None:
    async with between() as made:
        client = await made.join()
        made.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t")
        assert "_meta" not in (await made.peer.expect("tools/call")).params


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_a_cancel_reaches_the_server(front: str, back: str) -> None:
    """G11, through: the client gives up, the server is told once, with the id that it knows."""
    async with between(back) as made:
        client = await made.join(front)
        call = asyncio.ensure_future(client.tools.call("t"))
        heard = await made.peer.expect("tools/call")
        call.cancel()
        told = await made.peer.expect("notifications/cancelled")
        assert told.params["requestId"] == heard.id
        with pytest.raises(asyncio.CancelledError):
            await call
        made.peer.on["tools/list"] = {"tools": []}
        assert await client.tools.list() == []
        assert len(made.peer.got("notifications/cancelled")) == 1


@on_fake_clock
async def test_a_client_that_goes_cancels_what_it_asked() -> None:
    async with between() as made:
        client, other = await made.join(), await made.join()
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        heard = await made.peer.expect("tools/call")
        await client.stop()
        told = await made.peer.expect("notifications/cancelled")
        assert told.params["requestId"] == heard.id
        assert call.future.done()
        made.peer.on["tools/list"] = {"tools": []}
        assert await other.tools.list() == []


@pytest.mark.parametrize("back", ERAS)
@on_fake_clock
async def test_everybody_gets_his_own_answer(back: str) -> None:
    """Two clients of two eras on one server, answered in the wrong order, with equal ids on both sides."""
    async with between(back) as made:
        one, two = await made.join(HANDSHAKE), await made.join(STATELESS)
        calls = [
            client.submit("tools/call", {"name": name})
            for client, name in ((one, "1"), (two, "2"), (one, "3"))
        ]
        heard = [await made.peer.expect("tools/call") for _ in calls]
        assert made.peer.connections == 1
        for each in reversed(heard):
            each.answer({"content": [], "for": each.params["name"]})
        assert [(await call)["for"] for call in calls] == ["1", "2", "3"]


@on_fake_clock
async def test_a_stateless_server_is_told_who_asks_and_what_he_can() -> None:
    """2026-07-28: a server may ask only what the client of this very request declared. Tasks do not pass."""
    async with between(STATELESS) as made:
        made.peer.on["tools/call"] = {"content": []}
        tasks = {"io.modelcontextprotocol/tasks": {}, "org.example/other": {}}
        for version in ERAS:
            client = await made.join(
                version,
                client_info={"name": f"mine {version}", "version": "9"},
                capabilities={"roots": {}, "tasks": {}, "extensions": tasks},
            )
            await client.tools.call("t")
            meta = (await made.peer.expect("tools/call")).params["_meta"]
            assert meta["io.modelcontextprotocol/clientInfo"]["name"] == f"mine {version}"
            told = meta["io.modelcontextprotocol/clientCapabilities"]
            assert told == {"roots": {}, "extensions": {"org.example/other": {}}}
            assert meta["io.modelcontextprotocol/protocolVersion"] == STATELESS
        frame = made.peer.frames[-1]
        assert frame.count(b"clientCapabilities") == 1, "a name that stands twice is refused by some"


@on_fake_clock
async def test_a_server_with_a_handshake_sees_nothing_of_the_other_era() -> None:
    async with between() as made:
        client = await made.join(STATELESS)
        made.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t", meta={"io.modelcontextprotocol/logLevel": "debug"})
        assert "io.modelcontextprotocol" not in json.dumps((await made.peer.expect("tools/call")).params)


@on_fake_clock
async def test_tasks_of_a_shared_server_are_not_shown_to_others() -> None:
    """A list of tasks would be everybody's; with a server of one's own it is one's own (see test_proxy)."""
    async with between(capabilities={"tools": {}, "tasks": {"list": {}}}) as made:
        client = await made.join()
        assert "tasks" not in client.server_capabilities.raw
        call = client.wire.call("tasks/list", b"{}")
        with pytest.raises(JsonRpcError, match="--per-client") as told:
            await call.future
        assert told.value.code == -32601
        assert made.peer.got("tasks/list") == []


@on_fake_clock
async def test_a_header_that_a_tool_wants_is_learned_from_its_list_and_the_call_is_sent_again() -> None:
    """2026-07-28 streamable HTTP: -32020 means refused before dispatch, so that once more is safe."""
    region = {"type": "string", "x-mcp-header": "Region"}
    tool = {"name": "t", "inputSchema": {"type": "object", "properties": {"region": region}}}

    async def list_(seen: Seen, reply: Reply) -> None:
        reply.result(
            seen.id, {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        )

    async def call(seen: Seen, reply: Reply) -> None:
        if "mcp-param-region" in seen.headers:
            reply.result(seen.id, {"content": [], "resultType": "complete"})
        else:
            reply.error(seen.id, -32020, "Mcp-Param-Region is missing")

    server = MemoryHttp(Mcp(tools__list=list_, tools__call=call))
    async with AsyncExitStack() as stack:
        proxy = Proxy(http("http://127.0.0.1/mcp", client=server), ProxyOptions())
        await proxy.open()
        stack.push_async_callback(proxy.shutdown)
        client = await Between(server, proxy, stack).join(STATELESS)
        assert (await client.tools.call("t", {"region": "eu"})).content == []
    assert len(server.heard("tools/call")) == 2


@pytest.mark.parametrize("back", ERAS)
@on_fake_clock
async def test_a_code_of_a_server_without_headers_means_what_it_likes_and_its_call_is_not_sent_again(
    back: str,
) -> None:
    """-32020 is about headers over HTTP at 2026-07-28 alone. Elsewhere it is the server's own: the call may have run."""

    def call(_: object) -> None:
        raise Refusal(-32020, "out of paper")

    async with between(back) as made:
        client = await made.join()
        made.peer.on |= {"tools/call": call, "tools/list": {"tools": []}}
        with pytest.raises(JsonRpcError, match="out of paper"):
            await client.submit("tools/call", {"name": "t"})
        assert len(made.peer.got("tools/call")) == 1


# --- subscriptions and levels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("back", ERAS)
@on_fake_clock
async def test_two_subscriptions_to_one_resource_are_one_at_the_server(back: str) -> None:
    """It is ended with the last of them, or when the last client is gone."""
    async with between(back) as made:
        peer = made.peer
        peer.on |= {"resources/subscribe": {}, "resources/unsubscribe": {}}

        def listen(params: Any) -> None:
            id = peer.heard[-1].id
            mark = {"io.modelcontextprotocol/subscriptionId": id}
            peer.notify(
                "notifications/subscriptions/acknowledged", notifications=params["notifications"], _meta=mark
            )

        peer.on["subscriptions/listen"] = listen
        opens = "subscriptions/listen" if back == STATELESS else "resources/subscribe"
        closes = "notifications/cancelled" if back == STATELESS else "resources/unsubscribe"

        def subscribed() -> int:
            return sum("a:b" in json.dumps(one) for one in peer.got(opens))

        one, two, three = await made.join(), await made.join(STATELESS), await made.join()
        updates: list[str] = []
        await one.resources.subscribe("a:b", lambda _: updates.append("one"))
        await two.resources.subscribe("a:b", lambda _: updates.append("two"))
        assert subscribed() == 1
        peer.notify("notifications/resources/updated", uri="a:b")
        await _until(lambda: sorted(updates) == ["one", "two"])
        await one.resources.unsubscribe("a:b")
        await two.resources.unsubscribe("a:b")
        await peer.expect(closes)
        await three.resources.subscribe("a:b")
        await _until(lambda: subscribed() == 2)
        await three.stop()
        await peer.expect(closes)


@on_fake_clock
async def test_a_part_of_a_resource_that_was_subscribed_to_is_told_of_as_it_came() -> None:
    """2025-06-18 server/resources: an update may be of a sub-resource; what else it says is kept."""
    async with between() as made:
        made.peer.on["resources/subscribe"] = {}
        one, two = await made.join(), await made.join(STATELESS)
        seen: list[Any] = []
        for client in (one, two):
            client.on_notification(lambda told: seen.append(told.params))
            await client.resources.subscribe("a:b/")
        made.peer.notify("notifications/resources/updated", uri="a:b/c", title="kept", _meta={"x": 1})
        made.peer.notify("notifications/resources/updated", uri="z:other")
        made.peer.notify("notifications/resources/updated", uri="a:b")
        await _until(lambda: len(seen) == 2)
        assert all(told["uri"] == "a:b/c" and told["title"] == "kept" for told in seen)
        assert sorted(len(told["_meta"]) for told in seen) == [1, 2], (
            "the stateless one has the mark of its subscription"
        )


@pytest.mark.parametrize("front", ERAS)
@on_fake_clock
async def test_a_subscription_that_the_server_refuses_is_refused(front: str) -> None:
    def refuse(_: object) -> None:
        raise Refusal(-32002, "there is none")

    async with between() as made:
        made.peer.on["resources/subscribe"] = refuse
        client = await made.join(front)
        with pytest.raises(Exception, match=r"there is none|resources\.subscribe"):
            await client.resources.subscribe("a:b")


@on_fake_clock
async def test_the_server_logs_as_much_as_the_most_curious_client_wants() -> None:
    async with between() as made:
        made.peer.on["logging/setLevel"] = {}
        one, two = await made.join(), await made.join()
        await one.logging.set_level("warning")
        await two.logging.set_level("debug")
        await one.logging.set_level("error")
        assert [one.params["level"] for one in made.peer.got("logging/setLevel")] == [
            "warning",
            "debug",
            "debug",
        ]


@on_fake_clock
async def test_a_level_is_said_with_each_request_to_a_stateless_server() -> None:
    async with between(STATELESS) as made:
        made.peer.on["tools/call"] = {"content": []}
        client = await made.join()
        await client.tools.call("t")
        meta = (await made.peer.expect("tools/call")).params["_meta"]
        assert meta["io.modelcontextprotocol/logLevel"] == "info", (
            "without one a stateless server logs nothing"
        )
        await client.logging.set_level("notice")
        await client.tools.call("t", meta={"a": 1})
        meta = (await made.peer.expect("tools/call")).params["_meta"]
        assert (meta["io.modelcontextprotocol/logLevel"], meta["a"]) == ("notice", 1)


@on_fake_clock
async def test_a_level_that_the_server_refuses_is_refused() -> None:
    def refuse(_: object) -> None:
        raise Refusal(-32602, "no such level")

    async with between() as made:
        made.peer.on["logging/setLevel"] = refuse
        client = await made.join()
        with pytest.raises(JsonRpcError, match="no such level"):
            await client.logging.set_level("debug")
        call = client.submit("logging/setLevel", {"level": "shrill"})
        with pytest.raises(JsonRpcError) as told:
            await call
        assert told.value.code == -32602


@on_fake_clock
async def test_changed_roots_are_told_to_a_server_that_knows_of_roots() -> None:
    async with between() as made:
        client = made.make()
        client.roots.set([])
        await client.open()
        client.roots.set([])
        await made.peer.expect("notifications/roots/list_changed")
        client.wire.notify("notifications/of/my/own", b'{"a":1}')
        await client.ping()
        assert made.peer.got("notifications/of/my/own") == [], "a server that is shared is told what it knows"


@pytest.mark.parametrize("front", ERAS)
@on_fake_clock
async def test_a_subscription_that_is_cancelled_is_let_go(front: str) -> None:
    async with between() as made:
        client = await made.join(front)
        if front == STATELESS:
            made.peer.on["resources/subscribe"] = lambda params: {} if params["uri"] == "a:1" else None
            call = client.submit(
                "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a:1", "a:2"]}}
            )
            await made.peer.expect("resources/subscribe", 2)
        else:
            call = client.submit("resources/subscribe", {"uri": "a:2"})
            await made.peer.expect("resources/subscribe")
        call.cancel()
        await made.peer.expect("notifications/cancelled")
        if front == STATELESS:
            assert (await made.peer.expect("resources/unsubscribe")).params["uri"] == "a:1"
        assert made.proxy._eras.first is not None
        assert made.proxy._eras.first.wanted_for("a:2") == []


@on_fake_clock
async def test_progress_that_comes_after_the_answer_is_dropped() -> None:
    async with between() as made:
        client = await made.join()
        seen: list[Any] = []
        call = asyncio.ensure_future(client.tools.call("t", on_progress=seen.append))
        heard = await made.peer.expect("tools/call")
        heard.answer({"content": []})
        heard.progress(1)
        await call
        await asyncio.sleep(0.1)
        assert seen == []


async def _until(holds: Any) -> None:
    while not holds():
        await asyncio.sleep(0.01)
