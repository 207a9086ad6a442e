"""Telemetry: one hook, stable names, and a listener that raises is kept."""

import logging

import pytest

from jackstay.server import EVENTS
from jackstay.server._telemetry import Telemetry


def test_every_listener_hears_every_event_until_it_leaves() -> None:
    telemetry = Telemetry("weather")
    heard: list[object] = []
    leave = telemetry.subscribe(lambda name, fields: heard.append((name, fields)))
    telemetry.tell("x", 7, a=1)
    assert heard == [("x", {"server": "weather", "connection": 7, "a": 1})]
    leave()
    assert telemetry.listeners == ()


def test_a_listener_that_raises_is_reported_once_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("weather")
    calls: list[str] = []

    class Fails:
        __hash__ = None  # as of a dataclass that can be called

        def __call__(self, name: str, fields: object) -> None:
            calls.append(name)
            raise ValueError(name)

    telemetry.subscribe(Fails())
    with caplog.at_level(logging.ERROR):
        telemetry.tell("x", 1)
        telemetry.tell("y", 1)
    assert calls == ["x", "y"]
    assert len(caplog.records) == 1


def test_the_names_are_the_servers() -> None:
    assert all(name.startswith("jackstay.server.") for name in EVENTS)
