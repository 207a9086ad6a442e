"""Subscriptions: the request of each era, and opening them again."""

from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._subscriptions import Subscriptions
from scripted.calls import CallsHarness

BOTH = e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), ("subscriptions/listen", b"{}"))
OLD = e.Subscribed("old", ("resources/subscribe", b'{"uri":"x:z"}'), None)


def test_each_era_has_its_own_request():
    for era, expected in (
        (Era.HANDSHAKE, ["resources/subscribe", "resources/subscribe"]),
        (Era.STATELESS, ["subscriptions/listen"]),
    ):
        harness = CallsHarness()
        subscriptions = Subscriptions(harness.turn())
        subscriptions.add(BOTH)
        subscriptions.add(OLD)
        assert harness.out == []
        subscriptions.reopen(era)
        assert [frame["method"] for frame in harness.frames()] == expected
        assert next(iter(harness.calls.pending.values())).caller == "k"


def test_a_removed_subscription_is_cancelled_and_not_opened_again():
    harness = CallsHarness()
    subscriptions = Subscriptions(harness.turn())
    for event in (BOTH, OLD):
        subscriptions.add(event)
        subscriptions.open(event, Era.HANDSHAKE)
    harness.calls.written = harness.calls.number
    copy = subscriptions.copy(harness.turn())
    subscriptions.remove("k")
    subscriptions.remove("absent")
    (frame,) = harness.frames()
    assert (frame["method"], frame["params"]) == ("notifications/cancelled", {"requestId": 1})
    assert (list(subscriptions.by_key), list(copy.by_key)) == (["old"], ["k", "old"])
    assert [exchange.caller for exchange in harness.calls.pending.values()] == ["old"]
