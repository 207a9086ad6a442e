"""The lifecycle of a client's connection as a complete table: what every event does in every state.

A connection starts a transport (`starting`), agrees with the server on era and revision (`initializing`), carries calls
(`ready`), waits after a failure (`backoff`) and starts again. In the end it closes what it started (`closing`) and is
`closed`. The actions and guards are functions of `_actions`.
"""

from jackstay.protocol._machine import IGNORE, IMPOSSIBLE, Action, Cell, Machine
from jackstay.protocol.client import _actions as a
from jackstay.protocol.client import events as e
from jackstay.protocol.client._states import ClientState

S = ClientState
_ = IGNORE
NEVER = IMPOSSIBLE

_BACKOFF = Cell((a.record_cause, a.start_backoff), S.BACKOFF)
# A session could not be created again. Requests of the old one are still open, and end with their own responses.
_KEEP_OR_BACKOFF = Cell((a.record_cause, a.start_backoff, a.keep_client), S.BACKOFF, a.has_open_posts, _BACKOFF)
_REPORT_AND_BACKOFF = Cell((a.report_violation, a.record_cause, a.start_backoff), S.BACKOFF)
_TO_CLOSING = Cell((a.record_cause,), S.CLOSING)
_COUNT = Cell((a.count,))
_REQUEUE = Cell((a.requeue,))
_COUNT_INVALID_FRAME = Cell((a.count_invalid_frame,))
_SWEEP = Cell((a.sweep,))
_REFUSE = Cell((a.refuse,))
_REFUSE_ENDED = Cell((a.refuse_ended,))
_QUEUE = Cell((a.queue,), None, a.waits_for_ready, _REFUSE)
_CALL_EARLY = Cell((a.refuse_draining,), None, a.is_draining, _QUEUE)
_WRITE = Cell((a.queue,), None, a.would_be_lost, Cell((a.write,)))
_CALL = Cell((a.refuse_draining,), None, a.is_draining, _WRITE)
_DRAIN, _END_DRAIN = Cell((a.drain,)), Cell((a.end_drain,))
_RECORD, _REFUSE_BATCH = Cell((a.record_message,)), Cell((a.refuse_batch,))
_END_CHECK = Cell((a.record_message, a.end_check), None, a.is_check_open, _RECORD)
_READ_BATCH = Cell((a.receive_members,), None, a.has_batches, _REFUSE_BATCH)
_WAIT = Cell((a.add_waiter,))
_RAISE = Cell((a.add_waiter, a.end_waiters))
_DROP = Cell((a.drop_waiter,))
_ADD, _FORGET = Cell((a.add_subscription,)), Cell((a.forget_subscription,))
_SUBSCRIBE = Cell((a.add_subscription,), None, a.was_opened, Cell((a.add_subscription, a.open_subscription)))
_CANCEL_CALL, _EXPIRE = Cell((a.cancel_call,)), Cell((a.expire,))
_CLOSE_LATE = Cell((a.close_late,))
_REQUEUE_OLD = Cell((a.count, a.requeue))
_REAPED = Cell((a.mark_reaped,), S.STARTING, a.has_elapsed, Cell((a.mark_reaped,)))
_REAPED_AT_END = Cell((a.mark_reaped,), S.CLOSED)
_END_OWN = Cell((a.answer_subscription,), None, a.is_subscription, Cell((a.end_keepalive,)))
_COMPLETE = Cell((a.complete,), None, a.is_call, _END_OWN)
# HTTP: a call may be open across a lost session.
_COMPLETE_OPEN = Cell((a.complete,), None, a.is_call, NEVER)
_CANCEL = Cell((a.end_subscription,), None, a.is_subscription, _)
_DELIVER_EARLY = Cell((a.deliver,), None, a.is_early, _)
_DELIVER_KEPT = Cell((), None, a.is_disconnected, _DELIVER_EARLY)
# A stateless server sends no requests (2026-07-28 basic), so the probe needs no response any more.
_REFUSE_EARLY = Cell((a.send_initialize, a.refuse_early_request))
_ANSWER_EARLY = Cell((a.send_initialize, a.respond_to_ping), None, a.is_ping, _REFUSE_EARLY)
_SERVE = Cell((a.respond_to_ping,), None, a.is_ping, Cell((a.serve,)))
_LEAKED = (a.report_leak, a.mark_reaped)
_MARK_SENT = Cell((a.mark_sent,))
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
# What is not a state is kept by the components: the open requests (`_calls`), what was tried (`_negotiation`), whether
# the old transport has ended (`_transport`), failures (`_recovery`), missed keepalives (`_health`), what is to be kept
# open (`_subscriptions`). Draining is no state either, because a client may lose its connection and drain.
#
# One row per event; the cells are for starting, initializing, ready, backoff, closing, closed.
ROWS: dict[type[e.Event], tuple[Cell, Cell, Cell, Cell, Cell, Cell]] = {
    e.Called: (_CALL_EARLY, _CALL_EARLY, _CALL, _CALL_EARLY, _REFUSE_ENDED, _REFUSE_ENDED),
    e.Notified: (_REFUSE, _REFUSE, Cell((a.notify,)), _REFUSE, _REFUSE_ENDED, _REFUSE_ENDED),
    e.Finished: (_, _, Cell((a.reply,)), _, _, _),
    e.Subscribed: (_ADD, _ADD, _SUBSCRIBE, _ADD, _, _),
    e.Unsubscribed: (_FORGET, _FORGET, _FORGET, _FORGET, _FORGET, _),
    e.ReadyRequested: (_WAIT, _WAIT, Cell((a.add_waiter, a.release_waiters)), _WAIT, _RAISE, _RAISE),
    e.WaitCancelled: (_DROP, _DROP, _, _DROP, _, _),
    e.CallCancelled: (_CANCEL_CALL, _CANCEL_CALL, Cell((a.check_if_silent, a.cancel_call)), _CANCEL_CALL, _, _),
    e.Expired: (_EXPIRE, _EXPIRE, Cell((a.check_if_silent, a.expire)), _EXPIRE, _, _),
    e.RetryDue: (_, Cell((a.retry,)), Cell((a.retry,)), _, _, _),
    e.Refused: (_, Cell((a.handle_busy,)), Cell((a.handle_busy,)), _, _, _),
    e.FrameRefused: (_, Cell((a.keep_frame,)), Cell((a.keep_frame,)), _, _, _),
    e.BecameWritable: (_, Cell((a.send_kept,)), Cell((a.send_kept, a.flush)), _, _, _),
    e.Resumed: (_, _, Cell((a.send_more,)), _, _, _),
    e.PostQueued: (_, _, Cell((a.mark_unsent,)), _, _, _),
    e.PostStarted: (_MARK_SENT, _MARK_SENT, _MARK_SENT, _MARK_SENT, _, _),
    # A transport that starts after its deadline is closed.
    e.Spawned: (Cell((), S.INITIALIZING), NEVER, NEVER, _CLOSE_LATE, _CLOSE_LATE, _CLOSE_LATE),
    e.SpawnFailed: (
        Cell((a.mark_reaped, a.record_cause, a.start_backoff), S.BACKOFF), NEVER, NEVER, _REAPED, _REAPED_AT_END, _,
    ),
    e.SpawnRefused: (Cell((a.mark_reaped, a.record_cause), S.CLOSED), NEVER, NEVER, _REAPED, _REAPED_AT_END, _),
    e.ProbeExpired: (NEVER, Cell((a.send_initialize,)), _, _, _, _),
    e.Negotiated: (NEVER, Cell((a.finish_negotiation,), S.READY), _, _, _, _),
    e.VersionProposed: (NEVER, Cell((a.try_version,)), NEVER, _, _, _),
    e.NegotiationFailed: (NEVER, _KEEP_OR_BACKOFF, NEVER, _, _, _),
    e.NegotiationRefused: (NEVER, _TO_CLOSING, NEVER, _, _, _),
    e.ConnectExpired: (_BACKOFF, _KEEP_OR_BACKOFF, NEVER, _, _, _),
    # Then the event of its kind follows.
    e.MessageReceived: (_RECORD, _RECORD, _END_CHECK, _RECORD, _, _),
    e.BatchReceived: (_REFUSE_BATCH, _REFUSE_BATCH, _READ_BATCH, _, _, _),
    e.ResponseReceived: (
        _COMPLETE_OPEN, Cell((a.negotiate,), None, a.answers_negotiation, _COMPLETE_OPEN), _COMPLETE,
        Cell((a.complete,), None, a.is_call, _),
        _, _,
    ),
    e.StrayReceived: (_, Cell((a.count_stray,)), Cell((a.count_stray,)), _, _, _),
    e.CancelReceived: (_, _, Cell((a.stop_serving,), None, a.is_in_progress, _CANCEL), _, _, _),
    e.NotificationReceived: (_, _DELIVER_EARLY, Cell((a.deliver,)), _DELIVER_KEPT, _, _),
    e.RequestReceived: (
        _,
        Cell((a.report_request,), None, a.has_no_handshake, _ANSWER_EARLY),
        Cell((a.report_request,), None, a.has_no_server_requests, _SERVE),
        _, _, _,
    ),
    e.InitializeReceived: (_, _REPORT_AND_BACKOFF, _REPORT_AND_BACKOFF, _, _, _),
    e.ResetReceived: (_, _BACKOFF, Cell((a.record_cause, a.reset_calls, a.start_backoff), S.BACKOFF), _, _, _),
    e.InvalidFrameReceived: (_COUNT_INVALID_FRAME, _COUNT_INVALID_FRAME, _COUNT_INVALID_FRAME, _, _, _),
    e.TooManyInvalidFrames: (_BACKOFF, _BACKOFF, _BACKOFF, _, _, _),
    e.OversizeReceived: (_REPORT_AND_BACKOFF, _REPORT_AND_BACKOFF, _REPORT_AND_BACKOFF, _, _, _),
    e.WentDown: (
        _BACKOFF,
        Cell((a.record_cause,), S.BACKOFF, a.may_have_exited_on_probe,
             Cell((a.record_cause,), S.CLOSING, a.has_repeated_exit, _BACKOFF)),
        _BACKOFF,
        Cell((a.record_cause, a.close, a.drop_transport), None, a.is_kept, _),
        _, _,
    ),
    e.StaleEventReceived: (_COUNT,) * 6,
    # It was abandoned, and another was started since.
    e.SpawnedLate: (Cell((a.count, a.close_late)),) * 6,
    # A late 404 does not affect the new session, but the request that got it did not run.
    e.OldSessionLost: (
        _REQUEUE_OLD, _REQUEUE_OLD, Cell((a.count, a.requeue, a.send_more)), _REQUEUE_OLD, _COUNT, _COUNT,
    ),
    e.ExchangeLost: (
        Cell((a.fail_exchange,)),
        Cell((a.negotiate,), None, a.answers_negotiation, Cell((a.fail_exchange,))),
        Cell((a.fail_exchange,)),
        Cell((a.fail_exchange,), None, a.is_kept, _),
        _, _,
    ),
    e.SessionLost: (
        _REQUEUE,
        Cell((a.restart_handshake,), None, a.answers_negotiation, _REQUEUE),
        Cell((a.requeue, a.record_cause, a.warn_about_sessions, a.start_backoff, a.keep_client),
             S.BACKOFF, a.is_session_too_new,
             Cell((a.requeue, a.keep_client), S.STARTING)),
        Cell((a.requeue,), None, a.is_kept, _),
        _, _,
    ),
    e.KeepaliveDue: (_, _, Cell((a.keep_alive,)), _, _, _),
    e.CheckExpired: (_, _, Cell(_BACKOFF.actions, S.BACKOFF, a.is_check_unanswered, Cell((a.end_check,))), _, _, _),
    e.KeepaliveMissed: (_, _, _BACKOFF, _, _, _),
    e.BecameStable: (_, _, Cell((a.forget_failures,)), _, _, _),
    e.BackoffElapsed: (_, _, _, Cell((), S.STARTING, a.may_start, _), _, _),
    e.AttemptsExhausted: (_, _, _, Cell((), S.CLOSED, a.is_reaped, Cell((), S.CLOSING)), _, _),
    e.SweepDue: (_SWEEP, _SWEEP, _SWEEP, _SWEEP, _, _),
    e.DrainRequested: (_DRAIN, _DRAIN, _DRAIN, _DRAIN, _, _),
    e.DrainCancelled: (_END_DRAIN, _END_DRAIN, _END_DRAIN, _END_DRAIN, _, _),
    e.StopRequested: (
        _TO_CLOSING, _TO_CLOSING, _TO_CLOSING, Cell((a.record_cause,), S.CLOSED, a.is_reaped, _TO_CLOSING), _, _,
    ),
    e.Reaped: (_, _, _, _REAPED, _REAPED_AT_END, _),
    e.CloseExpired: (
        _, _, _, Cell(_LEAKED, S.STARTING, a.has_elapsed, Cell(_LEAKED)), Cell(_LEAKED, S.CLOSED), _,
    ),
}  # fmt: skip

# The actions that run on entering a state.
ENTRIES: dict[ClientState, tuple[Action, ...]] = {
    S.STARTING: (a.arm_connect, a.spawn),
    S.INITIALIZING: (a.open_negotiation,),
    S.READY: (a.arm_ready_timers, a.reopen, a.release_waiters, a.flush),
    S.BACKOFF: (a.drop_transport, a.check_attempts),
    S.CLOSING: (a.end_calls, a.end_waiters, a.close),
    S.CLOSED: (a.end_calls, a.end_waiters, a.clear),
}

# What `step()` makes of a transport's event from an earlier epoch; of all others it makes `StaleEventReceived`.
STALE: dict[type[e.Event], type[e.Event]] = {e.Spawned: e.SpawnedLate, e.SessionLost: e.OldSessionLost}

# The same cells by event and state, for lookups.
CELLS = {event: dict(zip(ClientState, cells, strict=True)) for event, cells in ROWS.items()}

# The table for drawings and tests.
CLIENT = Machine.of("client", ClientState, ROWS, ENTRIES)
