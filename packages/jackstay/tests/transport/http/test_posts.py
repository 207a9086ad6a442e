"""One POST: headers, responses and failures. On a fake clock, with an in-memory server."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from jackstay.errors import (
    FrameTooLargeError,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    TimeoutError,
    TransportError,
)
from jackstay.testing import on_fake_clock
from scripted.http import HANDSHAKE, STATELESS, Mcp, Reply, Script, Seen
from scripted.http_client import client_of

# --- requests ---------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_headers_of_a_stateless_request_mirror_its_body() -> None:
    """2026-07-28 basic/transports/streamable-http, "Request Metadata"."""
    client, server = client_of(Mcp())
    async with client:
        await client.tools.call("échö", {"text": "hi"})
    probe, call = server.seen
    assert probe.headers["mcp-protocol-version"] == call.headers["mcp-protocol-version"] == STATELESS
    assert (probe.headers["mcp-method"], call.headers["mcp-method"]) == ("server/discover", "tools/call")
    assert call.headers["mcp-name"] == "=?base64?w6ljaMO2?="
    assert call.headers["accept"] == "application/json, text/event-stream"
    assert call.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in call.headers


@on_fake_clock
async def test_a_handshake_request_has_the_session_and_the_negotiated_revision() -> None:
    """2025-11-25 basic/transports: the id is echoed, the version from `initialized` on."""
    client, server = client_of(Mcp("2025-06-18", session="s"))
    async with client:
        await client.tools.call("echo")
    probe, initialize, initialized, listen, call, delete = server.seen
    assert (probe.what, initialize.what, initialized.what) == (
        "server/discover",
        "initialize",
        "notifications/initialized",
    )
    assert "mcp-session-id" not in initialize.headers
    assert "mcp-protocol-version" not in initialize.headers
    for request in (initialized, listen, call, delete):
        assert request.headers["mcp-session-id"] == "s1"
        assert request.headers["mcp-protocol-version"] == "2025-06-18"
    assert "mcp-method" not in call.headers
    assert (listen.method, listen.headers["accept"]) == ("GET", "text/event-stream")
    assert delete.method == "DELETE"


@on_fake_clock
async def test_requests_wait_until_initialized_is_accepted() -> None:
    """2025-11-25 basic/lifecycle: servers reject requests before `notifications/initialized`."""
    gate = asyncio.Event()

    async def slow(seen: Seen, reply: Reply) -> None:
        await gate.wait()
        reply.send(202)

    client, server = client_of(Mcp(HANDSHAKE, notifications__initialized=slow))
    async with client:
        call = asyncio.ensure_future(client.tools.call("echo"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert server.received("tools/call") == []
        gate.set()
        assert (await call).text == "{}"


# --- responses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
@on_fake_clock
async def test_a_response_may_be_json_or_a_stream(version: str) -> None:
    """2025-11-25 "Sending Messages to the Server"; notifications on the stream are delivered."""

    async def stream(seen: Seen, reply: Reply) -> None:
        reply.sse()
        reply.write(b": alive\n\n")
        token = seen.rpc["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": 1}
        reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        reply.event(b"not for us", event="other")
        reply.event({"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}})
        reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
        reply.end()

    client, _ = client_of(Mcp(version, tools__call=stream))
    received: list[Any] = []
    notices: list[str] = []
    client.on_notification(lambda notice: notices.append(notice.method))
    async with client:
        assert (await client.tools.call("echo", on_progress=received.append)).content == []
        await asyncio.sleep(1)
        assert await client.tools.list() != []
    assert [report.progress for report in received] == [1]
    assert "notifications/message" in notices


async def _ends(seen: Seen, reply: Reply) -> None:
    reply.sse()
    reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
    reply.end()


async def _breaks(seen: Seen, reply: Reply) -> None:
    reply.sse()
    reply.cut()


async def _breaks_early(seen: Seen, reply: Reply) -> None:
    reply.cut()


async def _half(seen: Seen, reply: Reply) -> None:
    reply.head(200, {"content-type": "application/json"}, 100)
    reply.write(b'{"jsonrpc":')
    reply.cut()


async def _gateway(seen: Seen, reply: Reply) -> None:
    reply.send(502, b"<html>bad gateway", "text/html", retry_after="7")


async def _throttled(seen: Seen, reply: Reply) -> None:
    reply.send(429, b"", retry_after="3")


async def _page(seen: Seen, reply: Reply) -> None:
    reply.send(200, b"<html>hello", "text/html")


async def _nothing(seen: Seen, reply: Reply) -> None:
    reply.json(b"")


async def _unknown_id(seen: Seen, reply: Reply) -> None:
    reply.result("another", {})


async def _garbage(seen: Seen, reply: Reply) -> None:
    reply.json(b"{]")


async def _array(seen: Seen, reply: Reply) -> None:
    reply.json([{"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}}])


async def _array_event(seen: Seen, reply: Reply) -> None:
    reply.sse()
    reply.event([{"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}}])
    reply.end()


async def _no_result(seen: Seen, reply: Reply) -> None:
    reply.json({"jsonrpc": "2.0", "id": seen.id})


async def _no_result_event(seen: Seen, reply: Reply) -> None:
    reply.sse()
    reply.event({"jsonrpc": "2.0", "id": seen.id, "method": None, "result": {}})
    reply.end()


async def _not_utf8(seen: Seen, reply: Reply) -> None:
    reply.send(500, b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\xff"}}', "application/json")


async def _refused(seen: Seen, reply: Reply) -> None:
    reply.send(403, b"go away", "text/plain")


async def _moved(seen: Seen, reply: Reply) -> None:
    reply.send(307, location="http://elsewhere/mcp")


async def _large(seen: Seen, reply: Reply) -> None:
    reply.json(b'{"x":"' + b"y" * 5000 + b'"}')


async def _large_event(seen: Seen, reply: Reply) -> None:
    reply.sse()
    reply.write(b"data: " + b"y" * 5000)


async def _idle(seen: Seen, reply: Reply) -> None:
    await reply.gone.wait()


async def _unreachable(seen: Seen, reply: Reply) -> None:
    raise TransportError("refused")


async def _raises(seen: Seen, reply: Reply) -> None:
    raise ZeroDivisionError("a bug")


# Fault, error class, may_have_run, message.
FAULTS: list[tuple[Script, type[McpError], bool | None, str]] = [
    (_ends, OutcomeUnknownError, True, "ended without an answer"),
    (_breaks, OutcomeUnknownError, True, "the connection broke"),
    (_breaks_early, OutcomeUnknownError, True, "the connection broke"),
    (_half, OutcomeUnknownError, True, "the connection broke"),
    (_gateway, OutcomeUnknownError, True, "HTTP 502"),
    (_throttled, TransportError, False, "HTTP 429"),
    (_page, ProtocolError, True, "HTTP 200"),
    (_nothing, ProtocolError, True, "the HTTP response is empty"),
    (_unknown_id, ProtocolError, True, "has no response to this request"),
    (_garbage, ProtocolError, True, "has no response to this request"),
    (_array, ProtocolError, True, "has no response to this request"),
    (_array_event, OutcomeUnknownError, True, "ended without an answer"),
    (_no_result, ProtocolError, True, "has no response to this request"),
    (_no_result_event, OutcomeUnknownError, True, "ended without an answer"),
    (_not_utf8, OutcomeUnknownError, True, "HTTP 500"),
    (_refused, TransportError, False, "HTTP 403"),
    (_moved, TransportError, False, "redirected to 'http://elsewhere/mcp'"),
    (_large, FrameTooLargeError, True, "over the limit"),
    (_large_event, FrameTooLargeError, True, "over the limit"),
]


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
@on_fake_clock
async def test_a_failing_request_fails_only_its_call(version: str, subtests: pytest.Subtests) -> None:
    """docs/guarantees.md G2, G3: it fails at once and affects neither other requests nor the state."""
    for fault, kind, may_have_run, message in FAULTS:
        with subtests.test(fault=fault.__name__):
            await fail(fault, kind, may_have_run, message, version)


async def fail(fault: Script, kind: type[McpError], may_have_run: bool, message: str, version: str) -> None:
    client, _ = client_of(Mcp(version, tools__call=fault, tools__list=_idle), max_frame_bytes=4096)
    async with client:
        other = asyncio.ensure_future(client.tools.list())
        started = asyncio.get_running_loop().time()
        with pytest.raises(kind) as raised:
            await client.tools.call("echo")
        assert type(raised.value) is kind
        assert asyncio.get_running_loop().time() == started, "at once"
        assert raised.value.may_have_run is may_have_run
        assert message in str(raised.value)
        assert raised.value.method == "tools/call"
        assert client.state == "ready"
        assert not other.done()
        other.cancel()
        assert await client.ping()


@pytest.mark.parametrize("depth", [129, 1500, 100_000])
@on_fake_clock
async def test_an_extremely_nested_response_is_a_protocol_error(depth: int, caplog: pytest.LogCaptureFixture) -> None:
    """The depth that can be decoded depends on the Python version."""
    nest = b"[" * depth + b"]" * depth

    async def deep(seen: Seen, reply: Reply) -> None:
        reply.json(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (seen.id, nest))

    async def deep_before(seen: Seen, reply: Reply) -> None:
        reply.sse()
        reply.event(b'{"jsonrpc":"2.0","method":"notifications/message","params":%b}' % nest)
        reply.event({"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}})
        reply.end()

    client, _ = client_of(Mcp(tools__call=deep))
    async with client:
        with pytest.raises(ProtocolError) as raised:
            await client.tools.call("echo")
        assert raised.value.may_have_run is True
        assert client.state == "ready"
    client, _ = client_of(Mcp(tools__call=deep_before))
    async with client:
        assert (await client.tools.call("echo")).content == []
    assert "sending a request failed" not in caplog.text


@on_fake_clock
async def test_the_error_message_and_retry_after_of_the_server_are_reported() -> None:
    client, _ = client_of(Mcp(tools__call=_gateway, tools__list=_throttled, prompts__list=_page))
    async with client:
        with pytest.raises(OutcomeUnknownError) as raised:
            await client.tools.call("echo")
        assert raised.value.retry_in == 7
        assert raised.value.details == {"status": 502, "quote": "<html>bad gateway"}
        with pytest.raises(TransportError) as throttled:
            await client.tools.list()
        assert (throttled.value.retry_in, throttled.value.retryable) == (3, True)
        with pytest.raises(ProtocolError) as page:
            await client.prompts.list()
        assert page.value.quote == "<html>hello"


@on_fake_clock
async def test_an_http_client_that_raises_something_else_fails_that_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """If user code raises, the call gets one error and the traceback is logged."""
    client, _ = client_of(Mcp(tools__call=_raises))
    async with client:
        with pytest.raises(OutcomeUnknownError, match="ZeroDivisionError: a bug"):
            await client.tools.call("echo")
        assert client.state == "ready"
    assert "sending a request failed" in caplog.text


@on_fake_clock
async def test_a_jsonrpc_error_is_the_response_with_any_status_and_id() -> None:
    """The official SDK 1.x responds with the id `server-error`."""
    replies = iter([(id, status) for id in ("own", None, "server-error") for status in (200, 400, 500)])

    async def reject(seen: Seen, reply: Reply) -> None:
        id, status = next(replies)
        reply.error(seen.id if id == "own" else id, -32602, "bad", status, data={"x": 1})

    client, server = client_of(Mcp(tools__call=reject))
    async with client:
        for _ in range(9):
            with pytest.raises(JsonRpcError) as raised:
                await client.tools.call("echo")
            assert (raised.value.code, raised.value.message, raised.value.data) == (-32602, "bad", {"x": 1})
    assert len(server.received("tools/call")) == 9


@on_fake_clock
async def test_a_batch_is_a_response_in_revisions_with_batches() -> None:
    """2025-03-26 basic/transports: a server may respond with a batch."""

    async def batch(seen: Seen, reply: Reply) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        reply.json([note, {"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}}])

    client, _ = client_of(Mcp("2025-03-26", tools__call=batch))
    async with client:
        assert (await client.tools.call("echo")).content == []


@on_fake_clock
async def test_a_response_on_another_stream_is_accepted() -> None:
    """2025-11-25 forbids this, but some servers do it. The stream of the call itself is closed."""
    script = Mcp(HANDSHAKE, session="s")
    calls: list[Seen] = []

    async def stall(seen: Seen, reply: Reply) -> None:
        reply.sse()
        calls.append(seen)
        await reply.gone.wait()

    async def get(seen: Seen, reply: Reply) -> None:
        reply.sse()
        while not calls:
            await asyncio.sleep(0.1)
        reply.event({"jsonrpc": "2.0", "id": calls[0].id, "result": {"content": []}})
        await reply.gone.wait()

    script.on.update({"tools/call": stall, "GET": get})
    client, server = client_of(script)
    async with client:
        assert (await client.tools.call("echo")).content == []
        await asyncio.sleep(0.1)
        assert server.replies[server.seen.index(calls[0])].gone.is_set()
        assert server.received("notifications/cancelled") == []


@on_fake_clock
async def test_a_stream_that_does_not_end_after_the_answer_is_closed() -> None:
    """The stream must not occupy a connection."""

    async def endless(seen: Seen, reply: Reply) -> None:
        reply.sse()
        reply.event({"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}})
        await reply.gone.wait()

    client, server = client_of(Mcp(tools__call=endless))
    async with client:
        await client.tools.call("echo")
        assert not server.replies[-1].gone.is_set(), "it may still end"
        assert "<Post tools/call 2>" in repr(client._connection._transport._open)  # type: ignore[union-attr]
        await asyncio.sleep(1.1)
        assert server.replies[-1].gone.is_set()


@on_fake_clock
async def test_a_rejected_notification_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(seen: Seen, reply: Reply) -> None:
        reply.error(None, -32600, "no notices here")

    async def fail(seen: Seen, reply: Reply) -> None:
        reply.send(500)

    script = Mcp(HANDSHAKE, notifications__roots__list_changed=refuse)
    client, _ = client_of(script)
    client.roots.set(["file:///a"])
    async with client:
        client.roots.set(["file:///b"])
        await client.ping()
        assert "no notices here" in caplog.text
        script.on["notifications/roots/list_changed"] = fail
        client.roots.set(["file:///c"])
        await client.ping()
        assert "did not receive notifications/roots/list_changed" in caplog.text
        assert client.state == "ready"


@on_fake_clock
async def test_a_response_whose_connection_is_lost_is_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    """The server waits for it, and accepts it once. What the server refuses is not repeated."""
    received: list[str] = []
    answered = asyncio.Event()

    async def call(seen: Seen, reply: Reply) -> None:
        reply.sse()
        reply.event({"method": "roots/list", "jsonrpc": "2.0", "id": "q"})
        await answered.wait()
        reply.event({"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}})
        reply.end()

    async def answer(seen: Seen, reply: Reply) -> None:
        received.append(seen.rpc["id"])
        if len(received) < 3:
            raise OutcomeUnknownError("the connection was lost")
        answered.set()
        reply.send(202 if len(received) == 3 else 400)

    script = Mcp(HANDSHAKE, session="s")
    script.on.update({"tools/call": call, "response": answer})
    client, _ = client_of(script)
    client.roots.set(["file:///a"])
    async with client:
        for count in (3, 4):
            answered.clear()
            assert (await client.tools.call("echo")).content == []
            assert received == ["q"] * count
        await client.ping()
    assert "the server did not receive a response" in caplog.text


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize("has_body", [True, False])
def test_a_response_that_a_server_cannot_process_now_is_sent_again(status: int, has_body: bool) -> None:
    """Its store may be down, so that it cannot pass the response on. The server that waits for it waits on."""

    @on_fake_clock
    async def test() -> None:
        answered, received = asyncio.Event(), []

        async def call(seen: Seen, reply: Reply) -> None:
            reply.sse()
            reply.event({"method": "roots/list", "jsonrpc": "2.0", "id": "q"})
            await answered.wait()
            reply.event({"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}})
            reply.end()

        async def answer(seen: Seen, reply: Reply) -> None:
            received.append(asyncio.get_running_loop().time())
            if len(received) == 4:
                answered.set()
                reply.send(202)
                return
            error = {"code": -32603, "message": "the session store is unavailable"}
            body = json.dumps({"jsonrpc": "2.0", "error": error}).encode() if has_body else b""
            reply.send(status, body, "application/json" if has_body else "text/html", retry_after="1")

        script = Mcp(HANDSHAKE, session="s")
        script.on.update({"tools/call": call, "response": answer})
        client, _ = client_of(script)
        client.roots.set(["file:///a"])
        async with client:
            assert (await client.tools.call("echo")).content == []
        pauses = [after - before for before, after in pairwise(received)]
        assert pauses == pytest.approx([1.0, 1.0, 2.0], abs=0.1)

    test()


# --- cancelling -------------------------------------------------------------------------------------------------------


async def _silent_stream(seen: Seen, reply: Reply) -> None:
    reply.sse()
    await reply.gone.wait()


@pytest.mark.parametrize("script", [_idle, _silent_stream], ids=["before the headers", "on a stream"])
@on_fake_clock
async def test_a_cancelled_stateless_call_closes_its_response(script: Script) -> None:
    """docs/guarantees.md G11: the response is closed, even a JSON response; no notification is sent."""
    client, server = client_of(Mcp(tools__call=script), hang_timeout=None)
    async with client:
        call = asyncio.ensure_future(client.tools.call("echo"))
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.sleep(0.1)
        assert server.replies[-1].gone.is_set()
        with pytest.raises(TimeoutError):
            await client.tools.call("echo", timeout=1)
        await asyncio.sleep(0)
        last = server.seen.index(server.received("tools/call")[-1])  # followed by a liveness check
        assert server.replies[last].gone.is_set()
        assert server.received("notifications/cancelled") == []


@on_fake_clock
async def test_a_cancelled_handshake_call_sends_a_notification_and_closes_its_response() -> None:
    """docs/guarantees.md G11: exactly one notification; then the response is closed."""
    client, server = client_of(Mcp(HANDSHAKE, tools__call=_silent_stream))
    async with client:
        with pytest.raises(TimeoutError):
            await client.tools.call("echo", timeout=1)
        await asyncio.sleep(0.1)
        call = server.seen.index(server.received("tools/call")[0])
        assert [seen.rpc["params"]["requestId"] for seen in server.received("notifications/cancelled")] == [
            server.seen[call].id
        ]
        assert server.replies[call].gone.is_set()


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
@pytest.mark.parametrize("form", ["json", "event stream"])
@on_fake_clock
async def test_a_response_that_is_nested_too_deeply_fails_at_once(form: str, version: str) -> None:
    """The call fails at once even if the server keeps the stream open."""
    for depth in (150, 995, 1_000, 20_000):
        await fail_by_depth(depth, form, version)


async def fail_by_depth(depth: int, form: str, version: str) -> None:

    async def call(seen: Seen, reply: Reply) -> None:
        deep = b"[" * depth + b"]" * depth
        answer = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"x":%b}}}' % (
            seen.id,
            deep,
        )
        if form == "json":
            reply.json(answer)
        else:
            reply.sse()
            reply.event(answer)
            await reply.gone.wait()

    client, _ = client_of(Mcp(version, tools__call=call))
    async with client:
        started = asyncio.get_running_loop().time()
        with pytest.raises(ProtocolError, match="nested more than 128 deep") as raised:
            await client.tools.call("echo")
        assert raised.value.may_have_run is True
        assert asyncio.get_running_loop().time() == started
        assert client.state == "ready"
