"""One session: what a request may ask of the client, and how it ends: answered, cancelled, given up, too slow."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.server import Context
from scripted.asgi import asking, initialize, run, tool
from scripted.gate import Gate
from scripted.sessions import ELICITATION, listening, only, progressing, serving

# --- asking the client ------------------------------------------------------------------------------------------------


def test_the_client_is_asked_in_the_response_and_answers_by_post() -> None:
    """connection.md section 7, handshake era."""

    async def test() -> None:
        async with asking(serving().asgi(sessions=True)) as http:
            await http.shake_hands(capabilities=ELICITATION)
            response = await http.open("POST", tool("name"))
            asked = await response.message()
            assert asked["method"] == "elicitation/create"
            result = {"action": "accept", "content": {"name": "Bob"}}
            taken = await http.post({"jsonrpc": "2.0", "id": asked["id"], "result": result})
            assert (taken.status, taken.body) == (202, b"")
            answer = await response.message()
            assert answer["result"]["content"][0]["text"] == "accept: {'name': 'Bob'}"
            await response.end()

    run(test)


def test_a_question_that_nobody_can_hear_fails() -> None:
    """Without an event store a closed response cannot be resumed: its handler must not wait for ever."""

    async def test() -> None:
        server = serving()
        failed = asyncio.Event()

        @server.tool
        async def asks(ctx: Context) -> str:
            try:
                await ctx.roots()
            except Exception as error:
                with pytest.raises(type(error), match="closed the stream"):
                    await ctx.roots()
                failed.set()
                raise
            return "never"

        app = server.asgi(sessions=True)
        async with asking(app) as http:
            await http.shake_hands(capabilities={"roots": {}})
            response = await http.open("POST", tool("asks"))
            await response.message()
            response.leave()
            await failed.wait()
            await response.end()
            assert only(app).core.asked == {}

    run(test)


def test_a_client_that_takes_no_stream_cannot_be_asked_and_is_told_of_no_progress() -> None:
    async def test() -> None:
        async with asking(serving().asgi(sessions=True), accept="application/json") as http:
            await http.shake_hands(capabilities=ELICITATION)
            asked = await http.post(tool("name"))
            assert asked.kind == "application/json"
            assert "error" in asked.json
            answer = await http.post(progressing(count=2))
            assert answer.json["result"]["content"][0]["text"] == "done"

    run(test)


def test_a_question_of_a_request_that_was_cancelled_is_taken_back_on_the_standing_stream() -> None:
    async def test() -> None:
        async with asking(serving().asgi(sessions=True)) as http:
            await http.shake_hands(capabilities=ELICITATION)
            standing = await listening(http)
            response = await http.open("POST", tool("name", 3))
            asked = await response.message()
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
            assert (await http.post(cancel)).status == 202
            await response.end()
            assert response.is_complete
            taken_back = await standing.message()
            assert taken_back["params"]["requestId"] == asked["id"]

    run(test)


# --- cancelling, leaving ----------------------------------------------------------------------------------------------


def test_a_client_that_leaves_has_not_cancelled() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        app = server.asgi(sessions=True)
        async with asking(app) as http:
            await http.shake_hands()
            response = http.start("POST", tool("wait"))
            await gate.began.wait()
            response.leave()
            gate.open.set()
            await response.end()
            assert not gate.cancelled.is_set()

    run(test)


def test_a_cancelled_request_that_was_never_a_stream_is_answered_by_an_empty_one() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        async with asking(server.asgi(sessions=True)) as http:
            await http.shake_hands()
            response = http.start("POST", tool("wait", 8))
            await gate.began.wait()
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}}
            await http.post(cancel)
            await response.end()
            assert (response.status, response.kind, response.messages) == (200, "text/event-stream", [])
            assert gate.cancelled.is_set()

    run(test)


def test_a_request_with_an_id_in_flight_is_refused_and_the_first_is_answered() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        async with asking(server.asgi(sessions=True)) as http:
            await http.shake_hands()
            first = http.start("POST", tool("wait", 8))
            await gate.began.wait()
            second = await http.post(tool("echo", 8, text="a"))
            assert (second.status, second.json["error"]["code"]) == (400, -32600)
            gate.open.set()
            await first.end()
            assert first.json["result"]["content"][0]["text"] == "waited"

    run(test)


def test_an_array_is_answered_in_one_response() -> None:
    """2025-03-26."""

    async def test() -> None:
        async with asking(serving().asgi(sessions=True)) as http:
            await http.shake_hands("2025-03-26")
            answer = await http.post([tool("echo", 1, text="a"), tool("echo", 2, text="b")])
            assert [member["id"] for member in answer.json] == [1, 2]
            streamed = await http.post([progressing(id=3, count=1), progressing(id=4, count=1)])
            assert streamed.kind == "text/event-stream"
            assert [member["id"] for member in streamed.messages[-1]] == [3, 4]

    run(test)


@pytest.mark.parametrize(("answers", "kind"), [("json", "application/json"), ("sse", "text/event-stream")])
def test_an_endpoint_can_always_answer_the_same_way(answers: Any, kind: str) -> None:
    async def test() -> None:
        async with asking(serving().asgi(sessions=True, answers=answers)) as http:
            answer = await http.post(initialize())
            assert answer.kind == kind
            id = answer.headers["mcp-session-id"]
            called = await http.post(progressing(count=1), headers={"mcp-session-id": id})
            assert called.kind == kind

    run(test)


def test_a_client_that_takes_streams_alone_gets_its_answers_in_them() -> None:
    async def test() -> None:
        for accept, kind in (
            ("text/event-stream", "text/event-stream"),
            ("application/json", "application/json"),
        ):
            for answers in ("auto", "json", "sse"):
                async with asking(serving().asgi(sessions=True, answers=answers), accept=accept) as http:
                    answer = await http.post(initialize())
                    assert answer.kind == kind
                    http.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
                    assert (await http.post(progressing(count=1))).kind == kind

    run(test)


def test_an_error_has_its_status() -> None:
    async def test() -> None:
        async with asking(serving().asgi(sessions=True)) as http:
            await http.shake_hands()
            assert (await http.post(b"{")).status == 400
            unknown = await http.post(tool("nothing"))
            assert (unknown.status, unknown.json["error"]["code"]) == (200, -32602)

    run(test)


def test_a_call_that_takes_long_is_kept_alive() -> None:
    """G17."""

    async def test() -> None:
        server = serving()
        gate = Gate(server)
        async with asking(server.asgi(sessions=True, keepalive=0.03)) as http:
            await http.shake_hands()
            response = await http.open("POST", tool("wait"))
            assert response.kind == "text/event-stream"
            await response.until(lambda: b": keep-alive" in response.body)
            gate.open.set()
            await response.end()
            assert response.messages[0]["id"] == 1

    run(test)


def test_a_client_that_reads_too_slowly_loses_that_stream_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        server = serving()
        taken: list[int] = []

        @server.tool
        async def chatter(ctx: Context) -> str:
            for number in range(300):
                ctx.log("warning", "x" * 1000)
                taken.append(number)
                await asyncio.sleep(0)
            return "unheard"

        app = server.asgi(sessions=True, max_stream_bytes=65_536)
        async with asking(app) as http:
            await http.shake_hands()
            response = http.start("POST", tool("chatter"))
            response.hold()
            await response.end()
            assert not response.is_complete
            assert (await http.post(tool("echo", 2, text="a"))).status == 200
        assert "reads too slowly" in caplog.text

    with caplog.at_level(logging.WARNING, "jackstay.server.http"):
        run(test)
