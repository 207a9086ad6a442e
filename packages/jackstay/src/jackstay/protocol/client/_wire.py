"""What the table's names mean for the wire: starting and closing a transport, and agreeing on era and revision over it.

Above: `_connection`. Below: `_core`, `_negotiation` (what an answer means).
"""

from jackstay.errors import ProtocolError
from jackstay.protocol._versions import REVISIONS, Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._core import ClientCore, Wire
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._negotiation import (
    Negotiation,
    envelope,
    envelope_head,
    initialize_params,
    is_modern,
    is_permanent,
    judge_handshake,
    judge_probe,
    opening,
    speaks_both,
)
from jackstay.protocol.client._settings import MAX_NEGOTIATION_STEPS
from jackstay.protocol.client._table import Timer
from jackstay.protocol.wire._jsonrpc import encode_notification


class WireRows(ClientCore):
    """Rows of the table about the transport and the negotiation."""

    __slots__ = ()

    def _spawn(self, _: e.Event) -> None:
        self.epoch += 1
        if self.wire is Wire.KEPT:
            self._renewed_at = self.calls.now
        self.wire = Wire.SPAWNING
        self._is_up = False
        self._strikes = 0
        self._was_sane = False
        self._last_line = ""
        self._connect_by = None
        self._negotiation = Negotiation()
        self.calls.forget_transport()
        self.calls.envelope = b""
        self._do(e.Spawn(self.epoch))

    def _close(self, _: e.Event) -> None:
        if self.wire in (Wire.SPAWNING, Wire.LIVE, Wire.KEPT):
            self.wire = Wire.CLOSING
            self.calls.timers.arm(Timer.CLOSE, self.calls.now + self.settings.close_timeout)
            self._do(e.Close(self.epoch))

    def _close_late(self, event: e.Spawned) -> None:
        self._do(e.Close(event.epoch))

    def _mark_up(self, _: e.Event) -> None:
        self._is_up = True

    def _mark_reaped(self, _: e.Event) -> None:
        self.wire = Wire.NONE
        self.calls.timers.disarm(Timer.CLOSE)

    def _report_leak(self, _: e.Event) -> None:
        self._do(e.Leak(self.epoch))

    def _arm_connect(self, _: e.Event) -> None:
        seconds = self.settings.start_timeout(self._slow_starts)
        self.calls.timers.arm(Timer.CONNECT, self.calls.now + seconds)

    def _wait_for_reaping(self, _: e.Event) -> None:
        """Nothing to do: the close deadline is armed, and reaping or it will go on from here."""

    def _open_negotiation(self, _: e.Event) -> None:
        self.wire = Wire.LIVE
        if not self._is_up or self._negotiation.has_opened:
            return
        self._negotiation.has_opened = True
        verdict = Era.HANDSHAKE if self._skips_probe else self.verdict
        first = opening(self.settings, verdict)
        self._ask(first)
        if (
            first.era is Era.STATELESS
            and self.verdict is None
            and not self.is_http
            and speaks_both(self.settings)
        ):
            self.calls.timers.arm(Timer.PROBE, self.calls.now + self.settings.probe_wait)

    def _ask(self, offer: e.Offered) -> None:
        """Put the question of that era, unless it is open already."""
        talk = self._negotiation
        if offer.era is Era.STATELESS:
            if talk.probe_id is None:
                talk.requested = offer.version
                meta = envelope(self.settings, offer.version)
                talk.probe_id = self.calls.make_own("server/discover", b"{}", Role.PROBE, meta=meta)
                self._check_sent(talk.probe_id)
        elif talk.handshake_id is None:
            talk.proposed = offer.version
            params = initialize_params(self.settings, offer.version)
            talk.handshake_id = self.calls.make_own("initialize", params, Role.HANDSHAKE)
            self._check_sent(talk.handshake_id)

    def _check_sent(self, id: int) -> None:
        """A question that cannot even be sent will not be answered: say why, now."""
        if id not in self.calls.pending and self.calls.refusal is not None:
            self._fire(e.NegotiationRefused(self.calls.refusal))

    def _send_initialize(self, _: e.Event) -> None:
        self._ask(opening(self.settings, Era.HANDSHAKE))

    def _take_step(self, event: e.Offered) -> None:
        self._negotiation.steps += 1
        if self._negotiation.steps > MAX_NEGOTIATION_STEPS:
            self._fire(
                e.NegotiationFailed(ProtocolError(f"no agreement after {MAX_NEGOTIATION_STEPS} steps"))
            )
        else:
            self._ask(event)

    def _negotiate(self, event: e.AnswerReceived | e.ExchangeLost) -> None:
        talk = self._negotiation
        exchange = self.calls.pending[event.id]
        self.calls.forget(exchange)
        answer = event.error if isinstance(event, e.ExchangeLost) or event.result is None else event.result
        assert answer is not None  # an answer has a result or an error
        if isinstance(event, e.ExchangeLost) and (is_permanent(event.error) or not event.was_declined):
            talk.probe_id = talk.handshake_id = None
            is_final = is_permanent(event.error)
            verdict: e.Event = (
                e.NegotiationRefused(event.error) if is_final else e.NegotiationFailed(event.error)
            )
        elif event.id == talk.probe_id:
            talk.probe_id = None
            verdict = judge_probe(self.settings, talk.requested, answer, may_repeat=talk.steps == 0)
        else:
            talk.handshake_id = None
            verdict = judge_handshake(self.settings, talk.proposed, answer)
        if talk.handshake_id is not None and isinstance(verdict, e.Negotiated):
            # Both were asked, and a server of both eras will take `initialize` for our choice. So its answer decides;
            # without it the connect deadline does, and next time `initialize` is not sent.
            talk.held = verdict
            return
        is_usable = isinstance(verdict, e.Negotiated | e.Offered) or is_modern(answer)
        if talk.held is not None and not isinstance(verdict, e.Negotiated):
            verdict = talk.held
        elif not is_usable and (talk.probe_id is not None or talk.handshake_id is not None):
            return  # the other question is open, and its answer may be usable; the connect deadline bounds the wait
        self._fire(verdict)

    def _restart_handshake(self, event: e.SessionLost) -> None:
        self.calls.forget(self.calls.pending[event.id])
        talk = self._negotiation
        talk.probe_id = talk.handshake_id = None
        self._take_step(opening(self.settings, Era.HANDSHAKE))

    def _agree(self, event: e.Negotiated) -> None:
        server = event.server
        self.server = server
        self.verdict = server.era
        for exchange in list(self.calls.pending.values()):
            if exchange.role in (Role.PROBE, Role.HANDSHAKE):
                self.calls.bury(exchange)
        is_stateless = server.era is Era.STATELESS
        self.calls.envelope = envelope(self.settings, server.version) if is_stateless else b""
        self.calls.head = envelope_head(server.version) if is_stateless else b""
        self.calls.hangs_up = self.is_http and REVISIONS[server.version].disconnect_cancels
        if is_stateless:
            self._was_probe_fatal = self._skips_probe = False
        else:
            self._say(encode_notification("notifications/initialized"))

    def _skip_probe(self, _: e.Event) -> None:
        self._was_probe_fatal = True
