"""The connection on h11: requests in order, and what is wrong behind a response that was sent."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from jackstay.server.http._h11 import TimedH11, timed
from scripted.connection import GET, LIMIT, mirror, mirrored, status, talked

POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


async def refusing(scope: dict, receive: Callable, send: Callable) -> None:
    """Respond before the body is read."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


def test_requests_are_served_one_after_another_in_pieces_and_pipelined() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in GET + b"x: y\r\n\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert await status(reader) == b"200"
        writer.write((GET + b"\r\n") * 3)
        assert [await status(reader) for _ in range(3)] == [b"200"] * 3

    talked(talk, protocol=timed)


def test_a_body_in_pieces_may_take_longer_than_a_head() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST + b"5\r\nhel")
        await asyncio.sleep(0.3)
        writer.write(b"lo\r\n0\r\n\r\n")
        assert (await mirrored(reader))[1] == b"POST 0 hello"

    talked(talk, app=mirror, protocol=timed, timeout=0.1)


def test_an_error_in_a_body_that_was_refused_closes_without_a_second_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST)
        assert await status(reader) == b"401"
        writer.write(b"zz\r\n")
        assert await reader.read() == b""

    with caplog.at_level(logging.DEBUG):
        talked(talk, app=refusing, protocol=timed)
    assert not any(record.exc_info for record in caplog.records)


def test_an_error_before_a_response_is_a_400() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST + b"zz\r\n")
        assert await status(reader) == b"400"

    talked(talk, app=mirror, protocol=timed)


def test_a_head_over_the_limit_is_refused() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"x: " + b"y" * (2 * LIMIT))
        assert await status(reader) in (b"400", b"431")

    talked(talk, protocol=timed)


def test_every_limit_has_a_class_of_its_own() -> None:
    assert (timed(1.0).head_timeout, timed(2.0).head_timeout, TimedH11.head_timeout) == (1.0, 2.0, 10.0)
