"""The driver: a client that reads slowly is waited for, and the end is bounded whatever the client and its handlers do."""

import asyncio
import json
import threading
from typing import Any

import pytest
import uvloop

from chaos.servers_own.conversation import GUARD, Peer, run, talking
from jackstay.errors import McpError, ProtocolError, TransportError
from jackstay.protocol.server import events as e
from jackstay.server import Server
from jackstay.server import _connection as driver
from jackstay.server._connection import Connection
from jackstay.transport import memory_pair
from scripted.echoing import INITIALIZE, call, echoing

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


def test_of_notices_that_all_differ_only_so_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that passes on what another says does not decide how much that is."""
    monkeypatch.setattr(driver, "MOST_NOTICE_BYTES", 20)

    async def test() -> None:
        server = echoing()
        async with talking(server) as peer:
            connection = await filled(peer, server)
            for number in range(5):
                connection.notify("notifications/of/its/own", b'{"n":%d}' % number)
            assert connection.dropped == 3
            peer.is_reading = True
            peer.frames_arrived()
            for _ in range(2):
                await peer.note("notifications/of/its/own")
            connection.notify("notifications/of/its/own", b'{"n":5}')
            await peer.note("notifications/of/its/own")

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


def test_a_lost_stream_is_the_end_of_the_client_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        server = echoing()
        pair = memory_pair()
        serving = asyncio.create_task(server.serve(pair.server))
        peer = Peer()
        peer.transport = await pair.client.open(peer, 1 << 25, 1.0)
        await peer.initialize()
        (connection,) = server._connections.values()
        connection._receive(ProtocolError("not a header", quote="secret"))
        connection.went_down(ProtocolError("not a header"), None, False)
        await serving
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
            f"connection {connection.number}: the stream is lost: not a header"
        ]

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

    def stop_writing(self) -> None:
        raise AssertionError("its last answers are flushed first, and `close()` stops it")

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


def test_a_frame_that_cannot_be_handled_is_the_end_and_never_a_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A defect, of ours or of who serves: the client sees the end, which it knows what to do with."""

    async def test() -> None:
        server = echoing()

        def fail(*_: object) -> None:
            raise RuntimeError("a defect")

        monkeypatch.setattr(server.handlers, "notified", fail)
        async with talking(server) as peer:
            await peer.result("ping")
            peer.notify("notifications/roots/list_changed")
            await peer.ended()
        assert "a frame could not be handled" in caplog.text

    run(test)


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_a_drain_that_is_due_at_once_ends_the_connection_on_both_loops(loop: Any) -> None:
    """uvloop's handle has no `when()` for what is due in less than half a millisecond."""

    async def test() -> None:
        for timeout in (0.0001, 0.0003, 0.001):
            server = echoing(drain_timeout=timeout)

            @server.tool
            async def wait() -> None:
                await asyncio.Event().wait()

            async with talking(server) as peer:
                peer.say(call("hangs", "wait"))
                (connection,) = server._connections.values()
                async with asyncio.timeout(GUARD):
                    while not connection.core.in_flight:
                        await asyncio.sleep(0)
                    connection.drain()
                    connection.notify("notifications/message", b'{"level":"info","data":1}')
                    await connection.closed.wait()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(test())


def test_a_step_that_raises_loses_no_other_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        server = echoing()
        async with talking(server) as peer:
            (connection,) = server._connections.values()
            step, seen = connection.core.step, []

            def raise_first(event: e.Event, now: float) -> e.Effects:
                seen.append(event)
                if len(seen) == 1:
                    raise ZeroDivisionError
                return step(event, now)

            events = [
                e.Notified("notifications/message", b'{"level":"info","data":%d}' % n, None) for n in range(3)
            ]
            monkeypatch.setattr(type(connection.core), "step", lambda self, *given: raise_first(*given))
            connection._later += events
            with pytest.raises(ZeroDivisionError):
                connection._work_off()
            assert [(await peer.note("notifications/message"))["data"] for _ in range(2)] == [1, 2]

    run(test)
