"""When what may happen to a server's connection: the total table of its lifecycle.

A connection is one stream (stdio, memory, legacy SSE), one HTTP session of the handshake era, or one POST. It is
always in one of six states. Nothing has been agreed (`fresh`); `initialize` was answered (`handshake`) and confirmed
(`operating`), or the client speaks the era without a handshake (`stateless`); running handlers get a last second
(`draining`); it is over (`closed`).

                ┌──> handshake ──> operating ──┐
    (start) ─> fresh                           ├──> draining ──> closed
                └──> stateless ────────────────┘

From every state but `closed` a lost client or an order to drain leads to `draining`, and an order to stop to `closed`.
A POST starts where its header and `_meta` say: in `operating` or in `stateless`.

What holds in every state, whatever the client does:

1. A request has at most one answer, and none once it was cancelled. A notification has none.
2. A request that was handed to a handler is in flight, answered or cancelled; none is forgotten.
3. The state changes only when what was asked for succeeded; what a guard refuses changes nothing.
4. After `closed` nothing is sent, and nothing is in flight in it.
5. What was asked of the client ends once: with its answer, or with an error at the latest in `closed`.
6. `draining` has a deadline that no handler and no client can move.

The rows read as the design's table does, and in its order: a message belongs to the first class that fits. One event a
row, one state a column; cells hold names, and `_connection` says what each name does. What depends on something is asked
by name (`when`), in the order written. Nothing here calls anything, so nothing can be re-entered.

Settled here, where the design leaves it open. *Strikes*: a client's bad frames are counted and reported, and never
close the connection: each was answered, costs us one frame, and a server must not hang up on a client it still owes
answers. *Unanswered at the end*: a handler cancelled at the drain deadline gets no answer: the client sees the
connection end and knows that the outcome is unknown, and any answer of ours would claim to know more. *Asking early*:
before `notifications/initialized` a server may send nothing but pings, logs and what belongs to a request of the
client's (2025-11-25 basic/lifecycle), but clients pipeline and handlers run: the rest is held until then. *Headers*
that contradict the body (-32020) are refused on HTTP before a message gets here (`http`); *capabilities* that
a handler finds missing (-32021, `_stateless`) are its answer: by then the request is served.

Kept beside the state, because they are tables and not phases: the ids in flight, the answers of unfinished batches,
what was asked of the client, the revision agreed on, and the time of the drain deadline.

Above: `_connection`, which runs this; `drawing`, which shows it. Below: `_machine`, `events`.
"""

from enum import unique

from jackstay.errors import InvalidEventError, NoTransitionError, UnknownEventError
from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Cell, Machine, Word, words
from jackstay.protocol.server import events as e


@unique
class ServerState(Word):
    """Where a server's connection stands."""

    FRESH = "fresh"
    HANDSHAKE = "handshake"
    OPERATING = "operating"
    STATELESS = "stateless"
    DRAINING = "draining"
    CLOSED = "closed"


# Unique, because two names for the same words would silently be one action.
@unique
class Do(Word):
    """What is done. The words stand in the drawings."""

    # Frames that are no messages.
    ANSWER_OVERSIZE = "-32600, skip to the next frame"
    ANSWER_UNREADABLE = "-32700"
    ANSWER_INVALID = "-32600"
    ANSWER_ARRAY = "-32600 for the whole array"
    STRIKE = "strike"
    OPEN_BATCH = "each member by these rows, in order"
    CLOSE_BATCH = "send the answers that are there as one array, once all are"
    # Responses and notifications.
    COMPLETE_ASK = "to our request"
    FAIL_MALFORMED_ASK = "fail our request that it meant to answer"
    COUNT_STRAY = "count it"
    VIOLATE = "drop, count a violation"
    CANCEL = "cancel the handler, send no answer"
    DELIVER = "deliver"
    # Requests.
    SERVE = "serve"
    ANSWER_DISCOVER = "answer with versions and capabilities"
    ANSWER_PING = "answer {}"
    INITIALIZE = "answer, remember the client"
    ANSWER_INITIALIZE = "answer, remember nothing"
    REFUSE_DUPLICATE = "-32600, the id is in flight"
    REFUSE_VERSION = "-32022 with the supported list"
    REFUSE_HANDSHAKE = "-32022 with the stateless revisions"
    REFUSE_META = "-32602, naming the key of _meta"
    REFUSE_PARAMS = "-32602, naming the member"
    REFUSE_UNKNOWN = "-32601"
    REFUSE_SEQUENCE = "sequence error -32001"
    REFUSE_STATELESS = "sequence error -32600"
    REFUSE_SHUTDOWN = "-32603, shutting down, retryable"
    REFUSE_BUSY = "-32603, busy, retryable"
    # Handlers.
    ANSWER = "send the answer, or put it into its array"
    COUNT_LATE = "drop, count it as late"
    REPORT = "send progress"
    COUNT_BACKWARD = "drop, count it as not increasing"
    # What we send by ourselves.
    NOTIFY = "send it"
    HOLD = "hold it until initialized"
    RELEASE_HELD = "send what was held"
    DROP_HELD = "drop what was held"
    ASK = "new id, send it"
    FAIL_ASK_EARLY = "StateError"
    FAIL_ASK_FULL = "BackpressureError"
    FAIL_ASK_CAPABILITY = "CapabilityError"
    FAIL_ASK_SHUTDOWN = "ShutdownError"
    WITHDRAW_ASK = "cancel it at the client"
    # The end.
    ARM_DRAIN = "arm the drain deadline"
    END_ASKS = "fail what was asked of the client"
    STOP_RUNNING = "cancel what runs"
    FLUSH_BATCHES = "send the answers of batches that are there"
    REST = "clear tables and the deadline"
    CLOSE = "flush, close the transport"


@unique
class When(Word):
    """What it depends on."""

    BATCH_IS_ALLOWED = "2025-03-26, 1 to 100 members, no initialize"
    IS_OURS = "it answers a request of ours"
    IS_IN_FLIGHT = "that request is in flight"
    IS_CURRENT = "the request is still in flight"
    ADVANCES = "the request is in flight and its progress increases"
    HAS_FLAW = "a key of _meta is missing or wrong"
    IS_UNKNOWN = "the revision has no such method"
    IS_FULL = "max_concurrent are in flight"
    IS_STRICT = "strict"
    IS_POST = "the connection is one POST"
    IS_LASTING = "the connection is more than one POST"
    NO_HANDSHAKE = "no revision with a handshake is spoken"
    HAS_BAD_PARAMS = "its params cannot be used"
    MAY_GO_EARLY = "it is a ping, a log, or belongs to a request"
    IS_UNDECLARED = "the client did not declare it, or cannot be asked"
    ASKS_ARE_FULL = "max_concurrent are asked"


S, D, W = ServerState, Do, When


def _ask(when: When, yes: Cell, no: Cell) -> Cell:
    """The cell `yes` where the question holds, else `no`. A `yes` must not ask anything itself."""
    return Cell(yes.do, yes.to, when, no)


_ = IGNORE
NEVER = IMPOSSIBLE

_OVERSIZE = Cell((D.ANSWER_OVERSIZE, D.STRIKE))
_UNREADABLE = Cell((D.ANSWER_UNREADABLE, D.STRIKE))
_INVALID = Cell((D.ANSWER_INVALID, D.FAIL_MALFORMED_ASK, D.STRIKE))
_NO_ARRAY = Cell((D.ANSWER_ARRAY, D.STRIKE))
_ARRAY = _ask(W.BATCH_IS_ALLOWED, Cell((D.OPEN_BATCH,)), _NO_ARRAY)
_CLOSE_BATCH = Cell((D.CLOSE_BATCH,))
_STRAY = Cell((D.COUNT_STRAY,))
_RESPONSE = _ask(W.IS_OURS, Cell((D.COMPLETE_ASK,)), _STRAY)
_CANCEL = _ask(W.IS_IN_FLIGHT, Cell((D.CANCEL,)), _)
_DELIVER = Cell((D.DELIVER,))

_DUPLICATE = Cell((D.REFUSE_DUPLICATE,))
_VERSION = Cell((D.REFUSE_VERSION,))
_META = Cell((D.REFUSE_META,))
_UNKNOWN = Cell((D.REFUSE_UNKNOWN,))
_SEQUENCE = Cell((D.REFUSE_SEQUENCE,))
_STATELESS = Cell((D.REFUSE_STATELESS,))
_SHUTDOWN = Cell((D.REFUSE_SHUTDOWN,))
_BUSY = Cell((D.REFUSE_BUSY,))
_DISCOVER = _ask(W.HAS_FLAW, _META, Cell((D.ANSWER_DISCOVER,)))
_SERVE = _ask(W.IS_FULL, _BUSY, Cell((D.SERVE,)))
_PING = Cell((D.ANSWER_PING,))
_BAD_PARAMS = Cell((D.REFUSE_PARAMS,))


def _serve_stateless(serve: Cell) -> Cell:
    return _ask(W.HAS_FLAW, _META, _ask(W.IS_UNKNOWN, _UNKNOWN, _ask(W.IS_FULL, _BUSY, serve)))


_ANSWER = _ask(W.IS_CURRENT, Cell((D.ANSWER,)), Cell((D.COUNT_LATE,)))
_LATE = Cell((D.COUNT_LATE,))
_REPORT = _ask(W.ADVANCES, Cell((D.REPORT,)), Cell((D.COUNT_BACKWARD,)))
_NOTIFY = Cell((D.NOTIFY,))
_HOLD = Cell((D.HOLD,))
_UNDECLARED = Cell((D.FAIL_ASK_CAPABILITY,))
_WITHDRAW = Cell((D.WITHDRAW_ASK,))
_DRAIN = Cell((), S.DRAINING)
_LOSE = Cell((D.END_ASKS,), S.DRAINING)
_STOP = Cell((D.STOP_RUNNING, D.FLUSH_BATCHES), S.CLOSED)


def _asked(send: Cell) -> Cell:
    full = Cell((D.FAIL_ASK_FULL,))
    return _ask(W.IS_UNDECLARED, _UNDECLARED, _ask(W.ASKS_ARE_FULL, full, send))


# One row an event; the cells are fresh, handshake, operating, stateless, draining, closed.
ROWS: dict[type[e.Event], tuple[Cell, Cell, Cell, Cell, Cell, Cell]] = {
    # What the client sends: the first row that fits.
    e.OversizeReceived: (_OVERSIZE, _OVERSIZE, _OVERSIZE, _OVERSIZE, _OVERSIZE, _),
    e.UnreadableReceived: (_UNREADABLE, _UNREADABLE, _UNREADABLE, _UNREADABLE, _UNREADABLE, _),
    e.ArrayReceived: (_NO_ARRAY, _NO_ARRAY, _ARRAY, _NO_ARRAY, _ARRAY, _),
    e.ArrayEnded: (NEVER, NEVER, _CLOSE_BATCH, NEVER, _CLOSE_BATCH, NEVER),
    e.InvalidReceived: (_INVALID, _INVALID, _INVALID, _INVALID, _INVALID, _),
    e.ResponseReceived: (_STRAY, _RESPONSE, _RESPONSE, Cell((D.VIOLATE,)), _RESPONSE, _),
    # On HTTP the end of the response is the cancel of the stateless era, and the notification is not sent there.
    e.CancelReceived: (_, _CANCEL, _CANCEL, _ask(W.IS_POST, _, _CANCEL), _CANCEL, _),
    e.InitializedReceived: (_, Cell((), S.OPERATING), _, _, _, _),
    e.NotificationReceived: (_, _, _DELIVER, _DELIVER, _, _),
    e.DuplicateRequested: (_DUPLICATE, _DUPLICATE, _DUPLICATE, _DUPLICATE, _DUPLICATE, _),
    e.UnsupportedRequested: (_VERSION, _VERSION, _VERSION, _VERSION, _SHUTDOWN, _),
    e.DiscoverRequested: (_DISCOVER, _DISCOVER, _DISCOVER, _DISCOVER, _SHUTDOWN, _),
    e.StatelessRequested: (
        _serve_stateless(Cell((D.SERVE,), S.STATELESS)),
        _STATELESS,
        _STATELESS,
        _serve_stateless(Cell((D.SERVE,))),
        _SHUTDOWN,
        _,
    ),
    e.InitializeRequested: (
        _ask(W.NO_HANDSHAKE, Cell((D.REFUSE_HANDSHAKE,)),
             _ask(W.HAS_BAD_PARAMS, _BAD_PARAMS, Cell((D.INITIALIZE,), S.HANDSHAKE))),
        _SEQUENCE,
        # A POST without a session: the next may reach another process, so nothing is remembered.
        _ask(W.IS_LASTING, _SEQUENCE,
             _ask(W.HAS_BAD_PARAMS, _BAD_PARAMS, Cell((D.ANSWER_INITIALIZE,)))),
        Cell((D.REFUSE_HANDSHAKE,)),
        _SHUTDOWN,
        _,
    ),
    e.PingRequested: (_PING, _PING, _PING, _UNKNOWN, _PING, _),
    e.UnknownRequested: (_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _),
    e.MethodRequested: (_SEQUENCE, _ask(W.IS_STRICT, _SEQUENCE, _SERVE), _SERVE, _META, _SHUTDOWN, _),
    e.ClientGone: (
        _LOSE,
        _LOSE,
        _LOSE,
        _ask(W.IS_POST, Cell((D.STOP_RUNNING,), S.DRAINING), _LOSE),
        _,
        _,
    ),
    # What handlers and the driver do. Nothing is served in `fresh`, so nothing can end there.
    e.Finished: (NEVER, _ANSWER, _ANSWER, _ANSWER, _ANSWER, _LATE),
    e.Failed: (NEVER, _ANSWER, _ANSWER, _ANSWER, _ANSWER, _LATE),
    e.Progressed: (NEVER, _REPORT, _REPORT, _REPORT, _REPORT, _),
    e.Notified: (_, _ask(W.MAY_GO_EARLY, _NOTIFY, _HOLD), _NOTIFY, _NOTIFY, _NOTIFY, _),
    e.Asked: (
        Cell((D.FAIL_ASK_EARLY,)),
        _asked(_ask(W.MAY_GO_EARLY, Cell((D.ASK,)), _HOLD)),
        _asked(Cell((D.ASK,))),
        _UNDECLARED,
        Cell((D.FAIL_ASK_SHUTDOWN,)),
        Cell((D.FAIL_ASK_SHUTDOWN,)),
    ),
    e.Withdrew: (_, _WITHDRAW, _WITHDRAW, _, _WITHDRAW, _),
    e.DrainAsked: (_DRAIN, _DRAIN, _DRAIN, _DRAIN, _, _),
    e.StopAsked: (_STOP, _STOP, _STOP, _STOP, _STOP, _),
    # The clock, and what follows.
    e.DrainExpired: (NEVER, NEVER, NEVER, NEVER, _STOP, NEVER),
    e.Emptied: (NEVER, NEVER, NEVER, NEVER, Cell((), S.CLOSED), NEVER),
}  # fmt: skip

# What is done on entering a state, whatever led there.
ENTRIES: dict[ServerState, tuple[Do, ...]] = {
    S.OPERATING: (D.RELEASE_HELD,),
    S.DRAINING: (D.DROP_HELD, D.ARM_DRAIN),
    S.CLOSED: (D.DROP_HELD, D.END_ASKS, D.REST, D.CLOSE),
}

# The same rows by event and state, which is how the core looks them up.
CELLS = {event: dict(zip(ServerState, cells, strict=True)) for event, cells in ROWS.items()}

# The table for drawing and for tests.
SERVER = Machine(
    name="server",
    states=tuple(ServerState),
    start=S.FRESH,
    finals=frozenset({S.CLOSED}),
    rows={words(event.__name__): cells for event, cells in ROWS.items()},
    events={words(event.__name__): event.__doc__ or "" for event in ROWS},
    entries={state.value: do for state, do in ENTRIES.items()},
)


def destination(event: type[e.Event], state: ServerState) -> ServerState:
    """Where that pair can lead, if everything its guards ask for holds.

    Raises:
        UnknownEventError: the table has no such row.
        InvalidEventError: the pair cannot happen, or is a sequence error whatever the guards say.
        NoTransitionError: the row keeps its state. Not an error: most rows do.
    """
    name = event.__name__
    if event not in CELLS:
        raise UnknownEventError(name, state.value)
    branches = CELLS[event][state].branches()
    for cell in branches:
        if cell.to is not None:
            return ServerState(cell.to)
    refusals = {D.REFUSE_SEQUENCE, D.REFUSE_STATELESS}
    if all(cell.is_impossible or refusals.intersection(cell.do) for cell in branches):
        raise InvalidEventError(name, state.value)
    raise NoTransitionError(f"{name} keeps {state.value}", event=name, state=state.value)
