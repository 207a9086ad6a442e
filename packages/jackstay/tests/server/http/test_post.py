"""One POST that is a connection of its own: JSON or a stream, one message or an array, in both eras; and how it drains.

Clients that leave are in `test_post_leaving`, subscriptions in `test_post_subscriptions`.
"""

import asyncio
from typing import Any

import pytest

from jackstay.errors import JsonRpcError
from jackstay.protocol.server import events as e
from jackstay.server import Context
from jackstay.testing import run_on_fake_clock
from scripted.asgi import asking, initialize, request, run, stateless, tool
from scripted.gate import Gate
from scripted.posts import serving

# --- JSON -------------------------------------------------------------------------------------------------------------


def test_a_request_is_answered_with_json_in_both_eras() -> None:
    """connection.md section 6; performance.md: JSON unless a stream is needed."""

    async def test() -> None:
        async with asking(serving().asgi()) as http:
            old = await http.post(tool("echo", text="a"))
            new = await http.post(
                stateless("tools/call", {"name": "echo", "arguments": {"text": "b"}}, id="x")
            )
            for answer in (old, new):
                assert (answer.status, answer.kind) == (200, "application/json")
                assert answer.headers["content-length"] == str(len(answer.body))
            assert old.json["result"] == {"content": [{"type": "text", "text": "a"}]}
            assert new.json["id"] == "x"
            assert new.json["result"]["resultType"] == "complete"

    run(test)


def test_a_tool_that_runs_in_place_and_says_something_is_a_stream() -> None:
    async def test() -> None:
        async with asking(serving().asgi()) as http:
            message = stateless(
                "tools/call", {"name": "at_once", "arguments": {"text": "b"}}, progressToken="t"
            )
            answer = await http.post(message)
            assert answer.kind == "text/event-stream"
            assert [found.get("method", "answer") for found in answer.messages] == [
                "notifications/progress",
                "answer",
            ]

    run(test)


def test_initialize_without_sessions_is_answered_and_nothing_is_remembered() -> None:
    """connection.md section 6."""

    async def test() -> None:
        app = serving().asgi()
        async with asking(app) as http:
            answer = await http.post(initialize())
            assert answer.json["result"]["protocolVersion"] == "2025-11-25"
            assert "mcp-session-id" not in answer.headers
            assert (await http.post({"jsonrpc": "2.0", "method": "notifications/initialized"})).status == 202
            assert app.connections == 0

    run(test)


def test_without_sessions_nothing_can_be_asked_of_the_client() -> None:
    """connection.md section 6: `CapabilityError` saying that sessions are off."""

    async def test() -> None:
        server = serving()

        @server.tool
        async def curious(ctx: Context) -> str:
            return str(await ctx.roots())

        async with asking(server.asgi()) as http:
            answer = await http.post(tool("curious"))
            assert answer.json["result"]["isError"] is True
            assert "sessions are off" in answer.json["result"]["content"][0]["text"]

    run(test)


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"1.0","id":1}', 400, -32600),
        (b"\xff", 400, -32700),
        (request("tools/nothing"), 200, -32601),
        (stateless("tools/nothing"), 404, -32601),
        (stateless("ping"), 404, -32601),
        (stateless("tools/call", {"name": "nothing"}), 200, -32602),
        (request("tools/call", {"name": "nothing"}), 200, -32602),
    ],
)
def test_an_error_has_its_status(message: Any, status: int, code: int) -> None:
    """protocol.md section 6, statuses."""

    async def test() -> None:
        async with asking(serving().asgi()) as http:
            answer = await http.post(message)
            assert (answer.status, answer.json["error"]["code"]) == (status, code)

    run(test)


def test_a_missing_capability_found_by_the_handler_is_a_400() -> None:
    """protocol.md section 2: -32021, HTTP 400, with `requiredCapabilities`."""

    async def test() -> None:
        server = serving()

        @server.tool
        async def curious(ctx: Context) -> str:
            return str(await ctx.roots())

        async with asking(server.asgi()) as http:
            answer = await http.post(stateless("tools/call", {"name": "curious"}))
            assert (answer.status, answer.json["error"]["code"]) == (400, -32021)
            assert answer.json["error"]["data"]["requiredCapabilities"] == {"roots": {}}

    run(test)


def test_meta_that_cannot_be_used_is_a_400() -> None:
    async def test() -> None:
        async with asking(serving().asgi()) as http:
            broken = stateless("tools/list")
            del broken["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            answer = await http.post(broken)
            assert (answer.status, answer.json["error"]["code"]) == (400, -32602)

    run(test)


# --- streams ----------------------------------------------------------------------------------------------------------


def test_the_first_notification_turns_the_answer_into_a_stream() -> None:
    """protocol.md section 6: notifications of that request, then the response, which ends the stream."""

    async def test() -> None:
        async with asking(serving().asgi()) as http:
            call = stateless("tools/call", {"name": "steps", "arguments": {"count": 2}}, progressToken=7)
            answer = await http.post(call)
            assert (answer.status, answer.kind) == (200, "text/event-stream")
            assert answer.headers["x-accel-buffering"] == "no"
            first, second, last = answer.messages
            assert [first["params"]["progress"], second["params"]["progress"]] == [1, 2]
            assert last["result"]["content"][0]["text"] == "done"
            assert all(event.id is None for event in answer.events), "the stateless era has no event ids"

    run(test)


def test_a_client_that_takes_no_stream_gets_the_answer_alone() -> None:
    async def test() -> None:
        async with asking(serving().asgi(), accept="application/json") as http:
            call = stateless("tools/call", {"name": "steps", "arguments": {"count": 2}}, progressToken=7)
            answer = await http.post(call)
            assert answer.kind == "application/json"
            assert answer.json["result"]["content"][0]["text"] == "done"

    run(test)


def test_a_client_that_takes_streams_alone_gets_its_answer_in_one() -> None:
    async def test() -> None:
        async with asking(serving().asgi(), accept="text/event-stream") as http:
            answer = await http.post(tool("echo", text="a"))
            assert answer.kind == "text/event-stream"
            (message,) = answer.messages
            assert message["result"]["content"][0]["text"] == "a"
            taken = await http.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
            assert taken.status == 202

    run(test)


@pytest.mark.parametrize(("answers", "kind"), [("json", "application/json"), ("sse", "text/event-stream")])
def test_an_endpoint_can_always_answer_the_same_way(answers: Any, kind: str) -> None:
    async def test() -> None:
        async with asking(serving().asgi(answers=answers)) as http:
            call = stateless("tools/call", {"name": "steps", "arguments": {"count": 1}}, progressToken=7)
            assert (await http.post(call)).kind == kind
            assert (await http.post(tool("echo", text="a"))).kind == kind

    run(test)


def test_a_call_that_takes_long_is_kept_alive() -> None:
    """G17: a proxy cuts what is silent for a minute, so a stream is opened although nothing was said."""

    async def test() -> None:
        server = serving()
        gate = Gate(server)
        async with asking(server.asgi(keepalive=0.05)) as http:
            response = await http.open("POST", tool("wait"))
            assert response.kind == "text/event-stream"
            await response.until(lambda: response.body.count(b": keep-alive") >= 2)
            gate.open.set()
            assert (await response.message())["result"]["content"][0]["text"] == "waited"
            await response.end()
            assert response.is_complete

    run(test)


# --- arrays -----------------------------------------------------------------------------------------------------------


def test_an_array_is_answered_by_one_array() -> None:
    """2025-03-26 basic/index; protocol.md section 2."""

    async def test() -> None:
        async with asking(serving().asgi(), mcp_protocol_version="2025-03-26") as http:
            both = [tool("echo", 1, text="a"), tool("echo", 2, text="b"), request("ping", id=3)]
            answer = await http.post(both)
            assert answer.kind == "application/json"
            assert [member["id"] for member in answer.json] == [1, 2, 3]
            only_notifications = [{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 2
            assert (await http.post(only_notifications)).status == 202

    run(test)


def test_what_members_of_an_array_say_opens_the_stream() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)

        @server.tool
        async def late(ctx: Context) -> str:
            await gate.open.wait()
            ctx.progress(1)
            await asyncio.sleep(0)
            return "late"

        async with asking(server.asgi(), mcp_protocol_version="2025-03-26") as http:
            second = tool("late", 2)
            second["params"]["_meta"] = {"progressToken": 9}
            response = http.start("POST", [tool("echo", 1, text="a"), second])
            gate.open.set()
            await response.until(lambda: response.is_complete)
            progress, answers = response.messages
            assert progress["params"]["progressToken"] == 9
            assert [member["id"] for member in answers] == [1, 2]

    run(test)


def test_a_member_that_a_later_member_cancels_has_no_answer() -> None:
    async def test() -> None:
        server = serving()
        Gate(server)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        async with asking(server.asgi(), mcp_protocol_version="2025-03-26") as http:
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

    run(test)


# --- draining ---------------------------------------------------------------------------------------------------------


def test_what_runs_has_its_time_when_the_app_drains() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        app = server.asgi()
        async with asking(app) as http:
            response = http.start("POST", tool("wait"))
            await gate.began.wait()
            draining = asyncio.get_running_loop().create_task(app.drain())
            await asyncio.sleep(0.01)
            assert not draining.done()
            gate.open.set()
            await draining
            assert response.json["result"]["content"][0]["text"] == "waited"

    run_on_fake_clock(test())


@pytest.mark.parametrize("make", [lambda: tool("wait"), lambda: stateless("tools/call", {"name": "wait"})])
def test_what_does_not_end_in_time_is_stopped_and_not_answered(make: Any) -> None:
    """An answer would claim to know whether it ran: 503 without a body is an unknown outcome."""

    async def test() -> None:
        server = serving(drain_timeout=0.05)
        gate = Gate(server)
        app = server.asgi()
        async with asking(app) as http:
            response = http.start("POST", make())
            await gate.began.wait()
            await app.drain()
            assert gate.cancelled.is_set()
            assert (response.status, response.body) == (503, b"")

    run(test)


def test_a_stream_that_does_not_end_in_time_is_ended_without_an_answer() -> None:
    async def test() -> None:
        server = serving(drain_timeout=0.05)
        gate = Gate(server)
        app = server.asgi(keepalive=0.03)
        async with asking(app) as http:
            response = await http.open("POST", tool("wait"))
            await app.drain()
            await response.end()
            assert gate.cancelled.is_set()
            assert response.messages == []

    run(test)


def test_more_than_may_run_at_once_are_refused_as_busy() -> None:
    """connection.md section 6: 503 with `Retry-After: 1`. One POST is one connection, so only an array can have many."""

    async def test() -> None:
        async with asking(serving(max_concurrent=1).asgi(), mcp_protocol_version="2025-03-26") as http:
            answer = await http.post([tool("echo", 1, text="a"), tool("echo", 2, text="b")])
            assert "result" in answer.json[0]
            assert answer.json[1]["error"]["data"]["reason"] == "busy"

    run(test)


def test_telemetry_tells_of_a_request_over_http() -> None:
    async def test() -> None:
        server = serving()
        told: list[str] = []
        server.subscribe(lambda name, fields: told.append(name))
        async with asking(server.asgi()) as http:
            await http.post(tool("echo", text="a"))
        assert told == ["jackstay.server.request.start", "jackstay.server.request.stop"]

    run(test)


def test_an_error_of_a_handler_is_an_ordinary_answer() -> None:
    async def test() -> None:
        server = serving()

        @server.tool
        async def fails() -> str:
            raise JsonRpcError(-32000, "mine", {"a": 1})

        async with asking(server.asgi()) as http:
            answer = await http.post(stateless("tools/call", {"name": "fails"}))
            assert (answer.status, answer.json["error"]["code"]) == (200, -32000)

    run(test)


def test_a_stream_cannot_be_closed_and_resumed_without_a_session() -> None:
    """`ctx.close_stream` does nothing where a client could not come back."""

    async def test() -> None:
        server = serving()

        @server.tool
        async def hangs_up(ctx: Context) -> str:
            ctx.close_stream(retry=0.1)
            return "still here"

        async with asking(server.asgi()) as http:
            answer = await http.post(tool("hangs_up"))
            assert answer.json["result"]["content"][0]["text"] == "still here"

    run(test)


def test_a_post_says_what_it_is() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        app = server.asgi()
        async with asking(app) as http:
            http.start("POST", tool("wait"))
            await gate.began.wait()
            (post,) = app._posts
            assert "operating 2025-03-26, 1 in flight" in repr(post)
            assert "1 connections" in repr(app)
            post._send(e.Send(b"{}"))  # about nothing that is here
            gate.open.set()

    run(test)
