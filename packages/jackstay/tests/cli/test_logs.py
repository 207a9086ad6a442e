"""Logs of a command: on standard error, in two formats, gone when the command is."""

import json
import logging
from datetime import datetime

import pytest

from jackstay.cli._logs import Logs

logger = logging.getLogger("jackstay.client")


def test_text_is_a_line_with_level_and_logger(capsys: pytest.CaptureFixture[str]) -> None:
    with Logs("info", "text"):
        logger.info("a server said \x1b[31m%s", "red")
        logger.debug("not this")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err[8:] == " info jackstay.client: a server said \\x1b[31mred\n"


def test_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Logs("warning", "json"):
        logger.warning("one\nline")
        logger.info("not this")
        try:
            raise ValueError("why")
        except ValueError:
            logger.exception("two")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("warning", "jackstay.client", "one\nline")
    assert datetime.fromisoformat(first["time"]).utcoffset() is not None, (
        "a time without a zone is half a time"
    )
    assert "traceback" not in first
    assert "ValueError: why" in second["traceback"]


def test_afterwards_everything_is_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    ours = logging.getLogger("jackstay")
    before = ours.level, list(ours.handlers)
    with Logs("debug", "text"):
        assert ours.level == logging.DEBUG
    assert (ours.level, ours.handlers) == before
    logger.warning("nobody listens")
    assert capsys.readouterr().err in ("", "nobody listens\n")  # the second: logging's own last resort


def test_all_of_the_process_may_be_heard(capsys: pytest.CaptureFixture[str]) -> None:
    with Logs("info", "text", logger=""):
        logging.getLogger("somebody").info("else")
    assert capsys.readouterr().err[8:] == " info somebody: else\n"


def test_transitions_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with Logs("warning", "text", hides_transitions=True):
        logger.warning("lost", extra={"transition": "ready -> backoff"})
        logger.warning("kept")
    assert capsys.readouterr().err[8:].endswith("kept\n")
    assert "lost" not in capsys.readouterr().err
