"""The head of a request is bounded, in bytes and in time, on a real connection."""

import asyncio

import pytest

from jackstay.server.http._head import BoundedProtocol, bounded
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


@pytest.mark.parametrize(
    "unasked",
    [
        b"\r\n",
        GET + b"\r\n\r\n",
    ],
    ids=["a blank line", "a blank line after a request"],
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
