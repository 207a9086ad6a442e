"""One session: how it begins and ends, which message travels on which stream, and what is kept while nobody listens.

What a request may do in it is in `test_session_requests`, how a stream is resumed in `test_session_resuming`.
"""

import asyncio

import pytest

from jackstay.protocol.server import events as e
from jackstay.server.http import MemoryEvents
from jackstay.server.http import _session as session_file
from jackstay.testing import run_on_fake_clock
from scripted.asgi import Response, asking, initialize, request, run, stateless, tool
from scripted.gate import Gate
from scripted.sessions import listening, only, progressing, serving

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


def test_what_nobody_listens_to_is_bounded_in_bytes_too() -> None:
    """The client chooses its URIs, and how long they are; and it need never come for what is said of them."""

    async def test() -> None:
        server = serving()

        @server.resource("memo://{name}/{more}")
        def memo(name: str, more: str) -> str:
            return name + more

        app = server.asgi(sessions=True, max_stream_bytes=4096)
        async with asking(app) as http:
            await http.shake_hands()
            uris = [
                f"memo://{number}/{'x' * size}" for number, size in enumerate((1000, 1000, 1000, 1000, 9000))
            ]
            for number, uri in enumerate(uris):
                await http.post(request("resources/subscribe", {"uri": uri}, number))
            for count, uri in enumerate(uris, 1):
                server.notify_resource_updated(uri)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert only(app).dropped == (0, 0, 0, 1, 4)[count - 1]
            standing = await listening(http)
            assert (await standing.message())["params"]["uri"] == uris[-1], "one of any size"
            assert len(standing.messages) == 1

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

    run_on_fake_clock(test())


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

    run_on_fake_clock(test())


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
