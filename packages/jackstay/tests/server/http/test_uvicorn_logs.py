"""uvicorn's loggers are redirected while the server runs."""

import logging

import pytest

from jackstay.server.http._uvicorn_logs import uvicorn_logs

ERRORS, ACCESS = logging.getLogger("uvicorn.error"), logging.getLogger("uvicorn.access")


def test_errors_stay_errors_and_the_rest_is_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "jackstay"), uvicorn_logs():
        ERRORS.info("Started server process [%d]", 7)
        ERRORS.warning("Invalid HTTP request received.")
        try:
            raise ValueError("x")
        except ValueError:
            ERRORS.exception("Exception in ASGI application")
    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("jackstay.server.http", "DEBUG"),
        ("jackstay.server.http", "DEBUG"),
        ("jackstay.server.http", "ERROR"),
    ]
    assert "Started server process [7]" in caplog.text
    assert "ValueError: x" in caplog.text


def test_messages_below_the_level_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "jackstay"), uvicorn_logs():
        ERRORS.info("Started server process [%d]", 7)
    assert caplog.records == []


def test_an_access_line_has_no_query(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "jackstay"), uvicorn_logs():
        ACCESS.info('%s - "%s %s HTTP/%s" %d', "1.2.3.4:5", "GET", "/mcp?access_token=secret", "1.1", 401)
    assert [record.getMessage() for record in caplog.records] == ["1.2.3.4:5 GET /mcp 401"]


def test_the_loggers_are_restored() -> None:
    before = [(logger.handlers, logger.propagate, logger.level) for logger in (ERRORS, ACCESS)]
    with uvicorn_logs():
        assert not ERRORS.propagate
    assert [(logger.handlers, logger.propagate, logger.level) for logger in (ERRORS, ACCESS)] == before
