"""Telemetry: who listens is told, who raises is kept, who does not listen costs nothing."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from mooring.client import EVENTS
from mooring.client._telemetry import Telemetry


def test_every_listener_is_told_with_the_name_of_the_client_until_it_leaves() -> None:
    telemetry = Telemetry("weather")
    first: list[Any] = []
    second: list[Any] = []
    leave = telemetry.subscribe(lambda name, fields: first.append((name, fields)))
    telemetry.subscribe(lambda name, fields: second.append((name, fields)))
    telemetry.tell("mooring.response.late", count=1)
    assert first == second == [("mooring.response.late", {"client": "weather", "count": 1})]
    leave()
    leave()
    telemetry.tell("mooring.response.late", count=2)
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
    with caplog.at_level(logging.ERROR, "mooring.client"):
        telemetry.tell("one")
        telemetry.tell("two")
    assert broken == heard == ["one", "two"]
    assert len(caplog.records) == 1


def test_the_names_begin_alike_and_no_field_stands_twice() -> None:
    for name, fields in EVENTS.items():
        assert name.startswith("mooring.")
        assert len(fields) == len(set(fields))
        assert "client" not in fields


def test_the_page_shows_every_event_with_its_fields() -> None:
    page = (Path(__file__).parents[3] / "docs" / "client.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `(mooring\.[a-z.]+)` \| (.+) \|$", page, re.MULTILINE))
    assert {name: tuple(re.findall(r"`(\w+)`", fields)) for name, fields in shown.items()} == EVENTS
