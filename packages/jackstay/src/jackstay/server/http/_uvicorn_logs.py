"""Redirect uvicorn's loggers to `jackstay.server.http` while `run()` serves, and restore them afterwards.

Errors stay errors; uvicorn's messages about itself and about invalid HTTP become DEBUG.
"""

import logging
from typing import Final

logger = logging.getLogger("jackstay.server.http")
access_logger = logging.getLogger("jackstay.server.http.access")


class _Errors(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelno if record.levelno >= logging.ERROR else logging.DEBUG
        if logger.isEnabledFor(level):
            logger.log(level, record.getMessage(), exc_info=record.exc_info)


class _Access(logging.Handler):
    """Logs a line per request without the query string, which may contain secrets."""

    def emit(self, record: logging.LogRecord) -> None:
        client, method, path, _, status = record.args  # type: ignore[misc]  # uvicorn passes these five
        access_logger.info("%s %s %s %s", client, method, str(path).partition("?")[0], status)


_ROWS: Final = (("uvicorn.error", _Errors), ("uvicorn.access", _Access))


class UvicornLogs:
    """A context manager that redirects the loggers."""

    def __init__(self) -> None:
        self._before: list[tuple[logging.Logger, list[logging.Handler], bool, int]] = []

    def __enter__(self) -> None:
        for name, handler in _ROWS:
            uvicorn_logger = logging.getLogger(name)
            self._before.append(
                (uvicorn_logger, uvicorn_logger.handlers, uvicorn_logger.propagate, uvicorn_logger.level)
            )
            uvicorn_logger.handlers, uvicorn_logger.propagate = [handler()], False
            uvicorn_logger.setLevel(logging.INFO)

    def __exit__(self, *_: object) -> None:
        for uvicorn_logger, handlers, propagate, level in self._before:
            uvicorn_logger.handlers, uvicorn_logger.propagate = handlers, propagate
            uvicorn_logger.setLevel(level)
        self._before.clear()


__all__ = ["UvicornLogs"]
