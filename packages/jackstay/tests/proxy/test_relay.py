"""Forwarded requests, results and notifications, in every pair of eras."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from jackstay.errors import JsonRpcError
from jackstay.proxy import Proxy, ProxyOptions
from jackstay.testing import ScriptedError, on_fake_clock
from jackstay.transport.http import http
from jackstay.types import CallToolResult, Implementation, UnknownContent
from scripted.between import ERAS, HANDSHAKE, PAIRS, STATELESS, Between, between
from scripted.http import Mcp, MemoryHttp, Reply, Seen


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_a_client_receives_the_declarations_of_the_server(client_version: str, server_version: str) -> None:
    """Name, instructions and capabilities."""
    async with between(server_version, {"tools": {}, "experimental": {"own": {"depth": 3}}}) as harness:
        client = await harness.join(client_version)
        assert client.server_info == Implementation(name="behind", version="1")
        assert client.instructions == "be polite"
        declared = client.server_capabilities.raw
        assert declared["experimental"] == {"own": {"depth": 3}}
        assert declared["tools"] == {"listChanged": True}, "the server may restart as another version"
        assert "logging" not in declared
        assert "resources" not in declared


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_a_call_and_its_result_are_forwarded_unchanged(client_version: str, server_version: str) -> None:
    """Unknown members and content are kept; arguments and the caller's own `_meta` are forwarded."""
    answer = {
        "content": [{"type": "hologram", "depth": 3}],
        "structuredContent": {"big": 12345678901234567890, "exact": 1.0},
        "unknownMember": [1, {"x": None}],
        "_meta": {"org.example/trace": "t"},
    }
    async with between(server_version) as harness:
        client = await harness.join(client_version)
        harness.peer.on["tools/call"] = answer
        result = await client.tools.call(
            "t", {"a": [1, None, "ä"], "_meta": "an argument of that name"}, meta={"org.example/own": 7}
        )
        assert isinstance(result, CallToolResult)
        assert isinstance(result.content[0], UnknownContent)
        raw = result.raw
        assert raw["structuredContent"] == answer["structuredContent"]
        assert raw["unknownMember"] == answer["unknownMember"]
        assert raw["_meta"]["org.example/trace"] == "t"
        call = (await harness.peer.expect("tools/call")).params
        assert call["arguments"] == {"a": [1, None, "ä"], "_meta": "an argument of that name"}
        assert call["name"] == "t"
        assert call["_meta"]["org.example/own"] == 7


@on_fake_clock
async def test_a_result_is_not_encoded_again_within_one_era() -> None:
    """Order, spaces and numbers of a result are unchanged."""
    async with between() as harness:
        client = await harness.join()
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        received = await harness.peer.expect("tools/call")
        harness.peer.send(b'{"jsonrpc":"2.0","id":%d,"result":{ "z" : 1.50, "content":[ ] ,"a":1e2}}' % received.id)
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


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_every_other_request_is_forwarded(client_version: str, server_version: str) -> None:
    """Lists with their cursors, resources, prompts, completion."""
    async with between(server_version) as harness:
        client = await harness.join(client_version)
        for method, params, answer in METHODS:
            harness.peer.on[method] = answer
            result = await client.submit(method, params)
            assert {name: result[name] for name in answer} == answer
            received = dict((await harness.peer.expect(method)).params)
            received.pop("_meta", None)
            assert received == params


@pytest.mark.parametrize("server_version", ERAS)
@on_fake_clock
async def test_a_stateless_client_gets_the_members_that_its_revision_requires(server_version: str) -> None:
    """2026-07-28: `resultType`, and caching hints in lists. Lists of an older server are not cacheable."""
    async with between(server_version) as harness:
        client = await harness.join(STATELESS)
        harness.peer.on["tools/list"] = {
            "tools": [],
            "resultType": "complete",
            "ttlMs": 5,
            "cacheScope": "public",
        }
        harness.peer.on["prompts/list"] = {"prompts": []}
        harness.peer.on["tools/call"] = {"content": []}
        tools = await client.submit("tools/list")
        assert (tools["ttlMs"], tools["cacheScope"]) == (5, "public"), "the hints of the server are kept"
        prompts = await client.submit("prompts/list")
        assert prompts["resultType"] == "complete"
        if server_version == HANDSHAKE:
            assert (prompts["ttlMs"], prompts["cacheScope"]) == (0, "private")
        assert "ttlMs" not in await client.submit("tools/call", {"name": "t"})


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_an_error_of_the_server_keeps_code_and_data(client_version: str, server_version: str) -> None:
    def respond_error(_: object) -> None:
        raise ScriptedError(-32077, "not today", {"because": ["it", {"rains": True}]})

    async with between(server_version) as harness:
        client = await harness.join(client_version)
        harness.peer.on["tools/call"] = respond_error
        with pytest.raises(JsonRpcError) as caught:
            await client.tools.call("t")
        assert caught.value.code == -32077
        assert caught.value.message == "not today"
        assert caught.value.data == {"because": ["it", {"rains": True}]}


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_progress_is_forwarded_with_the_token_of_the_client(client_version: str, server_version: str) -> None:
    async with between(server_version) as harness:
        client = await harness.join(client_version)
        seen: list[Any] = []
        call = asyncio.ensure_future(client.tools.call("t", on_progress=lambda message: seen.append(message.raw)))
        received = await harness.peer.expect("tools/call")
        token = received.params["_meta"]["progressToken"]
        harness.peer.notify("notifications/progress", progressToken=token, progress=1, total=2, extra="kept")
        harness.peer.notify("notifications/progress", progressToken=token, progress=2, message="done")
        received.respond({"content": []})
        await call
        assert [(each["progress"], each.get("extra"), each.get("message")) for each in seen][-1] == (
            2,
            None,
            "done",
        )
        assert all(each["progressToken"] != "unknown" for each in seen)


@on_fake_clock
async def test_progress_is_requested_only_if_the_client_requests_it() -> None:
    async with between() as harness:
        client = await harness.join()
        harness.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t")
        assert "_meta" not in (await harness.peer.expect("tools/call")).params


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_a_cancellation_reaches_the_server(client_version: str, server_version: str) -> None:
    """The server is cancelled once, with its own request id (docs/guarantees.md G11)."""
    async with between(server_version) as harness:
        client = await harness.join(client_version)
        call = asyncio.ensure_future(client.tools.call("t"))
        received = await harness.peer.expect("tools/call")
        call.cancel()
        cancelled = await harness.peer.expect("notifications/cancelled")
        assert cancelled.params["requestId"] == received.id
        with pytest.raises(asyncio.CancelledError):
            await call
        harness.peer.on["tools/list"] = {"tools": []}
        assert await client.tools.list() == []
        assert len(harness.peer.got("notifications/cancelled")) == 1


@on_fake_clock
async def test_a_client_that_disconnects_cancels_its_calls() -> None:
    async with between() as harness:
        client, other = await harness.join(), await harness.join()
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        received = await harness.peer.expect("tools/call")
        await client.stop()
        cancelled = await harness.peer.expect("notifications/cancelled")
        assert cancelled.params["requestId"] == received.id
        assert call.future.done()
        harness.peer.on["tools/list"] = {"tools": []}
        assert await other.tools.list() == []


@pytest.mark.parametrize("server_version", ERAS)
@on_fake_clock
async def test_every_client_gets_its_own_response(server_version: str) -> None:
    """Two clients of two eras with equal request ids at one server that responds in reverse order."""
    async with between(server_version) as harness:
        one, two = await harness.join(HANDSHAKE), await harness.join(STATELESS)
        calls = [client.submit("tools/call", {"name": name}) for client, name in ((one, "1"), (two, "2"), (one, "3"))]
        received = [await harness.peer.expect("tools/call") for _ in calls]
        assert harness.peer.connections == 1
        for each in reversed(received):
            each.respond({"content": [], "for": each.params["name"]})
        assert [(await call)["for"] for call in calls] == ["1", "2", "3"]


@on_fake_clock
async def test_a_stateless_server_gets_the_info_and_capabilities_of_the_client() -> None:
    """2026-07-28: each request contains the capabilities of its client. Tasks are removed."""
    async with between(STATELESS) as harness:
        harness.peer.on["tools/call"] = {"content": []}
        tasks = {"io.modelcontextprotocol/tasks": {}, "org.example/other": {}}
        for version in ERAS:
            client = await harness.join(
                version,
                client_info={"name": f"client {version}", "version": "9"},
                capabilities={"roots": {}, "tasks": {}, "extensions": tasks},
            )
            await client.tools.call("t")
            meta = (await harness.peer.expect("tools/call")).params["_meta"]
            assert meta["io.modelcontextprotocol/clientInfo"]["name"] == f"client {version}"
            capabilities = meta["io.modelcontextprotocol/clientCapabilities"]
            assert capabilities == {"roots": {}, "extensions": {"org.example/other": {}}}
            assert meta["io.modelcontextprotocol/protocolVersion"] == STATELESS
        frame = harness.peer.frames[-1]
        assert frame.count(b"clientCapabilities") == 1, "some servers reject duplicate members"


@on_fake_clock
async def test_a_handshake_server_gets_no_stateless_members() -> None:
    async with between() as harness:
        client = await harness.join(STATELESS)
        harness.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t", meta={"io.modelcontextprotocol/logLevel": "debug"})
        assert "io.modelcontextprotocol" not in json.dumps((await harness.peer.expect("tools/call")).params)


@on_fake_clock
async def test_tasks_of_a_shared_server_are_not_available() -> None:
    """A list of tasks would contain tasks of all clients."""
    async with between(capabilities={"tools": {}, "tasks": {"list": {}}}) as harness:
        client = await harness.join()
        assert "tasks" not in client.server_capabilities.raw
        call = client.forwarding.call("tasks/list", b"{}")
        with pytest.raises(JsonRpcError, match="--per-client") as caught:
            await call.future
        assert caught.value.code == -32601
        assert harness.peer.got("tasks/list") == []


@on_fake_clock
async def test_header_mismatch_fetches_the_tool_list_and_retries() -> None:
    """2026-07-28 basic/transports: -32020 means rejected before dispatch, so a retry is safe."""
    region = {"type": "string", "x-mcp-header": "Region"}
    tool = {"name": "t", "inputSchema": {"type": "object", "properties": {"region": region}}}

    async def list_(seen: Seen, reply: Reply) -> None:
        reply.result(seen.id, {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})

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
    assert len(server.received("tools/call")) == 2


@pytest.mark.parametrize("server_version", ERAS)
@on_fake_clock
async def test_header_mismatch_without_headers_is_not_retried(
    server_version: str,
) -> None:
    """-32020 means a header mismatch only over HTTP in 2026-07-28. Otherwise the call may have run."""

    def call(_: object) -> None:
        raise ScriptedError(-32020, "out of paper")

    async with between(server_version) as harness:
        client = await harness.join()
        harness.peer.on |= {"tools/call": call, "tools/list": {"tools": []}}
        with pytest.raises(JsonRpcError, match="out of paper"):
            await client.submit("tools/call", {"name": "t"})
        assert len(harness.peer.got("tools/call")) == 1


# --- subscriptions and levels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("server_version", ERAS)
@on_fake_clock
async def test_two_subscriptions_to_one_resource_are_one_at_the_server(server_version: str) -> None:
    """It ends with the last of them, or when the last client disconnects."""
    async with between(server_version) as harness:
        peer = harness.peer
        peer.on |= {"resources/subscribe": {}, "resources/unsubscribe": {}}

        def listen(params: Any) -> None:
            id = peer.received[-1].id
            mark = {"io.modelcontextprotocol/subscriptionId": id}
            peer.notify("notifications/subscriptions/acknowledged", notifications=params["notifications"], _meta=mark)

        peer.on["subscriptions/listen"] = listen
        opens = "subscriptions/listen" if server_version == STATELESS else "resources/subscribe"
        closes = "notifications/cancelled" if server_version == STATELESS else "resources/unsubscribe"

        def subscribed() -> int:
            return sum("a:b" in json.dumps(message) for message in peer.got(opens))

        one, two, three = await harness.join(), await harness.join(STATELESS), await harness.join()
        updates: list[str] = []
        await one.resources.subscribe("a:b", lambda _: updates.append("one"))
        await two.resources.subscribe("a:b", lambda _: updates.append("two"))
        assert subscribed() == 1
        peer.notify("notifications/resources/updated", uri="a:b")
        await _wait_until(lambda: sorted(updates) == ["one", "two"])
        await one.resources.unsubscribe("a:b")
        await two.resources.unsubscribe("a:b")
        await peer.expect(closes)
        await three.resources.subscribe("a:b")
        await _wait_until(lambda: subscribed() == 2)
        await three.stop()
        await peer.expect(closes)


@on_fake_clock
async def test_an_update_of_a_sub_resource_is_forwarded_unchanged() -> None:
    """2025-06-18 server/resources: an update may concern a sub-resource. Other members are kept."""
    async with between() as harness:
        harness.peer.on["resources/subscribe"] = {}
        one, two = await harness.join(), await harness.join(STATELESS)
        seen: list[Any] = []
        for client in (one, two):
            client.on_notification(lambda notified: seen.append(notified.params))
            await client.resources.subscribe("a:b/")
        harness.peer.notify("notifications/resources/updated", uri="a:b/c", title="kept", _meta={"x": 1})
        harness.peer.notify("notifications/resources/updated", uri="z:other")
        harness.peer.notify("notifications/resources/updated", uri="a:b")
        await _wait_until(lambda: len(seen) == 2)
        assert all(update["uri"] == "a:b/c" and update["title"] == "kept" for update in seen)
        assert sorted(len(update["_meta"]) for update in seen) == [1, 2], (
            "the stateless client also gets its subscription id"
        )


@pytest.mark.parametrize("client_version", ERAS)
@on_fake_clock
async def test_a_subscription_that_the_server_rejects_fails(client_version: str) -> None:
    def respond_error(_: object) -> None:
        raise ScriptedError(-32002, "there is none")

    async with between() as harness:
        harness.peer.on["resources/subscribe"] = respond_error
        client = await harness.join(client_version)
        with pytest.raises(Exception, match=r"there is none|resources\.subscribe"):
            await client.resources.subscribe("a:b")


@on_fake_clock
async def test_the_server_gets_the_most_verbose_level() -> None:
    async with between() as harness:
        harness.peer.on["logging/setLevel"] = {}
        one, two = await harness.join(), await harness.join()
        await one.logging.set_level("warning")
        await two.logging.set_level("debug")
        await one.logging.set_level("error")
        assert [message.params["level"] for message in harness.peer.got("logging/setLevel")] == [
            "warning",
            "debug",
            "debug",
        ]


@on_fake_clock
async def test_a_stateless_server_gets_the_level_with_each_request() -> None:
    async with between(STATELESS) as harness:
        harness.peer.on["tools/call"] = {"content": []}
        client = await harness.join()
        await client.tools.call("t")
        meta = (await harness.peer.expect("tools/call")).params["_meta"]
        assert meta["io.modelcontextprotocol/logLevel"] == "info", (
            "without a level, a stateless server sends no log messages"
        )
        await client.logging.set_level("notice")
        await client.tools.call("t", meta={"a": 1})
        meta = (await harness.peer.expect("tools/call")).params["_meta"]
        assert (meta["io.modelcontextprotocol/logLevel"], meta["a"]) == ("notice", 1)


@on_fake_clock
async def test_a_level_that_the_server_rejects_fails() -> None:
    def respond_error(_: object) -> None:
        raise ScriptedError(-32602, "no such level")

    async with between() as harness:
        harness.peer.on["logging/setLevel"] = respond_error
        client = await harness.join()
        with pytest.raises(JsonRpcError, match="no such level"):
            await client.logging.set_level("debug")
        call = client.submit("logging/setLevel", {"level": "shrill"})
        with pytest.raises(JsonRpcError) as caught:
            await call
        assert caught.value.code == -32602


@on_fake_clock
async def test_changed_roots_are_forwarded() -> None:
    async with between() as harness:
        client = harness.make()
        client.roots.set([])
        await client.open()
        client.roots.set([])
        await harness.peer.expect("notifications/roots/list_changed")
        client.forwarding.notify("notifications/of/my/own", b'{"a":1}')
        await client.ping()
        assert harness.peer.got("notifications/of/my/own") == [], "other notifications are not sent to a shared server"


@pytest.mark.parametrize("client_version", ERAS)
@on_fake_clock
async def test_a_cancelled_subscription_is_removed(client_version: str) -> None:
    async with between() as harness:
        client = await harness.join(client_version)
        if client_version == STATELESS:
            harness.peer.on["resources/subscribe"] = lambda params: {} if params["uri"] == "a:1" else None
            call = client.submit("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a:1", "a:2"]}})
            await harness.peer.expect("resources/subscribe", 2)
        else:
            call = client.submit("resources/subscribe", {"uri": "a:2"})
            await harness.peer.expect("resources/subscribe")
        call.cancel()
        await harness.peer.expect("notifications/cancelled")
        if client_version == STATELESS:
            assert (await harness.peer.expect("resources/unsubscribe")).params["uri"] == "a:1"
        assert harness.proxy._eras.first is not None
        assert harness.proxy._eras.first.subscriptions_for("a:2") == []


@on_fake_clock
async def test_progress_after_the_response_is_dropped() -> None:
    async with between() as harness:
        client = await harness.join()
        seen: list[Any] = []
        call = asyncio.ensure_future(client.tools.call("t", on_progress=seen.append))
        received = await harness.peer.expect("tools/call")
        received.respond({"content": []})
        received.progress(1)
        await call
        await asyncio.sleep(0.1)
        assert seen == []


async def _wait_until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.01)
