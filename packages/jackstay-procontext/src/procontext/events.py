"""What the server says on stderr: one JSON object a line, with a name for each event (reference, section 8).

`event` is the name, or the whole message where a logger said a sentence; everything in `fields` stands beside it. Standard
output is the protocol's, and never written to here.

Must never know what the events mean. Above: `app`, `cli`. Below: logging.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

# Our loggers, and those of what we stand on.
LOGGERS = ("procontext", "jackstay")


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
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
    """Send what our loggers say to stderr, from this level on. For the process that serves; call it once."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(level.upper())
        logger.addHandler(handler)
        logger.propagate = False
    return handler


def tell(name: str, level: int = logging.INFO, /, **fields: object) -> None:
    """Log an event."""
    logging.getLogger("procontext").log(level, name, extra={"fields": fields})


__all__ = ["LOGGERS", "JsonLines", "log_to_stderr", "tell"]
