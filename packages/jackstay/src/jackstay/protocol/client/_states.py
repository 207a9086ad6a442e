"""The states of a client's connection, and the timers that may run in each."""

from enum import unique

from jackstay.protocol._machine import TableEnum
from jackstay.protocol.client import events as e


@unique
class ClientState(TableEnum):
    """The state of a client's connection."""

    STARTING = "starting"
    INITIALIZING = "initializing"
    READY = "ready"
    BACKOFF = "backoff"
    CLOSING = "closing"
    CLOSED = "closed"


S = ClientState

# The timers of the connection, each named by the event that it becomes, and the states in which it may run. Entering
# any other state disarms it, so that no row needs to.
TIMERS: dict[type[e.Event], frozenset[ClientState]] = {
    e.ConnectExpired: frozenset({S.STARTING, S.INITIALIZING}),
    e.ProbeExpired: frozenset({S.INITIALIZING}),
    e.BackoffElapsed: frozenset({S.BACKOFF}),
    e.CloseExpired: frozenset({S.BACKOFF, S.CLOSING}),
    e.SweepDue: frozenset({S.STARTING, S.INITIALIZING, S.READY, S.BACKOFF}),
    e.KeepaliveDue: frozenset({S.READY}),
    e.CheckExpired: frozenset({S.READY}),
    e.BecameStable: frozenset({S.READY}),
}
