"""Logs of a command: on standard error, as text or as a JSON object a line.

Only a command sets this up, and only for `jackstay.*`: the library itself configures nothing. A command that runs somebody's
server has all of the process's logs, the author's too. What may be logged at all is decided where it is logged.

Above: `_running`, `_serve`. Below: `logging`.
"""

import json
import logging
import sys
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Final

from jackstay.cli._screen import clean

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")


class TextLines(logging.Formatter):
    """`12:00:00 warning jackstay.client: words`, with what a server said cleaned."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(lowlevel)s %(name)s: %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """One record; a traceback has its lines below."""
        record.lowlevel = record.levelname.lower()
        return clean(super().format(record))


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, message, and the traceback if there is one."""

    # For `jackstay.server.http`: the line that tells where a server is reached is a record, too.
    is_structured = True

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802  # logging's
        """The time in UTC with its zone, as RFC 3339 has it."""
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        said = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said)


class Logs:
    """Logging of one logger and those below it, for as long as a command runs: use it with `with`. `""` is all of them."""

    def __init__(
        self, level: str, format: str, logger: str = "jackstay", *, hides_transitions: bool = False
    ) -> None:
        self._level = level
        self._logger = logging.getLogger(logger)
        self._handler = logging.StreamHandler(sys.stderr)
        self._handler.setFormatter(TextLines() if format == "text" else JsonLines())
        if hides_transitions:
            self._handler.addFilter(lambda record: not hasattr(record, "transition"))
        self._before = logging.NOTSET

    def __enter__(self) -> None:
        self._before = self._logger.level
        self._logger.setLevel(self._level.upper())
        self._logger.addHandler(self._handler)

    def __exit__(self, *ended: object) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._before)


def add_log_arguments(parser: ArgumentParser) -> None:
    """Declare what every command takes that logs."""
    for flag, metavar, choices, default in (
        ("--log-level", "LEVEL", LEVELS, "warning"),
        ("--log-format", "FORMAT", FORMATS, "text"),
    ):
        words = f"{', '.join(choices)} (default: {default})"
        parser.add_argument(flag, metavar=metavar, choices=choices, default=default, help=words)
