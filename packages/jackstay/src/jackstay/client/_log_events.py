"""A telemetry listener that writes one line per event to the standard `logging`; it configures no logger.

Events contain no arguments and no results, so log lines contain none either.
"""

import logging

from jackstay.client._telemetry import Fields, Listener

# The level of each event; the default is DEBUG.
LEVELS = {
    "jackstay.connection.transition": logging.INFO,
    "jackstay.request.exception": logging.WARNING,
    "jackstay.protocol.violation": logging.WARNING,
}


def log_events(logger: logging.Logger | None = None) -> Listener:
    """Return a listener for `client.on_event()` that logs every event; the default logger is `jackstay.telemetry`.

    A line is `NAME key=value ...`. The record also has the fields as the attribute `jackstay`, for formatters.
    """
    target = logging.getLogger("jackstay.telemetry") if logger is None else logger

    def listen(name: str, fields: Fields) -> None:
        level = LEVELS.get(name, logging.DEBUG)
        if target.isEnabledFor(level):
            pairs = " ".join(f"{key}={value}" for key, value in fields.items())
            target.log(level, "%s %s", name, pairs, extra={"jackstay": {"event": name, **fields}})

    return listen
