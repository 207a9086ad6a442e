"""What uvicorn logs, under our names: a program that listens to `jackstay` hears of its HTTP server too.

Only while `run()` owns the process; afterwards uvicorn's loggers are as they were. What it reports about itself and about
clients that speak no HTTP is for debugging; what it reports as an error is one.

Above: `_run`. Below: `logging`.
"""

import logging
from types import TracebackType
from typing import Final

logger = logging.getLogger("jackstay.server.http")
access_logger = logging.getLogger("jackstay.server.http.access")


class _Errors(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelno if record.levelno >= logging.ERROR else logging.DEBUG
        if logger.isEnabledFor(level):
            logger.log(level, record.getMessage(), exc_info=record.exc_info)


class _Access(logging.Handler):
    """A line for each request, without the query: what people put there does not belong in a log."""

    def emit(self, record: logging.LogRecord) -> None:
        client, method, path, _, status = record.args  # type: ignore[misc]  # uvicorn's five
        access_logger.info("%s %s %s %s", client, method, str(path).partition("?")[0], status)


_ROWS: Final = (("uvicorn.error", _Errors), ("uvicorn.access", _Access))


class UvicornLogs:
    """For as long as the server runs: use it with `with`."""

    def __init__(self) -> None:
        self._before: list[tuple[logging.Logger, list[logging.Handler], bool, int]] = []

    def __enter__(self) -> None:
        for name, handler in _ROWS:
            theirs = logging.getLogger(name)
            self._before.append((theirs, theirs.handlers, theirs.propagate, theirs.level))
            theirs.handlers, theirs.propagate = [handler()], False
            theirs.setLevel(logging.INFO)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for theirs, handlers, propagate, level in self._before:
            theirs.handlers, theirs.propagate = handlers, propagate
            theirs.setLevel(level)
        self._before.clear()


__all__ = ["UvicornLogs"]
