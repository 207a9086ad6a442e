"""One session: which message travels on which stream, what is kept while nobody listens, and how a stream is resumed."""

import asyncio
import json
import logging
import random
from typing import Any

import pytest

from mooring.protocol.server import events as e
from mooring.server import Context, Server
from mooring.server.http import App, MemoryEvents
from mooring.server.http import _session as session_file
from mooring.server.http._session import Session
from mooring.testing import run_on_fake_clock
from scripted.asgi import Http, Response, asking, initialize, request, run, stateless, tool

ELICITATION = {"elicitation": {}}


def serving(**options: Any) -> Server:
    server = Server("session", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def steps(ctx: Context, count: int) -> str:
        for step in range(count):
            ctx.progress(step + 1, count)
            await asyncio.sleep(0)
        return "done"

    @server.tool
    async def name(ctx: Context) -> str:
        answer = await ctx.elicit("who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"{answer.action}: {answer.content}"

    return server


class Gate:
    """A tool that waits, may say something in between, and what became of it."""

    def __init__(self, server: Server) -> None:
        self.began = asyncio.Event()
        self.open = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.context: Context | None = None

        @server.tool
        async def wait(ctx: Context) -> str:
            self.context = ctx
            self.began.set()
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "waited"


def progressing(name: str = "steps", id: Any = 1, **arguments: Any) -> dict[str, Any]:
    message = tool(name, id, **arguments)
    message["params"]["_meta"] = {"progressToken": f"token {id}"}
    return message


async def listening(http: Http, last: str | None = None) -> Response:
    headers = {"accept": "text/event-stream", **({} if last is None else {"last-event-id": last})}
    response = await http.open("GET", headers=headers)
    assert response.status == 200, response.body
    return response


def only(app: App) -> Session:
    (session,) = app._all_sessions()
    return session


# --- the handshake ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_initialize_opens_a_session(version: str) -> None:
    """protocol.md section 7: the id comes with the InitializeResult and is 0x21 to 0x7E; 128 bits or more of it."""

    async def test() -> None:
        app = serving().asgi(sessions=True)
        async with asking(app) as http:
            answer = await http.post(initialize(version))
            assert answer.json["result"]["protocolVersion"] == version
            id = answer.headers["mcp-session-id"]
            assert len(id) >= 22
            assert all(0x21 <= ord(character) <= 0x7E for character in id)
            assert app.sessions == 1
            called = await http.post(tool("echo", text="a"), headers={"mcp-session-id": id})
            assert (called.status, called.kind) == (200, "application/json")
            assert "mcp-session-id" not in called.headers

    run(test)


def test_an_initialize_that_is_refused_opens_nothing() -> None:
    async def test() -> None:
        app = serving().asgi(sessions=True)
        async with asking(app) as http:
            answer = await http.post(request("initialize", {}))
            assert answer.json["error"]["code"] == -32602
            assert "mcp-session-id" not in answer.headers
            assert app.sessions == 0

    run(test)


def test_a_second_initialize_in_a_session_is_a_sequence_error() -> None:
    async def test() -> None:
        async with asking(serving().asgi(sessions=True)) as http:
            await http.shake_hands()
            assert (await http.post(initialize())).json["error"]["code"] == -32001

    run(test)


def test_a_session_id_on_a_stateless_request_is_ignored() -> None:
    """connection.md section 6."""

    async def test() -> None:
        async with asking(serving().asgi(sessions=True)) as http:
            answer = await http.post(stateless("tools/list"), headers={"mcp-session-id": "never-given"})
            assert answer.status == 200

    run(test)


# --- which stream -----------------------------------------------------------------------------------------------------


def test_what_belongs_to_a_request_travels_in_its_own_response() -> None:
    """protocol.md section 7, the one-stream rule."""

    async def test() -> None:
        async with asking(serving().asgi(sessions=True)) as http:
            await http.shake_hands()
            standing = await listening(http)
            one, two = await asyncio.gather(
                http.post(progressing(id=1, count=3)), http.post(progressing(id=2, count=3))
            )
            for id, response in ((1, one), (2, two)):
                assert response.kind == "text/event-stream"
                *progress, answer = response.messages
                assert [found["params"]["progressToken"] for found in progress] == [f"token {id}"] * 3
                assert answer["id"] == id
            assert standing.messages == []

    run(test)


def test_what_belongs_to_no_request_travels_in_the_response_to_get() -> None:
    async def test() -> None:
        server = serving()
        async with asking(server.asgi(sessions=True)) as http:
            await http.shake_hands()
            standing = await listening(http)
            server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
            assert (await standing.message())["method"] == "notifications/tools/list_changed"
            assert (await http.post(tool("echo", text="a"))).kind == "application/json"

    run(test)


def test_what_nobody_listens_to_waits_once_each_and_bounded() -> None:
    """protocol.md section 7; kept for the next GET."""

    async def test() -> None:
        server = serving()

        @server.resource("memo://{name}")
        def memo(name: str) -> str:
            return name

        app = server.asgi(sessions=True)
        async with asking(app) as http:
            await http.shake_hands()
            uris = [f"memo://{number}" for number in range(session_file.MOST_WAITING + 10)]
            for number, uri in enumerate(uris):
                await http.post(request("resources/subscribe", {"uri": uri}, number))
            for uri in (*uris, *uris[-3:]):
                server.notify_resource_updated(uri)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            standing = await listening(http)
            await standing.until(lambda: len(standing.messages) == session_file.MOST_WAITING)
            told = [message["params"]["uri"] for message in standing.messages]
            assert set(told) == set(uris[10:])
            assert only(app).dropped == 10
            standing.leave()
            await standing.end()
            again = await listening(http)
            assert again.messages == []

    run(test)


def test_what_a_response_did_not_get_to_say_is_said_by_the_next() -> None:
    async def test() -> None:
        server = serving()
        async with asking(server.asgi(sessions=True)) as http:
            await http.shake_hands()
            standing = await listening(http)
            await asyncio.sleep(0.01)
            standing.hold()
            for name in ("a", "b"):
                server.add_tool(name, input_schema={"type": "object"}, handler=lambda arguments: "x")
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            standing.leave()
            await asyncio.sleep(0)
            standing.flow()
            await standing.end()
            again = await listening(http)
            assert (await again.message())["method"] == "notifications/tools/list_changed"

    run(test)


def test_a_second_get_takes_over_from_the_first() -> None:
    """One stream carries a message: the newest, for the older may be half dead."""

    async def test() -> None:
        server = serving()
        async with asking(server.asgi(sessions=True)) as http:
            await http.shake_hands()
            first = await listening(http)
            second = await listening(http)
            await first.end()
            assert first.is_complete
            server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
            assert (await second.message())["method"] == "notifications/tools/list_changed"
            assert first.messages == []

    run(test)


@pytest.mark.parametrize("has_events", [False, True])
def test_what_the_first_get_did_not_get_to_say_the_second_says(has_events: bool) -> None:
    """The first is half dead: nobody reads from it, and nobody has noticed."""

    async def test() -> None:
        server = serving()

        @server.resource("memo://{name}")
        def memo(name: str) -> str:
            return name

        events = MemoryEvents() if has_events else None
        async with asking(server.asgi(sessions=True, event_store=events)) as http:
            await http.shake_hands()
            for number in range(3):
                await http.post(request("resources/subscribe", {"uri": f"memo://{number}"}, number))
            first = await listening(http)
            await asyncio.sleep(0.01)
            first.hold()
            for number in range(3):
                server.notify_resource_updated(f"memo://{number}")
                await asyncio.sleep(0.001)
            second = await listening(http)
            told = [(await second.message())["params"]["uri"] for _ in range(2)]
            assert told == ["memo://1", "memo://2"], "the one that was being written is with the first"

    run(test)


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


def test_a_cancelled_request_that_was_never_a_stream_is_accepted() -> None:
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
            assert (response.status, response.body) == (202, b"")
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

    with caplog.at_level(logging.WARNING, "mooring.server.http"):
        run(test)


# --- resuming ---------------------------------------------------------------------------------------------------------


def test_a_lost_stream_is_resumed_where_it_broke_off() -> None:
    """protocol.md section 7, resumability: by GET and `Last-Event-ID`, whatever opened the stream."""

    async def test() -> None:
        server = serving()
        gate = Gate(server)
        async with asking(server.asgi(sessions=True, event_store=MemoryEvents())) as http:
            await http.shake_hands()
            message = tool("wait")
            message["params"]["_meta"] = {"progressToken": 1}
            response = http.start("POST", message)
            await gate.began.wait()
            assert gate.context is not None
            gate.context.progress(1)
            primed, first = await response.event(), await response.event()
            assert (primed.data, primed.retry) == (b"", 1000)
            assert b'"progress":1' in first.data
            response.leave()
            await response.end()
            gate.context.progress(2)
            resumed = await listening(http, first.id)
            assert (await resumed.message())["params"]["progress"] == 2
            gate.context.progress(3)
            gate.open.set()
            assert (await resumed.message())["params"]["progress"] == 3
            assert (await resumed.message())["result"]["content"][0]["text"] == "waited"
            await resumed.end()
            assert resumed.is_complete
            whole = await listening(http, primed.id)
            await whole.end()
            assert len(whole.messages) == 4, "everything, again, and the end: the answer was given"
            ids = [event.id for event in (primed, first, *resumed.events)]
            assert len(set(ids)) == len(ids)

    run(test)


def test_never_another_streams_events_are_given() -> None:
    """protocol.md section 7: never replay another stream's events."""

    async def test() -> None:
        async with asking(serving().asgi(sessions=True, event_store=MemoryEvents())) as http:
            await http.shake_hands()
            one = await http.post(progressing(id=1, count=2))
            two = await http.post(progressing(id=2, count=2))
            resumed = await listening(http, one.events[1].id)
            await resumed.end()
            assert [message.get("id") for message in resumed.messages] == [None, 1]
            assert two.messages[-1]["id"] == 2

    run(test)


@pytest.mark.parametrize("last", ["", "x", "x-", "-1", "x-1", "x-y", "x-" + "9" * 30, "x-²"])
def test_an_event_that_is_not_kept_is_refused(last: str) -> None:
    async def test() -> None:
        async with asking(serving().asgi(sessions=True, event_store=MemoryEvents())) as http:
            await http.shake_hands()
            headers = {"accept": "text/event-stream", "last-event-id": last}
            answer = await http.ask("GET", headers=headers)
            assert answer.status == 400
            assert "Last-Event-ID" in answer.json["error"]["message"]

    run(test)


def test_events_of_another_session_are_not_given() -> None:
    """Security: an event id is good in its own session only."""

    async def test() -> None:
        app = serving().asgi(sessions=True, event_store=MemoryEvents())
        async with asking(app) as mine, asking(app) as theirs:
            await mine.shake_hands()
            await theirs.shake_hands()
            answer = await mine.post(progressing(count=2))
            stolen = await theirs.ask(
                "GET", headers={"accept": "text/event-stream", "last-event-id": answer.events[0].id}
            )
            assert stolen.status == 400

    run(test)


def test_the_standing_stream_is_resumed_too_and_keeps_what_nobody_heard() -> None:
    async def test() -> None:
        server = serving()

        @server.resource("memo://{name}")
        def memo(name: str) -> str:
            return name

        async with asking(server.asgi(sessions=True, event_store=MemoryEvents())) as http:
            await http.shake_hands()
            for number in range(4):
                await http.post(request("resources/subscribe", {"uri": f"memo://{number}"}, number))
            server.notify_resource_updated("memo://0")
            await asyncio.sleep(0.01)
            standing = await listening(http)
            heard = await standing.event()
            assert b"memo://0" in heard.data
            standing.leave()
            await standing.end()
            server.notify_resource_updated("memo://1")
            server.notify_resource_updated("memo://2")
            await asyncio.sleep(0.01)
            plain = await listening(http)
            assert (await plain.message())["params"]["uri"] == "memo://1"
            assert (await plain.message())["params"]["uri"] == "memo://2"
            plain.leave()
            await plain.end()
            resumed = await listening(http, heard.id)
            assert (await resumed.message())["params"]["uri"] == "memo://1"
            assert (await resumed.message())["params"]["uri"] == "memo://2"
            server.notify_resource_updated("memo://3")
            assert (await resumed.message())["params"]["uri"] == "memo://3"

    run(test)


def test_a_get_stream_begins_with_the_event_to_come_back_with() -> None:
    """2025-11-25: an event with an id and empty data, and `retry`; older clients would not know what to make of it."""

    async def test() -> None:
        for version, is_primed in (("2025-11-25", True), ("2025-06-18", False)):
            app = serving().asgi(sessions=True, event_store=MemoryEvents(), retry=0.25)
            async with asking(app) as http:
                await http.shake_hands(version)
                standing = await listening(http)
                if is_primed:
                    event = await standing.event()
                    assert (event.data, event.retry) == (b"", 250)
                    assert event.id
                else:
                    await asyncio.sleep(0.01)
                    assert standing.body == b""

    run(test)


def test_a_stream_of_an_older_revision_has_ids_but_no_priming_event() -> None:
    async def test() -> None:
        async with asking(serving().asgi(sessions=True, event_store=MemoryEvents())) as http:
            await http.shake_hands("2025-06-18")
            answer = await http.post(progressing(count=1))
            assert all(event.data and event.id for event in answer.events)

    run(test)


def test_a_handler_can_send_its_client_away_to_come_back() -> None:
    """2025-11-25 polling: `ctx.close_stream`; conformance `server-sse-polling`."""

    async def test() -> None:
        server = serving()
        gate = Gate(server)
        async with asking(server.asgi(sessions=True, event_store=MemoryEvents())) as http:
            await http.shake_hands()
            response = http.start("POST", tool("wait"))
            await gate.began.wait()
            assert gate.context is not None
            gate.context.close_stream(retry=0.5)
            gate.context.close_stream()  # it is away already
            await response.end()
            assert response.is_complete
            primed, last = response.events
            assert (primed.data, last.data, last.retry) == (b"", b"", 500)
            resumed = await listening(http, last.id)
            gate.open.set()
            assert (await resumed.message())["result"]["content"][0]["text"] == "waited"
            await resumed.end()
            assert resumed.is_complete

    run(test)


@pytest.mark.parametrize("options", [{}, {"event_store": True, "version": "2025-06-18"}, {"accept": True}])
def test_a_stream_that_could_not_be_resumed_is_not_closed(options: dict[str, Any]) -> None:
    async def test() -> None:
        server = serving()

        @server.tool
        async def hangs_up(ctx: Context) -> str:
            ctx.close_stream()
            return "still here"

        has_events = bool(options.get("event_store") or options.get("accept"))
        app = server.asgi(sessions=True, event_store=MemoryEvents() if has_events else None)
        headers = {"accept": "application/json"} if options.get("accept") else {}
        async with asking(app, **headers) as http:
            await http.shake_hands(options.get("version", "2025-11-25"))
            answer = await http.post(tool("hangs_up"))
            assert answer.json["result"]["content"][0]["text"] == "still here"
            assert only(app).close_stream("never asked") is False

    run(test)


def test_a_long_call_is_made_resumable_before_anything_was_said() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        async with asking(server.asgi(sessions=True, event_store=MemoryEvents(), keepalive=0)) as http:
            await http.shake_hands()
            response = await http.open("POST", tool("wait"))
            assert (await response.event()).data == b""
            gate.open.set()
            await response.end()

    run(test)


def test_what_is_said_while_a_client_resumes_is_not_lost() -> None:
    """The store is read while the handler goes on: nothing twice, nothing missing, in order."""

    async def test() -> None:
        class SlowEvents(MemoryEvents):
            async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
                await asyncio.sleep(0.001)
                await super().append(session, stream, number, data)

            async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
                found = await super().replay(session, stream, after)
                await asyncio.sleep(0.005)
                return found

        server = serving()

        @server.tool
        async def count(ctx: Context) -> str:
            for number in range(60):
                ctx.progress(number)
                await asyncio.sleep(0.001)
            return "done"

        async with asking(server.asgi(sessions=True, event_store=SlowEvents())) as http:
            await http.shake_hands()
            response = http.start("POST", progressing("count"))
            seen = [await response.event() for _ in range(5)]
            response.leave()
            await response.end()
            resumed = await listening(http, seen[-1].id)
            await resumed.end()
            told = [message["params"]["progress"] for message in resumed.messages[:-1]]
            assert told == list(range(4, 60))
            assert resumed.messages[-1]["id"] == 1

    run(test)


def test_a_store_that_fails_costs_the_event_its_place_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        class Broken(MemoryEvents):
            async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
                raise OSError("no route to the store")

        async with asking(serving().asgi(sessions=True, event_store=Broken())) as http:
            await http.shake_hands()
            answer = await http.post(progressing(count=2))
            assert len(answer.messages) == 3

    run(test)
    assert "an event was not kept" in caplog.text


def test_a_store_that_is_behind_is_not_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_file, "MOST_UNSAVED", 3)

    async def test() -> None:
        class Stuck(MemoryEvents):
            async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
                await asyncio.Event().wait()

        app = serving().asgi(sessions=True, event_store=Stuck())
        async with asking(app) as http:
            await http.shake_hands()
            answer = await http.post(progressing(count=8))
            assert len(answer.messages) == 9
            saving = only(app)._saving
            assert saving is not None
            saving.cancel()

    run(test)
    assert "the event store is behind" in caplog.text


def test_events_that_a_store_has_lost_are_not_waited_for() -> None:
    async def test() -> None:
        class Forgetful(MemoryEvents):
            async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
                if number < 3:
                    await super().append(session, stream, number, data)

        server = serving()
        gate = Gate(server)
        async with asking(server.asgi(sessions=True, event_store=Forgetful())) as http:
            await http.shake_hands()
            message = tool("wait")
            message["params"]["_meta"] = {"progressToken": 1}
            response = http.start("POST", message)
            await gate.began.wait()
            assert gate.context is not None
            for number in range(5):
                gate.context.progress(number)
            last = await response.event()
            response.leave()
            await response.end()
            resumed = await listening(http, last.id)
            assert [(await resumed.message())["params"]["progress"] for _ in range(2)] == [0, 1]
            gate.open.set()
            assert "result" in await resumed.message()

    run(test)


@pytest.mark.parametrize("seed", range(50))
def test_whatever_breaks_every_call_is_heard_once_in_order_and_to_its_end(seed: int) -> None:
    """Clients lose their responses at any moment, read slowly, are sent away, and come back with what they saw last.

    Invariant: for each call the events are its own progress without gap or repetition, then its answer, then the end;
    and nothing is left in the session.
    """

    async def test() -> None:
        luck = random.Random(seed)
        server = serving()

        @server.tool
        async def count(ctx: Context, upto: int) -> str:
            for number in range(1, upto + 1):
                ctx.progress(number)
                if luck.random() < 0.1:
                    ctx.close_stream(retry=luck.choice([None, 0.1]))
                await asyncio.sleep(luck.choice([0, 0, 0.01, 0.3]))
            return str(upto)

        class LuckyEvents(MemoryEvents):
            async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
                await asyncio.sleep(luck.choice([0, 0, 0.005]))
                await super().append(session, stream, number, data)

            async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
                found = await super().replay(session, stream, after)
                await asyncio.sleep(luck.choice([0, 0.02]))
                return found

        async def follow(http: Http, response: Response, heard: list[Any]) -> str | None:
            """Listen until the stream ends or luck does; the id to come back with, or None: all was heard."""
            last = None
            while True:
                try:
                    event = await response.event()
                except EOFError:
                    return last
                last = event.id or last
                if event.data:
                    heard.append(json.loads(event.data))
                    if "result" in heard[-1]:
                        await response.end()
                        assert response.is_complete
                        return None
                if luck.random() < 0.2:
                    response.leave()
                    await response.end()
                    return last

        async def call(http: Http, id: int) -> None:
            upto = luck.randrange(1, 12)
            heard: list[Any] = []
            last = await follow(http, await http.open("POST", progressing("count", id, upto=upto)), heard)
            while last is not None:
                await asyncio.sleep(luck.choice([0, 0.05, 0.5]))
                resumed = await follow(http, await listening(http, last), heard)
                last = resumed if resumed is not None or (heard and "result" in heard[-1]) else last
            *progress, answer = heard
            assert [found["params"]["progress"] for found in progress] == list(range(1, upto + 1))
            assert {found["params"]["progressToken"] for found in progress} == {f"token {id}"}
            assert (answer["id"], answer["result"]["content"][0]["text"]) == (id, str(upto))

        app = server.asgi(sessions=True, event_store=LuckyEvents(), keepalive=0)
        async with asking(app) as http:
            await http.shake_hands()
            await asyncio.gather(*(call(http, id) for id in range(8)))
            session = only(app)
            assert (session._by_id, session._by_name, session._responses) == ({}, {}, 0)
            assert session.is_idle

    run_on_fake_clock(test())


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_session_that_ends_ends_its_streams_and_stops_what_runs() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        app = server.asgi(sessions=True)
        async with asking(app) as http:
            await http.shake_hands()
            standing = await listening(http)
            response = http.start("POST", tool("wait"))
            await gate.began.wait()
            assert (await http.ask("DELETE")).status == 204
            await standing.end()
            await response.end()
            assert standing.is_complete
            assert gate.cancelled.is_set()
            assert (response.status, response.body) == (503, b"")
            assert (await http.post(tool("echo", text="a"))).status == 404
            assert server._connections == {}

    run(test)


def test_a_session_drains_with_the_app() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        app = server.asgi(sessions=True)
        async with asking(app) as http:
            await http.shake_hands()
            standing = await listening(http)
            response = http.start("POST", tool("wait"))
            await gate.began.wait()
            draining = asyncio.get_running_loop().create_task(app.drain())
            await asyncio.sleep(0.01)
            gate.open.set()
            await draining
            await standing.end()
            assert standing.is_complete
            assert response.json["result"]["content"][0]["text"] == "waited"
            assert app.sessions == 0

    run(test)


def test_a_get_that_comes_to_a_session_that_just_ended_ends_at_once() -> None:
    async def test() -> None:
        app = serving().asgi(sessions=True)
        async with asking(app) as http:
            await http.shake_hands()
            session = only(app)
            session.step(e.StopAsked())
            response = Response()
            assert await session.listen(None, response.receiving([]), response.send) is None
            assert response.is_complete

    run(test)


def test_sessions_and_channels_say_what_they_are() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        app = server.asgi(sessions=True)
        async with asking(app) as http:
            await http.shake_hands()
            http.start("POST", tool("wait"))
            await gate.began.wait()
            session = only(app)
            assert "operating 2025-11-25, 1 in flight" in repr(session)
            (channel,) = session._by_id.values()
            assert "open" in repr(channel)
            channel.is_lost = True
            assert "lost" in repr(channel)
            gate.open.set()

    run(test)
