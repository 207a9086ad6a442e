"""A session: its handshake and end, which message is sent on which stream, and what is queued without a GET.

Requests in a session are in `test_session_requests`, resumed streams in `test_session_resuming`.
"""

import asyncio
import gc
import tracemalloc

import pytest

from jackstay.protocol.server import events as e
from jackstay.server._driver import Driver
from jackstay.server.http import MemoryEventStore, MemorySessionStore
from jackstay.server.http import _session as session_file
from jackstay.server.http._asgi import AsgiRequest
from jackstay.testing import run_on_fake_clock
from scripted.asgi import Response, http_client, initialize, request, stateless, tool
from scripted.gate import Gate
from scripted.sessions import listening, only, progressing, serving

# --- the handshake ----------------------------------------------------------------------------------------------------


async def test_initialize_opens_a_session(subtests: pytest.Subtests) -> None:
    """2025-11-25 basic/transports, "Session Management": visible ASCII, and impossible to guess."""
    for version in ("2025-03-26", "2025-06-18", "2025-11-25"):
        with subtests.test(version=version):
            app = serving().asgi(sessions=True)
            async with http_client(app) as http:
                answer = await http.post(initialize(version))
                assert answer.json["result"]["protocolVersion"] == version
                id = answer.headers["mcp-session-id"]
                assert len(id) >= 22
                assert all(0x21 <= ord(character) <= 0x7E for character in id)
                assert app.sessions == 1
                called = await http.post(tool("echo", text="a"), headers={"mcp-session-id": id})
                assert (called.status, called.kind) == (200, "application/json")
                assert "mcp-session-id" not in called.headers


async def test_a_refused_initialize_opens_no_session() -> None:
    app = serving().asgi(sessions=True)
    async with http_client(app) as http:
        answer = await http.post(request("initialize", {}))
        assert answer.json["error"]["code"] == -32602
        assert "mcp-session-id" not in answer.headers
        assert app.sessions == 0


async def test_a_second_initialize_in_a_session_is_a_sequence_error() -> None:
    async with http_client(serving().asgi(sessions=True)) as http:
        await http.handshake()
        assert (await http.post(initialize())).json["error"]["code"] == -32001


async def test_a_session_id_on_a_stateless_request_is_ignored() -> None:
    async with http_client(serving().asgi(sessions=True)) as http:
        answer = await http.post(stateless("tools/list"), headers={"mcp-session-id": "never-given"})
        assert answer.status == 200


# --- which stream -----------------------------------------------------------------------------------------------------


async def test_related_messages_are_sent_in_the_response_of_their_request() -> None:
    """2025-11-25 basic/transports, "Multiple Connections"."""
    async with http_client(serving().asgi(sessions=True)) as http:
        await http.handshake()
        standalone = await listening(http)
        responses = await asyncio.gather(*(http.post(progressing(id=id, count=3)) for id in (1, 2)))
        for id, response in enumerate(responses, 1):
            assert response.kind == "text/event-stream"
            *progress, answer = response.messages
            assert [found["params"]["progressToken"] for found in progress] == [f"token {id}"] * 3
            assert answer["id"] == id
        assert standalone.messages == []


async def test_unrelated_messages_are_sent_on_the_get_stream() -> None:
    server = serving()
    async with http_client(server.asgi(sessions=True)) as http:
        await http.handshake()
        standalone = await listening(http)
        server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
        assert (await standalone.message())["method"] == "notifications/tools/list_changed"
        assert (await http.post(tool("echo", text="a"))).kind == "application/json"


@pytest.mark.parametrize("has_events", [False, True])
async def test_a_changed_list_visits_only_sessions_with_a_get_stream_and_others_when_they_open_one(
    monkeypatch: pytest.MonkeyPatch, has_events: bool
) -> None:
    server, visited = serving(), list[int]()
    changed = Driver.changed
    monkeypatch.setattr(
        Driver, "changed", lambda self, *change: (visited.append(self.number), changed(self, *change))[0]
    )

    def add_tool() -> list[int]:
        visited.clear()
        server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x", replace=True)
        return visited

    app = server.asgi(sessions=True, **({"event_store": MemoryEventStore()} if has_events else {}))
    add_tool()  # before the sessions: they are not notified of it
    async with http_client(app) as quiet, http_client(app) as http:
        await quiet.handshake()
        await http.handshake()
        silent, session = (found.number for found in app._sessions.all)
        stream = await listening(http)
        assert add_tool() == [session]
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        stream.disconnect()
        await stream.end()
        assert add_tool() == []
        visited.clear()
        for client, number in ((http, session), (quiet, silent)):
            opened = await listening(client)
            assert (await opened.message())["method"] == "notifications/tools/list_changed"
            assert visited.pop() == number
            assert len(opened.messages) == 1
        assert add_tool() == [session, silent]
    for found in app._sessions.all:
        found.stop()
    assert server._subscriber_index._by_topic == {}


async def test_an_idle_session_takes_less_than_two_kilobytes() -> None:
    """There may be thousands, each of which was used."""
    app = serving().asgi(sessions=True)
    async with http_client(app) as http:

        async def use(count: int) -> None:
            for number in range(count):
                http.headers = {"user-agent": f"a program with a name of its own, number {number}"}
                await http.handshake()
                assert (await http.post(tool("echo", text="a"))).status == 200
            http.responses.clear()
            gc.collect()

        await use(10)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            await use(100)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert app.sessions == 110
        assert (after - before) / 100 < 2048


async def test_a_worker_that_restores_a_session_shares_its_texts_and_does_not_count_the_confirmation() -> None:
    store = MemorySessionStore()
    first, second = (serving().asgi(sessions=True, session_store=store) for _ in range(2))
    async with http_client(first) as http, http_client(second) as other:
        opened = await http.post(initialize("2025-11-25"))
        confirmation = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        confirmed = await other.post(confirmation, headers={"mcp-session-id": opened.headers["mcp-session-id"]})
        assert confirmed.status == 202
        assert only(second).core.counts == {}
        assert only(second).core.version is only(first).core.version


async def test_without_a_get_messages_are_queued_once_each_and_bounded() -> None:
    server = serving()

    @server.resource("memo://{name}")
    def memo(name: str) -> str:
        return name

    app = server.asgi(sessions=True)
    async with http_client(app) as http:
        await http.handshake()
        uris = [f"memo://{number}" for number in range(session_file.MAX_PENDING + 10)]
        for number, uri in enumerate(uris):
            await http.post(request("resources/subscribe", {"uri": uri}, number))
        for uri in (*uris, *uris[-3:]):
            server.notify_resource_updated(uri)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        standalone = await listening(http)
        await standalone.until(lambda: len(standalone.messages) == session_file.MAX_PENDING)
        received = [message["params"]["uri"] for message in standalone.messages]
        assert set(received) == set(uris[10:])
        assert only(app).dropped == 10
        standalone.disconnect()
        await standalone.end()
        again = await listening(http)
        assert again.messages == []


async def test_the_queue_without_a_get_is_bounded_in_bytes() -> None:
    """The client chooses the URIs and their length, and may never open a GET."""
    server = serving()

    @server.resource("memo://{name}/{more}")
    def memo(name: str, more: str) -> str:
        return name + more

    app = server.asgi(sessions=True, max_stream_bytes=4096)
    async with http_client(app) as http:
        await http.handshake()
        uris = [f"memo://{number}/{'x' * size}" for number, size in enumerate((1000, 1000, 1000, 1000, 9000))]
        for number, uri in enumerate(uris):
            await http.post(request("resources/subscribe", {"uri": uri}, number))
        for count, uri in enumerate(uris, 1):
            server.notify_resource_updated(uri)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert only(app).dropped == (0, 0, 0, 1, 4)[count - 1]
        standalone = await listening(http)
        assert (await standalone.message())["params"]["uri"] == uris[-1], "the newest is kept, whatever its size"
        assert len(standalone.messages) == 1


def test_messages_that_a_get_did_not_write_are_sent_on_the_next() -> None:
    async def test() -> None:
        server = serving()
        async with http_client(server.asgi(sessions=True)) as http:
            await http.handshake()
            standalone = await listening(http)
            await asyncio.sleep(0.01)
            standalone.pause()
            for name in ("a", "b"):
                server.add_tool(name, input_schema={"type": "object"}, handler=lambda arguments: "x")
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            standalone.disconnect()
            await asyncio.sleep(0)
            standalone.resume()
            await standalone.end()
            again = await listening(http)
            assert (await again.message())["method"] == "notifications/tools/list_changed"

    run_on_fake_clock(test())


async def test_a_second_get_replaces_the_first() -> None:
    """A message is sent on one stream only, the newest: an older one may be a stale connection."""
    server = serving()
    async with http_client(server.asgi(sessions=True)) as http:
        await http.handshake()
        first = await listening(http)
        second = await listening(http)
        await first.end()
        assert first.is_complete
        server.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
        assert (await second.message())["method"] == "notifications/tools/list_changed"
        assert first.messages == []


@pytest.mark.parametrize("has_events", [False, True])
def test_messages_that_a_stale_get_did_not_write_are_sent_on_the_second(has_events: bool) -> None:
    """The client does not read the first any more, which the server has not noticed."""

    async def test() -> None:
        server = serving()

        @server.resource("memo://{name}")
        def memo(name: str) -> str:
            return name

        events = MemoryEventStore() if has_events else None
        async with http_client(server.asgi(sessions=True, event_store=events)) as http:
            await http.handshake()
            for number in range(3):
                await http.post(request("resources/subscribe", {"uri": f"memo://{number}"}, number))
            first = await listening(http)
            await asyncio.sleep(0.01)
            first.pause()
            for number in range(3):
                server.notify_resource_updated(f"memo://{number}")
                await asyncio.sleep(0.001)
            second = await listening(http)
            received = [(await second.message())["params"]["uri"] for _ in range(2)]
            assert received == ["memo://1", "memo://2"], "memo://0 was already being written to the first"

    run_on_fake_clock(test())


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_the_end_of_a_session_ends_its_streams_and_cancels_its_handlers() -> None:
    server = serving()
    gate = Gate(server)
    app = server.asgi(sessions=True)
    async with http_client(app) as http:
        await http.handshake()
        standalone = await listening(http)
        response = http.start("POST", tool("wait"))
        await gate.began.wait()
        assert (await http.request("DELETE")).status == 204
        await standalone.end()
        await response.end()
        assert standalone.is_complete
        assert gate.cancelled.is_set()
        assert (response.status, response.body) == (503, b"")
        assert (await http.post(tool("echo", text="a"))).status == 404
        assert server._connections == {}


def test_a_session_drains_with_the_app() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        app = server.asgi(sessions=True)
        async with http_client(app) as http:
            await http.handshake()
            standalone = await listening(http)
            response = http.start("POST", tool("wait"))
            await gate.began.wait()
            draining = asyncio.get_running_loop().create_task(app.drain())
            await asyncio.sleep(0.01)
            gate.open.set()
            await draining
            await standalone.end()
            assert standalone.is_complete
            assert response.json["result"]["content"][0]["text"] == "waited"
            assert app.sessions == 0

    run_on_fake_clock(test())


async def test_a_get_of_a_session_that_just_ended_ends_at_once() -> None:
    app = serving().asgi(sessions=True)
    async with http_client(app) as http:
        await http.handshake()
        session = only(app)
        session.step(e.StopRequested())
        response = Response()
        scope = {"method": "GET", "path": "/mcp", "headers": []}
        await session.serve_get(None, AsgiRequest(scope, response.receiving([]), response.send))
        assert response.is_complete


async def test_repr() -> None:
    server = serving()
    gate = Gate(server)
    app = server.asgi(sessions=True)
    async with http_client(app) as http:
        await http.handshake()
        http.start("POST", tool("wait"))
        await gate.began.wait()
        session = only(app)
        assert "operating 2025-11-25, 1 in flight" in repr(session)
        (channel,) = session._by_id.values()
        assert "open" in repr(channel)
        channel.is_lost = True
        assert "lost" in repr(channel)
        gate.open.set()
