"""Telemetry: listeners are called, a failing listener stays registered, and no listener costs nothing."""

import logging
import re
from typing import Any

import pytest

from jackstay.client import EVENTS, log_events
from jackstay.client._telemetry import Telemetry
from jackstay.errors import ResetError, SessionLostError, ShutdownError, TransportError
from jackstay.protocol.client import events as e
from scripted.places import ROOT


def test_every_listener_is_called_with_the_client_name_until_it_is_removed() -> None:
    telemetry = Telemetry("weather")
    first: list[Any] = []
    second: list[Any] = []
    unsubscribe = telemetry.subscribe(lambda name, fields: first.append((name, fields)))
    telemetry.subscribe(lambda name, fields: second.append((name, fields)))
    telemetry.emit("jackstay.response.late", count=1)
    assert first == second == [("jackstay.response.late", {"client": "weather", "count": 1})]
    unsubscribe()
    unsubscribe()
    telemetry.emit("jackstay.response.late", count=2)
    assert len(first) == 1
    assert len(second) == 2


def test_a_listener_that_raises_is_logged_once_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("weather")
    received: list[str] = []

    class Unhashable(list[str]):
        def __call__(self, name: str, fields: Any) -> None:
            self.append(name)
            raise RuntimeError("a defect")

    broken = Unhashable()
    telemetry.subscribe(broken)
    telemetry.subscribe(lambda name, fields: received.append(name))
    with caplog.at_level(logging.ERROR, "jackstay.client"):
        telemetry.emit("one")
        telemetry.emit("two")
    assert broken == received == ["one", "two"]
    assert len(caplog.records) == 1


def test_event_names_have_one_prefix_and_fields_are_unique() -> None:
    for name, fields in EVENTS.items():
        assert name.startswith("jackstay.")
        assert len(fields) == len(set(fields))
        assert "client" not in fields


def test_the_page_shows_every_event_with_its_fields() -> None:
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `(jackstay\.[a-z.]+)` \| (.+) \|$", page, re.MULTILINE))
    assert {name: tuple(re.findall(r"`(\w+)`", fields)) for name, fields in documented.items()} == EVENTS


LOST = TransportError("the server x exited")


def test_a_loss_is_a_warning_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    cases: list[tuple[str, str, Any, int, bool]] = [
        ("ready", "backoff", LOST, 1, True),
        ("ready", "backoff", ResetError(), 1, True),
        ("initializing", "backoff", LOST, 0, False),  # it exited on the probe and is started again without
        ("ready", "backoff", SessionLostError(), 1, False),  # reported once, by the core
        ("initializing", "closing", LOST, 0, True),
        ("starting", "closed", LOST, 0, True),
        ("backoff", "closing", LOST, 5, False),  # logged at the transition to backoff
        ("ready", "closing", ShutdownError(), 0, False),
        ("initializing", "ready", None, 0, False),
    ]
    for source, target, reason, attempt, is_warning in cases:
        caplog.clear()
        with caplog.at_level("INFO", "jackstay.client"):
            Telemetry("x").report_transition(e.Transition(source, target, reason, 1, attempt))
        (record,) = caplog.records
        assert (record.levelname == "WARNING") is is_warning
        assert (str(reason) in record.getMessage()) is is_warning
        assert hasattr(record, "transition") is is_warning


def test_each_event_is_a_line_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    listen = log_events()
    with caplog.at_level(logging.DEBUG, "jackstay.telemetry"):
        listen("jackstay.connection.transition", {"client": "c", "from": "starting", "to": "ready"})
        listen("jackstay.request.exception", {"client": "c", "method": "ping"})
        listen("jackstay.request.start", {"client": "c", "method": "ping"})
    levels = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert levels == [
        ("INFO", "jackstay.connection.transition client=c from=starting to=ready"),
        ("WARNING", "jackstay.request.exception client=c method=ping"),
        ("DEBUG", "jackstay.request.start client=c method=ping"),
    ]
    assert caplog.records[0].jackstay["to"] == "ready"  # type: ignore[attr-defined]


def test_a_given_logger_and_its_level_are_used(caplog: pytest.LogCaptureFixture) -> None:
    own_logger = logging.getLogger("own")
    listen = log_events(own_logger)
    with caplog.at_level(logging.INFO, "own"):
        listen("jackstay.request.start", {"client": "c"})
        listen("jackstay.protocol.violation", {"client": "c"})
    assert [record.name for record in caplog.records] == ["own"]
