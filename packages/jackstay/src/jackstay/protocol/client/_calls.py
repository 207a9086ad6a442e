"""The requests of a client connection: their ids, deadlines, queue and outcomes.

`Calls` runs the table of `_exchange` for each request and collects effects. It does not know the connection's state,
transport or negotiation: the connection reports events to it, with the time and a random number. Ids increase over all
transports of a connection and are never reused, so a late response from an old transport cannot reach a new caller.
"""

from collections import OrderedDict
from math import inf
from typing import TypeAlias

import msgspec

from jackstay.errors import (
    BackpressureError,
    ClosedError,
    FrameTooLargeError,
    InvalidEventError,
    JsonRpcError,
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
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import CELLS, Exchange, ExchangeEvent, ExchangeState, Outcome, Role
from jackstay.protocol.client._settings import MAX_TOMBSTONES, Settings
from jackstay.protocol.wire._jsonrpc import encode_request

_UNSET = msgspec.UNSET

# Used for every call. In Python 3.11 the lookup of a member in its enum takes as long as a function call.
_SENT_EVENT, _CALL = ExchangeEvent.SENT, Role.CALL
_SENT, _ABANDONED, _DONE = ExchangeState.SENT, ExchangeState.ABANDONED, ExchangeState.DONE

# How many queued calls are sent before the transport reports whether it accepted them. A frame that is refused was
# encoded for nothing, and a queue of ten thousand calls may meet a transport that accepts five hundred frames.
FLUSH_BATCH_SIZE = 16


# A timer is named by the event that it becomes; the deadline of a call by the call's id, for speed.
TimerName: TypeAlias = int | e.RetryDue | type[e.Event]


class Calls:
    """The open requests. `begin()` starts a turn, and the effects of the turn are collected in `out`."""

    def __init__(self, settings: Settings, *, is_http: bool, is_strict: bool) -> None:
        self.settings = settings
        self.is_http = is_http
        self.is_strict = is_strict
        # Of calls without options: the soft and the hard deadline, the earlier of both, and for what a call waits.
        soft, hard = settings.deadlines()
        first = min((seconds for seconds in (soft, hard) if seconds is not None), default=None)
        self.defaults = soft, hard, first, settings.wait_for_ready, settings.busy == "wait"
        self.pending: dict[int, Exchange] = {}
        # Ids that wait for the connection or for the transport, in order; any of them may be removed. A plain dict
        # finds its first key by skipping all deleted ones, which is slow for ten thousand.
        self.queue: OrderedDict[int, None] = OrderedDict()
        # The ids of abandoned calls, oldest first, and until when a late response is possible. At most MAX_TOMBSTONES.
        self.tombstones: dict[int, float] = {}
        self.timers: Timers[TimerName] = Timers()
        # How many pending requests are the connection's own: they do not count towards `max_pending`.
        self.internal = 0
        self.refusal: McpError | None = None
        self.last_id = 0
        self.number = 0
        self.written = 0
        # The transport reported that it is busy, and not yet that it is writable again.
        self.is_full = False
        # Calls that the transport refused since it was last writable: they go back to the front of the queue.
        self.returned: list[int] = []
        self.late = 0
        self.unknown = 0
        # The members of `_meta` that the negotiated revision requires in every request, and of those only the version,
        # for requests made on behalf of another client.
        self.request_meta = b""
        self.version_meta = b""
        # HTTP: a call is cancelled by closing its response, not by a notification.
        self.closes_response_to_cancel = False
        self.begin(0.0, 0.5)

    def begin(self, now: float, jitter: float) -> e.Effects:
        """Start a turn at `now`; `jitter` is a random number in [0, 1). The returned list collects its effects."""
        self.now = now
        self.jitter = jitter
        self.out: e.Effects = []
        return self.out

    def reset_transport(self) -> None:
        """Reset what is known of the transport: a new one counts its frames from one."""
        self.number = self.written = 0
        self.request_meta = b""
        self.is_full = False
        self.returned = []
        for exchange in self.pending.values():
            if exchange.number:
                # HTTP: it is open across a lost session, and was sent before anything received from now on.
                exchange.number = 1

    def agree(self, request_meta: bytes, version_meta: bytes, *, closes_response_to_cancel: bool) -> None:
        """Set how requests are written and cancelled in the agreed revision."""
        self.request_meta, self.version_meta = request_meta, version_meta
        self.closes_response_to_cancel = closes_response_to_cancel

    def became_full(self) -> None:
        """Record that the transport is busy."""
        self.is_full = True

    def became_writable(self) -> None:
        """Record that the transport accepts frames again. What it refused goes to the front of the queue."""
        self.is_full = False
        returned, self.returned = self.returned, []
        for id in reversed(returned):
            if id in self.queue:
                self.queue.move_to_end(id, last=False)

    # --- making calls -------------------------------------------------------------------------------------------------

    def make(self, event: e.Called, *, may_send: bool) -> None:
        """Make a call: send it if `may_send` and the limits allow it, queue it if it may wait, else refuse it."""
        settings = self.settings
        waits_if_busy = (settings.busy if event.busy is None else event.busy) == "wait"
        waits_for_ready = settings.wait_for_ready if event.wait_for_ready is None else event.wait_for_ready
        if event.timeout is not _UNSET or event.max_timeout is not _UNSET:
            for name, seconds in (("timeout", event.timeout), ("max_timeout", event.max_timeout)):
                if seconds is not None and seconds is not _UNSET and not seconds > 0:  # this form refuses NaN too
                    message = f"{name} must be a positive number or None, not {seconds!r}"
                    self.refuse(event, UsageError(message, path=name))
                    return
        over = ""
        if len(self.pending) - self.internal >= settings.max_pending:
            over = f"too many open calls: the limit max_pending is {settings.max_pending}"
        elif not may_send and len(self.queue) >= settings.max_queued:
            over = f"too many queued calls: the limit max_queued is {settings.max_queued}"
        if over and not waits_if_busy:
            self.refuse(event, BackpressureError(over))
            return
        exchange = self._open(event, waits_for_ready, waits_if_busy)
        self.out.append(e.Accept(event.caller, exchange.id))
        deadline = None if event.began_at is None else self.timers.at(exchange.id)
        if deadline is not None and deadline <= self.now:  # the call has no time left for this request
            self.expire(exchange)
        elif may_send and not over and not (waits_if_busy and (self.is_full or self.queue)):
            self.send_request(exchange)
        else:
            self.queue[exchange.id] = None

    def refuse(self, event: e.Called | e.Notified, error: McpError) -> None:
        """Report the error of a request that was not made."""
        self.out.append(e.Fail(event.caller, 0, error.about(event.method, None)))

    def make_plain(self, caller: object, method: str, params: bytes, now: float) -> e.Send | None:
        """Make and send a call with the default options, as `make()` does; None if it could not be sent at once."""
        settings = self.settings
        if self.is_full or self.queue or len(self.pending) - self.internal >= settings.max_pending:
            return None
        id, number = self.last_id + 1, self.number + 1
        try:
            frame = encode_request(id, method, params, b"{%b}" % self.request_meta if self.request_meta else None)
        except McpError:
            return None
        if len(frame) > settings.max_frame_bytes:
            return None
        self.now, self.last_id, self.number = now, id, number
        timeout, limit, first, waits_for_ready, waits_if_busy = self.defaults
        if first is not None:
            self.timers.arm(id, now + first)
        self.pending[id] = Exchange(
            id,
            method,
            params,
            caller,
            _CALL,
            _SENT,
            id,  # order
            number,
            1,  # attempts
            timeout,
            limit,
            now,  # made_at
            now,  # began_at
            now,  # moved_at
            waits_for_ready,
            waits_if_busy,
        )
        return e.Send(frame, number, id)

    def _open(self, event: e.Called, waits_for_ready: bool, waits_if_busy: bool) -> Exchange:
        now = self.now
        timeout, limit = self.settings.deadlines(event.timeout, event.max_timeout)
        began_at = now if event.began_at is None else event.began_at
        self.last_id += 1
        exchange = Exchange(
            self.last_id,
            event.method,
            event.params,
            event.caller,
            order=self.last_id,
            timeout=timeout,
            max_timeout=limit,
            made_at=now,
            began_at=began_at,
            waits_for_ready=waits_for_ready,
            waits_if_busy=waits_if_busy,
            **{name: getattr(event, name) for name in e.CallFields.__struct_fields__},
        )
        self.pending[exchange.id] = exchange
        self.arm_deadline(exchange, began_at if event.moved_at is None else event.moved_at)
        return exchange

    def make_internal(self, method: str, params: bytes, role: Role, *, meta: bytes = b"", caller: object = None) -> int:
        """Make a request of the connection itself: it has no deadline and is never queued or replayed.

        Returns its id. If it could not be sent, the id is not in `pending` and `refusal` is the error.
        """
        self.last_id += 1
        exchange = Exchange(self.last_id, method, params, caller, role, meta=meta, order=self.last_id)
        self.pending[exchange.id] = exchange
        self.internal += 1
        self.send_request(exchange)
        return exchange.id

    def send_request(self, exchange: Exchange) -> None:
        """Encode and send it. A request that cannot be encoded or is too large fails by itself."""
        limit = self.settings.max_frame_bytes
        try:
            has_meta = self.request_meta or exchange.meta or exchange.wants_progress
            meta = self._meta(exchange) if has_meta else None
            frame = encode_request(exchange.id, exchange.method, exchange.params, meta)
            if len(frame) > limit:
                raise FrameTooLargeError(len(frame), limit)
        except McpError as error:
            self.refusal = error
            self.fail(exchange, error)
            self.remove(exchange)
            return
        exchange.attempts += 1
        self.number += 1
        exchange.number = self.number
        self.out.append(e.Send(frame, self.number, exchange.id))
        self.advance(exchange, _SENT_EVENT)

    def send_message(self, frame: bytes, response_to: int | str | None) -> None:
        """Send a response or notification, which must be kept if the transport is busy."""
        self.number += 1
        self.out.append(e.Send(frame, self.number, None, True, response_to))

    def _meta(self, exchange: Exchange) -> bytes:
        """Return the `_meta` of a request that has one."""
        members = [self.request_meta] if self.request_meta else []
        if self.request_meta and exchange.on_behalf_of:
            members = [self.version_meta, exchange.on_behalf_of]
        if exchange.wants_progress:
            members.append(b'"progressToken":%d' % exchange.id)
        if exchange.meta:
            members.append(exchange.meta)
        return b"{%b}" % b",".join(members)

    def flush(self) -> None:
        """Send queued calls in order, one batch at a time, until the transport is busy."""
        sent = 0
        while self.queue and not self.is_full:
            if len(self.pending) - self.internal - len(self.queue) >= self.settings.max_pending:
                return
            if sent == FLUSH_BATCH_SIZE:
                self.out.append(e.Resume())
                return
            sent += 1
            id, _ = self.queue.popitem(last=False)
            self.send_request(self.pending[id])

    # --- what happens to calls ----------------------------------------------------------------------------------------

    def find_sent(self, id: object) -> Exchange | None:
        """Return the exchange with this id if it was sent and is open, else None."""
        exchange = self.pending.get(id) if isinstance(id, int) else None
        return exchange if exchange is not None and exchange.state is ExchangeState.SENT else None

    def is_written(self, exchange: Exchange) -> bool:
        """Return True if any byte of it may have been sent; over HTTP, unless it still waits for a connection."""
        if self.is_http:
            return exchange.number > 0 and not exchange.is_unsent
        return 0 < exchange.number <= self.written

    def complete(self, exchange: Exchange, result: msgspec.Raw) -> e.Complete:
        """Remove a call that has its result, and return the effect. This is the hot path: it bypasses the table.

        There is room in the transport now: call `flush()` if calls are queued.
        """
        id = exchange.id
        del self.pending[id]
        self.timers.disarm(id)
        return e.Complete(exchange.caller, id, result)

    def advance(self, exchange: Exchange, what: ExchangeEvent, outcome: Outcome = None) -> None:
        """Run the table for `what`. `outcome` is for the caller, in cells that complete or fail the call."""
        cell = CELLS[what, exchange.state]
        while cell.guard is not None and not cell.guard(self, exchange):
            assert cell.otherwise is not None  # tests check that every guarded cell has one
            cell = cell.otherwise
        if cell.is_impossible:
            if self.is_strict:
                raise InvalidEventError(what.value, exchange.state.value)
            return
        for action in cell.actions:
            action(self, exchange, outcome)
        state = cell.to
        if state is None:
            return
        if state is _ABANDONED:
            self.abandon(exchange)
        elif state is _DONE:
            self.remove(exchange)
        assert isinstance(state, ExchangeState)  # the table has no other states; calling the enum is slow
        exchange.state = state

    def remove(self, exchange: Exchange) -> None:
        """Remove it from every table."""
        if self.pending.pop(exchange.id, None) is not None and exchange.role is not Role.CALL:
            self.internal -= 1
        self.queue.pop(exchange.id, None)
        self.timers.disarm(exchange.id)
        self.timers.disarm(e.RetryDue(exchange.id))

    def clear(self) -> None:
        """Disarm every timer and remove every tombstone: the connection is closed."""
        for name in self.timers.armed:
            self.timers.disarm(name)
        self.tombstones.clear()

    def count_stray(self, id: int | str | None, error: JsonRpcError | None) -> None:
        """Count a response that belongs to no open request, as late or unknown."""
        if isinstance(id, int) and self.tombstones.pop(id, -inf) >= self.now:
            self.late += 1
            self.out.append(e.Stray("late", self.late, id, error))
        else:
            self.unknown += 1
            self.out.append(e.Stray("unknown", self.unknown, id, error))

    def abandon(self, exchange: Exchange) -> None:
        """Forget it, and remember its id so that a late response is recognized."""
        self.tombstones[exchange.id] = self.now + self.settings.tombstone_ttl
        if len(self.tombstones) > MAX_TOMBSTONES:
            del self.tombstones[next(iter(self.tombstones))]
        self.remove(exchange)

    def abandon_own(self, *roles: Role) -> None:
        """Abandon the connection's own requests with these roles."""
        for exchange in list(self.pending.values()):
            if exchange.role in roles:
                self.abandon(exchange)

    def sweep(self) -> None:
        """Remove expired tombstones."""
        self.tombstones = {id: until for id, until in self.tombstones.items() if self.now <= until}

    def fail(self, exchange: Exchange, error: McpError) -> None:
        """Report the error to its caller, or end its subscription."""
        if exchange.role is Role.SUBSCRIPTION:
            self.out.append(e.EndSubscription(str(exchange.caller), error))
        elif exchange.role is Role.CALL:
            if exchange.was_sent and error.may_have_run is False:
                error = _as_outcome_unknown(error)
            self.out.append(e.Fail(exchange.caller, exchange.id, error.about(exchange.method, exchange.id)))

    def connection_lost(self, cause: McpError) -> None:
        """Handle a lost connection: calls that were sent fail, calls that may wait for the next connection stay."""
        for exchange in list(self.pending.values()):
            if exchange.role is Role.CALL:
                self.advance(exchange, ExchangeEvent.LOST, self._loss(exchange, cause))
            else:
                self.abandon(exchange)
        self._sort_queue()

    def renew_session(self) -> None:
        """Handle a session that is created again: drop the connection's own requests and queue busy calls."""
        self.closes_response_to_cancel = True  # the server cannot be notified in a session that is gone
        for exchange in list(self.pending.values()):
            if exchange.role is Role.CALL:
                self.advance(exchange, ExchangeEvent.SESSION_RENEWED)
                continue
            self.abandon(exchange)
            if exchange.role in (Role.PROBE, Role.HANDSHAKE):
                self.out.append(e.CloseResponse(exchange.id))  # its response would begin an unused session
        self._sort_queue()

    def _sort_queue(self) -> None:
        waiting = sorted((self.pending[id] for id in self.queue), key=lambda exchange: exchange.order)
        self.queue = OrderedDict.fromkeys(exchange.id for exchange in waiting)

    def reset(self) -> None:
        """Handle a reset by the server: every call that was sent fails with ResetError."""
        for exchange in list(self.pending.values()):
            if exchange.role is Role.CALL and exchange.state is not ExchangeState.WAITING:
                self.advance(exchange, ExchangeEvent.ENDED, ResetError(sent=self.may_have_run(exchange)))

    def connection_closed(self, reason: McpError) -> None:
        """Handle the final end of the connection: every call fails."""
        for exchange in list(self.pending.values()):
            if exchange.role is not Role.CALL:
                self.abandon(exchange)
                continue
            sent = self.may_have_run(exchange)
            is_stop = isinstance(reason, ShutdownError)
            error = ShutdownError(sent=sent) if is_stop else ClosedError(reason, sent=sent)
            self.advance(exchange, ExchangeEvent.ENDED, error)

    def expire(self, exchange: Exchange) -> None:
        """Handle an expired timer: the deadline, or the time for an early health check, which arms the deadline."""
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

    def requeue(self, exchange: Exchange) -> None:
        """Handle HTTP 404: the server did not know the session and refused the call, so it did not run."""
        exchange.refusals += 1
        self.advance(exchange, ExchangeEvent.SESSION_UNKNOWN, _no_session(exchange))
        self._sort_queue()

    def may_have_run(self, exchange: Exchange) -> bool:
        """Return False only if no byte of this call was written, under this id or an earlier one."""
        return exchange.was_sent or (exchange.state is ExchangeState.SENT and self.is_written(exchange))

    def _loss(self, exchange: Exchange, cause: McpError) -> McpError:
        sent = self.may_have_run(exchange)
        if isinstance(cause, FrameTooLargeError):
            return FrameTooLargeError(cause.size, cause.limit, sent=sent)
        if isinstance(cause, ProtocolError):
            return ProtocolError(cause.message, path=cause.path, quote=cause.quote, code=cause.code, sent=sent)
        if isinstance(cause, ResetError):
            return ResetError(sent=sent)
        ended = cause if isinstance(cause, TransportError | OutcomeUnknownError) else TransportError("")
        kind = OutcomeUnknownError if sent else TransportError
        return kind(cause.message, exit_code=ended.exit_code, stderr_tail=ended.stderr_tail)

    def arm_deadline(self, exchange: Exchange, moved_at: float) -> None:
        """Arm the earlier deadline; the soft one counts from `moved_at`."""
        exchange.moved_at = moved_at
        at = min((at for at in (exchange.soft_at, exchange.hard_at) if at is not None), default=None)
        if at is None:
            return
        if exchange.may_replay and self.settings.hang_timeout is not None:
            # To send it again in time, a hung server must be detected in time: the first attempt gets half of it.
            exchange.due_at = at
            at = self.now + (at - self.now) / 2
        self.timers.arm(exchange.id, at)


def _no_session(exchange: Exchange) -> SessionLostError:
    times = "once" if exchange.refusals == 1 else f"{exchange.refusals} times"
    return SessionLostError(f"the server does not know this session: it responded with HTTP 404 {times}")


def _as_outcome_unknown(error: McpError) -> McpError:
    """Convert the error of a call that did not run this time but was written before, so it may have run then."""
    if isinstance(error, ProtocolError):
        error.may_have_run = True
        return error
    unknown = OutcomeUnknownError(error.message)
    unknown.__cause__ = error
    return unknown
