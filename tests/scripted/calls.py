"""`CallsHarness`: the calls of a connection under a fake clock, without the connection."""

import json

import msgspec

from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._exchange import ExchangeEvent, ExchangeState
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client.events import Accept, Called, Fail, Send

E, X = ExchangeEvent, ExchangeState
RAW = msgspec.Raw(b'{"ok":true}')


class CallsHarness:
    """`Calls` under a fake clock."""

    def __init__(self, *, is_http=False, is_strict=True, **options):
        options.setdefault("wait_for_ready", False)  # set by tests in which a call waits
        self.calls = Calls(Settings(**options), is_http=is_http, is_strict=is_strict)
        self.now = 0.0
        self.out = []

    def turn(self, seconds=0.0, jitter=0.5):
        self.now += seconds
        self.out = self.calls.begin(self.now, jitter)
        return self.calls

    def make(self, caller="me", *, may_send=True, method="tools/call", **options):
        """Make a call and return the exchange, or None if it was rejected."""
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


def harness_with(where, **options):
    """Return a harness with one call that is `waiting`, `written` or `busy`, or else queued by the transport."""
    harness = CallsHarness()
    if where == "waiting":
        harness.calls.is_full = True
    exchange = harness.make(**options)
    if where == "written":
        harness.calls.written = harness.calls.number
    if where == "busy":
        harness.turn().advance(exchange, E.REFUSED)
    return harness, exchange
