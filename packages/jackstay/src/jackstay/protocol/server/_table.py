"""The state table of a server's connection.

A connection is one stream (stdio, memory, legacy SSE), one HTTP session of the handshake era, or one POST. The classes
that derive from `ServerCore` implement the actions and guards that the cells name.
"""

# The states:
#
#                 ┌──> handshake ──> operating ──┐
#     (start) ─> fresh                           ├──> draining ──> closed
#                 └──> stateless ────────────────┘
#
# Every state but `closed` goes to `draining` when the client disconnects or a drain is requested, and to `closed` when
# a stop is requested. A POST starts in `operating` or `stateless`, as its header and `_meta` determine.
#
# Invariants, whatever the client sends:
#
# 1. A request gets at most one response, and none after it was cancelled. A notification gets none.
# 2. A request that was passed to a handler is in flight, answered or cancelled.
# 3. An event that a guard refuses does not change the state.
# 4. In `closed` nothing is sent and nothing is in flight.
# 5. A request to the client completes exactly once: with a response, or with an error in `closed` at the latest.
# 6. `draining` has a deadline that neither a handler nor a client can extend.
#
# Decisions that the specification leaves open:
#
# - Malformed frames are counted and reported but never close the connection: each one got an error response, and the
#   server may still owe the client responses to other requests.
# - A request whose handler is cancelled at the drain deadline gets no response. The client sees the connection close
#   and knows that the outcome is unknown; an error response would claim more than the server knows.
# - Before `notifications/initialized` a server may send only pings, log messages and messages that belong to a request
#   of the client (2025-11-25 basic/lifecycle). Clients pipeline requests, so everything else is queued until then.
# - Headers that contradict the body (-32020) are refused by `protocol.http` before a message gets here. A missing
#   capability (-32021, `_stateless`) is the response of the handler: by then the request is being served.

from enum import unique

from jackstay.errors import InvalidEventError, NoTransitionError, UnknownEventError
from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Cell, Machine, TableEnum, readable_name
from jackstay.protocol.server import events as e


@unique
class ServerState(TableEnum):
    """The state of a server's connection."""

    FRESH = "fresh"
    HANDSHAKE = "handshake"
    OPERATING = "operating"
    STATELESS = "stateless"
    DRAINING = "draining"
    CLOSED = "closed"


# Unique, because two names with the same text would silently be one action.
@unique
class Action(TableEnum):
    """The actions. Their values are the texts in the diagrams of `docs/`."""

    # Frames that are not messages.
    REJECT_OVERSIZE = "-32600, skip to the next frame"
    REJECT_UNREADABLE = "-32700"
    REJECT_INVALID = "-32600"
    REJECT_BATCH = "-32600 for the whole batch"
    COUNT_VIOLATION = "count a violation"
    OPEN_BATCH = "process each member by these rows, in order"
    CLOSE_BATCH = "send the responses as one batch, once all are there"
    # Responses and notifications.
    COMPLETE_OUTGOING = "complete our request"
    FAIL_OUTGOING_MALFORMED = "fail our request with that id"
    COUNT_STRAY = "count it"
    DROP_RESPONSE = "drop, count a violation"
    CANCEL = "cancel the handler, send no response"
    DELIVER = "deliver"
    # Requests.
    SERVE = "serve"
    RESPOND_DISCOVER = "respond with versions and capabilities"
    RESPOND_PING = "respond with {}"
    INITIALIZE = "respond, store the client's parameters"
    RESPOND_INITIALIZE = "respond, store nothing"
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
    RESPOND = "send the response, or add it to its batch"
    COUNT_LATE = "drop, count it as late"
    SEND_PROGRESS = "send progress"
    DROP_PROGRESS = "drop, count it as not increasing"
    # Messages that the server sends on its own.
    NOTIFY = "send it"
    QUEUE = "queue it until initialized"
    SEND_QUEUED = "send what was queued"
    DROP_QUEUED = "drop what was queued"
    SEND_OUTGOING = "assign an id, send it"
    FAIL_OUTGOING_EARLY = "StateError"
    FAIL_OUTGOING_FULL = "BackpressureError"
    FAIL_OUTGOING_CAPABILITY = "CapabilityError"
    FAIL_OUTGOING_SHUTDOWN = "ShutdownError"
    CANCEL_OUTGOING = "send notifications/cancelled"
    # Shutdown.
    ARM_DRAIN = "set the drain deadline"
    FAIL_ALL_OUTGOING = "fail all requests to the client"
    CANCEL_RUNNING = "cancel all handlers"
    FLUSH_BATCHES = "send incomplete batches"
    CLEAR_DEADLINE = "clear the drain deadline"
    CLOSE = "flush, close the transport"


@unique
class Guard(TableEnum):
    """The conditions that a cell can depend on."""

    BATCH_IS_ALLOWED = "2025-03-26, 1 to 100 members, no initialize"
    IS_EXPECTED = "it responds to a request of ours"
    IS_IN_FLIGHT = "that request is in flight"
    IS_CURRENT = "the request is still in flight"
    ADVANCES = "the request is in flight and its progress increases"
    HAS_INVALID_META = "a key of _meta is missing or invalid"
    IS_UNKNOWN = "the revision has no such method"
    IS_FULL = "max_concurrent are in flight"
    IS_STRICT = "strict"
    IS_POST = "the connection is one POST"
    IS_NOT_POST = "the connection is more than one POST"
    NO_HANDSHAKE = "no revision with a handshake is supported"
    HAS_BAD_PARAMS = "its params are invalid"
    MAY_SEND_EARLY = "it is a ping, a log message, or belongs to a request"
    IS_UNDECLARED = "the client did not declare it, or cannot be reached"
    OUTGOING_IS_FULL = "max_concurrent requests to the client are pending"


S, A, G = ServerState, Action, Guard


def _if(guard: Guard, yes: Cell, no: Cell) -> Cell:
    """Return a cell that acts as `yes` if the guard is true, else as `no`. `yes` must not have a guard."""
    return Cell(yes.actions, yes.to, guard, no)


_ = IGNORE
NEVER = IMPOSSIBLE

_OVERSIZE = Cell((A.REJECT_OVERSIZE, A.COUNT_VIOLATION))
_UNREADABLE = Cell((A.REJECT_UNREADABLE, A.COUNT_VIOLATION))
_INVALID = Cell((A.REJECT_INVALID, A.FAIL_OUTGOING_MALFORMED, A.COUNT_VIOLATION))
_NO_BATCH = Cell((A.REJECT_BATCH, A.COUNT_VIOLATION))
_BATCH = _if(G.BATCH_IS_ALLOWED, Cell((A.OPEN_BATCH,)), _NO_BATCH)
_CLOSE_BATCH = Cell((A.CLOSE_BATCH,))
_STRAY = Cell((A.COUNT_STRAY,))
_RESPONSE = _if(G.IS_EXPECTED, Cell((A.COMPLETE_OUTGOING,)), _STRAY)
_CANCEL = _if(G.IS_IN_FLIGHT, Cell((A.CANCEL,)), _)
_DELIVER = Cell((A.DELIVER,))

_DUPLICATE = Cell((A.REFUSE_DUPLICATE,))
_VERSION = Cell((A.REFUSE_VERSION,))
_META = Cell((A.REFUSE_META,))
_UNKNOWN = Cell((A.REFUSE_UNKNOWN,))
_SEQUENCE = Cell((A.REFUSE_SEQUENCE,))
_STATELESS = Cell((A.REFUSE_STATELESS,))
_SHUTDOWN = Cell((A.REFUSE_SHUTDOWN,))
_BUSY = Cell((A.REFUSE_BUSY,))
_DISCOVER = _if(G.HAS_INVALID_META, _META, Cell((A.RESPOND_DISCOVER,)))
_SERVE = _if(G.IS_FULL, _BUSY, Cell((A.SERVE,)))
_PING = Cell((A.RESPOND_PING,))
_BAD_PARAMS = Cell((A.REFUSE_PARAMS,))


def _serve_stateless(serve: Cell) -> Cell:
    return _if(G.HAS_INVALID_META, _META, _if(G.IS_UNKNOWN, _UNKNOWN, _if(G.IS_FULL, _BUSY, serve)))


_RESPOND = _if(G.IS_CURRENT, Cell((A.RESPOND,)), Cell((A.COUNT_LATE,)))
_LATE = Cell((A.COUNT_LATE,))
_PROGRESS = _if(G.ADVANCES, Cell((A.SEND_PROGRESS,)), Cell((A.DROP_PROGRESS,)))
_NOTIFY = Cell((A.NOTIFY,))
_QUEUE = Cell((A.QUEUE,))
_UNDECLARED = Cell((A.FAIL_OUTGOING_CAPABILITY,))
_CANCEL_OUTGOING = Cell((A.CANCEL_OUTGOING,))
_DRAIN = Cell((), S.DRAINING)
_DISCONNECT = Cell((A.FAIL_ALL_OUTGOING,), S.DRAINING)
_STOP = Cell((A.CANCEL_RUNNING, A.FLUSH_BATCHES), S.CLOSED)


def _outgoing(send: Cell) -> Cell:
    full = Cell((A.FAIL_OUTGOING_FULL,))
    return _if(G.IS_UNDECLARED, _UNDECLARED, _if(G.OUTGOING_IS_FULL, full, send))


# One row per event; the cells are fresh, handshake, operating, stateless, draining, closed.
ROWS: dict[type[e.Event], tuple[Cell, Cell, Cell, Cell, Cell, Cell]] = {
    # Messages from the client: the first row that matches, in this order.
    e.OversizeReceived: (_OVERSIZE, _OVERSIZE, _OVERSIZE, _OVERSIZE, _OVERSIZE, _),
    e.UnreadableReceived: (_UNREADABLE, _UNREADABLE, _UNREADABLE, _UNREADABLE, _UNREADABLE, _),
    e.BatchReceived: (_NO_BATCH, _NO_BATCH, _BATCH, _NO_BATCH, _BATCH, _),
    e.BatchEnded: (NEVER, NEVER, _CLOSE_BATCH, NEVER, _CLOSE_BATCH, NEVER),
    e.InvalidReceived: (_INVALID, _INVALID, _INVALID, _INVALID, _INVALID, _),
    e.ResponseReceived: (_STRAY, _RESPONSE, _RESPONSE, Cell((A.DROP_RESPONSE,)), _RESPONSE, _),
    # On HTTP a client of the stateless era cancels by closing the response, not by this notification.
    e.CancelReceived: (_, _CANCEL, _CANCEL, _if(G.IS_POST, _, _CANCEL), _CANCEL, _),
    e.InitializedReceived: (_, Cell((), S.OPERATING), _, _, _, _),
    e.NotificationReceived: (_, _, _DELIVER, _DELIVER, _, _),
    e.DuplicateRequested: (_DUPLICATE, _DUPLICATE, _DUPLICATE, _DUPLICATE, _DUPLICATE, _),
    e.UnsupportedRequested: (_VERSION, _VERSION, _VERSION, _VERSION, _SHUTDOWN, _),
    e.DiscoverRequested: (_DISCOVER, _DISCOVER, _DISCOVER, _DISCOVER, _SHUTDOWN, _),
    e.StatelessRequested: (
        _serve_stateless(Cell((A.SERVE,), S.STATELESS)),
        _STATELESS,
        _STATELESS,
        _serve_stateless(Cell((A.SERVE,))),
        _SHUTDOWN,
        _,
    ),
    e.InitializeRequested: (
        _if(G.NO_HANDSHAKE, Cell((A.REFUSE_HANDSHAKE,)),
            _if(G.HAS_BAD_PARAMS, _BAD_PARAMS, Cell((A.INITIALIZE,), S.HANDSHAKE))),
        _SEQUENCE,
        # A POST without a session: the next one may reach another process, so nothing is stored.
        _if(G.IS_NOT_POST, _SEQUENCE,
            _if(G.HAS_BAD_PARAMS, _BAD_PARAMS, Cell((A.RESPOND_INITIALIZE,)))),
        Cell((A.REFUSE_HANDSHAKE,)),
        _SHUTDOWN,
        _,
    ),
    e.PingRequested: (_PING, _PING, _PING, _UNKNOWN, _PING, _),
    e.UnknownRequested: (_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _),
    e.MethodRequested: (_SEQUENCE, _if(G.IS_STRICT, _SEQUENCE, _SERVE), _SERVE, _META, _SHUTDOWN, _),
    e.ClientDisconnected: (
        _DISCONNECT,
        _DISCONNECT,
        _DISCONNECT,
        _if(G.IS_POST, Cell((A.CANCEL_RUNNING,), S.DRAINING), _DISCONNECT),
        _,
        _,
    ),
    # Handlers and the driver. Nothing is served in `fresh`, so nothing can finish there.
    e.Finished: (NEVER, _RESPOND, _RESPOND, _RESPOND, _RESPOND, _LATE),
    e.Failed: (NEVER, _RESPOND, _RESPOND, _RESPOND, _RESPOND, _LATE),
    e.Progressed: (NEVER, _PROGRESS, _PROGRESS, _PROGRESS, _PROGRESS, _),
    e.Notified: (_, _if(G.MAY_SEND_EARLY, _NOTIFY, _QUEUE), _NOTIFY, _NOTIFY, _NOTIFY, _),
    e.OutgoingRequested: (
        Cell((A.FAIL_OUTGOING_EARLY,)),
        _outgoing(_if(G.MAY_SEND_EARLY, Cell((A.SEND_OUTGOING,)), _QUEUE)),
        _outgoing(Cell((A.SEND_OUTGOING,))),
        _UNDECLARED,
        Cell((A.FAIL_OUTGOING_SHUTDOWN,)),
        Cell((A.FAIL_OUTGOING_SHUTDOWN,)),
    ),
    e.OutgoingCancelled: (_, _CANCEL_OUTGOING, _CANCEL_OUTGOING, _, _CANCEL_OUTGOING, _),
    e.DrainRequested: (_DRAIN, _DRAIN, _DRAIN, _DRAIN, _, _),
    e.StopRequested: (_STOP, _STOP, _STOP, _STOP, _STOP, _),
    # Timers, and events that follow from others.
    e.DrainExpired: (NEVER, NEVER, NEVER, NEVER, _STOP, NEVER),
    e.Drained: (NEVER, NEVER, NEVER, NEVER, Cell((), S.CLOSED), NEVER),
}  # fmt: skip

# The actions that run on entering a state, whatever event led there.
ENTRIES: dict[ServerState, tuple[Action, ...]] = {
    S.OPERATING: (A.SEND_QUEUED,),
    S.DRAINING: (A.DROP_QUEUED, A.ARM_DRAIN),
    S.CLOSED: (A.DROP_QUEUED, A.FAIL_ALL_OUTGOING, A.CLEAR_DEADLINE, A.CLOSE),
}

# The same rows, indexed by event and state for the core.
CELLS = {event: dict(zip(ServerState, cells, strict=True)) for event, cells in ROWS.items()}

# The table for the diagrams and for tests.
SERVER = Machine(
    name="server",
    states=tuple(ServerState),
    start=S.FRESH,
    finals=frozenset({S.CLOSED}),
    rows={readable_name(event.__name__): cells for event, cells in ROWS.items()},
    events={readable_name(event.__name__): event.__doc__ or "" for event in ROWS},
    entries={state.value: actions for state, actions in ENTRIES.items()},
)


def destination(event: type[e.Event], state: ServerState) -> ServerState:
    """Return the state that the event can lead to if its guards allow it.

    Raises:
        UnknownEventError: the table has no such row.
        InvalidEventError: the pair cannot happen, or is a sequence error whatever the guards return.
        NoTransitionError: the event does not change the state. This is the usual case, not a failure.
    """
    name = event.__name__
    if event not in CELLS:
        raise UnknownEventError(name, state.value)
    branches = CELLS[event][state].branches()
    for cell in branches:
        if cell.to is not None:
            return ServerState(cell.to)
    refusals = {A.REFUSE_SEQUENCE, A.REFUSE_STATELESS}
    if all(cell.is_impossible or refusals.intersection(cell.actions) for cell in branches):
        raise InvalidEventError(name, state.value)
    raise NoTransitionError(f"{name} does not change the state {state.value!r}", event=name, state=state.value)
