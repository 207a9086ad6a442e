"""What happens to the calls of a connection when it is lost: their errors, the queue, and replays."""

from jackstay.errors import (
    ClosedError,
    FrameTooLargeError,
    JsonRpcError,
    OutcomeUnknownError,
    ProtocolError,
    ResetError,
    SessionLostError,
    ShutdownError,
    TimeoutError,
    TransportError,
)
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client.events import Accept, Fail, RetryDue, Withdraw
from scripted.calls import CallsHarness, E, X, harness_with

# --- losing the connection --------------------------------------------------------------------------------------------

LOST = TransportError("the pipe broke", exit_code=3, stderr_tail="oops")

# (state of the call, options, outcome)
LOSSES = [
    ("written", {}, OutcomeUnknownError),
    ("written", {"wait_for_ready": True}, OutcomeUnknownError),
    ("written", {"may_replay": True}, "queued"),
    ("sent", {}, TransportError),
    ("sent", {"wait_for_ready": True}, "queued"),
    ("busy", {}, TransportError),
    ("busy", {"wait_for_ready": True}, "queued"),
    ("busy", {"may_replay": True}, TransportError),
    ("waiting", {"busy": "wait"}, TransportError),
    ("waiting", {"busy": "wait", "wait_for_ready": True}, "queued"),
]


def test_the_outcome_of_each_call_after_a_loss(subtests):
    for where, options, outcome in LOSSES:
        with subtests.test(where=where, options=options, outcome=outcome):
            harness, exchange = harness_with(where, **options)
            harness.turn().connection_lost(LOST)
            if outcome == "queued":
                assert exchange.state is X.WAITING
                assert list(harness.calls.queue) == [exchange.id]
                assert exchange.id in harness.calls.timers
                assert RetryDue(exchange.id) not in harness.calls.timers
                assert exchange.was_sent is (where == "written")
                continue
            error = harness.fail().error
            assert type(error) is outcome
            assert (error.exit_code, error.stderr_tail, error.message) == (3, "oops", "the pipe broke")
            assert error.may_have_run is (where == "written")
            assert harness.calls.pending == {}
            assert len(harness.calls.timers) == 0
            assert (harness.calls.tombstones.get(1, -1.0) >= 1.0) is (where == "written")


def test_a_refused_call_did_not_run_although_later_frames_were_written():
    harness, _ = harness_with("busy")
    harness.sent("other")
    harness.turn().connection_lost(LOST)
    outcomes = {effect.caller: effect.error.may_have_run for effect in harness.out if isinstance(effect, Fail)}
    assert outcomes == {"me": False, "other": True}


CAUSES = [
    (FrameTooLargeError(9, 8), FrameTooLargeError),
    (ProtocolError("bad", path="$", quote="q", code=-32600), ProtocolError),
    (ResetError(), ResetError),
    (JsonRpcError(-32603, "no"), OutcomeUnknownError),
    (OutcomeUnknownError("lost", exit_code=1), OutcomeUnknownError),
    (SessionLostError("unknown session"), OutcomeUnknownError),
]


def test_each_caller_gets_its_own_error_for_each_cause(subtests):
    for written in (True, False):
        for cause, kind in CAUSES:
            with subtests.test(written=written, cause=cause, kind=kind):
                harness, exchange = harness_with("written" if written else "sent")
                harness.turn().connection_lost(cause)
                error = harness.fail().error
                assert type(error) is (TransportError if kind is OutcomeUnknownError and not written else kind)
                assert error is not cause
                assert error.may_have_run is written
                assert error.message == cause.message
                assert (error.method, error.request_id) == ("tools/call", exchange.id)
                if isinstance(cause, ProtocolError) and not isinstance(cause, FrameTooLargeError):
                    assert (error.path, error.quote, error.code) == ("$", "q", -32600)


def test_a_loss_abandons_internal_requests():
    harness = CallsHarness()
    id = harness.turn().make_internal("ping", b"{}", Role.KEEPALIVE)
    harness.turn().connection_lost(LOST)
    assert harness.out == []
    assert harness.calls.pending == {}
    assert harness.calls.tombstones.get(id, -1.0) >= 1.0


def test_a_replay_has_a_new_id_and_the_same_deadline_and_may_have_run():
    harness = CallsHarness()
    exchange = harness.sent(may_replay=True, timeout=10.0)
    harness.turn(4.0).connection_lost(LOST)
    assert harness.out == [Accept("me", 2)]
    assert harness.calls.timers.armed == {2: 10.0}
    assert harness.calls.tombstones.get(1, -1.0) >= harness.now
    harness.calls.reset_transport()
    harness.turn(1.0).flush()
    assert harness.frames()[0]["id"] == 2
    assert exchange.was_sent
    harness.turn(5.0).expire(exchange)
    error = harness.fail().error
    assert error.sent is True  # not written this time, but before
    assert error.request_id == 2


def test_a_call_is_replayed_once_only():
    harness = CallsHarness()
    exchange = harness.sent(may_replay=True)
    harness.turn().connection_lost(LOST)
    harness.calls.reset_transport()
    harness.turn().flush()
    harness.calls.written = harness.calls.number
    harness.turn().connection_lost(LOST)
    assert isinstance(harness.fail().error, OutcomeUnknownError)
    assert exchange.state is X.ABANDONED


# What may end a replayed call before it is written again: in each case it may have run the first time.
REPLAYED = [
    ("closed", lambda calls, x: calls.connection_closed(TransportError("gone"))),
    ("stopped", lambda calls, x: calls.connection_closed(ShutdownError())),
    ("expired", lambda calls, x: calls.expire(x)),
]


def test_a_replayed_call_that_ends_in_the_queue_may_have_run(subtests):
    for name, end in REPLAYED:
        with subtests.test(name=name, end=end):
            harness = CallsHarness()
            exchange = harness.sent(may_replay=True)
            harness.turn().connection_lost(LOST)
            end(harness.turn(), exchange)
            assert harness.fail().error.may_have_run is True


REPLAYED_AND_SENT = [
    ("busy", lambda calls, x: calls.advance(x, E.REFUSED)),
    ("session unknown for the last time", lambda calls, x: calls.requeue(x)),
    ("lost again", lambda calls, x: (setattr(x, "waits_for_ready", False), calls.connection_lost(LOST))),
    ("reset", lambda calls, x: calls.reset()),
]


def test_a_replayed_call_that_ends_before_it_is_written_may_have_run(subtests):
    for name, end in REPLAYED_AND_SENT:
        with subtests.test(name=name, end=end):
            harness = CallsHarness(retry_attempts=1, session_attempts=1)
            exchange = harness.sent(may_replay=True)
            harness.turn().connection_lost(LOST)
            harness.calls.reset_transport()
            harness.turn().flush()
            end(harness.turn(), exchange)
            assert harness.fail().error.may_have_run is True
            assert not harness.fail().error.retryable


def test_an_oversized_replay_may_have_run():
    harness = CallsHarness(max_frame_bytes=1024)
    harness.sent(may_replay=True, params=b'{"x":"%b"}' % (b"y" * 900))
    harness.turn().connection_lost(LOST)
    harness.calls.request_meta = b'"v":"%b"' % (b"z" * 200)  # the next server's revision requires more
    harness.turn().flush()
    assert isinstance(harness.fail().error, FrameTooLargeError)
    assert harness.fail().error.may_have_run is True


def test_queued_calls_keep_their_order_after_a_loss():
    harness = CallsHarness(wait_for_ready=True, busy="wait")
    harness.make("sent first")
    harness.calls.is_full = True
    harness.make("queued second")
    harness.turn().connection_lost(LOST)
    harness.calls.reset_transport()
    harness.turn().flush()
    assert [frame["id"] for frame in harness.frames()] == [1, 2]


def test_a_reset_fails_sent_calls_and_keeps_queued_ones():
    harness = CallsHarness()
    harness.sent("written")
    harness.make("sent", wait_for_ready=True)
    busy = harness.make("busy")
    harness.turn().advance(busy, E.REFUSED)
    assert busy.state is X.BUSY
    harness.calls.is_full = True
    harness.make("waits", busy="wait")
    harness.turn().reset()
    errors = {effect.caller: effect.error for effect in harness.out if isinstance(effect, Fail)}
    assert {caller: error.may_have_run for caller, error in errors.items()} == {
        "written": True,
        "sent": False,
        "busy": False,
    }
    assert all(type(error) is ResetError for error in errors.values())


def test_closing_fails_every_call(subtests):
    for reason, kind in ((ShutdownError(), ShutdownError), (TransportError("x"), ClosedError)):
        for where in ("written", "sent", "busy", "waiting"):
            with subtests.test(reason=reason, kind=kind, where=where):
                harness, _ = harness_with(where, busy="wait" if where == "waiting" else "retry")
                harness.turn().connection_closed(reason)
                error = harness.fail().error
                assert type(error) is kind
                assert error.type == reason.type
                assert error.may_have_run is (where == "written")
                assert harness.calls.pending == {}
                assert harness.calls.queue == {}
                assert len(harness.calls.timers) == 0


def test_a_call_with_an_unknown_session_is_sent_again_up_to_session_attempts():
    """docs/guarantees.md G4."""
    harness = CallsHarness(is_http=True, session_attempts=2)
    exchange = harness.make(timeout=10.0)
    harness.turn(1.0).requeue(exchange)
    assert harness.out == [Accept("me", 2)]
    assert (exchange.state, exchange.refusals, exchange.was_sent) == (X.WAITING, 1, False)
    assert harness.calls.timers.armed == {2: 10.0}
    harness.turn().flush()
    harness.turn().requeue(exchange)
    error = harness.fail().error
    assert type(error) is SessionLostError
    assert error.may_have_run is False
    assert "HTTP 404 2 times" in str(error)
    assert harness.calls.pending == {}


def test_a_call_that_waits_for_a_new_session_at_its_deadline_reports_the_lost_session():
    """docs/guarantees.md G4."""
    harness = CallsHarness(is_http=True)
    exchange = harness.make(timeout=10.0)
    harness.turn(1.0).requeue(exchange)
    harness.turn(10.0).expire(exchange)
    assert type(harness.fail().error) is SessionLostError
    assert harness.fail().error.may_have_run is False


def test_a_call_that_was_sent_again_in_a_new_session_times_out_at_its_deadline():
    harness = CallsHarness(is_http=True)
    exchange = harness.make(timeout=10.0)
    harness.turn(1.0).requeue(exchange)
    harness.turn(2.0).flush()
    harness.turn(10.0).expire(exchange)
    assert type(harness.fail().error) is TimeoutError
    assert harness.fail().error.may_have_run is True


def test_an_unknown_session_does_not_use_up_the_replay():
    harness = CallsHarness(is_http=True)
    exchange = harness.make(may_replay=True)
    harness.turn().requeue(exchange)
    harness.turn().flush()
    harness.turn().connection_lost(LOST)
    assert (exchange.state, exchange.was_sent, exchange.may_replay) == (X.WAITING, True, False)


UNSENT = [
    ("expired", lambda calls, x: calls.expire(x), TimeoutError),
    ("lost", lambda calls, x: calls.connection_lost(LOST), TransportError),
    ("reset", lambda calls, x: calls.reset(), ResetError),
    ("shut down", lambda calls, x: calls.connection_closed(ShutdownError()), ShutdownError),
    ("closed", lambda calls, x: calls.connection_closed(TransportError("x")), ClosedError),
]


def test_over_http_a_call_that_waits_for_a_connection_was_not_sent(subtests):
    for is_unsent in (True, False):
        for name, end, kind in UNSENT:
            with subtests.test(is_unsent=is_unsent, name=name, end=end, kind=kind):
                harness = CallsHarness(is_http=True, wait_for_ready=False)
                exchange = harness.make()
                exchange.is_unsent = is_unsent
                end(harness.turn(), exchange)
                error = harness.fail().error
                assert type(error) is (kind if is_unsent or kind is not TransportError else OutcomeUnknownError)
                assert error.may_have_run is not is_unsent


def test_over_http_a_call_that_waits_for_a_connection_is_withdrawn_when_the_session_is_renewed():
    """It must be sent in the new session; until then it counts as not sent."""
    harness = CallsHarness(is_http=True)
    unsent, sent = harness.make("unsent"), harness.make("sent")
    unsent.is_unsent = True
    harness.turn().renew_session()
    assert harness.out == [Withdraw(unsent.id, 1)]
    assert (unsent.state, unsent.is_unsent, sent.state) == (X.WAITING, False, X.SENT)


def test_a_call_without_a_deadline_gets_none_with_its_new_id():
    harness = CallsHarness(is_http=True)
    exchange = harness.make(timeout=None, max_timeout=None)
    harness.turn().requeue(exchange)
    assert len(harness.calls.timers) == 0
