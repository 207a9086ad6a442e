"""The subscriptions that are kept open across reconnects, each by a request of the connection itself."""

import msgspec

from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._exchange import ExchangeEvent, Role


class Subscriptions(msgspec.Struct):
    """The subscriptions by key."""

    calls: Calls
    by_key: dict[str, e.Subscribed] = msgspec.field(default_factory=dict)

    def copy(self, calls: Calls) -> "Subscriptions":
        """Return an independent copy, used by the model checker."""
        return Subscriptions(calls, self.by_key.copy())

    def add(self, event: e.Subscribed) -> None:
        """Store it, to be opened by `open()` now or by `reopen()` later."""
        self.by_key[event.key] = event

    def open(self, event: e.Subscribed, era: Era) -> None:
        """Send its request, if the era has one."""
        form = event.stateless if era is Era.STATELESS else event.handshake
        if form is not None:
            self.calls.make_internal(*form, Role.SUBSCRIPTION, caller=event.key)

    def reopen(self, era: Era) -> None:
        """Open all of them on a new connection."""
        for event in self.by_key.values():
            self.open(event, era)

    def remove(self, key: str) -> None:
        """Remove it and cancel its request."""
        self.by_key.pop(key, None)
        for exchange in list(self.calls.pending.values()):
            if exchange.role is Role.SUBSCRIPTION and exchange.caller == key:
                self.calls.advance(exchange, ExchangeEvent.CANCELLED)
