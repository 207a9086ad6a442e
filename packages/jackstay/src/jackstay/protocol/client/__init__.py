"""The client side of a connection: its state machine and the object that runs it. Events in, effects out.

`ClientConnection` is what a driver uses; `events` has the events it accepts and the effects it returns.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.protocol.client._backoff import backoff_delay, retry_delay
    from jackstay.protocol.client._connection import ClientConnection
    from jackstay.protocol.client._exchange import EXCHANGE, ExchangeState
    from jackstay.protocol.client._inbox import Inbox, QueuedNotification
    from jackstay.protocol.client._settings import SETTINGS, ClientKeywords, FleetKeywords, Setting, Settings
    from jackstay.protocol.client._table import CLIENT, ClientState
    from jackstay.protocol.client.events import ServerFacts

__all__ = [
    "CLIENT",
    "EXCHANGE",
    "SETTINGS",
    "ClientConnection",
    "ClientKeywords",
    "ClientState",
    "ExchangeState",
    "FleetKeywords",
    "Inbox",
    "QueuedNotification",
    "ServerFacts",
    "Setting",
    "Settings",
    "backoff_delay",
    "retry_delay",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "CLIENT": "_table",
            "ClientConnection": "_connection",
            "ClientKeywords": "_settings",
            "ClientState": "_table",
            "EXCHANGE": "_exchange",
            "ExchangeState": "_exchange",
            "FleetKeywords": "_settings",
            "Inbox": "_inbox",
            "QueuedNotification": "_inbox",
            "SETTINGS": "_settings",
            "ServerFacts": "events",
            "Setting": "_settings",
            "Settings": "_settings",
            "backoff_delay": "_backoff",
            "retry_delay": "_backoff",
        },
    )
