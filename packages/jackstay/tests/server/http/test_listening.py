"""`Http1Server`: starting, stopping, and the connections that are open meanwhile."""

import asyncio
from collections.abc import Callable

import pytest

from jackstay.server.http._listening import Http1Server
from jackstay.server.http._sockets import bind_sockets, port_of
from scripted.connection import GET, hello, status


def test_a_server_that_was_stopped_before_it_serves_is_never_ready() -> None:
    async def test() -> None:
        ready: list[bool] = []
        server = Http1Server(hello, on_ready=lambda: ready.append(True))
        server.stop()
        await server.serve(bind_sockets("127.0.0.1", 0))
        assert ready == []

    asyncio.run(test())


def test_a_shutdown_closes_idle_connections_and_completes_responses() -> None:
    async def test() -> None:
        started, may_end = asyncio.Event(), asyncio.Event()

        async def app(scope: dict, receive: Callable, send: Callable) -> None:
            if scope["path"] == "/slow":
                started.set()
                await may_end.wait()
            await hello(scope, receive, send)

        sockets = bind_sockets("127.0.0.1", 0)
        server = Http1Server(app, shutdown_timeout=60.0)
        serving = asyncio.create_task(server.serve(sockets))
        idle, idle_writer = await asyncio.open_connection("127.0.0.1", port_of(sockets))
        idle_writer.write(GET + b"\r\n")
        assert await status(idle) == b"200"
        busy, busy_writer = await asyncio.open_connection("127.0.0.1", port_of(sockets))
        busy_writer.write(GET.replace(b" / ", b" /slow ") + b"\r\n")
        await started.wait()
        assert "2 connections, 1 requests" in repr(server)
        server.stop()
        assert await idle.read() == b""
        assert not serving.done()
        may_end.set()
        assert b"\r\nconnection: close\r\n" in await busy.read()
        await serving
        assert not server.connections
        assert not server.exchanges
        for writer in (idle_writer, busy_writer):
            writer.close()

    asyncio.run(test())


def test_after_the_timeout_requests_are_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        started = asyncio.Event()
        ended: list[str] = []

        async def app(scope: dict, receive: Callable, send: Callable) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        sockets = bind_sockets("127.0.0.1", 0)
        server = Http1Server(app, shutdown_timeout=0.01)
        serving = asyncio.create_task(server.serve(sockets))
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(sockets))
        writer.write(GET + b"\r\n")
        await started.wait()
        server.stop()
        await serving
        assert await reader.read() == b""
        assert ended == ["cancelled"]
        writer.close()

    asyncio.run(test())
    assert "cancelling 1 requests" in caplog.text


def test_ticks_report_what_another_thread_did() -> None:
    async def test() -> None:
        ticked = asyncio.Event()
        server = Http1Server(hello, on_tick=ticked.set)
        serving = asyncio.create_task(server.serve(bind_sockets("127.0.0.1", 0)))
        await ticked.wait()
        server.stop()
        await serving

    asyncio.run(test())
