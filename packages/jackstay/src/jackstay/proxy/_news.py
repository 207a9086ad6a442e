"""What a server says by itself, told to the clients it is for.

Changes of lists go to every client, changes of a resource to who subscribed to it. A log message of a server that is shared
belongs to the client whose calls are under way. While those are several clients', and after the last call of a server that has
served several, a message may hold what is one client's alone, and nobody gets it.

Above: `_proxy`. Below: `_flights`, `_lists`, `_bodies`, `jackstay.server` (how a client is told).
"""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from jackstay.errors import McpError
from jackstay.proxy._back import Back
from jackstay.proxy._bodies import without_subscription
from jackstay.proxy._flights import Flight, Whose
from jackstay.proxy._lists import LISTS
from jackstay.server import Driver

logger = logging.getLogger("jackstay.proxy")

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_UPDATED = "notifications/resources/updated"
_MESSAGE = "notifications/message"
_LIST_CHANGES = frozenset(method for method, _ in LISTS.values())


class _Level(msgspec.Struct):
    level: str = "info"


class _Uri(msgspec.Struct):
    uri: str = ""


_read_level = msgspec.json.Decoder(_Level).decode
_read_uri = msgspec.json.Decoder(_Uri).decode


class Tell(Protocol):
    """Notifies every client of this server that subscribed to a change."""

    def __call__(self, back: Back, method: str, uri: str, params: bytes) -> None: ...


class News:
    """Tells clients what a server says. `tell` reaches all who want to hear of a change; the rest as for `Asking`."""

    def __init__(
        self,
        tell: Tell,
        owner: Callable[[Back], Driver | None],
        lasting: Callable[[Back], list[Driver]],
        sent_away: Callable[[bytes], Driver | None],
    ) -> None:
        self._tell = tell
        self._owner = owner
        self._lasting = lasting
        self._sent_away = sent_away
        # Messages that were for one client, and nobody knows for which.
        self.dropped = 0

    def heard(self, back: Back, method: str, params: bytes, flight: Flight | None) -> None:
        """The server sent this; in the response to that call, where that is known."""
        try:
            self._hear(back, method, without_subscription(params), flight)
        except msgspec.DecodeError as error:
            logger.info("%s of the server behind cannot be read: %s", method, error)

    def _hear(self, back: Back, method: str, params: bytes, flight: Flight | None) -> None:
        if method == _UPDATED:
            uri = _read_uri(params).uri
            for wanted in back.wanted_for(uri):
                self.changed(back, method, wanted, params)
        elif method in _LIST_CHANGES:
            self.changed(back, method, "", params)
        elif method == "notifications/elicitation/complete":
            connection = self._sent_away(params)
            if connection is None:  # requested in an error, or by another instance of the server
                self._pass_on(back, method, params, flight)
            else:
                self._say([connection], method, params)
        else:
            self._pass_on(back, method, params, flight)

    def changed(self, back: Back, method: str, uri: str = "", params: bytes = b"") -> None:
        """A list or a resource of this server changed."""
        owner = self._owner(back)
        if owner is None:
            self._tell(back, method, uri, params)
        else:
            owner.listening.changed(method, uri, params)

    def _pass_on(self, back: Back, method: str, params: bytes, flight: Flight | None) -> None:
        """A log message, or something that nobody here knows."""
        owner, whose = self._owner(back), back.flights.whose() if flight is None else flight
        if isinstance(whose, Flight):
            if method != _MESSAGE or _wants(whose, params):
                about = whose.id if whose.is_awaited else None
                if about is not None or not whose.is_stateless:
                    self._notify(whose.connection, method, params, about)
            return
        clients = self._lasting(back) if owner is None else [owner]
        if owner is None:
            known = [one for one in clients if back.flights.has_served_only(one.number)]
            if whose is Whose.SEVERAL or (clients and not known):
                self._drop(method)
                return
            clients = known
        if method == _MESSAGE:
            clients = [one for one in clients if _is_loud_enough(one, params)]
        self._say(clients, method, params)

    def _drop(self, method: str) -> None:
        self.dropped += 1
        if self.dropped.bit_count() == 1:  # the first, and ever fewer
            logger.warning(
                "%s of the server behind was not passed on: it has served several clients, and does not indicate which"
                " one it is for (%d so far); with --per-client each client has a server of its own",
                method,
                self.dropped,
            )

    def _say(self, clients: Iterable[Driver], method: str, params: bytes) -> None:
        for connection in clients:
            self._notify(connection, method, params, None)

    def _notify(self, connection: Driver, method: str, params: bytes, about: int | str | None) -> None:
        try:
            connection.notify(method, params, about)
        except McpError as error:
            logger.info("%s was not passed on: %s", method, error)


def _wants(flight: Flight, params: bytes) -> bool:
    """Whether the client of a call wants this log message: by what its request says, or what it said before."""
    if not flight.is_stateless:
        return _is_loud_enough(flight.connection, params)
    return flight.level is not None and _rank(params) >= LEVELS.index(flight.level)


def _is_loud_enough(connection: Driver, params: bytes) -> bool:
    """Whether a client with a handshake wants this. One that never said how much it wants gets what the server says."""
    return not connection.store.get("level") or _rank(params) >= LEVELS.index(connection.store["level"])


def _rank(params: bytes) -> int:
    level = _read_level(params).level
    return LEVELS.index(level) if level in LEVELS else len(LEVELS)
