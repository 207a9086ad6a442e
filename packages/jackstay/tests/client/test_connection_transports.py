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
from scripted.peer import listen, now, opened, peered, said

# --- transports that misbehave ----------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_transport_whose_open_raises_anything_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer, left = ScriptedPeer(), [1]

    async def fail_once(owner: Any) -> None:
        if left:
            left.pop()
            raise ZeroDivisionError("a bug of somebody's")

    client = await odd(peer, opens=fail_once)
    await client.open()
    assert "could not be opened" in caplog.text
    assert client._requests.connection._openings == {}
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_transport_that_is_no_longer_wanted_while_it_opens_is_cancelled_or_closed() -> None:
    for is_stubborn in (False, True):
        peer, opening, closed = ScriptedPeer(), asyncio.Event(), asyncio.Event()

        async def wait(owner: Any, opening: asyncio.Event = opening, is_stubborn: bool = is_stubborn) -> None:
            opening.set()
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                if not is_stubborn:
                    raise

        async def note(closed: asyncio.Event = closed) -> None:
            closed.set()

        client = await odd(peer, opens=wait, closes=note)
        await client.open(wait=False)
        await opening.wait()
        await client.stop()
        assert client.state == "closed"
        assert closed.is_set() == is_stubborn
        await peer.close()


@on_fake_clock
async def test_a_transport_that_goes_down_while_it_opens_is_a_failed_start() -> None:
    peer, left = ScriptedPeer(), [1]

    async def fall(owner: Any) -> None:
        if left:
            left.pop()
            owner.frames_arrived()  # nothing can be pulled yet
            owner.went_down(TransportError("fell"), 3, True)
            await asyncio.sleep(5)

    client = await odd(peer, opens=fall)
    events = listen(client)
    await client.open()
    assert ("jackstay.child.exit", {"client": "odd", "code": 3, "signal": 0}) in events
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_transport_whose_close_raises_or_hangs_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("a bug of somebody's")

    peer = ScriptedPeer()
    client = await odd(peer, closes=fail)
    await client.open()
    await client.stop()
    assert "could not be closed" in caplog.text
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
    assert "could not be closed in time" in caplog.text
    release.set()
    await peer.close()


@on_fake_clock
async def test_a_transport_whose_send_raises_is_down_and_the_call_did_not_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer, broken = ScriptedPeer(), []

    def send(owner: Any, frame: bytes) -> None:
        if b"tools/call" in frame and not broken:
            broken.append(1)
            raise ZeroDivisionError("a bug of somebody's")

    client = await odd(peer, {"wait_for_ready": True}, sends=send)
    peer.on["tools/call"] = said("at last")
    await client.open()
    assert (await client.tools.call("x")).text == "at last"
    assert "could not send" in caplog.text
    assert peer.connections == 2
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_transport_that_tells_from_inside_send_is_pulled_afterwards() -> None:
    peer = ScriptedPeer()

    def send(owner: Any, frame: bytes) -> None:
        owner.frames_arrived()
        owner.wrote(0)

    client = await odd(peer, sends=send)
    await client.open()
    await client.ping()
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_fault_in_what_was_received_ends_the_connection() -> None:
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
async def test_what_an_old_transport_says_late_cannot_touch_the_new_one() -> None:
    """G10: a stale error cannot tear down the fresh connection."""
    peer, owners = ScriptedPeer(), []

    async def keep(owner: Any) -> None:
        owners.append(owner)

    client = await odd(peer, opens=keep)
    await client.open()
    peer.die()
    await peer.until(lambda: peer.connections == 2)
    await client.ready(60)
    old = owners[0]
    old.went_down(TransportError("late news"), 1, False)
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
async def test_a_busy_transport_is_asked_three_times_and_then_the_call_is_refused() -> None:
    peer, attempts = ScriptedPeer(), []

    def send(owner: Any, frame: bytes) -> bool | None:
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
        peer.on["tools/call"] = lambda params: said(params["name"])
        peer.pair.client.resume()
        assert (await waiting).text == "z"
        await asyncio.gather(*calls)
        assert [message["params"]["name"] for message in peer.got("tools/call")][-1] == "z"


@on_fake_clock
async def test_ten_thousand_calls_meet_few_refusals() -> None:
    """Row 14, busy="wait": what waits is offered as far as there is room, not all of it each time."""
    async with opened(max_pending=10_000, max_queued=10_000, busy="wait") as (client, peer):
        transport = client._requests.connection._transport
        assert transport is not None
        refusals = 0
        send = type(transport).send

        def counting(self: Any, frame: bytes, number: int) -> bool:
            nonlocal refusals
            is_taken = send(self, frame, number)
            refusals += self is transport and not is_taken
            return is_taken

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(transport), "send", counting)
            peer.on["tools/call"] = lambda params: said(params["name"])
            calls = [client.submit("tools/call", {"name": f"n{number}"}) for number in range(10_000)]
            answers = await asyncio.gather(*calls)
        texts = [answer["content"][0]["text"] for answer in answers]  # type: ignore[index,call-overload]  # JSON
        assert texts == [f"n{number}" for number in range(10_000)], "the right answer to everybody"
        assert refusals <= 10_000 // 10, "a refusal is a frame encoded in vain"
        assert [message["params"]["name"] for message in peer.got("tools/call")] == texts, "in order"


@on_fake_clock
async def test_answers_are_not_lost_when_the_pipe_is_full() -> None:
    """Row 20: what the server asked is answered once there is room."""
    async with peered(max_pending=5000) as (client, peer):

        @client.sampling.handle
        async def sample(params: Any) -> CreateMessageResult:
            return CreateMessageResult(role="assistant", content=TextContent(text="4"), model="m")

        await client.open()
        peer.pair.client.stall()
        calls = [client.submit("tools/call", {"name": "x"}) for _ in range(MAX_QUEUED_FRAMES)]
        peer.ask("q", "sampling/createMessage", {"messages": [], "maxTokens": 1})
        peer.ask("p", "ping")
        await asyncio.sleep(20)
        assert peer.answers("q") == []
        peer.on["tools/call"] = said("hi")
        peer.pair.client.resume()
        assert (await peer.answer_to("q"))["result"]["model"] == "m"
        assert (await peer.answer_to("p"))["result"] == {}
        await asyncio.gather(*calls)
        assert len(peer.answers("q")) == len(peer.answers("p")) == 1


@on_fake_clock
async def test_a_notification_that_finds_no_room_is_sent_when_there_is_some() -> None:
    peer, offers = ScriptedPeer(), 0

    def send(owner: Any, frame: bytes) -> bool | None:
        nonlocal offers
        if b"list_changed" not in frame:
            return None
        offers += 1
        if offers == 1:
            asyncio.get_running_loop().call_later(5, owner.room_made)
        return False if offers == 1 else None

    client = await odd(peer, sends=send)
    client.roots.set([])
    await client.open()
    client.roots.set(["file:///a"])
    await peer.expect("notifications/roots/list_changed")
    assert offers == 2
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_cancellation_that_finds_no_room_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """G11: exactly once if the transport takes it; one attempt."""
    caplog.set_level("INFO", "jackstay.client")
    peer, offers = ScriptedPeer(), 0

    def send(owner: Any, frame: bytes) -> bool | None:
        nonlocal offers
        if b"notifications/cancelled" not in frame:
            return None
        offers += 1
        return False

    client = await odd(peer, sends=send)
    await client.open()
    with pytest.raises(McpError):
        await client.tools.call("x", timeout=1)
    await client.ping()
    assert offers == 1
    assert "a cancellation was not sent" in caplog.text
    await client.stop()
    await peer.close()
