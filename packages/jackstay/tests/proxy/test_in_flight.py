"""Attribution of messages of a server to the calls in flight."""

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from jackstay.client import Client
from jackstay.protocol import METHODS
from jackstay.protocol.server import RequestMeta
from jackstay.protocol.server import events as e
from jackstay.proxy._in_flight import LINGER, InFlightCall, InFlightCalls, Owner
from jackstay.testing import on_fake_clock
from jackstay.types import ElicitResult
from scripted.between import Between, between


class Core:
    client: Any = None

    def __init__(self) -> None:
        self.in_flight: dict[Any, int] = {}


class Connection:
    """The part of a connection that a call reads."""

    def __init__(self, number: int, principal: str = "") -> None:
        self.number = number
        self.principal = principal
        self.core = Core()


FIRST, SECOND = Connection(1), Connection(2)

FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}


def eliciting_client(harness: Between, elicited: list[Any]) -> Client:
    """A client that accepts every elicitation and keeps it; not opened yet."""

    def elicit(params: Any) -> ElicitResult:
        elicited.append(params.raw)
        return ElicitResult(action="accept", content={})

    client = harness.make()
    client.elicitation.handle(elicit)
    return client


def make_call(connection: Any, id: int = 1, meta: RequestMeta | None = None) -> InFlightCall:
    return InFlightCall(connection, e.Serve(id, id, METHODS["tools/call"], None, "2025-11-25", meta))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_owner_is_the_newest_call_of_the_only_client() -> None:
    in_flight = InFlightCalls(Clock())
    assert in_flight.owner() is Owner.NONE
    first, second = make_call(FIRST), make_call(FIRST, 2)
    in_flight.start(first)
    in_flight.start(second)
    assert in_flight.owner() is second
    in_flight.end(second)
    assert in_flight.owner() is first
    in_flight.end(first)
    in_flight.end(first)
    assert in_flight.owner() is Owner.NONE
    assert len(in_flight) == 0


def test_calls_of_two_clients_are_ambiguous() -> None:
    in_flight = InFlightCalls(Clock())
    first, second = make_call(FIRST), make_call(SECOND)
    in_flight.start(first)
    in_flight.start(second)
    assert in_flight.owner() is Owner.AMBIGUOUS
    assert not in_flight.has_served_only(1)
    assert not in_flight.has_served_only(2)


def test_an_ended_call_lingers() -> None:
    clock = Clock()
    in_flight = InFlightCalls(clock)
    first, second = make_call(FIRST), make_call(SECOND)
    in_flight.start(first)
    in_flight.end(first)
    in_flight.end(first)
    assert in_flight.owner() is Owner.NONE
    assert in_flight.has_served_only(1)
    assert not in_flight.has_served_only(2)
    in_flight.start(second)
    assert in_flight.owner() is Owner.AMBIGUOUS
    clock.now = LINGER
    assert in_flight.owner() is second
    assert "1 open" in repr(in_flight)


def test_an_answered_call_of_a_stateless_client_lingers_for_log_messages_only() -> None:
    in_flight = InFlightCalls(Clock())
    meta = RequestMeta("2026-07-28", Raw(b"{}"), Raw(b"{}"), None)
    for call, is_answered, lingers in [
        (make_call(FIRST, meta=meta), True, False),
        (make_call(FIRST, meta=meta), False, True),
        (make_call(FIRST), True, True),
    ]:
        in_flight.reset()
        in_flight.start(call)
        in_flight.end(call, is_answered=is_answered)
        in_flight.start(second := make_call(SECOND))
        assert in_flight.owner() is Owner.AMBIGUOUS
        assert in_flight.owner(is_request=True) is (Owner.AMBIGUOUS if lingers else second)
        in_flight.reset()
        in_flight.end(second)


def test_connections_of_one_principal_are_one_client() -> None:
    in_flight = InFlightCalls(Clock())
    first, second = make_call(Connection(1, "ada")), make_call(Connection(2, "ada"))
    in_flight.start(first)
    in_flight.end(first)
    in_flight.start(second)
    assert in_flight.owner() is second
    in_flight.start(make_call(Connection(3, "bob")))
    assert in_flight.owner() is Owner.AMBIGUOUS


def test_a_log_message_of_a_stateless_server_belongs_to_a_call_that_requested_it() -> None:
    """2026-07-28 `RequestMetaObject`: without logLevel a server sends no log messages for the request."""
    in_flight = InFlightCalls(Clock())
    metas = [RequestMeta("2026-07-28", Raw(b"{}"), Raw(b"{}"), level) for level in (None, "info", "info")]
    ended, quiet, wanting = make_call(FIRST, 1, metas[1]), make_call(FIRST, 2, metas[0]), make_call(SECOND, 3, metas[2])
    in_flight.start(ended)
    in_flight.end(ended)
    in_flight.start(quiet)
    assert in_flight.log_owner() is Owner.NONE
    in_flight.start(wanting)
    assert in_flight.log_owner() is wanting
    in_flight.start(make_call(FIRST, 4))
    assert in_flight.log_owner() is Owner.AMBIGUOUS, "a handshake-era client always wants log messages"


def test_reset_forgets_ended_calls() -> None:
    in_flight = InFlightCalls(Clock())
    first = make_call(FIRST)
    in_flight.start(first)
    in_flight.end(first)
    in_flight.reset()
    assert in_flight.has_served_only(2)


def test_reset_keeps_calls_in_flight() -> None:
    in_flight = InFlightCalls(Clock())
    in_flight.start(make_call(FIRST))
    in_flight.reset()
    assert in_flight.has_served_only(1)
    assert not in_flight.has_served_only(2)


def test_lingering_calls_expire_in_order() -> None:
    clock = Clock()
    in_flight = InFlightCalls(clock)
    for connection in (FIRST, SECOND, FIRST):
        call = make_call(connection)
        in_flight.start(call)
        in_flight.end(call)
        clock.now += LINGER / 3
    assert "2 lingering" in repr(in_flight)
    clock.now = LINGER * 4 / 3 + 0.001
    assert in_flight.owner() is Owner.NONE
    assert "1 lingering" in repr(in_flight)
    clock.now = LINGER * 2
    assert in_flight.owner() is Owner.NONE
    assert "0 lingering" in repr(in_flight)


def test_a_call_has_the_capabilities_and_info_of_its_client() -> None:
    info = Raw(b'{"name":"n"}')
    call = make_call(FIRST, meta=RequestMeta("2026-07-28", Raw(b'{"roots":{}}'), info, "debug"))
    assert (call.is_stateless, call.capabilities, call.info) == (True, b'{"roots":{}}', b'{"name":"n"}')
    assert call.level == "debug"
    assert make_call(FIRST, meta=RequestMeta("2026-07-28", Raw(b"{}"))).info == b""
    stateful = Connection(3)
    stateful.core.client = e.ClientParams("2025-11-25", b'{"name":"m"}', b'{"sampling":{}}')
    call = make_call(stateful)
    assert (call.is_stateless, call.capabilities, call.info) == (False, b'{"sampling":{}}', b'{"name":"m"}')


def test_a_call_is_awaited_until_it_has_ended() -> None:
    connection = Connection(4)
    call = make_call(connection, 7)
    assert call.awaited_id is None
    connection.core.in_flight[7] = 7
    assert call.awaited_id == 7
    call.has_ended = True
    assert call.awaited_id is None
    other = make_call(Connection(5), 8)
    call.rebind(other)
    assert (call.connection, call.id, call.serial) == (other.connection, 8, 8)


async def test_an_input_request_wakes_the_waiting_task_once() -> None:
    loop = asyncio.get_running_loop()
    call = make_call(FIRST)
    call.add_input_request("first", "m", b"{}")
    call.input_requested = loop.create_future()
    call.add_input_request("second", "m", b"{}")
    call.add_input_request("third", "m", b"{}")
    assert call.input_requested.done()
    assert list(call.input_requests) == ["first", "second", "third"]


def test_every_owner_has_a_description() -> None:
    assert all("in flight" in owner.value for owner in Owner)


# --- through a proxy --------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_request_after_a_response_never_reaches_another_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server may send requests for a call that was answered, even if its client has disconnected."""
    async with between() as harness:
        elicited: list[Any] = []
        one, two = eliciting_client(harness, elicited), eliciting_client(harness, elicited)
        await one.open()
        await two.open()
        harness.peer.on["tools/call"] = {"content": []}
        for client in (one, two):
            await client.tools.call("t")
        harness.peer.request("after both", "elicitation/create", FORM)
        assert (await harness.peer.response_to("after both"))["error"]["data"] == {"reason": "several clients"}
        await one.stop()
        harness.peer.request("one is gone", "elicitation/create", FORM)
        assert (await harness.peer.response_to("one is gone"))["error"]["data"] == {"reason": "several clients"}
        await asyncio.sleep(3600)
        harness.peer.request("an hour later", "elicitation/create", FORM)
        message = (await harness.peer.response_to("an hour later"))["error"]["message"]
        assert "has served several clients" in message
        assert elicited == []
        assert "--per-client" in caplog.text


@on_fake_clock
async def test_a_request_outside_any_call_goes_to_the_only_client_that_was_served() -> None:
    async with between() as harness:
        elicited: list[Any] = []
        one, two = eliciting_client(harness, elicited), eliciting_client(harness, [])
        await one.open()
        await two.open()
        harness.peer.on["tools/call"] = {"content": []}
        await one.tools.call("t")
        harness.peer.request("q", "elicitation/create", FORM)
        assert (await harness.peer.response_to("q"))["result"]["action"] == "accept"
        assert len(elicited) == 1, "the server has received nothing from the other client"
        await one.stop()
        harness.peer.request("gone", "elicitation/create", FORM)
        assert "error" in await harness.peer.response_to("gone")
