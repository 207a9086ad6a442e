"""The HTTP clients over real sockets: whether a failed request may have reached the server.

The default client, an aiohttp session and httpx clients must report the same.
"""

import asyncio
import gzip
import socket
import ssl
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest

from jackstay.client import connect
from jackstay.errors import McpError, OutcomeUnknownError, TransportError
from jackstay.transport import HttpClient, default_http_client
from jackstay.transport.http import http
from jackstay.transport.http._aiohttp import _describe
from jackstay.transport.http._clients import wrap
from jackstay.transport.http._reading import read_body
from scripted import certificates
from scripted.http import Reply, Seen, served

LIMIT = 10_000_000

# Header values are bytes (here UTF-8, as in Last-Event-ID) decoded as Latin-1.
SNOWMAN = "☃".encode().decode("latin-1")


@asynccontextmanager
async def _default(**options: Any) -> AsyncIterator[HttpClient]:
    client = default_http_client(proxy="", **options)
    try:
        yield client
    finally:
        await client.close()
        await client.close()


@asynccontextmanager
async def _session(**options: Any) -> AsyncIterator[HttpClient]:
    context = options.get("verify", True)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        client = wrap(session)
        yield client
        await client.close()
        assert not session.closed, "only the user closes it"


@asynccontextmanager
async def _httpx(**options: Any) -> AsyncIterator[HttpClient]:
    async with httpx.AsyncClient(trust_env=False, **options) as inner:
        client = wrap(inner)
        yield client
        await client.close()
        assert not inner.is_closed, "only the user closes it"


@asynccontextmanager
async def _httpx2(**options: Any) -> AsyncIterator[HttpClient]:
    async with httpx2.AsyncClient(trust_env=False, **options) as inner:
        yield wrap(inner)


Make = Callable[..., AbstractAsyncContextManager[HttpClient]]
all_clients = pytest.mark.parametrize(
    "make", [_default, _session, _httpx, _httpx2], ids=["default", "aiohttp", "httpx", "httpx2"]
)


async def _exchange(client: HttpClient, url: str) -> bytes:
    response = await client.send("POST", url, [], b"x")
    try:
        return await read_body(response, LIMIT)
    finally:
        await response.close()


async def idle(seen: Seen, reply: Reply) -> None:
    await reply.gone.wait()


@all_clients
async def test_a_request_and_its_response_are_unchanged(make: Make) -> None:
    async def echo(seen: Seen, reply: Reply) -> None:
        pairs = [("X-A", "1"), ("x-a", "2"), ("Content-Type", "text/plain"), ("set-cookie", "a=b")]
        reply.head(201, pairs, len(seen.body))
        reply.write(seen.body)

    async with served(echo) as server, make() as client:
        for _ in range(2):
            url = server.url + "/%7Ea%2Fb?q=%20x"
            response = await client.send(
                "POST", url, [("X-Mine", SNOWMAN), ("Accept", "a"), ("X-Mine-2", "2")], b"body"
            )
            assert response.status == 201
            assert response.headers["x-a"] == "1, 2"
            assert response.headers is response.headers
            assert await read_body(response, LIMIT) == b"body"
            await response.close()
        seen = server.seen[-1]
        assert (seen.method, seen.path, seen.body) == ("POST", "/mcp/%7Ea%2Fb?q=%20x", b"body")
        assert (seen.headers["x-mine"], seen.headers["accept"]) == (SNOWMAN, "a")
        assert server.accepted == 1, "the connection is reused"
        if make is _default:
            assert "cookie" not in seen.headers
            assert seen.headers["user-agent"].startswith("jackstay/")


@all_clients
async def test_a_redirect_is_not_followed(make: Make) -> None:
    async def move(seen: Seen, reply: Reply) -> None:
        reply.send(307, location="/other")

    async with served(move) as server, make() as client:
        response = await client.send("GET", server.url, [], None)
        assert (response.status, response.headers["location"]) == (307, "/other")
        await response.close()
        assert len(server.seen) == 1


@all_clients
async def test_a_compressed_body_is_decoded(make: Make) -> None:
    async def packed(seen: Seen, reply: Reply) -> None:
        assert "gzip" in seen.headers["accept-encoding"]
        reply.send(200, gzip.compress(b"x" * 100_000), "text/plain", content_encoding="gzip")

    async with served(packed) as server, make() as client:
        response = await client.send("GET", server.url, [], None)
        assert await read_body(response, LIMIT) == b"x" * 100_000
        await response.close()


@all_clients
async def test_a_body_with_an_invalid_encoding_is_incomplete(make: Make) -> None:
    async def mislabelled(seen: Seen, reply: Reply) -> None:
        reply.send(200, b"not gzip at all", "text/plain", content_encoding="gzip")

    async with served(mislabelled) as server, make() as client:
        response = await client.send("GET", server.url, [], None)
        with pytest.raises(OutcomeUnknownError):
            await read_body(response, LIMIT)
        await response.close()
    await asyncio.get_running_loop().shutdown_asyncgens()  # httpx leaves an async generator behind


# --- not sent ---------------------------------------------------------------------------------------------------------


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@all_clients
async def test_a_request_is_not_sent_if_the_connection_is_refused(make: Make) -> None:
    """A request that could not connect raises TransportError and was not sent."""
    async with make() as client:
        port = _closed_port()
        with pytest.raises(TransportError, match=f"cannot connect to http://127.0.0.1:{port}") as raised:
            await client.send("POST", f"http://127.0.0.1:{port}/mcp?key=s3cr3t", [], b"x")
        assert (raised.value.may_have_run, raised.value.permanent) == (False, False)
        assert "s3cr3t" not in str(raised.value)
        if make in (_default, _session):
            assert str(raised.value).endswith("connection refused")


@all_clients
async def test_a_request_is_not_sent_to_an_unknown_host(make: Make) -> None:
    async with make() as client:
        with pytest.raises(TransportError, match=r"cannot connect to http://nowhere\.invalid"):
            await client.send("POST", "http://nowhere.invalid/mcp", [], b"x")


@all_clients
async def test_a_request_is_not_sent_if_the_certificate_is_untrusted(make: Make, tmp_path: Path) -> None:
    context, _ = certificates.make(tmp_path)
    async with served(idle, context) as server, make() as client:
        url = server.url.replace("http:", "https:")
        with pytest.raises(TransportError, match="untrusted certificate") as raised:
            await client.send("POST", url, [], b"x")
        assert raised.value.permanent, "a retry cannot help"
        assert server.seen == []


@all_clients
async def test_a_certificate_of_the_users_ca_is_trusted(make: Make, tmp_path: Path) -> None:
    async def hello(seen: Seen, reply: Reply) -> None:
        reply.send(200, b"hello")

    context, ca = certificates.make(tmp_path)
    trusted = ssl.create_default_context(cafile=ca)
    async with served(hello, context) as server, make(verify=trusted) as client:
        response = await client.send("GET", server.url.replace("http:", "https:"), [], None)
        assert await read_body(response, LIMIT) == b"hello"
        await response.close()


async def test_a_request_is_not_sent_if_aiohttp_cannot_encode_a_header() -> None:
    async with served(idle) as server, _session() as client:
        with pytest.raises(TransportError, match="not UTF-8"):
            await client.send("GET", server.url, [("X", "\xff")], None)
        assert server.seen == []


async def _without_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def _closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.close()


@all_clients
@pytest.mark.parametrize(
    ("serve", "reason"),
    [(_without_tls, "the server does not use TLS"), (_closing, "the connection was lost|Connection reset")],
)
async def test_a_port_without_tls_is_not_a_server_after_the_second_attempt(
    make: Make, serve: Callable[..., Any], reason: str
) -> None:
    async with await asyncio.start_server(serve, "127.0.0.1") as server, make() as client:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        with pytest.raises(TransportError, match=f"cannot connect to .*: ({reason})") as raised:
            await connect(http(url, client=client), backoff_min=0.001, backoff_max=0.002).open()
        assert (raised.value.absent, raised.value.details["attempts"]) == (True, 2)


async def test_a_request_is_not_sent_if_connecting_times_out() -> None:
    """The backlog of the listener is full, so the SYN packet gets no response."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        secret = "s3cr3t"
        fillers = []
        try:
            for _ in range(4):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(address)
                fillers.append(filler)
            async with _default(connect_timeout=0.2) as client:
                with pytest.raises(TransportError, match=r"timed out while connecting \(connect_timeout\)") as raised:
                    await client.send("GET", f"http://127.0.0.1:{address[1]}/?key={secret}", [], None)
                assert secret not in "".join(traceback.format_exception(raised.value))
        finally:
            for filler in fillers:
                filler.close()


def test_errors_are_described_without_the_url() -> None:
    """A query may contain a secret, and some errors have no message."""
    for error, message in [
        (aiohttp.InvalidURL("http://a/?key=s3cr3t"), "aiohttp cannot parse its URL"),
        (
            aiohttp.ClientHttpProxyError(None, (), status=407, message="No"),  # type: ignore[arg-type]  # not used
            "the proxy responded HTTP 407 No",
        ),
        (
            aiohttp.ClientConnectorError(None, ConnectionResetError()),  # type: ignore[arg-type]  # the same
            "the connection was lost while connecting",
        ),
    ]:
        assert _describe(error) == message


async def test_a_client_that_was_closed_cannot_send() -> None:
    async with aiohttp.ClientSession() as session:
        wrapped = wrap(session)
    with pytest.raises(TransportError, match="cannot send"):
        await wrapped.send("GET", "http://127.0.0.1/", [], None)
    inner = httpx.AsyncClient()
    await inner.aclose()
    with pytest.raises(TransportError, match="cannot send"):
        await wrap(inner).send("GET", "http://127.0.0.1/", [], None)
    with pytest.raises(TransportError, match="httpx cannot parse the URL"):
        await wrap(httpx.AsyncClient()).send("GET", "http://a/\x01", [], None)


# --- outcome unknown --------------------------------------------------------------------------------------------------


async def _cut(seen: Seen, reply: Any) -> None:
    reply.cut()


async def _closes(seen: Seen, reply: Any) -> None:
    reply.transport.close()


async def _cuts_the_head(seen: Seen, reply: Any) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\ncontent-le")
    reply.transport.close()


async def _no_http(seen: Seen, reply: Any) -> None:
    reply.raw(b"220 mail.example ESMTP\r\n\r\n")
    reply.transport.close()


async def _cuts_the_body(seen: Seen, reply: Any) -> None:
    reply.head(200, {}, 100)
    reply.write(b"half")
    reply.transport.close()


async def _cuts_a_chunk(seen: Seen, reply: Any) -> None:
    reply.head(200, {}, None)
    reply.raw(b"10\r\nhalf")
    reply.transport.close()


async def _resets_the_body(seen: Seen, reply: Any) -> None:
    reply.head(200, {}, None)
    reply.write(b"half")
    reply.cut()


async def _no_end(seen: Seen, reply: Any) -> None:
    reply.head(200, {}, None)
    reply.write(b"whole?")
    reply.half_close()


async def _bad_chunk(seen: Seen, reply: Any) -> None:
    reply.head(200, {}, None)
    reply.raw(b"zz\r\nx\r\n")


LOST = [
    _cut,
    _closes,
    _cuts_the_head,
    _no_http,
    _cuts_the_body,
    _cuts_a_chunk,
    _resets_the_body,
    _no_end,
    _bad_chunk,
]


@all_clients
async def test_a_connection_that_is_lost_after_the_request_leaves_the_outcome_unknown(
    make: Make, subtests: pytest.Subtests
) -> None:
    """docs/guarantees.md G2: the request was sent and may have run."""
    for script in LOST:
        with subtests.test(script=script.__name__):
            async with served(script) as server, make() as client:
                with pytest.raises(McpError) as raised:
                    await _exchange(client, server.url)
                assert type(raised.value) is OutcomeUnknownError
                assert raised.value.may_have_run is True
                assert "\n" not in str(raised.value), "one line"
                assert len(server.seen) == 1, "not sent again"


# --- cancelling -------------------------------------------------------------------------------------------------------


@all_clients
async def test_cancelling_before_the_headers_closes_the_connection(make: Make) -> None:
    """docs/guarantees.md G11: closing cancels the request, also for a JSON response."""
    gone: list[asyncio.Event] = []
    begun = asyncio.Event()

    async def wait(seen: Seen, reply: Reply) -> None:
        gone.append(reply.gone)
        begun.set()
        await reply.gone.wait()

    async with served(wait) as server, make() as client:
        sending = asyncio.ensure_future(client.send("POST", server.url, [], b"x"))
        await begun.wait()
        sending.cancel()
        await asyncio.wait((sending,))
        await gone[0].wait()


@all_clients
async def test_closing_an_unfinished_response_closes_the_connection(make: Make) -> None:
    async def stream(seen: Seen, reply: Reply) -> None:
        reply.sse()
        reply.event(b"1")
        await reply.gone.wait()

    async with served(stream) as server, make() as client:
        response = await client.send("POST", server.url, [], b"x")
        async with aclosing(response.chunks()) as chunks:
            async for chunk in chunks:
                assert chunk
                break
        await response.close()
        await response.close()
        connection = next(iter(server.connections), None)
        if connection is not None and connection.reply is not None:
            await connection.reply.gone.wait()


# --- proxies ----------------------------------------------------------------------------------------------------------


async def test_a_proxy_is_used_from_the_option_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def proxy(seen: Seen, reply: Reply) -> None:
        if seen.method == "CONNECT":
            reply.send(502)
        else:
            reply.send(200, seen.path.encode())

    async with served(proxy) as server:
        proxy_url = f"http://127.0.0.1:{server.port}"
        monkeypatch.setenv("http_proxy", proxy_url)
        monkeypatch.setenv("https_proxy", proxy_url)
        monkeypatch.setenv("no_proxy", "direct.invalid")
        for option in (None, proxy_url):
            client = default_http_client(proxy=option)
            response = await client.send("GET", "http://example.invalid/mcp", [], None)
            assert await read_body(response, LIMIT) == b"http://example.invalid/mcp"
            await response.close()
            with pytest.raises(TransportError, match="HTTP 502"):
                await client.send("GET", "https://example.invalid/mcp", [], None)
            await client.close()
        client = default_http_client()
        with pytest.raises(TransportError, match=r"cannot connect to http://direct\.invalid"):
            await client.send("GET", "http://direct.invalid/mcp", [], None)
        await client.close()
