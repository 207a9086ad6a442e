"""`client.wire`: bytes in, bytes out, and everything below as for any other call."""

import asyncio
from typing import Any

import pytest

from jackstay.errors import JsonRpcError, ProtocolError, StateError
from jackstay.testing import on_fake_clock
from scripted.peer import ERAS, STATELESS, opened, peered


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_params_and_results_are_bytes_that_nobody_reads(version: str) -> None:
    async with opened(version) as (client, peer):
        call = client.wire.call("org.example/own", b'{"z":1.50,"a":[ ]}', meta=b'"m":1')
        heard = await peer.expect("org.example/own")
        assert b'"z":1.50,"a":[ ]}' in peer.frames[-1]
        assert heard.params["_meta"]["m"] == 1
        peer.send(b'{"jsonrpc":"2.0","id":%d,"result":{ "x" : 1.50 }}' % heard.id)
        assert await call.future == b'{ "x" : 1.50 }'


@on_fake_clock
async def test_a_request_says_for_whom_it_is_made() -> None:
    async with opened(STATELESS) as (client, peer):
        client.wire.call("tools/call", b"{}", speaker=b'"io.modelcontextprotocol/clientCapabilities":{"x":1}')
        meta = (await peer.expect("tools/call")).params["_meta"]
        assert meta == {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {"x": 1},
        }


@on_fake_clock
async def test_without_a_timeout_it_may_take_for_ever_and_with_one_it_may_not() -> None:
    async with opened(request_timeout=1.0) as (client, peer):
        call = client.wire.call("tools/call", b"{}")
        await asyncio.sleep(10_000)
        (await peer.expect("tools/call")).answer({"late": True})
        assert await call.future == b'{"late": true}'
        with pytest.raises(TimeoutError):
            await client.wire.call("tools/call", b"{}", timeout=5).future


@on_fake_clock
async def test_progress_is_asked_for_where_somebody_listens() -> None:
    async with opened() as (client, peer):
        seen: list[Any] = []
        call = client.wire.call("tools/call", b"{}", on_progress=lambda one: seen.append(one.raw))
        heard = await peer.expect("tools/call")
        heard.progress(1, 2)
        await asyncio.sleep(0.1)
        heard.answer()
        await call.future
        assert [one["progress"] for one in seen] == [1]


@on_fake_clock
async def test_a_call_that_is_given_up_is_cancelled_on_the_wire() -> None:
    async with opened() as (client, peer):
        call = client.wire.call("tools/call", b"{}")
        heard = await peer.expect("tools/call")
        client.wire.give_up(call)
        assert (await peer.expect("notifications/cancelled")).params["requestId"] == heard.id


@pytest.mark.parametrize("result", [b"5", b"[]", b"null"])
@on_fake_clock
async def test_a_result_that_is_no_object_is_refused(result: bytes) -> None:
    async with opened() as (client, peer):
        call = client.wire.call("tools/call", b"{}")
        heard = await peer.expect("tools/call")
        peer.send(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (heard.id, result))
        with pytest.raises(ProtocolError) as told:
            await call.future
        assert told.value.may_have_run is True


@on_fake_clock
async def test_every_request_of_the_server_goes_to_one_handler() -> None:
    async with peered(capabilities={"sampling": {}}) as (client, peer):

        async def answer(method: str, params: bytes) -> bytes:
            if method == "roots/list":
                raise JsonRpcError(-5, "no", {"a": 1})
            return b'{"said":%b}' % params

        client.wire.answer_with(answer)
        await client.open()
        assert (await peer.expect("initialize")).params["capabilities"] == {"sampling": {}}
        peer.ask("one", "sampling/createMessage", {"x": 1})
        assert (await peer.answer_to("one"))["result"] == {"said": {"x": 1}}
        peer.ask("two", "roots/list")
        assert (await peer.answer_to("two"))["error"] == {"code": -5, "message": "no", "data": {"a": 1}}


@on_fake_clock
async def test_a_notification_is_sent_and_one_that_came_is_there_as_it_came() -> None:
    async with opened() as (client, peer):
        seen: list[bytes] = []
        client.on_notification(lambda one: seen.append(one.raw))
        client.wire.notify("notifications/own", b'{"a":1.50}')
        await peer.expect("notifications/own")
        assert peer.frames[-1].endswith(b'"params":{"a":1.50}}')
        peer.send(b'{"jsonrpc":"2.0","method":"notifications/its","params":{ "b":1.50 }}')
        await asyncio.sleep(0.1)
        assert seen == [b'{ "b":1.50 }']


@on_fake_clock
async def test_who_listens_hears_every_change_of_state_and_can_ask_why() -> None:
    async with peered(backoff_min=1.0) as (client, peer):
        states: list[str] = []
        client.wire.on_state = states.append
        await client.open()
        assert client.wire.facts.version == "2025-11-25"
        assert client.wire.cause is None
        peer.die()
        await asyncio.sleep(0.01)
        assert "cut" in str(client.wire.cause)
        await client.ready(10)
        opening = ["starting", "initializing", "ready"]
        assert states == [*opening, "backoff", *opening]


@on_fake_clock
async def test_before_it_is_open_there_is_no_connection() -> None:
    async with peered() as (client, _):
        with pytest.raises(StateError):
            client.wire.call("ping", b"{}")
        with pytest.raises(StateError):
            _ = client.wire.facts


@on_fake_clock
async def test_a_call_as_bytes_never_waits_for_ready() -> None:
    """What it carries was made for one era, and the next server may be of the other."""
    async with opened() as (client, peer):
        peer.die()
        await peer.until(lambda: client.state == "backoff")
        with pytest.raises(StateError):
            await client.wire.call("tools/call", b"{}", timeout=1.0).future
