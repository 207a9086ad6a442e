"""The HTTP transport with a real client, on a fake clock: revision detection and permanent failures."""

import asyncio

import pytest

from jackstay.errors import (
    McpError,
    ProtocolError,
    TransportError,
)
from jackstay.testing import on_fake_clock
from scripted.http import HANDSHAKE, STATELESS, Mcp, Reply, Script, Seen
from scripted.http_client import client_of, declining

# --- choosing the era -------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_stateless_server_is_detected_with_one_request() -> None:
    """The probe is always `server/discover`."""
    client, server = client_of(Mcp())
    async with client:
        assert client.protocol_version == STATELESS
    assert [seen.what for seen in server.seen] == ["server/discover"]


NOT_FOUND = b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Missing session ID"}}'


@pytest.mark.parametrize(
    "declines",
    [
        declining(400),
        declining(400, NOT_FOUND, "application/json"),
        declining(404),
        declining(405),
        declining(406, b"no"),
        declining(500),
        declining(202),
        declining(200, b"<html>", "text/html"),
        declining(200, NOT_FOUND.replace(b'"server-error"', b"null"), "application/json"),
    ],
)
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
@on_fake_clock
async def test_a_server_that_rejects_the_probe_gets_initialize(declines: Script, version: str) -> None:
    """4xx with an empty or unrecognised body means `initialize`."""
    client, server = client_of(Mcp(version, server__discover=declines))
    async with client:
        assert client.protocol_version == version
        assert (await client.tools.call("echo")).text == "{}"
    assert len(server.received("server/discover")) == 1


@on_fake_clock
async def test_an_error_of_a_stateless_server_to_the_probe_is_not_followed_by_initialize() -> None:
    """A recognised error of a stateless server means another stateless revision, not a handshake."""

    async def other(seen: Seen, reply: Reply) -> None:
        reply.error(seen.id, -32022, "unsupported", data={"supported": ["2027-01-01"], "requested": STATELESS})

    client, server = client_of(Mcp(server__discover=other))
    with pytest.raises(ProtocolError, match="the server supports 2027-01-01"):
        await client.open()
    assert [seen.what for seen in server.seen] == ["server/discover"]


@pytest.mark.parametrize("status", [401, 403])
@on_fake_clock
async def test_rejected_credentials_are_permanent(status: int) -> None:
    """They fail at once, without a retry."""
    client, server = client_of(Mcp(server__discover=declining(status)))
    with pytest.raises(TransportError, match=f"HTTP {status}") as raised:
        await client.open()
    assert raised.value.permanent
    assert len(server.seen) == 1


@on_fake_clock
async def test_a_busy_server_is_probed_again() -> None:
    """429 and 503 are retried with the probe."""
    answers = [declining(503), declining(429)]
    script = Mcp()

    async def discover(seen: Seen, reply: Reply) -> None:
        if answers:
            await answers.pop(0)(seen, reply)
        else:
            reply.result(seen.id, script.discovered())

    script.on["server/discover"] = discover
    client, server = client_of(script)
    async with client:
        assert client.protocol_version == STATELESS
    assert [seen.what for seen in server.seen] == ["server/discover"] * 3


@on_fake_clock
async def test_the_error_message_of_the_server_is_reported() -> None:

    async def refuse(seen: Seen, reply: Reply) -> None:
        reply.error(None, -32600, "does not answer as that Host\x1b[2J", status=403)

    client, _ = client_of(refuse)
    with pytest.raises(TransportError, match=r"HTTP 403: .*does not answer as that Host") as raised:
        await client.open()
    assert str(raised.value).isprintable()


@on_fake_clock
async def test_a_url_without_a_server_fails_at_once() -> None:
    """A first connect that cannot succeed is not retried."""

    async def nothing(seen: Seen, reply: Reply) -> None:
        reply.send(404, b"no such page", "text/html")

    client, server = client_of(nothing)
    with pytest.raises(TransportError, match=r"no MCP server at http://127.0.0.1/mcp: HTTP 404") as raised:
        await client.open()
    assert raised.value.absent
    assert raised.value.details["quote"] == "no such page"
    assert [seen.what for seen in server.seen] == ["server/discover", "initialize", "GET"]
    client, _ = client_of(nothing, versions=(STATELESS,))
    with pytest.raises(ProtocolError, match=r"HTTP 404 at http://127.0.0.1/mcp; check the path, many servers use /mcp"):
        await client.open()


@on_fake_clock
async def test_the_error_of_initialize_is_reported_if_there_is_no_http_sse() -> None:
    script = Mcp(HANDSHAKE)

    async def refuse(seen: Seen, reply: Reply) -> None:
        reply.error(seen.id, -32603, "out of order")

    script.on["initialize"] = refuse
    client, _ = client_of(script, max_attempts=1)
    with pytest.raises(McpError, match="out of order"):
        await client.open()


@on_fake_clock
async def test_a_404_of_a_known_server_is_retried() -> None:
    """A redeploy behind a proxy: not permanent, once the server has been seen."""
    script = Mcp(HANDSHAKE)
    client, _ = client_of(script)
    async with client:
        script.on.update({name: declining(404) for name in ("server/discover", "initialize", "GET", "tools/list")})
        script.on["ping"] = declining(404)

        async def unreachable(seen: Seen, reply: Reply) -> None:
            raise TransportError("refused")

        script.on["tools/call"] = unreachable
        with pytest.raises(TransportError, match="refused"):
            await client.tools.call("echo")
        assert client.state == "backoff"
        await asyncio.sleep(10)
        assert client.state in ("backoff", "initializing", "starting")
        script.on.clear()
        await client.ready(60)
        assert (await client.tools.call("echo")).text == "{}"


@on_fake_clock
async def test_the_era_is_remembered_until_it_fails() -> None:
    """The client keeps the detected era across reconnects."""
    script = Mcp(HANDSHAKE)
    client, server = client_of(script)

    async def unreachable(seen: Seen, reply: Reply) -> None:
        raise TransportError("refused")

    async with client:
        script.on["tools/call"] = unreachable
        with pytest.raises(TransportError):
            await client.tools.call("echo")
        await client.ready(60)
        assert [seen.what for seen in server.seen].count("server/discover") == 1
        script.version = STATELESS
        with pytest.raises(TransportError):
            await client.tools.call("echo")
        await client.ready(60)
        assert client.protocol_version == STATELESS
