"""A client's connection: takes what happened and the time, returns what to do, and touches nothing else.

`ClientConnection` runs the table of `_table`: for an event it looks up the cell of its state, asks the cell's
question, does what the cell names and goes where it says. Everything it decides comes out as effects, in order; the
driver does them and reports back with further events. It holds no clock, no random source, no socket and no task, so
whatever it can do can be tried without waiting: see the model check beside its tests.

Two ways lead in. `step()` walks the table. `receive()` takes a frame: it decodes it, serves the commonest one (an
answer to an open call while ready) with one lookup, and makes an event of any other. The driver sleeps until
`wake_at` and steps every event of `due()`.

Above: the driver in the client's room. Below: `_table` (when), `_calls` (requests), `_negotiation` (eras).
"""

from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Retry, TimerName
from jackstay.protocol.client._core import Wire
from jackstay.protocol.client._exchange import ExchangeState, Role
from jackstay.protocol.client._frames import FrameRows
from jackstay.protocol.client._negotiation import speaks_both
from jackstay.protocol.client._recovery import RecoveryRows
from jackstay.protocol.client._settings import SESSION_LOSS_WINDOW
from jackstay.protocol.client._table import ClientState, Do, Timer, When
from jackstay.protocol.client._users import UserRows
from jackstay.protocol.client._wire import WireRows
from jackstay.protocol.wire._jsonrpc import Result, decode

_TIMER_EVENTS: dict[Timer, type[e.Event]] = {
    Timer.CONNECT: e.ConnectExpired,
    Timer.PROBE: e.ProbeExpired,
    Timer.BACKOFF: e.BackoffElapsed,
    Timer.CLOSE: e.CloseExpired,
    Timer.SWEEP: e.SweepDue,
    Timer.KEEPALIVE: e.KeepaliveDue,
    Timer.CHECK: e.CheckExpired,
    Timer.SETTLED: e.Settled,
}


class ClientConnection(UserRows, WireRows, RecoveryRows, FrameRows):
    """One client connection. Call `start()` once, then `step()`, `receive()` and `due()` as things happen.

    `is_http` says that requests travel one by one instead of in a stream. `verdict` is the era remembered from an
    earlier connection with the same target. With `is_strict` a pair that the table calls impossible raises
    `InvalidEventError`; otherwise it is counted.
    """

    __slots__ = ()

    def start(self, now: float) -> e.Effects:
        """Begin: the first transport is to be spawned."""
        out = self.calls.begin(now, 0.5)
        self.calls.timers.arm(Timer.SWEEP, now + self.settings.tombstone_sweep)
        self._enter(ClientState.STARTING, is_first=True)
        return out

    def step(self, event: e.Event, now: float, luck: float = 0.5) -> e.Effects:
        """Take what happened at `now`; `luck` is a random number in [0, 1). What to do, in order.

        Raises: InvalidEventError with `is_strict`, for a pair that cannot happen.
        """
        out = self.calls.begin(now, luck)
        self._fire(event)
        return out

    def receive(self, frame: bytes, epoch: int, now: float, luck: float = 0.5) -> e.Effects:
        """Take a frame from the transport of `epoch`. What to do, in order."""
        calls = self.calls
        out = calls.begin(now, luck)
        if epoch != self.epoch:
            self._fire(e.StaleHappened(epoch))
            return out
        message = decode(frame)
        if type(message) is Result and self.state is ClientState.READY:
            exchange = calls.pending.get(message.id)  # type: ignore[arg-type]  # a string finds nothing, as it should
            if exchange is not None and exchange.role is Role.CALL and exchange.state is ExchangeState.SENT:
                calls.received_after = calls.number
                self._failures = self._strikes = 0
                calls.complete(exchange, message.result)
                return out
        self._take(message, len(frame))
        return out

    def due(self, now: float) -> list[e.Event]:
        """The timers that have run out, as events to step, earliest first."""
        return [self._timer_event(name) for name in self.calls.timers.due(now)]

    @property
    def wake_at(self) -> float | None:
        """When to ask for what is `due`; None: not before something else happens."""
        return self.calls.timers.next_at

    def _timer_event(self, name: TimerName) -> e.Event:
        if isinstance(name, Timer):
            return _TIMER_EVENTS[name]()
        return e.RetryDue(name.id) if isinstance(name, Retry) else e.Expired(name)

    # --- what the table asks ------------------------------------------------------------------------------------------

    def _is_reaped(self, _: e.Event) -> bool:
        return self.wire is Wire.NONE

    def _has_elapsed(self, _: e.Event) -> bool:
        return Timer.BACKOFF not in self.calls.timers

    def _has_only_probed(self, _: e.Event) -> bool:
        talk = self._negotiation
        is_alone = talk.probe_id is not None and talk.handshake_id is None
        return is_alone and not self._was_probe_fatal and speaks_both(self.settings)

    def _is_hopeless(self, event: e.WentDown) -> bool:
        return (
            not self._was_ready
            and self._last_exit is not None
            and self._said_nothing(event)
            and event.code == self._last_exit
        )

    def _is_silent(self, _: e.Event) -> bool:
        return self.calls.is_checking

    def _is_frequent(self, _: e.Event) -> bool:
        last = self._renewed_at
        return last is not None and self.calls.now - last <= SESSION_LOSS_WINDOW

    def _answers_negotiation(self, event: e.AnswerReceived | e.ExchangeLost | e.SessionLost) -> bool:
        return event.id in (self._negotiation.probe_id, self._negotiation.handshake_id)

    def _is_open_post(self, event: e.AnswerReceived) -> bool:
        exchange = self._open_exchange(event.id)
        return self.is_http and exchange is not None and exchange.role is Role.CALL

    def _has_open_posts(self, _: e.Event) -> bool:
        return self.is_http and any(
            x.role is Role.CALL and x.state is ExchangeState.SENT for x in self.calls.pending.values()
        )

    def _is_kept(self, _: e.Event) -> bool:
        return self.wire is Wire.KEPT


ClientConnection.DO = {
    do: getattr(ClientConnection, f"_{do.name.lower()}")
    for do in Do
    if do not in (Do.COUNT, Do.REFUSE_SHUT, Do.REFUSE_CLOSED)
} | {
    Do.COUNT: ClientConnection._count_stale,
    Do.REFUSE_SHUT: ClientConnection._refuse_ended,
    Do.REFUSE_CLOSED: ClientConnection._refuse_ended,
}

ClientConnection.WHEN = {
    When.REAPED: ClientConnection._is_reaped,
    When.ELAPSED: ClientConnection._has_elapsed,
    When.ONLY_PROBED: ClientConnection._has_only_probed,
    When.HOPELESS: ClientConnection._is_hopeless,
    When.SILENT: ClientConnection._is_silent,
    When.FREQUENT: ClientConnection._is_frequent,
    When.ANSWERS_NEGOTIATION: ClientConnection._answers_negotiation,
    When.OPEN_POST: ClientConnection._is_open_post,
    When.HAS_OPEN_POSTS: ClientConnection._has_open_posts,
    When.KEPT: ClientConnection._is_kept,
}
