"""Route notifications from a server to the clients they are for.

List changes go to every client, resource updates to the subscribers. A log message of a shared server goes to the
client whose calls are in flight. If the server works for several clients, or has served several, the message is
dropped: it may contain data of one client.
"""

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from jackstay.errors import McpError
from jackstay.protocol import LISTS
from jackstay.proxy._bodies import without_subscription
from jackstay.proxy._in_flight import InFlightCall, Owner
from jackstay.proxy._upstream import Upstream
from jackstay.server import Driver
from jackstay.types import LOGGING_LEVELS

if TYPE_CHECKING:
    from jackstay.proxy._proxy import Proxy

logger = logging.getLogger("jackstay.proxy")

_UPDATED = "notifications/resources/updated"
_MESSAGE = "notifications/message"
_LIST_CHANGES = frozenset(row.changed_by for row in LISTS.values())


class _Params(msgspec.Struct):
    """Those of a log message, or of the update of a resource; the other one may have any type."""

    level: Any = "info"
    uri: Any = ""


_read_params = msgspec.json.Decoder(_Params).decode


class NotificationRouter:
    """Sends notifications of servers to the clients of `proxy`."""

    def __init__(self, proxy: "Proxy") -> None:
        self._proxy = proxy
        # Messages that could not be attributed to one client.
        self.dropped = 0

    def handle_notification(self, upstream: Upstream, method: str, params: bytes, call: InFlightCall | None) -> None:
        """Route a notification. `call` is the call whose response stream carried it, if known."""
        params = without_subscription(params)
        is_complete = method == "notifications/elicitation/complete"
        connection = self._proxy._client_requests.pop_elicitation(params) if is_complete else None
        try:
            if method == _UPDATED:
                uri = msgspec.convert(_read_params(params).uri, str)
                for subscribed in upstream.subscriptions_for(uri):
                    self.changed(upstream, method, subscribed, params)
            elif method in _LIST_CHANGES:
                self.changed(upstream, method, "", params)
            elif connection is not None:
                self._notify(connection, method, params)
            else:  # also if the elicitation was in an error, or came from another instance of the server
                self._forward_to_owner(upstream, method, params, call)
        except msgspec.DecodeError as error:
            logger.info("dropped %s from the upstream server: invalid params: %s", method, error)

    def changed(self, upstream: Upstream, method: str, uri: str = "", params: bytes = b"") -> None:
        """Notify the clients that a list or a resource of this server changed."""
        if upstream.owner is None:
            self._proxy._notify_subscribers(upstream, method, uri, params)
        else:
            upstream.owner.subscriptions.changed(method, uri, params)

    def _forward_to_owner(self, upstream: Upstream, method: str, params: bytes, call: InFlightCall | None) -> None:
        """Forward a log message or an unknown notification."""
        owner = call or _owner(upstream, method)
        if isinstance(owner, InFlightCall):
            about = owner.awaited_id
            can_receive = about is not None or not owner.is_stateless
            level = owner.level if owner.is_stateless else owner.connection.store.get("level", "")
            if can_receive and (method != _MESSAGE or _is_wanted(level, params)):
                self._notify(owner.connection, method, params, about)
            return
        if upstream.owner is not None:
            clients = [upstream.owner]
        else:
            connected = upstream.session_clients()
            clients = [client for client in connected if upstream.in_flight.has_served_only(client.number)]
            if owner is Owner.AMBIGUOUS or (connected and not clients):
                self._drop(method)
                return
        if method == _MESSAGE:
            clients = [client for client in clients if _is_wanted(client.store.get("level", ""), params)]
        for connection in clients:
            self._notify(connection, method, params)

    def _drop(self, method: str) -> None:
        self.dropped += 1
        if self.dropped.bit_count() == 1:  # log the 1st, 2nd, 4th, 8th, ...
            logger.warning(
                "dropped %s from the upstream server: it has served several clients and does not indicate which one"
                " the message is for; %d dropped so far; --per-client starts one server for each client",
                method,
                self.dropped,
            )

    def _notify(self, connection: Driver, method: str, params: bytes, about: int | str | None = None) -> None:
        try:
            connection.notify(method, params, about)
        except McpError as error:
            logger.info("%s was not forwarded: %s", method, error)


def _owner(upstream: Upstream, method: str) -> InFlightCall | Owner:
    if upstream.is_stateless and method == _MESSAGE:
        return upstream.in_flight.log_owner()
    return upstream.in_flight.owner()


def _is_wanted(wanted: str | None, params: bytes) -> bool:
    """True if a client that wants this level gets this log message.

    A stateless-era request without a level (None) gets none, a handshake-era client that set none ("") all.
    """
    if not wanted:
        return wanted is not None
    level = msgspec.convert(_read_params(params).level, str)
    return level not in LOGGING_LEVELS or LOGGING_LEVELS.index(level) >= LOGGING_LEVELS.index(wanted)
