"""`client.forwarding`: encoded requests and notifications, with the ids, deadlines and recovery of every call."""

import asyncio
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import JsonRpcError, ProtocolError, StateError
from jackstay.testing import ScriptedPeer, on_fake_clock
from scripted.peer import ERAS, STATELESS, opened, peered


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_params_and_results_are_bytes_that_are_not_decoded(version: str) -> None:
    async with opened(version) as (client, peer):
        call = client.forwarding.call("org.example/own", b'{"z":1.50,"a":[ ]}', meta=b'"m":1')
        request = await peer.expect("org.example/own")
        assert b'"z":1.50,"a":[ ]}' in peer.frames[-1]
        assert request.params["_meta"]["m"] == 1
        peer.send(b'{"jsonrpc":"2.0","id":%d,"result":{ "x" : 1.50 }}' % request.id)
        assert await call.future == b'{ "x" : 1.50 }'


@on_fake_clock
async def test_a_request_carries_on_behalf_of() -> None:
    async with opened(STATELESS) as (client, peer):
        client.forwarding.call(
            "tools/call", b"{}", on_behalf_of=b'"io.modelcontextprotocol/clientCapabilities":{"x":1}'
        )
        meta = (await peer.expect("tools/call")).params["_meta"]
        assert meta == {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {"x": 1},
        }


@on_fake_clock
async def test_without_a_timeout_a_call_does_not_time_out() -> None:
    async with opened(request_timeout=1.0) as (client, peer):
        call = client.forwarding.call("tools/call", b"{}")
        await asyncio.sleep(10_000)
        (await peer.expect("tools/call")).respond({"late": True})
        assert await call.future == b'{"late": true}'
        with pytest.raises(TimeoutError):
            await client.forwarding.call("tools/call", b"{}", timeout=5).future


@on_fake_clock
async def test_progress_is_requested_for_a_handler() -> None:
    async with opened() as (client, peer):
        seen: list[Any] = []
        call = client.forwarding.call("tools/call", b"{}", on_progress=lambda message: seen.append(message.raw))
        request = await peer.expect("tools/call")
        request.progress(1, 2)
        await asyncio.sleep(0.1)
        request.respond()
        await call.future
        assert [report["progress"] for report in seen] == [1]


@on_fake_clock
async def test_cancel_call_notifies_the_server() -> None:
    async with opened() as (client, peer):
        call = client.forwarding.call("tools/call", b"{}")
        request = await peer.expect("tools/call")
        client.forwarding.cancel_call(call)
        assert (await peer.expect("notifications/cancelled")).params["requestId"] == request.id


@on_fake_clock
async def test_a_result_that_is_not_an_object_is_refused() -> None:
    async with opened() as (client, peer):
        for result in (b"5", b"[]", b"null"):
            call = client.forwarding.call("tools/call", b"{}")
            request = await peer.expect("tools/call")
            peer.send(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (request.id, result))
            with pytest.raises(ProtocolError) as caught:
                await call.future
            assert caught.value.may_have_run is True


@on_fake_clock
async def test_every_request_of_the_server_goes_to_one_handler() -> None:
    async with peered(capabilities={"sampling": {}}) as (client, peer):

        async def respond(method: str, params: bytes) -> bytes:
            if method == "roots/list":
                raise JsonRpcError(-5, "no", {"a": 1})
            return b'{"got":%b}' % params

        client.forwarding.handle_requests(respond)
        await client.open()
        assert (await peer.expect("initialize")).params["capabilities"] == {"sampling": {}}
        peer.request("one", "sampling/createMessage", {"x": 1})
        assert (await peer.response_to("one"))["result"] == {"got": {"x": 1}}
        peer.request("two", "roots/list")
        assert (await peer.response_to("two"))["error"] == {"code": -5, "message": "no", "data": {"a": 1}}


@on_fake_clock
async def test_notifications_are_sent_and_received_as_bytes() -> None:
    async with opened() as (client, peer):
        seen: list[bytes] = []
        client.on_notification(lambda message: seen.append(message.raw))
        client.forwarding.notify("notifications/own", b'{"a":1.50}')
        await peer.expect("notifications/own")
        assert peer.frames[-1].endswith(b'"params":{"a":1.50}}')
        peer.send(b'{"jsonrpc":"2.0","method":"notifications/its","params":{ "b":1.50 }}')
        await asyncio.sleep(0.1)
        assert seen == [b'{ "b":1.50 }']


@on_fake_clock
async def test_on_state_is_called_for_every_change_and_cause_is_available() -> None:
    async with peered(backoff_min=1.0) as (client, peer):
        states: list[str] = []
        client.forwarding.on_state = states.append
        await client.open()
        assert client.forwarding.facts.version == "2025-11-25"
        assert client.forwarding.cause is None
        peer.crash()
        await asyncio.sleep(0.01)
        assert "cut" in str(client.forwarding.cause)
        await client.ready(60)
        opening = ["starting", "initializing", "ready"]
        assert states == [*opening, "backoff", *opening]


@on_fake_clock
async def test_a_closed_client_has_no_connection() -> None:
    async with peered() as (client, _):
        with pytest.raises(StateError):
            client.forwarding.call("ping", b"{}")
        with pytest.raises(StateError):
            _ = client.forwarding.facts


@on_fake_clock
async def test_a_call_as_bytes_never_waits_for_ready() -> None:
    """Its params are for one era, and the next connection may negotiate the other."""
    async with opened() as (client, peer):
        peer.crash()
        await peer.until(lambda: client.state == "backoff")
        with pytest.raises(StateError):
            await client.forwarding.call("tools/call", b"{}", timeout=1.0).future


# --- notifications ----------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_an_invalid_progress_notification_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedPeer() as peer:
        client = connect(peer.target)
        seen: list[Any] = []
        client.forwarding.on_message = lambda *_: None
        await client.open()
        call = client.forwarding.call(
            "tools/call", b'{"name":"t"}', on_progress=lambda report: seen.append(report.progress)
        )
        request = await peer.expect("tools/call")
        peer.notify("notifications/progress", progressToken=request.params["_meta"]["progressToken"])
        request.progress(2)
        request.respond({"content": []})
        await call.future
        assert seen == [2]
        assert "invalid progress notification" in caplog.text
        await client.stop()


@on_fake_clock
async def test_every_notification_and_report_arrives_at_once_and_in_order() -> None:
    async with ScriptedPeer() as peer:
        client = connect(peer.target)
        seen: list[Any] = []
        client.forwarding.on_message = lambda method, params, source: seen.append((method, source))
        client.on_notification(lambda _: seen.append("not here"))
        await client.open()
        call = client.forwarding.call(
            "tools/call", b'{"name":"t"}', on_progress=lambda report: seen.append(report.progress)
        )
        request = await peer.expect("tools/call")
        for step in (1, 2, 3):
            request.progress(step)
        peer.notify("notifications/message", level="info", data="x")
        request.progress(4)
        request.respond({"content": []})
        await call.future
        assert seen == [1, 2, 3, ("notifications/message", 0), 4]
        await client.stop()
