"""HTTP+SSE of 2024-11-05."""

import asyncio
from typing import Any

import pytest

from jackstay.client import Client, connect
from jackstay.errors import (
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    TimeoutError,
    TransportError,
)
from jackstay.testing import on_fake_clock
from jackstay.transport.http import http
from scripted.http import HANDSHAKE, Mcp, MemoryHttp, Reply, Seen

URL = "http://127.0.0.1/sse"


class LegacyServer:
    """A server of 2024-11-05. POSTs to the stream's URL are rejected."""

    def __init__(self, endpoint: bytes = b"/messages?session=1", refusal: int = 405) -> None:
        self.endpoint = endpoint
        self.refusal = refusal
        self.stream: Reply | None = None
        self.inner = Mcp("2024-11-05")
        self.posted: list[Seen] = []
        self.status = 202
        self.is_silent = False
        self.first: bytes = b""

    async def __call__(self, seen: Seen, reply: Reply) -> None:
        if seen.method == "GET":
            self.stream = reply
            reply.sse()
            if self.first:
                reply.write(self.first)
            reply.event(self.endpoint, event="endpoint")
            await reply.gone.wait()
        elif seen.path == "/sse":
            reply.send(self.refusal)
        else:
            self.posted.append(seen)
            await self.answer(seen, reply)

    async def answer(self, seen: Seen, reply: Reply) -> None:
        assert self.stream is not None
        if seen.what not in ("initialize", "notifications/initialized") and self.status != 202:
            reply.send(self.status, b"sorry", "text/plain")
            return
        reply.send(202)
        if seen.id is None or (self.is_silent and seen.what != "initialize"):
            return
        if seen.what == "initialize":
            result: Any = self.inner.initialized()
        else:
            result = {"content": [{"type": "text", "text": seen.what}], "tools": []}
        self.stream.event({"jsonrpc": "2.0", "id": seen.id, "result": result})


def client_of(script: Any, **options: Any) -> tuple[Client, MemoryHttp]:
    server = MemoryHttp(script)
    return connect(http(URL, client=server), **options), server


@pytest.mark.parametrize("refusal", [400, 404, 405])
@on_fake_clock
async def test_http_sse_is_tried_last_and_messages_go_to_its_endpoint(refusal: int) -> None:
    """If `initialize` fails with 400, 404 or 405, the client sends a GET and expects an `endpoint` event."""
    old = LegacyServer(refusal=refusal)
    client, server = client_of(old)
    async with client:
        assert client.protocol_version == "2024-11-05"
        assert (await client.tools.call("echo")).text == "tools/call"
        assert await asyncio.gather(*(client.tools.list() for _ in range(5))) == [[]] * 5
    assert [seen.what for seen in server.seen][:4] == ["server/discover", "initialize", "GET", "initialize"]
    assert set(server.urls) == {URL, "http://127.0.0.1/messages?session=1"}
    assert "mcp-protocol-version" not in old.posted[-1].headers
    assert old.stream is not None
    assert old.stream.gone.is_set()
    assert server.received("DELETE") == []


@on_fake_clock
async def test_http_sse_is_remembered_until_it_fails() -> None:
    old = LegacyServer()
    client, server = client_of(old)
    async with client:
        assert old.stream is not None
        old.stream.end()
        await asyncio.sleep(0.1)
        assert client.state == "backoff"
        before = len(server.seen)
        await client.ready(60)
        assert [seen.what for seen in server.seen[before:]][:2] == ["GET", "initialize"]
        new = Mcp(HANDSHAKE)
        server.script = new
        old.stream.end()
        await asyncio.sleep(0.1)
        await client.ready(60)
        assert client.protocol_version == HANDSHAKE


@on_fake_clock
async def test_a_stream_that_does_not_close_does_not_block(caplog: pytest.LogCaptureFixture) -> None:
    """The HTTP client may be the user's, so closing has a time limit."""
    old = LegacyServer()
    client, _ = client_of(old, close_step=2.0)
    gate = asyncio.Event()
    async with client:
        assert old.stream is not None
        close = old.stream.close

        async def close_late() -> None:
            await gate.wait()
            await close()

        old.stream.close = close_late
    gate.set()
    assert "the SSE stream did not close" in caplog.text


@pytest.mark.parametrize("is_cut", [True, False])
@on_fake_clock
async def test_the_end_of_the_stream_is_an_unknown_outcome_for_sent_calls(is_cut: bool) -> None:
    """docs/guarantees.md G2."""
    old = LegacyServer()
    client, _ = client_of(old)
    async with client:
        old.is_silent = True
        call = asyncio.ensure_future(client.tools.call("echo"))
        await asyncio.sleep(1)
        assert old.stream is not None
        if is_cut:
            old.stream.cut()
        else:
            old.stream.end()
        with pytest.raises(OutcomeUnknownError):
            await call
        assert client.state == "backoff"


@on_fake_clock
async def test_a_rejected_message_fails_only_its_call() -> None:
    """docs/guarantees.md G3."""
    old = LegacyServer()
    client, _ = client_of(old)
    async with client:
        old.status = 500
        with pytest.raises(OutcomeUnknownError, match="HTTP 500"):
            await client.tools.call("echo")
        old.status = 413
        with pytest.raises(TransportError, match="HTTP 413"):
            await client.tools.call("echo")
        old.status = 202
        assert (await client.tools.call("echo")).text == "tools/call"


@pytest.mark.parametrize("raised", [TransportError("refused"), ZeroDivisionError("bug")])
@on_fake_clock
async def test_a_message_that_cannot_be_sent_fails_only_its_call(raised: Exception) -> None:
    old = LegacyServer()
    client, _ = client_of(old)
    async with client:
        await client.tools.call("echo")

        async def fail(seen: Seen, reply: Reply) -> None:
            raise raised

        old.answer = fail  # type: ignore[method-assign]  # for the test
        with pytest.raises(McpError, match=r"refused|bug"):
            await client.tools.call("echo")


@on_fake_clock
async def test_a_jsonrpc_error_in_place_of_accepted_is_the_response() -> None:
    old = LegacyServer()
    client, _ = client_of(old)
    async with client:

        async def refuse(seen: Seen, reply: Reply) -> None:
            reply.error(None, -32602, "bad arguments")

        old.answer = refuse  # type: ignore[method-assign]  # for the test
        with pytest.raises(JsonRpcError, match="bad arguments"):
            await client.tools.call("echo")
        client.roots.set(["file:///a"])
        await asyncio.sleep(0.1)
        assert client.state == "ready"


@on_fake_clock
async def test_a_cancelled_call_sends_a_notification() -> None:
    """docs/guarantees.md G11."""
    old = LegacyServer()
    client, _ = client_of(old)
    async with client:
        old.is_silent = True
        with pytest.raises(TimeoutError):
            await client.tools.call("echo", timeout=1)
        await asyncio.sleep(0.1)
        assert [seen.what for seen in old.posted][-1] == "notifications/cancelled"
        assert client.state == "ready"


@pytest.mark.parametrize(
    ("endpoint", "first"),
    [
        (b"http://elsewhere/messages", b""),
        (b"//elsewhere/messages", b""),
        (b"ftp://127.0.0.1/messages", b""),
        (b"\xff", b""),
        (b"/ok", b"data: " + b"x" * 5000 + b"\n\n"),
    ],
)
@on_fake_clock
async def test_an_endpoint_of_another_origin_is_rejected(endpoint: bytes, first: bytes) -> None:
    """The endpoint would receive messages and credentials."""
    old = LegacyServer(endpoint)
    old.first = first
    client, server = client_of(old, max_frame_bytes=4096)
    with pytest.raises(TransportError, match="no MCP server at "):
        await client.open()
    assert set(server.urls) == {URL}
    assert all(reply.gone.is_set() for reply in server.replies if reply.headers.get("content-type"))


@on_fake_clock
async def test_events_before_the_endpoint_are_ignored() -> None:
    old = LegacyServer()
    old.first = b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n'
    client, _ = client_of(old)
    async with client:
        assert client.protocol_version == "2024-11-05"
        assert old.stream is not None
        old.stream.event(b"unknown", event="other")
        assert (await client.tools.call("echo")).text == "tools/call"


@on_fake_clock
async def test_a_stream_without_an_endpoint_is_an_error() -> None:
    async def without_endpoint(seen: Seen, reply: Reply) -> None:
        if seen.method == "GET":
            reply.sse()
            reply.end()
        else:
            reply.send(405)

    client, _ = client_of(without_endpoint)
    with pytest.raises(TransportError, match="no MCP server at "):
        await client.open()


@on_fake_clock
async def test_a_remembered_server_that_fails_is_retried() -> None:
    old = LegacyServer()
    client, server = client_of(old)
    async with client:

        async def unavailable(seen: Seen, reply: Reply) -> None:
            reply.send(503)

        server.script = unavailable
        assert old.stream is not None
        old.stream.end()
        await asyncio.sleep(5)
        server.script = old
        await client.ready(60)
        assert client.protocol_version == "2024-11-05"


@on_fake_clock
async def test_a_remembered_server_that_requires_credentials_is_reported() -> None:
    old = LegacyServer()
    client, server = client_of(old)
    async with client:

        async def unauthorized(seen: Seen, reply: Reply) -> None:
            reply.send(401)

        server.script = unauthorized
        assert old.stream is not None
        old.stream.end()
        await asyncio.sleep(0.1)
        with pytest.raises(McpError, match="HTTP 401"):
            await client.ready(60)
        assert client.state in ("closing", "closed")


@on_fake_clock
async def test_an_event_over_the_limit_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    old = LegacyServer()
    client, _ = client_of(old, max_frame_bytes=4096)
    async with client:
        assert old.stream is not None
        old.stream.write(b"data: " + b"x" * 5000 + b"\n\n")
        assert (await client.tools.call("echo")).text == "tools/call"
        assert "LegacyStream" in repr(client._connection._transport._legacy)  # type: ignore[union-attr]  # internals
        assert "HTTP+SSE" in repr(client._connection._transport)  # type: ignore[union-attr]  # as above
    assert "dropped an event" in caplog.text


@on_fake_clock
async def test_an_invalid_stream_ends_the_connection() -> None:
    old = LegacyServer()
    client, _ = client_of(old)
    async with client:
        assert old.stream is not None
        old.stream.write(b"event: \xff\n\n")
        await asyncio.sleep(0.1)
        assert client.state == "backoff"
        assert isinstance(client._connection.core.cause, ProtocolError)  # type: ignore[union-attr]  # internals
