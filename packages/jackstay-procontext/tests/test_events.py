"""Structured logs: one JSON object per line."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from procontext.events import LOGGERS, log_event, log_to_stderr


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Redirect the loggers to a stream, and restore them afterwards."""
    found = io.StringIO()
    before = {name: (logging.getLogger(name).level, logging.getLogger(name).propagate) for name in LOGGERS}
    handler = log_to_stderr("info", found)
    yield found
    for name, (level, propagate) in before.items():
        logger = logging.getLogger(name)
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_event_has_name_and_fields(stream: io.StringIO) -> None:
    log_event("server_started", registry_version="2026.11.15")
    (line,) = lines(stream)
    assert (line["event"], line["registry_version"], line["level"]) == (
        "server_started",
        "2026.11.15",
        "info",
    )
    assert str(line["timestamp"]).endswith("+00:00")


def test_newlines_are_escaped(stream: io.StringIO) -> None:
    """Text of a page or a URL cannot forge a log line."""
    logging.getLogger("jackstay.server").warning("a\nb \u2028 %s", "c\r\nd")
    (line,) = lines(stream)
    assert line["event"] == "a\nb \u2028 c\r\nd"
    assert stream.getvalue().count("\n") == 1


def test_exceptions_and_levels(stream: io.StringIO) -> None:
    logger = logging.getLogger("procontext.test")
    logger.debug("quiet")
    try:
        raise ValueError("wrong")
    except ValueError:
        logger.exception("failed")
    (line,) = lines(stream)
    assert "ValueError: wrong" in str(line["exception"])


def test_unsupported_values_are_strings(stream: io.StringIO) -> None:
    """Logging never raises."""
    log_event("event", logging.WARNING, value={1, 2} - {2})
    assert lines(stream)[0]["value"] == "{1}"
