"""One request and its response: the state machine of every call of a client.

A call waits (for the connection or the transport), is sent, and ends in one of three ways: answered, failed, or
abandoned. Abandoned: the caller no longer waits, but the server may still respond; the id is kept as a tombstone to
recognize that late response. See docs/protocol.md for the table.
"""

from collections.abc import Iterator
from enum import unique
from typing import TypeAlias

import msgspec

from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Cell, Machine, TableEnum


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
class ExchangeAction(TableEnum):
    """The actions of the table; the values are shown in the documentation."""

    COMPLETE = "complete the caller"
    FAIL = "fail the caller"
    EXTEND_DEADLINE = "move the soft deadline"
    CANCEL = "cancel it at the server"
    WITHDRAW = "remove the frame from the transport's queue"
    ARM_RETRY = "arm the retry timer"
    QUEUE = "queue it"
    MARK_SENT = "record that it may have run"
    ASSIGN_NEW_ID = "assign a new id"
    COUNT_LATE = "count a late response"
    COUNT_UNKNOWN = "count an unknown response"


@unique
class ExchangeGuard(TableEnum):
    """The guards of the table."""

    WRITTEN = "written"
    WAITS_IF_BUSY = 'busy="wait"'
    WAITS_FOR_READY = "wait_for_ready"
    HAS_ATTEMPTS_LEFT = "attempts left"
    MAY_REPLAY = "safe to repeat and not repeated yet"
    HAS_SESSION_ATTEMPTS_LEFT = "session_attempts left"


_WAITING, _BUSY, _SENT, _ABANDONED, _DONE = ExchangeState
E, A, G = ExchangeEvent, ExchangeAction, ExchangeGuard

_FAILED = Cell((A.FAIL,), _DONE)
_LATE = Cell((A.COUNT_LATE,))
_KEPT_OR_FAILED = Cell((A.QUEUE,), _WAITING, G.WAITS_FOR_READY, _FAILED)

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
        Cell((A.QUEUE,), _WAITING, G.WAITS_IF_BUSY,
             Cell((A.ARM_RETRY,), _BUSY, G.HAS_ATTEMPTS_LEFT, _FAILED)),
        IGNORE,
        IGNORE,
    ),
    # Progress may arrive after a cancellation was sent (2025-11-25 basic/utilities/progress): it is dropped.
    E.PROGRESSED: (IGNORE, IGNORE, Cell((A.EXTEND_DEADLINE,)), _LATE, IGNORE),
    # A response to an id that was never written belongs to no call.
    E.ANSWERED: (
        Cell((A.COUNT_UNKNOWN,)),
        Cell((A.COUNT_UNKNOWN,)),
        Cell((A.COMPLETE,), _DONE),
        Cell((A.COUNT_LATE,), _DONE),
        Cell((A.COUNT_UNKNOWN,)),
    ),
    E.CANCELLED: (
        Cell(to=_DONE),
        Cell(to=_DONE),
        Cell((A.CANCEL,), _ABANDONED, G.WRITTEN, Cell((A.WITHDRAW,), _DONE)),
        IGNORE,
        IGNORE,
    ),
    E.EXPIRED: (
        _FAILED,
        _FAILED,
        Cell((A.FAIL, A.CANCEL), _ABANDONED, G.WRITTEN, Cell((A.WITHDRAW, A.FAIL), _DONE)),
        IMPOSSIBLE,
        IMPOSSIBLE,
    ),
    # The connection was lost and will be opened again.
    E.LOST: (
        Cell((), None, G.WAITS_FOR_READY, _FAILED),
        _KEPT_OR_FAILED,
        Cell((A.MARK_SENT, A.ASSIGN_NEW_ID, A.QUEUE), _WAITING, G.MAY_REPLAY,
             Cell((A.FAIL,), _ABANDONED, G.WRITTEN, _KEPT_OR_FAILED)),
        IGNORE,
        IGNORE,
    ),
    # The server did not know the session and refused the request before dispatch: it did not run.
    E.SESSION_UNKNOWN: (
        IMPOSSIBLE,
        IMPOSSIBLE,
        Cell((A.ASSIGN_NEW_ID, A.QUEUE), _WAITING, G.HAS_SESSION_ATTEMPTS_LEFT, _FAILED),
        IGNORE,
        IGNORE,
    ),
    # The session is created again with the same HTTP client: open requests stay open, nothing is sent meanwhile.
    E.SESSION_RENEWED: (
        IGNORE,
        Cell((A.QUEUE,), _WAITING),
        Cell((), None, G.WRITTEN, Cell((A.WITHDRAW, A.QUEUE), _WAITING)),
        IGNORE,
        IGNORE,
    ),
    # The connection ended for good.
    E.ENDED: (_FAILED, _FAILED, Cell((A.FAIL,), _ABANDONED, G.WRITTEN, _FAILED), IGNORE, IGNORE),
    E.SWEPT: (IMPOSSIBLE, IMPOSSIBLE, IMPOSSIBLE, Cell(to=_DONE), IGNORE),
}  # fmt: skip

# The same cells by event and state, for lookups.
CELLS = {(event, state): cells[column] for event, cells in ROWS.items() for column, state in enumerate(ExchangeState)}

# The table for drawings and tests.
EXCHANGE = Machine(
    name="exchange",
    states=tuple(ExchangeState),
    start=_WAITING,
    finals=frozenset({_DONE}),
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


@unique
class Role(TableEnum):
    """The purpose of a request: a call of a user, or one of the connection itself."""

    CALL = "call"
    PROBE = "probe"
    HANDSHAKE = "handshake"
    KEEPALIVE = "keepalive"
    SUBSCRIPTION = "subscription"


# An opaque value by which the driver finds the caller; the core only returns it.
Caller: TypeAlias = object


class Exchange(msgspec.Struct):
    """One open request. `params` and `meta` are encoded; the frame is encoded when it is sent."""

    id: int
    method: str
    params: bytes
    caller: Caller = None
    role: Role = Role.CALL
    state: ExchangeState = ExchangeState.WAITING
    # The id it was created with: queued calls keep this order when they get new ids.
    order: int = 0
    meta: bytes = b""
    on_behalf_of: bytes = b""
    timeout: float | None = None
    max_timeout: float | None = None
    soft_at: float | None = None
    hard_at: float | None = None
    made_at: float = 0.0
    # The deadline, while the timer is armed for an early health check; None: the timer is armed for the deadline.
    due_at: float | None = None
    # The number of its frame among all frames sent with this transport; 0: none yet.
    number: int = 0
    attempts: int = 0
    wants_progress: bool = False
    waits_for_ready: bool = False
    waits_if_busy: bool = False
    may_replay: bool = False
    # Written under an earlier id: it may have run, whatever happens now.
    was_sent: bool = False
    # HTTP: the transport has it, but it waits for a free connection and no byte of it was sent.
    is_unsent: bool = False
    # How many times the server refused it because it did not know the session.
    refusals: int = 0


class Tombstones:
    """The ids of abandoned calls, each kept until a late response is impossible. Bounded; drops the oldest first."""

    __slots__ = ("_expiry", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._expiry: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._expiry)

    def __iter__(self) -> Iterator[int]:
        return iter(self._expiry)

    def copy(self) -> "Tombstones":
        """Return an independent copy, used by the model checker."""
        clone = Tombstones(self.limit)
        clone._expiry = self._expiry.copy()
        return clone

    def add(self, id: int, until: float) -> None:
        """Keep `id` until the time `until`."""
        self._expiry.pop(id, None)  # re-inserted at the end: the dict is ordered by age
        self._expiry[id] = until
        if len(self._expiry) > self.limit:
            del self._expiry[next(iter(self._expiry))]

    def contains(self, id: object, now: float) -> bool:
        """Return True if `id` was abandoned and has not expired."""
        until = self._expiry.get(id)  # type: ignore[call-overload]  # a string id of a peer matches nothing
        return until is not None and now <= until

    def discard(self, id: int) -> None:
        """Remove `id`, because its late response was received."""
        self._expiry.pop(id, None)

    def sweep(self, now: float) -> None:
        """Remove expired ids."""
        self._expiry = {id: until for id, until in self._expiry.items() if now <= until}

    def clear(self) -> None:
        """Remove all ids."""
        self._expiry.clear()
