"""A client's connection: accepts events and the time, returns effects, and does no I/O.

The driver steps every event of `due()` at `wake_at`, performs the effects and reports back with further events. There
is no clock, random source, socket or task, so the model checker can explore the connection without waiting.
"""

from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Retry, TimerName
from jackstay.protocol.client._core import TransportStatus
from jackstay.protocol.client._exchange import ExchangeState, Role
from jackstay.protocol.client._frames import FrameActions
from jackstay.protocol.client._negotiation import supports_both_eras
from jackstay.protocol.client._recovery import RecoveryActions
from jackstay.protocol.client._settings import SESSION_LOSS_WINDOW
from jackstay.protocol.client._table import Action, ClientState, Guard, Timer
from jackstay.protocol.client._transport import TransportActions
from jackstay.protocol.client._users import UserActions
from jackstay.protocol.wire._jsonrpc import Result, decode

# Used for every call; see `_calls`.
_READY, _CALL, _SENT = ClientState.READY, Role.CALL, ExchangeState.SENT

_TIMER_EVENTS: dict[Timer, type[e.Event]] = {
    Timer.CONNECT: e.ConnectExpired,
    Timer.PROBE: e.ProbeExpired,
    Timer.BACKOFF: e.BackoffElapsed,
    Timer.CLOSE: e.CloseExpired,
    Timer.SWEEP: e.SweepDue,
    Timer.KEEPALIVE: e.KeepaliveDue,
    Timer.CHECK: e.CheckExpired,
    Timer.STABLE: e.BecameStable,
}


class ClientConnection(UserActions, TransportActions, RecoveryActions, FrameActions):
    """One client connection. Call `start()` once, then `step()`, `receive()`, `wrote()` and `due()` as things happen.

    `is_http`: requests are sent one by one instead of in a stream. `known_era` is the era of an earlier connection to
    the same target. With `is_strict` an event that the table calls impossible raises `InvalidEventError`; otherwise it
    is counted.
    """

    __slots__ = ()

    def start(self, now: float) -> e.Effects:
        """Start the connection: the effects spawn the first transport."""
        out = self.calls.begin(now, 0.5)
        self.calls.timers.arm(Timer.SWEEP, now + self.settings.tombstone_sweep)
        self._enter(ClientState.STARTING, is_first=True)
        return out

    def step(self, event: e.Event, now: float, jitter: float = 0.5) -> e.Effects:
        """Process an event that happened at `now` and return the effects, in order. `jitter` is random in [0, 1).

        Raises: InvalidEventError with `is_strict`, for an event that cannot happen in this state.
        """
        calls = self.calls
        calls.now, calls.jitter = now, jitter  # as `begin()`, which would be one more frame for every event
        out: e.Effects = []
        calls.out = out
        self._fire(event)
        return out

    def receive(self, frame: bytes, epoch: int, now: float, jitter: float = 0.5) -> e.Effects:
        """Process a frame from the transport of `epoch` and return the effects, in order.

        The result of an open call while ready bypasses the table; any other frame becomes an event.
        """
        calls = self.calls
        calls.now, calls.jitter = now, jitter  # as in `step()`
        out: e.Effects = []
        calls.out = out
        if epoch != self.epoch:
            self._fire(e.StaleEventReceived(epoch))
            return out
        message = decode(frame)
        if type(message) is Result and self.state is _READY:
            exchange = calls.pending.get(message.id)  # type: ignore[arg-type]  # a string id matches nothing
            if exchange is not None and exchange.role is _CALL and exchange.state is _SENT:
                calls.received_after = calls.number
                self._failures = self._invalid_frames = 0
                calls.complete(exchange, message.result)
                return out
        self._accept(message, len(frame))
        return out

    def wrote(self, epoch: int, through: int) -> None:
        """Record that the transport of `epoch` passed a byte of each frame up to this number to the operating system.

        Not an event of the table: it means the same in every state, and has no effects.
        """
        if epoch != self.epoch:
            self._fire(e.StaleEventReceived(epoch))
        elif through > self.calls.written:
            self.calls.written = through

    def due(self, now: float) -> list[e.Event]:
        """Return the expired timers as events to step, earliest first."""
        return [self._timer_event(name) for name in self.calls.timers.due(now)]

    @property
    def wake_at(self) -> float | None:
        """When to call `due()` next; None: not before another event."""
        return self.calls.timers.next_at

    def _timer_event(self, name: TimerName) -> e.Event:
        if isinstance(name, Timer):
            return _TIMER_EVENTS[name]()
        return e.RetryDue(name.id) if isinstance(name, Retry) else e.Expired(name)

    # --- guards of the table ------------------------------------------------------------------------------------------

    def _is_reaped(self, _: e.Event) -> bool:
        return self.transport_status is TransportStatus.NONE

    def _has_elapsed(self, _: e.Event) -> bool:
        return Timer.BACKOFF not in self.calls.timers

    def _has_only_probed(self, _: e.Event) -> bool:
        negotiation = self._negotiation
        is_alone = negotiation.probe_id is not None and negotiation.handshake_id is None
        return is_alone and not self._was_probe_fatal and supports_both_eras(self.settings)

    def _has_repeated_exit(self, event: e.WentDown) -> bool:
        return (
            self.server is None
            and self._last_exit is not None
            and self._ended_without_message(event)
            and event.code == self._last_exit
        )

    def _is_check_unanswered(self, _: e.Event) -> bool:
        return self.calls.is_checking

    def _is_session_too_new(self, _: e.Event) -> bool:
        last = self._session_renewed_at
        return last is not None and self.calls.now - last <= SESSION_LOSS_WINDOW

    def _answers_negotiation(self, event: e.ResponseReceived | e.ExchangeLost | e.SessionLost) -> bool:
        return event.id in (self._negotiation.probe_id, self._negotiation.handshake_id)

    def _is_open_post(self, event: e.ResponseReceived) -> bool:
        exchange = self._open_exchange(event.id)
        return self.is_http and exchange is not None and exchange.role is Role.CALL

    def _has_open_posts(self, _: e.Event) -> bool:
        return self.is_http and any(
            x.role is Role.CALL and x.state is ExchangeState.SENT for x in self.calls.pending.values()
        )

    def _is_kept(self, _: e.Event) -> bool:
        return self.transport_status is TransportStatus.KEPT


ClientConnection.ACTIONS = {
    Action.WRITE: ClientConnection._write,
    Action.QUEUE_OR_REFUSE: ClientConnection._queue_or_refuse,
    Action.REFUSE: ClientConnection._refuse,
    Action.REFUSE_CLOSING: ClientConnection._refuse_ended,
    Action.REFUSE_CLOSED: ClientConnection._refuse_ended,
    Action.NOTIFY: ClientConnection._notify,
    Action.ADD_WAITER: ClientConnection._add_waiter,
    Action.DROP_WAITER: ClientConnection._drop_waiter,
    Action.RELEASE: ClientConnection._release,
    Action.RELEASE_WITH_REASON: ClientConnection._release_with_reason,
    Action.RETURN_SERVER: ClientConnection._return_server,
    Action.RETURN_LAST_SERVER: ClientConnection._return_last_server,
    Action.CANCEL_CALL: ClientConnection._cancel_call,
    Action.EXPIRE: ClientConnection._expire,
    Action.RETRY: ClientConnection._retry,
    Action.HANDLE_BUSY: ClientConnection._handle_busy,
    Action.FLUSH: ClientConnection._flush,
    Action.SEND_MORE: ClientConnection._send_more,
    Action.KEEP_FRAME: ClientConnection._keep_frame,
    Action.SEND_KEPT: ClientConnection._send_kept,
    Action.MARK_UNSENT: ClientConnection._mark_unsent,
    Action.MARK_SENT: ClientConnection._mark_sent,
    Action.SUBSCRIBE: ClientConnection._subscribe,
    Action.REMEMBER_SUBSCRIPTION: ClientConnection._remember_subscription,
    Action.FORGET_SUBSCRIPTION: ClientConnection._forget_subscription,
    Action.REPLY: ClientConnection._reply,
    Action.SPAWN: ClientConnection._spawn,
    Action.CLOSE: ClientConnection._close,
    Action.CLOSE_LATE: ClientConnection._close_late,
    Action.MARK_UP: ClientConnection._mark_up,
    Action.MARK_REAPED: ClientConnection._mark_reaped,
    Action.REPORT_LEAK: ClientConnection._report_leak,
    Action.OPEN_NEGOTIATION: ClientConnection._open_negotiation,
    Action.SEND_INITIALIZE: ClientConnection._send_initialize,
    Action.TRY_NEXT_VERSION: ClientConnection._try_next_version,
    Action.FINISH_NEGOTIATION: ClientConnection._finish_negotiation,
    Action.RESTART_HANDSHAKE: ClientConnection._restart_handshake,
    Action.SKIP_PROBE: ClientConnection._skip_probe,
    Action.RECORD_CAUSE: ClientConnection._record_cause,
    Action.START_BACKOFF: ClientConnection._start_backoff,
    Action.START_MIN_BACKOFF: ClientConnection._start_min_backoff,
    Action.RESET_CALLS: ClientConnection._reset_calls,
    Action.END_CALLS: ClientConnection._end_calls,
    Action.END_WAITERS: ClientConnection._end_waiters,
    Action.KEEP_CLIENT: ClientConnection._keep_client,
    Action.REQUEUE: ClientConnection._requeue,
    Action.WARN_ABOUT_SESSIONS: ClientConnection._warn_about_sessions,
    Action.DROP_UNLESS_KEPT: ClientConnection._drop_unless_kept,
    Action.DROP_TRANSPORT: ClientConnection._drop_transport,
    Action.FAIL_EXCHANGE: ClientConnection._fail_exchange,
    Action.CHECK_ATTEMPTS: ClientConnection._check_attempts,
    Action.CLEAR: ClientConnection._clear,
    Action.COMPLETE: ClientConnection._complete,
    Action.NEGOTIATE: ClientConnection._negotiate,
    Action.COUNT_STRAY: ClientConnection._count_stray,
    Action.COUNT: ClientConnection._count_stale,
    Action.STOP_SERVING: ClientConnection._stop_serving,
    Action.KEEP_IF_EARLY: ClientConnection._keep_if_early,
    Action.DELIVER: ClientConnection._deliver,
    Action.ANSWER_PING_ONLY: ClientConnection._answer_ping_only,
    Action.SERVE: ClientConnection._serve,
    Action.COUNT_INVALID_FRAME: ClientConnection._count_invalid_frame,
    Action.REPORT_VIOLATION: ClientConnection._report_violation,
    Action.ARM_CONNECT: ClientConnection._arm_connect,
    Action.ARM_READY_TIMERS: ClientConnection._arm_ready_timers,
    Action.REOPEN: ClientConnection._reopen,
    Action.RELEASE_WAITERS: ClientConnection._release_waiters,
    Action.SWEEP: ClientConnection._sweep,
    Action.KEEP_ALIVE: ClientConnection._keep_alive,
    Action.CHECK_IF_SILENT: ClientConnection._check_if_silent,
    Action.END_CHECK: ClientConnection._end_check,
    Action.FORGET_FAILURES: ClientConnection._forget_failures,
    Action.WAIT_FOR_REAPING: ClientConnection._wait_for_reaping,
}

ClientConnection.GUARDS = {
    Guard.REAPED: ClientConnection._is_reaped,
    Guard.ELAPSED: ClientConnection._has_elapsed,
    Guard.ONLY_PROBED: ClientConnection._has_only_probed,
    Guard.REPEATED_EXIT: ClientConnection._has_repeated_exit,
    Guard.CHECK_UNANSWERED: ClientConnection._is_check_unanswered,
    Guard.SESSION_TOO_NEW: ClientConnection._is_session_too_new,
    Guard.ANSWERS_NEGOTIATION: ClientConnection._answers_negotiation,
    Guard.OPEN_POST: ClientConnection._is_open_post,
    Guard.HAS_OPEN_POSTS: ClientConnection._has_open_posts,
    Guard.KEPT: ClientConnection._is_kept,
}
