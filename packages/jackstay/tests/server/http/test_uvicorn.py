"""The connection on h11: pipelined requests, errors after a response was sent; and the logs of uvicorn."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterator

import pytest

from jackstay.server.http._uvicorn import Access, Errors, TimedH11, make_h11_protocol, redirected
from scripted.connection import GET, LIMIT, mirror, mirrored, status, talked

POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


async def refusing(scope: dict, receive: Callable, send: Callable) -> None:
    """Respond before the body is read."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


def test_requests_are_served_byte_by_byte_and_pipelined() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in GET + b"x: y\r\n\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert await status(reader) == b"200"
        writer.write((GET + b"\r\n") * 3)
        assert [await status(reader) for _ in range(3)] == [b"200"] * 3

    talked(talk, protocol=make_h11_protocol)


def test_the_timeout_of_heads_does_not_apply_to_bodies() -> None:
    protocols: list[TimedH11] = []

    def make(timeout: float) -> type[TimedH11]:
        class Recorded(make_h11_protocol(timeout)):  # type: ignore[misc]  # a class made at run time
            def data_received(self, data: bytes) -> None:
                super().data_received(data)
                protocols.append(self)
                received.set()

        return Recorded

    received = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST + b"5\r\nhel")
        await received.wait()
        assert protocols[-1]._deadline == math.inf
        writer.write(b"lo\r\n0\r\n\r\n")
        assert (await mirrored(reader))[1] == b"POST 0 hello"

    talked(talk, app=mirror, protocol=make)


def test_an_error_in_a_body_that_was_refused_closes_without_a_second_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST)
        assert await status(reader) == b"401"
        writer.write(b"zz\r\n")
        assert await reader.read() == b""

    with caplog.at_level(logging.DEBUG):
        talked(talk, app=refusing, protocol=make_h11_protocol)
    assert not any(record.exc_info for record in caplog.records)


def test_an_error_before_a_response_is_a_400() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST + b"zz\r\n")
        assert await status(reader) == b"400"

    talked(talk, app=mirror, protocol=make_h11_protocol)


def test_a_head_above_the_limit_is_refused() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"x: " + b"y" * (2 * LIMIT))
        assert await status(reader) in (b"400", b"431")

    talked(talk, protocol=make_h11_protocol)


def test_every_limit_has_a_class_of_its_own() -> None:
    assert [make_h11_protocol(timeout).head_timeout for timeout in (1.0, 2.0)] == [1.0, 2.0]
    assert TimedH11.head_timeout == 10.0


# --- logs -------------------------------------------------------------------------------------------------------------


ERRORS, ACCESS = logging.getLogger("uvicorn.error"), logging.getLogger("uvicorn.access")


@contextlib.contextmanager
def uvicorn_logs() -> Iterator[None]:
    with redirected("uvicorn.error", Errors()), redirected("uvicorn.access", Access()):
        yield


def test_errors_stay_errors_and_the_rest_is_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "jackstay"), uvicorn_logs():
        ERRORS.info("Started server process [%d]", 7)
        ERRORS.warning("Invalid HTTP request received.")
        try:
            raise ValueError("x")
        except ValueError:
            ERRORS.exception("Exception in ASGI application")
    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("jackstay.server.http", "DEBUG"),
        ("jackstay.server.http", "DEBUG"),
        ("jackstay.server.http", "ERROR"),
    ]
    assert "Started server process [7]" in caplog.text
    assert "ValueError: x" in caplog.text


def test_messages_below_the_level_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "jackstay"), uvicorn_logs():
        ERRORS.info("Started server process [%d]", 7)
    assert caplog.records == []


def test_an_access_line_has_no_query(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "jackstay"), uvicorn_logs():
        ACCESS.info('%s - "%s %s HTTP/%s" %d', "1.2.3.4:5", "GET", "/mcp?access_token=secret", "1.1", 401)
    assert [record.getMessage() for record in caplog.records] == ["1.2.3.4:5 GET /mcp 401"]


def test_the_loggers_are_restored() -> None:
    before = [(logger.handlers, logger.propagate, logger.level) for logger in (ERRORS, ACCESS)]
    with uvicorn_logs():
        assert not ERRORS.propagate
    assert [(logger.handlers, logger.propagate, logger.level) for logger in (ERRORS, ACCESS)] == before
