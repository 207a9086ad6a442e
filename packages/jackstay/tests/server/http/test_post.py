"""A POST that is a connection of its own: JSON or a stream, single messages and batches, and draining.

Disconnects are in `test_post_leaving`, subscriptions in `test_post_subscriptions`.
"""

import asyncio
from typing import Any

import pytest

from jackstay.errors import JsonRpcError
from jackstay.protocol.server import events as e
from jackstay.server import Context
from jackstay.server.http import _post as poller_file
from jackstay.testing import run_on_fake_clock
from scripted.asgi import http_client, initialize, request, stateless, tool
from scripted.gate import Gate
from scripted.posts import serving

# --- JSON -------------------------------------------------------------------------------------------------------------


async def test_the_response_is_json_unless_a_stream_is_needed() -> None:
    async with http_client(serving().asgi()) as http:
        old = await http.post(tool("echo", text="a"))
        new = await http.post(stateless("tools/call", {"name": "echo", "arguments": {"text": "b"}}, id="x"))
        for answer in (old, new):
            assert (answer.status, answer.kind) == (200, "application/json")
            assert answer.headers["content-length"] == str(len(answer.body))
        assert old.json["result"] == {"content": [{"type": "text", "text": "a"}]}
        assert new.json["id"] == "x"
        assert new.json["result"]["resultType"] == "complete"


async def test_a_notification_of_a_synchronous_tool_makes_the_response_a_stream() -> None:
    async with http_client(serving().asgi()) as http:
        message = stateless("tools/call", {"name": "at_once", "arguments": {"text": "b"}}, progressToken="t")
        answer = await http.post(message)
        assert answer.kind == "text/event-stream"
        assert [found.get("method", "answer") for found in answer.messages] == [
            "notifications/progress",
            "answer",
        ]


async def test_initialize_without_sessions_opens_no_session() -> None:
    app = serving().asgi()
    async with http_client(app) as http:
        answer = await http.post(initialize())
        assert answer.json["result"]["protocolVersion"] == "2025-11-25"
        assert "mcp-session-id" not in answer.headers
        assert (await http.post({"jsonrpc": "2.0", "method": "notifications/initialized"})).status == 202
        assert app.connections == 0


async def test_without_sessions_requests_to_the_client_fail() -> None:
    """The error explains that sessions are off."""
    server = serving()

    @server.tool
    async def curious(ctx: Context) -> str:
        return str(await ctx.list_roots())

    async with http_client(server.asgi()) as http:
        answer = await http.post(tool("curious"))
        assert answer.json["result"]["isError"] is True
        assert "sessions are off" in answer.json["result"]["content"][0]["text"]


async def test_an_error_has_its_status(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, int, int]] = [
        (b"{", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"1.0","id":1}', 400, -32600),
        (b"\xff", 400, -32700),
        (request("tools/nothing"), 200, -32601),
        (stateless("tools/nothing"), 404, -32601),
        (stateless("ping"), 404, -32601),
        (stateless("tools/call", {"name": "nothing"}), 200, -32602),
        (request("tools/call", {"name": "nothing"}), 200, -32602),
    ]
    for message, status, code in cases:
        with subtests.test(message=message, status=status, code=code):
            async with http_client(serving().asgi()) as http:
                answer = await http.post(message)
                assert (answer.status, answer.json["error"]["code"]) == (status, code)


async def test_a_missing_capability_found_by_the_handler_is_a_400() -> None:
    """2026-07-28 basic/index: -32021 with `requiredCapabilities`, HTTP 400."""
    server = serving()

    @server.tool
    async def curious(ctx: Context) -> str:
        return str(await ctx.list_roots())

    async with http_client(server.asgi()) as http:
        answer = await http.post(stateless("tools/call", {"name": "curious"}))
        assert (answer.status, answer.json["error"]["code"]) == (400, -32021)
        assert answer.json["error"]["data"]["requiredCapabilities"] == {"roots": {}}


async def test_invalid_meta_is_a_400() -> None:
    async with http_client(serving().asgi()) as http:
        broken = stateless("tools/list")
        del broken["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        answer = await http.post(broken)
        assert (answer.status, answer.json["error"]["code"]) == (400, -32602)


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_the_first_notification_turns_the_response_into_a_stream() -> None:
    """2026-07-28 basic/transports/streamable-http: notifications of the request, then the response, then the end."""
    async with http_client(serving().asgi()) as http:
        call = stateless("tools/call", {"name": "steps", "arguments": {"count": 2}}, progressToken=7)
        answer = await http.post(call)
        assert (answer.status, answer.kind) == (200, "text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        first, second, last = answer.messages
        assert [first["params"]["progress"], second["params"]["progress"]] == [1, 2]
        assert last["result"]["content"][0]["text"] == "done"
        assert all(event.id is None for event in answer.events), "stateless streams have no event ids"


async def test_a_client_that_accepts_no_stream_gets_only_the_response() -> None:
    async with http_client(serving().asgi(), accept="application/json") as http:
        call = stateless("tools/call", {"name": "steps", "arguments": {"count": 2}}, progressToken=7)
        answer = await http.post(call)
        assert answer.kind == "application/json"
        assert answer.json["result"]["content"][0]["text"] == "done"


async def test_a_client_that_accepts_only_streams_gets_the_response_in_one() -> None:
    async with http_client(serving().asgi(), accept="text/event-stream") as http:
        answer = await http.post(tool("echo", text="a"))
        assert answer.kind == "text/event-stream"
        (message,) = answer.messages
        assert message["result"]["content"][0]["text"] == "a"
        accepted = await http.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert accepted.status == 202


async def test_response_format_is_always_the_same(subtests: pytest.Subtests) -> None:
    for answers, kind in (("json", "application/json"), ("sse", "text/event-stream")):
        with subtests.test(answers=answers, kind=kind):
            async with http_client(serving().asgi(response_format=answers)) as http:
                call = stateless("tools/call", {"name": "steps", "arguments": {"count": 1}}, progressToken=7)
                assert (await http.post(call)).kind == kind
                assert (await http.post(tool("echo", text="a"))).kind == kind


async def test_a_call_that_takes_long_is_kept_alive() -> None:
    """docs/guarantees.md G17: proxies close silent responses, so keepalives are sent on a stream."""
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi(keepalive=0.05)) as http:
        response = await http.open("POST", tool("wait"))
        assert response.kind == "text/event-stream"
        await response.until(lambda: response.body.count(b": keep-alive") >= 2)
        gate.open.set()
        assert (await response.message())["result"]["content"][0]["text"] == "waited"
        await response.end()
        assert response.is_complete


# --- batches ----------------------------------------------------------------------------------------------------------


async def test_a_batch_gets_one_batch_of_responses() -> None:
    """2025-03-26 basic/index, "Batching"."""
    async with http_client(serving().asgi(), mcp_protocol_version="2025-03-26") as http:
        both = [tool("echo", 1, text="a"), tool("echo", 2, text="b"), request("ping", id=3)]
        answer = await http.post(both)
        assert answer.kind == "application/json"
        assert [member["id"] for member in answer.json] == [1, 2, 3]
        only_notifications = [{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 2
        assert (await http.post(only_notifications)).status == 202


async def test_a_batch_that_ends_when_its_response_becomes_a_stream_is_responded_to(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """The last handler may end in the same turn of the loop as the timer of the keepalive, before it or after it."""
    monkeypatch.setattr(poller_file, "POLL_INTERVAL", 1e-9)
    server = serving()

    @server.tool
    async def turns(count: int) -> int:
        for _ in range(count):
            await asyncio.sleep(0)
        return count

    async with http_client(server.asgi(keepalive=1e-9), mcp_protocol_version="2025-03-26") as http:
        kinds = set()
        for count in range(15):
            with subtests.test(count=count):
                response = await http.post([tool("turns", 1, count=0), tool("turns", 2, count=count)])
                kinds.add(response.kind)
                found = response.json if response.kind == "application/json" else response.messages[-1]
                assert [member["id"] for member in found] == [1, 2]
        assert kinds == {"application/json", "text/event-stream"}


async def test_a_notification_of_a_batch_member_opens_the_stream() -> None:
    server = serving()
    gate = Gate(server)

    @server.tool
    async def late(ctx: Context) -> str:
        await gate.open.wait()
        ctx.progress(1)
        await asyncio.sleep(0)
        return "late"

    async with http_client(server.asgi(), mcp_protocol_version="2025-03-26") as http:
        second = tool("late", 2)
        second["params"]["_meta"] = {"progressToken": 9}
        response = http.start("POST", [tool("echo", 1, text="a"), second])
        gate.open.set()
        await response.until(lambda: response.is_complete)
        progress, answers = response.messages
        assert progress["params"]["progressToken"] == 9
        assert [member["id"] for member in answers] == [1, 2]


async def test_a_member_that_is_cancelled_by_a_later_member_has_no_response() -> None:
    server = serving()
    Gate(server)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    async with http_client(server.asgi(), mcp_protocol_version="2025-03-26") as http:
        answer = await http.post([tool("wait", 1), cancel])
        assert (answer.status, answer.kind) == (200, "text/event-stream")
        assert answer.messages == []
        answer = await http.post([tool("wait", 1), cancel], headers={"accept": "application/json"})
        assert (answer.status, answer.kind) == (200, "application/json")
        assert (answer.json["id"], answer.json["error"]["data"]) == (1, {"reason": "cancelled"})
        cancel_2 = {**cancel, "params": {"requestId": 2}}
        answer = await http.post(
            [tool("wait", 1), tool("wait", 2), cancel, cancel_2], headers={"accept": "application/json"}
        )
        assert [member["id"] for member in answer.json] == [1, 2]
        answer = await http.post([tool("wait", 1), tool("echo", 2, text="b"), cancel])
        assert [member["id"] for member in answer.json] == [2]


# --- draining ---------------------------------------------------------------------------------------------------------


def test_drain_waits_for_running_handlers() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        app = server.asgi()
        async with http_client(app) as http:
            response = http.start("POST", tool("wait"))
            await gate.began.wait()
            draining = asyncio.get_running_loop().create_task(app.drain())
            await asyncio.sleep(0.01)
            assert not draining.done()
            gate.open.set()
            await draining
            assert response.json["result"]["content"][0]["text"] == "waited"

    run_on_fake_clock(test())


async def test_a_handler_that_exceeds_the_drain_timeout_is_cancelled_without_a_response(
    subtests: pytest.Subtests,
) -> None:
    """A 503 without a body: whether the handler completed is unknown."""
    cases: list[Any] = [lambda: tool("wait"), lambda: stateless("tools/call", {"name": "wait"})]
    for make in cases:
        with subtests.test(make=make):
            server = serving(drain_timeout=0.05)
            gate = Gate(server)
            app = server.asgi()
            async with http_client(app) as http:
                response = http.start("POST", make())
                await gate.began.wait()
                await app.drain()
                assert gate.cancelled.is_set()
                assert (response.status, response.body) == (503, b"")


async def test_a_stream_that_exceeds_the_drain_timeout_ends_without_a_response() -> None:
    server = serving(drain_timeout=0.05)
    gate = Gate(server)
    app = server.asgi(keepalive=0.03)
    async with http_client(app) as http:
        response = await http.open("POST", tool("wait"))
        await app.drain()
        await response.end()
        assert gate.cancelled.is_set()
        assert response.messages == []


async def test_requests_above_max_concurrent_are_refused_as_busy() -> None:
    """One POST is one connection, so only a batch can exceed the limit."""
    async with http_client(serving(max_concurrent=1).asgi(), mcp_protocol_version="2025-03-26") as http:
        answer = await http.post([tool("echo", 1, text="a"), tool("echo", 2, text="b")])
        assert "result" in answer.json[0]
        assert answer.json[1]["error"]["data"]["reason"] == "busy"


async def test_telemetry_of_a_request_over_http() -> None:
    server = serving()
    events: list[str] = []
    server.subscribe(lambda name, fields: events.append(name))
    async with http_client(server.asgi()) as http:
        await http.post(tool("echo", text="a"))
    assert events == ["jackstay.server.request.start", "jackstay.server.request.stop"]


async def test_an_error_of_a_handler_is_a_normal_response() -> None:
    server = serving()

    @server.tool
    async def fails() -> str:
        raise JsonRpcError(-32000, "mine", {"a": 1})

    async with http_client(server.asgi()) as http:
        answer = await http.post(stateless("tools/call", {"name": "fails"}))
        assert (answer.status, answer.json["error"]["code"]) == (200, -32000)


async def test_a_stream_cannot_be_closed_and_resumed_without_a_session() -> None:
    """`ctx.close_stream` does nothing if the client could not resume."""
    server = serving()

    @server.tool
    async def closes(ctx: Context) -> str:
        ctx.close_stream(retry=0.1)
        return "still here"

    async with http_client(server.asgi()) as http:
        answer = await http.post(tool("closes"))
        assert answer.json["result"]["content"][0]["text"] == "still here"


async def test_repr() -> None:
    server = serving()
    gate = Gate(server)
    app = server.asgi()
    async with http_client(app) as http:
        http.start("POST", tool("wait"))
        await gate.began.wait()
        (post,) = app._posts
        assert "operating 2025-03-26, 1 in flight" in repr(post)
        assert "1 connections" in repr(app)
        post._send(e.Send(b"{}"))  # related to no request of this POST
        gate.open.set()
