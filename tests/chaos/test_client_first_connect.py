"""A first connection that cannot succeed fails soon, with the cause."""

import asyncio
import logging
import re
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jackstay import McpError, ProtocolError, Server, TransportError, connect, http, stdio
from jackstay.transport import Target


@contextmanager
def client_log(level: int = logging.DEBUG) -> Iterator[list[str]]:
    """Collect what the client logs, from that level on."""
    lines: list[str] = []
    handler = logging.Handler(level)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("jackstay.client")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


async def failure(target: Target, **settings: object) -> McpError:
    """Return the error. Two starts take less than two seconds on an idle machine; all five would take fifteen."""
    with client_log() as lines, pytest.raises(McpError) as caught:
        async with connect(target, **settings):  # type: ignore[arg-type]  # settings by name
            pass
    assert 1 <= sum(line.endswith(" -> starting") for line in lines) <= 2, lines
    return caught.value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_port_where_nothing_listens() -> None:
    error = await failure(http(f"http://127.0.0.1:{free_port()}/mcp"))
    assert isinstance(error, TransportError)
    assert error.absent
    assert "connection refused" in str(error)


async def test_a_host_that_does_not_exist() -> None:
    error = await failure(http("http://no-such-host.invalid/mcp"))
    assert isinstance(error, TransportError)
    assert error.absent
    assert "unknown host name" in str(error)


async def test_a_wrong_path() -> None:
    import uvicorn

    port = free_port()
    config = uvicorn.Config(Server("shop").asgi(), host="127.0.0.1", port=port, log_level="error")
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        error = await failure(http(f"http://127.0.0.1:{port}/wrong?secret=1"))
    finally:
        server.should_exit = True
        await serving
    assert f"no MCP server at http://127.0.0.1:{port}/wrong: HTTP 404" in str(error)
    assert "MCP is served at /mcp" in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_port_of_another_protocol(is_first: bool) -> None:
    """Some servers send first, others when they have read the request."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not is_first:
            await reader.readline()
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        error = await failure(http(f"http://127.0.0.1:{port}/mcp?secret=1"))
    assert isinstance(error, TransportError)
    assert error.absent
    assert r"SSH-2.0-OpenSSH_9.6\r\n" in str(error)
    assert "secret" not in str(error)


async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def read_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As TLS servers do that receive an HTTP request."""
    await reader.read(65_536)
    writer.close()


async def read_and_reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65_536)
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def respond_without_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65_536)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def send_tls_alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65_536)
    writer.write(b"\x15\x03\x01\x00\x02\x02\x46")
    writer.close()


@pytest.mark.parametrize(
    ("scheme", "respond", "message"),
    [
        # The client notices the end before or after it has written the request.
        ("http", close, r"the server closed the connection|should the URL begin with https://\?"),
        ("http", read_and_close, r"should the URL begin with https://\?"),
        ("http", read_and_reset, r"should the URL begin with https://\?"),
        ("http", send_tls_alert, r"no HTTP server at .* responded \\x15\\x03"),
        ("https", close, "the connection was lost while connecting|reset by peer"),
        ("https", read_and_close, "the connection was lost while connecting"),
        ("https", read_and_reset, "reset by peer"),
        ("https", respond_without_tls, r"does not use TLS; should the URL begin with http://\?"),
    ],
)
async def test_a_port_that_closes_connections_or_has_the_other_scheme(
    scheme: str, respond: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], message: str
) -> None:
    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        error = await failure(http(f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"))
    assert isinstance(error, TransportError)
    assert error.absent
    assert re.search(message, str(error)), str(error)


PROGRAMS = {
    "prints and exits": ("print('hello')", "printed 'hello' to its standard output"),
    "prints and stays": (
        "print('hello', flush=True); import sys; sys.stdin.read()",
        "is this an MCP server?",
    ),
    "exits at once": ("raise SystemExit('no database')", r"exit code 1"),
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_that_is_not_a_server(name: str) -> None:
    program, message = PROGRAMS[name]
    error = await failure(stdio(sys.executable, "-c", program))
    assert isinstance(error, TransportError | ProtocolError)
    assert message in str(error)


async def test_a_program_that_never_responds() -> None:
    silent = stdio(sys.executable, "-c", "import sys; sys.stdin.read()")
    error = await failure(silent, init_timeout=0.5, max_attempts=1)
    assert str(error) == "not ready within 0.5 s: nothing was received from the server"


async def test_a_lost_server_is_logged_as_a_warning_with_its_cause() -> None:
    target = stdio(sys.executable, str(Path(__file__).parent / "servers" / "working.py"), "unused")
    with client_log(logging.WARNING) as lines:
        async with connect(target, backoff_min=0.01) as client:
            with pytest.raises(McpError):
                await client.tools.call("die", timeout=60)
    assert any(line.startswith("working: ready -> backoff: the server 'working' exited") for line in lines), lines
