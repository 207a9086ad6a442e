"""The head of a request is bounded, in bytes and in time, on a real connection."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from mooring.server.http import _head
from mooring.server.http._head import BoundedProtocol, bounded
from scripted.connection import GET, LIMIT, mirror, mirrored, status, talked


def test_usual_requests_are_served_one_after_another_and_pipelined() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            writer.write(GET + b"\r\n")
            assert await status(reader) == b"200"
        writer.write((GET + b"\r\n") * 3)
        assert [await status(reader) for _ in range(3)] == [b"200"] * 3

    talked(talk)


def test_a_head_may_come_in_pieces() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in GET + b"x-some: thing\r\n\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert await status(reader) == b"200"

    talked(talk)


@pytest.mark.parametrize(
    "head",
    [
        GET + b"x: " + b"y" * LIMIT + b"\r\n\r\n",
        GET + b"".join(b"x-%d: y\r\n" % n for n in range(500)) + b"\r\n",
        b"GET /" + b"x" * LIMIT + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ],
    ids=["value", "many", "url"],
)
def test_a_head_over_the_limit_is_refused(head: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        assert await status(reader) == b"431"
        assert await reader.read() == b""

    talked(talk)


def test_a_head_without_an_end_is_refused_at_the_limit() -> None:
    """It never gets to the end of a header, so only what arrives can be counted."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"x: ")
        refused = asyncio.create_task(status(reader))
        sent = 0
        while not refused.done():
            writer.write(b"y" * 512)
            await writer.drain()
            await asyncio.sleep(0.001)
            sent += 512
            assert sent < 100 * LIMIT
        assert await refused == b"431"

    talked(talk)


def test_a_body_does_not_count() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = 16 * LIMIT
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
        assert await status(reader) == b"200"

    talked(talk)


def test_a_head_that_takes_too_long_is_not_waited_for() -> None:
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

    talked(talk, timeout=0.1)


def test_a_second_head_is_timed_like_the_first() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        assert await status(reader) == b"200"
        writer.write(GET)
        assert await reader.read() == b""

    talked(talk, timeout=0.1)


def test_a_connection_that_asks_nothing_is_closed() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""

    talked(talk, keepalive=1)


@pytest.mark.parametrize(
    "unasked",
    [
        b"\r\n",
        GET + b"\r\n\r\n",
        # A body that nobody reads: it was answered before.
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nx",
    ],
    ids=["a blank line", "a blank line after a request", "a body"],
)
def test_what_is_no_request_moves_no_clock(unasked: bytes) -> None:
    """Drop by drop for ever: uvicorn's own clock stops at the first byte of anything."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(unasked)
        if len(unasked) > 2:
            assert await status(reader) == b"200"
        ended = asyncio.create_task(reader.read())
        while not ended.done():
            writer.write(b"\r\n")
            await asyncio.wait({ended}, timeout=0.05)  # then the next drop
        try:
            assert await ended == b""
        except ConnectionResetError:
            pass  # a byte was on its way

    talked(talk, keepalive=1)


def test_a_request_after_blank_lines_has_all_its_time() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\r\n")
        await asyncio.sleep(0.01)
        for _ in range(3):
            writer.write(b"\r\n" + GET + b"\r\n")
            assert await status(reader) == b"200"

    talked(talk)


OFFERS = {
    "h2c": b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAA\r\n",
    "websocket": b"upgrade: websocket\r\nConnection: keep-alive,upgrade\r\nsec-websocket-key: eA==\r\n",
    "several": b"connection: upgrade\r\nconnection: foo\r\nupgrade: h2c, websocket, HTTP/3.0\r\n",
}


@pytest.mark.parametrize("offer", OFFERS)
def test_an_offer_of_another_protocol_is_declined_and_the_request_served_whole(offer: str) -> None:
    """RFC 9110, 7.8: the body belongs to the request; so does what comes after it on the connection."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"POST /x HTTP/1.1\r\nhost: localhost\r\n" + OFFERS[offer]
        whole = head + b"content-length: 5\r\n\r\nhello"
        chunked = head + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        get = b"GET / HTTP/1.1\r\nhost: localhost\r\n" + OFFERS[offer] + b"\r\n"
        writer.write(whole + chunked + get + GET + b"\r\n")  # pipelined
        for said in (b"POST 0 hello", b"POST 0 hello", b"GET 0 ", b"GET 0 "):
            assert (await mirrored(reader))[1] == said
        for byte in whole:  # and in pieces
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await mirrored(reader))[1] == b"POST 0 hello"

    talked(talk, app=mirror)


def test_an_offer_and_a_close_are_declined_and_closed() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"connection: close, Upgrade\r\nupgrade: h2c\r\n\r\n" + GET + b"\r\n")
        head, said = await mirrored(reader)
        assert b"connection: close" in head
        assert said == b"GET 0 "
        assert await reader.read() == b""

    talked(talk, app=mirror)


@pytest.mark.parametrize("target", [b"localhost:1", b"/x"])
def test_a_tunnel_is_refused(target: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"CONNECT %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % target)
        assert await status(reader) == b"400"

    talked(talk)


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

    class Told(BoundedProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    monkeypatch.setattr(_head, "BoundedProtocol", Told)
    return lost


def test_a_response_that_was_cut_short_is_not_waited_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its reader may never take what was written before: the connection is reset."""
    monkeypatch.setattr(_head, "STUCK_SECONDS", 0.05)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        writer.transport.pause_reading()  # what came is not taken
        await lost.wait()

    lost = losses(monkeypatch)
    with caplog.at_level(logging.CRITICAL, "uvicorn.error"):  # it minds what the app does
        talked(talk, app=cut)


def test_a_client_that_takes_nothing_for_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it was told is held here until it is read: not for ever."""
    monkeypatch.setattr(_head, "STUCK_SECONDS", 0.02)
    monkeypatch.setattr(_head, "STALLED_SECONDS", 0.2)
    lost = losses(monkeypatch)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        writer.transport.pause_reading()
        await lost.wait()

    talked(talk, app=whole)


def test_a_whole_response_may_be_read_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the connection is closed after it."""
    monkeypatch.setattr(_head, "STUCK_SECONDS", 0.01)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"connection: close\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.2)  # some twenty looks
        assert len(await reader.read()) == LARGE

    talked(talk, app=whole)


def test_what_is_no_http_is_told_so() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x16\x03\x01\x02\x00\r\n\r\n")
        assert await status(reader) == b"400"

    talked(talk)


@pytest.mark.parametrize(
    "request_",
    [
        # Two lengths, a length beside chunks, a length that is none, a line end that is none, a space before the colon.
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: +1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length : 1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nhost: x\r\nx: a\rb\r\n\r\n",
    ],
)
def test_a_request_that_two_servers_could_read_differently_is_refused(request_: bytes) -> None:
    """Request smuggling begins with a length that is said twice (RFC 9112, 6.3 and 11.2)."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request_)
        assert await status(reader) == b"400"
        assert b"HTTP/1.1 200" not in await reader.read()

    talked(talk)


def test_every_limit_has_a_class_of_its_own() -> None:
    one, other = bounded(1000, 1.0), bounded(2000, 2.0)
    assert (one.max_head_bytes, other.max_head_bytes) == (1000, 2000)
    assert BoundedProtocol.max_head_bytes == 65_536
