"""Callers that wait for ready, without a connection."""

from jackstay.errors import ShutdownError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._waiters import Waiters
from scripted.calls import CallsHarness


def test_every_waiter_is_released_once_in_order():
    for error in (None, ShutdownError()):
        harness = CallsHarness()
        waiters = Waiters(harness.turn())
        for caller in ("a", "b", "a", "c"):
            waiters.add(caller)
        waiters.drop("b")
        waiters.drop("absent")
        waiters.release(error)
        assert harness.out == [e.Release("a", error), e.Release("c", error)]
        harness.turn()
        waiters.release(error)
        assert harness.out == []
