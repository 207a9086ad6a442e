"""Telemetry to the standard `logging`: a listener that writes one line an event. It configures nothing.

Arguments and results are in no event, so they are in no line. Above: users. Below: `_telemetry`.
"""

import logging

from jackstay.client._telemetry import Fields, Listener

# How loud each event is; what is not here is debugging.
LEVELS = {
    "jackstay.connection.transition": logging.INFO,
    "jackstay.request.exception": logging.WARNING,
    "jackstay.protocol.violation": logging.WARNING,
}


def log_events(logger: logging.Logger | None = None) -> Listener:
    """A listener for `client.on_event()` that logs every event, to `jackstay.telemetry` unless told otherwise.

    The line is `NAME key=value ...`; the fields are on the record too, as `jackstay`, for formatters that want them.
    """
    target = logging.getLogger("jackstay.telemetry") if logger is None else logger

    def listen(name: str, fields: Fields) -> None:
        level = LEVELS.get(name, logging.DEBUG)
        if target.isEnabledFor(level):
            words = " ".join(f"{key}={value}" for key, value in fields.items())
            target.log(level, "%s %s", name, words, extra={"jackstay": {"event": name, **fields}})

    return listen
