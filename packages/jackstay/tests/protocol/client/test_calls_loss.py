"""What becomes of the calls of a connection when it is lost: who hears what, what waits, what is sent again."""

import pytest

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
from jackstay.protocol.client._calls import Retry
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client.events import Accept, Fail, Withdraw
from scripted.calls import Desk, E, X, desk_with

# --- losing the connection --------------------------------------------------------------------------------------------

LOST = TransportError("the pipe broke", exit_code=3, stderr_tail="oops")

# (state of the call, options, outcome): table, "write failed / down", rows 14 and 25.
LOSSES = [
    ("written", {}, OutcomeUnknownError),
    ("written", {"wait_for_ready": True}, OutcomeUnknownError),
    ("written", {"may_replay": True}, "queued"),
    ("handed", {}, TransportError),
    ("handed", {"wait_for_ready": True}, "queued"),
    ("busy", {}, TransportError),
    ("busy", {"wait_for_ready": True}, "queued"),
    ("busy", {"may_replay": True}, TransportError),
    ("waiting", {"busy": "wait"}, TransportError),
    ("waiting", {"busy": "wait", "wait_for_ready": True}, "queued"),
]


@pytest.mark.parametrize(("where", "options", "outcome"), LOSSES)
def test_what_a_loss_does_to_each_call(where, options, outcome):
    desk, exchange = desk_with(where, **options)
    desk.turn().lose(LOST)
    if outcome == "queued":
        assert exchange.state is X.WAITING
        assert list(desk.calls.queue) == [exchange.id]
        assert exchange.id in desk.calls.timers
        assert Retry(exchange.id) not in desk.calls.timers
        assert exchange.was_sent is (where == "written")
        return
    error = desk.fail().error
    assert type(error) is outcome
    assert (error.exit_code, error.stderr_tail, error.message) == (3, "oops", "the pipe broke")
    assert error.may_have_run is (where == "written")
    assert desk.calls.pending == {}
    assert len(desk.calls.timers) == 0
    assert desk.calls.tombstones.holds(1, 1.0) is (where == "written")


CAUSES = [
    (FrameTooLargeError(9, 8), FrameTooLargeError),
    (ProtocolError("bad", path="$", quote="q", code=-32600), ProtocolError),
    (ResetError(), ResetError),
    (JsonRpcError(-32603, "no"), OutcomeUnknownError),
    (OutcomeUnknownError("lost", exit_code=1), OutcomeUnknownError),
    (SessionLostError("forgets"), OutcomeUnknownError),
]


@pytest.mark.parametrize(("cause", "kind"), CAUSES)
@pytest.mark.parametrize("written", [True, False])
def test_each_cause_gives_each_caller_an_error_of_his_own(cause, kind, written):
    """Section 3: `may_have_run` is True if sent."""
    desk, exchange = desk_with("written" if written else "handed")
    desk.turn().lose(cause)
    error = desk.fail().error
    assert type(error) is (TransportError if kind is OutcomeUnknownError and not written else kind)
    assert error is not cause
    assert error.may_have_run is written
    assert error.message == cause.message
    assert (error.method, error.request_id) == ("tools/call", exchange.id)
    if isinstance(cause, ProtocolError) and not isinstance(cause, FrameTooLargeError):
        assert (error.path, error.quote, error.code) == ("$", "q", -32600)


def test_a_loss_buries_the_connections_own_requests():
    desk = Desk()
    id = desk.turn().make_own("ping", b"{}", Role.KEEPALIVE)
    desk.turn().lose(LOST)
    assert desk.out == []
    assert desk.calls.pending == {}
    assert desk.calls.tombstones.holds(id, 1.0)


def test_a_replay_has_a_new_id_what_is_left_of_its_deadline_and_may_have_run():
    """Row 25: once, with a new id and what is left of the deadline."""
    desk = Desk()
    exchange = desk.sent(may_replay=True, timeout=10.0)
    desk.turn(4.0).lose(LOST)
    assert desk.out == [Accept("me", 2)]
    assert desk.calls.timers.armed == {2: 10.0}
    assert desk.calls.tombstones.holds(1, desk.now)
    desk.calls.forget_transport()
    desk.turn(1.0).flush()
    assert desk.frames()[0]["id"] == 2
    assert exchange.was_sent
    desk.turn(5.0).expire(exchange)
    error = desk.fail().error
    assert error.sent is True  # not written this time, but it was before
    assert error.request_id == 2


def test_a_call_is_replayed_once_only():
    desk = Desk()
    exchange = desk.sent(may_replay=True)
    desk.turn().lose(LOST)
    desk.calls.forget_transport()
    desk.turn().flush()
    desk.calls.written = desk.calls.number
    desk.turn().lose(LOST)
    assert isinstance(desk.fail().error, OutcomeUnknownError)
    assert exchange.state is X.ABANDONED


# What may end a replayed call before it is written again: whatever it is, it may have run the first time.
REPLAYED = [
    ("closed", lambda calls, x: calls.end(TransportError("gone"))),
    ("stopped", lambda calls, x: calls.end(ShutdownError())),
    ("expired", lambda calls, x: calls.expire(x)),
]


@pytest.mark.parametrize(("name", "end"), REPLAYED, ids=[row[0] for row in REPLAYED])
def test_a_replayed_call_may_have_run_whatever_ends_it_in_the_queue(name, end):
    """Row 25 and section 3."""
    desk = Desk()
    exchange = desk.sent(may_replay=True)
    desk.turn().lose(LOST)
    end(desk.turn(), exchange)
    assert desk.fail().error.may_have_run is True


REPLAYED_AND_HANDED = [
    ("busy", lambda calls, x: calls.advance(x, E.REFUSED)),
    ("turned away for the last time", lambda calls, x: calls.turn_away(x)),
    ("lost again", lambda calls, x: (setattr(x, "waits_for_ready", False), calls.lose(LOST))),
    ("reset", lambda calls, x: calls.reset()),
]


@pytest.mark.parametrize(("name", "end"), REPLAYED_AND_HANDED, ids=[row[0] for row in REPLAYED_AND_HANDED])
def test_a_replayed_call_may_have_run_whatever_ends_it_on_the_way_out(name, end):
    """Row 25 and section 3: a BackpressureError that says "did not run" would be a lie here."""
    desk = Desk(retry_attempts=1, session_attempts=1)
    exchange = desk.sent(may_replay=True)
    desk.turn().lose(LOST)
    desk.calls.forget_transport()
    desk.turn().flush()
    end(desk.turn(), exchange)
    assert desk.fail().error.may_have_run is True
    assert not desk.fail().error.retryable


def test_an_oversized_replay_may_have_run():
    desk = Desk(max_frame_bytes=1024)
    desk.sent(may_replay=True, params=b'{"x":"%b"}' % (b"y" * 900))
    desk.turn().lose(LOST)
    desk.calls.envelope = b'"v":"%b"' % (b"z" * 200)  # the next server speaks a revision that asks for more
    desk.turn().flush()
    assert isinstance(desk.fail().error, FrameTooLargeError)
    assert desk.fail().error.may_have_run is True


def test_a_loss_keeps_the_order_in_which_calls_were_made():
    """Row 15: queued calls keep their order."""
    desk = Desk(wait_for_ready=True, busy="wait")
    desk.make("handed first")
    desk.calls.is_full = True
    desk.make("queued second")
    desk.turn().lose(LOST)
    desk.calls.forget_transport()
    desk.turn().flush()
    assert [frame["id"] for frame in desk.frames()] == [1, 2]


def test_a_reset_fails_what_was_handed_over_and_leaves_what_waits():
    """Row 7."""
    desk = Desk()
    desk.sent("written")
    desk.make("handed", wait_for_ready=True)
    busy = desk.make("busy")
    desk.turn().advance(busy, E.REFUSED)
    assert busy.state is X.BUSY
    desk.calls.is_full = True
    desk.make("waits", busy="wait")
    desk.turn().reset()
    told = {effect.caller: effect.error for effect in desk.out if isinstance(effect, Fail)}
    assert {caller: error.may_have_run for caller, error in told.items()} == {
        "written": True,
        "handed": False,
        "busy": False,
    }
    assert all(type(error) is ResetError for error in told.values())


@pytest.mark.parametrize("where", ["written", "handed", "busy", "waiting"])
@pytest.mark.parametrize(
    ("reason", "kind"), [(ShutdownError(), ShutdownError), (TransportError("x"), ClosedError)]
)
def test_the_end_fails_every_call(where, reason, kind):
    """Table: enter closing, enter closed."""
    desk, _ = desk_with(where, busy="wait" if where == "waiting" else "retry")
    desk.turn().end(reason)
    error = desk.fail().error
    assert type(error) is kind
    assert error.type == reason.type
    assert error.may_have_run is (where == "written")
    assert desk.calls.pending == {}
    assert desk.calls.queue == {}
    assert len(desk.calls.timers) == 0


def test_a_refused_session_sends_the_call_again_as_often_as_is_set():
    """G4: the refused request is sent again; it surely did not run."""
    desk = Desk(is_http=True, session_attempts=2)
    exchange = desk.make(timeout=10.0)
    desk.turn(1.0).turn_away(exchange)
    assert desk.out == [Accept("me", 2)]
    assert (exchange.state, exchange.refusals, exchange.was_sent) == (X.WAITING, 1, False)
    assert desk.calls.timers.armed == {2: 10.0}
    desk.turn().flush()
    desk.turn().turn_away(exchange)
    error = desk.fail().error
    assert type(error) is SessionLostError
    assert error.may_have_run is False
    assert "404 2 times" in str(error)
    assert desk.calls.pending == {}


def test_a_call_that_waits_for_a_new_session_at_its_deadline_reports_the_lost_session():
    """G4: the deadline is the other limit, and the reason is still that the server forgot the session."""
    desk = Desk(is_http=True)
    exchange = desk.make(timeout=10.0)
    desk.turn(1.0).turn_away(exchange)
    desk.turn(10.0).expire(exchange)
    assert type(desk.fail().error) is SessionLostError
    assert desk.fail().error.may_have_run is False


def test_a_call_that_was_refused_and_is_under_way_again_at_its_deadline_timed_out():
    desk = Desk(is_http=True)
    exchange = desk.make(timeout=10.0)
    desk.turn(1.0).turn_away(exchange)
    desk.turn(2.0).flush()
    desk.turn(10.0).expire(exchange)
    assert type(desk.fail().error) is TimeoutError
    assert desk.fail().error.may_have_run is True


def test_a_refused_session_does_not_use_up_the_one_replay():
    """The refused request did not run: it may still be replayed once after a loss."""
    desk = Desk(is_http=True)
    exchange = desk.make(may_replay=True)
    desk.turn().turn_away(exchange)
    desk.turn().flush()
    desk.turn().lose(LOST)
    assert (exchange.state, exchange.was_sent, exchange.may_replay) == (X.WAITING, True, False)


UNSENT = [
    ("expired", lambda calls, x: calls.expire(x), TimeoutError),
    ("lost", lambda calls, x: calls.lose(LOST), TransportError),
    ("reset", lambda calls, x: calls.reset(), ResetError),
    ("shut down", lambda calls, x: calls.end(ShutdownError()), ShutdownError),
    ("closed", lambda calls, x: calls.end(TransportError("x")), ClosedError),
]


@pytest.mark.parametrize(("name", "end", "kind"), UNSENT, ids=[row[0] for row in UNSENT])
@pytest.mark.parametrize("is_unsent", [True, False])
def test_over_http_what_waits_for_a_connection_was_not_sent(name, end, kind, is_unsent):
    """Row 14: `is_unsent` is the transport's report that nothing of the request has left."""
    desk = Desk(is_http=True, wait_for_ready=False)
    exchange = desk.make()
    exchange.is_unsent = is_unsent
    end(desk.turn(), exchange)
    error = desk.fail().error
    assert type(error) is (kind if is_unsent or kind is not TransportError else OutcomeUnknownError)
    assert error.may_have_run is not is_unsent


def test_over_http_what_waits_for_a_connection_is_withdrawn_when_the_session_is_made_again():
    """It must go out under the new session, and until then its caller can still be told that it was not sent."""
    desk = Desk(is_http=True)
    unsent, sent = desk.make("unsent"), desk.make("sent")
    unsent.is_unsent = True
    desk.turn().renew()
    assert desk.out == [Withdraw(unsent.id, 1)]
    assert (unsent.state, unsent.is_unsent, sent.state) == (X.WAITING, False, X.SENT)


def test_a_call_without_a_deadline_is_renewed_without_one():
    desk = Desk(is_http=True)
    exchange = desk.make(timeout=None, max_timeout=None)
    desk.turn().turn_away(exchange)
    assert len(desk.calls.timers) == 0
