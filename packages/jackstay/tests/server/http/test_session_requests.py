"""Requests in a session: requests to the client, cancellation, disconnects and slow readers."""

import asyncio
import logging

import pytest

from jackstay.server import Context
from jackstay.server.http import MemoryEventStore
from jackstay.server.http import _session as session_file
from scripted.asgi import http_client, initialize, tool
from scripted.gate import Gate
from scripted.sessions import ELICITATION, listening, only, progressing, serving

# --- requests to the client -------------------------------------------------------------------------------------------


async def test_a_request_to_the_client_is_sent_in_the_response_and_answered_by_post() -> None:
    async with http_client(serving().asgi(sessions=True)) as http:
        await http.handshake(capabilities=ELICITATION)
        response = await http.open("POST", tool("name"))
        server_request = await response.message()
        assert server_request["method"] == "elicitation/create"
        result = {"action": "accept", "content": {"name": "Bob"}}
        accepted = await http.post({"jsonrpc": "2.0", "id": server_request["id"], "result": result})
        assert (accepted.status, accepted.body) == (202, b"")
        answer = await response.message()
        assert answer["result"]["content"][0]["text"] == "accept: {'name': 'Bob'}"
        await response.end()


async def test_a_request_to_the_client_fails_if_its_stream_was_closed() -> None:
    """Without an event store a closed response cannot be resumed, so its handler must not wait forever."""
    server = serving()
    failed = asyncio.Event()

    @server.tool
    async def roots(ctx: Context) -> str:
        try:
            await ctx.list_roots()
        except Exception as error:
            with pytest.raises(type(error), match="closed the stream"):
                await ctx.list_roots()
            failed.set()
            raise
        return "never"

    app = server.asgi(sessions=True)
    async with http_client(app) as http:
        await http.handshake(capabilities={"roots": {}})
        response = await http.open("POST", tool("roots"))
        await response.message()
        response.disconnect()
        await failed.wait()
        await response.end()
        assert only(app).core.outgoing_requests == {}


async def test_a_client_that_accepts_no_stream_gets_neither_requests_nor_progress() -> None:
    async with http_client(serving().asgi(sessions=True), accept="application/json") as http:
        await http.handshake(capabilities=ELICITATION)
        refused = await http.post(tool("name"))
        assert refused.kind == "application/json"
        assert "error" in refused.json
        answer = await http.post(progressing(count=2))
        assert answer.json["result"]["content"][0]["text"] == "done"


async def test_a_request_to_the_client_is_cancelled_on_the_get_stream_with_its_request() -> None:
    async with http_client(serving().asgi(sessions=True)) as http:
        await http.handshake(capabilities=ELICITATION)
        standalone = await listening(http)
        response = await http.open("POST", tool("name", 3))
        server_request = await response.message()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
        assert (await http.post(cancel)).status == 202
        await response.end()
        assert response.is_complete
        cancelled = await standalone.message()
        assert cancelled["params"]["requestId"] == server_request["id"]


# --- cancellation, disconnects ----------------------------------------------------------------------------------------


async def test_a_disconnect_does_not_cancel() -> None:
    server = serving()
    gate = Gate(server)
    app = server.asgi(sessions=True)
    async with http_client(app) as http:
        await http.handshake()
        response = http.start("POST", tool("wait"))
        await gate.began.wait()
        response.disconnect()
        gate.open.set()
        await response.end()
        assert not gate.cancelled.is_set()


async def test_a_cancelled_request_gets_an_empty_stream() -> None:
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi(sessions=True)) as http:
        await http.handshake()
        response = http.start("POST", tool("wait", 8))
        await gate.began.wait()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}}
        await http.post(cancel)
        await response.end()
        assert (response.status, response.kind, response.messages) == (200, "text/event-stream", [])
        assert gate.cancelled.is_set()


async def test_a_request_with_an_id_in_flight_is_refused() -> None:
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi(sessions=True)) as http:
        await http.handshake()
        first = http.start("POST", tool("wait", 8))
        await gate.began.wait()
        second = await http.post(tool("echo", 8, text="a"))
        assert (second.status, second.json["error"]["code"]) == (400, -32600)
        gate.open.set()
        await first.end()
        assert first.json["result"]["content"][0]["text"] == "waited"


async def test_a_batch_gets_one_response() -> None:
    """2025-03-26 basic/index, "Batching"."""
    async with http_client(serving().asgi(sessions=True)) as http:
        await http.handshake("2025-03-26")
        answer = await http.post([tool("echo", 1, text="a"), tool("echo", 2, text="b")])
        assert [member["id"] for member in answer.json] == [1, 2]
        streamed = await http.post([progressing(id=3, count=1), progressing(id=4, count=1)])
        assert streamed.kind == "text/event-stream"
        assert [member["id"] for member in streamed.messages[-1]] == [3, 4]


async def test_a_call_that_ends_when_its_response_becomes_a_stream_is_responded_to(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """The handler may end in the same turn of the loop as the timer, before it or after it."""
    monkeypatch.setattr(session_file, "STREAM_AFTER", 1e-9)
    server = serving()

    @server.tool
    async def turns(count: int) -> int:
        for _ in range(count):
            await asyncio.sleep(0)
        return count

    async with http_client(server.asgi(sessions=True, event_store=MemoryEventStore())) as http:
        await http.handshake()
        kinds = set()
        for count in range(12):
            with subtests.test(count=count):
                response = await http.post(tool("turns", count, count=count))
                kinds.add(response.kind)
                found = response.json if response.kind == "application/json" else response.messages[-1]
                assert found["result"]["content"][0]["text"] == str(count)
        assert kinds == {"application/json", "text/event-stream"}


async def test_streams_that_have_ended_are_forgotten() -> None:
    app = serving().asgi(sessions=True, response_format="sse", event_store=MemoryEventStore())
    async with http_client(app) as http:
        await http.handshake()
        for number in range(3):
            assert (await http.post(tool("echo", number, text="a"))).kind == "text/event-stream"
        assert only(http.app)._by_name == {}


async def test_response_format_is_always_the_same(subtests: pytest.Subtests) -> None:
    for answers, kind in (("json", "application/json"), ("sse", "text/event-stream")):
        with subtests.test(answers=answers, kind=kind):
            async with http_client(serving().asgi(sessions=True, response_format=answers)) as http:
                answer = await http.post(initialize())
                assert answer.kind == kind
                id = answer.headers["mcp-session-id"]
                called = await http.post(progressing(count=1), headers={"mcp-session-id": id})
                assert called.kind == kind


async def test_events_that_are_complete_have_a_length_unless_they_can_be_resumed(subtests: pytest.Subtests) -> None:
    for events in (None, MemoryEventStore()):
        with subtests.test(events=events):
            app = serving().asgi(sessions=True, response_format="sse", event_store=events)
            async with http_client(app) as http:
                await http.handshake()
                answer = await http.post(tool("echo", text="a"))
                assert (answer.kind, answer.messages[-1]["id"]) == ("text/event-stream", 1)
                assert ("content-length" in answer.headers) == (events is None)


async def test_the_accept_header_takes_precedence_over_response_format() -> None:
    for accept, kind in (
        ("text/event-stream", "text/event-stream"),
        ("application/json", "application/json"),
    ):
        for answers in ("auto", "json", "sse"):
            async with http_client(serving().asgi(sessions=True, response_format=answers), accept=accept) as http:
                answer = await http.post(initialize())
                assert answer.kind == kind
                http.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
                assert (await http.post(progressing(count=1))).kind == kind


async def test_an_error_has_its_status() -> None:
    async with http_client(serving().asgi(sessions=True)) as http:
        await http.handshake()
        assert (await http.post(b"{")).status == 400
        unknown = await http.post(tool("nothing"))
        assert (unknown.status, unknown.json["error"]["code"]) == (200, -32602)


async def test_a_call_that_takes_long_is_kept_alive() -> None:
    """docs/guarantees.md G17."""
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi(sessions=True, keepalive=0.03)) as http:
        await http.handshake()
        response = await http.open("POST", tool("wait"))
        assert response.kind == "text/event-stream"
        await response.until(lambda: b": keep-alive" in response.body)
        gate.open.set()
        await response.end()
        assert response.messages[0]["id"] == 1


async def test_a_client_that_closed_its_stream_does_not_read_too_slowly(caplog: pytest.LogCaptureFixture) -> None:
    """What is sent before the app knows it is kept for the next stream."""
    caplog.set_level(logging.WARNING, "jackstay.server.http")
    server = serving()
    app = server.asgi(sessions=True)
    async with http_client(app) as http:
        await http.handshake()
        stream = await listening(http)
        standalone = only(app)._standalone
        assert standalone is not None
        assert standalone.current_stream is not None
        standalone.current_stream.abort()  # as the task does that waits for the disconnect
        server.add_tool("new", input_schema={"type": "object"}, handler=lambda _: "x")
        await stream.end()
        again = await listening(http)
        assert (await again.message())["method"] == "notifications/tools/list_changed"
    assert caplog.text == ""


async def test_the_stream_of_a_slow_reader_is_closed_and_the_session_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "jackstay.server.http")
    server = serving()
    has_ended = asyncio.Event()

    @server.tool
    async def chatter(ctx: Context) -> str:
        for _ in range(300):
            ctx.log("warning", "x" * 1000)
            await asyncio.sleep(0)
        has_ended.set()
        return "not delivered"

    app = server.asgi(sessions=True, max_stream_bytes=65_536)
    async with http_client(app) as http:
        await http.handshake()
        response = http.start("POST", tool("chatter"))
        response.pause()
        await response.end()
        assert not response.is_complete
        assert (await http.post(tool("echo", 2, text="a"))).status == 200
        await has_ended.wait()  # the handler was not cancelled
    assert "reads too slowly" in caplog.text
