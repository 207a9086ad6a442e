"""The state table of a server's connection.

A connection is one stream (stdio, memory, legacy SSE), one HTTP session of the handshake era, or one POST. The actions
and guards are functions of `_actions`.
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

from jackstay.errors import InvalidEventError, NoTransitionError, UnknownEventError
from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Action, Cell, Machine
from jackstay.protocol.server import _actions as a
from jackstay.protocol.server import events as e
from jackstay.protocol.server._states import ServerState

S = ServerState


def _if(guard: Action, yes: Cell, no: Cell) -> Cell:
    """Return a cell that acts as `yes` if the guard is true, else as `no`. `yes` must not have a guard."""
    return Cell(yes.actions, yes.to, guard, no)


_ = IGNORE
NEVER = IMPOSSIBLE

_OVERSIZE = Cell((a.reject_oversize, a.count_violation))
_UNREADABLE = Cell((a.reject_unreadable, a.count_violation))
_INVALID = Cell((a.reject_invalid, a.fail_outgoing_malformed, a.count_violation))
_NO_BATCH = Cell((a.reject_batch, a.count_violation))
_BATCH = _if(a.is_batch_allowed, Cell((a.process_batch,)), _NO_BATCH)
_STRAY = Cell((a.count_stray,))
_RESPONSE = _if(a.is_expected, Cell((a.complete_outgoing,)), _STRAY)
_CANCEL = _if(a.is_in_flight, Cell((a.cancel,)), _)
_DELIVER = Cell((a.deliver,))

_DUPLICATE = Cell((a.refuse_duplicate,))
_VERSION = Cell((a.refuse_version,))
_META = Cell((a.refuse_meta,))
_UNKNOWN = Cell((a.refuse_unknown,))
_SEQUENCE = Cell((a.refuse_sequence,))
_STATELESS = Cell((a.refuse_stateless,))
_SHUTDOWN = Cell((a.refuse_shutdown,))
_BUSY = Cell((a.refuse_busy,))
_DISCOVER = _if(a.has_invalid_meta, _META, Cell((a.respond_discover,)))
_SERVE = _if(a.is_full, _BUSY, Cell((a.serve,)))
_PING = Cell((a.respond_ping,))
_BAD_PARAMS = Cell((a.refuse_params,))


def _serve_stateless(serve: Cell) -> Cell:
    return _if(a.has_invalid_meta, _META, _if(a.is_unknown, _UNKNOWN, _if(a.is_full, _BUSY, serve)))


_RESPOND = _if(a.is_current, Cell((a.respond,)), Cell((a.count_late,)))
_LATE = Cell((a.count_late,))
_PROGRESS = _if(a.advances, Cell((a.send_progress,)), Cell((a.drop_progress,)))
_NOTIFY = Cell((a.notify,))
_UNDECLARED = Cell((a.fail_outgoing_capability,))
_CANCEL_OUTGOING = Cell((a.cancel_outgoing,))
_DRAIN = Cell((), S.DRAINING)
_DISCONNECT = Cell((a.fail_all_outgoing,), S.DRAINING)
_STOP = Cell((a.cancel_running, a.flush_batches), S.CLOSED)


def _outgoing(send: Cell) -> Cell:
    full = Cell((a.fail_outgoing_full,))
    return _if(a.is_undeclared, _UNDECLARED, _if(a.is_outgoing_full, full, send))


# One row per event; the cells are fresh, handshake, operating, stateless, draining, closed.
ROWS: dict[type[e.Event], tuple[Cell, Cell, Cell, Cell, Cell, Cell]] = {
    # Messages from the client: the first row that matches, in this order.
    e.OversizeReceived: (_OVERSIZE, _OVERSIZE, _OVERSIZE, _OVERSIZE, _OVERSIZE, _),
    e.UnreadableReceived: (_UNREADABLE, _UNREADABLE, _UNREADABLE, _UNREADABLE, _UNREADABLE, _),
    e.BatchReceived: (_NO_BATCH, _NO_BATCH, _BATCH, _NO_BATCH, _BATCH, _),
    e.InvalidReceived: (_INVALID, _INVALID, _INVALID, _INVALID, _INVALID, _),
    e.ResponseReceived: (_STRAY, _RESPONSE, _RESPONSE, Cell((a.drop_response,)), _RESPONSE, _),
    # On HTTP a client of the stateless era cancels by closing the response, not by this notification.
    e.CancelReceived: (_, _CANCEL, _CANCEL, _if(a.is_post, _, _CANCEL), _CANCEL, _),
    # A worker that restored the session is in operation before it receives this.
    e.InitializedReceived: (_, Cell((), S.OPERATING), Cell((a.accept_initialized,)), _, _, _),
    e.NotificationReceived: (_, _, _DELIVER, _DELIVER, _, _),
    e.DuplicateRequested: (_DUPLICATE, _DUPLICATE, _DUPLICATE, _DUPLICATE, _DUPLICATE, _),
    e.UnsupportedRequested: (_VERSION, _VERSION, _VERSION, _VERSION, _SHUTDOWN, _),
    e.DiscoverRequested: (_DISCOVER, _DISCOVER, _DISCOVER, _DISCOVER, _SHUTDOWN, _),
    e.StatelessRequested: (
        _serve_stateless(Cell((a.serve_stateless,), S.STATELESS)),
        _STATELESS,
        _STATELESS,
        _serve_stateless(Cell((a.serve_stateless,))),
        _SHUTDOWN,
        _,
    ),
    e.InitializeRequested: (
        _if(a.has_no_handshake, Cell((a.refuse_handshake,)),
            _if(a.has_bad_params, _BAD_PARAMS, Cell((a.initialize,), S.HANDSHAKE))),
        _SEQUENCE,
        # A POST without a session: the next one may reach another process, so nothing is stored.
        _if(a.is_not_post, _SEQUENCE,
            _if(a.has_bad_params, _BAD_PARAMS, Cell((a.respond_initialize,)))),
        Cell((a.refuse_handshake,)),
        _SHUTDOWN,
        _,
    ),
    e.PingRequested: (_PING, _PING, _PING, _UNKNOWN, _PING, _),
    e.UnknownRequested: (_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _),
    e.MethodRequested: (_SEQUENCE, _if(a.is_strict_handshake, _SEQUENCE, _SERVE), _SERVE, _META, _SHUTDOWN, _),
    e.ClientDisconnected: (
        _DISCONNECT,
        _DISCONNECT,
        _DISCONNECT,
        _if(a.is_post, Cell((a.cancel_running,), S.DRAINING), _DISCONNECT),
        _,
        _,
    ),
    # Handlers and the driver. Nothing is served in `fresh`, so nothing can finish there.
    e.Finished: (NEVER, _RESPOND, _RESPOND, _RESPOND, _RESPOND, _LATE),
    e.Failed: (NEVER, _RESPOND, _RESPOND, _RESPOND, _RESPOND, _LATE),
    e.Progressed: (NEVER, _PROGRESS, _PROGRESS, _PROGRESS, _PROGRESS, _),
    e.Notified: (_, _if(a.may_notify_early, _NOTIFY, Cell((a.queue_notification,))), _NOTIFY, _NOTIFY, _NOTIFY, _),
    e.OutgoingRequested: (
        Cell((a.fail_outgoing_early,)),
        _outgoing(_if(a.is_ping, Cell((a.send_outgoing,)), Cell((a.queue_outgoing,)))),
        _outgoing(Cell((a.send_outgoing,))),
        _UNDECLARED,
        Cell((a.fail_outgoing_shutdown,)),
        Cell((a.fail_outgoing_shutdown,)),
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
    S.OPERATING: (a.send_queued,),
    S.DRAINING: (a.drop_queued, a.arm_drain),
    S.CLOSED: (a.drop_queued, a.fail_all_outgoing, a.clear_deadline, a.close),
}

# The same rows, indexed by event and state for the core.
CELLS = {event: dict(zip(ServerState, cells, strict=True)) for event, cells in ROWS.items()}

# The table for the diagrams and for tests.
SERVER = Machine.of("server", ServerState, ROWS, ENTRIES)


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
    refusals = {a.refuse_sequence, a.refuse_stateless}
    if all(cell.is_impossible or refusals.intersection(cell.actions) for cell in branches):
        raise InvalidEventError(name, state.value)
    raise NoTransitionError(f"{name} does not change the state {state.value!r}", event=name, state=state.value)
