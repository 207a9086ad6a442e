"""Redirect uvicorn's loggers to `jackstay.server.http` while `run()` serves, and restore them afterwards.

Errors stay errors; uvicorn's messages about itself and about invalid HTTP become DEBUG.
"""

import contextlib
import logging
from collections.abc import Iterator
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


@contextlib.contextmanager
def uvicorn_logs() -> Iterator[None]:
    """Redirect the loggers inside a `with` block."""
    before: list[tuple[logging.Logger, list[logging.Handler], bool, int]] = []
    for name, handler in _ROWS:
        redirected = logging.getLogger(name)
        before.append((redirected, redirected.handlers, redirected.propagate, redirected.level))
        redirected.handlers, redirected.propagate = [handler()], False
        redirected.setLevel(logging.INFO)
    try:
        yield
    finally:
        for redirected, handlers, propagate, level in before:
            redirected.handlers, redirected.propagate = handlers, propagate
            redirected.setLevel(level)
