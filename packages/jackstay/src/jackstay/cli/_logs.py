"""Logging of a command to standard error, as text or as JSON lines.

Only commands configure logging, and only for `jackstay.*`. Commands that run a user's server configure the root logger.
"""

import json
import logging
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from jackstay.shell import erase_status, escape_controls


class TextLines(logging.Formatter):
    """Formats `12:00:00 warning jackstay.client: message`, with control characters escaped."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(lowlevel)s %(name)s: %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Format one record. A traceback follows on its own lines."""
        record.lowlevel = record.levelname.lower()
        return escape_controls(super().format(record))


class JsonLines(logging.Formatter):
    """Formats one JSON object a line: time, level, logger, message, and traceback if there is one."""

    # Read by `jackstay.server.http`: the line with the address of the server is then logged instead of printed.
    is_structured = True

    def format(self, record: logging.LogRecord) -> str:
        """Format one record."""
        entry = {
            # The format of RFC 3339.
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


@contextmanager
def log_to_stderr(arguments: Namespace, logger: str = "jackstay", *, hides_transitions: bool = False) -> Iterator[None]:
    """Configure one logger and its children while a command with these arguments runs. `""` is the root logger."""
    configured = logging.getLogger(logger)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines() if arguments.log_format == "text" else JsonLines())
    handler.addFilter(erase_status)
    if hides_transitions:
        handler.addFilter(lambda record: not hasattr(record, "transition"))
    before = configured.level
    configured.setLevel(arguments.log_level.upper())
    configured.addHandler(handler)
    try:
        yield
    finally:
        configured.removeHandler(handler)
        configured.setLevel(before)


def add_log_arguments(parser: ArgumentParser) -> None:
    """Declare `--log-level` and `--log-format`."""
    for flag, metavar, choices, default in (
        ("--log-level", "LEVEL", ("debug", "info", "warning", "error"), "warning"),
        ("--log-format", "FORMAT", ("text", "json"), "text"),
    ):
        text = f"{', '.join(choices)} (default: {default})"
        parser.add_argument(flag, metavar=metavar, choices=choices, default=default, help=text)
