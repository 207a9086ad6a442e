"""Structured logs on stderr: one JSON object a line.

`event` is the name of an event, or the message of an ordinary log record; `fields` are added as members. Standard
output belongs to the protocol and is never written to here.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

# The loggers that are written to stderr.
LOGGERS = ("procontext", "jackstay")


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without the newline."""
        line: dict[str, object] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def log_to_stderr(level: str, stream: TextIO | None = None) -> logging.Handler:
    """Write the logs of `LOGGERS` to stderr, from this level on. Call it once, in the process that serves."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(level.upper())
        logger.addHandler(handler)
        logger.propagate = False
    return handler


def log_event(name: str, level: int = logging.INFO, /, **fields: object) -> None:
    """Log an event with fields."""
    logging.getLogger("procontext").log(level, name, extra={"fields": fields})


__all__ = ["LOGGERS", "JsonFormatter", "log_event", "log_to_stderr"]
