"""A client's connection: its table, and the object that runs it. Events in, effects out.

`events` holds both; `ClientConnection` is what a driver holds.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.protocol.client._backoff import backoff_delay, retry_delay
    from jackstay.protocol.client._connection import ClientConnection
    from jackstay.protocol.client._exchange import EXCHANGE, ExchangeState
    from jackstay.protocol.client._inbox import Inbox, Notice
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
    "Notice",
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
            "Notice": "_inbox",
            "SETTINGS": "_settings",
            "ServerFacts": "events",
            "Setting": "_settings",
            "Settings": "_settings",
            "backoff_delay": "_backoff",
            "retry_delay": "_backoff",
        },
    )
