"""Telemetry as lines of a log."""

import logging

import pytest

from jackstay.client import log_events


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


def test_a_logger_of_ones_own_is_used_and_quiet_ones_stay_quiet(caplog: pytest.LogCaptureFixture) -> None:
    mine = logging.getLogger("mine")
    listen = log_events(mine)
    with caplog.at_level(logging.INFO, "mine"):
        listen("jackstay.request.start", {"client": "c"})
        listen("jackstay.protocol.violation", {"client": "c"})
    assert [record.name for record in caplog.records] == ["mine"]
