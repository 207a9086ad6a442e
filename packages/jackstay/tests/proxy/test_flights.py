"""Whose calls are under way: rows of what happened, and for whom the server may speak then."""

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from jackstay.client import Client
from jackstay.protocol import METHODS
from jackstay.protocol.server import RequestMeta
from jackstay.protocol.server import events as e
from jackstay.proxy._flights import LINGER, Asked, Flight, Flights, Whose
from jackstay.testing import on_fake_clock
from jackstay.types import ElicitResult
from scripted.between import Between, between


class Core:
    client: Any = None

    def __init__(self) -> None:
        self.in_flight: dict[Any, int] = {}


class Connection:
    """As much of one as a flight looks at."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.core = Core()


ONE, TWO = Connection(1), Connection(2)

FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}


def asking(made: Between, asked: list[Any]) -> Client:
    """A client that accepts every elicitation and keeps it; not opened yet."""

    def elicit(params: Any) -> ElicitResult:
        asked.append(params.raw)
        return ElicitResult(action="accept", content={})

    client = made.make()
    client.elicitation.handle(elicit)
    return client


def flight(connection: Any, id: int = 1, meta: RequestMeta | None = None) -> Flight:
    return Flight(connection, e.Serve(id, id, METHODS["tools/call"], None, "2025-11-25", meta))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_newest_call_of_the_only_client_is_whose_it_is() -> None:
    flights = Flights(Clock())
    assert flights.whose() is Whose.NOBODYS
    first, second = flight(ONE), flight(ONE, 2)
    flights.begin(first)
    flights.begin(second)
    assert flights.whose() is second
    flights.end(second)
    assert flights.whose() is first
    flights.end(first)
    flights.end(first)
    assert flights.whose() is Whose.NOBODYS
    assert len(flights) == 0


def test_calls_of_two_clients_are_nobodys() -> None:
    flights = Flights(Clock())
    first, second = flight(ONE), flight(TWO)
    flights.begin(first)
    flights.begin(second)
    assert flights.whose() is Whose.SEVERAL
    assert not flights.has_served_only(1)
    assert not flights.has_served_only(2)


def test_a_call_that_has_ended_counts_for_a_while() -> None:
    clock = Clock()
    flights = Flights(clock)
    first, second = flight(ONE), flight(TWO)
    flights.begin(first)
    flights.end(first)
    flights.end(first)
    assert flights.whose() is Whose.NOBODYS
    assert flights.has_served_only(1)
    assert not flights.has_served_only(2)
    flights.begin(second)
    assert flights.whose() is Whose.SEVERAL
    clock.now = LINGER
    assert flights.whose() is second
    assert "1 open" in repr(flights)


def test_a_server_that_was_started_anew_is_at_work_on_nothing_old() -> None:
    flights = Flights(Clock())
    first = flight(ONE)
    flights.begin(first)
    flights.end(first)
    flights.start_over()
    assert flights.has_served_only(2)


def test_calls_that_were_under_way_at_a_restart_are_the_new_servers_too() -> None:
    flights = Flights(Clock())
    flights.begin(flight(ONE))
    flights.start_over()
    assert flights.has_served_only(1)
    assert not flights.has_served_only(2)


def test_what_lingers_is_forgotten_in_the_order_in_which_it_expires() -> None:
    clock = Clock()
    flights = Flights(clock)
    for connection in (ONE, TWO, ONE):
        call = flight(connection)
        flights.begin(call)
        flights.end(call)
        clock.now += LINGER / 3
    assert "2 lingering" in repr(flights)
    clock.now = LINGER * 4 / 3 + 0.001
    assert flights.whose() is Whose.NOBODYS
    assert "1 lingering" in repr(flights)
    clock.now = LINGER * 2
    assert flights.whose() is Whose.NOBODYS
    assert "0 lingering" in repr(flights)


def test_a_flight_knows_what_its_request_says_of_its_client() -> None:
    info = Raw(b'{"name":"n"}')
    said = flight(ONE, meta=RequestMeta("2026-07-28", Raw(b'{"roots":{}}'), info, "debug"))
    assert (said.is_stateless, said.capabilities, said.info) == (True, b'{"roots":{}}', b'{"name":"n"}')
    assert said.level == "debug"
    assert flight(ONE, meta=RequestMeta("2026-07-28", Raw(b"{}"))).info == b""
    lasting = Connection(3)
    lasting.core.client = e.ClientFacts("2025-11-25", b'{"name":"m"}', b'{"sampling":{}}')
    said = flight(lasting)
    assert (said.is_stateless, said.capabilities, said.info) == (False, b'{"sampling":{}}', b'{"name":"m"}')
    assert "of connection 3" in repr(said)


def test_something_can_be_said_about_a_call_while_its_client_waits() -> None:
    connection = Connection(4)
    one = flight(connection, 7)
    assert not one.is_awaited
    connection.core.in_flight[7] = 7
    assert one.is_awaited
    one.has_ended = True
    assert not one.is_awaited
    other = flight(Connection(5), 8)
    one.go_on_for(other)
    assert (one.connection, one.id, one.serial) == (other.connection, 8, 8)


def test_a_question_wakes_who_waits_once() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        one = flight(ONE)
        asked = Asked("m", b"{}", loop.create_future())
        one.ask("first", asked)
        one.is_asked = loop.create_future()
        one.ask("second", asked)
        one.ask("third", asked)
        assert one.is_asked.done()
        assert list(one.questions) == ["first", "second", "third"]

    asyncio.run(test())


@pytest.mark.parametrize("whose", list(Whose))
def test_why_there_is_no_one_is_said_in_words(whose: Whose) -> None:
    assert "under way" in whose.value


# --- through a proxy -----------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_request_after_an_answer_never_reaches_another_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The call is answered, its client may be gone: what the server requests for it is not for who is left."""
    async with between() as made:
        asked: list[Any] = []
        one, two = asking(made, asked), asking(made, asked)
        await one.open()
        await two.open()
        made.peer.on["tools/call"] = {"content": []}
        for client in (one, two):
            await client.tools.call("t")
        made.peer.ask("after both", "elicitation/create", FORM)
        assert (await made.peer.answer_to("after both"))["error"]["data"] == {"reason": "several clients"}
        await one.stop()
        made.peer.ask("one is gone", "elicitation/create", FORM)
        assert (await made.peer.answer_to("one is gone"))["error"]["data"] == {"reason": "several clients"}
        await asyncio.sleep(3600)
        made.peer.ask("an hour later", "elicitation/create", FORM)
        told = (await made.peer.answer_to("an hour later"))["error"]["message"]
        assert "has served several clients" in told
        assert asked == []
        assert "--per-client" in caplog.text


@on_fake_clock
async def test_a_request_outside_any_call_goes_to_the_only_client_that_was_served() -> None:
    async with between() as made:
        asked: list[Any] = []
        one, two = asking(made, asked), asking(made, [])
        await one.open()
        await two.open()
        made.peer.on["tools/call"] = {"content": []}
        await one.tools.call("t")
        made.peer.ask("q", "elicitation/create", FORM)
        assert (await made.peer.answer_to("q"))["result"]["action"] == "accept"
        assert len(asked) == 1, "the server knows nothing of the other client"
        await one.stop()
        made.peer.ask("gone", "elicitation/create", FORM)
        assert "error" in await made.peer.answer_to("gone")
