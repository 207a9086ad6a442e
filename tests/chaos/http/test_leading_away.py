"""A server that tries to lead our client away: no connection is made elsewhere, and no credential leaves its origin.

The other place is real and listens; every name that is looked up and every address that is connected to is written down.
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
from scripted.loop import timed

SECRETS = {"authorization": "Bearer secret-token", "x-api-key": "secret-key", "cookie": "secret=cookie"}
STATUSES = (301, 302, 303, 307, 308)
FAST: dict[str, Any] = {"backoff_min": 0.01, "backoff_max": 0.02, "max_attempts": 1, "open_timeout": 10.0}


class Book(AbstractResolver):
    """Writes down what is looked up; everything is on this machine."""

    def __init__(self) -> None:
        self.names: list[tuple[str, int]] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.names.append((host, port))
        return [
            ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)
        ]

    async def close(self) -> None:
        pass


class Elsewhere:
    """Another origin of this machine: who comes, and what he says first."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.port = 0

    async def come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append(b"")
        self.heard[-1] = await reader.read(65_536)
        writer.close()


@asynccontextmanager
async def elsewhere() -> AsyncIterator[Elsewhere]:
    place = Elsewhere()
    server = await asyncio.start_server(place.come, "127.0.0.1", 0)
    place.port = server.sockets[0].getsockname()[1]
    try:
        yield place
    finally:
        server.close()


@asynccontextmanager
async def recorded() -> AsyncIterator[tuple[aiohttp.ClientSession, Book]]:
    """A client whose every lookup is written down."""
    book = Book()
    connector = aiohttp.TCPConnector(
        resolver=book, limit=0, ssl=False
    )  # any certificate: names are what this is about
    async with aiohttp.ClientSession(connector=connector) as session:
        yield session, book


def places(server: HttpServer, other: int) -> list[str]:
    """Where a server may try to send us: other ports, hosts and schemes, and spellings that look like its own."""
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
@timed
async def test_no_redirect_of_a_call_leads_to_another_origin(version: str, status: int) -> None:
    """Redirects of tools/call: each place is refused, the call did not run there, and the connection goes on."""
    async with elsewhere() as other, recorded() as (session, book):
        leads: list[str] = []

        async def away(seen: Seen, reply: Reply) -> None:
            reply.send(status, location=leads[-1])

        async with served(Mcp(version, session="s", tools__call=away)) as server:
            url = f"http://origin.example:{server.port}/mcp"
            target = http(url, headers=SECRETS, client=session, insecure=True)
            async with connect(target, versions=(version,), **FAST) as client:
                for place in places(server, other.port):
                    leads.append(place)
                    with pytest.raises(McpError) as raised:
                        await client.tools.call("echo", timeout=5)
                    if not isinstance(raised.value, ProtocolError):  # which is what says that it is no URL
                        assert raised.value.may_have_run is (status == 303), "see other: it was done"
                    assert "secret" not in str(raised.value)
                assert len(await client.tools.list()) == 1
            assert set(book.names) == {("origin.example", server.port)}
            assert other.heard == []
            assert all(seen.headers["authorization"] == SECRETS["authorization"] for seen in server.seen)


@pytest.mark.parametrize(
    "what", ["server/discover", "initialize", "GET", "DELETE", "notifications/initialized"]
)
@timed
async def test_no_redirect_of_anything_else_leads_to_another_origin(what: str) -> None:
    """The probe, the handshake, the standing stream and the end of a session."""
    for status in (302, 307, 308):
        async with elsewhere() as other, recorded() as (session, book):

            async def away(seen: Seen, reply: Reply, status: int = status, port: int = other.port) -> None:
                reply.send(status, location=f"http://127.0.0.1:{port}/mcp")

            script = Mcp(HANDSHAKE, session="s", **{what.replace("/", "__"): away})
            async with served(script) as server:
                url = f"http://origin.example:{server.port}/mcp"
                client = connect(http(url, headers=SECRETS, client=session, insecure=True), **FAST)
                try:
                    await client.open()
                    await client.tools.call("echo", timeout=5)
                except McpError:
                    pass
                finally:
                    await client.stop()
                assert server.heard(what)
                assert set(book.names) == {("origin.example", server.port)}
            assert other.heard == []


@timed
async def test_an_old_server_cannot_name_an_endpoint_of_somebody_else() -> None:
    """2024-11-05: the endpoint event decides where every message and credential goes."""
    async with elsewhere() as other, recorded() as (session, book):
        leads: list[str] = []

        async def stream(seen: Seen, reply: Reply) -> None:
            reply.sse()
            reply.event(leads[-1].encode(), event="endpoint")
            await reply.gone.wait()

        async def decline(seen: Seen, reply: Reply) -> None:
            reply.send(405)

        script = Mcp(HANDSHAKE, GET=stream, initialize=decline, server__discover=decline)
        async with served(script) as server:
            for place in places(server, other.port):
                leads.append(place)
                url = f"http://origin.example:{server.port}/mcp"
                with pytest.raises(McpError):
                    async with connect(http(url, headers=SECRETS, client=session, insecure=True), **FAST):
                        pass
            assert set(book.names) == {("origin.example", server.port)}
        assert other.heard == []


@timed
async def test_a_challenge_cannot_send_us_to_what_only_this_machine_can_reach(tmp_path: Path) -> None:
    """OAuth discovery (RFC 9728, 7.7): loopback, link-local and other spellings of them, named by a server that is elsewhere."""
    async with elsewhere() as other, recorded() as (session, book):
        leads: list[str] = []

        async def challenge(seen: Seen, reply: Reply) -> None:
            reply.send(401, www_authenticate=f'Bearer resource_metadata="{leads[-1]}"')

        async def nothing(seen: Seen, reply: Reply) -> None:
            reply.send(404)

        async def script(seen: Seen, reply: Reply) -> None:
            await (challenge if seen.path == "/mcp" else nothing)(seen, reply)

        context, _ = certificates.make(tmp_path)
        async with served(script, ssl=context) as server:
            for place in (
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
                leads.append(place)
                url = f"https://origin.example:{server.port}/mcp"
                target = http(url, auth=OAuth(show=None), client=session)
                with pytest.raises(McpError) as raised:
                    async with connect(target, **FAST):
                        pass
                assert isinstance(raised.value, AuthorizationError), place
                assert "resource_metadata" in str(raised.value), raised.value
            assert set(book.names) == {("origin.example", server.port)}
        assert other.heard == []
