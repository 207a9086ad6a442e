"""What is lost over HTTP, and what is not: one exchange that fails alone, and sessions that are made again."""

import pytest

from jackstay.errors import (
    OutcomeUnknownError,
    SessionLostError,
    TimeoutError,
    TransportError,
)
from jackstay.protocol.client import events as e
from jackstay.protocol.client._core import Wire
from jackstay.protocol.client._table import Timer
from model.rig import HANDSHAKE, STATELESS, Rig, S

# --- one exchange of HTTP ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        TransportError("connection refused"),
        OutcomeUnknownError("the response ended"),
        TransportError("429", retry_in=3.0),
        OutcomeUnknownError("503", retry_in=3.0),
    ],
)
def test_one_failing_request_fails_only_itself(error):
    """G2, G3, "Over HTTP"."""
    rig = Rig(is_http=True).ready()
    first, second = rig.call("first"), rig.call("second")
    rig.lost(first, error)
    assert rig.error_of("first") is error
    assert (error.method, error.request_id) == ("tools/call", first)
    assert rig.state is S.READY
    rig.answer(second)
    assert rig.only(e.Complete).caller == "second"
    rig.answer(first)
    assert rig.only(e.Stray).kind == "late"


def test_a_lost_exchange_nobody_waits_for_is_counted():
    rig = Rig(is_http=True).ready()
    id = rig.call("me")
    rig.answer(id)
    rig.lost(id, OutcomeUnknownError("x"))
    rig.lost(999, OutcomeUnknownError("x"))
    assert rig.out == []
    assert rig.core.counts["ignored ExchangeLost"] == 2


def test_a_lost_listen_ends_its_subscription():
    rig = Rig(is_http=True, versions=STATELESS).ready()
    rig.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
    id = rig.only(e.Send).id
    rig.lost(id, error := OutcomeUnknownError("the response ended"))
    assert rig.out == [e.EndSubscription("k", error)]


def test_a_lost_keepalive_fails_nobody():
    rig = Rig(is_http=True, keepalive=5.0).ready()
    rig.wait(10.1)
    id = max(rig.core.calls.pending)
    rig.lost(id, TransportError("refused"))
    assert rig.out == []
    assert rig.state is S.READY


# --- sessions ---------------------------------------------------------------------------------------------------------


def session_rig():
    return Rig(is_http=True).ready()


def renew(rig):
    """The next session is agreed at once."""
    rig.spawned()
    rig.up()
    rig.agree()


def renew_in_time(rig):
    """The next session is agreed after the wait before it, if there is one."""
    at = rig.core.calls.timers.at(Timer.BACKOFF)
    rig.wait(0.0 if at is None else at - rig.now)
    renew(rig)


def test_a_lost_session_is_renewed_without_delay_and_the_request_sent_again():
    """G4. Table: session lost in ready."""
    rig = session_rig()
    id = rig.call("me")
    rig.step(e.SessionLost(1, id))
    assert rig.state is S.STARTING
    assert rig.only(e.Spawn).epoch == 2
    assert rig.effects(e.Close) == []
    assert rig.core.failures == 0
    again = rig.only(e.Accept).id
    renew(rig)
    assert [frame.get("id") for frame in rig.frames()][-1] == again
    rig.answer(again)
    assert rig.only(e.Complete).caller == "me"


def test_open_posts_survive_a_session_loss():
    """Over HTTP: the epoch does not fence the response streams of open POSTs."""
    rig = session_rig()
    first, second, third = rig.call("first"), rig.call("second"), rig.call("third")
    rig.step(e.SessionLost(1, first))
    rig.answer(second)
    assert rig.only(e.Complete).caller == "second"
    assert rig.state is S.STARTING
    rig.spawned()
    rig.up()
    rig.say(method="notifications/progress", params={"progressToken": third, "progress": 1})
    assert rig.only(e.Report).caller == "third"
    rig.lost(third, OutcomeUnknownError("the response ended"))
    assert isinstance(rig.error_of("third"), OutcomeUnknownError)
    assert rig.state is S.INITIALIZING


def test_a_second_404_of_the_same_session_sends_its_request_again_too():
    """G4: one at a time; a late old 404 cannot clear the new id."""
    rig = session_rig()
    first, second = rig.call("first"), rig.call("second")
    rig.step(e.SessionLost(1, first))
    rig.step(e.SessionLost(1, second))
    assert rig.epoch == 2
    assert len(rig.core.calls.queue) == 2
    renew(rig)
    assert rig.methods().count("tools/call") == 2


def test_a_late_404_of_the_old_session_touches_its_own_request_alone():
    """G4, G10."""
    rig = session_rig()
    first, second = rig.call("first"), rig.call("second")
    rig.step(e.SessionLost(1, first))
    renew(rig)
    rig.step(e.SessionLost(1, second))
    assert rig.state is S.READY
    assert rig.epoch == 2
    assert rig.methods() == ["tools/call"]
    assert rig.outcomes_of("second") == 0


def test_a_request_is_queued_again_for_every_404_until_its_attempts_are_used_up():
    """G4: each 404 shows that it did not run."""
    rig = Rig(is_http=True, session_attempts=3, request_timeout=None).ready()
    id = rig.call("me")
    for epoch in (1, 2, 3):
        assert rig.outcomes_of("me") == 0
        rig.step(e.SessionLost(epoch, id))
        if epoch < 3:
            id = rig.only(e.Accept).id
            renew_in_time(rig)
    assert type(rig.error_of("me")) is SessionLostError
    assert rig.error_of("me").may_have_run is False


def test_a_new_session_that_is_lost_soon_only_delays_the_next():
    """Over HTTP: a server that forgets every session must not be hammered. Nothing else is touched."""
    rig = session_rig()
    other = rig.call("other")
    rig.step(e.SessionLost(1, rig.call("a")))
    renew(rig)
    rig.wait(9.0)
    rig.step(e.SessionLost(2, rig.call("b")))
    assert rig.state is S.BACKOFF
    assert rig.core.wire is Wire.KEPT
    assert rig.core.failures == 1
    assert rig.effects(e.Close, rig.history) == []
    assert rig.effects(e.Fail, rig.history) == []
    assert rig.core.calls.timers.at(Timer.BACKOFF) == rig.now + 1.0
    rig.answer(other)
    assert rig.only(e.Complete).caller == "other"
    rig.wait(1.0)
    assert (rig.state, rig.only(e.Spawn).epoch) == (S.STARTING, 3)
    renew(rig)
    assert rig.methods() == ["notifications/initialized", "tools/call"]


def test_the_delay_grows_until_a_call_is_answered():
    """The pace is the backoff's."""
    rig = Rig(is_http=True, request_timeout=None).ready()
    rig.step(e.SessionLost(1, rig.call("a")))
    delays = []
    for _ in range(6):
        renew_in_time(rig)
        rig.step(e.SessionLost(rig.epoch, max(rig.core.calls.pending)))
        delays.append(rig.core.calls.timers.at(Timer.BACKOFF) - rig.now)
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    renew_in_time(rig)
    rig.answer(max(rig.core.calls.pending))
    rig.step(e.SessionLost(rig.epoch, rig.call("b")))
    assert rig.core.calls.timers.at(Timer.BACKOFF) - rig.now == 1.0


def test_a_session_that_held_for_ten_seconds_is_renewed_without_delay():
    rig = session_rig()
    rig.step(e.SessionLost(1, rig.call("a")))
    renew(rig)
    rig.wait(10.1)
    rig.step(e.SessionLost(2, rig.call("b")))
    assert rig.state is S.STARTING


def test_the_age_of_a_session_counts_from_its_own_start():
    """The wait before a session is not its age: a third loss right after a long wait is soon, too."""
    rig = Rig(is_http=True, backoff_min=15.0).ready()
    rig.step(e.SessionLost(1, rig.call("a")))
    renew(rig)
    rig.wait(9.0)
    rig.step(e.SessionLost(2, rig.call("b")))
    renew_in_time(rig)
    rig.step(e.SessionLost(3, rig.call("c")))
    assert rig.state is S.BACKOFF


def test_a_server_that_forgets_sessions_is_reported_once():
    rig = session_rig()
    for epoch in (1, 2, 3, 4):
        rig.step(e.SessionLost(epoch, rig.call()))
        renew_in_time(rig)
    (warning,) = rig.effects(e.Warn, rig.history)
    assert "forgets sessions" in warning.message
    assert "shared" in warning.message


def test_in_backoff_every_open_post_ends_by_its_own_response():
    """G3, G4: an answer, a 404 (of this session or an earlier one) or a broken connection; progress moves its deadline."""
    rig = session_rig()
    old, answered, refused, broken = (rig.call(name) for name in ("old", "answered", "refused", "broken"))
    rig.step(e.SessionLost(1, rig.call()))
    renew(rig)
    late = rig.call("late", wants_progress=True, timeout=5.0)
    rig.step(e.SessionLost(2, rig.call()))
    assert rig.state is S.BACKOFF
    rig.answer(answered)
    assert rig.only(e.Complete).caller == "answered"
    rig.step(e.SessionLost(1, old))
    rig.step(e.SessionLost(2, refused))
    rig.lost(broken, OutcomeUnknownError("the response ended"))
    assert isinstance(rig.error_of("broken"), OutcomeUnknownError)
    rig.now += 0.5
    rig.say(method="notifications/progress", params={"progressToken": late, "progress": 1})
    assert rig.only(e.Report).caller == "late"
    assert rig.core.calls.timers.at(late) == rig.now + 5.0
    assert [rig.outcomes_of(name) for name in ("old", "refused", "late")] == [0, 0, 0]
    assert rig.effects(e.Close, rig.history) == []
    renew_in_time(rig)
    assert rig.methods().count("tools/call") == 3  # the two above, and the one that was refused in session 2


def test_an_open_post_that_expires_or_is_given_up_in_backoff_is_hung_up():
    """Its session is gone, so there is nobody to notify."""
    rig = session_rig()
    first, second = rig.call("first", timeout=0.5), rig.call("second")
    rig.step(e.SessionLost(1, rig.call()))
    renew(rig)
    rig.step(e.SessionLost(2, rig.call()))
    assert rig.state is S.BACKOFF
    rig.wait(0.5)
    assert rig.only(e.HangUp).id == first
    assert isinstance(rig.error_of("first"), TimeoutError)
    assert rig.error_of("first").may_have_run is True
    rig.step(e.GaveUp(second))
    assert rig.only(e.HangUp).id == second


def test_a_client_that_goes_down_in_backoff_is_closed_and_made_anew():
    rig = session_rig()
    rig.call("open")
    rig.step(e.SessionLost(1, rig.call()))
    renew(rig)
    rig.step(e.SessionLost(2, rig.call("refused")))
    rig.down(TransportError("connection refused"))
    assert (rig.state, rig.core.wire, rig.only(e.Close).epoch) == (S.BACKOFF, Wire.CLOSING, 2)
    assert isinstance(rig.error_of("open"), OutcomeUnknownError)
    assert rig.outcomes_of("refused") == 0
    rig.reconnect().agree()
    assert "tools/call" in rig.methods()


def test_stop_in_backoff_closes_the_kept_client():
    rig = session_rig()
    rig.call("open")
    rig.step(e.SessionLost(1, rig.call()))
    renew(rig)
    rig.step(e.SessionLost(2, rig.call("refused")))
    rig.stop()
    assert (rig.state, rig.only(e.Close).epoch) == (S.CLOSING, 2)
    assert rig.error_of("open").may_have_run is True
    assert rig.error_of("refused").may_have_run is False
    rig.reaped()
    assert rig.state is S.CLOSED


def test_a_busy_call_is_not_lost_or_sent_early_in_a_session_renewal():
    """Table: retry tick in starting and initializing; a user's call is written in ready alone."""
    rig = session_rig()
    busy = rig.call("busy", timeout=60.0)
    refused = rig.call("refused")
    rig.refuse(busy)
    rig.step(e.SessionLost(1, refused))
    rig.spawned()
    rig.up()
    rig.wait(0.1)
    assert "tools/call" not in rig.methods()
    rig.agree()
    rig.wait(0.1)
    assert busy in [effect.id for effect in rig.effects(e.Send, rig.history)[-4:]]


def test_what_is_standing_is_opened_again_in_the_new_session():
    """Row 25: subscriptions are always re-opened."""
    rig = session_rig()
    rig.step(e.ReadyAsked("early"))
    rig.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    old = rig.only(e.Send).id
    rig.step(e.SessionLost(1, old))
    assert rig.state is S.STARTING
    rig.step(e.ReadyAsked("waiter"))
    renew(rig)
    assert rig.methods() == ["notifications/initialized", "resources/subscribe"]
    assert rig.only(e.Release) == e.Release("waiter", None)
    rig.answer(old)
    assert rig.only(e.Stray).kind == "late"


def test_server_requests_of_the_old_session_are_stopped():
    rig = session_rig()
    rig.say(id="q", method="roots/list")
    rig.step(e.SessionLost(1, rig.call("a")))
    assert rig.effects(e.StopServing) == [e.StopServing("q")]


FAILURES = [
    ("the handshake is not answered", lambda rig: rig.wait(10.1)),
    ("the handshake fails", lambda rig: rig.lost(handshake(rig), TransportError("HTTP 503"))),
]


def handshake(rig):
    return rig.core._negotiation.handshake_id


@pytest.mark.parametrize(("name", "fail"), FAILURES, ids=[row[0] for row in FAILURES])
def test_a_session_that_cannot_be_made_again_leaves_open_posts_alone(name, fail):
    """G3: a 404 never closes the HTTP client, and neither does what follows from it."""
    rig = session_rig()
    first, second = rig.call("first", timeout=60.0), rig.call("second", timeout=60.0)
    rig.step(e.SessionLost(1, first))
    rig.spawned()
    rig.up()
    asked = handshake(rig)
    fail(rig)
    assert rig.state is S.BACKOFF
    assert rig.effects(e.Close, rig.history) == []
    assert asked not in rig.core.calls.pending
    rig.answer(second)
    assert rig.only(e.Complete).caller == "second"
    renew_in_time(rig)
    assert rig.methods() == ["notifications/initialized", "tools/call"]


def test_a_handshake_that_is_given_up_is_hung_up():
    """Its late response would begin a session that nobody uses."""
    rig = session_rig()
    first = rig.call("first", timeout=60.0)
    rig.call("second", timeout=60.0)
    rig.step(e.SessionLost(1, first))
    rig.spawned()
    rig.up()
    asked = handshake(rig)
    rig.wait(10.1)
    assert rig.effects(e.HangUp) == [e.HangUp(asked)]


def test_without_open_posts_a_session_that_cannot_be_made_again_closes_the_client():
    rig = session_rig()
    rig.step(e.SessionLost(1, rig.call("first", timeout=60.0)))
    rig.spawned()
    rig.up()
    rig.wait(10.1)
    assert (rig.state, rig.only(e.Close).epoch) == (S.BACKOFF, 2)


# --- what waits for a free connection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("versions", [HANDSHAKE, STATELESS])
@pytest.mark.parametrize("has_started", [False, True])
def test_a_request_that_waits_for_a_connection_is_known_not_to_have_run(versions, has_started):
    rig = Rig(is_http=True, versions=versions).ready()
    id = rig.call("me", timeout=5.0)
    rig.step(e.PostQueued(1, id))
    if has_started:
        rig.step(e.PostStarted(1, id))
    rig.wait(5.0)
    assert rig.error_of("me").may_have_run is has_started
    assert len(rig.effects(e.Withdraw)) == (not has_started)


def test_a_start_of_an_earlier_session_is_noticed():
    """It can only be safe to believe that it was sent."""
    rig = session_rig()
    first, second = rig.call("first"), rig.call("second", timeout=5.0)
    rig.step(e.SessionLost(1, first))
    renew(rig)
    rig.core.calls.pending[second].is_unsent = True
    rig.step(e.PostStarted(1, second))
    assert rig.core.calls.pending[second].is_unsent is False


def test_reports_of_requests_that_are_gone_change_nothing():
    rig = session_rig()
    rig.step(e.PostQueued(1, 99))
    rig.step(e.PostStarted(1, 99))
    assert rig.out == []
