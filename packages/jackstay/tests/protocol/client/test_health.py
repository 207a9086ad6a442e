"""Keepalives and health checks, without a connection."""

from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._health import Health
from jackstay.protocol.client._settings import KEEPALIVE_MISSES
from scripted.calls import CallsHarness


def health(era=Era.HANDSHAKE, **options):
    harness = CallsHarness(**options)
    component = Health(harness.turn())
    component.begin(era)
    return harness, component


def methods(harness):
    return [frame["method"] for frame in harness.frames()]


def test_the_era_decides_which_request_is_sent():
    for era, method in ((Era.HANDSHAKE, "ping"), (Era.STATELESS, "server/discover")):
        harness, component = health(era, keepalive=5.0)
        assert component.check_method == method
        assert component.keep_alive()
        assert methods(harness) == [method]


def test_without_a_keepalive_no_timer_is_armed():
    harness, _ = health()
    assert e.KeepaliveDue not in harness.calls.timers


def test_keepalives_are_sent_only_if_nothing_was_received_and_too_many_are_missed():
    harness, component = health(keepalive=5.0)
    component.received_after = 1
    harness.turn(5.0)
    assert component.keep_alive()
    assert harness.out == []
    assert harness.calls.timers.at(e.KeepaliveDue) == 10.0
    for count in range(KEEPALIVE_MISSES):
        harness.turn(5.0)
        assert component.keep_alive()
        assert (methods(harness), component.missed) == (["ping"], count + 1)
        assert len(harness.calls.pending) == 1  # the newer one replaces the older
    assert not component.keep_alive()
    component.received()
    assert component.keep_alive()
    assert component.missed == 0


def test_a_silent_server_is_checked_after_a_timeout():
    harness, component = health(hang_timeout=3.0)
    exchange = harness.sent(timeout=10.0)
    harness.turn(10.0)
    component.check_if_silent(exchange.id, is_cancelled=False)
    assert (methods(harness), component.is_checking) == (["ping"], True)
    assert harness.calls.timers.at(e.CheckExpired) == 13.0
    component.check_if_silent(exchange.id, is_cancelled=False)
    assert methods(harness) == ["ping"]
    component.received()
    component.end_check()
    assert (component.is_checking, e.CheckExpired in harness.calls.timers) == (False, False)


def test_no_check_for_a_call_that_was_cancelled_early_or_after_a_message():
    harness, component = health(hang_timeout=3.0)
    harness.turn(100.0)  # the age of the call counts, not that of the connection
    exchange = harness.sent()
    harness.turn(1.0)
    component.check_if_silent(exchange.id, is_cancelled=True)
    assert harness.out == []
    component.received()
    harness.turn(10.0)
    component.check_if_silent(exchange.id, is_cancelled=False)
    component.check_if_silent(999, is_cancelled=False)
    assert harness.out == []
