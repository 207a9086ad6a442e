"""The limits of a request head in bytes and time, on a real connection."""

import asyncio

import pytest

from scripted.connection import GET, LIMIT, mirror, mirrored, status, talked


def test_requests_are_served_one_by_one_and_pipelined() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            writer.write(GET + b"\r\n")
            assert await status(reader) == b"200"
        writer.write((GET + b"\r\n") * 3)
        assert [await status(reader) for _ in range(3)] == [b"200"] * 3

    talked(talk)


def test_a_head_may_arrive_byte_by_byte() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in GET + b"x-some: thing\r\n\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert await status(reader) == b"200"

    talked(talk)


def test_a_head_above_the_limit_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[bytes] = [
        GET + b"x: " + b"y" * LIMIT + b"\r\n\r\n",
        GET + b"".join(b"x-%d: y\r\n" % n for n in range(500)) + b"\r\n",
        b"GET /" + b"x" * LIMIT + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ]
    for head in cases:
        with subtests.test(head=head):

            async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes = head) -> None:
                writer.write(head)
                assert await status(reader) == b"431"
                assert await reader.read() == b""

            talked(talk)


def test_a_head_without_an_end_is_refused_at_the_limit() -> None:
    """No header is ever complete, so only received bytes can be counted."""

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


def test_a_body_is_not_counted() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = 16 * LIMIT
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
        assert await status(reader) == b"200"

    talked(talk)


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        GET + b"\r\n\r\n",
    ],
    ids=["a blank line", "a blank line after a request"],
)
def test_blank_lines_do_not_reset_the_timer(data: bytes) -> None:
    """uvicorn's own timer stops at the first byte of anything, even if the bytes trickle in forever."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        if len(data) > 2:
            assert await status(reader) == b"200"
        ended = asyncio.create_task(reader.read())
        while not ended.done():
            writer.write(b"\r\n")
            await asyncio.wait({ended}, timeout=0.05)  # then the next bytes
        try:
            assert await ended == b""
        except ConnectionResetError:
            pass  # bytes were still in flight

    talked(talk, keepalive=1)


def test_a_request_after_blank_lines_is_served() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\r\n")
        await writer.drain()
        for _ in range(3):
            writer.write(b"\r\n" + GET + b"\r\n")
            assert await status(reader) == b"200"

    talked(talk)


UPGRADES = {
    "h2c": b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAA\r\n",
    "websocket": b"upgrade: websocket\r\nConnection: keep-alive,upgrade\r\nsec-websocket-key: eA==\r\n",
    "several": b"connection: upgrade\r\nconnection: foo\r\nupgrade: h2c, websocket, HTTP/3.0\r\n",
}


def test_an_upgrade_is_declined_and_the_request_served(subtests: pytest.Subtests) -> None:
    """RFC 9110 section 7.8: the body belongs to the request, and further requests may follow on the connection."""
    for name, headers in UPGRADES.items():
        with subtests.test(upgrade=name):

            async def talk(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: bytes = headers
            ) -> None:
                head = b"POST /x HTTP/1.1\r\nhost: localhost\r\n" + headers
                whole = head + b"content-length: 5\r\n\r\nhello"
                chunked = head + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                get = b"GET / HTTP/1.1\r\nhost: localhost\r\n" + headers + b"\r\n"
                writer.write(whole + chunked + get + GET + b"\r\n")  # pipelined
                for body in (b"POST 0 hello", b"POST 0 hello", b"GET 0 ", b"GET 0 "):
                    assert (await mirrored(reader))[1] == body
                for byte in whole:  # and in pieces
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0)
                assert (await mirrored(reader))[1] == b"POST 0 hello"

            talked(talk, app=mirror)


def test_an_upgrade_with_close_is_declined_and_closed() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"connection: close, Upgrade\r\nupgrade: h2c\r\n\r\n" + GET + b"\r\n")
        head, body = await mirrored(reader)
        assert b"connection: close" in head
        assert body == b"GET 0 "
        assert await reader.read() == b""

    talked(talk, app=mirror)


def test_connect_is_refused(subtests: pytest.Subtests) -> None:
    for target in (b"localhost:1", b"/x"):
        with subtests.test(target=target):

            async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: bytes = target) -> None:
                writer.write(b"CONNECT %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % target)
                assert await status(reader) == b"400"

            talked(talk)


def test_invalid_http_gets_400() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x16\x03\x01\x02\x00\r\n\r\n")
        assert await status(reader) == b"400"

    talked(talk)


def test_an_ambiguous_request_is_refused(subtests: pytest.Subtests) -> None:
    """Request smuggling relies on requests that two servers parse differently (RFC 9112 sections 6.3 and 11.2)."""
    cases: list[bytes] = [
        # Two lengths, a length beside chunks, a length that is none, a line end that is none, a space before the colon.
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: +1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length : 1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nhost: x\r\nx: a\rb\r\n\r\n",
    ]
    for request_ in cases:
        with subtests.test(request_=request_):

            async def talk(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request_: bytes = request_
            ) -> None:
                writer.write(request_)
                assert await status(reader) == b"400"
                assert b"HTTP/1.1 200" not in await reader.read()

            talked(talk)
