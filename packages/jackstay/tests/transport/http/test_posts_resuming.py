"""Resuming the stream of a POST, and the outcome if that is not possible."""

import asyncio
from typing import Any

import pytest

from jackstay.errors import (
    OutcomeUnknownError,
    TransportError,
)
from jackstay.testing import on_fake_clock
from scripted.http import HANDSHAKE, Mcp, Reply, Seen
from scripted.http_client import client_of


class Polling:
    """A server that responds on a later stream (2025-11-25 "Sending Messages to the Server")."""

    def __init__(self, polls: int = 1, retry: int | None = 500) -> None:
        self.polls = polls
        self.retry = retry
        self.id: Any = None
        self.opened: list[float] = []
        self.closed: list[float] = []
        self.status = 200

    async def call(self, seen: Seen, reply: Reply) -> None:
        self.id = seen.id
        self._prime(reply)

    async def get(self, seen: Seen, reply: Reply) -> None:
        if "last-event-id" not in seen.headers:
            reply.send(405)
            return
        self.opened.append(asyncio.get_running_loop().time())
        assert seen.headers["last-event-id"] == f"e{len(self.closed)}"
        if self.status != 200:
            reply.send(self.status)
            return
        if len(self.closed) < self.polls:
            self._prime(reply)
            return
        reply.sse()
        reply.event({"jsonrpc": "2.0", "id": self.id, "result": {"content": []}}, id="last")
        reply.end()

    def _prime(self, reply: Reply) -> None:
        reply.sse()
        reply.event(b"", id=f"e{len(self.closed) + 1}", retry=self.retry)
        reply.end()
        self.closed.append(asyncio.get_running_loop().time())


@pytest.mark.parametrize(("retry", "wait"), [(500, 0.5), (None, 1.0), (0, 0.05)])
@on_fake_clock
async def test_a_stream_that_ends_without_its_answer_is_resumed_after_retry(retry: int | None, wait: float) -> None:
    """2025-11-25: "the client MUST respect the retry field, waiting the given number of milliseconds"."""
    polling = Polling(3, retry)
    client, _ = client_of(Mcp(HANDSHAKE, session="s", tools__call=polling.call, GET=polling.get))
    async with client:
        assert (await client.tools.call("echo")).content == []
    waits = [opened - closed for opened, closed in zip(polling.opened, polling.closed, strict=True)]
    assert waits == pytest.approx([wait] * 3)


@on_fake_clock
async def test_a_rejected_resumption_is_an_unknown_outcome() -> None:
    """docs/guarantees.md G2."""
    polling = Polling()
    polling.status = 400
    client, _ = client_of(Mcp(HANDSHAKE, session="s", tools__call=polling.call, GET=polling.get))
    async with client:
        with pytest.raises(OutcomeUnknownError, match="the server rejected resuming it"):
            await client.tools.call("echo")
        assert client.state == "ready"


@on_fake_clock
async def test_an_error_while_resuming_is_an_unknown_outcome() -> None:
    """docs/guarantees.md G2: an invalid event id is an error of the GET; the call may have run."""

    async def unsendable(seen: Seen, reply: Reply) -> None:
        reply.sse()
        reply.event(b"", id="e" * 5000, retry=0)
        reply.end()

    client, _ = client_of(Mcp(HANDSHAKE, session="s", tools__call=unsendable))
    async with client:
        with pytest.raises(OutcomeUnknownError, match="cannot be resumed: the last event id") as raised:
            await client.tools.call("echo")
        assert raised.value.may_have_run is True
        assert client.state == "ready"


@pytest.mark.parametrize("status", [503, 429])
@on_fake_clock
async def test_resuming_is_retried_with_backoff_and_a_limit(status: int) -> None:
    polling = Polling()
    polling.status = status
    client, _ = client_of(Mcp(HANDSHAKE, session="s", tools__call=polling.call, GET=polling.get))
    async with client:
        with pytest.raises(OutcomeUnknownError, match="could not be resumed"):
            await client.tools.call("echo", timeout=None, max_timeout=None)
        waits = [b - a for a, b in zip(polling.opened, polling.opened[1:], strict=False)]
        assert waits[:3] == pytest.approx([2, 4, 8])
        assert max(waits) <= 30


@on_fake_clock
async def test_resuming_succeeds_after_an_outage() -> None:
    polling = Polling()
    unreachable = 2

    async def get(seen: Seen, reply: Reply) -> None:
        nonlocal unreachable
        if "last-event-id" in seen.headers and unreachable:
            unreachable -= 1
            raise TransportError("refused")
        await polling.get(seen, reply)

    client, _ = client_of(Mcp(HANDSHAKE, session="s", tools__call=polling.call, GET=get))
    async with client:
        assert (await client.tools.call("echo")).content == []
        assert client.state == "ready"


@on_fake_clock
async def test_a_lost_stream_with_an_event_id_is_resumed() -> None:
    """2025-11-25 "Resumability and Redelivery"."""

    async def cut(seen: Seen, reply: Reply) -> None:
        polling.id = seen.id
        reply.sse()
        reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}, id="e1")
        polling.closed.append(0.0)
        reply.cut()

    polling = Polling()
    client, _ = client_of(Mcp(HANDSHAKE, session="s", tools__call=cut, GET=polling.get))
    async with client:
        assert (await client.tools.call("echo")).content == []


@on_fake_clock
async def test_a_stateless_stream_is_never_resumed() -> None:
    """2026-07-28: no event ids; a broken stream loses the request."""
    polling = Polling()
    client, server = client_of(Mcp(tools__call=polling.call, GET=polling.get))
    async with client:
        with pytest.raises(OutcomeUnknownError, match="ended without an answer"):
            await client.tools.call("echo")
    assert server.received("GET") == []


@on_fake_clock
async def test_the_response_to_initialize_may_be_on_a_resumed_stream() -> None:
    script = Mcp(HANDSHAKE)

    async def begin(seen: Seen, reply: Reply) -> None:
        polling.id = seen.id
        reply.sse(mcp_session_id="s1")
        script.sessions.append("s1")
        reply.event(b"", id="e1", retry=10)
        reply.end()
        polling.closed.append(0.0)

    async def get(seen: Seen, reply: Reply) -> None:
        if "last-event-id" not in seen.headers:
            reply.send(405)
            return
        assert seen.headers["mcp-session-id"] == "s1"
        reply.sse()
        reply.event({"jsonrpc": "2.0", "id": polling.id, "result": script.initialized()})
        reply.end()

    polling = Polling()
    script.on.update(initialize=begin, GET=get)
    client, _ = client_of(script)
    async with client:
        assert client.protocol_version == HANDSHAKE
