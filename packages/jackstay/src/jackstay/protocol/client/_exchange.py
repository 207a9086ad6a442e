"""One request and its response: the state machine of every call of a client.

A call waits (for the connection or the transport), is sent, and ends in one of three ways: answered, failed, or
abandoned. Abandoned: the caller no longer waits, but the server may still respond; the id is kept as a tombstone to
recognize that late response. See docs/protocol.md for the table.
"""

from enum import unique
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from jackstay.errors import BackpressureError, McpError
from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Cell, Machine, TableEnum
from jackstay.protocol.client._backoff import retry_delay
from jackstay.protocol.client.events import (
    Accept,
    Caller,
    CallFields,
    CloseResponse,
    Complete,
    RetryDue,
    Send,
    Withdraw,
)
from jackstay.protocol.wire._jsonrpc import encode_notification

if TYPE_CHECKING:
    from jackstay.protocol.client._calls import Calls


@unique
class ExchangeState(TableEnum):
    """The state of a call."""

    WAITING = "waiting"  # for the connection or the transport
    BUSY = "busy"  # refused by the transport, a retry timer is armed
    SENT = "sent"  # passed to the transport, written or about to be
    ABANDONED = "abandoned"  # the caller no longer waits; the id is a tombstone
    DONE = "done"


@unique
class ExchangeEvent(TableEnum):
    """The events of a call."""

    SENT = "sent"
    REFUSED = "refused"
    PROGRESSED = "progressed"
    ANSWERED = "answered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    LOST = "lost"
    SESSION_UNKNOWN = "session unknown"
    SESSION_RENEWED = "session renewed"
    ENDED = "ended"
    SWEPT = "swept"


@unique
class Role(TableEnum):
    """The purpose of a request: a call of a user, or one of the connection itself."""

    CALL = "call"
    PROBE = "probe"
    HANDSHAKE = "handshake"
    KEEPALIVE = "keepalive"
    SUBSCRIPTION = "subscription"


class Exchange(CallFields):
    """One open request. `params` and `meta` are encoded; the frame is encoded when it is sent."""

    id: int
    method: str
    params: bytes
    caller: Caller = None
    role: Role = Role.CALL
    state: ExchangeState = ExchangeState.WAITING
    # The id it was created with: queued calls keep this order when they get new ids.
    order: int = 0
    # The number of its frame among all frames sent with this transport; 0: none yet.
    number: int = 0
    attempts: int = 0
    timeout: float | None = None
    max_timeout: float | None = None
    made_at: float = 0.0
    # Since when the hard deadline counts, which may be that of a larger call, and the soft one, which progress moves.
    began_at: float = 0.0
    moved_at: float = 0.0
    waits_for_ready: bool = False
    waits_if_busy: bool = False
    # A plain call has the fields above, which `Calls.make_plain` passes by position.
    # The deadline, while the timer is armed for an early health check; None: the timer is armed for the deadline.
    due_at: float | None = None
    # Written under an earlier id: it may have run, whatever happens now.
    was_sent: bool = False
    # HTTP: the transport has it, but it waits for a free connection and no byte of it was sent.
    is_unsent: bool = False
    # How many times the server refused it because it did not know the session.
    refusals: int = 0

    @property
    def soft_at(self) -> float | None:
        """The soft deadline."""
        return None if self.timeout is None else self.moved_at + self.timeout

    @property
    def hard_at(self) -> float | None:
        """The hard deadline."""
        return None if self.max_timeout is None else self.began_at + self.max_timeout


# The outcome of a call: a result, an error, or None for a busy transport, whose error depends on the attempts.
Outcome: TypeAlias = msgspec.Raw | McpError | None


# --- actions: the docstrings are shown in docs/protocol.md ------------------------------------------------------------


def complete(calls: "Calls", exchange: Exchange, outcome: Outcome) -> None:
    """complete the caller"""
    if isinstance(outcome, msgspec.Raw):
        calls.out.append(Complete(exchange.caller, exchange.id, outcome))
    else:
        fail(calls, exchange, outcome)


def fail(calls: "Calls", exchange: Exchange, outcome: Outcome) -> None:
    """fail the caller"""
    # Only a refusal by a busy transport comes without an error.
    refused = BackpressureError.after(exchange.attempts, exchange.id)
    calls.fail(exchange, outcome if isinstance(outcome, McpError) else refused)


def extend_deadline(calls: "Calls", exchange: Exchange, _: Outcome) -> None:
    """move the soft deadline"""
    calls.arm_deadline(exchange, calls.now)


def cancel(calls: "Calls", exchange: Exchange, _: Outcome) -> None:
    """cancel it at the server"""
    # Never for the probe or the handshake (2025-11-25 basic/utilities/cancellation); one attempt, never retried.
    if exchange.role is not Role.CALL and exchange.role is not Role.SUBSCRIPTION:
        return
    if calls.closes_response_to_cancel:
        calls.out.append(CloseResponse(exchange.id))
    else:
        frame = encode_notification("notifications/cancelled", b'{"requestId":%d}' % exchange.id)
        calls.number += 1
        calls.out.append(Send(frame, calls.number))


def withdraw(calls: "Calls", exchange: Exchange, _: Outcome) -> None:
    """remove the frame from the transport's queue"""
    calls.out.append(Withdraw(exchange.id, exchange.number))


def arm_retry(calls: "Calls", exchange: Exchange, _: Outcome) -> None:
    """arm the retry timer"""
    calls.timers.arm(RetryDue(exchange.id), calls.now + retry_delay(calls.settings, calls.jitter))


def enqueue(calls: "Calls", exchange: Exchange, _: Outcome) -> None:
    """queue it"""
    exchange.number = exchange.attempts = 0
    exchange.is_unsent = False
    calls.timers.disarm(RetryDue(exchange.id))
    calls.queue[exchange.id] = None
    if calls.is_full:
        calls.returned.append(exchange.id)


def mark_sent(calls: "Calls", exchange: Exchange, _: Outcome) -> None:
    """record that it may have run"""
    exchange.was_sent = calls.may_have_run(exchange)
    exchange.may_replay = False


def assign_new_id(calls: "Calls", exchange: Exchange, _: Outcome) -> None:
    """assign a new id"""
    # The old one may still get a response. The deadline stays the same.
    deadline = calls.timers.at(exchange.id) if exchange.due_at is None else exchange.due_at
    exchange.due_at = None
    calls.abandon(exchange)
    calls.last_id += 1
    exchange.id = calls.last_id
    exchange.waits_for_ready = True
    calls.pending[exchange.id] = exchange
    if deadline is not None:
        calls.timers.arm(exchange.id, deadline)
    calls.out.append(Accept(exchange.caller, exchange.id))


def count_late(calls: "Calls", _exchange: Exchange, _: Outcome) -> None:
    """count a late response"""
    calls.late += 1


def count_unknown(calls: "Calls", _exchange: Exchange, _: Outcome) -> None:
    """count an unknown response"""
    calls.unknown += 1


# --- guards -----------------------------------------------------------------------------------------------------------


def is_written(calls: "Calls", exchange: Exchange) -> bool:
    """written"""
    return calls.is_written(exchange)


def waits_if_busy(_: "Calls", exchange: Exchange) -> bool:
    """busy is 'wait'"""
    return exchange.waits_if_busy


def waits_for_ready(_: "Calls", exchange: Exchange) -> bool:
    """wait_for_ready"""
    return exchange.waits_for_ready


def has_attempts_left(calls: "Calls", exchange: Exchange) -> bool:
    """attempts left"""
    return exchange.attempts < calls.settings.retry_attempts


def may_replay(_: "Calls", exchange: Exchange) -> bool:
    """safe to repeat and not repeated yet"""
    return exchange.may_replay


def has_session_attempts_left(calls: "Calls", exchange: Exchange) -> bool:
    """session_attempts left"""
    return exchange.refusals < calls.settings.session_attempts


# --- the table --------------------------------------------------------------------------------------------------------

_WAITING, _BUSY, _SENT, _ABANDONED, _DONE = ExchangeState
E = ExchangeEvent

_FAILED = Cell((fail,), _DONE)
_LATE = Cell((count_late,))
_KEPT_OR_FAILED = Cell((enqueue,), _WAITING, waits_for_ready, _FAILED)

# One row per event; the cells are for waiting, busy, sent, abandoned, done.
#
# *Written* is not a state but a property of the stream: the first byte of the frame was passed to the operating system.
# The transport counts the frames it has written, and each exchange knows the number of its frame; comparing the two
# costs nothing per call. Over HTTP a request counts as written when it is sent, unless the transport reports that it
# waits for a free connection (`is_unsent`).
ROWS: dict[ExchangeEvent, tuple[Cell, Cell, Cell, Cell, Cell]] = {
    E.SENT: (Cell(to=_SENT), Cell(to=_SENT), IMPOSSIBLE, IMPOSSIBLE, IMPOSSIBLE),
    # No tombstone after the last attempt: nothing was sent, so no response can arrive.
    E.REFUSED: (
        IMPOSSIBLE,
        IMPOSSIBLE,
        Cell((enqueue,), _WAITING, waits_if_busy,
             Cell((arm_retry,), _BUSY, has_attempts_left, _FAILED)),
        IGNORE,
        IGNORE,
    ),
    # Progress may arrive after a cancellation was sent (2025-11-25 basic/utilities/progress): it is dropped.
    E.PROGRESSED: (IGNORE, IGNORE, Cell((extend_deadline,)), _LATE, IGNORE),
    # A response to an id that was never written belongs to no call.
    E.ANSWERED: (
        Cell((count_unknown,)),
        Cell((count_unknown,)),
        Cell((complete,), _DONE),
        Cell((count_late,), _DONE),
        Cell((count_unknown,)),
    ),
    E.CANCELLED: (
        Cell(to=_DONE),
        Cell(to=_DONE),
        Cell((cancel,), _ABANDONED, is_written, Cell((withdraw,), _DONE)),
        IGNORE,
        IGNORE,
    ),
    E.EXPIRED: (
        _FAILED,
        _FAILED,
        Cell((fail, cancel), _ABANDONED, is_written, Cell((withdraw, fail), _DONE)),
        IMPOSSIBLE,
        IMPOSSIBLE,
    ),
    # The connection was lost and will be opened again.
    E.LOST: (
        Cell((), None, waits_for_ready, _FAILED),
        _KEPT_OR_FAILED,
        Cell((mark_sent, assign_new_id, enqueue), _WAITING, may_replay,
             Cell((fail,), _ABANDONED, is_written, _KEPT_OR_FAILED)),
        IGNORE,
        IGNORE,
    ),
    # The server did not know the session and refused the request before dispatch: it did not run.
    E.SESSION_UNKNOWN: (
        IMPOSSIBLE,
        IMPOSSIBLE,
        Cell((assign_new_id, enqueue), _WAITING, has_session_attempts_left, _FAILED),
        IGNORE,
        IGNORE,
    ),
    # The session is created again with the same HTTP client: open requests stay open, nothing is sent meanwhile.
    E.SESSION_RENEWED: (
        IGNORE,
        Cell((enqueue,), _WAITING),
        Cell((), None, is_written, Cell((withdraw, enqueue), _WAITING)),
        IGNORE,
        IGNORE,
    ),
    # The connection ended for good.
    E.ENDED: (_FAILED, _FAILED, Cell((fail,), _ABANDONED, is_written, _FAILED), IGNORE, IGNORE),
    E.SWEPT: (IMPOSSIBLE, IMPOSSIBLE, IMPOSSIBLE, Cell(to=_DONE), IGNORE),
}  # fmt: skip

# The same cells by event and state, for lookups.
CELLS = {(event, state): cells[column] for event, cells in ROWS.items() for column, state in enumerate(ExchangeState)}

# The table for drawings and tests.
EXCHANGE = Machine(
    name="exchange",
    states=tuple(ExchangeState),
    rows={event.value: cells for event, cells in ROWS.items()},
    events={
        "sent": "the frame was passed to the transport",
        "refused": "the transport is busy and did not accept the frame",
        "progressed": "the server reported progress",
        "answered": "a result or an error with this id was received",
        "cancelled": "the caller no longer waits",
        "expired": "the soft or the hard deadline passed",
        "lost": "the connection was lost and will be opened again",
        "session unknown": "the server did not know the session and refused the request (HTTP 404)",
        "session renewed": "the session is created again",
        "ended": "the connection ended for good",
        "swept": "the tombstone is older than any late response can be",
    },
)
