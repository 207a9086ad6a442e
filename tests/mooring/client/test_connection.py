"""The driver: what the core says is done, in order, whatever transports, handlers and listeners do meanwhile."""

import asyncio
import logging
import random
import threading
from typing import Any

import pytest

from mooring.client import EVENTS, Client, connect
from mooring.client._connection import _PERFORM, Connection
from mooring.client._telemetry import Telemetry
from mooring.errors import (
    BackpressureError,
    ClosedError,
    FrameTooLargeError,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    ResetError,
    StateError,
    TransportError,
    UsageError,
)
from mooring.protocol.client import Settings
from mooring.protocol.client import events as e
from mooring.testing import ScriptedPeer, on_fake_clock
from mooring.transport import MAX_QUEUED_FRAMES, memory_pair
from mooring.types import CreateMessageResult, TextContent
from scripted.peer import ERAS, HANDSHAKE, STATELESS, opened, peered, said

FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


def now() -> float:
    return asyncio.get_running_loop().time()


def listen(client: Client) -> list[tuple[str, dict[str, Any]]]:
    events: list[tuple[str, dict[str, Any]]] = []
    client.on_event(lambda name, fields: events.append((name, dict(fields))))
    return events


class Odd:
    """A target around the pair's, whose transports do one thing differently."""

    is_http = False
    name = "odd"
    init_timeout = None

    def __init__(self, peer: ScriptedPeer, **changes: Any) -> None:
        self.peer = peer
        self.changes = changes

    async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
        if "opens" in self.changes:
            await self.changes["opens"](owner)
        transport = await self.peer.pair.client.open(owner, max_frame_bytes, close_step)
        return OddTransport(transport, owner, self.changes)


class OddTransport:
    def __init__(self, transport: Any, owner: Any, changes: dict[str, Any]) -> None:
        self._transport = transport
        self._owner = owner
        self._changes = changes

    def send(self, frame: bytes, number: int) -> bool:
        if "sends" in self._changes:
            answer = self._changes["sends"](self._owner, frame)
            if answer is not None:
                return bool(answer)
        return bool(self._transport.send(frame, number))

    def withdraw(self, number: int) -> bool:
        return bool(self._transport.withdraw(number))

    def next_frame(self) -> Any:
        if self._changes.get("faults"):
            return self._changes["faults"].pop()
        return self._transport.next_frame()

    async def close(self) -> None:
        if "closes" in self._changes:
            await self._changes["closes"]()
        await self._transport.close()


async def odd(peer: ScriptedPeer, options: dict[str, Any] | None = None, **changes: Any) -> Client:
    await peer.open()
    return connect(Odd(peer, **changes), **(options or {}))


# --- effects ----------------------------------------------------------------------------------------------------------


def test_every_effect_of_the_core_is_done_by_somebody() -> None:
    effects = {cls for cls in vars(e).values() if isinstance(cls, type) and issubclass(cls, e.Effect)}
    assert set(_PERFORM) == effects - {e.Effect}


@on_fake_clock
async def test_a_connection_that_was_not_started_says_so_and_one_that_was_is_not_started_again() -> None:
    connection = Connection(memory_pair().client, Settings(), Telemetry("c"))
    await connection.stop()
    with pytest.raises(StateError, match="not open"):
        connection.submit("ping", b"{}", bytes)
    assert repr(connection).startswith("<Connection <ClientConnection client starting")
    connection.start()
    with pytest.raises(StateError, match="opened once"):
        connection.start()
    await connection.stop()


@on_fake_clock
async def test_a_client_belongs_to_its_loop() -> None:
    async with opened() as (client, peer):
        refused: list[Exception] = []

        async def elsewhere() -> None:
            try:
                await client.tools.call("x")
            except UsageError as error:
                refused.append(error)

        thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
        thread.start()
        thread.join(20)
        assert "another event loop" in str(refused[0])
        assert peer.got("tools/call") == []


@on_fake_clock
async def test_without_anybody_to_take_them_notifications_go_nowhere_and_requests_are_refused() -> None:
    peer = ScriptedPeer()
    await peer.open()
    connection = Connection(peer.pair.client, Settings(), Telemetry("bare"))
    connection.start()
    await connection.ready(5)
    peer.notify("notifications/message", level="info", data="x")
    peer.ask(1, "elicitation/create", FORM)
    assert (await peer.answer_to(1))["error"]["code"] == -32601
    connection.step(e.Subscribed("k", ("vendor/subscribe", b"{}"), None))
    message = await peer.expect("vendor/subscribe")
    peer.refuse(message["id"], -1)
    call = connection.submit("ping", b"{}", bytes)
    await call
    connection.give_up(call)
    await connection.stop()
    connection.give_up(call)
    await peer.close()


# --- telemetry --------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_every_event_has_exactly_its_fields() -> None:
    async with peered(offers={"tools": {}}) as (client, peer):
        events = listen(client)
        await client.open()
        peer.on["tools/call"] = said("hi")
        await client.tools.call("x")
        peer.on["tools/call"] = None
        peer.notify("notifications/message", level="info", data="x")
        with pytest.raises(McpError):
            await client.tools.call("x", timeout=1)
        peer.answer(peer.got("tools/call")[1]["id"], said("late"))
        peer.answer("never asked", {})
        peer.send(b"Starting server...")
        await client.ping()
        peer.die()
        await peer.until(lambda: peer.connections == 2)
        await client.ready(60)
        client._requests.connection.tell_exit(None)
        client._requests.connection.tell_exit(-9)
        await client.stop()
    seen = {name for name, _ in events}
    assert seen == set(EVENTS)
    for name, fields in events:
        assert tuple(fields) == ("client", *EVENTS[name]), name
        assert fields["client"] == "scripted"
    transitions = [
        (f["from"], f["to"], f["epoch"]) for n, f in events if n == "mooring.connection.transition"
    ]
    assert transitions == [
        ("new", "starting", 1),
        ("starting", "initializing", 1),
        ("initializing", "ready", 1),
        ("ready", "backoff", 1),
        ("backoff", "starting", 2),
        ("starting", "initializing", 2),
        ("initializing", "ready", 2),
        ("ready", "closing", 2),
        ("closing", "closed", 2),
    ]
    assert dict(events)["mooring.child.exit"] == {"client": "scripted", "code": 0, "signal": 9}


@on_fake_clock
async def test_the_events_of_one_request_belong_together() -> None:
    target = ScriptedPeer()
    await target.open()
    client = Client(target.pair.client, Settings(name="c"), lots=random.Random(7))
    await client.open()
    before = client.submit("ping")
    events = listen(client)
    await before
    assert events == [], "nobody listened when it began"
    await client.ping()
    (_, start), (_, stop) = events
    assert start.items() <= stop.items()
    assert start["corr_id"] == stop["corr_id"]
    assert len(start["corr_id"]) == 16
    assert stop["duration_ns"] > 0
    events.clear()
    await client.stop()
    with pytest.raises(ClosedError):
        await client.ping()
    with pytest.raises(ClosedError):
        await client.submit("tools/list")
    (first, refused), (second, end) = events[-2:]
    assert (first, second) == ("mooring.request.start", "mooring.request.exception")
    assert (refused["id"], end["may_have_run"], end["corr_id"]) == (0, False, refused["corr_id"])
    assert isinstance(end["reason"], ClosedError)
    await target.close()


@on_fake_clock
async def test_without_a_listener_each_event_costs_one_look() -> None:
    async with opened() as (client, _):
        looks: list[str] = []

        class Watched:
            def __getattr__(self, name: str) -> Any:
                looks.append(name)
                return ()

        connection = client._requests.connection
        connection.telemetry, before = Watched(), connection.telemetry  # type: ignore[assignment]
        await client.submit("ping")
        connection.telemetry = before
        assert looks == ["listeners", "listeners"], "one when it began, one when it ended"


@on_fake_clock
async def test_chance_is_injected() -> None:
    names = []
    for _ in range(2):
        peer = ScriptedPeer()
        await peer.open()
        client = Client(peer.pair.client, Settings(name="c"), lots=random.Random(7))
        events = listen(client)
        await client.open()
        await client.ping()
        names.append(dict(events)["mooring.request.start"]["corr_id"])
        await client.stop()
        await peer.close()
    assert names[0] == names[1]


@on_fake_clock
async def test_a_call_that_is_given_up_ends_with_an_exception_event() -> None:
    async with opened() as (client, peer):
        events = listen(client)
        written = client.submit("tools/call", {"name": "a"})
        await peer.expect("tools/call")
        peer.pair.client.stall()
        queued = client.submit("tools/call", {"name": "b"})
        written.cancel()
        queued.cancel()
        await asyncio.sleep(0)
        ends = [fields for name, fields in events if name == "mooring.request.exception"]
        assert [fields["may_have_run"] for fields in ends] == [True, False]
        assert all(isinstance(fields["reason"], asyncio.CancelledError) for fields in ends)
        peer.pair.client.resume()


@on_fake_clock
async def test_a_listener_may_use_the_client_and_frames_keep_their_order() -> None:
    async with peered() as (client, peer):
        client.roots.set(["file:///a"])
        versions: list[str] = []
        calls: list[Any] = []

        def nosy(name: str, fields: Any) -> None:
            if name == "mooring.connection.transition" and fields["to"] == "ready":
                versions.append(client.protocol_version)
                client.roots.set(["file:///b"])
                calls.append(client.submit("ping"))

        client.on_event(nosy)
        await client.open()
        await calls[0]
        await client.stop()
        assert versions == [HANDSHAKE]
        methods = [message.get("method") for message in peer.heard]
        assert methods == [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "notifications/roots/list_changed",
            "ping",
        ]


@on_fake_clock
async def test_a_notification_that_a_listener_makes_too_late_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as (client, _):
        connection = client._requests.connection

        def late(name: str, fields: Any) -> None:
            if name == "mooring.connection.transition" and fields["to"] == "closed":
                connection.notify("notifications/vendor", b"{}")

        client.on_event(late)
        with pytest.raises(UsageError):
            connection.notify("x" * 100_000, b"{}")
        await client.stop()
        assert "the connection is closed" in caplog.text


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
    assert ("mooring.child.exit", {"client": "odd", "code": 3, "signal": 0}) in events
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
    caplog.set_level("INFO", "mooring.client")
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


# --- peers that misbehave ---------------------------------------------------------------------------------------------


@on_fake_clock
async def test_lines_that_are_no_messages_are_skipped_until_there_are_twenty_in_a_row() -> None:
    async with opened() as (client, peer):
        events = listen(client)
        for _ in range(19):
            peer.send(b"Listening on stdio...")
        await client.ping()
        for _ in range(19):
            peer.send(b"still printing")
        await client.ping()
        call = client.submit("tools/call", {"name": "x"})
        await peer.expect("tools/call")
        for _ in range(20):
            peer.send(b"and on and on")
        with pytest.raises(ProtocolError, match="20 bad lines in a row") as caught:
            await call
        assert caught.value.quote == "and on and on"
        assert caught.value.may_have_run is True
        violations = [fields for name, fields in events if name == "mooring.protocol.violation"]
        assert len(violations) == 58
        assert violations[0]["frame_size"] == len("Listening on stdio...")
        await client.ready(60)


@on_fake_clock
async def test_a_message_over_the_limit_ends_the_connection_and_says_so() -> None:
    async with opened() as (client, peer):
        call = client.submit("tools/call", {"name": "x"})
        await peer.expect("tools/call")
        peer.send(b'"' + b"x" * (17 * 1024 * 1024) + b'"')
        with pytest.raises(FrameTooLargeError) as caught:
            await call
        assert caught.value.may_have_run is True
        await client.ready(60)
        with pytest.raises(FrameTooLargeError) as refused:
            await client.tools.call("x", {"text": "x" * (17 * 1024 * 1024)})
        assert refused.value.may_have_run is False
        await client.ping()


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_a_server_without_a_sign_of_life_is_left(version: str) -> None:
    async with opened(version, keepalive=5) as (client, peer):
        method = "ping" if version == HANDSHAKE else "server/discover"
        before = len(peer.got(method))
        await asyncio.sleep(6)
        assert len(peer.got(method)) == before, "the negotiation was heard"
        await asyncio.sleep(5)
        assert len(peer.got(method)) == before + 1
        peer.on[method] = lambda params: None
        await peer.until(lambda: len(peer.got(method)) >= before + 3)
        call = client.submit("tools/call", {"name": "x"})
        with pytest.raises(OutcomeUnknownError, match="no sign of life"):
            await call


@on_fake_clock
async def test_a_reset_fails_what_is_open_and_comes_back_soon() -> None:
    async with opened() as (client, peer):
        call = client.submit("tools/call", {"name": "x"})
        await peer.expect("tools/call")
        peer.send({"jsonrpc": "2.0", "method": "$/reset"})
        with pytest.raises(ResetError):
            await call
        start = now()
        await client.ready(60)
        assert now() - start <= 1.01


@on_fake_clock
async def test_a_server_that_sends_initialize_is_left() -> None:
    async with opened() as (client, peer):
        peer.ask(1, "initialize")
        await peer.until(lambda: peer.connections == 2)
        await client.ready(60)
        assert peer.answers(1) == []


# --- handlers of requests ---------------------------------------------------------------------------------------------


@on_fake_clock
async def test_pings_are_answered_while_a_handler_works_and_a_cancelled_handler_answers_nothing() -> None:
    async with opened() as (client, peer):
        started, cancelled = asyncio.Event(), asyncio.Event()

        async def elicit(params: Any) -> Any:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        client.elicitation.handle(elicit)
        peer.ask("slow", "elicitation/create", FORM)
        await started.wait()
        peer.ask("p", "ping")
        assert (await peer.answer_to("p"))["result"] == {}
        peer.notify("notifications/cancelled", requestId="slow")
        await cancelled.wait()
        await client.ping()
        assert peer.answers("slow") == []


@on_fake_clock
async def test_a_handler_that_ignores_its_cancel_does_not_answer_for_the_next_with_its_id() -> None:
    async with opened() as (client, peer):
        from mooring.types import ElicitResult

        started, order = asyncio.Event(), []

        async def elicit(params: Any) -> ElicitResult:
            number = len(order)
            order.append(number)
            started.set()
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                await asyncio.sleep(1)
                return ElicitResult(action="accept")
            return ElicitResult(action="decline")

        client.elicitation.handle(elicit)
        peer.ask(1, "elicitation/create", FORM)
        await started.wait()
        peer.notify("notifications/cancelled", requestId=1)
        peer.ask(1, "elicitation/create", FORM)
        answer = await peer.answer_to(1)
        assert answer["result"]["action"] == "decline"
        assert len(peer.answers(1)) == 1


@on_fake_clock
async def test_a_handler_that_cancels_itself_is_answered_for() -> None:
    async with opened() as (client, peer):

        async def elicit(params: Any) -> Any:
            raise asyncio.CancelledError

        client.elicitation.handle(elicit)
        peer.ask(1, "elicitation/create", FORM)
        assert (await peer.answer_to(1))["error"]["message"] == "the handler was cancelled"


@pytest.mark.parametrize(
    ("error", "code", "data"),
    [
        (JsonRpcError(-1, "no", {"why": 1}), -1, {"why": 1}),
        (JsonRpcError(-1, "no", float("nan")), -1, None),
        (UsageError("no"), -32603, None),
        (ProtocolError("no", code=-32602), -32602, None),
        (ZeroDivisionError("a secret"), -32603, None),
    ],
)
@on_fake_clock
async def test_what_a_handler_raises_is_answered(error: Exception, code: int, data: Any) -> None:
    async with opened() as (client, peer):

        async def elicit(params: Any) -> Any:
            raise error

        client.elicitation.handle(elicit)
        peer.ask(1, "elicitation/create", FORM)
        answer = (await peer.answer_to(1))["error"]
        assert (answer["code"], answer.get("data")) == (code, data)
        assert "secret" not in answer["message"]


@on_fake_clock
async def test_progress_waits_in_order_and_belongs_to_its_call() -> None:
    async with opened() as (client, peer):
        events = listen(client)
        heard: list[Any] = []
        call = client.submit("tools/call", {"name": "x"}, on_progress=heard.append)
        await peer.expect("tools/call")
        peer.notify("notifications/progress", progressToken=call.id, progress=1)
        await client.ping()
        assert len(heard) == 1
        assert client._requests.connection.reported("theirs") is None
        received = [fields["method"] for name, fields in events if name == "mooring.notification.received"]
        assert received == ["notifications/progress"]
        await client.stop(drain=1)
        with pytest.raises(McpError):
            await call


@on_fake_clock
async def test_what_is_known_of_the_server_and_of_its_subscriptions_can_be_asked() -> None:
    async with peered(STATELESS) as (client, peer):
        await client.open(wait=False)
        connection = client._requests.connection
        with pytest.raises(StateError):
            connection.server()
        assert connection.is_stale()
        await client.ready(5)
        assert not connection.is_stale()
        connection.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
        id = (await peer.expect("subscriptions/listen"))["id"]
        assert connection.standing_key(id) == "k"
        assert (
            connection.standing_key(id + 1)
            is connection.standing_key("k")
            is connection.standing_key(None)
            is None
        )
        peer.refuse(id, -1)
        await client.ping()
        assert connection.standing_key(id) is None


@on_fake_clock
async def test_handlers_that_hang_are_cancelled_when_it_stops() -> None:
    async with opened() as (client, peer):
        started = asyncio.Event()

        async def hang(notification: Any) -> None:
            started.set()
            await asyncio.Event().wait()

        client.on_notification(hang)
        peer.notify("notifications/message", level="info", data="x")
        await started.wait()
        await client.stop()
        assert now() < 0.1


@on_fake_clock
async def test_a_call_that_waits_and_one_whose_transport_is_gone_are_withdrawn_quietly() -> None:
    async with opened(wait_for_ready=True) as (client, peer):
        peer.die()
        await peer.until(lambda: client.state == "backoff")
        waiting = client.submit("tools/call", {"name": "x"})
        waiting.cancel()
        await client.ready(60)
        await client.ping()
        assert peer.got("tools/call") == []
        client._requests.connection._withdraw(e.Withdraw(1, 99))
        client._requests.connection._transport = None
        client._requests.connection._withdraw(e.Withdraw(1, 99))


@on_fake_clock
async def test_a_permanent_failure_to_open_closes_it() -> None:
    async def refuse(owner: Any) -> None:
        raise TransportError("no such command", permanent=True)

    peer = ScriptedPeer()
    client = await odd(peer, opens=refuse)
    with pytest.raises(TransportError, match="no such command"):
        await client.open()
    await peer.close()


@on_fake_clock
async def test_a_start_that_ends_after_the_next_has_begun_is_closed() -> None:
    peer, starts, closes = ScriptedPeer(), [], []

    async def first_is_slow(owner: Any) -> None:
        starts.append(1)
        if len(starts) == 1:
            for _ in range(3):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass

    async def note() -> None:
        closes.append(1)

    client = await odd(peer, {"init_timeout": 1, "close_step": 0.5}, opens=first_is_slow, closes=note)
    await client.open()
    assert len(starts) == 2
    await asyncio.sleep(200)
    assert closes == [1], "the first, when it came at last"
    assert client.state == "ready"
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_loss_cancels_the_handlers_of_the_old_connection() -> None:
    async with opened() as (client, peer):
        ended = asyncio.Event()

        async def elicit(params: Any) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        client.elicitation.handle(elicit)
        peer.ask(1, "elicitation/create", FORM)
        await client.ping()
        peer.die()
        await ended.wait()
        await client.ready(60)
        assert peer.answers(1) == []


@on_fake_clock
async def test_a_notification_that_cannot_be_handled_does_not_stop_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as (client, peer):
        heard: list[str] = []
        connection = client._requests.connection

        async def take(notice: Any) -> None:
            heard.append(notice.method)
            if len(heard) == 1:
                raise ZeroDivisionError("a bug of ours")
            if len(heard) == 2:
                raise asyncio.CancelledError

        connection.on_notice = take
        with caplog.at_level(logging.ERROR, "mooring.client"):
            for name in "abc":
                peer.notify(f"notifications/{name}")
            await client.ping()
            for _ in range(5):
                await asyncio.sleep(0)
        assert heard == ["notifications/a", "notifications/b", "notifications/c"]
        assert "could not be handled" in caplog.text


@on_fake_clock
async def test_an_early_timer_is_left_and_armed_again_for_what_comes_later() -> None:
    async with opened(STATELESS, request_timeout=5) as (client, peer):
        first = client.submit("tools/call", {"name": "a"}, timeout=1)
        await peer.expect("tools/call")
        peer.answer(first.id, said("a"))
        await first
        with pytest.raises(McpError):
            await client.tools.call("b", timeout=3)
        assert now() == pytest.approx(3, abs=0.1)
