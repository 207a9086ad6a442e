"""What the table's names mean when something fails: the cause, the wait, the calls, and coming back.

Above: `_connection`. Below: `_core`, `_calls`, `_backoff`.
"""

from jackstay.errors import (
    ProtocolError,
    ShutdownError,
    TransportError,
)
from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._backoff import backoff_delay
from jackstay.protocol.client._core import ClientCore, Wire
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._negotiation import speaks_both
from jackstay.protocol.client._settings import KEEPALIVE_MISSES, MAX_ATTEMPTS, SETTLED_AFTER
from jackstay.protocol.client._table import ClientState, Do, Timer

FORGETS_SESSIONS = (
    "the server forgets sessions: it answers HTTP 404 to a session that it has just created. Several workers without a"
    " shared session store do that: use sticky sessions, a shared store, or a server without sessions"
)


class RecoveryRows(ClientCore):
    """Rows of the table about failing and coming back, and the timers of a connection that holds."""

    __slots__ = ()

    def _note_cause(self, event: e.Event) -> None:
        has_exited = (
            isinstance(event, e.WentDown)
            and self._said_nothing(event)
            and event.code is not None
            and event.code >= 0
        )
        self._last_exit = event.code if isinstance(event, e.WentDown) and has_exited else None
        if self.state is ClientState.INITIALIZING:
            talk = self._negotiation
            is_probes_fault = (
                talk.probe_id is not None and talk.handshake_id is None and speaks_both(self.settings)
            )
            self._skips_probe = isinstance(event, e.WentDown) and is_probes_fault
        if isinstance(event, e.NegotiationFailed | e.NegotiationRefused | e.ConnectExpired):
            # A verdict that fails is forgotten: the server may have changed its era. One that only waited is kept.
            self.verdict = None if self._negotiation.held is None else Era.STATELESS
        self._cause = self._cause_of(event)
        if isinstance(event, e.ConnectExpired) and isinstance(self._cause, TransportError):
            self._slow_starts += 1

    def _back(self, _: e.Event) -> None:
        now, luck = self.calls.now, self.calls.luck
        delay = backoff_delay(self.settings, self._failures, luck)
        self._failures += 1
        self.calls.timers.arm(Timer.BACKOFF, now + delay)

    def _back_soon(self, _: e.Event) -> None:
        self._failures += 1
        self.calls.timers.arm(Timer.BACKOFF, self.calls.now + self.settings.backoff_min)

    def _check_attempts(self, _: e.Event) -> None:
        limit = self.settings.max_attempts
        if limit is None:
            is_absent = isinstance(self._cause, ProtocolError) or getattr(self._cause, "absent", False)
            limit = 1 if is_absent else MAX_ATTEMPTS
        if not self._was_ready and self._failures >= limit:
            if self._cause is not None:
                self._cause.details["attempts"] = self._failures
            self._fire(e.AttemptsExhausted())

    def _lose_calls(self) -> None:
        self._stop_all_serving()
        self.calls.lose(self._cause or TransportError("the connection was lost"))

    def _reset_calls(self, _: e.Event) -> None:
        self.calls.reset()

    def _end_calls(self, _: e.Event) -> None:
        self._stop_all_serving()
        self.calls.end(self._reason or ShutdownError())

    def _end_waiters(self, _: e.Event) -> None:
        waiters, self._waiters = self._waiters, {}
        for caller in waiters:
            self._do(e.Release(caller, self._ended()))

    def _let_go(self, event: e.Event) -> None:
        if self.wire is not Wire.KEPT:
            self._drop_client(event)

    def _drop_client(self, event: e.Event) -> None:
        self.DO[Do.CLOSE](self, event)
        self._lose_calls()

    def _keep_client(self, _: e.Event) -> None:
        self.wire = Wire.KEPT
        self._stop_all_serving()
        self.calls.renew()

    def _warn_of_sessions(self, _: e.Event) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._do(e.Warn(FORGETS_SESSIONS))

    def _turn_away(self, event: e.SessionLost) -> None:
        self.calls.received_after = self.calls.number  # a refusal is an answer, too
        exchange = self._open_exchange(event.id)
        if exchange is not None and exchange.role is Role.CALL:
            self.calls.turn_away(exchange)
            self._flush_if_stale(event)

    def _flush_if_stale(self, event: e.SessionLost) -> None:
        if event.epoch != self.epoch:  # the new session is here already
            self._flush_if_ready()

    def _fail_exchange(self, event: e.ExchangeLost) -> None:
        exchange = self._open_exchange(event.id)
        if event.was_declined and event.epoch == self.epoch:
            self.calls.received_after = self.calls.number  # a refusal is an answer, too
        if exchange is None:
            self._count("ignored ExchangeLost")
        elif exchange.role is Role.STANDING:
            self.calls.forget(exchange)
            self._do(e.EndSubscription(str(exchange.caller), event.error))
        else:
            self.calls.fail(exchange, event.error)
            self.calls.bury(exchange)
            self._flush_if_ready()

    def _rest(self, _: e.Event) -> None:
        for name in self.calls.timers.armed:
            self.calls.timers.disarm(name)
        self.calls.tombstones.clear()
        self._standing.clear()

    def _arm_ready_timers(self, _: e.Event) -> None:
        self._was_ready = True
        self._slow_starts = 0
        self._unheard = 0
        now = self.calls.now
        self.calls.timers.arm(Timer.SETTLED, now + SETTLED_AFTER)
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
            self._unheard = 0
        elif self._unheard >= KEEPALIVE_MISSES:
            self._fire(e.KeepaliveMissed())
            return
        else:
            self._unheard += 1
            self._send_check()
        calls.timers.arm(Timer.KEEPALIVE, calls.now + self.settings.keepalive)

    def _send_check(self) -> None:
        for exchange in list(self.calls.pending.values()):
            if exchange.role is Role.KEEPALIVE:
                self.calls.bury(exchange)
        self.calls.make_own(self._check_method(), b"{}", Role.KEEPALIVE)

    def _check_if_silent(self, event: e.Expired | e.GaveUp) -> None:
        """A call ends without an answer, or half of its time is over and it may be sent again: does the server still answer?"""
        calls, limit = self.calls, self.settings.hang_timeout
        exchange = calls.pending.get(event.id)
        if limit is None or exchange is None or not calls.is_unanswered(exchange):
            return
        if isinstance(event, e.GaveUp) and calls.now - exchange.made_at < limit:
            return  # its caller changed their mind: that is no sign of a hang
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
