"""Connections with slow clients, and closing, which is bounded in time whatever the client and handlers do."""

import asyncio
import json
import threading
from typing import Any

import pytest
import uvloop

from chaos.servers_own.conversation import GUARD, Peer, connected
from jackstay.errors import McpError, ProtocolError, TransportError
from jackstay.protocol.server import events as e
from jackstay.server import Server
from jackstay.server import _connection as driver
from jackstay.server._connection import Connection
from jackstay.transport import memory_pair
from scripted.echoing import INITIALIZE, call, echoing

# --- slow clients -----------------------------------------------------------------------------------------------------


async def filled(peer: Peer, server: Server) -> Connection:
    """Queue responses for a client that does not read."""
    peer.is_reading = False
    (connection,) = server._connections.values()
    for number in range(12):
        peer.send(call(f"l{number}", "large", size=1 << 20))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    async with asyncio.timeout(GUARD):
        while not connection._backlog:
            await asyncio.sleep(0)
    return connection


async def test_no_requests_are_read_from_a_client_that_does_not_read() -> None:
    server = echoing()
    async with connected(server) as peer:
        connection = await filled(peer, server)
        served = connection.core.peer_requests.serial
        for number in range(50):
            peer.send(call(f"m{number}", text="x"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert connection.core.peer_requests.serial == served, "requests were read from a client that does not read"
        assert len(connection._backlog) == 1
        peer.is_reading = True
        peer.frames_arrived()
        await peer.until(lambda: len(peer.frames) >= 62)
        assert all("result" in frame for frame in peer.frames)


async def test_progress_and_logs_are_dropped_and_other_notifications_deduplicated() -> None:
    server = echoing()
    async with connected(server) as peer:
        connection = await filled(peer, server)
        for _ in range(5):
            connection.notify("notifications/message", b'{"level":"info","data":1}')
            connection.progressed(e.Progressed(1, 1, 1, 1.0))
            connection.notify("notifications/tools/list_changed", b"{}")
        assert connection.dropped == 5 + 5 + 4
        peer.is_reading = True
        peer.frames_arrived()
        await peer.notification("notifications/tools/list_changed")
        await peer.result("ping")
        assert peer.notifications == []
        connection.notify("notifications/tools/list_changed", b"{}")
        await peer.notification("notifications/tools/list_changed")


async def test_the_queue_of_different_notifications_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy does not control how many notifications its upstream sends."""
    monkeypatch.setattr(driver, "MAX_NOTIFICATION_BYTES", 20)

    server = echoing()
    async with connected(server) as peer:
        connection = await filled(peer, server)
        for number in range(5):
            connection.notify("notifications/custom", b'{"n":%d}' % number)
        assert connection.dropped == 3
        peer.is_reading = True
        peer.frames_arrived()
        for _ in range(2):
            await peer.notification("notifications/custom")
        connection.notify("notifications/custom", b'{"n":5}')
        await peer.notification("notifications/custom")


async def test_a_client_that_never_reads_does_not_keep_the_connection_open() -> None:
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


# --- closing ----------------------------------------------------------------------------------------------------------


async def test_requests_before_the_end_of_input_are_served() -> None:
    server = echoing()
    pair = memory_pair()
    serving = asyncio.create_task(server.serve(pair.server))
    peer = Peer()
    peer.transport = await pair.client.open(peer, 1 << 25, 1.0)
    peer.send(INITIALIZE)
    for number in range(200):
        peer.send(call(f"r{number}", text="x"))
    await asyncio.sleep(0)
    (connection,) = server._connections.values()
    connection.went_down(TransportError("the end"), None, False)
    await peer.until(lambda: len(peer.frames) == 201)
    assert all("result" in frame for frame in peer.frames)
    await serving


async def test_draining_rejects_new_requests_and_finishes_running_ones() -> None:
    server = echoing()
    gate = asyncio.Event()

    @server.tool
    async def wait() -> str:
        await gate.wait()
        return "done"

    async with connected(server) as peer:
        peer.send(call("w", "wait"))
        await peer.result("ping")
        calls: list[str] = []
        next(iter(server._connections.values())).on_draining = lambda: calls.append("draining")
        server.drain()
        error = await peer.error("tools/list")
        assert calls == ["draining"]
        assert error["data"]["retryable"] is True
        gate.set()
        assert (await peer.answer("w"))["result"]["content"][0]["text"] == "done"
        await peer.ended()


async def test_a_handler_that_does_not_end_is_cancelled_after_the_drain_timeout() -> None:
    server = echoing(drain_timeout=0.01)
    ended = asyncio.Event()

    @server.tool
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    async with connected(server) as peer:
        peer.send(call("w", "wait"))
        await peer.result("ping")
        server.drain()
        async with asyncio.timeout(GUARD):
            await ended.wait()


async def test_a_corrupt_stream_closes_the_connection_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = echoing()
    pair = memory_pair()
    serving = asyncio.create_task(server.serve(pair.server))
    peer = Peer()
    peer.transport = await pair.client.open(peer, 1 << 25, 1.0)
    await peer.initialize()
    (connection,) = server._connections.values()
    connection.frames_arrived(ProtocolError("not a header", quote="secret"))
    connection.went_down(ProtocolError("not a header"), None, False)
    await serving
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"connection {connection.number}: the input stream is corrupt: not a header"
    ]


class Halting:
    """A transport that is busy until a flush; the test decides when the flush ends, and with what result."""

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
        raise AssertionError("responses are never withdrawn")

    def next_frame(self) -> bytes | McpError | None:
        return None

    async def flush(self) -> bool:
        assert not self.is_closed
        self.flushing.set()
        return await self.flushed

    def stop_writing(self) -> None:
        raise AssertionError("the last responses are flushed first, then `close()` is called")

    async def close(self) -> None:
        self.is_closed = True


class HaltingTarget:
    name, is_http, init_timeout = "halting", False, 1.0

    def __init__(self, transport: Halting) -> None:
        self.transport = transport

    async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Halting:
        return self.transport


async def halted(server: Server) -> tuple[Halting, Connection, asyncio.Task[None]]:
    """A connection whose last response waits for the transport during a flush."""
    transport = Halting()
    serving = asyncio.create_task(server.serve(HaltingTarget(transport)))
    await asyncio.sleep(0)
    (connection,) = server._connections.values()
    connection.frames_arrived(json.dumps(INITIALIZE).encode())
    assert len(connection._backlog) == 1
    connection.went_down(TransportError("gone"), None, False)
    await transport.flushing.wait()
    return transport, connection, serving


async def test_the_last_response_is_flushed_before_the_transport_is_closed() -> None:
    transport, connection, serving = await halted(echoing())
    assert not transport.is_closed
    transport.has_room = True
    connection.room_made()
    assert len(transport.frames) == 1
    assert not transport.is_closed
    transport.flushed.set_result(True)
    await serving
    assert transport.is_closed


async def test_a_response_that_cannot_be_sent_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FLUSH_TIMEOUT", 2 * GUARD)

    transport, _, serving = await halted(echoing())
    transport.flushed.set_result(False)
    await serving
    assert (transport.is_closed, transport.frames) == (True, [])


async def test_a_transport_that_calls_room_made_late_is_flushed_again() -> None:
    transport, connection, serving = await halted(echoing())
    transport.flushed.set_result(True)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not transport.is_closed
    transport.has_room = True
    connection.room_made()
    await serving
    assert (transport.is_closed, len(transport.frames)) == (True, 1)


async def test_frames_that_were_not_read_before_stop_are_discarded() -> None:
    server = echoing()
    pair = memory_pair()
    serving = asyncio.create_task(server.serve(pair.server))
    peer = Peer()
    peer.transport = await pair.client.open(peer, 1 << 25, 1.0)
    await peer.initialize()
    (connection,) = server._connections.values()
    for number in range(5 * driver.FRAMES_PER_ITERATION):
        peer.send(call(number, text="x"))
    while connection._pull is None:
        await asyncio.sleep(0)
    connection.stop()
    await serving
    assert connection.core.peer_requests.serial < 5 * driver.FRAMES_PER_ITERATION
    await peer.transport.close()


async def test_the_flush_of_the_last_response_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FLUSH_TIMEOUT", 0.01)

    transport, _, serving = await halted(echoing())
    await serving
    assert transport.is_closed


async def test_cancelling_serve_closes_the_connection() -> None:
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


def test_a_thread_may_call_a_connection_after_its_loop_was_closed() -> None:
    connections: list[Connection] = []

    async def serve() -> None:
        server = echoing()
        async with connected(server) as peer:
            await peer.result("ping")
            connections.extend(server._connections.values())

    asyncio.run(serve())
    (connection,) = connections
    thread = threading.Thread(target=connection.call, args=(connection.drain,))
    thread.start()
    thread.join(120)
    assert not thread.is_alive()


async def test_an_internal_error_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client must not wait forever because of a defect."""
    server = echoing()

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(server._handlers, "notified", fail)
    async with connected(server) as peer:
        await peer.result("ping")
        peer.notify("notifications/roots/list_changed")
        await peer.ended()
    assert "internal error while handling a frame" in caplog.text


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_a_very_short_drain_timeout_works_on_both_loops(loop: Any) -> None:
    """Timer handles of uvloop have no `when()` for delays below half a millisecond."""

    async def test() -> None:
        for timeout in (0.0001, 0.0003, 0.001):
            server = echoing(drain_timeout=timeout)

            @server.tool
            async def wait() -> None:
                await asyncio.Event().wait()

            async with connected(server) as peer:
                peer.send(call("hangs", "wait"))
                (connection,) = server._connections.values()
                async with asyncio.timeout(GUARD):
                    while not connection.core.in_flight:
                        await asyncio.sleep(0)
                    connection.drain()
                    connection.notify("notifications/message", b'{"level":"info","data":1}')
                    await connection.closed.wait()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(test())


async def test_an_event_that_raises_does_not_lose_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    server = echoing()
    async with connected(server) as peer:
        (connection,) = server._connections.values()
        step, seen = connection.core.step, []

        def raise_first(event: e.Event, now: float) -> e.Effects:
            seen.append(event)
            if len(seen) == 1:
                raise ZeroDivisionError
            return step(event, now)

        events = [e.Notified("notifications/message", b'{"level":"info","data":%d}' % n, None) for n in range(3)]
        monkeypatch.setattr(type(connection.core), "step", lambda self, *arguments: raise_first(*arguments))
        connection._queued_events += events
        with pytest.raises(ZeroDivisionError):
            connection._process_events()
        assert [(await peer.notification("notifications/message"))["data"] for _ in range(2)] == [1, 2]
