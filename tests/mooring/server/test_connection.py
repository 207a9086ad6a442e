"""The driver: what the core decides is done, slow readers are waited for, and the end is bounded."""

import asyncio
import json
import logging
import threading
from typing import Any

import msgspec
import pytest

from chaos.servers_own.conversation import GUARD, STATELESS, Peer, meta, run, talking
from mooring.errors import FrameTooLargeError, JsonRpcError, McpError, ProtocolError, TransportError
from mooring.protocol.server import ServerConnection, ServerOffer, ServerOptions
from mooring.protocol.server import events as e
from mooring.server import Context, Server
from mooring.server import _connection as driver
from mooring.server._connection import Connection
from mooring.server._telemetry import Telemetry
from mooring.transport import memory_pair

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


def echoing(**options: Any) -> Server:
    server = Server("echo", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool(blocking=False)
    def large(size: int) -> str:
        return "x" * size

    return server


def call(id: Any, name: str = "echo", **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


# --- receiving --------------------------------------------------------------------------------------------------------


def test_a_request_pipelined_right_after_initialize_is_served() -> None:
    """G20."""

    async def test() -> None:
        async with talking(echoing(), is_fresh=True) as peer:
            peer.say(INITIALIZE)
            peer.say(call(1, text="early"))
            peer.notify("notifications/initialized")
            assert (await peer.answer(0))["result"]["protocolVersion"] == "2025-11-25"
            assert (await peer.answer(1))["result"]["content"][0]["text"] == "early"

    run(test)


@pytest.mark.parametrize(
    ("frame", "code"), [(b"{", -32700), (b"[]", -32600), (b'{"jsonrpc":"1.0"}', -32600), (b"\xff", -32700)]
)
def test_rubbish_is_answered_and_the_connection_goes_on(frame: bytes, code: int) -> None:
    async def test() -> None:
        async with talking(echoing()) as peer:
            peer.say(frame)
            found = await peer.until(lambda: [f for f in peer.frames if "error" in f])
            assert found[0]["error"]["code"] == code
            assert await peer.text("echo", text="on") == "on"

    run(test)


def test_a_flood_of_rubbish_is_warned_of_ever_less_often(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with talking(echoing()) as peer:
            await peer.say_all(b"rubbish" for _ in range(100))
            await peer.result("ping")

    with caplog.at_level(logging.WARNING, "mooring.server"):
        run(test)
    told = [record.args[-1] for record in caplog.records if isinstance(record.args, tuple)]
    assert told == [*range(1, 9), 16, 32, 64]


def test_a_frame_over_the_limit_is_answered_and_the_connection_goes_on() -> None:
    """G16, without a process."""

    async def test() -> None:
        async with talking(echoing(max_frame_bytes=4096)) as peer:
            peer.say(b" " * 5000)
            found = await peer.until(lambda: [f for f in peer.frames if "error" in f])
            assert found[0]["error"]["code"] == -32600
            assert await peer.text("echo", text="on") == "on"

    run(test)


def test_an_answer_over_the_limit_is_an_error() -> None:
    async def test() -> None:
        async with talking(echoing(max_frame_bytes=4096)) as peer:
            error = await peer.error("tools/call", {"name": "large", "arguments": {"size": 5000}})
            assert error["code"] == -32603

    run(test)


def test_more_quick_requests_than_may_be_in_flight_are_served_when_they_are_pipelined() -> None:
    async def test() -> None:
        async with talking(echoing()) as peer:
            await peer.say_all(call(number, text="x") for number in range(2000))
            await peer.until(lambda: len(peer.frames) == 2000)
            assert all("result" in frame for frame in peer.frames)

    run(test)


@pytest.mark.guard(120)
def test_ten_thousand_requests_at_once_are_served_where_that_many_are_allowed() -> None:
    async def test() -> None:
        server = echoing(max_concurrent=10_000)
        gate, together, waiting = asyncio.Event(), asyncio.Event(), []

        @server.tool
        async def wait() -> None:
            waiting.append(1)
            if len(waiting) == 10_000:
                together.set()
            await gate.wait()

        async with talking(server) as peer:
            await peer.say_all(call(number, "wait") for number in range(10_000))
            await together.wait()
            assert await peer.result("ping") == {}
            gate.set()
            await peer.until(lambda: len(peer.frames) == 10_000)
            assert all("result" in frame for frame in peer.frames)

    run(test)


def test_what_is_too_much_at_once_is_refused_as_busy_and_control_messages_pass() -> None:
    async def test() -> None:
        server = echoing(max_concurrent=2)
        gate = asyncio.Event()

        @server.tool
        async def wait() -> None:
            await gate.wait()

        async with talking(server) as peer:
            for number in range(3):
                peer.say(call(number, "wait"))
            error = (await peer.answer(2))["error"]
            assert error["code"] == -32603
            assert error["data"]["retryable"] is True
            assert await peer.result("ping") == {}
            gate.set()
            assert "result" in await peer.answer(0)

    run(test)


def test_a_batch_of_2025_03_26_is_answered_as_one_array() -> None:
    async def test() -> None:
        async with talking(echoing(), "2025-03-26") as peer:
            peer.say([call("a", text="1"), call("b", "large", size=2), {"jsonrpc": "2.0", "method": "x"}])
            found = await peer.until(lambda: [f for f in peer.frames if isinstance(f, list)])
            assert {one["id"] for one in found[0]} == {"a", "b"}

    run(test)


def test_two_clients_are_two_machines() -> None:
    async def test() -> None:
        server = echoing()
        async with talking(server, "2025-06-18") as one, talking(server, STATELESS) as other:
            other.say(b"rubbish")
            peer_error = await one.error("initialize")
            assert peer_error["code"] == -32001
            assert await one.text("echo", text="1") == "1"
            assert await other.text("echo", text="2") == "2"

    run(test)


# --- handlers of our own ----------------------------------------------------------------------------------------------


class Failing:
    """A dispatch with a defect."""

    def __init__(self, in_task: bool) -> None:
        self.in_task = in_task

    def serve(self, connection: Connection, request: e.Serve) -> Any:
        if not self.in_task:
            raise ValueError("secret")

        async def fail() -> bytes:
            raise ValueError("secret")

        return fail()

    def notified(self, connection: Connection, method: str, params: msgspec.Raw | None) -> None:
        raise AssertionError("not asked for")

    def draining(self, connection: Connection) -> None:
        pass


@pytest.mark.parametrize("in_task", [True, False])
def test_a_defect_of_the_dispatch_is_an_internal_error(
    in_task: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        pair = memory_pair()
        offer = ServerOffer(ServerOptions(server_info=b'{"name":"x","version":"1"}'))
        connection = Connection(offer, frozenset(), Failing(in_task), telemetry=Telemetry("x"))
        await connection.open(pair.server)
        peer = Peer()
        peer.transport = await pair.client.open(peer, 1 << 20, 1.0)
        await peer.initialize()
        with caplog.at_level(logging.ERROR, "mooring.server"):
            assert await peer.error("tools/list") == {"code": -32603, "message": "internal error"}
        assert "secret" in caplog.text
        connection.stop()
        await connection.closed.wait()
        assert repr(connection).startswith("<Connection 0 <ServerConnection closed")

    run(test)


def test_a_core_may_be_brought_along() -> None:
    async def test() -> None:
        offer = ServerOffer(ServerOptions(server_info=b'{"name":"x","version":"1"}'))
        core = ServerConnection(offer, version=STATELESS, is_post=True)
        connection = Connection(offer, frozenset(), Failing(False), telemetry=Telemetry("x"), core=core)
        assert connection.core is core
        connection.frames_arrived()  # nothing is open: nothing happens
        connection._send(e.Send(b"{}"))
        connection.stop()
        await connection.closed.wait()

    run(test)


def test_a_notification_that_is_too_large_is_refused_where_it_is_made() -> None:
    async def test() -> None:
        server = echoing(max_frame_bytes=4096)

        @server.tool
        async def shout(ctx: Context) -> str:
            with pytest.raises(FrameTooLargeError):
                ctx.log("error", "x" * 5000)
            return "refused"

        async with talking(server) as peer:
            assert await peer.text("shout") == "refused"

    run(test)


def test_what_the_core_refuses_is_logged_and_the_connection_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        server = echoing(max_frame_bytes=4096)
        async with talking(server) as peer:
            await peer.result("ping")
            (connection,) = server._connections.values()
            connection.step(e.Notified("notifications/message", b"x" * 5000))
            assert "was not taken" in caplog.text
            assert await peer.text("echo", text="on") == "on"

    run(test)


def asking() -> Server:
    server = Server("asking")

    @server.tool
    async def ask(ctx: Context) -> str:
        ctx.progress(1)
        return str(len(await ctx.roots()))

    @server.tool(blocking=False)
    def report(ctx: Context) -> str:
        ctx.progress(1)
        return "done"

    @server.tool
    async def refuse() -> str:
        raise JsonRpcError(-32000, "no")

    @server.tool
    async def give_up() -> str:
        raise asyncio.CancelledError

    return server


def test_a_handler_asks_the_client_and_is_answered() -> None:
    async def test() -> None:
        async with talking(asking(), capabilities={"roots": {}}) as peer:
            token = {"_meta": {"progressToken": 1}}
            id = peer.ask("tools/call", {"name": "ask", **token})
            question = await peer.question()
            assert len(peer.notes) == 1
            peer.say({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
            assert (await peer.answer(id))["result"]["content"][0]["text"] == "0"
            id = peer.ask("tools/call", {"name": "ask"})
            question = await peer.question()
            peer.say({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}})
            assert (await peer.answer(id))["error"]["code"] == -1
            await peer.result("tools/call", {"name": "report", **token})
            assert len(peer.notes) == 2
            assert (await peer.error("tools/call", {"name": "refuse"}))["code"] == -32000
            assert "cancelled" in (await peer.error("tools/call", {"name": "give_up"}))["message"]

    run(test)


def test_a_question_of_a_request_that_is_cancelled_is_withdrawn() -> None:
    async def test() -> None:
        async with talking(asking(), capabilities={"roots": {}}) as peer:
            id = peer.ask("tools/call", {"name": "ask"})
            question = await peer.question()
            peer.notify("notifications/cancelled", {"requestId": id})
            assert (await peer.note("notifications/cancelled"))["requestId"] == question["id"]
            peer.say({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
            await peer.result("ping")

    run(test)


def test_a_question_that_is_open_at_the_end_ends_with_it() -> None:
    async def test() -> None:
        async with talking(asking(), capabilities={"roots": {}}) as peer:
            peer.ask("tools/call", {"name": "ask"})
            await peer.question()

    run(test)


def test_a_subscription_is_a_request_that_stays_open() -> None:
    async def passing(ctx: Context, call_next: Any) -> bytes:
        return await call_next()  # type: ignore[no-any-return]  # as the type says

    async def test() -> None:
        for middleware in ([], [passing]):
            async with talking(echoing(middleware=middleware), STATELESS) as peer:
                peer.ask("subscriptions/listen", {"notifications": {}}, id="s")
                await peer.note("notifications/subscriptions/acknowledged")
                await peer.text("echo", text="x")
                assert not [frame for frame in peer.frames if frame.get("id") == "s"]

    run(test)


# --- a client that reads slowly ---------------------------------------------------------------------------------------


async def filled(peer: Peer, server: Server) -> Connection:
    """Answers wait for a client that does not read."""
    peer.is_reading = False
    (connection,) = server._connections.values()
    for number in range(12):
        peer.say(call(f"l{number}", "large", size=1 << 20))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    async with asyncio.timeout(GUARD):
        while not connection._backlog:
            await asyncio.sleep(0)
    return connection


def test_a_client_that_does_not_read_is_not_read_from_and_then_gets_everything() -> None:
    async def test() -> None:
        server = echoing()
        async with talking(server) as peer:
            connection = await filled(peer, server)
            served = connection.core._exchanges.serial
            for number in range(50):
                peer.say(call(f"m{number}", text="x"))
            for _ in range(20):
                await asyncio.sleep(0)
            assert connection.core._exchanges.serial == served, (
                "requests were pulled from a client that does not read"
            )
            assert len(connection._backlog) == 1
            peer.is_reading = True
            peer.frames_arrived()
            await peer.until(lambda: len(peer.frames) >= 62)
            assert all("result" in frame for frame in peer.frames)

    run(test)


def test_meanwhile_progress_and_logs_are_dropped_and_other_notices_kept_once() -> None:
    async def test() -> None:
        server = echoing()
        async with talking(server) as peer:
            connection = await filled(peer, server)
            for _ in range(5):
                connection.notify("notifications/message", b'{"level":"info","data":1}')
                connection.progressed(e.Progressed(1, 1, 1, 1.0))
                connection.notify("notifications/tools/list_changed", b"{}")
            assert connection.dropped == 5 + 5 + 4
            peer.is_reading = True
            peer.frames_arrived()
            await peer.note("notifications/tools/list_changed")
            await peer.result("ping")
            assert peer.notes == []
            connection.notify("notifications/tools/list_changed", b"{}")
            await peer.note("notifications/tools/list_changed")

    run(test)


def test_a_client_that_never_reads_does_not_keep_the_connection() -> None:
    async def test() -> None:
        server = echoing(drain_timeout=0.0)
        pair = memory_pair()
        serving = asyncio.create_task(server.serve(pair.server))
        peer = Peer()
        peer.transport = await pair.client.open(peer, 1 << 25, 1.0)
        await peer.initialize()
        connection = await filled(peer, server)
        began = asyncio.get_running_loop().time()
        connection.drain()
        await serving
        assert asyncio.get_running_loop().time() - began < driver.FLUSH_TIMEOUT + 1
        await peer.transport.close()

    run(test)


# --- the end ----------------------------------------------------------------------------------------------------------


def test_what_was_asked_before_the_end_of_input_is_answered() -> None:
    async def test() -> None:
        server = echoing()
        pair = memory_pair()
        serving = asyncio.create_task(server.serve(pair.server))
        peer = Peer()
        peer.transport = await pair.client.open(peer, 1 << 25, 1.0)
        peer.say(INITIALIZE)
        for number in range(200):
            peer.say(call(f"r{number}", text="x"))
        await asyncio.sleep(0)
        (connection,) = server._connections.values()
        connection.went_down(TransportError("the end"), None, False)
        await peer.until(lambda: len(peer.frames) == 201)
        assert all("result" in frame for frame in peer.frames)
        await serving

    run(test)


def test_a_connection_that_drains_refuses_what_is_new_and_finishes_what_runs() -> None:
    async def test() -> None:
        server = echoing()
        gate = asyncio.Event()

        @server.tool
        async def wait() -> str:
            await gate.wait()
            return "done"

        async with talking(server) as peer:
            peer.say(call("w", "wait"))
            await peer.result("ping")
            told: list[str] = []
            next(iter(server._connections.values())).on_draining = lambda: told.append("the end has begun")
            server.drain()
            error = await peer.error("tools/list")
            assert told == ["the end has begun"]
            assert error["data"]["retryable"] is True
            gate.set()
            assert (await peer.answer("w"))["result"]["content"][0]["text"] == "done"
            await peer.ended()

    run(test)


def test_a_handler_that_does_not_end_is_cancelled_when_its_time_is_over() -> None:
    async def test() -> None:
        server = echoing(drain_timeout=0.01)
        ended = asyncio.Event()

        @server.tool
        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.set()

        async with talking(server) as peer:
            peer.say(call("w", "wait"))
            await peer.result("ping")
            server.drain()
            async with asyncio.timeout(GUARD):
                await ended.wait()

    run(test)


def test_a_lost_stream_is_the_end_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        server = echoing()
        pair = memory_pair()
        serving = asyncio.create_task(server.serve(pair.server))
        peer = Peer()
        peer.transport = await pair.client.open(peer, 1 << 25, 1.0)
        await peer.initialize()
        (connection,) = server._connections.values()
        connection._receive(ProtocolError("not a header"))
        connection.went_down(ProtocolError("not a header"), None, False)
        await serving

    run(test)


class Halting:
    """A transport that is busy until a flush, of which it is told by the test when it is done and how it ended."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.has_room = False
        self.flushing = asyncio.Event()
        self.flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.is_closed = False

    def send(self, frame: bytes, number: int) -> bool:
        if self.has_room:
            assert number == len(self.frames) + 1
            self.frames.append(frame)
        return self.has_room

    def withdraw(self, number: int) -> bool:
        raise AssertionError("an answer is never taken back")

    def next_frame(self) -> bytes | McpError | None:
        return None

    async def flush(self) -> bool:
        assert not self.is_closed
        self.flushing.set()
        return await self.flushed

    async def close(self) -> None:
        self.is_closed = True


class HaltingTarget:
    name, is_http, init_timeout = "halting", False, 1.0

    def __init__(self, transport: Halting) -> None:
        self.transport = transport

    async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Halting:
        return self.transport


async def halted(server: Server) -> tuple[Halting, Connection, asyncio.Task[None]]:
    """A connection whose last answer waits for room, while it is flushed."""
    transport = Halting()
    serving = asyncio.create_task(server.serve(HaltingTarget(transport)))
    await asyncio.sleep(0)
    (connection,) = server._connections.values()
    connection._receive(json.dumps(INITIALIZE).encode())
    assert len(connection._backlog) == 1
    connection.went_down(TransportError("gone"), None, False)
    await transport.flushing.wait()
    return transport, connection, serving


def test_the_last_answer_is_given_and_finished_before_the_transport_is_closed() -> None:
    async def test() -> None:
        transport, connection, serving = await halted(echoing())
        assert not transport.is_closed
        transport.has_room = True
        connection.room_made()
        assert len(transport.frames) == 1
        assert not transport.is_closed
        transport.flushed.set_result(True)
        await serving
        assert transport.is_closed

    run(test)


def test_an_answer_that_can_never_be_given_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FLUSH_TIMEOUT", 2 * GUARD)

    async def test() -> None:
        transport, _, serving = await halted(echoing())
        transport.flushed.set_result(False)
        await serving
        assert (transport.is_closed, transport.frames) == (True, [])

    run(test)


def test_a_transport_that_tells_of_room_late_is_asked_again() -> None:
    async def test() -> None:
        transport, connection, serving = await halted(echoing())
        transport.flushed.set_result(True)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not transport.is_closed
        transport.has_room = True
        connection.room_made()
        await serving
        assert (transport.is_closed, len(transport.frames)) == (True, 1)

    run(test)


def test_what_was_not_pulled_when_it_is_stopped_is_left_unread() -> None:
    async def test() -> None:
        server = echoing()
        pair = memory_pair()
        serving = asyncio.create_task(server.serve(pair.server))
        peer = Peer()
        peer.transport = await pair.client.open(peer, 1 << 25, 1.0)
        await peer.initialize()
        (connection,) = server._connections.values()
        for number in range(5 * driver.PULLED_IN_A_TURN):
            peer.say(call(number, text="x"))
        while connection._pull is None:
            await asyncio.sleep(0)
        connection.stop()
        await serving
        assert connection.core._exchanges.serial < 5 * driver.PULLED_IN_A_TURN
        await peer.transport.close()

    run(test)


def test_an_answer_that_is_never_finished_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """G12: a client that does not read keeps nobody."""
    monkeypatch.setattr(driver, "FLUSH_TIMEOUT", 0.01)

    async def test() -> None:
        transport, _, serving = await halted(echoing())
        await serving
        assert transport.is_closed

    run(test)


def test_cancelling_the_one_who_serves_ends_the_connection() -> None:
    async def test() -> None:
        server = echoing()
        pair = memory_pair()
        serving = asyncio.create_task(server.serve(pair.server))
        peer = Peer()
        peer.transport = await pair.client.open(peer, 1 << 25, 1.0)
        await peer.initialize()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert server._connections == {}
        await peer.ended()

    run(test)


def test_a_thread_may_speak_after_the_loop_is_closed() -> None:
    kept: list[Connection] = []

    async def test() -> None:
        server = echoing()
        async with talking(server) as peer:
            await peer.result("ping")
            kept.extend(server._connections.values())

    run(test)
    thread = threading.Thread(target=kept[0].call, args=(kept[0].drain,))
    thread.start()
    thread.join(5)
    assert not thread.is_alive()


# --- telemetry --------------------------------------------------------------------------------------------------------


def test_every_request_begins_and_ends_in_telemetry() -> None:
    async def test() -> None:
        server = echoing()
        heard: list[tuple[str, Any]] = []
        server.subscribe(lambda name, fields: heard.append((name, fields)))

        @server.tool
        async def wait() -> None:
            await asyncio.Event().wait()

        async with talking(server) as peer:
            await peer.text("echo", text="x")
            await peer.call("large", size=1)
            await peer.error("tools/call", {"name": "nope"})
            id = peer.ask("tools/call", {"name": "wait"})
            peer.notify("notifications/cancelled", {"requestId": id, "reason": "bored"})
            peer.say(b"rubbish")
            await peer.result("ping")
        names = [name.removeprefix("mooring.server.") for name, _ in heard]
        for kind in ("request.start", "request.stop", "connection.transition", "protocol.violation"):
            assert kind in names
        starts = [fields for name, fields in heard if name.endswith(".start")]
        assert len(starts) == 4
        stops = [fields for name, fields in heard if name.endswith(".stop")]
        assert len(stops) == 2
        assert all(fields["duration_ns"] > 0 for fields in stops)
        reasons = [fields["reason"] for name, fields in heard if name.endswith(".exception")]
        assert reasons == ["unknown tool: nope", "cancelled: bored"]
        assert all(fields["server"] == "echo" and fields["connection"] == 1 for _, fields in heard)

    run(test)


def test_a_listener_that_comes_in_the_middle_hears_the_end_without_a_duration() -> None:
    async def test() -> None:
        server = echoing()
        heard: list[Any] = []
        gate = asyncio.Event()

        @server.tool
        async def wait() -> str:
            await gate.wait()
            return "done"

        async with talking(server) as peer:
            peer.say(call("w", "wait"))
            await peer.result("ping")
            server.subscribe(lambda name, fields: heard.append((name, fields)))
            peer.say(call("x", text="x"))
            gate.set()
            await peer.answer("w")
            await peer.answer("x")
        assert [name for name, _ in heard if "request" in name].count("mooring.server.request.start") == 1

    run(test)


def test_a_stray_response_is_only_counted() -> None:
    async def test() -> None:
        async with talking(echoing()) as peer:
            peer.say({"jsonrpc": "2.0", "id": 99, "result": {}})
            peer.notify("notifications/roots/list_changed")
            assert await peer.result("ping") == {}

    run(test)


def test_stateless_meta_is_wanted_of_every_request() -> None:
    async def test() -> None:
        async with talking(echoing(), STATELESS) as peer:
            await peer.text("echo", text="x")
            peer.say(call("bare", text="x"))
            assert (await peer.answer("bare"))["error"]["code"] == -32602
            assert meta()["io.modelcontextprotocol/protocolVersion"] == STATELESS

    run(test)
