"""Logging of a command: two formats, on standard error, restored afterwards."""

import json
import logging
from argparse import Namespace
from datetime import datetime

import pytest

from jackstay.cli._logs import log_to_stderr

logger = logging.getLogger("jackstay.client")


def test_text_format(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr(Namespace(log_level="info", log_format="text")):
        logger.info("a server sent \x1b[31m%s", "red")
        logger.debug("not this")
    done = capsys.readouterr()
    assert done.out == ""
    assert done.err[8:] == " info jackstay.client: a server sent \\x1b[31mred\n"


def test_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr(Namespace(log_level="warning", log_format="json")):
        logger.warning("one\nline")
        logger.info("not this")
        try:
            raise ValueError("why")
        except ValueError:
            logger.exception("two")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("warning", "jackstay.client", "one\nline")
    assert datetime.fromisoformat(first["time"]).utcoffset() is not None, "the time has a zone"
    assert "traceback" not in first
    assert "ValueError: why" in second["traceback"]


def test_logging_is_restored(capsys: pytest.CaptureFixture[str]) -> None:
    library = logging.getLogger("jackstay")
    before = library.level, list(library.handlers)
    with log_to_stderr(Namespace(log_level="debug", log_format="text")):
        assert library.level == logging.DEBUG
    assert (library.level, library.handlers) == before
    logger.warning("without a handler")
    assert capsys.readouterr().err in ("", "without a handler\n")  # the second: logging.lastResort


def test_the_root_logger_can_be_configured(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr(Namespace(log_level="info", log_format="text"), logger=""):
        logging.getLogger("application").info("message")
    assert capsys.readouterr().err[8:] == " info application: message\n"


def test_transitions_can_be_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr(Namespace(log_level="warning", log_format="text"), hides_transitions=True):
        logger.warning("lost", extra={"transition": "ready -> backoff"})
        logger.warning("kept")
    assert capsys.readouterr().err[8:].endswith("kept\n")
    assert "lost" not in capsys.readouterr().err
