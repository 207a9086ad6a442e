"""The driver: transports that misbehave, and transports that are busy."""

import asyncio
from typing import Any

import pytest

from jackstay.errors import (
    BackpressureError,
    FrameTooLargeError,
    McpError,
    ProtocolError,
    TransportError,
)
from jackstay.testing import ScriptedPeer, on_fake_clock
from jackstay.transport import MAX_QUEUED_FRAMES
from jackstay.types import CreateMessageResult, TextContent
from scripted.odd_transport import odd
from scripted.peer import listen, now, opened, peered, text_result

# --- transports that misbehave ----------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_transport_whose_open_raises_anything_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer, left = ScriptedPeer(), [1]

    async def fail_once(handler: Any) -> None:
        if left:
            left.pop()
            raise ZeroDivisionError("a defect")

    client = await odd(peer, opens=fail_once)
    await client.open()
    assert "opening the transport failed" in caplog.text
    assert client._requests.connection._openings == {}
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_an_opening_transport_is_cancelled_or_closed_by_stop() -> None:
    for ignores_cancel in (False, True):
        peer, opening, closed = ScriptedPeer(), asyncio.Event(), asyncio.Event()

        async def wait(handler: Any, opening: asyncio.Event = opening, ignores_cancel: bool = ignores_cancel) -> None:
            opening.set()
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                if not ignores_cancel:
                    raise

        async def note(closed: asyncio.Event = closed) -> None:
            closed.set()

        client = await odd(peer, opens=wait, closes=note)
        await client.open(wait=False)
        await opening.wait()
        await client.stop()
        assert client.state == "closed"
        assert closed.is_set() == ignores_cancel
        await peer.close()


@on_fake_clock
async def test_a_transport_that_goes_down_while_it_opens_is_a_failed_start() -> None:
    peer, left = ScriptedPeer(), [1]

    async def fall(handler: Any) -> None:
        if left:
            left.pop()
            handler.frames_arrived()  # nothing can be pulled yet
            handler.went_down(TransportError("fell"), 3, True)
            await asyncio.sleep(5)

    client = await odd(peer, opens=fall)
    events = listen(client)
    await client.open()
    assert ("jackstay.child.exit", {"client": "odd", "code": 3, "signal": 0}) in events
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_transport_whose_close_raises_or_hangs_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("a defect")

    peer = ScriptedPeer()
    client = await odd(peer, closes=fail)
    await client.open()
    await client.stop()
    assert "closing the transport failed" in caplog.text
    await peer.close()
    release = asyncio.Event()

    async def hang() -> None:
        await release.wait()

    peer = ScriptedPeer()
    client = await odd(peer, {"close_step": 1}, closes=hang)
    await client.open()
    start = now()
    await client.stop()
    assert now() - start == pytest.approx(8, abs=0.1)
    assert "did not close in time" in caplog.text
    release.set()
    await peer.close()


@on_fake_clock
async def test_a_transport_whose_send_raises_is_down_and_the_call_did_not_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer, broken = ScriptedPeer(), []

    def send(handler: Any, frame: bytes) -> None:
        if b"tools/call" in frame and not broken:
            broken.append(1)
            raise ZeroDivisionError("a defect")

    client = await odd(peer, {"wait_for_ready": True}, sends=send)
    peer.on["tools/call"] = text_result("at last")
    await client.open()
    assert (await client.tools.call("x")).text == "at last"
    assert "send() of the transport failed" in caplog.text
    assert peer.connections == 2
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_transport_that_calls_back_from_send_is_pulled_afterwards() -> None:
    peer = ScriptedPeer()

    def send(handler: Any, frame: bytes) -> None:
        handler.frames_arrived()
        handler.wrote(0)

    client = await odd(peer, sends=send)
    await client.open()
    await client.ping()
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_invalid_received_data_closes_the_connection() -> None:
    for fault, kind in (
        (FrameTooLargeError(99, 10), FrameTooLargeError),
        (ProtocolError("the stream ended inside a frame"), ProtocolError),
    ):
        peer, faults = ScriptedPeer(), []
        client = await odd(peer, faults=faults)
        await client.open()
        call = client.submit("tools/call", {"name": "x"})
        await peer.expect("tools/call")
        faults.append(fault)
        peer.notify("notifications/message", level="info", data="x")
        with pytest.raises(kind) as caught:
            await call
        assert caught.value.may_have_run is True
        await client.ready(60)
        await client.stop()
        await peer.close()


@on_fake_clock
async def test_late_callbacks_of_an_old_transport_do_not_affect_the_new_one() -> None:
    """docs/guarantees.md G10."""
    peer, handlers = ScriptedPeer(), []

    async def keep(handler: Any) -> None:
        handlers.append(handler)

    client = await odd(peer, opens=keep)
    await client.open()
    peer.crash()
    await peer.until(lambda: peer.connections == 2)
    await client.ready(60)
    old = handlers[0]
    old.went_down(TransportError("late"), 1, False)
    old.frames_arrived()
    old.wrote(99)
    old.room_made()
    assert client.state == "ready"
    await client.ping()
    assert peer.connections == 2
    await client.stop()
    await peer.close()


# --- busy -------------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_busy_transport_is_tried_three_times_before_the_call_fails() -> None:
    peer, attempts = ScriptedPeer(), []

    def send(handler: Any, frame: bytes) -> bool | None:
        if b"tools/call" not in frame:
            return None
        attempts.append(now())
        return False

    client = await odd(peer, sends=send)
    await client.open()
    with pytest.raises(BackpressureError, match="transport busy after 3 attempts") as caught:
        await client.tools.call("x")
    assert caught.value.details == {"attempts": 3, "request_id": caught.value.request_id}
    assert caught.value.retryable
    assert len(attempts) == 3
    assert attempts[2] - attempts[0] == pytest.approx(0.02, abs=0.011)
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_call_that_waits_for_room_is_sent_when_there_is_some() -> None:
    async with opened(max_pending=5000) as (client, peer):
        peer.pair.client.stall()
        calls = [client.submit("tools/call", {"name": "x"}) for _ in range(MAX_QUEUED_FRAMES)]
        refused = asyncio.ensure_future(client.tools.call("y"))
        waiting = asyncio.ensure_future(client.tools.call("z", busy="wait", timeout=60))
        with pytest.raises(BackpressureError):
            await refused
        await asyncio.sleep(20)
        assert not waiting.done()
        peer.on["tools/call"] = lambda params: text_result(params["name"])
        peer.pair.client.resume()
        assert (await waiting).text == "z"
        await asyncio.gather(*calls)
        assert [message["params"]["name"] for message in peer.got("tools/call")][-1] == "z"


@pytest.mark.no_cover  # ten thousand times what other tests cover
@on_fake_clock
async def test_ten_thousand_waiting_calls_cause_few_refused_frames() -> None:
    """With busy="wait", only as many waiting calls are sent as there is room for."""
    async with opened(max_pending=10_000, max_queued=10_000, busy="wait") as (client, peer):
        transport = client._requests.connection._transport
        assert transport is not None
        refusals = 0
        send = type(transport).send

        def counting(self: Any, frame: bytes, number: int) -> bool:
            nonlocal refusals
            is_accepted = send(self, frame, number)
            refusals += self is transport and not is_accepted
            return is_accepted

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(transport), "send", counting)
            peer.on["tools/call"] = lambda params: text_result(params["name"])
            calls = [client.submit("tools/call", {"name": f"n{number}"}) for number in range(10_000)]
            answers = await asyncio.gather(*calls)
        texts = [answer["content"][0]["text"] for answer in answers]  # type: ignore[index,call-overload]  # JSON
        assert texts == [f"n{number}" for number in range(10_000)], "each call got its own result"
        assert refusals <= 10_000 // 10, "a refused frame was encoded in vain"
        assert [message["params"]["name"] for message in peer.got("tools/call")] == texts, "in order"


@on_fake_clock
async def test_answers_are_not_lost_when_the_pipe_is_full() -> None:
    """Responses to the server are sent when there is room."""
    async with peered(max_pending=5000) as (client, peer):

        @client.sampling.handle
        async def sample(params: Any) -> CreateMessageResult:
            return CreateMessageResult(role="assistant", content=TextContent(text="4"), model="m")

        await client.open()
        peer.pair.client.stall()
        calls = [client.submit("tools/call", {"name": "x"}) for _ in range(MAX_QUEUED_FRAMES)]
        peer.request("q", "sampling/createMessage", {"messages": [], "maxTokens": 1})
        peer.request("p", "ping")
        await asyncio.sleep(20)
        assert peer.responses("q") == []
        peer.on["tools/call"] = text_result("hi")
        peer.pair.client.resume()
        assert (await peer.response_to("q"))["result"]["model"] == "m"
        assert (await peer.response_to("p"))["result"] == {}
        await asyncio.gather(*calls)
        assert len(peer.responses("q")) == len(peer.responses("p")) == 1


@on_fake_clock
async def test_a_notification_that_finds_no_room_is_sent_when_there_is_some() -> None:
    peer, attempts = ScriptedPeer(), 0

    def send(handler: Any, frame: bytes) -> bool | None:
        nonlocal attempts
        if b"list_changed" not in frame:
            return None
        attempts += 1
        if attempts == 1:
            asyncio.get_running_loop().call_later(5, handler.room_made)
        return False if attempts == 1 else None

    client = await odd(peer, sends=send)
    client.roots.set([])
    await client.open()
    client.roots.set(["file:///a"])
    await peer.expect("notifications/roots/list_changed")
    assert attempts == 2
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_cancellation_is_not_retried_without_room(caplog: pytest.LogCaptureFixture) -> None:
    """docs/guarantees.md G11: one attempt."""
    caplog.set_level("INFO", "jackstay.client")
    peer, attempts = ScriptedPeer(), 0

    def send(handler: Any, frame: bytes) -> bool | None:
        nonlocal attempts
        if b"notifications/cancelled" not in frame:
            return None
        attempts += 1
        return False

    client = await odd(peer, sends=send)
    await client.open()
    with pytest.raises(McpError):
        await client.tools.call("x", timeout=1)
    await client.ping()
    assert attempts == 1
    assert "a cancellation was not sent" in caplog.text
    await client.stop()
    await peer.close()
