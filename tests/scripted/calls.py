"""The calls of a connection on a desk: made, sent and ended under a clock of our own, without the connection."""

import json

import msgspec

from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._exchange import ExchangeEvent, ExchangeState
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client.events import Accept, Called, Fail, Send

E, X = ExchangeEvent, ExchangeState
RAW = msgspec.Raw(b'{"ok":true}')


class Desk:
    """Calls under a clock of our own."""

    def __init__(self, *, is_http=False, is_strict=True, **options):
        options.setdefault("wait_for_ready", False)  # tests name it where a call is to wait
        self.calls = Calls(Settings(**options), is_http=is_http, is_strict=is_strict)
        self.calls.can_send = True
        self.now = 0.0
        self.out = []

    def turn(self, seconds=0.0, luck=0.5):
        self.now += seconds
        self.out = self.calls.begin(self.now, luck)
        return self.calls

    def make(self, caller="me", *, may_send=True, method="tools/call", **options):
        """Make a call; the exchange, or None if it was refused."""
        calls = self.turn()
        calls.make(Called(caller=caller, method=method, **options), may_send=may_send)
        accepted = [effect for effect in self.out if isinstance(effect, Accept)]
        return calls.pending.get(accepted[0].id) if accepted else None

    def sent(self, caller="me", **options):
        exchange = self.make(caller, **options)
        self.calls.written = self.calls.number
        return exchange

    def fail(self):
        (effect,) = [effect for effect in self.out if isinstance(effect, Fail)]
        return effect

    def kinds(self):
        return [type(effect) for effect in self.out]

    def frames(self):
        return [json.loads(effect.frame) for effect in self.out if isinstance(effect, Send)]


def desk_with(where, **options):
    """A desk with one call: `waiting`, `written`, `busy`, or anything else for one that is queued by the transport."""
    desk = Desk()
    if where == "waiting":
        desk.calls.is_full = True
    exchange = desk.make(**options)
    if where == "written":
        desk.calls.written = desk.calls.number
    if where == "busy":
        desk.turn().advance(exchange, E.REFUSED)
    return desk, exchange
