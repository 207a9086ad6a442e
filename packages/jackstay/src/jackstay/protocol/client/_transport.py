"""Actions of the table for the transport: starting and closing it, and negotiating era and revision."""

from jackstay.errors import ProtocolError
from jackstay.protocol._versions import REVISIONS, Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._core import ClientCore, TransportStatus
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._negotiation import (
    Negotiation,
    first_proposal,
    initialize_params,
    interpret_handshake,
    interpret_probe,
    is_permanent,
    is_stateless_error,
    request_meta,
    supports_both_eras,
    version_meta,
)
from jackstay.protocol.client._settings import MAX_NEGOTIATION_STEPS
from jackstay.protocol.client._table import Timer
from jackstay.protocol.wire._jsonrpc import encode_notification


class TransportActions(ClientCore):
    """Actions for the transport and the negotiation."""

    __slots__ = ()

    def _spawn(self, _: e.Event) -> None:
        self.epoch += 1
        if self.transport_status is TransportStatus.KEPT:
            self._session_renewed_at = self.calls.now
        self.transport_status = TransportStatus.SPAWNING
        self._is_up = False
        self._invalid_frames = 0
        self._has_received_message = False
        self._last_line = ""
        self._connect_deadline = None
        self._negotiation = Negotiation()
        self.calls.reset_transport()
        self.calls.request_meta = b""
        self._do(e.Spawn(self.epoch))

    def _close(self, _: e.Event) -> None:
        if self.transport_status in (TransportStatus.SPAWNING, TransportStatus.LIVE, TransportStatus.KEPT):
            self.transport_status = TransportStatus.CLOSING
            self.calls.timers.arm(Timer.CLOSE, self.calls.now + self.settings.close_timeout)
            self._do(e.Close(self.epoch))

    def _close_late(self, event: e.Spawned) -> None:
        self._do(e.Close(event.epoch))

    def _mark_up(self, _: e.Event) -> None:
        self._is_up = True

    def _mark_reaped(self, _: e.Event) -> None:
        self.transport_status = TransportStatus.NONE
        self.calls.timers.disarm(Timer.CLOSE)

    def _report_leak(self, _: e.Event) -> None:
        self._do(e.Leak(self.epoch))

    def _arm_connect(self, _: e.Event) -> None:
        seconds = self.settings.start_timeout(self._slow_starts)
        self.calls.timers.arm(Timer.CONNECT, self.calls.now + seconds)

    def _wait_for_reaping(self, _: e.Event) -> None:
        """Do nothing: `Reaped` or the close deadline continues from here."""

    def _open_negotiation(self, _: e.Event) -> None:
        self.transport_status = TransportStatus.LIVE
        if not self._is_up or self._negotiation.has_opened:
            return
        self._negotiation.has_opened = True
        known_era = Era.HANDSHAKE if self._skips_probe else self.known_era
        first = first_proposal(self.settings, known_era)
        self._propose(first)
        if (
            first.era is Era.STATELESS
            and self.known_era is None
            and not self.is_http
            and supports_both_eras(self.settings)
        ):
            self.calls.timers.arm(Timer.PROBE, self.calls.now + self.settings.probe_wait)

    def _propose(self, proposal: e.VersionProposed) -> None:
        """Send `server/discover` or `initialize` for that era, unless it is open already."""
        negotiation = self._negotiation
        if proposal.era is Era.STATELESS:
            if negotiation.probe_id is None:
                negotiation.requested = proposal.version
                meta = request_meta(self.settings, proposal.version)
                negotiation.probe_id = self.calls.make_internal("server/discover", b"{}", Role.PROBE, meta=meta)
                self._check_sent(negotiation.probe_id)
        elif negotiation.handshake_id is None:
            negotiation.proposed = proposal.version
            params = initialize_params(self.settings, proposal.version)
            negotiation.handshake_id = self.calls.make_internal("initialize", params, Role.HANDSHAKE)
            self._check_sent(negotiation.handshake_id)

    def _check_sent(self, id: int) -> None:
        """Fail the negotiation now if the request could not be sent."""
        if id not in self.calls.pending and self.calls.refusal is not None:
            self._fire(e.NegotiationRefused(self.calls.refusal))

    def _send_initialize(self, _: e.Event) -> None:
        self._propose(first_proposal(self.settings, Era.HANDSHAKE))

    def _try_next_version(self, event: e.VersionProposed) -> None:
        self._negotiation.steps += 1
        if self._negotiation.steps > MAX_NEGOTIATION_STEPS:
            error = ProtocolError(f"no agreement on a protocol version after {MAX_NEGOTIATION_STEPS} steps")
            self._fire(e.NegotiationFailed(error))
        else:
            self._propose(event)

    def _negotiate(self, event: e.ResponseReceived | e.ExchangeLost) -> None:
        negotiation = self._negotiation
        exchange = self.calls.pending[event.id]
        self.calls.remove(exchange)
        response = event.error if isinstance(event, e.ExchangeLost) or event.result is None else event.result
        assert response is not None  # a response has a result or an error
        if isinstance(event, e.ExchangeLost) and (is_permanent(event.error) or not event.was_declined):
            negotiation.probe_id = negotiation.handshake_id = None
            is_final = is_permanent(event.error)
            outcome: e.Event = e.NegotiationRefused(event.error) if is_final else e.NegotiationFailed(event.error)
        elif event.id == negotiation.probe_id:
            negotiation.probe_id = None
            outcome = interpret_probe(self.settings, negotiation.requested, response, may_repeat=negotiation.steps == 0)
        else:
            negotiation.handshake_id = None
            outcome = interpret_handshake(self.settings, negotiation.proposed, response)
        if negotiation.handshake_id is not None and isinstance(outcome, e.Negotiated):
            # Both were sent, and a server of both eras treats `initialize` as the client's choice. So its response
            # decides; without one the connect deadline does, and next time `initialize` is not sent.
            negotiation.deferred = outcome
            return
        is_usable = isinstance(outcome, e.Negotiated | e.VersionProposed) or is_stateless_error(response)
        if negotiation.deferred is not None and not isinstance(outcome, e.Negotiated):
            outcome = negotiation.deferred
        elif not is_usable and (negotiation.probe_id is not None or negotiation.handshake_id is not None):
            return  # the response to the other request may be usable; the connect deadline limits the wait
        self._fire(outcome)

    def _restart_handshake(self, event: e.SessionLost) -> None:
        self.calls.remove(self.calls.pending[event.id])
        negotiation = self._negotiation
        negotiation.probe_id = negotiation.handshake_id = None
        self._try_next_version(first_proposal(self.settings, Era.HANDSHAKE))

    def _finish_negotiation(self, event: e.Negotiated) -> None:
        server = event.server
        self.server = server
        self.known_era = server.era
        for exchange in list(self.calls.pending.values()):
            if exchange.role in (Role.PROBE, Role.HANDSHAKE):
                self.calls.abandon(exchange)
        is_stateless = server.era is Era.STATELESS
        self.calls.request_meta = request_meta(self.settings, server.version) if is_stateless else b""
        self.calls.version_meta = version_meta(server.version) if is_stateless else b""
        self.calls.closes_response_to_cancel = self.is_http and REVISIONS[server.version].disconnect_cancels
        if is_stateless:
            self._was_probe_fatal = self._skips_probe = False
        else:
            self._send_message(encode_notification("notifications/initialized"))

    def _skip_probe(self, _: e.Event) -> None:
        self._was_probe_fatal = True
