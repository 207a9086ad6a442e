"""Telemetry events as log lines."""

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


def test_a_given_logger_and_its_level_are_used(caplog: pytest.LogCaptureFixture) -> None:
    own_logger = logging.getLogger("own")
    listen = log_events(own_logger)
    with caplog.at_level(logging.INFO, "own"):
        listen("jackstay.request.start", {"client": "c"})
        listen("jackstay.protocol.violation", {"client": "c"})
    assert [record.name for record in caplog.records] == ["own"]
