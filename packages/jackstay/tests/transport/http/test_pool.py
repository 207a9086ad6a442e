"""The default HTTP client: heads of requests, kept connections, and proxies."""

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jackstay.errors import OutcomeUnknownError, TransportError
from jackstay.transport.http import _pool
from jackstay.transport.http._pool import KEEP_ALIVE, MAX_URLS, Endpoint, Http1Client, Route
from jackstay.transport.http._reading import read_body
from scripted import certificates
from scripted.http import Reply, Seen, served

LIMIT = 1_000_000


@pytest.fixture(autouse=True)
def _connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(_pool, "KEEP_ALIVE", 3600.0)


@asynccontextmanager
async def opened(proxy: str | None = None, verify: bool | ssl.SSLContext = True) -> AsyncIterator[Http1Client]:
    client = Http1Client(verify=verify, proxy_of=lambda _: proxy, connect_timeout=60)
    try:
        yield client
    finally:
        await client.close()
        await client.close()


async def hello(seen: Seen, reply: Reply) -> None:
    reply.send(200, b"hello")


async def get(client: Http1Client, url: str) -> bytes:
    return await read_body(await client.send("GET", url, [], None), LIMIT)


# --- heads ------------------------------------------------------------------------------------------------------------


def head(url: str, headers: list[tuple[str, str]], body: bytes | None = None, proxy: str | None = None) -> list[str]:
    method = "GET" if body is None else "POST"
    return Route(url, proxy).head(method, headers, body).decode("latin-1").split("\r\n")


def test_the_head_of_a_request() -> None:
    lines = head("http://a/b?c", [("X-A", "1"), ("x-a", "\xe9")], b"12")
    assert lines[:4] == ["POST /b?c HTTP/1.1", "Host: a", "X-A: 1", "x-a: \xe9"]
    assert lines[-3:] == ["content-length: 2", "", ""]
    assert [line.partition(":")[0] for line in lines[4:-3]] == ["user-agent", "accept-encoding", "accept"]
    assert not any(line.startswith("content-length") for line in head("http://a", []))
    assert "content-length: 0" in head("http://a", [], b"")


def test_headers_of_the_caller_replace_the_defaults() -> None:
    lines = head("http://a", [("User-Agent", "mine"), ("ACCEPT", "a/b"), ("X", "accept-encoding: none")])
    assert [line for line in lines if line.lower().startswith(("user-agent", "accept:"))] == [
        "User-Agent: mine",
        "ACCEPT: a/b",
    ]
    assert "accept-encoding: gzip" in lines


@pytest.mark.parametrize(
    ("url", "target", "host"),
    [
        ("http://a", "/", "a"),
        ("http://a:80/", "/", "a"),
        ("https://a:443?q", "/?q", "a"),
        ("http://a:443/", "/", "a:443"),
        ("http://[::1]:8000/x", "/x", "[::1]:8000"),
        ("http://a/%7E%2f?a=%20&b=[c]", "/%7E%2f?a=%20&b=[c]", "a"),
        ("http://a/é b", "/%C3%A9%20b", "a"),
        ("http://bücher.example/", "/", "xn--bcher-kva.example"),
    ],
)
def test_the_target_and_the_host(url: str, target: str, host: str) -> None:
    assert head(url, [])[:2] == [f"GET {target} HTTP/1.1", f"Host: {host}"]


def test_a_proxy_gets_the_whole_url_and_its_own_credentials() -> None:
    lines = head("http://a:8000/b?c", [], proxy="http://us%40er:p@ss@proxy:3128")
    assert lines[:2] == ["GET http://a:8000/b?c HTTP/1.1", "Host: a:8000"]
    pair = base64.b64encode(b"us@er:p@ss").decode()
    assert lines[2] == f"Proxy-Authorization: Basic {pair}"
    tunnelled = Route("https://a/b?c", "http://u:p@proxy:3128")
    assert b"Proxy" not in tunnelled.head("GET", [], None)
    assert tunnelled.key != Route("https://a/b?c", None).key


async def test_a_request_that_cannot_be_written_is_not_sent() -> None:
    async with served(hello) as server, opened() as client:
        for value in ("a\r\nX: b", "a\nb", "a\rb", "a\0b", "☃"):
            with pytest.raises(TransportError, match="invalid header") as raised:
                await client.send("GET", server.url, [("X", value)], None)
            assert raised.value.permanent
        assert server.accepted == 0


async def test_a_url_that_cannot_be_used_is_permanent() -> None:
    async with opened() as client:
        for url in ("ftp://a/", "http://", "http://a b/", "http://a\x01b/", "http://" + "é" * 100 + "/"):
            with pytest.raises(TransportError, match=r"^cannot connect: ") as raised:
                await client.send("GET", url, [], None)
            assert raised.value.permanent
    async with opened(proxy="socks5://user:s3cr3t@x") as client:
        with pytest.raises(TransportError, match="server or proxy must begin with http://") as raised:
            await client.send("GET", "http://a/", [], None)
        assert "s3cr3t" not in str(raised.value)


# --- connections ------------------------------------------------------------------------------------------------------


async def test_an_idle_connection_is_closed_in_time() -> None:
    replies: list[Reply] = []

    async def greet(seen: Seen, reply: Reply) -> None:
        replies.append(reply)
        reply.send(200, b"hello")

    async with served(greet) as server, opened() as client:
        for _ in range(2):
            assert await get(client, server.url) == b"hello"
        assert server.accepted == 1
        ((connection,),) = client._idle.values()
        client._sweep()
        assert client._timer is not None, "for the connection that is kept"
        connection.idle_until = 0.0
        assert await get(client, server.url) == b"hello"
        assert server.accepted == 2, "the first was idle for too long"
        ((connection,),) = client._idle.values()
        connection.idle_until = 0.0
        client._sweep()
        assert client._timer is None
        await replies[-1].gone.wait()
    assert KEEP_ALIVE < 5, "uvicorn and Node close idle connections after five seconds"


@pytest.mark.parametrize(("header", "kept_for"), [("timeout=3", 2), ("timeout=1", 0), ("timeout=99", 98), ("", 3600)])
async def test_a_server_can_announce_when_it_closes_an_idle_connection(header: str, kept_for: float) -> None:
    """A request that is sent at that moment would have an unknown outcome."""

    async def greet(seen: Seen, reply: Reply) -> None:
        reply.send(200, b"hello", **({"keep_alive": header} if header else {}))

    async with served(greet) as server, opened() as client:
        before = client._loop.time()
        assert await get(client, server.url) == b"hello"
        ((connection,),) = client._idle.values()
        assert before + kept_for <= connection.idle_until <= client._loop.time() + kept_for


async def test_the_cache_of_parsed_urls_is_bounded() -> None:
    async with served(hello) as server, opened() as client:
        for number in range(MAX_URLS + 2):
            await get(client, f"{server.url}/{number}")
        assert len(client._routes) == 2
        assert server.accepted == 1


async def test_a_closed_client_does_not_send() -> None:
    async with opened() as client:
        await client.close()
        with pytest.raises(TransportError, match="cannot send: it is closed"):
            await client.send("GET", "http://127.0.0.1/", [], None)


async def test_closing_ends_requests_and_attempts_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, connecting, may_connect = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait(seen: Seen, reply: Reply) -> None:
        begun.set()
        await reply.gone.wait()

    async with served(wait) as server, opened() as client:
        sending = asyncio.ensure_future(client.send("POST", server.url, [], b""))
        await begun.wait()
        resolve = _pool.resolve

        async def slowly(*args: Any) -> Any:
            connecting.set()
            await may_connect.wait()
            return await resolve(*args)

        monkeypatch.setattr(_pool, "resolve", slowly)
        late = asyncio.ensure_future(client.send("POST", server.url + "/2", [], b""))
        await connecting.wait()
        await client.close()
        with pytest.raises(OutcomeUnknownError):
            await sending
        may_connect.set()
        with pytest.raises(TransportError, match="the HTTP client was closed"):
            await late
        assert len(server.seen) == 1


async def test_a_server_that_closes_each_connection_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is not sent on a connection that is closed already."""
    dial = Http1Client._dial

    async def closed(self: Http1Client, route: Route) -> Any:
        connection = await dial(self, route)
        connection.transport.close()
        return connection

    monkeypatch.setattr(Http1Client, "_dial", closed)
    async with served(hello) as server, opened() as client:
        with pytest.raises(TransportError, match="the server closed the connection"):
            await get(client, server.url)
        assert server.seen == []


async def test_a_server_that_sends_before_a_request_is_not_an_http_server(monkeypatch: pytest.MonkeyPatch) -> None:
    dial = Http1Client._dial

    async def greeted(self: Http1Client, route: Route) -> Any:
        connection = await dial(self, route)
        connection.data_received(b"SSH-2.0-OpenSSH_9.6\r\n")
        connection.data_received(b"more")
        return connection

    monkeypatch.setattr(Http1Client, "_dial", greeted)
    async with served(hello) as server, opened() as client:
        with pytest.raises(TransportError, match=r"not an HTTP server: it sent SSH-2.0-OpenSSH_9.6") as raised:
            await get(client, server.url)
        assert raised.value.absent
        assert server.seen == []


async def test_concurrent_connections_share_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[str] = []
    found: list[Any] = [[("address",)], socket.gaierror(-2, "no"), [("other",)]]

    async def resolve(loop: Any, host: str, port: int) -> Any:
        queries.append(host)
        await asyncio.sleep(0)
        answer = found.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(_pool, "resolve", resolve)
    endpoint = Endpoint("http", "a", 80)
    assert await asyncio.gather(*(endpoint.addresses() for _ in range(5))) == [[("address",)]] * 5
    assert await endpoint.addresses() == [("address",)]
    assert len(queries) == 1
    endpoint._resolved_at -= _pool.ADDRESS_TTL
    with pytest.raises(socket.gaierror):
        await endpoint.addresses()
    assert await endpoint.addresses() == [("other",)], "an error is not kept"


# --- tunnels ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def proxy_server(
    response: bytes, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A proxy that responds to CONNECT with `response` and forwards; its port, and the heads that it got."""
    heads: list[bytes] = []
    tasks: set[asyncio.Task[None]] = set()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        upstream = None
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(response)
            host, _, port = heads[-1].split()[1].decode().rpartition(":")
            read, upstream = await asyncio.open_connection(host, int(port))
            await asyncio.gather(forward(reader, upstream), forward(read, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            for each in (writer, upstream):
                if each is not None:
                    each.transport.abort()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        while tasks:
            await asyncio.sleep(0)
        await server.wait_closed()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("response", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
async def test_https_passes_a_proxy_through_a_tunnel(scheme: str, response: bytes, tmp_path: Path) -> None:
    """Only the proxy gets its credentials, and the tunnel is used again."""
    context, ca = certificates.make(tmp_path)
    trusted = ssl.create_default_context(cafile=ca)
    async with (
        served(hello, context) as server,
        proxy_server(response, context if scheme == "https" else None) as (port, heads),
        opened(proxy=f"{scheme}://user:password@127.0.0.1:{port}", verify=trusted) as client,
    ):
        for _ in range(2):
            assert await get(client, server.url.replace("http:", "https:")) == b"hello"
        pair = base64.b64encode(b"user:password")
        assert heads == [
            b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nProxy-Authorization: Basic %b\r\n\r\n"
            % (server.port, server.port, pair)
        ]
        assert "proxy-authorization" not in server.seen[0].headers


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"HTTP/1.1 407 X\r\nContent-Length: 0\r\n\r\n", "the proxy responded HTTP 407"),
        (b"HTTP/1.1 502 X\r\n\r\n", "the proxy responded HTTP 502"),
        (b"SSH-2.0\r\n", "the proxy did not respond"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "untrusted certificate"),
    ],
)
async def test_a_request_is_not_sent_without_a_tunnel(response: bytes, message: str, tmp_path: Path) -> None:
    context, _ = certificates.make(tmp_path)
    async with (
        served(hello, context) as server,
        proxy_server(response) as (port, _),
        opened(proxy=f"http://127.0.0.1:{port}") as client,
    ):
        with pytest.raises(TransportError, match=f"cannot connect to https://127.0.0.1:.*: {message}"):
            await get(client, server.url.replace("http:", "https:"))
        assert server.seen == []
