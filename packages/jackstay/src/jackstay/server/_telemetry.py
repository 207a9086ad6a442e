"""Telemetry events of a server, with stable names and fields.

Every event has the fields `server` (its name) and `connection` (a number). Without listeners an event costs one
attribute access. A listener that raises stays subscribed; its exception is logged once.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

# The fields of an event by name.
Fields: TypeAlias = Mapping[str, object]

# Called for every event: `listener(name, fields)`.
Listener: TypeAlias = Callable[[str, Fields], None]

logger = logging.getLogger("jackstay.server")

# All events, and their fields in addition to `server` and `connection`. `docs/server.md` has the same table.
EVENTS: dict[str, tuple[str, ...]] = {
    "jackstay.server.request.start": ("method", "id"),
    "jackstay.server.request.stop": ("method", "id", "duration_ns"),
    "jackstay.server.request.exception": ("method", "id", "duration_ns", "code", "reason"),
    "jackstay.server.connection.transition": ("from", "to", "reason"),
    "jackstay.server.protocol.violation": ("reason", "frame_size"),
}


class Telemetry(msgspec.Struct):
    """The listeners of one server. Check `listeners` before creating an event."""

    server: str
    listeners: tuple[Listener, ...] = ()
    _logged: list[Listener] = []  # compared by identity: not every callable can be hashed

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every event. Returns a function that ends the subscription."""
        self.listeners = (*self.listeners, listener)

        def unsubscribe() -> None:
            self.listeners = tuple(other for other in self.listeners if other is not listener)

        return unsubscribe

    def emit(self, name: str, connection: int, **fields: object) -> None:
        """Call every listener with an event."""
        event = {"server": self.server, "connection": connection, **fields}
        for listener in self.listeners:
            try:
                listener(name, event)
            except Exception:  # a listener may raise anything
                if not any(other is listener for other in self._logged):
                    self._logged.append(listener)
                    logger.exception("a telemetry listener raised; further exceptions of it are not logged")
