"""Telemetry: who listens is told, who raises is kept, who does not listen costs nothing."""

import logging
import re
from typing import Any

import pytest

from jackstay.client import EVENTS
from jackstay.client._telemetry import Telemetry
from jackstay.errors import ResetError, SessionLostError, ShutdownError, TransportError
from scripted.places import ROOT


def test_every_listener_is_told_with_the_name_of_the_client_until_it_leaves() -> None:
    telemetry = Telemetry("weather")
    first: list[Any] = []
    second: list[Any] = []
    leave = telemetry.subscribe(lambda name, fields: first.append((name, fields)))
    telemetry.subscribe(lambda name, fields: second.append((name, fields)))
    telemetry.tell("jackstay.response.late", count=1)
    assert first == second == [("jackstay.response.late", {"client": "weather", "count": 1})]
    leave()
    leave()
    telemetry.tell("jackstay.response.late", count=2)
    assert len(first) == 1
    assert len(second) == 2


def test_a_listener_that_raises_is_logged_once_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("weather")
    heard: list[str] = []

    class Unhashable(list[str]):
        def __call__(self, name: str, fields: Any) -> None:
            self.append(name)
            raise RuntimeError("a bug of somebody's")

    broken = Unhashable()
    telemetry.subscribe(broken)
    telemetry.subscribe(lambda name, fields: heard.append(name))
    with caplog.at_level(logging.ERROR, "jackstay.client"):
        telemetry.tell("one")
        telemetry.tell("two")
    assert broken == heard == ["one", "two"]
    assert len(caplog.records) == 1


def test_the_names_begin_alike_and_no_field_stands_twice() -> None:
    for name, fields in EVENTS.items():
        assert name.startswith("jackstay.")
        assert len(fields) == len(set(fields))
        assert "client" not in fields


def test_the_page_shows_every_event_with_its_fields() -> None:
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `(jackstay\.[a-z.]+)` \| (.+) \|$", page, re.MULTILINE))
    assert {name: tuple(re.findall(r"`(\w+)`", fields)) for name, fields in shown.items()} == EVENTS


LOST = TransportError("the server x exited")


@pytest.mark.parametrize(
    ("source", "target", "reason", "attempt", "is_warned"),
    [
        ("ready", "backoff", LOST, 1, True),
        ("ready", "backoff", ResetError(), 1, True),
        ("initializing", "backoff", LOST, 0, False),  # the probe ended it: started again without
        ("ready", "backoff", SessionLostError(), 1, False),  # reported once, by the core
        ("initializing", "closing", LOST, 0, True),
        ("starting", "closed", LOST, 0, True),
        ("backoff", "closing", LOST, 5, False),  # warned of when it went to backoff
        ("ready", "closing", ShutdownError(), 0, False),
        ("initializing", "ready", None, 0, False),
    ],
)
def test_a_loss_is_a_warning_with_its_cause(
    *, source: str, target: str, reason: Any, attempt: int, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "jackstay.client"):
        Telemetry("x").log_transition(source, target, reason, attempt)
    (record,) = caplog.records
    assert (record.levelname == "WARNING") is is_warned
    assert (str(reason) in record.getMessage()) is is_warned
    assert hasattr(record, "transition") is is_warned
