"""Independent copies of a client's connection and of its parts, for the searches."""

from typing import Any, TypeVar

from msgspec.structs import replace

from jackstay.protocol import Timers
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._connection import ClientConnection

T = TypeVar("T")


def copied(core: ClientConnection) -> ClientConnection:
    """Return an independent copy of a connection."""
    clone = _shallow(core)
    clone.counts = core.counts.copy()
    clone.calls = calls = copied_calls(core.calls)
    clone.negotiation = replace(core.negotiation, calls=calls)
    clone.transport = replace(core.transport, calls=calls)
    clone.recovery = replace(core.recovery, calls=calls)
    clone.health = replace(core.health, calls=calls)
    peer = core.peer_requests
    clone.peer_requests = replace(peer, calls=calls, serving=peer.serving.copy(), unsent=peer.unsent.copy())
    subscriptions = core.subscriptions
    clone.subscriptions = replace(
        subscriptions, calls=calls, kept=subscriptions.kept.copy(), ids=subscriptions.ids.copy()
    )
    clone.waiters = replace(core.waiters, calls=calls, callers=core.waiters.callers.copy())
    return clone


def copied_calls(calls: Calls) -> Calls:
    """Return an independent copy of the open requests."""
    clone = _shallow(calls)
    clone.pending = {id: replace(exchange) for id, exchange in calls.pending.items()}
    clone.queue = calls.queue.copy()
    clone.returned = calls.returned.copy()
    clone.tombstones = calls.tombstones.copy()
    clone.timers = copied_timers(calls.timers)
    clone.out = []
    return clone


def copied_timers(timers: Timers[Any]) -> Timers[Any]:
    """Return an independent copy of the timers."""
    clone: Timers[Any] = Timers()
    clone._new = timers._new.copy()
    clone._sorted = timers._sorted.copy()
    clone._heap = timers._heap.copy()
    clone._count = timers._count
    clone.earliest = timers.earliest
    return clone


def _shallow(value: T) -> T:
    clone = object.__new__(type(value))
    clone.__dict__.update(value.__dict__)
    return clone
