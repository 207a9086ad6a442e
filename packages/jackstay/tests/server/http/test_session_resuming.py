"""One session: how a stream that broke off is resumed, whatever breaks and whatever the event store does."""

import asyncio
import json
import random
from typing import Any

import pytest

from jackstay.server import Context
from jackstay.server.http import MemoryEvents
from jackstay.server.http import _session as session_file
from jackstay.testing import run_on_fake_clock
from scripted.asgi import Http, Response, asking, initialize, request, run, tool
from scripted.gate import Gate
from scripted.sessions import listening, only, progressing, serving

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

    run_on_fake_clock(test())


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

    run_on_fake_clock(test())


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

    run_on_fake_clock(test())


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


def test_a_handshake_that_is_refused_is_answered_in_a_stream_too_and_nothing_is_kept_of_it() -> None:
    """There is no session then, so no event of it can be asked for again; and anybody can send one."""

    async def test() -> None:
        events = MemoryEvents()
        app = serving().asgi(sessions=True, event_store=events)
        async with asking(app) as http:
            message = {**initialize(), "params": {"protocolVersion": {}}}
            answer = await http.post(message, headers={"accept": "text/event-stream"})
            assert (answer.status, answer.kind) == (200, "text/event-stream")
            assert [said["error"]["code"] for said in answer.messages] == [-32602]
            assert "mcp-session-id" not in answer.headers
            assert [event.id for event in answer.events] == [None]
        assert app.sessions == 0
        assert repr(events) == "<MemoryEvents of 0 sessions, 0 bytes>"

    run(test)


@pytest.mark.parametrize(("bound", "most"), [("MOST_UNSAVED", 3), ("MOST_UNSAVED_BYTES", 300)])
def test_a_store_that_is_behind_is_not_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """What it has not taken is bounded, in number and in bytes."""
    monkeypatch.setattr(session_file, bound, most)

    async def test() -> None:
        class Stuck(MemoryEvents):
            async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
                await asyncio.Event().wait()

        app = serving().asgi(sessions=True, event_store=Stuck())
        async with asking(app) as http:
            await http.shake_hands()
            answer = await http.post(progressing(count=8))
            assert len(answer.messages) == 9
            assert len(only(app)._unsaved) <= 3
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
