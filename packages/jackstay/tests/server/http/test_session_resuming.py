"""Resumed streams of a session, with lost connections and slow or failing event stores."""

import asyncio
import json
import random
from typing import Any

import pytest

from jackstay.server import Context
from jackstay.server.http import MemoryEventStore
from jackstay.server.http import _session as session_file
from jackstay.testing import run_on_fake_clock
from scripted.asgi import Http, Response, http_client, initialize, request, tool
from scripted.gate import Gate
from scripted.sessions import listening, only, progressing, serving

# --- resuming ---------------------------------------------------------------------------------------------------------


async def test_a_lost_stream_is_resumed() -> None:
    """2025-11-25 basic/transports, "Resumability and Redelivery": by GET with `Last-Event-ID`, also for a POST."""
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi(sessions=True, event_store=MemoryEventStore())) as http:
        await http.handshake()
        message = tool("wait")
        message["params"]["_meta"] = {"progressToken": 1}
        response = http.start("POST", message)
        await gate.began.wait()
        assert gate.context is not None
        gate.context.progress(1)
        primed, first = await response.event(), await response.event()
        assert (primed.data, primed.retry) == (b"", 1000)
        assert b'"progress":1' in first.data
        response.disconnect()
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
        assert len(whole.messages) == 4, "all events are replayed, and the stream ends after the response"
        ids = [event.id for event in (primed, first, *resumed.events)]
        assert len(set(ids)) == len(ids)


async def test_the_stream_of_a_cancelled_request_cannot_be_resumed() -> None:
    """It never gets a response, so a client that resumed it would do so again and again."""
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi(sessions=True, event_store=MemoryEventStore())) as http:
        await http.handshake()
        for number in range(2):
            gate.began.clear()
            message = tool("wait", number)
            message["params"]["_meta"] = {"progressToken": 1}
            response = http.start("POST", message)
            await gate.began.wait()
            assert gate.context is not None
            gate.context.progress(1)
            primed = await response.event()
            cancel = {"requestId": number}
            await http.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel})
            await response.end()
        headers = {"accept": "text/event-stream", "last-event-id": primed.id}
        refused = await http.request("GET", headers=headers)
        assert refused.status == 400
        assert "cancelled" in refused.json["error"]["message"]


async def test_only_events_of_the_same_stream_are_replayed() -> None:
    """2025-11-25 basic/transports, "Resumability and Redelivery"."""
    async with http_client(serving().asgi(sessions=True, event_store=MemoryEventStore())) as http:
        await http.handshake()
        first = await http.post(progressing(id=1, count=2))
        second = await http.post(progressing(id=2, count=2))
        resumed = await listening(http, first.events[1].id)
        await resumed.end()
        assert [message.get("id") for message in resumed.messages] == [None, 1]
        assert second.messages[-1]["id"] == 2


async def test_an_unknown_event_id_is_refused(subtests: pytest.Subtests) -> None:
    for last in ("", "x", "x-", "-1", "x-1", "x-y", "x-" + "9" * 30, "x-²"):
        with subtests.test(last=last):
            async with http_client(serving().asgi(sessions=True, event_store=MemoryEventStore())) as http:
                await http.handshake()
                headers = {"accept": "text/event-stream", "last-event-id": last}
                answer = await http.request("GET", headers=headers)
                assert answer.status == 400
                assert "Last-Event-ID" in answer.json["error"]["message"]


async def test_events_of_another_session_are_not_replayed() -> None:
    """Security: an event id is valid in its own session only."""
    app = serving().asgi(sessions=True, event_store=MemoryEventStore())
    async with http_client(app) as owner, http_client(app) as attacker:
        await owner.handshake()
        await attacker.handshake()
        answer = await owner.post(progressing(count=2))
        headers = {"accept": "text/event-stream", "last-event-id": answer.events[0].id}
        stolen = await attacker.request("GET", headers=headers)
        assert stolen.status == 400


def test_the_get_stream_is_resumed_and_unread_messages_are_kept() -> None:
    async def test() -> None:
        server = serving()

        @server.resource("memo://{name}")
        def memo(name: str) -> str:
            return name

        async with http_client(server.asgi(sessions=True, event_store=MemoryEventStore())) as http:
            await http.handshake()
            for number in range(4):
                await http.post(request("resources/subscribe", {"uri": f"memo://{number}"}, number))
            server.notify_resource_updated("memo://0")
            await asyncio.sleep(0.01)
            standalone = await listening(http)
            seen = await standalone.event()
            assert b"memo://0" in seen.data
            standalone.disconnect()
            await standalone.end()
            server.notify_resource_updated("memo://1")
            server.notify_resource_updated("memo://2")
            await asyncio.sleep(0.01)
            plain = await listening(http)
            assert (await plain.message())["params"]["uri"] == "memo://1"
            assert (await plain.message())["params"]["uri"] == "memo://2"
            plain.disconnect()
            await plain.end()
            resumed = await listening(http, seen.id)
            assert (await resumed.message())["params"]["uri"] == "memo://1"
            assert (await resumed.message())["params"]["uri"] == "memo://2"
            server.notify_resource_updated("memo://3")
            assert (await resumed.message())["params"]["uri"] == "memo://3"

    run_on_fake_clock(test())


def test_a_get_stream_begins_with_a_priming_event() -> None:
    """2025-11-25 basic/transports: an event with an id, empty data and `retry`. Earlier revisions get none."""

    async def test() -> None:
        for version, is_primed in (("2025-11-25", True), ("2025-06-18", False)):
            app = serving().asgi(sessions=True, event_store=MemoryEventStore(), retry=0.25)
            async with http_client(app) as http:
                await http.handshake(version)
                standalone = await listening(http)
                if is_primed:
                    event = await standalone.event()
                    assert (event.data, event.retry) == (b"", 250)
                    assert event.id
                else:
                    await asyncio.sleep(0.01)
                    assert standalone.body == b""

    run_on_fake_clock(test())


async def test_a_stream_of_an_older_revision_has_ids_but_no_priming_event() -> None:
    async with http_client(serving().asgi(sessions=True, event_store=MemoryEventStore())) as http:
        await http.handshake("2025-06-18")
        answer = await http.post(progressing(count=1))
        assert all(event.data and event.id for event in answer.events)


async def test_a_handler_can_close_the_stream_and_the_client_resumes_it() -> None:
    """Polling of 2025-11-25 with `ctx.close_stream`; conformance `server-sse-polling`."""
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi(sessions=True, event_store=MemoryEventStore())) as http:
        await http.handshake()
        response = http.start("POST", tool("wait"))
        await gate.began.wait()
        assert gate.context is not None
        gate.context.close_stream(retry=0.5)
        gate.context.close_stream()  # it is already closed
        await response.end()
        assert response.is_complete
        primed, last = response.events
        assert (primed.data, last.data, last.retry) == (b"", b"", 500)
        resumed = await listening(http, last.id)
        gate.open.set()
        assert (await resumed.message())["result"]["content"][0]["text"] == "waited"
        await resumed.end()
        assert resumed.is_complete


async def test_a_stream_that_could_not_be_resumed_is_not_closed(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = [{}, {"event_store": True, "version": "2025-06-18"}, {"accept": True}]
    for options in cases:
        with subtests.test(options=options):
            server = serving()

            @server.tool
            async def closes(ctx: Context) -> str:
                ctx.close_stream()
                return "still here"

            has_events = bool(options.get("event_store") or options.get("accept"))
            app = server.asgi(sessions=True, event_store=MemoryEventStore() if has_events else None)
            headers = {"accept": "application/json"} if options.get("accept") else {}
            async with http_client(app, **headers) as http:
                await http.handshake(options.get("version", "2025-11-25"))
                answer = await http.post(tool("closes"))
                assert answer.json["result"]["content"][0]["text"] == "still here"
                assert only(app).close_stream("unknown id") is False


async def test_a_long_call_becomes_resumable_before_its_first_message() -> None:
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi(sessions=True, event_store=MemoryEventStore(), keepalive=0)) as http:
        await http.handshake()
        response = await http.open("POST", tool("wait"))
        assert (await response.event()).data == b""
        gate.open.set()
        await response.end()


def test_messages_sent_while_a_client_resumes_are_not_lost() -> None:
    """The store is read while the handler continues: no duplicates, no gaps, in order."""

    async def test() -> None:
        class SlowEvents(MemoryEventStore):
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

        async with http_client(server.asgi(sessions=True, event_store=SlowEvents())) as http:
            await http.handshake()
            response = http.start("POST", progressing("count"))
            seen = [await response.event() for _ in range(5)]
            response.disconnect()
            await response.end()
            resumed = await listening(http, seen[-1].id)
            await resumed.end()
            progress = [message["params"]["progress"] for message in resumed.messages[:-1]]
            assert progress == list(range(4, 60))
            assert resumed.messages[-1]["id"] == 1

    run_on_fake_clock(test())


async def test_if_the_event_store_fails_messages_are_still_sent(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryEventStore):
        async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
            raise OSError("no route to the store")

    async with http_client(serving().asgi(sessions=True, event_store=Broken())) as http:
        await http.handshake()
        answer = await http.post(progressing(count=2))
        assert len(answer.messages) == 3
    assert "an event was not stored" in caplog.text


async def test_a_refused_handshake_stores_no_events() -> None:
    """There is no session, so its events could never be resumed, and anybody can send one."""
    events = MemoryEventStore()
    app = serving().asgi(sessions=True, event_store=events)
    async with http_client(app) as http:
        handshake = {**initialize(), "params": {"protocolVersion": {}}}
        answer = await http.post(handshake, headers={"accept": "text/event-stream"})
        assert (answer.status, answer.kind) == (200, "text/event-stream")
        assert [message["error"]["code"] for message in answer.messages] == [-32602]
        assert "mcp-session-id" not in answer.headers
        assert [event.id for event in answer.events] == [None]
    assert app.sessions == 0
    assert repr(events) == "<MemoryEventStore of 0 sessions, 0 bytes>"


@pytest.mark.parametrize(("limit", "value"), [("MAX_UNSAVED", 3), ("MAX_UNSAVED_BYTES", 300)])
async def test_a_slow_event_store_does_not_delay_messages(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """The events that wait for it are bounded, in number and in bytes."""
    monkeypatch.setattr(session_file, limit, value)

    class Hanging(MemoryEventStore):
        async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
            await asyncio.Event().wait()

    app = serving().asgi(sessions=True, event_store=Hanging())
    async with http_client(app) as http:
        await http.handshake()
        answer = await http.post(progressing(count=8))
        assert len(answer.messages) == 9
        assert len(only(app)._unsaved) <= 3
        saving = only(app)._saving
        assert saving is not None
        saving.cancel()
    assert "the event store is too slow" in caplog.text


async def test_a_resume_continues_if_the_store_lost_events() -> None:
    class Forgetful(MemoryEventStore):
        async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
            if number < 3:
                await super().append(session, stream, number, data)

    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi(sessions=True, event_store=Forgetful())) as http:
        await http.handshake()
        message = tool("wait")
        message["params"]["_meta"] = {"progressToken": 1}
        response = http.start("POST", message)
        await gate.began.wait()
        assert gate.context is not None
        for number in range(5):
            gate.context.progress(number)
        last = await response.event()
        response.disconnect()
        await response.end()
        resumed = await listening(http, last.id)
        assert [(await resumed.message())["params"]["progress"] for _ in range(2)] == [0, 1]
        gate.open.set()
        assert "result" in await resumed.message()


def test_with_random_losses_every_call_is_received_once_and_in_order(subtests: pytest.Subtests) -> None:
    """Clients lose responses at random or must reconnect, and resume with the last event id that they received.

    Invariants: the events of each call are its own progress without gaps or duplicates, then its response, then the
    end; and nothing is left in the session.
    """
    for seed in range(50):
        with subtests.test(seed=seed):
            run_on_fake_clock(lose_responses(seed))


async def lose_responses(seed: int) -> None:
    rng = random.Random(seed)
    server = serving()

    @server.tool
    async def count(ctx: Context, upto: int) -> str:
        for number in range(1, upto + 1):
            ctx.progress(number)
            if rng.random() < 0.1:
                ctx.close_stream(retry=rng.choice([None, 0.1]))
            await asyncio.sleep(rng.choice([0, 0, 0.01, 0.3]))
        return str(upto)

    class SlowEvents(MemoryEventStore):
        async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
            await asyncio.sleep(rng.choice([0, 0, 0.005]))
            await super().append(session, stream, number, data)

        async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
            found = await super().replay(session, stream, after)
            await asyncio.sleep(rng.choice([0, 0.02]))
            return found

    async def read(response: Response, received: list[Any]) -> str | None:
        """Read until the stream ends or is lost. Returns the id to resume with, or None after the response."""
        last = None
        while True:
            try:
                event = await response.event()
            except EOFError:
                return last
            last = event.id or last
            if event.data:
                received.append(json.loads(event.data))
                if "result" in received[-1]:
                    await response.end()
                    assert response.is_complete
                    return None
            if rng.random() < 0.2:
                response.disconnect()
                await response.end()
                return last

    async def call(http: Http, id: int) -> None:
        upto = rng.randrange(1, 12)
        received: list[Any] = []
        last = await read(await http.open("POST", progressing("count", id, upto=upto)), received)
        while last is not None:
            await asyncio.sleep(rng.choice([0, 0.05, 0.5]))
            resumed = await read(await listening(http, last), received)
            last = resumed if resumed is not None or (received and "result" in received[-1]) else last
        *progress, answer = received
        assert [found["params"]["progress"] for found in progress] == list(range(1, upto + 1))
        assert {found["params"]["progressToken"] for found in progress} == {f"token {id}"}
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (id, str(upto))

    app = server.asgi(sessions=True, event_store=SlowEvents(), keepalive=0)
    async with http_client(app) as http:
        await http.handshake()
        await asyncio.gather(*(call(http, id) for id in range(8)))
        session = only(app)
        assert (session._by_id, session._by_name, session._open_responses) == ({}, {}, 0)
        assert session.is_idle
