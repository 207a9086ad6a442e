"""The client side of a connection: its state machine and the object that runs it. Events in, effects out.

`ClientConnection` is what a driver uses; `events` has the events it accepts and the effects it returns.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._backoff": "backoff_delay retry_delay",
        "._connection": "ClientConnection",
        "._exchange": "EXCHANGE ExchangeState",
        "._inbox": "Inbox QueuedNotification",
        "._keywords": "ClientKeywords FleetKeywords",
        "._settings": "SETTINGS Settings interactive_timeouts",
        "._states": "ClientState",
        "._table": "CLIENT",
        ".events": "ServerFacts",
    },
)
