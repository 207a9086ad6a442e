"""One request and its answer: the machine that every call of a client goes through, once.

A call waits (for the connection or for room), is handed to the transport, and ends in exactly one of three ways:
answered, failed, or abandoned. Abandoned means that nobody waits any more but the server may still answer; its id is
then a tombstone, so that a late answer is told from one that was never asked for. `DONE` is the id forgotten.

    waiting ──> sent ──> done
       ^  \\      │ ^ \\
       │   \\     v │  └─> abandoned ──> done
       └── busy ──┘

*Written* is not a state but a fact about the wire: the first byte of the frame was given to the operating system. The
transport counts the frames it has written, each exchange knows the number of its frame, and comparing the two says
whether a call surely did not run. A flag per call would have to be set on the hot path; the count costs nothing.
Over HTTP each request travels alone: it counts as written when it is handed over, unless the transport reports that it
waits for a free connection (`is_unsent`).

Above: the client's core, which runs this table for every call. Below: `_machine`.
"""

from collections.abc import Iterator
from enum import unique
from typing import TypeAlias

import msgspec

from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Cell, Machine, Word


@unique
class ExchangeState(Word):
    """Where a call stands."""

    WAITING = "waiting"  # for ready, or for room
    BUSY = "busy"  # refused by the transport, will be tried again at a set time
    SENT = "sent"  # with the transport, written or about to be
    ABANDONED = "abandoned"  # nobody waits; the id is a tombstone
    DONE = "done"


@unique
class ExchangeEvent(Word):
    """What can happen to a call."""

    HANDED = "handed"
    REFUSED = "refused"
    PROGRESSED = "progressed"
    ANSWERED = "answered"
    GIVEN_UP = "given up"
    EXPIRED = "expired"
    LOST = "lost"
    TURNED_AWAY = "turned away"
    RENEWED = "renewed"
    ENDED = "ended"
    SWEPT = "swept"


@unique
class Then(Word):
    """What is done about it."""

    COMPLETE = "complete the caller"
    FAIL = "fail the caller"
    EXTEND = "move the soft deadline"
    CANCEL = "tell the server, once"
    WITHDRAW = "take the frame back from the transport"
    ARM_RETRY = "arm the retry"
    QUEUE = "queue for ready or room"
    MARK_SENT = "remember that it may have run"
    RENEW = "give it a new id"
    COUNT_LATE = "count a late answer"
    COUNT_UNKNOWN = "count an unknown answer"


@unique
class If(Word):
    """What it depends on."""

    WRITTEN = "written"
    WAITS_FOR_ROOM = 'busy="wait"'
    WAITS_FOR_READY = "wait_for_ready"
    HAS_ATTEMPTS_LEFT = "attempts left"
    MAY_REPLAY = "safe to repeat, not repeated yet"
    HAS_SESSION_ATTEMPTS_LEFT = "session_attempts left"


_WAITING, _BUSY, _SENT, _ABANDONED, _DONE = ExchangeState

_FAILED = Cell((Then.FAIL,), _DONE)
_LATE = Cell((Then.COUNT_LATE,))
_KEPT_OR_FAILED = Cell((Then.QUEUE,), _WAITING, If.WAITS_FOR_READY, _FAILED)

# One row an event; the cells are waiting, busy, sent, abandoned, done.
ROWS: dict[ExchangeEvent, tuple[Cell, Cell, Cell, Cell, Cell]] = {
    ExchangeEvent.HANDED: (Cell(to=_SENT), Cell(to=_SENT), IMPOSSIBLE, IMPOSSIBLE, IMPOSSIBLE),
    # No tombstone after the last attempt: nothing was sent, so nothing can come back.
    ExchangeEvent.REFUSED: (
        IMPOSSIBLE,
        IMPOSSIBLE,
        Cell((Then.QUEUE,), _WAITING, If.WAITS_FOR_ROOM,
             Cell((Then.ARM_RETRY,), _BUSY, If.HAS_ATTEMPTS_LEFT, _FAILED)),
        IGNORE,
        IGNORE,
    ),
    # The specification lets progress cross our cancel on the wire: it is dropped quietly.
    ExchangeEvent.PROGRESSED: (IGNORE, IGNORE, Cell((Then.EXTEND,)), _LATE, IGNORE),
    # An answer to an id that was never written is an answer to nobody.
    ExchangeEvent.ANSWERED: (
        Cell((Then.COUNT_UNKNOWN,)),
        Cell((Then.COUNT_UNKNOWN,)),
        Cell((Then.COMPLETE,), _DONE),
        Cell((Then.COUNT_LATE,), _DONE),
        Cell((Then.COUNT_UNKNOWN,)),
    ),
    ExchangeEvent.GIVEN_UP: (
        Cell(to=_DONE),
        Cell(to=_DONE),
        Cell((Then.CANCEL,), _ABANDONED, If.WRITTEN, Cell((Then.WITHDRAW,), _DONE)),
        IGNORE,
        IGNORE,
    ),
    ExchangeEvent.EXPIRED: (
        _FAILED,
        _FAILED,
        Cell((Then.FAIL, Then.CANCEL), _ABANDONED, If.WRITTEN, Cell((Then.WITHDRAW, Then.FAIL), _DONE)),
        IMPOSSIBLE,
        IMPOSSIBLE,
    ),
    # The connection is gone, and another will be made.
    ExchangeEvent.LOST: (
        Cell((), None, If.WAITS_FOR_READY, _FAILED),
        _KEPT_OR_FAILED,
        Cell((Then.MARK_SENT, Then.RENEW, Then.QUEUE), _WAITING, If.MAY_REPLAY,
             Cell((Then.FAIL,), _ABANDONED, If.WRITTEN, _KEPT_OR_FAILED)),
        IGNORE,
        IGNORE,
    ),
    # The server refused it before dispatch because it forgot the session: it surely did not run.
    ExchangeEvent.TURNED_AWAY: (
        IMPOSSIBLE,
        IMPOSSIBLE,
        Cell((Then.RENEW, Then.QUEUE), _WAITING, If.HAS_SESSION_ATTEMPTS_LEFT, _FAILED),
        IGNORE,
        IGNORE,
    ),
    # The session is made again over the same HTTP client: what is open stays open, nothing is offered meanwhile.
    ExchangeEvent.RENEWED: (
        IGNORE,
        Cell((Then.QUEUE,), _WAITING),
        Cell((), None, If.WRITTEN, Cell((Then.WITHDRAW, Then.QUEUE), _WAITING)),
        IGNORE,
        IGNORE,
    ),
    # The connection is gone for good.
    ExchangeEvent.ENDED: (_FAILED, _FAILED, Cell((Then.FAIL,), _ABANDONED, If.WRITTEN, _FAILED), IGNORE, IGNORE),
    ExchangeEvent.SWEPT: (IMPOSSIBLE, IMPOSSIBLE, IMPOSSIBLE, Cell(to=_DONE), IGNORE),
}  # fmt: skip

# The same rows by state, which is how a core looks them up.
CELLS = {
    (event, state): cells[column]
    for event, cells in ROWS.items()
    for column, state in enumerate(ExchangeState)
}

# The table for drawing and for tests.
EXCHANGE = Machine(
    name="exchange",
    states=tuple(ExchangeState),
    start=_WAITING,
    finals=frozenset({_DONE}),
    rows={event.value: cells for event, cells in ROWS.items()},
    events={
        "handed": "the frame was given to the transport",
        "refused": "the transport is busy and took nothing",
        "progressed": "the server reported progress",
        "answered": "a result or an error with this id arrived",
        "given up": "the caller no longer waits",
        "expired": "the soft or the hard deadline passed",
        "lost": "the connection ended and will be made again",
        "turned away": "the server forgot the session and refused the request",
        "renewed": "the session is being made again",
        "ended": "the connection ended for good",
        "swept": "the tombstone is older than any late answer can be",
    },
)


@unique
class Role(Word):
    """Whose request it is: a caller's, or one of the connection's own."""

    CALL = "call"
    PROBE = "probe"
    HANDSHAKE = "handshake"
    KEEPALIVE = "keepalive"
    STANDING = "standing"


# Whatever the driver uses to find the caller again; the core only hands it back.
Caller: TypeAlias = object


class Exchange(msgspec.Struct):
    """One request under way. `params` and `meta` are encoded; the frame is made when it is handed over."""

    id: int
    method: str
    params: bytes
    caller: Caller = None
    role: Role = Role.CALL
    state: ExchangeState = ExchangeState.WAITING
    # When it was made, by the id it had then: queued calls keep this order whatever ids they get later.
    order: int = 0
    meta: bytes = b""
    speaker: bytes = b""
    timeout: float | None = None
    max_timeout: float | None = None
    soft_at: float | None = None
    hard_at: float | None = None
    made_at: float = 0.0
    # The deadline, while the timer stands at the time for an early check of the server; None: the timer is the deadline.
    due_at: float | None = None
    # The number of its frame among all frames handed to this transport; 0: none yet.
    number: int = 0
    attempts: int = 0
    wants_progress: bool = False
    waits_for_ready: bool = False
    waits_for_room: bool = False
    may_replay: bool = False
    # Written under an earlier id: whatever happens now, it may have run.
    was_sent: bool = False
    # HTTP: the transport has it, and nothing of it was sent, because it waits for a free connection.
    is_unsent: bool = False
    # How often the server refused it because it did not know the session.
    refusals: int = 0


class Tombstones:
    """The ids of abandoned calls, each until a late answer can no longer come. Bounded; the oldest go first."""

    __slots__ = ("_expiry", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._expiry: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._expiry)

    def __iter__(self) -> Iterator[int]:
        return iter(self._expiry)

    def copy(self) -> "Tombstones":
        """An independent copy, for searching the states of a core."""
        twin = Tombstones(self.limit)
        twin._expiry = self._expiry.copy()
        return twin

    def bury(self, id: int, until: float) -> None:
        """Remember `id` until then."""
        self._expiry.pop(id, None)  # re-inserted at the end: the order of the dict is the order of age
        self._expiry[id] = until
        if len(self._expiry) > self.limit:
            del self._expiry[next(iter(self._expiry))]

    def holds(self, id: object, now: float) -> bool:
        """True if `id` was abandoned and a late answer may still come."""
        until = self._expiry.get(id)  # type: ignore[call-overload]  # ids of peers may be strings: those are absent
        return until is not None and now <= until

    def exhume(self, id: int) -> None:
        """Forget `id`: its late answer has come."""
        self._expiry.pop(id, None)

    def sweep(self, now: float) -> None:
        """Forget what has expired."""
        self._expiry = {id: until for id, until in self._expiry.items() if now <= until}

    def clear(self) -> None:
        """Forget everything."""
        self._expiry.clear()
