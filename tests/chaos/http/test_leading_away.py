"""A malicious server that tries to redirect the client: no connection to another origin, and no leaked credentials.

The other origin is real and listens; every name lookup and every connection is recorded.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from jackstay.client import connect
from jackstay.errors import McpError, ProtocolError
from jackstay.oauth import AuthorizationError, OAuth
from jackstay.transport.http import http
from scripted import certificates
from scripted.http import HANDSHAKE, STATELESS, HttpServer, Mcp, Reply, Seen, served

SECRETS = {"authorization": "Bearer secret-token", "x-api-key": "secret-key", "cookie": "secret=cookie"}
STATUSES = (301, 302, 303, 307, 308)
FAST: dict[str, Any] = {"backoff_min": 0.01, "backoff_max": 0.02, "max_attempts": 1, "open_timeout": 10.0}


class RecordingResolver(AbstractResolver):
    """Records lookups, and resolves every name to this machine."""

    def __init__(self) -> None:
        self.names: list[tuple[str, int]] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.names.append((host, port))
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)]

    async def close(self) -> None:
        pass


class OtherOrigin:
    """Another origin on this machine, and the first data of each connection to it."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.port = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received.append(b"")
        self.received[-1] = await reader.read(65_536)
        writer.close()


@asynccontextmanager
async def other_origin() -> AsyncIterator[OtherOrigin]:
    origin = OtherOrigin()
    server = await asyncio.start_server(origin.accept, "127.0.0.1", 0)
    origin.port = server.sockets[0].getsockname()[1]
    try:
        yield origin
    finally:
        server.close()


@asynccontextmanager
async def recorded() -> AsyncIterator[tuple[aiohttp.ClientSession, RecordingResolver]]:
    """An HTTP client whose lookups are recorded."""
    resolver = RecordingResolver()
    connector = aiohttp.TCPConnector(resolver=resolver, limit=0, ssl=False)  # any certificate is accepted
    async with aiohttp.ClientSession(connector=connector) as session:
        yield session, resolver


def foreign_urls(server: HttpServer, other: int) -> list[str]:
    """Return URLs of other ports, hosts and schemes, and spellings that look like the URL of the server."""
    own = server.port
    return [
        f"http://127.0.0.1:{other}/mcp",
        f"//127.0.0.1:{other}/mcp",
        f"http://origin.example:{other}/mcp",
        f"http://origin.example@127.0.0.1:{other}/mcp",
        f"http://origin.example:{own}@127.0.0.1:{other}/mcp",
        f"http://127.0.0.1:{other}\\@origin.example:{own}/mcp",
        f"http://origin.example:{own}.evil.example/mcp",
        f"http://origin.example.:{own}/mcp",
        f"http://evil.example:{own}/mcp",
        f"https://origin.example:{own}/mcp",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:127.0.0.1]/mcp",
        "http://0x7f000001/mcp",
        "file:///etc/passwd",
        "ftp://origin.example/mcp",
        "unix:///run/docker.sock",
        f"\thttp://127.0.0.1:{other}/mcp",
    ]


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
async def test_a_redirect_of_a_call_to_another_origin_is_refused(version: str, status: int) -> None:
    """The connection to the original server stays usable."""
    async with other_origin() as other, recorded() as (session, resolver):
        locations: list[str] = []

        async def redirect(seen: Seen, reply: Reply) -> None:
            reply.send(status, location=locations[-1])

        async with served(Mcp(version, session="s", tools__call=redirect)) as server:
            url = f"http://origin.example:{server.port}/mcp"
            target = http(url, headers=SECRETS, client=session, insecure=True)
            async with connect(target, versions=(version,), **FAST) as client:
                for location in foreign_urls(server, other.port):
                    locations.append(location)
                    with pytest.raises(McpError) as raised:
                        await client.tools.call("echo", timeout=60)
                    if not isinstance(raised.value, ProtocolError):  # the error for an invalid URL
                        assert raised.value.may_have_run is (status == 303), "303 See Other means that it ran"
                    assert "secret" not in str(raised.value)
                assert len(await client.tools.list()) == 1
            assert set(resolver.names) == {("origin.example", server.port)}
            assert other.received == []
            assert all(seen.headers["authorization"] == SECRETS["authorization"] for seen in server.seen)


@pytest.mark.parametrize("what", ["server/discover", "initialize", "GET", "DELETE", "notifications/initialized"])
async def test_other_redirects_to_another_origin_are_refused(what: str) -> None:
    """Redirects of the probe, the handshake, the GET stream and the DELETE of a session."""
    for status in (302, 307, 308):
        async with other_origin() as other, recorded() as (session, resolver):

            async def redirect(seen: Seen, reply: Reply, status: int = status, port: int = other.port) -> None:
                reply.send(status, location=f"http://127.0.0.1:{port}/mcp")

            script = Mcp(HANDSHAKE, session="s", **{what.replace("/", "__"): redirect})
            async with served(script) as server:
                url = f"http://origin.example:{server.port}/mcp"
                client = connect(http(url, headers=SECRETS, client=session, insecure=True), **FAST)
                try:
                    await client.open()
                    await client.tools.call("echo", timeout=60)
                except McpError:
                    pass
                finally:
                    await client.stop()
                assert server.received(what)
                assert set(resolver.names) == {("origin.example", server.port)}
            assert other.received == []


async def test_an_endpoint_event_with_another_origin_is_refused() -> None:
    """2024-11-05 basic/transports: the endpoint event determines the URL of all messages and credentials."""
    async with other_origin() as other, recorded() as (session, resolver):
        locations: list[str] = []

        async def stream(seen: Seen, reply: Reply) -> None:
            reply.sse()
            reply.event(locations[-1].encode(), event="endpoint")
            await reply.gone.wait()

        async def decline(seen: Seen, reply: Reply) -> None:
            reply.send(405)

        script = Mcp(HANDSHAKE, GET=stream, initialize=decline, server__discover=decline)
        async with served(script) as server:
            for location in foreign_urls(server, other.port):
                locations.append(location)
                url = f"http://origin.example:{server.port}/mcp"
                with pytest.raises(McpError):
                    async with connect(http(url, headers=SECRETS, client=session, insecure=True), **FAST):
                        pass
            assert set(resolver.names) == {("origin.example", server.port)}
        assert other.received == []


async def test_a_challenge_with_an_internal_metadata_url_is_refused(tmp_path: Path) -> None:
    """SSRF by OAuth discovery (RFC 9728 section 7.7): loopback and link-local addresses in all spellings."""
    async with other_origin() as other, recorded() as (session, resolver):
        locations: list[str] = []

        async def challenge(seen: Seen, reply: Reply) -> None:
            reply.send(401, www_authenticate=f'Bearer resource_metadata="{locations[-1]}"')

        async def nothing(seen: Seen, reply: Reply) -> None:
            reply.send(404)

        async def script(seen: Seen, reply: Reply) -> None:
            await (challenge if seen.path == "/mcp" else nothing)(seen, reply)

        context, _ = certificates.make(tmp_path)
        async with served(script, ssl=context) as server:
            for location in (
                f"http://127.0.0.1:{other.port}/x",
                f"https://127.0.0.1:{other.port}/x",
                f"https://127.1:{other.port}/x",
                f"https://2130706433:{other.port}/x",
                f"https://0x7f000001:{other.port}/x",
                f"https://localhost:{other.port}/x",
                f"https://0:{other.port}/x",
                f"https://[::1]:{other.port}/x",
                f"https://[::ffff:7f00:1]:{other.port}/x",
                "https://169.254.169.254/latest",
                "https://2852039166/latest",
                "http://evil.example/x",
                "file:///etc/passwd",
            ):
                locations.append(location)
                url = f"https://origin.example:{server.port}/mcp"
                target = http(url, auth=OAuth(show=None), client=session)
                with pytest.raises(McpError) as raised:
                    async with connect(target, **FAST):
                        pass
                assert isinstance(raised.value, AuthorizationError), location
                assert "resource_metadata" in str(raised.value), raised.value
            assert set(resolver.names) == {("origin.example", server.port)}
        assert other.received == []
