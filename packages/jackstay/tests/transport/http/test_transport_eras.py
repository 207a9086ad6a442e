"""The whole transport under a real client: how the era is chosen, and which failures are final. On a clock of its own."""

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
async def test_a_stateless_server_is_found_with_one_request() -> None:
    """docs/design/connection.md, "Choosing the era": the probe is always `server/discover`."""
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
async def test_a_server_that_declines_the_probe_gets_initialize(declines: Script, version: str) -> None:
    """protocol section 5: 4xx with an empty or unrecognised body means `initialize`."""
    client, server = client_of(Mcp(version, server__discover=declines))
    async with client:
        assert client.protocol_version == version
        assert (await client.tools.call("echo")).text == "{}"
    assert len(server.heard("server/discover")) == 1


@on_fake_clock
async def test_a_modern_error_to_the_probe_is_never_followed_by_initialize() -> None:
    """protocol section 5: a recognised modern error means a modern server, and another of its revisions."""

    async def other(seen: Seen, reply: Reply) -> None:
        reply.error(
            seen.id, -32022, "unsupported", data={"supported": ["2027-01-01"], "requested": STATELESS}
        )

    client, server = client_of(Mcp(server__discover=other))
    with pytest.raises(ProtocolError, match="the server speaks 2027-01-01"):
        await client.open()
    assert [seen.what for seen in server.seen] == ["server/discover"]


@pytest.mark.parametrize("status", [401, 403])
@on_fake_clock
async def test_a_refused_credential_is_final(status: int) -> None:
    """Row 5: permanent, at once."""
    client, server = client_of(Mcp(server__discover=declining(status)))
    with pytest.raises(TransportError, match=f"HTTP {status}") as raised:
        await client.open()
    assert raised.value.permanent
    assert len(server.seen) == 1


@on_fake_clock
async def test_a_server_that_is_only_busy_has_said_nothing_about_its_era() -> None:
    """429 and 503 are tried again, later, with the probe."""
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
async def test_a_refusal_is_told_in_the_servers_words() -> None:
    """What happened, to what, and what to try: a status alone says none of it."""

    async def refuse(seen: Seen, reply: Reply) -> None:
        reply.error(None, -32600, "does not answer as that Host\x1b[2J", status=403)

    client, _ = client_of(refuse)
    with pytest.raises(TransportError, match=r"HTTP 403: refused: .*does not answer as that Host") as raised:
        await client.open()
    assert str(raised.value).isprintable()


@on_fake_clock
async def test_a_url_without_a_server_says_so_at_once() -> None:
    """Row 15: a first connect that cannot work must say so soon."""

    async def nothing(seen: Seen, reply: Reply) -> None:
        reply.send(404, b"no such page", "text/html")

    client, server = client_of(nothing)
    with pytest.raises(
        TransportError, match=r"no MCP server at this URL: HTTP 404 from http://127.0.0.1/mcp"
    ) as raised:
        await client.open()
    assert raised.value.absent
    assert raised.value.details["quote"] == "no such page"
    assert [seen.what for seen in server.seen] == ["server/discover", "initialize", "GET"]


@on_fake_clock
async def test_an_error_to_initialize_stands_where_there_is_no_older_server_either() -> None:
    script = Mcp(HANDSHAKE)

    async def refuse(seen: Seen, reply: Reply) -> None:
        reply.error(seen.id, -32603, "out of order")

    script.on["initialize"] = refuse
    client, _ = client_of(script, max_attempts=1)
    with pytest.raises(McpError, match="out of order"):
        await client.open()


@on_fake_clock
async def test_a_server_that_was_there_and_is_a_404_for_a_while_is_waited_for() -> None:
    """A redeploy behind a proxy: not permanent, once the server has been seen."""
    script = Mcp(HANDSHAKE)
    client, _ = client_of(script)
    async with client:
        script.on.update(
            {name: declining(404) for name in ("server/discover", "initialize", "GET", "tools/list")}
        )
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
async def test_the_verdict_is_remembered_and_forgotten_when_it_fails() -> None:
    """ "Choosing the era": it belongs to the client's configuration and survives restarts."""
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
