"""Every call of a client connection: its id, its deadlines, its place in the queue, and its one outcome.

This runs the exchange's table for each call and says what to do about it as effects. It knows nothing of states,
transports or negotiation: the connection above tells it what happened, with the time and a random number, and passes
its effects on. Ids grow and are never used twice, over all transports of a connection: a late answer of an old one
can then never reach a new caller.

Above: `_connection`. Below: `_exchange` (the table), `_timers`, `_backoff`, `_jsonrpc` (frames).
"""

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

import msgspec

from jackstay.errors import (
    BackpressureError,
    ClosedError,
    FrameTooLargeError,
    InvalidEventError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    ResetError,
    SessionLostError,
    ShutdownError,
    TimeoutError,
    TransportError,
    UsageError,
)
from jackstay.protocol._timers import Timers
from jackstay.protocol.client._backoff import retry_delay
from jackstay.protocol.client._exchange import (
    CELLS,
    Exchange,
    ExchangeEvent,
    ExchangeState,
    If,
    Role,
    Then,
    Tombstones,
)
from jackstay.protocol.client._settings import MAX_TOMBSTONES, Settings
from jackstay.protocol.client._table import Timer
from jackstay.protocol.client.events import (
    Accept,
    Called,
    Complete,
    Effects,
    EndSubscription,
    Fail,
    HangUp,
    Resume,
    Send,
    Withdraw,
)
from jackstay.protocol.wire._jsonrpc import encode_notification, encode_request

_UNSET = msgspec.UNSET

# How many of the calls that wait are offered before the transport's answers are heard. A queue of ten thousand meets a
# transport with room for five hundred: what is offered in vain is encoded in vain, at most this many times a room.
BITE = 16


class Retry(msgspec.Struct, frozen=True):
    """The name of a call's retry timer; its deadline's name is the id itself."""

    id: int


TimerName: TypeAlias = int | Retry | Timer

# What a caller is told: a result, an error, or (a busy transport) what the attempts come to.
Said: TypeAlias = msgspec.Raw | McpError | None


class Calls:
    """The calls under way. `begin()` opens a turn; what is to be done collects in `out`."""

    __slots__ = (
        "can_send",
        "check",
        "drain_at",
        "envelope",
        "hangs_up",
        "head",
        "is_full",
        "is_http",
        "is_strict",
        "last_id",
        "late",
        "luck",
        "now",
        "number",
        "out",
        "own",
        "pending",
        "queue",
        "received_after",
        "refusal",
        "returned",
        "settings",
        "timers",
        "tombstones",
        "unknown",
        "written",
    )

    def __init__(self, settings: Settings, *, is_http: bool, is_strict: bool) -> None:
        self.settings = settings
        self.is_http = is_http
        self.is_strict = is_strict
        self.pending: dict[int, Exchange] = {}
        # Ids that wait for ready or for room, in order; any of them may leave. An ordinary dict looks for its first key
        # behind all that were deleted before it, which for ten thousand costs more than the call.
        self.queue: OrderedDict[int, None] = OrderedDict()
        self.tombstones = Tombstones(MAX_TOMBSTONES)
        self.timers: Timers[TimerName] = Timers()
        # How many of the pending are the connection's own: they do not use up the room for calls.
        self.own = 0
        # When the client began to drain: calls that began later are refused, the next request of an earlier one is not.
        self.drain_at: float | None = None
        self.refusal: McpError | None = None
        self.last_id = 0
        self.number = 0
        self.written = 0
        # How many frames had been handed over when the newest one was received; and the number of the frame that checks
        # whether the server still answers, 0: none. Comparing numbers tells what was received since, at no cost to a call.
        self.received_after = 0
        self.check = 0
        # The transport said busy, and has not said otherwise since.
        self.is_full = False
        # Calls that the transport refused since it last had room: they came from the front of the queue, and go there.
        self.returned: list[int] = []
        self.late = 0
        self.unknown = 0
        # What the negotiated revision asks of every request, and the part of it that does not say who asks; set by the
        # connection.
        self.envelope = b""
        self.head = b""
        self.hangs_up = False
        self.can_send = False
        self.begin(0.0, 0.5)

    def begin(self, now: float, luck: float) -> Effects:
        """Open a turn at `now`; `luck` is a random number in [0, 1). The list returned fills as it goes."""
        self.now = now
        self.luck = luck
        self.out: Effects = []
        return self.out

    def copy(self) -> "Calls":
        """An independent copy, for searching the states of a connection."""
        twin = Calls.__new__(Calls)
        for name in Calls.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.pending = {id: msgspec.structs.replace(exchange) for id, exchange in self.pending.items()}
        twin.queue = self.queue.copy()
        twin.returned = self.returned.copy()
        twin.tombstones = self.tombstones.copy()
        twin.timers = self.timers.copy()
        twin.out = []
        return twin

    def forget_transport(self) -> None:
        """A new transport starts counting its frames from one."""
        self.number = self.written = self.received_after = self.check = 0
        self.is_full = False
        self.returned = []
        for exchange in self.pending.values():
            if (
                exchange.number
            ):  # HTTP: open across a lost session, and sent before anything that is received from now on
                exchange.number = 1

    # --- making calls -------------------------------------------------------------------------------------------------

    def make(self, event: Called, *, may_send: bool) -> None:
        """A call of the user's: sent if `may_send` and there is room, queued if it may wait, else refused."""
        settings = self.settings
        waits_for_room = (settings.busy if event.busy is None else event.busy) == "wait"
        for name, seconds in (("timeout", event.timeout), ("max_timeout", event.max_timeout)):
            if seconds is not None and seconds is not _UNSET and not seconds > 0:  # NaN is not above anything
                error = UsageError(f"{name} must be a number above 0, or None, not {seconds!r}", path=name)
                self.out.append(Fail(event.caller, 0, error.about(event.method, None)))
                return
        if self.check and self.is_checking and self._waits_for_ready(event):
            may_send = False  # kept back: written now, it would be lost with a server that hangs
        if self.drain_at is not None and (event.began_at is None or event.began_at >= self.drain_at):
            refusal = ShutdownError("the client is being stopped and accepts no new calls")
            self.out.append(Fail(event.caller, 0, refusal.about(event.method, None)))
            return
        over = self._limit_reached(may_send)
        if over and not waits_for_room:
            self.out.append(Fail(event.caller, 0, BackpressureError(over).about(event.method, None)))
            return
        exchange = self._open(event, waits_for_room)
        self.out.append(Accept(event.caller, exchange.id))
        deadline = None if event.began_at is None else self.timers.at(exchange.id)
        if deadline is not None and deadline <= self.now:  # no time is left for this request of the call
            self.expire(exchange)
        elif may_send and not over and not (waits_for_room and (self.is_full or self.queue)):
            self.hand(exchange)
        else:
            self.queue[exchange.id] = None

    def _waits_for_ready(self, event: Called) -> bool:
        return self.settings.wait_for_ready if event.wait_for_ready is None else event.wait_for_ready

    def _limit_reached(self, may_send: bool) -> str:
        settings = self.settings
        if len(self.pending) - self.own >= settings.max_pending:
            return f"too many calls are open (max_pending is {settings.max_pending})"
        if not may_send and len(self.queue) >= settings.max_queued:
            return f"too many calls are waiting (max_queued is {settings.max_queued})"
        return ""

    def _open(self, event: Called, waits_for_room: bool) -> Exchange:
        settings, now = self.settings, self.now
        timeout, limit = settings.deadlines(event.timeout, event.max_timeout)
        began_at = now if event.began_at is None else event.began_at
        self.last_id += 1
        exchange = Exchange(
            self.last_id,
            event.method,
            event.params,
            event.caller,
            order=self.last_id,
            meta=event.meta,
            speaker=event.speaker,
            timeout=timeout,
            max_timeout=limit,
            hard_at=None if limit is None else began_at + limit,
            made_at=now,
            wants_progress=event.wants_progress,
            waits_for_ready=self._waits_for_ready(event),
            waits_for_room=waits_for_room,
            may_replay=event.may_replay,
        )
        self.pending[exchange.id] = exchange
        self._arm_deadline(exchange, began_at if event.moved_at is None else event.moved_at)
        return exchange

    def make_own(
        self, method: str, params: bytes, role: Role, *, meta: bytes = b"", caller: object = None
    ) -> int:
        """A request of the connection's own: no deadline (the connection has one), never queued, never replayed.

        Its id; it is not `pending` if it could not be sent, and then `refusal` says why.
        """
        self.last_id += 1
        exchange = Exchange(self.last_id, method, params, caller, role, meta=meta, order=self.last_id)
        self.pending[exchange.id] = exchange
        self.own += 1
        self.hand(exchange)
        return exchange.id

    def hand(self, exchange: Exchange) -> None:
        """Give its frame to the transport. What cannot be encoded or is too large fails alone."""
        limit = self.settings.max_frame_bytes
        try:
            frame = encode_request(exchange.id, exchange.method, exchange.params, self._meta(exchange))
            if len(frame) > limit:
                raise FrameTooLargeError(len(frame), limit)
        except McpError as error:
            self.refusal = error
            self.fail(exchange, error)
            self.forget(exchange)
            return
        exchange.attempts += 1
        exchange.number = self.send(frame, exchange.id)
        self.advance(exchange, ExchangeEvent.HANDED)

    def send(self, frame: bytes, id: int | None = None) -> int:
        """Give a frame to the transport; its number."""
        self.number += 1
        self.out.append(Send(frame, self.number, id))
        return self.number

    def say(self, frame: bytes, answers: int | str | None) -> None:
        """Give a frame to the transport that is not a call's and must arrive."""
        self.number += 1
        self.out.append(Send(frame, self.number, None, True, answers))

    def _meta(self, exchange: Exchange) -> bytes | None:
        members = [self.envelope] if self.envelope else []
        if self.envelope and exchange.speaker:
            members = [self.head, exchange.speaker]
        if exchange.wants_progress:
            members.append(b'"progressToken":%d' % exchange.id)
        if exchange.meta:
            members.append(exchange.meta)
        return b"{%b}" % b",".join(members) if members else None

    def flush(self) -> None:
        """Send what waits, in order, a bite at a time, until the transport says busy; nothing while a check is open."""
        if self.is_checking:
            return
        offered = 0
        if self.returned and not self.is_full:
            returned, self.returned = self.returned, []
            for id in reversed(returned):
                if id in self.queue:
                    self.queue.move_to_end(id, last=False)
        while self.queue and not self.is_full:
            if len(self.pending) - self.own - len(self.queue) >= self.settings.max_pending:
                return
            if offered == BITE:
                self.out.append(Resume())
                return
            offered += 1
            id, _ = self.queue.popitem(last=False)
            self.hand(self.pending[id])

    # --- what happens to them -----------------------------------------------------------------------------------------

    def is_written(self, exchange: Exchange) -> bool:
        """True if any byte of it may have left: on HTTP as soon as it was handed over and does not wait for a connection."""
        if self.is_http:
            return exchange.number > 0 and not exchange.is_unsent
        return 0 < exchange.number <= self.written

    @property
    def is_checking(self) -> bool:
        """True while nothing was received since the check of the server was sent."""
        return self.check > self.received_after

    def is_unanswered(self, exchange: Exchange) -> bool:
        """True if it was handed over and nothing at all was received since."""
        return (
            exchange.state is ExchangeState.SENT
            and not exchange.is_unsent
            and exchange.number > self.received_after
        )

    def complete(self, exchange: Exchange, result: msgspec.Raw) -> None:
        """The hot path of an answer: one lookup was made by the caller, the rest is here."""
        id = exchange.id
        del self.pending[id]
        self.timers.disarm(id)
        self.out.append(Complete(exchange.caller, id, result))
        if self.queue:
            self.flush()

    def advance(self, exchange: Exchange, what: ExchangeEvent, said: Said = None) -> None:
        """Run the exchange's table. `said` is what the caller is told, where he is told anything."""
        cell = CELLS[what, exchange.state]
        while cell.when is not None and not _IF[cell.when](self, exchange):
            assert cell.otherwise is not None  # a question has two answers: tests walk every cell
            cell = cell.otherwise
        if cell.is_impossible:
            if self.is_strict:
                raise InvalidEventError(what.value, exchange.state.value)
            return
        for then in cell.do:
            _THEN[then](self, exchange, said)
        if cell.to is ExchangeState.ABANDONED:
            self.tombstones.bury(exchange.id, self.now + self.settings.tombstone_ttl)
            self.forget(exchange)
        elif cell.to is ExchangeState.DONE:
            self.forget(exchange)
        if cell.to is not None:
            exchange.state = ExchangeState(cell.to)

    def forget(self, exchange: Exchange) -> None:
        """Take it out of every table."""
        if self.pending.pop(exchange.id, None) is not None and exchange.role is not Role.CALL:
            self.own -= 1
        self.queue.pop(exchange.id, None)
        self.timers.disarm(exchange.id)
        self.timers.disarm(Retry(exchange.id))

    def bury(self, exchange: Exchange) -> None:
        """Forget it, and take its late answer for one."""
        self.tombstones.bury(exchange.id, self.now + self.settings.tombstone_ttl)
        self.forget(exchange)

    def fail(self, exchange: Exchange, error: McpError) -> None:
        """Tell its caller, or who wanted the subscription."""
        if exchange.role is Role.STANDING:
            self.out.append(EndSubscription(str(exchange.caller), error))
        elif exchange.role is Role.CALL:
            if exchange.was_sent and error.may_have_run is False:
                error = _in_doubt(error)
            self.out.append(Fail(exchange.caller, exchange.id, error.about(exchange.method, exchange.id)))

    def lose(self, cause: McpError) -> None:
        """The connection is gone: what was sent fails, what may wait for the next one is kept."""
        for exchange in list(self.pending.values()):
            if exchange.role is Role.CALL:
                self.advance(exchange, ExchangeEvent.LOST, self._loss(exchange, cause))
            else:
                self.bury(exchange)
        self._sort_queue()

    def renew(self) -> None:
        """The session is made again: requests of the connection's own are made anew, what is busy waits."""
        for exchange in list(self.pending.values()):
            if exchange.role is Role.CALL:
                self.advance(exchange, ExchangeEvent.RENEWED)
                continue
            self.bury(exchange)
            if exchange.role in (Role.PROBE, Role.HANDSHAKE):
                self.out.append(HangUp(exchange.id))  # its response would begin a session that nobody uses
        self._sort_queue()

    def _sort_queue(self) -> None:
        waiting = sorted((self.pending[id] for id in self.queue), key=lambda exchange: exchange.order)
        self.queue = OrderedDict.fromkeys(exchange.id for exchange in waiting)

    def reset(self) -> None:
        """The server said that it starts over: everything handed over fails with ResetError."""
        for exchange in list(self.pending.values()):
            if exchange.role is Role.CALL and exchange.state is not ExchangeState.WAITING:
                self.advance(exchange, ExchangeEvent.ENDED, ResetError(sent=self.may_have_run(exchange)))

    def end(self, reason: McpError) -> None:
        """The connection is gone for good: everything fails."""
        for exchange in list(self.pending.values()):
            if exchange.role is not Role.CALL:
                self.bury(exchange)
                continue
            sent = self.may_have_run(exchange)
            is_stop = isinstance(reason, ShutdownError)
            error = ShutdownError(sent=sent) if is_stop else ClosedError(reason, sent=sent)
            self.advance(exchange, ExchangeEvent.ENDED, error)

    def expire(self, exchange: Exchange) -> None:
        """A deadline passed, or the time for an early check, after which the deadline is armed."""
        due, exchange.due_at = exchange.due_at, None
        if due is not None and self.now < due:
            self.timers.arm(exchange.id, due)
            return
        soft_at, hard_at = exchange.soft_at, exchange.hard_at
        is_hard = hard_at is not None and (soft_at is None or hard_at < soft_at)
        error: McpError = TimeoutError(
            exchange.max_timeout if is_hard else exchange.timeout,
            sent=self.may_have_run(exchange),
            limit="max_timeout" if is_hard else "timeout",
        )
        if exchange.refusals and exchange.state is ExchangeState.WAITING:
            error = _no_session(exchange)
        self.advance(exchange, ExchangeEvent.EXPIRED, error)

    def turn_away(self, exchange: Exchange) -> None:
        """The server refused it before dispatch, so it did not run this time."""
        exchange.refusals += 1
        self.advance(exchange, ExchangeEvent.TURNED_AWAY, _no_session(exchange))
        self._sort_queue()

    def may_have_run(self, exchange: Exchange) -> bool:
        """Return False only if nothing of this call was written, under this id or an earlier one."""
        return exchange.was_sent or (exchange.state is ExchangeState.SENT and self.is_written(exchange))

    def _loss(self, exchange: Exchange, cause: McpError) -> McpError:
        sent = self.may_have_run(exchange)
        if isinstance(cause, FrameTooLargeError):
            return FrameTooLargeError(cause.size, cause.limit, sent=sent)
        if isinstance(cause, ProtocolError):
            return ProtocolError(
                cause.message, path=cause.path, quote=cause.quote, code=cause.code, sent=sent
            )
        if isinstance(cause, ResetError):
            return ResetError(sent=sent)
        known = cause if isinstance(cause, TransportError | OutcomeUnknownError) else None
        exit_code = None if known is None else known.exit_code
        tail = "" if known is None else known.stderr_tail
        if sent:
            return OutcomeUnknownError(cause.message, exit_code=exit_code, stderr_tail=tail)
        return TransportError(cause.message, exit_code=exit_code, stderr_tail=tail)

    def _arm_deadline(self, exchange: Exchange, moved_at: float) -> None:
        """Arm the nearer deadline; the soft one counts from `moved_at`."""
        at = exchange.soft_at = None if exchange.timeout is None else moved_at + exchange.timeout
        if at is None or (exchange.hard_at is not None and exchange.hard_at < at):
            at = exchange.hard_at
        if at is None:
            return
        if exchange.may_replay and self.settings.hang_timeout is not None:
            # Sent again in time only if a hung server is found in time: half of the deadline is for the first attempt.
            exchange.due_at = at
            at = self.now + (at - self.now) / 2
        self.timers.arm(exchange.id, at)

    # --- the names in the exchange's table ----------------------------------------------------------------------------

    def _complete(self, exchange: Exchange, said: Said) -> None:
        if isinstance(said, msgspec.Raw):
            self.out.append(Complete(exchange.caller, exchange.id, said))
        else:
            self._fail(exchange, said)

    def _fail(self, exchange: Exchange, said: Said) -> None:
        # Only a refusal has no error of its own: the attempts are its error.
        refused = BackpressureError.after(exchange.attempts, exchange.id)
        self.fail(exchange, said if isinstance(said, McpError) else refused)

    def _extend(self, exchange: Exchange, _: Said) -> None:
        self._arm_deadline(exchange, self.now)

    def _cancel(self, exchange: Exchange, _: Said) -> None:
        # Never for the probe or the handshake (2025-11-25 basic/utilities/cancellation); one attempt, never retried.
        if exchange.role is not Role.CALL and exchange.role is not Role.STANDING:
            return
        if self.hangs_up:
            self.out.append(HangUp(exchange.id))
        elif self.can_send:
            self.send(encode_notification("notifications/cancelled", b'{"requestId":%d}' % exchange.id))
        elif self.is_http:
            # Its session is gone, and there is nobody to tell; but its response is still open, and nobody reads it.
            self.out.append(HangUp(exchange.id))

    def _withdraw(self, exchange: Exchange, _: Said) -> None:
        self.out.append(Withdraw(exchange.id, exchange.number))

    def _arm_retry(self, exchange: Exchange, _: Said) -> None:
        self.timers.arm(Retry(exchange.id), self.now + retry_delay(self.settings, self.luck))

    def _enqueue(self, exchange: Exchange, _: Said) -> None:
        exchange.number = exchange.attempts = 0
        exchange.is_unsent = False
        self.timers.disarm(Retry(exchange.id))
        self.queue[exchange.id] = None
        if self.is_full:
            self.returned.append(exchange.id)

    def _mark_sent(self, exchange: Exchange, _: Said) -> None:
        exchange.was_sent = self.may_have_run(exchange)
        exchange.may_replay = False

    def _renew(self, exchange: Exchange, _: Said) -> None:
        """A new id, because the old one may still be answered. What is left of its deadline is kept."""
        deadline = self.timers.at(exchange.id) if exchange.due_at is None else exchange.due_at
        exchange.due_at = None
        self.bury(exchange)
        self.last_id += 1
        exchange.id = self.last_id
        exchange.waits_for_ready = True
        self.pending[exchange.id] = exchange
        if deadline is not None:
            self.timers.arm(exchange.id, deadline)
        self.out.append(Accept(exchange.caller, exchange.id))

    def _count_late(self, _exchange: Exchange, _: Said) -> None:
        self.late += 1

    def _count_unknown(self, _exchange: Exchange, _: Said) -> None:
        self.unknown += 1


def _no_session(exchange: Exchange) -> SessionLostError:
    times = "once" if exchange.refusals == 1 else f"{exchange.refusals} times"
    return SessionLostError(f"the server no longer knows this session (it answered HTTP 404 {times})")


def _in_doubt(error: McpError) -> McpError:
    """The same for a call that did not run this time, but was written under an earlier id and may have run then."""
    if isinstance(error, ProtocolError):
        error.may_have_run = True
        return error
    doubt = OutcomeUnknownError(error.message)
    doubt.__cause__ = error
    return doubt


_THEN: dict[Enum, Callable[[Calls, Exchange, Said], None]] = {
    Then.COMPLETE: Calls._complete,
    Then.FAIL: Calls._fail,
    Then.EXTEND: Calls._extend,
    Then.CANCEL: Calls._cancel,
    Then.WITHDRAW: Calls._withdraw,
    Then.ARM_RETRY: Calls._arm_retry,
    Then.QUEUE: Calls._enqueue,
    Then.MARK_SENT: Calls._mark_sent,
    Then.RENEW: Calls._renew,
    Then.COUNT_LATE: Calls._count_late,
    Then.COUNT_UNKNOWN: Calls._count_unknown,
}

_IF: dict[Enum, Callable[[Calls, Exchange], bool]] = {
    If.WRITTEN: Calls.is_written,
    If.WAITS_FOR_ROOM: lambda _, exchange: exchange.waits_for_room,
    If.WAITS_FOR_READY: lambda _, exchange: exchange.waits_for_ready,
    If.HAS_ATTEMPTS_LEFT: lambda calls, exchange: exchange.attempts < calls.settings.retry_attempts,
    If.MAY_REPLAY: lambda _, exchange: exchange.may_replay,
    If.HAS_SESSION_ATTEMPTS_LEFT: lambda calls, exchange: exchange.refusals < calls.settings.session_attempts,
}
