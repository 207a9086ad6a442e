"""The states of a server's connection."""

from enum import unique

from jackstay.protocol._machine import TableEnum


@unique
class ServerState(TableEnum):
    """The state of a server's connection."""

    FRESH = "fresh"
    HANDSHAKE = "handshake"
    OPERATING = "operating"
    STATELESS = "stateless"
    DRAINING = "draining"
    CLOSED = "closed"
