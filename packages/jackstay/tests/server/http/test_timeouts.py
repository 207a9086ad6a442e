"""The timeouts of a real connection, with both parsers."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from jackstay.server.http import _timeouts
from jackstay.server.http._uvicorn import make_h11_protocol
from scripted.connection import GET, status, talked


@pytest.fixture(params=[None, make_h11_protocol], ids=["httptools", "h11"])
def protocol(request: pytest.FixtureRequest) -> Any:
    """Return the `protocol` argument of `talked()`."""
    return request.param


def test_a_slow_head_closes_the_connection(protocol: Any) -> None:
    """The client sends one byte at a time, forever."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET)
        ended = asyncio.create_task(reader.read())
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait({ended}, timeout=0.01)  # then the next byte
        try:
            assert await ended == b""
        except ConnectionResetError:
            pass  # a byte was still in flight

    talked(talk, protocol=protocol, timeout=0.1)


def test_the_timeout_applies_to_later_heads(protocol: Any) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        assert await status(reader) == b"200"
        writer.write(GET)
        assert await reader.read() == b""

    talked(talk, protocol=protocol, timeout=0.1)


def test_a_connection_without_a_request_is_closed(protocol: Any) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""

    talked(talk, protocol=protocol, keepalive=1)


def test_an_unread_body_does_not_reset_the_timer(protocol: Any) -> None:
    """uvicorn's own timer stops at the first byte of anything, even if the bytes trickle in forever."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\nx")
        assert await status(reader) == b"200"  # the response precedes the body
        ended = asyncio.create_task(reader.read())
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait({ended}, timeout=0.05)  # then the next byte
        try:
            assert await ended == b""
        except ConnectionResetError:
            pass  # a byte was still in flight

    talked(talk, protocol=protocol, keepalive=1)


LARGE = 16 * 1024 * 1024  # more than the system buffers for a connection


async def aborting(scope: dict, receive: Callable, send: Callable) -> None:
    """Send a large part of a response and return without ending it."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * LARGE, "more_body": True})


async def whole(scope: dict, receive: Callable, send: Callable) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})
    await send({"type": "http.response.body", "body": b"x" * LARGE})


def losses(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Return an event that is set when a connection is lost."""
    lost = asyncio.Event()
    connection_lost = _timeouts.TimeoutMixin.connection_lost

    def recorded(self: _timeouts.TimeoutMixin, exc: Exception | None) -> None:
        connection_lost(self, exc)
        lost.set()

    monkeypatch.setattr(_timeouts.TimeoutMixin, "connection_lost", recorded)
    return lost


def test_an_aborted_response_resets_the_connection(
    protocol: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client may never read what was written before."""
    monkeypatch.setattr(_timeouts, "STALL_CHECK_INTERVAL", 0.05)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        writer.transport.pause_reading()
        await lost.wait()

    lost = losses(monkeypatch)
    with caplog.at_level(logging.CRITICAL, "uvicorn.error"):  # uvicorn logs the incomplete response
        talked(talk, protocol=protocol, app=aborting)


def test_a_client_that_reads_nothing_is_disconnected(protocol: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response must not stay in memory forever."""
    monkeypatch.setattr(_timeouts, "STALL_CHECK_INTERVAL", 0.02)
    monkeypatch.setattr(_timeouts, "STALL_TIMEOUT", 0.2)
    lost = losses(monkeypatch)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        writer.transport.pause_reading()
        await lost.wait()

    talked(talk, protocol=protocol, app=whole)


def test_a_complete_response_may_be_read_slowly(protocol: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the connection is closed after it."""
    monkeypatch.setattr(_timeouts, "STALL_CHECK_INTERVAL", 0.01)
    checks = 0
    checked_often = asyncio.Event()
    check_stalled = _timeouts.TimeoutMixin._check_stalled

    def counted(self: _timeouts.TimeoutMixin) -> None:
        nonlocal checks
        check_stalled(self)
        checks += 1
        if checks == 10:
            checked_often.set()

    monkeypatch.setattr(_timeouts.TimeoutMixin, "_check_stalled", counted)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"connection: close\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await checked_often.wait()
        assert len(await reader.read()) == LARGE

    talked(talk, protocol=protocol, app=whole)
