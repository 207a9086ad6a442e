"""Trailers on a real connection: they never become headers, and have the size limit of a head."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from jackstay.server.http import _http1
from scripted.connection import GET, LIMIT, mirror, mirrored, status, talked

POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
BODY = b"5\r\nhello\r\n0\r\n"


async def names(scope: dict, receive: Callable, send: Callable) -> None:
    """Respond with the names of all headers, as they are after the body was read."""
    while (await receive()).get("more_body", False):
        pass
    text = b" ".join(sorted(name for name, _ in scope["headers"]))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
    await send({"type": "http.response.body", "body": text})


async def refusing(scope: dict, receive: Callable, send: Callable) -> None:
    """Respond before the body is read, as the endpoint does to a request without credentials."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


def test_a_trailer_is_not_a_header(subtests: pytest.Subtests) -> None:
    for pieces in (1, 2, 1000):
        with subtests.test(pieces=pieces):
            request = POST + BODY + b"authorization: Bearer x\r\nmcp-method: tools/call\r\nhost: evil\r\n\r\n"

            async def talk(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                request: bytes = request,
                pieces: int = pieces,
            ) -> None:
                size = -(-len(request) // pieces)
                for start in range(0, len(request), size):
                    writer.write(request[start : start + size])
                    await asyncio.sleep(0)
                assert (await mirrored(reader))[1] == b"host transfer-encoding"
                writer.write(GET + b"x-after: y\r\n\r\n")  # and the next request has its own headers
                assert (await mirrored(reader))[1] == b"host x-after"

            talked(talk, app=names)


def test_trailers_up_to_the_limit_are_ignored() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):  # each request has the whole limit
            writer.write(POST + BODY + b"x: " + b"y" * (LIMIT - 100) + b"\r\n\r\n")
            assert (await mirrored(reader))[1] == b"POST 0 hello"

    talked(talk, app=mirror)


def test_trailers_above_the_limit_are_refused_and_the_request_does_not_run(subtests: pytest.Subtests) -> None:
    for trailer in (b"a: b\r\n", b"x: " + b"y" * 1000 + b"\r\n"):
        with subtests.test(trailer=trailer):

            async def talk(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trailer: bytes = trailer
            ) -> None:
                writer.write(POST + BODY + trailer * (2 * LIMIT // len(trailer)) + b"\r\n")
                assert await status(reader) == b"431"
                assert await reader.read() == b""

            talked(talk, app=mirror)


@pytest.mark.parametrize(
    "start",
    [BODY + b"x: ", BODY + b"x", b"5\r\nhello\r\n0;ext=", b"5;ext="],
    ids=["value", "name", "last", "ext"],
)
@pytest.mark.parametrize("app", [mirror, refusing], ids=["waiting", "refused"])
def test_an_endless_trailer_is_refused_at_the_limit(start: bytes, app: Callable) -> None:
    """The parser reports no complete field, and chunk extensions never: only bytes can be counted."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST + start)
        ended = asyncio.create_task(reader.read())
        sent = 0
        while not ended.done():
            writer.write(b"y" * 512)
            await asyncio.wait({ended}, timeout=0.001)
            sent += 512
            assert sent < 1000 * LIMIT
        try:
            answer = await ended
        except ConnectionResetError:
            return  # bytes were still in flight
        assert answer.count(b"HTTP/1.1 ") <= 1
        assert answer[:12] in (b"", b"HTTP/1.1 431" if app is mirror else b"HTTP/1.1 401")

    talked(talk, app=app, timeout=60, keepalive=60)


def test_a_body_in_small_chunks_is_not_counted() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(POST)
        for _ in range(LIMIT // 4):
            writer.write(b"1\r\nx\r\n")
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")
        assert (await mirrored(reader))[1] == b"POST 0 " + b"x" * (LIMIT // 4)

    talked(talk, app=mirror)


# --- pipelined requests
# ------------------------------------------------------------------------------------------------


def posted(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def test_the_start_of_the_next_request_does_not_refuse_the_one_before() -> None:
    """A body far above the limit of heads, and the first bytes of the next request, in one read."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b"x" * (8 * LIMIT)
        writer.write(posted(body) + GET[:20])
        assert (await mirrored(reader))[1] == b"POST 0 " + body
        writer.write(GET[20:] + b"\r\n")
        assert (await mirrored(reader))[1] == b"GET 0 "

    talked(talk, app=mirror)


def test_many_small_requests_and_the_start_of_another_are_served() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count = 3 * LIMIT // len(GET)
        writer.write((GET + b"\r\n") * count + GET[:20])
        assert [await status(reader) for _ in range(count)] == [b"200"] * count
        writer.write(GET[20:] + b"\r\n")
        assert await status(reader) == b"200"

    talked(talk)


INVALID = {
    "no http": b"\x00\x01\r\n\r\n",
    "a long head": GET + b"x: " + b"y" * LIMIT + b"\r\n\r\n",
    "a long head in pieces": GET + b"x: " + b"y" * (2 * LIMIT),
    "a bad chunk": POST + b"zz\r\n",
    "a long trailer": POST + BODY + b"x: " + b"y" * LIMIT + b"\r\n\r\n",
    "an endless trailer": POST + BODY + b"x: " + b"y" * (2 * LIMIT),
}


@pytest.mark.parametrize("case", INVALID)
@pytest.mark.parametrize("requests", [1, 3])
def test_an_error_after_a_request_is_not_its_response(case: str, requests: int) -> None:
    """Each earlier request gets its own response before the connection ends: an error would be read as its response."""
    may_answer = asyncio.Event()

    async def slow(scope: dict, receive: Callable, send: Callable) -> None:
        await may_answer.wait()
        await mirror(scope, receive, send)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(posted(b"hello") * requests)
        for start in range(0, len(INVALID[case]), 512):
            writer.write(INVALID[case][start : start + 512])
            await asyncio.sleep(0)
        may_answer.set()
        for _ in range(requests):
            assert (await mirrored(reader))[1] == b"POST 0 hello"
        try:
            rest = await reader.read()
        except ConnectionResetError:
            rest = b""  # closed while bytes were still in flight
        assert b"200" not in rest
        assert rest[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431")

    talked(talk, app=slow)


def test_a_slow_head_does_not_end_the_request_before_it() -> None:
    may_answer = asyncio.Event()

    async def slow(scope: dict, receive: Callable, send: Callable) -> None:
        await may_answer.wait()
        await mirror(scope, receive, send)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(posted(b"hello") + GET)
        asyncio.get_running_loop().call_later(0.5, may_answer.set)  # after the timeout of the head
        assert (await mirrored(reader))[1] == b"POST 0 hello"
        assert await reader.read() == b""

    talked(talk, app=slow, timeout=0.1)


def test_a_flood_of_upgrades_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    upgrade = GET + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(upgrade * 800)
        try:
            answers = await reader.read()
        except ConnectionResetError:
            return  # closed while requests were still in flight
        assert b"HTTP/1.1 5" not in answers
        assert 0 < answers.count(b"HTTP/1.1 200") <= 800

    with caplog.at_level(logging.DEBUG):
        talked(talk)
    assert sum(len(record.getMessage()) for record in caplog.records) < 10_000
    assert not any(record.exc_info for record in caplog.records)


def test_any_number_of_single_upgrades_is_declined() -> None:
    upgrade = GET + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(4 * _http1.MAX_DECLINED):
            writer.write(upgrade)
            assert await status(reader) == b"200"

    talked(talk)
