"""A client's connection: accepts events and the time, returns effects, and does no I/O.

The driver steps every event of `due()` at `wake_at`, performs the effects and reports back with further events. There
is no clock, random source, socket or task, so the model checker can explore the connection without waiting.
"""

from math import inf

from msgspec import convert

from jackstay.errors import InvalidEventError, McpError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Calls, TimerName
from jackstay.protocol.client._exchange import ExchangeState, Role
from jackstay.protocol.client._health import Health
from jackstay.protocol.client._message_classifier import classify, read_plain_result
from jackstay.protocol.client._negotiation import Negotiation
from jackstay.protocol.client._peer_requests import PeerRequests
from jackstay.protocol.client._recovery import Recovery
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client._states import TIMERS, ClientState
from jackstay.protocol.client._subscriptions import Subscriptions
from jackstay.protocol.client._table import CELLS, ENTRIES, STALE
from jackstay.protocol.client._transport import TransportLink
from jackstay.protocol.client._waiters import Waiters
from jackstay.protocol.wire._json_text import MAX_SHALLOW_TEXT
from jackstay.protocol.wire._jsonrpc import Batch, Malformed, Message, Result, Single, decode
from jackstay.types import DECODE_ERRORS

# Used for every call; see `_calls`.
_READY, _CALL, _SENT = ClientState.READY, Role.CALL, ExchangeState.SENT

_ENTERED, _MESSAGE_RECEIVED = e.Event(), e.MessageReceived()


class ClientConnection:
    """One client connection. Call `start()` once, then `step()`, `accept()`, `wrote()` and `due()` as things happen.

    `is_http`: requests are sent one by one instead of in a stream. With `is_strict` an event that the table calls
    impossible raises `InvalidEventError`; otherwise it is counted.

    It runs the table of `_table` and owns the components that the actions use. `server` is what the server declared,
    also while the connection is lost; None before the first ready.
    """

    def __init__(self, settings: Settings, *, is_http: bool = False, is_strict: bool = False) -> None:
        self.settings = settings
        self.is_strict = is_strict
        self.state = ClientState.STARTING
        self.epoch = 0
        self.server: e.ServerFacts | None = None
        # When the client began to drain: later calls are refused, further requests of earlier calls are not.
        self.drain_at = inf
        # Events that changed nothing, by name: "ignored X", "impossible X", "stale".
        self.counts: dict[str, int] = {}
        self.calls = calls = Calls(settings, is_http=is_http, is_strict=is_strict)
        self.negotiation = Negotiation(calls)
        self.transport = TransportLink(calls)
        self.recovery = Recovery(calls)
        self.health = Health(calls)
        self.peer_requests = PeerRequests(calls)
        self.subscriptions = Subscriptions(calls)
        self.waiters = Waiters(calls)

    def __repr__(self) -> str:
        name = self.settings.name or "client"
        calls = self.calls
        return (
            f"<ClientConnection {name} {self.state.value} epoch={self.epoch} transport={self.transport.status.value}"
            f" pending={len(calls.pending)} queued={len(calls.queue)} failures={self.recovery.failures}>"
        )

    @property
    def is_stale(self) -> bool:
        """True if `server` is from a lost connection."""
        return self.state is not ClientState.READY

    @property
    def cause(self) -> McpError | None:
        """The newest failure, or the reason why the connection closed."""
        return self.recovery.cause

    @property
    def agreed(self) -> e.ServerFacts:
        """What the server declared; only for a connection that is or was ready."""
        assert self.server is not None
        return self.server

    # --- events -------------------------------------------------------------------------------------------------------

    def start(self, now: float) -> e.Effects:
        """Start the connection: the effects spawn the first transport."""
        out = self.calls.begin(now, 0.5)
        self.calls.timers.arm(e.SweepDue, now + self.settings.tombstone_sweep)
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
        if isinstance(event, e.TransportEvent) and event.epoch != self.epoch:
            event = convert(event, STALE.get(type(event), e.StaleEventReceived), from_attributes=True)
        self.fire(event)
        return out

    def call(self, caller: e.Caller, method: str, params: bytes, now: float) -> e.Send | None:
        """Make a call as the event `Called` without options does in its common case: ready, and nothing waits.

        Returns the only effect besides `Accept`, or None if nothing was done: then step the event. The search compares
        the two in every state.
        """
        if self.state is not _READY or self.health.check or now >= self.drain_at:
            return None
        return self.calls.make_plain(caller, method, params, now)

    def accept(self, frame: bytes, epoch: int) -> e.Complete | Message:
        """Decode a frame from the transport of `epoch`.

        The result of an open call while ready bypasses the table: its effect is returned. Then call `flush()` if calls
        are queued. Any other message is returned and nothing is done: pass it to `process()`. The search compares the
        two in every state.
        """
        message: Message
        if len(frame) <= MAX_SHALLOW_TEXT and frame.isascii():  # the text needs no check, see `decode`
            try:
                message = read_plain_result(frame)
            except DECODE_ERRORS:
                return decode(frame)
        elif not isinstance(message := decode(frame), Result):
            return message
        health = self.health
        if self.state is _READY and epoch == self.epoch and not health.check:
            calls = self.calls
            exchange = calls.pending.get(message.id)  # type: ignore[arg-type]  # a string id matches nothing
            if exchange is not None and exchange.role is _CALL and exchange.state is _SENT:
                health.received_after = calls.number
                self.recovery.failures = self.transport.invalid_frames = 0
                return calls.complete(exchange, message.result)
        return message

    def flush(self, now: float, jitter: float = 0.5) -> e.Effects:
        """Send queued calls after `accept()` has completed one."""
        out = self.calls.begin(now, jitter)
        self.send_queued()
        return out

    def process(self, message: Message, size: int, epoch: int, now: float, jitter: float = 0.5) -> e.Effects:
        """Process a message that `accept()` returned, from a frame of `size` bytes of the transport of `epoch`."""
        out = self.calls.begin(now, jitter)
        if epoch != self.epoch:
            self.fire(e.StaleEventReceived(epoch))
        elif isinstance(message, Batch):
            self.fire(e.BatchReceived(message.members, size))
        else:
            self.receive(message, size)
        return out

    def wrote(self, epoch: int, through: int) -> None:
        """Record that the transport of `epoch` passed a byte of each frame up to this number to the operating system.

        Not an event of the table: it means the same in every state, and has no effects.
        """
        if epoch != self.epoch:
            self.fire(e.StaleEventReceived(epoch))
        elif through > self.calls.written:
            self.calls.written = through

    def due(self, now: float) -> list[e.Event]:
        """Return the expired timers as events to step, earliest first."""
        return [self.timer_event(name) for name in self.calls.timers.due(now)]

    @property
    def wake_at(self) -> float | None:
        """When to call `due()` next; None: not before another event."""
        return self.calls.timers.next_at

    @staticmethod
    def timer_event(name: TimerName) -> e.Event:
        """Return the event of an expired timer."""
        if isinstance(name, int):
            return e.Expired(name)
        return name if isinstance(name, e.RetryDue) else name()

    # --- the table ----------------------------------------------------------------------------------------------------

    def fire(self, event: e.Event) -> None:
        """Run the cell of the table for this event, in the current turn."""
        kind = type(event)
        cell = CELLS[kind][self.state]
        while cell.guard is not None and not cell.guard(self, event):
            assert cell.otherwise is not None  # tests check that every guarded cell has one
            cell = cell.otherwise
        if cell.is_impossible:
            self.count(f"impossible {kind.__name__}")
            if self.is_strict:
                raise InvalidEventError(kind.__name__, self.state.value)
            return
        if not cell.actions and cell.to is None:
            self.count(f"ignored {kind.__name__}")
        for action in cell.actions:
            action(self, event)
        if cell.to is not None:
            self._enter(ClientState(cell.to))

    def _enter(self, state: ClientState, *, is_first: bool = False) -> None:
        source = "new" if is_first else self.state.value
        self.state = state
        for timer, states in TIMERS.items():
            if state not in states:
                self.calls.timers.disarm(timer)
        reason = None if state in (ClientState.INITIALIZING, ClientState.READY) else self.cause
        epoch = self.epoch + (state is ClientState.STARTING)  # `starting` begins the next epoch
        self.emit(e.Transition(source, state.value, reason, epoch, self.recovery.failures))
        for action in ENTRIES[state]:
            action(self, _ENTERED)

    # --- for the actions ----------------------------------------------------------------------------------------------

    def receive(self, message: Single, size: int) -> None:
        """Fire the events of one message from a frame of `size` bytes."""
        if not isinstance(message, Malformed):
            self.fire(_MESSAGE_RECEIVED)
        self.fire(classify(message, size, self.calls))

    def send_queued(self) -> None:
        """Send queued calls, if ready; while a health check is open they would be lost if the server hangs."""
        if self.state is _READY and not self.health.is_checking:
            self.calls.flush()

    def emit(self, effect: e.Effect) -> None:
        """Add an effect of the current turn."""
        self.calls.out.append(effect)

    def count(self, name: str) -> None:
        """Count an event that changed nothing."""
        self.counts[name] = self.counts.get(name, 0) + 1
