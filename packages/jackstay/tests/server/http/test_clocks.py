"""The clocks of a connection, on a real one and with both parsers: what a client owes, and what it must take."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

import pytest

from jackstay.server.http import _clocks
from jackstay.server.http._h11 import timed
from jackstay.server.http._head import bounded
from scripted.connection import GET, LIMIT, status, talked

Make: TypeAlias = Callable[[float], type[asyncio.Protocol]]


@pytest.fixture(params=["httptools", "h11"])
def protocol(request: pytest.FixtureRequest) -> Make:
    """Makes the class for a time that heads may take."""
    return timed if request.param == "h11" else lambda timeout: bounded(LIMIT, timeout)


def test_a_head_that_takes_too_long_is_not_waited_for(protocol: Make) -> None:
    """One byte at a time for ever: the connection is closed."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET)
        ended = asyncio.create_task(reader.read())
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait({ended}, timeout=0.01)  # then the next drop
        try:
            assert await ended == b""
        except ConnectionResetError:
            pass  # a byte was on its way

    talked(talk, protocol=protocol, timeout=0.1)


def test_a_second_head_is_timed_like_the_first(protocol: Make) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        assert await status(reader) == b"200"
        writer.write(GET)
        assert await reader.read() == b""

    talked(talk, protocol=protocol, timeout=0.1)


def test_a_connection_that_asks_nothing_is_closed(protocol: Make) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""

    talked(talk, protocol=protocol, keepalive=1)


def test_a_body_that_nobody_reads_moves_no_clock(protocol: Make) -> None:
    """Drop by drop for ever: uvicorn's own clock stops at the first byte of anything."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\nx")
        assert await status(reader) == b"200"  # it was answered before
        ended = asyncio.create_task(reader.read())
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait({ended}, timeout=0.05)  # then the next drop
        try:
            assert await ended == b""
        except ConnectionResetError:
            pass  # a byte was on its way

    talked(talk, protocol=protocol, keepalive=1)


LARGE = 16 * 1024 * 1024  # more than the system holds for a connection


async def cut(scope: dict, receive: Callable, send: Callable) -> None:
    """Says much, and returns in the middle of it."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * LARGE, "more_body": True})


async def whole(scope: dict, receive: Callable, send: Callable) -> None:
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]}
    )
    await send({"type": "http.response.body", "body": b"x" * LARGE})


def losses(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a connection is lost."""
    lost = asyncio.Event()
    lose = _clocks.Clocks.connection_lost

    def told(self: _clocks.Clocks, exc: Exception | None) -> None:
        lose(self, exc)
        lost.set()

    monkeypatch.setattr(_clocks.Clocks, "connection_lost", told)
    return lost


def test_a_response_that_was_cut_short_is_not_waited_out(
    protocol: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its reader may never take what was written before: the connection is reset."""
    monkeypatch.setattr(_clocks, "STUCK_SECONDS", 0.05)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        writer.transport.pause_reading()  # what came is not taken
        await lost.wait()

    lost = losses(monkeypatch)
    with caplog.at_level(logging.CRITICAL, "uvicorn.error"):  # it minds what the app does
        talked(talk, protocol=protocol, app=cut)


def test_a_client_that_takes_nothing_for_long_is_left(
    protocol: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was told is held here until it is read: not for ever."""
    monkeypatch.setattr(_clocks, "STUCK_SECONDS", 0.02)
    monkeypatch.setattr(_clocks, "STALLED_SECONDS", 0.2)
    lost = losses(monkeypatch)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        writer.transport.pause_reading()
        await lost.wait()

    talked(talk, protocol=protocol, app=whole)


def test_a_whole_response_may_be_read_slowly(protocol: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the connection is closed after it."""
    monkeypatch.setattr(_clocks, "STUCK_SECONDS", 0.01)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"connection: close\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.2)  # some twenty looks
        assert len(await reader.read()) == LARGE

    talked(talk, protocol=protocol, app=whole)
