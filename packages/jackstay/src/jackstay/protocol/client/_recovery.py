"""Actions of the table for failures: the cause, the backoff, lost calls, keepalives and health checks."""

from jackstay.errors import (
    ProtocolError,
    ShutdownError,
    TransportError,
)
from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._backoff import backoff_delay
from jackstay.protocol.client._core import ClientCore, TransportStatus
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._negotiation import supports_both_eras
from jackstay.protocol.client._settings import KEEPALIVE_MISSES, MAX_ATTEMPTS, STABLE_AFTER
from jackstay.protocol.client._table import Action, ClientState, Timer

SESSIONS_NOT_KEPT = (
    "the server does not keep sessions: it responded with HTTP 404 for a session that it has just created. This happens"
    " with several workers that share no session store: use sticky sessions, a shared store, or a stateless server"
)


class RecoveryActions(ClientCore):
    """Actions for failures and reconnecting, and for the timers of a ready connection."""

    __slots__ = ()

    def _record_cause(self, event: e.Event) -> None:
        has_exited = (
            isinstance(event, e.WentDown)
            and self._ended_without_message(event)
            and event.code is not None
            and event.code >= 0
        )
        self._last_exit = event.code if isinstance(event, e.WentDown) and has_exited else None
        if self.state is ClientState.INITIALIZING:
            negotiation = self._negotiation
            has_only_probed = (
                negotiation.probe_id is not None
                and negotiation.handshake_id is None
                and supports_both_eras(self.settings)
            )
            self._skips_probe = isinstance(event, e.WentDown) and has_only_probed
        if isinstance(event, e.NegotiationFailed | e.NegotiationRefused | e.ConnectExpired):
            # Forget the era: the server may have changed it. A deferred stateless agreement is kept.
            self.known_era = None if self._negotiation.deferred is None else Era.STATELESS
        self._cause = self._cause_of(event)
        if isinstance(event, e.ConnectExpired) and isinstance(self._cause, TransportError):
            self._slow_starts += 1

    def _start_backoff(self, _: e.Event) -> None:
        now, jitter = self.calls.now, self.calls.jitter
        delay = backoff_delay(self.settings, self._failures, jitter)
        self._failures += 1
        self.calls.timers.arm(Timer.BACKOFF, now + delay)

    def _start_min_backoff(self, _: e.Event) -> None:
        self._failures += 1
        self.calls.timers.arm(Timer.BACKOFF, self.calls.now + self.settings.backoff_min)

    def _check_attempts(self, _: e.Event) -> None:
        limit = self.settings.max_attempts
        if limit is None:
            is_absent = isinstance(self._cause, ProtocolError) or getattr(self._cause, "absent", False)
            limit = 1 if is_absent else MAX_ATTEMPTS
        if self.server is None and self._failures >= limit:
            if self._cause is not None:
                self._cause.details["attempts"] = self._failures
            self._fire(e.AttemptsExhausted())

    def _lose_calls(self) -> None:
        self._stop_all_serving()
        self.calls.connection_lost(self._cause or TransportError("the connection was lost"))

    def _reset_calls(self, _: e.Event) -> None:
        self.calls.reset()

    def _end_calls(self, _: e.Event) -> None:
        self._stop_all_serving()
        self.calls.connection_closed(self._reason or ShutdownError())

    def _end_waiters(self, _: e.Event) -> None:
        waiters, self._waiters = self._waiters, {}
        for caller in waiters:
            self._do(e.Release(caller, self._ended()))

    def _drop_unless_kept(self, event: e.Event) -> None:
        if self.transport_status is not TransportStatus.KEPT:
            self._drop_transport(event)

    def _drop_transport(self, event: e.Event) -> None:
        self.ACTIONS[Action.CLOSE](self, event)
        self._lose_calls()

    def _keep_client(self, _: e.Event) -> None:
        self.transport_status = TransportStatus.KEPT
        self._stop_all_serving()
        self.calls.renew_session()

    def _warn_about_sessions(self, _: e.Event) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._do(e.Warn(SESSIONS_NOT_KEPT))

    def _requeue(self, event: e.SessionLost) -> None:
        self.calls.received_after = self.calls.number  # a refusal is a response too
        exchange = self._open_exchange(event.id)
        if exchange is not None and exchange.role is Role.CALL:
            self.calls.requeue(exchange)
            self._flush_if_stale(event)

    def _flush_if_stale(self, event: e.SessionLost) -> None:
        if event.epoch != self.epoch:  # there is a new session already
            self._flush_if_ready()

    def _fail_exchange(self, event: e.ExchangeLost) -> None:
        exchange = self._open_exchange(event.id)
        if event.was_declined and event.epoch == self.epoch:
            self.calls.received_after = self.calls.number  # a refusal is a response too
        if exchange is None:
            self._count("ignored ExchangeLost")
        elif exchange.role is Role.SUBSCRIPTION:
            self.calls.remove(exchange)
            self._do(e.EndSubscription(str(exchange.caller), event.error))
        else:
            self.calls.fail(exchange, event.error)
            self.calls.abandon(exchange)
            self._flush_if_ready()

    def _clear(self, _: e.Event) -> None:
        for name in self.calls.timers.armed:
            self.calls.timers.disarm(name)
        self.calls.tombstones.clear()
        self._subscriptions.clear()

    def _arm_ready_timers(self, _: e.Event) -> None:
        self._slow_starts = 0
        self._missed_keepalives = 0
        now = self.calls.now
        self.calls.timers.arm(Timer.STABLE, now + STABLE_AFTER)
        if self.settings.keepalive is not None:
            self.calls.timers.arm(Timer.KEEPALIVE, now + self.settings.keepalive)

    def _release_waiters(self, _: e.Event) -> None:
        waiters, self._waiters = self._waiters, {}
        for caller in waiters:
            self._do(e.Release(caller, None))

    def _sweep(self, _: e.Event) -> None:
        self.calls.tombstones.sweep(self.calls.now)
        self.calls.timers.arm(Timer.SWEEP, self.calls.now + self.settings.tombstone_sweep)

    def _keep_alive(self, _: e.Event) -> None:
        assert self.server is not None  # only while ready
        assert self.settings.keepalive is not None  # or the timer would not be armed
        calls = self.calls
        if calls.received_after:
            if not calls.is_checking:
                calls.check = 0
            calls.received_after = 0
            self._missed_keepalives = 0
        elif self._missed_keepalives >= KEEPALIVE_MISSES:
            self._fire(e.KeepaliveMissed())
            return
        else:
            self._missed_keepalives += 1
            self._send_check()
        calls.timers.arm(Timer.KEEPALIVE, calls.now + self.settings.keepalive)

    def _send_check(self) -> None:
        for exchange in list(self.calls.pending.values()):
            if exchange.role is Role.KEEPALIVE:
                self.calls.abandon(exchange)
        self.calls.make_internal(self._check_method(), b"{}", Role.KEEPALIVE)

    def _check_if_silent(self, event: e.Expired | e.CallCancelled) -> None:
        """Send a health check if a call ends or half of its time is over, and nothing was received in the meantime."""
        calls, limit = self.calls, self.settings.hang_timeout
        exchange = calls.pending.get(event.id)
        if limit is None or exchange is None or not calls.is_unanswered(exchange):
            return
        if isinstance(event, e.CallCancelled) and calls.now - exchange.made_at < limit:
            return  # cancelled early by its caller, which does not indicate a hang
        if exchange.due_at is not None and calls.now < exchange.due_at and isinstance(event, e.Expired):
            limit = (exchange.due_at - calls.now) / 2
        at, armed = calls.now + limit, calls.timers.at(Timer.CHECK)
        if not calls.is_checking or armed is None:
            self._send_check()
            calls.check = calls.number
            calls.timers.arm(Timer.CHECK, at)
        elif at < armed:
            calls.timers.arm(Timer.CHECK, at)

    def _forget_failures(self, _: e.Event) -> None:
        self._failures = 0
