"""Subscriptions: what is to be kept open across reconnects, and the request that keeps each open."""

import msgspec

from jackstay.errors import McpError
from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._exchange import Exchange, ExchangeEvent, Role


class Subscriptions(msgspec.Struct):
    """The subscriptions of a connection, by key."""

    calls: Calls
    kept: dict[str, e.Subscribed] = msgspec.field(default_factory=dict)
    # The newest request of each. It may have ended: ids are never reused, so it is then not found.
    ids: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, event: e.Subscribed) -> None:
        """Keep it open from the next ready on."""
        self.kept[event.key] = event

    def open(self, event: e.Subscribed, era: Era) -> None:
        """Send its request, if the era has one and none is open."""
        form = event.stateless if era is Era.STATELESS else event.handshake
        if form is not None and self.ids.get(event.key) not in self.calls.pending:
            self.ids[event.key] = self.calls.make_internal(*form, Role.SUBSCRIPTION, caller=event.key)

    def reopen(self, era: Era) -> None:
        """Open all of them: the connection is ready again."""
        for event in self.kept.values():
            self.open(event, era)

    def forget(self, key: str) -> None:
        """Remove it, and cancel its request."""
        self.kept.pop(key, None)
        exchange = self.calls.pending.get(self.ids.pop(key, 0))
        if exchange is not None:
            self.calls.advance(exchange, ExchangeEvent.CANCELLED)

    def answered(self, exchange: Exchange, error: McpError | None) -> None:
        """Process the response to its request: a result of `resources/subscribe` does not end it."""
        self.calls.remove(exchange)
        if error is not None or exchange.method == "subscriptions/listen":
            self.calls.out.append(e.EndSubscription(str(exchange.caller), error))

    def cancelled(self, exchange: Exchange) -> None:
        """Process its end by `notifications/cancelled`; its response may still follow."""
        self.calls.abandon(exchange)
        self.calls.out.append(e.EndSubscription(str(exchange.caller), None))
