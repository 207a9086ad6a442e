"""What a server tells whoever listens: one hook, stable names, stable fields.

Every event has `server`, its name, and `connection`, a number. With no listener an event costs its caller one attribute
test; a listener that raises is logged once and kept.

Above: `_connection`, which tells; users, who listen. Below: nothing.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

# What an event says, by name.
Fields: TypeAlias = Mapping[str, object]

# Who hears of events: `listener(name, fields)`.
Listener: TypeAlias = Callable[[str, Fields], None]

logger = logging.getLogger("jackstay.server")

# Every event and its fields beside `server` and `connection`; `docs/server.md` shows the same.
EVENTS: dict[str, tuple[str, ...]] = {
    "jackstay.server.request.start": ("method", "id"),
    "jackstay.server.request.stop": ("method", "id", "duration_ns"),
    "jackstay.server.request.exception": ("method", "id", "duration_ns", "code", "reason"),
    "jackstay.server.connection.transition": ("from", "to", "reason"),
    "jackstay.server.protocol.violation": ("reason", "frame_size"),
}


class Telemetry:
    """The listeners of one server. Test `listeners` before making an event: empty means that nobody wants it."""

    __slots__ = ("_accused", "listeners", "server")

    def __init__(self, server: str) -> None:
        self.server = server
        self.listeners: tuple[Listener, ...] = ()
        self._accused: list[Listener] = []  # compared by identity: not every callable can be hashed

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every event from now on; call what is returned to end that."""
        self.listeners = (*self.listeners, listener)

        def unsubscribe() -> None:
            self.listeners = tuple(other for other in self.listeners if other is not listener)

        return unsubscribe

    def tell(self, name: str, connection: int, **fields: object) -> None:
        """Give an event to every listener."""
        event = {"server": self.server, "connection": connection, **fields}
        for listener in self.listeners:
            try:
                listener(name, event)
            except Exception:  # the outermost edge: a listener is somebody else's code
                if not any(other is listener for other in self._accused):
                    self._accused.append(listener)
                    logger.exception("a telemetry listener raised; it is kept, and not reported again")
