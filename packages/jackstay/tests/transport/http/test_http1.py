"""The HTTP/1.1 connection against servers that send anything: what is a response, and when a connection is reused.

Whatever a server sends, a request that was written ends with its response or with an unknown outcome.
"""

import asyncio
import gzip
import select
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jackstay.errors import FrameTooLargeError, OutcomeUnknownError
from jackstay.transport.http import _pool
from jackstay.transport.http._http1 import (
    MAX_BUFFERED,
    MAX_HEADER_BYTES,
    Http1Connection,
    Http1Response,
    describe_error,
    inflater_for,
    keep_alive_timeout,
    readable,
)
from jackstay.transport.http._pool import Http1Client
from jackstay.transport.http._reading import read_body
from scripted.http import served

LIMIT = 100_000_000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def _connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(_pool, "KEEP_ALIVE", 3600.0)


@asynccontextmanager
async def opened() -> AsyncIterator[Http1Client]:
    client = Http1Client(verify=True, proxy_of=lambda _: None, connect_timeout=60)
    try:
        yield client
    finally:
        await client.close()


async def sent(client: Http1Client, url: str, body: bytes = b"x") -> Http1Response:
    response = await client.send("POST", url, [], body)
    assert isinstance(response, Http1Response)
    return response


async def exchange(client: Http1Client, url: str) -> bytes:
    return await read_body(await sent(client, url), LIMIT)


def raw(*parts: bytes, closes: bool = False) -> Callable[[Any, Any], Awaitable[None]]:
    """A script that responds with these bytes."""

    async def script(seen: Any, reply: Any) -> None:
        for part in parts:
            reply.raw(part)
        if closes:
            reply.transport.close()

    return script


INVALID_HEADS = {
    "not HTTP": b"220 mail.example ESMTP\r\n",
    "HTTP/2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64",
    "a status of letters": b"HTTP/1.1 abc OK\r\n\r\n",
    "a status of five digits": b"HTTP/1.1 20000 OK\r\n\r\n",
    "a status below 100": b"HTTP/1.1 042 OK\r\nContent-Length: 0\r\n\r\n",
    "an upgrade": b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    "an upgrade without headers": b"HTTP/1.1 101 X\r\n\r\nxx",
    "a NUL in a header": b"HTTP/1.1 200 OK\r\nA: b\x00c\r\n\r\n",
    "a name with a space": b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "a length without end": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n",
    "a header without end": b"HTTP/1.1 200 OK\r\nA: " + b"b" * MAX_HEADER_BYTES,
    "headers without end": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * (MAX_HEADER_BYTES // 6),
    "a head that is too large": b"HTTP/1.1 200 OK\r\nA: " + b"b" * MAX_HEADER_BYTES + b"\r\n\r\nbody",
    "interim responses without end": b"HTTP/1.1 103 X\r\nA: b\r\n\r\n" * (MAX_HEADER_BYTES // 20),
}
INVALID_BODIES = {
    "a size of letters": b"zz\r\nx\r\n",
    "a chunk without its line end": b"1\r\nxx\r\n",
    "a size without end": b"0" * 70 + b"f" * 40,
    "an extension without end": b"1;" + b"a" * (MAX_HEADER_BYTES + 1),
    "trailers without end": b"0\r\n" + b"A: b\r\n" * (MAX_HEADER_BYTES // 6 + 100),
    "a chunk larger than memory": b"f" * 17 + b"\r\n",
}


async def test_an_invalid_head_leaves_the_outcome_unknown(subtests: pytest.Subtests) -> None:
    """The server keeps its connection open: the client does not wait for more, and closes it."""
    for name, head in INVALID_HEADS.items():
        with subtests.test(name):
            gone: list[asyncio.Event] = []

            async def script(seen: Any, reply: Any, head: bytes = head, gone: list[Any] = gone) -> None:
                gone.append(reply.gone)
                reply.raw(head)

            async with served(script) as server, opened() as client:
                with pytest.raises(
                    OutcomeUnknownError, match=r"^the connection was lost: invalid response \("
                ) as raised:
                    await sent(client, server.url)
                assert "\n" not in str(raised.value)
                await gone[0].wait()


async def test_what_is_received_in_place_of_http_is_quoted() -> None:
    async with served(raw(b"220 mail.example ESMTP\r\n")) as server, opened() as client:
        with pytest.raises(OutcomeUnknownError) as raised:
            await sent(client, server.url)
        assert (
            raised.value.message == "the connection was lost: invalid response (not HTTP: 220 mail.example ESMTP\\r\\n)"
        )
        assert raised.value.details == {"quote": "220 mail.example ESMTP\\r\\n"}


async def test_an_invalid_body_is_incomplete(subtests: pytest.Subtests) -> None:
    for name, body in INVALID_BODIES.items():
        with subtests.test(name):
            async with served(raw(CHUNKED, body)) as server, opened() as client:
                with pytest.raises(OutcomeUnknownError, match=r"^the response is incomplete: invalid response \("):
                    await exchange(client, server.url)


async def test_every_response_can_arrive_byte_by_byte() -> None:
    """Interim responses are dropped, and trailers are not headers."""
    response = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nLink: a\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n"
        b"3;a=b\r\none\r\n5 \r\n, two\r\n0\r\nX-Late: 1\r\n\r\n"
    )

    async def drip(seen: Any, reply: Any) -> None:
        for place in range(len(response)):
            reply.raw(response[place : place + 1])
            await asyncio.sleep(0)

    async with served(drip) as server, opened() as client:
        for _ in range(2):
            found = await sent(client, server.url)
            assert await read_body(found, LIMIT) == b"one, two"
            assert "link" not in found.headers
            assert "x-late" not in found.headers
        assert server.accepted == 1


async def test_lines_may_end_without_a_carriage_return() -> None:
    async with served(raw(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok")) as server, opened() as client:
        assert await exchange(client, server.url) == b"ok"


async def test_a_large_head_beside_a_large_body_is_accepted() -> None:
    """The limit is for the head, not for what is read with it."""
    body = b"x" * 1_000_000
    head = b"HTTP/1.1 200 OK\r\nA: %b\r\nContent-Length: %d\r\n\r\n" % (b"a" * 60_000, len(body))
    async with served(raw(head + body)) as server, opened() as client:
        assert await exchange(client, server.url) == body


async def test_a_body_can_end_with_the_connection() -> None:
    """RFC 9112, section 6.3: without a length and without chunks. Not if one of them is there."""
    async with served(raw(b"HTTP/1.0 200 OK\r\n\r\nwhole", closes=True)) as server, opened() as client:
        assert await exchange(client, server.url) == b"whole"
    for header in (b"Content-Length: 8", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip"):
        head = b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % header
        async with served(raw(head, b"5\r\nhalf", closes=True)) as server, opened() as client:
            response = await sent(client, server.url)
            with pytest.raises(OutcomeUnknownError, match=r"^the response is incomplete"):
                await read_body(response, LIMIT)


async def test_a_body_that_the_client_gives_up_is_incomplete() -> None:
    """Its end was not read, although it would have been the end of the connection."""
    async with served(raw(b"HTTP/1.1 200 OK\r\n\r\nhalf")) as server, opened() as client:
        response = await sent(client, server.url)
        await response.close()
        with pytest.raises(OutcomeUnknownError, match="incomplete: the client closed it"):
            await read_body(response, LIMIT)


async def test_a_response_to_head_has_no_body() -> None:
    async with served(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")) as server, opened() as client:
        response = await client.send("HEAD", server.url, [], None)
        assert (response.status, await read_body(response, LIMIT)) == (200, b"")


# --- whether a connection is used again -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extra", [b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison", b"garbage", b"HTTP/1.1 200 OK\r\n"]
)
async def test_a_response_that_was_not_requested_is_never_read(extra: bytes) -> None:
    """Neither if it arrives with the response nor if it arrives later."""
    async with served(raw(OK + extra)) as server, opened() as client:
        for _ in range(2):
            assert await exchange(client, server.url) == b"ok"
        assert server.accepted == 2

    replies: list[Any] = []

    async def later(seen: Any, reply: Any) -> None:
        replies.append(reply)
        reply.raw(OK)

    async with served(later) as server, opened() as client:
        assert await exchange(client, server.url) == b"ok"
        replies[0].raw(extra)
        await replies[0].gone.wait()
        assert await exchange(client, server.url) == b"ok"
        assert server.accepted == 2


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    """Nothing is lost: the request is sent on a new connection only."""
    gone: list[asyncio.Event] = []

    async def close(seen: Any, reply: Any) -> None:
        gone.append(reply.gone)
        reply.raw(OK)
        reply.transport.close()

    async with served(close) as server, opened() as client:
        for number in range(3):
            assert await exchange(client, server.url) == b"ok"
            await gone[number].wait()
        assert (server.accepted, len(server.seen)) == (3, 3)


@pytest.mark.parametrize("response", [OK.replace(b"Content", b"Connection: close\r\nContent"), b"HTTP/1.0" + OK[8:]])
async def test_a_connection_that_the_server_will_close_is_closed(response: bytes) -> None:
    async with served(raw(response)) as server, opened() as client:
        for _ in range(2):
            assert await exchange(client, server.url) == b"ok"
        assert server.accepted == 2


async def test_a_trailer_can_end_the_connection() -> None:
    """The parser would refuse the next response."""
    async with served(raw(CHUNKED + b"2\r\nok\r\n0\r\nConnection: close\r\n\r\n")) as server, opened() as client:
        for _ in range(2):
            assert await exchange(client, server.url) == b"ok"
        assert server.accepted == 2


def test_the_idle_timeout_of_a_server() -> None:
    for header, seconds in [
        (None, None),
        ("timeout=5", 5),
        ("timeout=2, max=100", 2),
        ("max=100,Timeout=15", 15),
        ("max=5", None),
        ("timeout=abc", None),
        ("timeout=-1", None),
        ("timeout=" + "9" * 20, None),
        ("xtimeout=3", None),
    ]:
        assert keep_alive_timeout(header) == seconds, header


@pytest.mark.parametrize("has_poll", [True, False])
def test_a_socket_is_readable_without_its_event_loop(has_poll: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_poll:
        monkeypatch.delattr(select, "poll")
    near, far = socket.socketpair()
    with near, far:
        is_readable = readable(near.fileno())
        assert not is_readable()
        far.close()
        assert is_readable()


# --- large bodies -----------------------------------------------------------------------------------------------------

# More than the buffers of two sockets.
LARGE = bytes(32_000_000)

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def accepting(handler: Handler) -> AsyncIterator[str]:
    """Serve requests whose head is read here and whose body is left to `handler`; return the URL."""
    done = asyncio.Event()
    failures: list[BaseException] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await handler(reader, writer)
        except Exception as error:  # noqa: BLE001  # raised at the end of `accepting`
            failures.append(error)
        finally:
            writer.transport.abort()
            done.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await done.wait()
    finally:
        server.close()
        await server.wait_closed()
    assert failures == []


async def test_a_response_before_the_end_of_the_request_is_read() -> None:
    """A server may refuse a body that it does not read. That connection is not used again."""
    refused = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 413 X\r\nContent-Length: 2\r\n\r\nno")
        await refused.wait()

    async with accepting(refuse) as url, opened() as client:
        response = await sent(client, url, LARGE)
        assert (response.status, await read_body(response, LIMIT)) == (413, b"no")
        assert client._idle == {}
        refused.set()


async def test_the_rest_of_a_request_follows_an_early_head() -> None:
    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        size = len(await reader.readexactly(len(LARGE)))
        writer.write(b"%x\r\n%d\r\n0\r\n\r\n" % (len(str(size)), size))
        await reader.read(1)

    async with accepting(early) as url, opened() as client:
        response = await sent(client, url, LARGE)
        assert await read_body(response, LIMIT) == str(len(LARGE)).encode()
        await client.close()


async def test_a_connection_that_is_lost_while_a_request_is_written() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with accepting(cut) as url, opened() as client:
        with pytest.raises(OutcomeUnknownError, match=r"^the connection was lost: "):
            await sent(client, url, LARGE)


async def test_reading_waits_for_the_reader() -> None:
    """A body that is not read stays at the server."""
    part = bytes(1_000_000)

    async def flood(seen: Any, reply: Any) -> None:
        reply.head(200, {}, 32 * len(part))
        for _ in range(32):
            reply.write(part)

    async with served(flood) as server, opened() as client:
        response = await sent(client, server.url)
        while response._connection._is_reading:
            await asyncio.sleep(0)
        assert MAX_BUFFERED < response._size < MAX_BUFFERED + 2_000_000
        assert len(await read_body(response, LIMIT)) == 32 * len(part)
        assert server.accepted == 1
        assert response._connection._is_reading, "for the next response"


# --- one connection, without a socket ---------------------------------------------------------------------------------


class Wire:
    """A transport that records."""

    def __init__(self) -> None:
        self.written = b""
        self.was_aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.was_aborted = True

    def is_closing(self) -> bool:
        return self.was_aborted

    def get_write_buffer_size(self) -> int:
        return 0


async def test_cancelling_after_the_response_does_not_end_the_next_request() -> None:
    """The connection is in use again before the cancelled task runs."""
    idle: list[Http1Connection] = []
    connection = Http1Connection(asyncio.get_running_loop(), idle.append, idle.remove)
    wire = Wire()
    connection.transport = wire  # type: ignore[assignment]  # what is used of it
    first = asyncio.ensure_future(connection.request("POST", b"1", b""))
    while wire.written != b"1":
        await asyncio.sleep(0)
    connection.data_received(OK)
    assert idle == [connection]
    second = asyncio.ensure_future(connection.request("POST", b"2", b""))
    first.cancel()
    await asyncio.wait((first,))
    while wire.written != b"12":
        await asyncio.sleep(0)
    assert not wire.was_aborted
    connection.data_received(OK)
    assert (await second).is_complete
    third = asyncio.ensure_future(connection.request("POST", b"3", b""))
    while wire.written != b"123":
        await asyncio.sleep(0)
    third.cancel()
    await asyncio.wait((third,))
    assert wire.was_aborted


def test_errors_are_described_without_an_address() -> None:
    assert describe_error(ConnectionResetError(104, "[Errno 104] 127.0.0.1")) == "Connection reset by peer"
    assert describe_error(ConnectionAbortedError("SSL shutdown")) == "SSL shutdown"
    assert describe_error(ConnectionResetError()) == "ConnectionResetError"
    assert describe_error(ssl.SSLError(1, "tlsv13 alert certificate required")) == "tlsv13 alert certificate required"


# --- compression ------------------------------------------------------------------------------------------------------


def inflate(encoding: str, *parts: bytes) -> bytes:
    inflater = inflater_for(encoding)
    if inflater is None:
        return b"".join(parts)
    inflated = [each for part in parts for each in inflater.feed(part)]
    inflater.end()
    return b"".join(inflated)


def test_compressed_bodies() -> None:
    packed = gzip.compress(b"hello")
    assert inflate("gzip", packed) == b"hello"
    assert inflate("GZIP", *(packed[place : place + 1] for place in range(len(packed)))) == b"hello"
    assert inflate("x-gzip", packed + packed) == inflate("gzip", packed, packed) == b"hellohello"
    assert inflate("deflate", zlib.compress(b"hello")) == b"hello"
    assert inflate("gzip") == b"", "a response without a body"
    assert inflate("gzip", gzip.compress(b"") * 20_000 + packed) == b"hello"
    for encoding in ("identity", "", "utf-8", "none", "UTF-8"):
        assert inflate(encoding, b"hello") == b"hello", "not a compressed body"
    for size in (262_144, 262_145, 1_000_000):
        assert len(inflate("gzip", gzip.compress(bytes(size)))) == size


def test_a_body_that_cannot_be_decompressed_is_incomplete() -> None:
    packed = gzip.compress(b"hello")
    for encoding, data, message in [
        ("br", b"", "the encoding 'br' is not supported"),
        ("gzip, br", b"", "not supported"),
        ("gzip", packed[:-1], "truncated"),
        ("gzip", b"plain", "cannot be decompressed"),
        ("gzip", packed + b"rest", "cannot be decompressed"),
    ]:
        with pytest.raises(OutcomeUnknownError, match=message):
            inflate(encoding, data)


async def test_other_tasks_run_while_a_body_is_decompressed() -> None:
    """A small body can become a large one, which its reader parses step by step."""
    packed = gzip.compress(b":\n" * 2_000_000, 9)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with served(raw(head + packed)) as server, opened() as client:
        response = await sent(client, server.url)
        while not response.is_complete:
            await asyncio.sleep(0)
        other = asyncio.create_task(count())
        steps = [len(chunk) async for chunk in response.chunks()]
        assert sum(steps) == 4_000_000
        assert turns >= len(steps) - 1 >= 10
        other.cancel()


async def test_a_small_body_that_decompresses_to_a_large_one_is_stopped_at_the_limit() -> None:
    packed = gzip.compress(bytes(10_000_000), 1)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with served(raw(head + packed)) as server, opened() as client:
        with pytest.raises(FrameTooLargeError) as raised:
            await read_body(await sent(client, server.url), 1_000_000)
        assert raised.value.size < 1_000_000 + 262_145
