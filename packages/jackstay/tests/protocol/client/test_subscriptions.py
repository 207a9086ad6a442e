"""Subscriptions that are kept open, without a connection."""

from jackstay.errors import ProtocolError
from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import ExchangeEvent, Role
from jackstay.protocol.client._subscriptions import Subscriptions
from scripted.calls import CallsHarness

LISTEN = ("subscriptions/listen", b'{"notifications":{}}')
SUBSCRIBE = ("resources/subscribe", b'{"uri":"x:y"}')
BOTH = e.Subscribed("k", SUBSCRIBE, LISTEN)


def subscriptions(*events):
    harness = CallsHarness()
    component = Subscriptions(harness.turn())
    for event in events:
        component.add(event)
    return harness, component


def methods(harness):
    return [frame["method"] for frame in harness.frames()]


def request(harness):
    (exchange,) = harness.calls.pending.values()
    assert exchange.role is Role.SUBSCRIPTION
    return exchange


def test_the_era_decides_which_request_is_sent():
    for era, method in ((Era.HANDSHAKE, "resources/subscribe"), (Era.STATELESS, "subscriptions/listen")):
        harness, component = subscriptions(BOTH)
        assert harness.out == []
        component.reopen(era)
        assert (methods(harness), request(harness).caller) == ([method], "k")


def test_a_subscription_without_a_request_in_this_era_is_only_kept():
    harness, component = subscriptions(e.Subscribed("k", None, LISTEN))
    component.reopen(Era.HANDSHAKE)
    assert (harness.out, list(component.kept)) == ([], ["k"])


def test_a_subscription_has_one_open_request():
    harness, component = subscriptions(BOTH)
    component.open(BOTH, Era.STATELESS)
    component.open(BOTH, Era.STATELESS)
    assert methods(harness) == ["subscriptions/listen"]
    harness.calls.abandon(request(harness))
    component.open(BOTH, Era.STATELESS)
    assert methods(harness) == ["subscriptions/listen"] * 2


def test_each_subscription_has_its_own_request():
    harness, component = subscriptions(BOTH, e.Subscribed("other", SUBSCRIBE, LISTEN))
    component.reopen(Era.STATELESS)
    harness.calls.written = harness.calls.number
    ids = {exchange.caller: id for id, exchange in harness.calls.pending.items()}
    harness.turn()
    component.forget("absent")
    component.forget("k")
    assert [frame["params"] for frame in harness.frames()] == [{"requestId": ids["k"]}]
    assert (request(harness).caller, list(component.kept), list(component.ids)) == ("other", ["other"], ["other"])


def test_a_subscription_whose_request_has_ended_is_forgotten_silently():
    harness, component = subscriptions(BOTH)
    component.reopen(Era.HANDSHAKE)
    component.answered(request(harness), None)
    harness.turn()
    component.forget("k")
    assert (harness.out, component.kept, component.ids) == ([], {}, {})


def test_an_acknowledged_subscribe_stays_and_everything_else_ends_it():
    error = ProtocolError("no")
    for form, outcome, is_over in ((SUBSCRIBE, None, False), (SUBSCRIBE, error, True), (LISTEN, None, True)):
        event = e.Subscribed("k", form, form)
        harness, component = subscriptions(event)
        component.open(event, Era.HANDSHAKE)
        exchange = request(harness)
        harness.turn()
        component.answered(exchange, outcome)
        assert harness.out == ([e.EndSubscription("k", outcome)] if is_over else []), form
        assert (harness.calls.pending, list(component.kept)) == ({}, ["k"])


def test_a_subscription_that_the_server_cancels_has_ended_and_its_response_is_late():
    harness, component = subscriptions(BOTH)
    component.open(BOTH, Era.STATELESS)
    exchange = request(harness)
    harness.turn()
    component.cancelled(exchange)
    assert harness.out == [e.EndSubscription("k", None)]
    assert exchange.id in harness.calls.tombstones


def test_a_busy_transport_ends_a_subscription_that_can_be_opened_again():
    harness = CallsHarness(retry_attempts=1)
    component = Subscriptions(harness.turn())
    component.open(BOTH, Era.STATELESS)
    harness.turn().advance(request(harness), ExchangeEvent.REFUSED)
    (ended,) = harness.out
    assert (type(ended), ended.key) == (e.EndSubscription, "k")
    harness.turn()
    component.open(BOTH, Era.STATELESS)
    assert methods(harness) == ["subscriptions/listen"]
