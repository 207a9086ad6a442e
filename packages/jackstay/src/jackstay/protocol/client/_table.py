"""When what may happen to a client's connection: the total table of its lifecycle.

A connection is always in one of six states. It starts a transport (`starting`), agrees with the server on era and
revision (`initializing`), carries calls (`ready`), waits after a failure (`backoff`) and starts again; it ends by
closing what it started (`closing`) and is then `closed` for good.

                  ┌────────────────────────────────────────────┐
                  v                                            │
    (start) ─> starting ──> initializing ──> ready ──> backoff ┘
                  │              │             │          │
                  └──────────────┴──────┬──────┴──────────┘
                                        v
                                     closing ──> closed

What holds in every state, whatever the peer does:

1. A call has at most one outcome, and gets it from here.
2. No call that was handed over is left in backoff, closing or closed, and no call at all in the last two. One exception:
   requests that are open over HTTP when the session is lost stay open in backoff, until each has its own response.
3. There are never two live transports; `closed` means that there is none.
4. Every state that waits for somebody has a timer against his silence.

The rows read as the design's table does: one event a row, one state a column. Cells hold names; `_connection` says what
each name does. What depends on something is asked by name (`when`), in the order written. Kept beside the state,
because they are numbers and not phases: the epoch, the count of failures, strikes, missed keepalives, the number of the frame that
checks whether the server still answers (`_calls`), and what the negotiation has tried (`_negotiation`).

Above: `_connection`, which runs this; `drawing`, which shows it. Below: `_machine`, `events`.
"""

from enum import unique

from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Cell, Machine, Word, words
from jackstay.protocol.client import events as e


@unique
class ClientState(Word):
    """Where a client's connection stands."""

    STARTING = "starting"
    INITIALIZING = "initializing"
    READY = "ready"
    BACKOFF = "backoff"
    CLOSING = "closing"
    CLOSED = "closed"


@unique
class Do(Word):
    """What is done. The words stand in the drawings."""

    # Calls and everything else a user holds.
    WRITE = "new id, deadline, write"
    QUEUE_OR_REFUSE = "wait, or StateError"
    REFUSE = "StateError"
    REFUSE_SHUT = "ShutdownError"
    REFUSE_CLOSED = "ClosedError"
    NOTIFY = "write it"
    ADD_WAITER = "wait"
    DROP_WAITER = "stop waiting"
    RELEASE = "return"
    RELEASE_WITH_REASON = "raise"
    TELL = "answer"
    TELL_LAST = "the last known, stale; StateError before the first ready"
    GIVE_UP = "withdraw or cancel it"
    EXPIRE = "TimeoutError; withdraw or cancel it"
    RETRY = "offer it again"
    TAKE_BACK = "retry, wait, or BackpressureError"
    FLUSH = "send what waits"
    SEND_ON = "send more of what waits"
    KEEP_FRAME = "keep it for when there is room"
    SAY_KEPT = "send what was kept"
    MARK_WRITTEN = "mark as written"
    MARK_UNSENT = "mark as not sent"
    MARK_SENT = "mark as sent"
    SUBSCRIBE = "remember and open it"
    REMEMBER_SUBSCRIPTION = "remember it"
    FORGET_SUBSCRIPTION = "forget it, end it"
    REPLY = "send it, unless cancelled"
    # The transport.
    SPAWN = "epoch+1, spawn"
    CLOSE = "close the transport"
    CLOSE_LATE = "close that late spawn"
    MARK_UP = "mark as up"
    MARK_REAPED = "mark as reaped"
    REPORT_LEAK = "log the pid"
    # Negotiation.
    OPEN_NEGOTIATION = "probe or initialize"
    SEND_INITIALIZE = "send initialize too"
    TAKE_STEP = "next step, at most 3"
    AGREE = "keep what the server said"
    RESTART_HANDSHAKE = "initialize again without session"
    SKIP_PROBE = "next time initialize directly, no delay, not counted"
    # Failing and coming back.
    NOTE_CAUSE = "keep the cause"
    BACK = "count a failure, arm backoff"
    BACK_SOON = "count a failure, arm backoff at its least"
    RESET_CALLS = "ResetError to all that was sent"
    END_CALLS = "fail every call"
    END_WAITERS = "raise to everybody waiting"
    KEEP_CLIENT = "keep the HTTP client and every open request, forget the session"
    TURN_AWAY = "queue that request again, or SessionLostError after the last attempt"
    WARN_OF_SESSIONS = "warn, once, that the server forgets sessions"
    LET_GO = "unless the HTTP client is kept: close the transport, fail what was sent, keep what waits"
    DROP_CLIENT = "close the transport, fail what was sent, keep what waits"
    FAIL_EXCHANGE = "fail that call alone"
    CHECK_ATTEMPTS = "see whether attempts are left"
    REST = "clear tables and timers"
    # Frames.
    COMPLETE = "pop, complete"
    NEGOTIATE = "take it as the answer to the negotiation"
    COUNT_STRAY = "count it, late or unknown"
    COUNT = "count it"
    STOP_SERVING = "cancel our handler, or end that subscription"
    KEEP_IF_EARLY = "keep log and list_changed"
    DELIVER = "to its call, its subscription, or the inbox"
    ANSWER_PING_ONLY = "send initialize too; ping answered, others -32600; stateless only: violation"
    SERVE = "handshake: ping, handler, or -32601; stateless: violation"
    STRIKE = "strike"
    VIOLATE = "warn, count a violation"
    # Timers.
    ARM_CONNECT = "arm the connect deadline"
    ARM_READY_TIMERS = "arm keepalive and settling"
    REOPEN = "re-open subscriptions"
    RELEASE_WAITERS = "release who waits for ready"
    SWEEP = "sweep"
    KEEP_ALIVE = "ask for a sign of life if nothing was heard"
    CHECK_IF_SILENT = "check the server if nothing was received since"
    END_CHECK = "send what was kept back"
    FORGET_FAILURES = "failures = 0"
    WAIT_FOR_REAPING = "wait on, bounded by the close deadline"


@unique
class When(Word):
    """What it depends on."""

    REAPED = "the old transport is gone"
    ELAPSED = "the wait is over"
    ONLY_PROBED = "only the probe was sent, for the first time"
    HOPELESS = "before the first ready it ended the same silent way again"
    FREQUENT = "a new session that is not 10 s old"
    SILENT = "nothing was received since the check"
    ANSWERS_NEGOTIATION = "it is the probe's or the handshake's"
    OPEN_POST = "HTTP: a POST open across a session loss"
    HAS_OPEN_POSTS = "HTTP: POSTs are open across a session loss"
    KEPT = "the HTTP client is kept"


S, D, W = ClientState, Do, When

_BACKOFF = Cell((D.NOTE_CAUSE, D.BACK), S.BACKOFF)
# A session could not be made again. What was sent in the old one is still open, and ends by its own response.
_PAUSE_OR_BACKOFF = Cell((D.NOTE_CAUSE, D.BACK, D.KEEP_CLIENT), S.BACKOFF, W.HAS_OPEN_POSTS, _BACKOFF)
_VIOLATED = Cell((D.VIOLATE, D.NOTE_CAUSE, D.BACK), S.BACKOFF)
_TO_CLOSING = Cell((D.NOTE_CAUSE,), S.CLOSING)
_COUNT = Cell((D.COUNT,))
_TURN_AWAY = Cell((D.TURN_AWAY,))
_START_AGAIN = Cell((), S.STARTING, W.REAPED, Cell((D.WAIT_FOR_REAPING,)))
_STRIKE = Cell((D.STRIKE,))
_SWEEP = Cell((D.SWEEP,))
_REFUSE_SHUT, _REFUSE_CLOSED = Cell((D.REFUSE_SHUT,)), Cell((D.REFUSE_CLOSED,))
_QUEUE = Cell((D.QUEUE_OR_REFUSE,))
_WAIT = Cell((D.ADD_WAITER,))
_RAISE = Cell((D.RELEASE_WITH_REASON,))
_TELL_LAST = Cell((D.TELL_LAST,))
_DROP = Cell((D.DROP_WAITER,))
_REMEMBER, _FORGET = Cell((D.REMEMBER_SUBSCRIPTION,)), Cell((D.FORGET_SUBSCRIPTION,))
_GIVE_UP, _EXPIRE = Cell((D.GIVE_UP,)), Cell((D.EXPIRE,))
_CLOSE_LATE = Cell((D.CLOSE_LATE,))
_MARK, _MARK_SENT = Cell((D.MARK_WRITTEN,)), Cell((D.MARK_SENT,))
_ = IGNORE
NEVER = IMPOSSIBLE

# One row an event; the cells are starting, initializing, ready, backoff, closing, closed.
ROWS: dict[type[e.Event], tuple[Cell, Cell, Cell, Cell, Cell, Cell]] = {
    e.Called: (_QUEUE, _QUEUE, Cell((D.WRITE,)), _QUEUE, _REFUSE_SHUT, _REFUSE_CLOSED),
    e.Notified: (Cell((D.REFUSE,)), Cell((D.REFUSE,)), Cell((D.NOTIFY,)), Cell((D.REFUSE,)), _REFUSE_SHUT, _REFUSE_CLOSED),
    e.Replied: (_, _, Cell((D.REPLY,)), _, _, _),
    e.Subscribed: (_REMEMBER, _REMEMBER, Cell((D.SUBSCRIBE,)), _REMEMBER, _, _),
    e.Unsubscribed: (_FORGET, _FORGET, _FORGET, _FORGET, _FORGET, _),
    e.ReadyAsked: (_WAIT, _WAIT, Cell((D.RELEASE,)), _WAIT, _RAISE, _RAISE),
    e.WaitGivenUp: (_DROP, _DROP, _, _DROP, _, _),
    e.ServerAsked: (_TELL_LAST, _TELL_LAST, Cell((D.TELL,)), _TELL_LAST, _TELL_LAST, _TELL_LAST),
    e.GaveUp: (_GIVE_UP, _GIVE_UP, Cell((D.CHECK_IF_SILENT, D.GIVE_UP)), _GIVE_UP, _, _),
    e.Expired: (_EXPIRE, _EXPIRE, Cell((D.CHECK_IF_SILENT, D.EXPIRE)), _EXPIRE, _, _),
    e.RetryDue: (_, Cell((D.RETRY,)), Cell((D.RETRY,)), _, _, _),
    e.Refused: (_, Cell((D.TAKE_BACK,)), Cell((D.TAKE_BACK,)), _, _, _),
    e.FrameRefused: (_, Cell((D.KEEP_FRAME,)), Cell((D.KEEP_FRAME,)), _, _, _),
    e.RoomMade: (_, Cell((D.SAY_KEPT,)), Cell((D.SAY_KEPT, D.FLUSH)), _, _, _),
    e.Resumed: (_, _, Cell((D.SEND_ON,)), _, _, _),
    e.Wrote: (_MARK, _MARK, _MARK, _MARK, _MARK, _),
    e.PostQueued: (_, _, Cell((D.MARK_UNSENT,)), _, _, _),
    e.PostStarted: (_MARK_SENT, _MARK_SENT, _MARK_SENT, _MARK_SENT, _, _),
    # A spawn that succeeds after we gave it up is closed, not adopted.
    e.Spawned: (Cell((), S.INITIALIZING), NEVER, NEVER, _CLOSE_LATE, _CLOSE_LATE, _CLOSE_LATE),
    e.SpawnFailed: (
        Cell((D.MARK_REAPED, D.NOTE_CAUSE, D.BACK), S.BACKOFF),
        NEVER,
        NEVER,
        Cell((D.MARK_REAPED,), S.STARTING, W.ELAPSED, Cell((D.MARK_REAPED,))),
        Cell((D.MARK_REAPED,), S.CLOSED),
        _,
    ),
    e.SpawnRefused: (
        Cell((D.MARK_REAPED, D.NOTE_CAUSE), S.CLOSED),
        NEVER,
        NEVER,
        Cell((D.MARK_REAPED,), S.STARTING, W.ELAPSED, Cell((D.MARK_REAPED,))),
        Cell((D.MARK_REAPED,), S.CLOSED),
        _,
    ),
    e.CameUp: (Cell((D.MARK_UP,), S.INITIALIZING), Cell((D.MARK_UP, D.OPEN_NEGOTIATION)), _, _, _, _),
    e.ProbeExpired: (NEVER, Cell((D.SEND_INITIALIZE,)), _, _, _, _),
    e.Negotiated: (NEVER, Cell((D.AGREE,), S.READY), _, _, _, _),
    e.Offered: (NEVER, Cell((D.TAKE_STEP,)), NEVER, _, _, _),
    e.NegotiationFailed: (NEVER, _PAUSE_OR_BACKOFF, NEVER, _, _, _),
    e.NegotiationRefused: (NEVER, _TO_CLOSING, NEVER, _, _, _),
    e.ConnectExpired: (_BACKOFF, _PAUSE_OR_BACKOFF, NEVER, _, _, _),
    e.AnswerReceived: (
        Cell((D.COMPLETE,), None, W.OPEN_POST, NEVER),
        Cell((D.NEGOTIATE,), None, W.ANSWERS_NEGOTIATION, Cell((D.COMPLETE,))),
        Cell((D.COMPLETE,)),
        Cell((D.COMPLETE,), None, W.OPEN_POST, _),
        _, _,
    ),
    e.StrayReceived: (_, Cell((D.COUNT_STRAY,)), Cell((D.COUNT_STRAY,)), _, _, _),
    e.CancelReceived: (_, _, Cell((D.STOP_SERVING,)), _, _, _),
    e.NotificationReceived: (_, Cell((D.KEEP_IF_EARLY,)), Cell((D.DELIVER,)), Cell((D.KEEP_IF_EARLY,), None, W.KEPT, _), _, _),
    e.RequestReceived: (_, Cell((D.ANSWER_PING_ONLY,)), Cell((D.SERVE,)), _, _, _),
    e.InitializeReceived: (_, _VIOLATED, _VIOLATED, _, _, _),
    e.ResetReceived: (
        _,
        Cell((D.NOTE_CAUSE, D.BACK_SOON), S.BACKOFF),
        Cell((D.NOTE_CAUSE, D.RESET_CALLS, D.BACK_SOON), S.BACKOFF),
        _, _, _,
    ),
    e.GarbageReceived: (_STRIKE, _STRIKE, _STRIKE, _, _, _),
    e.StruckOut: (_BACKOFF, _BACKOFF, _BACKOFF, _, _, _),
    e.OversizeReceived: (_VIOLATED, _VIOLATED, _VIOLATED, _, _, _),
    e.WentDown: (
        _BACKOFF,
        Cell((D.NOTE_CAUSE, D.SKIP_PROBE), S.BACKOFF, W.ONLY_PROBED,
             Cell((D.NOTE_CAUSE,), S.CLOSING, W.HOPELESS, _BACKOFF)),
        _BACKOFF,
        Cell((D.NOTE_CAUSE, D.DROP_CLIENT), None, W.KEPT, _),
        _,
        _,
    ),
    e.StaleHappened: (_COUNT, _COUNT, _COUNT, _COUNT, _COUNT, _COUNT),
    e.ExchangeLost: (
        Cell((D.FAIL_EXCHANGE,)),
        Cell((D.NEGOTIATE,), None, W.ANSWERS_NEGOTIATION, Cell((D.FAIL_EXCHANGE,))),
        Cell((D.FAIL_EXCHANGE,)),
        Cell((D.FAIL_EXCHANGE,), None, W.KEPT, _),
        _, _,
    ),
    e.SessionLost: (
        _TURN_AWAY,
        Cell((D.RESTART_HANDSHAKE,), None, W.ANSWERS_NEGOTIATION, _TURN_AWAY),
        Cell((D.TURN_AWAY, D.NOTE_CAUSE, D.WARN_OF_SESSIONS, D.BACK, D.KEEP_CLIENT), S.BACKOFF, W.FREQUENT,
             Cell((D.TURN_AWAY, D.KEEP_CLIENT), S.STARTING)),
        Cell((D.TURN_AWAY,), None, W.KEPT, _),
        _, _,
    ),
    e.KeepaliveDue: (_, _, Cell((D.KEEP_ALIVE,)), _, _, _),
    e.CheckExpired: (_, _, Cell((D.NOTE_CAUSE, D.BACK), S.BACKOFF, W.SILENT, Cell((D.END_CHECK,))), _, _, _),
    e.KeepaliveMissed: (_, _, _BACKOFF, _, _, _),
    e.Settled: (_, _, Cell((D.FORGET_FAILURES,)), _, _, _),
    e.BackoffElapsed: (_, _, _, Cell((), S.STARTING, W.KEPT, _START_AGAIN), _, _),
    e.AttemptsExhausted: (_, _, _, Cell((), S.CLOSED, W.REAPED, Cell((), S.CLOSING)), _, _),
    e.SweepDue: (_SWEEP, _SWEEP, _SWEEP, _SWEEP, _, _),
    e.StopAsked: (
        _TO_CLOSING,
        _TO_CLOSING,
        _TO_CLOSING,
        Cell((D.NOTE_CAUSE,), S.CLOSED, W.REAPED, _TO_CLOSING),
        _,
        _,
    ),
    e.Reaped: (
        _,
        _,
        _,
        Cell((D.MARK_REAPED,), S.STARTING, W.ELAPSED, Cell((D.MARK_REAPED,))),
        Cell((D.MARK_REAPED,), S.CLOSED),
        _,
    ),
    e.CloseExpired: (
        _,
        _,
        _,
        Cell((D.REPORT_LEAK, D.MARK_REAPED), S.STARTING, W.ELAPSED, Cell((D.REPORT_LEAK, D.MARK_REAPED))),
        Cell((D.REPORT_LEAK, D.MARK_REAPED), S.CLOSED),
        _,
    ),
}  # fmt: skip

# What is done on entering a state, whatever led there.
ENTRIES: dict[ClientState, tuple[Do, ...]] = {
    S.STARTING: (D.ARM_CONNECT, D.SPAWN),
    S.INITIALIZING: (D.OPEN_NEGOTIATION,),
    S.READY: (D.ARM_READY_TIMERS, D.REOPEN, D.RELEASE_WAITERS, D.FLUSH),
    S.BACKOFF: (D.LET_GO, D.CHECK_ATTEMPTS),
    S.CLOSING: (D.END_CALLS, D.END_WAITERS, D.CLOSE),
    S.CLOSED: (D.END_CALLS, D.END_WAITERS, D.REST),
}


@unique
class Timer(Word):
    """The waits of a connection itself; calls have timers of their own."""

    CONNECT = "connect"
    PROBE = "probe"
    BACKOFF = "backoff"
    CLOSE = "close"
    SWEEP = "sweep"
    KEEPALIVE = "keepalive"
    CHECK = "check"
    SETTLED = "settled"


# In which states each timer may run. Entering any other disarms it, so that no row has to remember to.
TIMERS: dict[Timer, frozenset[ClientState]] = {
    Timer.CONNECT: frozenset({S.STARTING, S.INITIALIZING}),
    Timer.PROBE: frozenset({S.INITIALIZING}),
    Timer.BACKOFF: frozenset({S.BACKOFF}),
    Timer.CLOSE: frozenset({S.BACKOFF, S.CLOSING}),
    Timer.SWEEP: frozenset({S.STARTING, S.INITIALIZING, S.READY, S.BACKOFF}),
    Timer.KEEPALIVE: frozenset({S.READY}),
    Timer.CHECK: frozenset({S.READY}),
    Timer.SETTLED: frozenset({S.READY}),
}

# The same rows by event and state, which is how the core looks them up.
CELLS = {event: dict(zip(ClientState, cells, strict=True)) for event, cells in ROWS.items()}

# The table for drawing and for tests.
CLIENT = Machine(
    name="client",
    states=tuple(ClientState),
    start=S.STARTING,
    finals=frozenset({S.CLOSED}),
    rows={words(event.__name__): cells for event, cells in ROWS.items()},
    events={words(event.__name__): event.__doc__ or "" for event in ROWS},
    entries={state.value: do for state, do in ENTRIES.items()},
)
