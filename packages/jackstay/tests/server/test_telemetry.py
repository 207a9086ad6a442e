"""Telemetry: listeners and event names."""

import logging

import pytest

from jackstay.server import EVENTS
from jackstay.server._telemetry import Telemetry


def test_a_listener_gets_every_event_until_it_unsubscribes() -> None:
    telemetry = Telemetry("weather")
    events: list[object] = []
    unsubscribe = telemetry.subscribe(lambda name, fields: events.append((name, fields)))
    telemetry.emit("x", 7, a=1)
    assert events == [("x", {"server": "weather", "connection": 7, "a": 1})]
    unsubscribe()
    assert telemetry.listeners == ()


def test_a_listener_that_raises_is_logged_once_and_stays_subscribed(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("weather")
    calls: list[str] = []

    class Fails:
        __hash__ = None  # not hashable, such as a callable dataclass

        def __call__(self, name: str, fields: object) -> None:
            calls.append(name)
            raise ValueError(name)

    telemetry.subscribe(Fails())
    with caplog.at_level(logging.ERROR):
        telemetry.emit("x", 1)
        telemetry.emit("y", 1)
    assert calls == ["x", "y"]
    assert len(caplog.records) == 1


def test_event_names_have_the_prefix_of_the_server() -> None:
    assert all(name.startswith("jackstay.server.") for name in EVENTS)
