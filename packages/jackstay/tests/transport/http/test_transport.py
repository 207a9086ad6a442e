"""The HTTP transport with a real client, on a fake clock: lost connections, header params, and the transport contract.

Revision detection, sessions and queued requests are in `test_transport_eras`, `_sessions` and `_waiting`.
"""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import (
    McpError,
    OutcomeUnknownError,
    TimeoutError,
    TransportError,
    UsageError,
)
from jackstay.testing import on_fake_clock
from jackstay.testing.transport_suite import RecordingHandler
from jackstay.transport import ExchangeHandler, ExchangeTransport
from jackstay.transport.http import http
from scripted.http import HANDSHAKE, Mcp, MemoryHttp, Reply, Script, Seen
from scripted.http_client import URL, client_of, idle, turns, unreachable

# --- going down -------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_the_transport_goes_down_only_if_it_cannot_connect_and_nothing_is_open() -> None:
    gate = asyncio.Event()

    async def slow(seen: Seen, reply: Reply) -> None:
        await gate.wait()
        reply.result(seen.id, {"tools": []})

    script = Mcp(tools__list=slow, tools__call=unreachable)
    client, _ = client_of(script)
    async with client:
        listing = asyncio.ensure_future(client.tools.list())
        await turns()
        with pytest.raises(TransportError, match="cannot connect") as raised:
            await client.tools.call("echo")
        assert raised.value.may_have_run is False
        assert client.state == "ready"
        gate.set()
        await listing
        with pytest.raises(TransportError):
            await client.tools.call("echo")
        assert client.state == "backoff"
        await client.ready(60)
        assert client.state == "ready"


@on_fake_clock
async def test_calls_that_all_fail_to_connect_lose_the_connection_once() -> None:
    script = Mcp(tools__call=unreachable)
    client, _ = client_of(script)
    downs: list[str] = []
    client.on_event(lambda name, fields: downs.append(fields["to"]) if "to" in fields else None)
    async with client:
        calls = [client.tools.call("echo") for _ in range(5)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in ended] == [TransportError] * 5
        assert downs.count("backoff") == 1


@on_fake_clock
async def test_a_refused_first_connect_is_retried_and_then_reported() -> None:
    client, server = client_of(unreachable, max_attempts=3)
    with pytest.raises(TransportError, match="cannot connect") as raised:
        await client.open()
    assert raised.value.details["attempts"] == 3
    assert [seen.what for seen in server.seen] == ["server/discover"] * 3


@on_fake_clock
async def test_the_default_http_client_is_closed_with_the_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MemoryHttp] = []

    def make(**options: Any) -> MemoryHttp:
        made.append(MemoryHttp(Mcp()))
        return made[-1]

    monkeypatch.setattr("jackstay.transport.http._target.default_http_client", make)
    async with connect(http(URL)) as client:
        assert client.state == "ready"
        assert not made[0].is_closed
    assert made[0].is_closed
    assert len(made) == 1


@on_fake_clock
async def test_an_http_client_that_does_not_close_does_not_block(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class HangingHttp(MemoryHttp):
        async def close(self) -> None:
            await super().close()
            await asyncio.sleep(1000)

    monkeypatch.setattr("jackstay.transport.http._target.default_http_client", lambda **_: HangingHttp(Mcp()))
    async with connect(http(URL), close_step=2.0):
        pass
    assert "did not close" in caplog.text


# --- arguments in headers ---------------------------------------------------------------------------------------------


def _tool(name: str, header: str | None = None, **more: Any) -> dict[str, Any]:
    region = {"type": "string"} | ({} if header is None else {"x-mcp-header": header})
    return {"name": name, "inputSchema": {"type": "object", "properties": {"region": region}}, **more}


def _lists(*tools: dict[str, Any]) -> Script:
    async def list_(seen: Seen, reply: Reply) -> None:
        reply.result(seen.id, {"tools": tools, "resultType": "complete", "ttlMs": 60000, "cacheScope": "private"})

    return list_


@on_fake_clock
async def test_header_params_are_sent_once_the_tool_was_listed() -> None:
    """2026-07-28 "Custom Headers from Tool Parameters"."""
    client, server = client_of(Mcp(tools__list=_lists(_tool("query", "Region"))))
    async with client:
        await client.tools.list()
        await client.tools.call("query", {"region": "eu ☃"})
        await client.tools.call("query", {})
        with pytest.raises(UsageError, match="must be a string"):
            await client.tools.call("query", {"region": 1})
    first, second = server.received("tools/call")
    assert first.headers["mcp-param-region"] == "=?base64?ZXUg4piD?="
    assert "mcp-param-region" not in second.headers


@on_fake_clock
async def test_tools_with_invalid_header_params_are_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """HTTP clients MUST drop them, with a warning. `x-mcp-header` has no meaning before 2026-07-28."""
    tools = (_tool("good"), _tool("bad", "no header name"))
    client, _ = client_of(Mcp(tools__list=_lists(*tools)))
    async with client:
        assert [tool.name for tool in await client.tools.list()] == ["good"]
    assert "tool 'bad' is omitted" in caplog.text
    client, _ = client_of(Mcp(HANDSHAKE, tools__list=_lists(*tools)))
    async with client:
        assert [tool.name for tool in await client.tools.list()] == ["good", "bad"]


@on_fake_clock
async def test_a_header_mismatch_leads_to_a_new_list_and_one_retry() -> None:
    """On -32020 (HeaderMismatch) the client lists the tools again and retries once."""

    async def call(seen: Seen, reply: Reply) -> None:
        if "mcp-param-region" in seen.headers:
            reply.result(seen.id, {"content": []})
        else:
            reply.error(seen.id, -32020, "Mcp-Param-Region is missing")

    script = Mcp(tools__list=_lists(_tool("query")), tools__call=call)
    client, server = client_of(script)
    async with client:
        await client.tools.list()
        script.on["tools/list"] = _lists(_tool("query", "Region"))
        assert (await client.tools.call("query", {"region": "eu"})).content == []
        assert len(server.received("tools/call")) == 2
        script.on["tools/list"] = _lists(_tool("query"))
        client.cache.clear()
        await client.tools.list()
        with pytest.raises(McpError, match="Mcp-Param-Region"):
            await client.tools.call("query", {"region": "eu"})
        assert len(server.received("tools/call")) == 4, "one retry"


# --- transport contract -----------------------------------------------------------------------------------------------


class ExchangeRecordingHandler(RecordingHandler):
    """A recording handler with the callbacks of single requests."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[tuple[int, McpError, bool]] = []
        self.sessions: list[int] = []
        self.calls: list[tuple[str, int]] = []

    def exchange_lost(self, id: int, error: McpError, was_declined: bool) -> None:
        self.lost.append((id, error, was_declined))
        self._changed.set()

    def session_lost(self, id: int) -> None:
        self.sessions.append(id)
        self._changed.set()

    def queued(self, id: int) -> None:
        self.calls.append(("queued", id))

    def started(self, id: int) -> None:
        self.calls.append(("started", id))

    def header_params(self, tool: str) -> tuple[()]:
        return ()


def _request(id: int, method: str = "tools/list") -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b"}' % (id, method.encode())


async def open_transport(script: Script, **shape: Any) -> tuple[Any, ExchangeRecordingHandler, MemoryHttp]:
    server, handler = MemoryHttp(script), ExchangeRecordingHandler()
    transport = await http(URL, client=server, **shape).open(handler, 4096, 2.0)
    handler.transport = transport
    assert isinstance(transport, ExchangeTransport)
    assert isinstance(handler, ExchangeHandler)
    return transport, handler, server


@on_fake_clock
async def test_a_handler_that_is_not_an_exchange_handler_is_rejected() -> None:
    with pytest.raises(UsageError, match="ExchangeHandler"):
        await http(URL, client=MemoryHttp(Mcp())).open(RecordingHandler(), 4096, 2.0)


@on_fake_clock
async def test_queued_requests_can_be_withdrawn_and_flush_waits_for_the_rest() -> None:
    gate = asyncio.Event()

    async def slow(seen: Seen, reply: Reply) -> None:
        await gate.wait()
        reply.result(seen.id, {})

    transport, handler, server = await open_transport(slow, max_connections=1)
    assert await transport.flush()
    assert transport.send(_request(1), 1)
    assert transport.send(_request(2), 2)
    assert transport.send(_request(3), 3)
    assert "open=1 waiting=2" in repr(transport)
    assert not transport.withdraw(1), "it is in flight"
    assert transport.withdraw(2)
    assert not transport.withdraw(2)
    assert handler.calls == [("queued", 2), ("queued", 3)]
    flushing = asyncio.ensure_future(transport.flush())
    await turns()
    assert not flushing.done()
    gate.set()
    assert await flushing
    assert [seen.id for seen in server.seen] == [1, 3]
    assert handler.calls[2:] == [("started", 3)]
    assert [b'"id": 1' in handler.frames[0], b'"id": 3' in handler.frames[1]] == [True, True]
    await transport.close()
    await transport.close()
    assert not transport.send(_request(4), 4)
    assert not await transport.flush()


@on_fake_clock
async def test_a_large_frame_waits_only_behind_an_empty_queue() -> None:
    """The contract: an empty queue accepts any legal frame; otherwise its limit is 8 MiB."""
    transport, _, _ = await open_transport(idle, max_connections=1)
    big = b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"x":"%b"}}' % (b"y" * 8 * 1024 * 1024)
    assert transport.send(_request(1), 1)
    assert transport.send(big, 2)
    assert not transport.send(_request(3), 3)
    await transport.close()


@on_fake_clock
async def test_flush_ends_when_the_transport_does() -> None:
    transport, handler, _ = await open_transport(idle)
    transport.send(_request(1), 1)
    flushing = asyncio.ensure_future(transport.flush())
    await turns()
    await transport.close()
    assert await flushing is False
    assert handler.ends == [], "never after close"


@on_fake_clock
async def test_after_stop_writing_no_request_is_sent_that_was_not_begun() -> None:
    transport, handler, server = await open_transport(idle, max_connections=2)
    assert transport.send(_request(1), 1)
    await turns()
    assert transport.send(_request(2), 2)  # its task has not run yet
    assert transport.send(_request(3), 3)  # queued
    flushing = asyncio.ensure_future(transport.flush())
    transport.stop_writing()
    assert not transport.send(_request(4), 4)
    assert not transport.withdraw(3)
    assert await flushing is False
    await turns()
    assert [seen.id for seen in server.seen] == [1]
    await transport.close()
    assert [seen.id for seen in server.seen] == [1]
    assert handler.ends == []


@on_fake_clock
async def test_a_frame_that_is_not_a_message_is_rejected() -> None:
    transport, _, _ = await open_transport(idle)
    with pytest.raises(UsageError, match="not a JSON-RPC message"):
        transport.send(b"[]", 1)
    transport.abort(99)
    await transport.close()


@on_fake_clock
async def test_a_transport_that_is_down_accepts_nothing() -> None:
    transport, handler, _ = await open_transport(unreachable)
    transport.send(_request(1), 1)
    await handler.until(lambda: handler.ends)
    assert [(id, str(error), was_declined) for id, error, was_declined in handler.lost] == [
        (1, "cannot connect", False)
    ]
    assert handler.ends[0][1:] == (None, True)
    assert not transport.send(_request(2), 2)
    await transport.close()


@on_fake_clock
async def test_a_timeout_in_the_queue_is_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """docs/guarantees.md G11: the deadline includes the time in the queue."""
    caplog.set_level(logging.INFO)
    client, server = client_of(Mcp(tools__call=idle), max_connections=1)
    async with client:
        first = asyncio.ensure_future(client.tools.call("echo"))
        await turns()
        with pytest.raises(TimeoutError):
            await client.tools.call("echo", timeout=1)
        assert len(server.received("tools/call")) == 1
        first.cancel()


@on_fake_clock
async def test_calls_are_not_replayed_by_default() -> None:
    """docs/guarantees.md G7. `replay="safe"` sends safe requests again after a lost connection."""
    count = 0

    async def cut(seen: Seen, reply: Reply) -> None:
        nonlocal count
        count += 1
        reply.cut()

    client, _ = client_of(Mcp(tools__list=cut))
    async with client:
        with pytest.raises(OutcomeUnknownError):
            await client.tools.list()
    assert count == 1
