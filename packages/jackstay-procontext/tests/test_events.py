"""What is said on stderr: one JSON object a line."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from procontext.events import LOGGERS, log_to_stderr, tell


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Loggers that write here, and are given back as they were."""
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


def test_an_event_has_its_name_and_its_fields(stream: io.StringIO) -> None:
    """Reference, section 8: `server_started` with `registry_version`."""
    tell("server_started", registry_version="2026.11.15")
    (line,) = lines(stream)
    assert (line["event"], line["registry_version"], line["level"]) == (
        "server_started",
        "2026.11.15",
        "info",
    )
    assert str(line["timestamp"]).endswith("+00:00")


def test_a_sentence_with_line_ends_stays_one_line(stream: io.StringIO) -> None:
    """A log line cannot be forged by what a page or a URL holds."""
    logging.getLogger("jackstay.server").warning("a\nb \u2028 %s", "c\r\nd")
    (line,) = lines(stream)
    assert line["event"] == "a\nb \u2028 c\r\nd"
    assert stream.getvalue().count("\n") == 1


def test_an_exception_is_in_its_line_and_what_is_below_the_level_is_not(stream: io.StringIO) -> None:
    """Levels are the settings'."""
    logger = logging.getLogger("procontext.test")
    logger.debug("quiet")
    try:
        raise ValueError("wrong")
    except ValueError:
        logger.exception("failed")
    (line,) = lines(stream)
    assert "ValueError: wrong" in str(line["exception"])


def test_what_json_has_no_form_for_is_written_as_text(stream: io.StringIO) -> None:
    """Logging never raises."""
    tell("event", logging.WARNING, value={1, 2} - {2})
    assert lines(stream)[0]["value"] == "{1}"
