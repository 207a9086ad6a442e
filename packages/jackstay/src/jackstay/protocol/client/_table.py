"""The lifecycle of a client's connection as a complete table: what every event does in every state.

A connection starts a transport (`starting`), agrees with the server on era and revision (`initializing`), carries calls
(`ready`), waits after a failure (`backoff`) and starts again. In the end it closes what it started (`closing`) and is
`closed`. The actions and guards are methods of `ClientConnection`.
"""

from enum import unique

from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Cell, Machine, TableEnum, readable_name
from jackstay.protocol.client import events as e


@unique
class ClientState(TableEnum):
    """The state of a client's connection."""

    STARTING = "starting"
    INITIALIZING = "initializing"
    READY = "ready"
    BACKOFF = "backoff"
    CLOSING = "closing"
    CLOSED = "closed"


@unique
class Action(TableEnum):
    """The actions of the table. The values are shown in the documentation, and `ClientConnection` implements them."""

    # Calls and other requests of users.
    WRITE = "new id, deadline, write"
    QUEUE_OR_REFUSE = "queue it, or StateError"
    REFUSE = "StateError"
    REFUSE_CLOSING = "ShutdownError"
    REFUSE_CLOSED = "ClosedError"
    NOTIFY = "write it"
    ADD_WAITER = "wait"
    DROP_WAITER = "stop waiting"
    RELEASE = "return"
    RELEASE_WITH_REASON = "raise"
    RETURN_SERVER = "return the server"
    RETURN_LAST_SERVER = "return the last known server, stale; StateError before the first ready"
    CANCEL_CALL = "withdraw or cancel it"
    EXPIRE = "TimeoutError; withdraw or cancel it"
    RETRY = "send it again"
    HANDLE_BUSY = "retry, wait, or BackpressureError"
    FLUSH = "send queued calls"
    SEND_MORE = "send more queued calls"
    KEEP_FRAME = "keep it until the transport is writable"
    SEND_KEPT = "send kept frames"
    MARK_UNSENT = "mark as not sent"
    MARK_SENT = "mark as sent"
    SUBSCRIBE = "store and open it"
    REMEMBER_SUBSCRIPTION = "store it"
    FORGET_SUBSCRIPTION = "remove and end it"
    REPLY = "send it, unless cancelled"
    # The transport.
    SPAWN = "epoch+1, spawn"
    CLOSE = "close the transport"
    CLOSE_LATE = "close that late spawn"
    MARK_UP = "mark as up"
    MARK_REAPED = "mark as reaped"
    REPORT_LEAK = "log the process id"
    # Negotiation.
    OPEN_NEGOTIATION = "probe or initialize"
    SEND_INITIALIZE = "send initialize too"
    TRY_NEXT_VERSION = "try that era and version, at most 3 steps"
    FINISH_NEGOTIATION = "store version, capabilities and server info"
    RESTART_HANDSHAKE = "initialize again without a session"
    SKIP_PROBE = "start again without delay and without the probe, not counted"
    # Failures and reconnecting.
    RECORD_CAUSE = "record the cause"
    START_BACKOFF = "count a failure, arm backoff"
    START_MIN_BACKOFF = "count a failure, arm the shortest backoff"
    RESET_CALLS = "ResetError for every call that was sent"
    END_CALLS = "fail every call"
    END_WAITERS = "raise in every waiter"
    KEEP_CLIENT = "keep the HTTP client and its open requests, drop the session"
    REQUEUE = "queue that request again, or SessionLostError after the last attempt"
    WARN_ABOUT_SESSIONS = "warn once that the server does not keep sessions"
    DROP_UNLESS_KEPT = "unless the HTTP client is kept: close the transport, fail sent calls, keep queued calls"
    DROP_TRANSPORT = "close the transport, fail sent calls, keep queued calls"
    FAIL_EXCHANGE = "fail that call only"
    CHECK_ATTEMPTS = "check whether attempts are left"
    CLEAR = "clear tables and timers"
    # Frames.
    COMPLETE = "complete the call"
    NEGOTIATE = "continue the negotiation with it"
    COUNT_STRAY = "count it as late or unknown"
    COUNT = "count it"
    STOP_SERVING = "cancel the handler, or end that subscription"
    KEEP_IF_EARLY = "deliver log and list_changed"
    DELIVER = "deliver to its call or to the inbox"
    ANSWER_PING_ONLY = "send initialize too; respond to ping, others -32600; stateless only: violation"
    SERVE = "handshake: ping, handler, or -32601; stateless: violation"
    COUNT_INVALID_FRAME = "count an invalid frame"
    REPORT_VIOLATION = "report a violation"
    # Timers.
    ARM_CONNECT = "arm the connect deadline"
    ARM_READY_TIMERS = "arm the keepalive and stable timers"
    REOPEN = "open subscriptions again"
    RELEASE_WAITERS = "release waiters for ready"
    SWEEP = "remove expired tombstones"
    KEEP_ALIVE = "send a keepalive if nothing was received"
    CHECK_IF_SILENT = "send a health check if nothing was received since"
    END_CHECK = "end the health check, send queued calls"
    FORGET_FAILURES = "failures = 0"
    WAIT_FOR_REAPING = "keep waiting, until the close deadline at most"


@unique
class Guard(TableEnum):
    """The guards of the table."""

    REAPED = "old transport ended"
    ELAPSED = "backoff elapsed"
    ONLY_PROBED = "only the probe was sent, for the first time"
    REPEATED_EXIT = "never ready, and it exited again in the same way without a message"
    SESSION_TOO_NEW = "session under 10 s old"
    CHECK_UNANSWERED = "no message since"
    ANSWERS_NEGOTIATION = "it belongs to the probe or the handshake"
    OPEN_POST = "HTTP: a POST open across a session loss"
    HAS_OPEN_POSTS = "HTTP: POSTs are open across a session loss"
    KEPT = "the HTTP client is kept"


S, A, G = ClientState, Action, Guard

_BACKOFF = Cell((A.RECORD_CAUSE, A.START_BACKOFF), S.BACKOFF)
# A session could not be created again. Requests of the old one are still open, and end with their own responses.
_KEEP_OR_BACKOFF = Cell((A.RECORD_CAUSE, A.START_BACKOFF, A.KEEP_CLIENT), S.BACKOFF, G.HAS_OPEN_POSTS, _BACKOFF)
_REPORT_AND_BACKOFF = Cell((A.REPORT_VIOLATION, A.RECORD_CAUSE, A.START_BACKOFF), S.BACKOFF)
_TO_CLOSING = Cell((A.RECORD_CAUSE,), S.CLOSING)
_COUNT = Cell((A.COUNT,))
_REQUEUE = Cell((A.REQUEUE,))
_START_AGAIN = Cell((), S.STARTING, G.REAPED, Cell((A.WAIT_FOR_REAPING,)))
_COUNT_INVALID_FRAME = Cell((A.COUNT_INVALID_FRAME,))
_SWEEP = Cell((A.SWEEP,))
_REFUSE = Cell((A.REFUSE,))
_REFUSE_CLOSING, _REFUSE_CLOSED = Cell((A.REFUSE_CLOSING,)), Cell((A.REFUSE_CLOSED,))
_QUEUE = Cell((A.QUEUE_OR_REFUSE,))
_WAIT = Cell((A.ADD_WAITER,))
_RAISE = Cell((A.RELEASE_WITH_REASON,))
_LAST_SERVER = Cell((A.RETURN_LAST_SERVER,))
_DROP = Cell((A.DROP_WAITER,))
_REMEMBER, _FORGET = Cell((A.REMEMBER_SUBSCRIPTION,)), Cell((A.FORGET_SUBSCRIPTION,))
_CANCEL_CALL, _EXPIRE = Cell((A.CANCEL_CALL,)), Cell((A.EXPIRE,))
_CLOSE_LATE = Cell((A.CLOSE_LATE,))
_MARK_SENT = Cell((A.MARK_SENT,))
_ = IGNORE
NEVER = IMPOSSIBLE

#                   ┌────────────────────────────────────────────┐
#                   v                                            │
#     (start) ─> starting ──> initializing ──> ready ──> backoff ┘
#                   │              │             │          │
#                   └──────────────┴──────┬──────┴──────────┘
#                                         v
#                                      closing ──> closed
#
# Invariants of every state, which the model checker verifies (tests/model/client.py):
#
# 1. A call has at most one outcome.
# 2. No call that was sent is left in backoff, closing or closed, and no call at all in the last two. One exception:
#    requests that are open over HTTP when the session is lost stay open in backoff until each has its own response.
# 3. There are never two live transports; in `closed` there is none.
# 4. Every state that waits for a peer has a timer.
#
# Numbers are kept beside the state: the epoch, the counts of failures, invalid frames and missed keepalives, the number
# of the health check's frame (`_calls`), and what the negotiation has tried (`_negotiation`).
#
# One row per event; the cells are for starting, initializing, ready, backoff, closing, closed.
ROWS: dict[type[e.Event], tuple[Cell, Cell, Cell, Cell, Cell, Cell]] = {
    e.Called: (_QUEUE, _QUEUE, Cell((A.WRITE,)), _QUEUE, _REFUSE_CLOSING, _REFUSE_CLOSED),
    e.Notified: (_REFUSE, _REFUSE, Cell((A.NOTIFY,)), _REFUSE, _REFUSE_CLOSING, _REFUSE_CLOSED),
    e.Replied: (_, _, Cell((A.REPLY,)), _, _, _),
    e.Subscribed: (_REMEMBER, _REMEMBER, Cell((A.SUBSCRIBE,)), _REMEMBER, _, _),
    e.Unsubscribed: (_FORGET, _FORGET, _FORGET, _FORGET, _FORGET, _),
    e.ReadyRequested: (_WAIT, _WAIT, Cell((A.RELEASE,)), _WAIT, _RAISE, _RAISE),
    e.WaitCancelled: (_DROP, _DROP, _, _DROP, _, _),
    e.ServerRequested: (_LAST_SERVER, _LAST_SERVER, Cell((A.RETURN_SERVER,)), _LAST_SERVER, _LAST_SERVER, _LAST_SERVER),
    e.CallCancelled: (_CANCEL_CALL, _CANCEL_CALL, Cell((A.CHECK_IF_SILENT, A.CANCEL_CALL)), _CANCEL_CALL, _, _),
    e.Expired: (_EXPIRE, _EXPIRE, Cell((A.CHECK_IF_SILENT, A.EXPIRE)), _EXPIRE, _, _),
    e.RetryDue: (_, Cell((A.RETRY,)), Cell((A.RETRY,)), _, _, _),
    e.Refused: (_, Cell((A.HANDLE_BUSY,)), Cell((A.HANDLE_BUSY,)), _, _, _),
    e.FrameRefused: (_, Cell((A.KEEP_FRAME,)), Cell((A.KEEP_FRAME,)), _, _, _),
    e.BecameWritable: (_, Cell((A.SEND_KEPT,)), Cell((A.SEND_KEPT, A.FLUSH)), _, _, _),
    e.Resumed: (_, _, Cell((A.SEND_MORE,)), _, _, _),
    e.PostQueued: (_, _, Cell((A.MARK_UNSENT,)), _, _, _),
    e.PostStarted: (_MARK_SENT, _MARK_SENT, _MARK_SENT, _MARK_SENT, _, _),
    # A transport that starts after its deadline is closed.
    e.Spawned: (Cell((), S.INITIALIZING), NEVER, NEVER, _CLOSE_LATE, _CLOSE_LATE, _CLOSE_LATE),
    e.SpawnFailed: (
        Cell((A.MARK_REAPED, A.RECORD_CAUSE, A.START_BACKOFF), S.BACKOFF),
        NEVER,
        NEVER,
        Cell((A.MARK_REAPED,), S.STARTING, G.ELAPSED, Cell((A.MARK_REAPED,))),
        Cell((A.MARK_REAPED,), S.CLOSED),
        _,
    ),
    e.SpawnRefused: (
        Cell((A.MARK_REAPED, A.RECORD_CAUSE), S.CLOSED),
        NEVER,
        NEVER,
        Cell((A.MARK_REAPED,), S.STARTING, G.ELAPSED, Cell((A.MARK_REAPED,))),
        Cell((A.MARK_REAPED,), S.CLOSED),
        _,
    ),
    e.CameUp: (Cell((A.MARK_UP,), S.INITIALIZING), Cell((A.MARK_UP, A.OPEN_NEGOTIATION)), _, _, _, _),
    e.ProbeExpired: (NEVER, Cell((A.SEND_INITIALIZE,)), _, _, _, _),
    e.Negotiated: (NEVER, Cell((A.FINISH_NEGOTIATION,), S.READY), _, _, _, _),
    e.VersionProposed: (NEVER, Cell((A.TRY_NEXT_VERSION,)), NEVER, _, _, _),
    e.NegotiationFailed: (NEVER, _KEEP_OR_BACKOFF, NEVER, _, _, _),
    e.NegotiationRefused: (NEVER, _TO_CLOSING, NEVER, _, _, _),
    e.ConnectExpired: (_BACKOFF, _KEEP_OR_BACKOFF, NEVER, _, _, _),
    e.ResponseReceived: (
        Cell((A.COMPLETE,), None, G.OPEN_POST, NEVER),
        Cell((A.NEGOTIATE,), None, G.ANSWERS_NEGOTIATION, Cell((A.COMPLETE,))),
        Cell((A.COMPLETE,)),
        Cell((A.COMPLETE,), None, G.OPEN_POST, _),
        _, _,
    ),
    e.StrayReceived: (_, Cell((A.COUNT_STRAY,)), Cell((A.COUNT_STRAY,)), _, _, _),
    e.CancelReceived: (_, _, Cell((A.STOP_SERVING,)), _, _, _),
    e.NotificationReceived: (_, Cell((A.KEEP_IF_EARLY,)), Cell((A.DELIVER,)),
                             Cell((A.KEEP_IF_EARLY,), None, G.KEPT, _), _, _),
    e.RequestReceived: (_, Cell((A.ANSWER_PING_ONLY,)), Cell((A.SERVE,)), _, _, _),
    e.InitializeReceived: (_, _REPORT_AND_BACKOFF, _REPORT_AND_BACKOFF, _, _, _),
    e.ResetReceived: (
        _,
        Cell((A.RECORD_CAUSE, A.START_MIN_BACKOFF), S.BACKOFF),
        Cell((A.RECORD_CAUSE, A.RESET_CALLS, A.START_MIN_BACKOFF), S.BACKOFF),
        _, _, _,
    ),
    e.InvalidFrameReceived: (_COUNT_INVALID_FRAME, _COUNT_INVALID_FRAME, _COUNT_INVALID_FRAME, _, _, _),
    e.TooManyInvalidFrames: (_BACKOFF, _BACKOFF, _BACKOFF, _, _, _),
    e.OversizeReceived: (_REPORT_AND_BACKOFF, _REPORT_AND_BACKOFF, _REPORT_AND_BACKOFF, _, _, _),
    e.WentDown: (
        _BACKOFF,
        Cell((A.RECORD_CAUSE, A.SKIP_PROBE), S.BACKOFF, G.ONLY_PROBED,
             Cell((A.RECORD_CAUSE,), S.CLOSING, G.REPEATED_EXIT, _BACKOFF)),
        _BACKOFF,
        Cell((A.RECORD_CAUSE, A.DROP_TRANSPORT), None, G.KEPT, _),
        _,
        _,
    ),
    e.StaleEventReceived: (_COUNT, _COUNT, _COUNT, _COUNT, _COUNT, _COUNT),
    e.ExchangeLost: (
        Cell((A.FAIL_EXCHANGE,)),
        Cell((A.NEGOTIATE,), None, G.ANSWERS_NEGOTIATION, Cell((A.FAIL_EXCHANGE,))),
        Cell((A.FAIL_EXCHANGE,)),
        Cell((A.FAIL_EXCHANGE,), None, G.KEPT, _),
        _, _,
    ),
    e.SessionLost: (
        _REQUEUE,
        Cell((A.RESTART_HANDSHAKE,), None, G.ANSWERS_NEGOTIATION, _REQUEUE),
        Cell((A.REQUEUE, A.RECORD_CAUSE, A.WARN_ABOUT_SESSIONS, A.START_BACKOFF, A.KEEP_CLIENT),
             S.BACKOFF, G.SESSION_TOO_NEW,
             Cell((A.REQUEUE, A.KEEP_CLIENT), S.STARTING)),
        Cell((A.REQUEUE,), None, G.KEPT, _),
        _, _,
    ),
    e.KeepaliveDue: (_, _, Cell((A.KEEP_ALIVE,)), _, _, _),
    e.CheckExpired: (
        _,
        _,
        Cell((A.RECORD_CAUSE, A.START_BACKOFF), S.BACKOFF, G.CHECK_UNANSWERED, Cell((A.END_CHECK,))),
        _,
        _,
        _,
    ),
    e.KeepaliveMissed: (_, _, _BACKOFF, _, _, _),
    e.BecameStable: (_, _, Cell((A.FORGET_FAILURES,)), _, _, _),
    e.BackoffElapsed: (_, _, _, Cell((), S.STARTING, G.KEPT, _START_AGAIN), _, _),
    e.AttemptsExhausted: (_, _, _, Cell((), S.CLOSED, G.REAPED, Cell((), S.CLOSING)), _, _),
    e.SweepDue: (_SWEEP, _SWEEP, _SWEEP, _SWEEP, _, _),
    e.StopRequested: (
        _TO_CLOSING,
        _TO_CLOSING,
        _TO_CLOSING,
        Cell((A.RECORD_CAUSE,), S.CLOSED, G.REAPED, _TO_CLOSING),
        _,
        _,
    ),
    e.Reaped: (
        _,
        _,
        _,
        Cell((A.MARK_REAPED,), S.STARTING, G.ELAPSED, Cell((A.MARK_REAPED,))),
        Cell((A.MARK_REAPED,), S.CLOSED),
        _,
    ),
    e.CloseExpired: (
        _,
        _,
        _,
        Cell((A.REPORT_LEAK, A.MARK_REAPED), S.STARTING, G.ELAPSED, Cell((A.REPORT_LEAK, A.MARK_REAPED))),
        Cell((A.REPORT_LEAK, A.MARK_REAPED), S.CLOSED),
        _,
    ),
}  # fmt: skip

# The actions that run on entering a state.
ENTRIES: dict[ClientState, tuple[Action, ...]] = {
    S.STARTING: (A.ARM_CONNECT, A.SPAWN),
    S.INITIALIZING: (A.OPEN_NEGOTIATION,),
    S.READY: (A.ARM_READY_TIMERS, A.REOPEN, A.RELEASE_WAITERS, A.FLUSH),
    S.BACKOFF: (A.DROP_UNLESS_KEPT, A.CHECK_ATTEMPTS),
    S.CLOSING: (A.END_CALLS, A.END_WAITERS, A.CLOSE),
    S.CLOSED: (A.END_CALLS, A.END_WAITERS, A.CLEAR),
}


@unique
class Timer(TableEnum):
    """The timers of the connection itself; calls have their own."""

    CONNECT = "connect"
    PROBE = "probe"
    BACKOFF = "backoff"
    CLOSE = "close"
    SWEEP = "remove expired tombstones"
    KEEPALIVE = "keepalive"
    CHECK = "check"
    STABLE = "stable"


# The states in which each timer may run. Entering any other state disarms it, so that no row needs to.
TIMERS: dict[Timer, frozenset[ClientState]] = {
    Timer.CONNECT: frozenset({S.STARTING, S.INITIALIZING}),
    Timer.PROBE: frozenset({S.INITIALIZING}),
    Timer.BACKOFF: frozenset({S.BACKOFF}),
    Timer.CLOSE: frozenset({S.BACKOFF, S.CLOSING}),
    Timer.SWEEP: frozenset({S.STARTING, S.INITIALIZING, S.READY, S.BACKOFF}),
    Timer.KEEPALIVE: frozenset({S.READY}),
    Timer.CHECK: frozenset({S.READY}),
    Timer.STABLE: frozenset({S.READY}),
}

# The same cells by event and state, for lookups.
CELLS = {event: dict(zip(ClientState, cells, strict=True)) for event, cells in ROWS.items()}

# The table for drawings and tests.
CLIENT = Machine(
    name="client",
    states=tuple(ClientState),
    start=S.STARTING,
    finals=frozenset({S.CLOSED}),
    rows={readable_name(event.__name__): cells for event, cells in ROWS.items()},
    events={readable_name(event.__name__): event.__doc__ or "" for event in ROWS},
    entries={state.value: actions for state, actions in ENTRIES.items()},
)
