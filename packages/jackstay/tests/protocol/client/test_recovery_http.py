"""Losses over HTTP: single requests that fail, and sessions that are created again."""

from jackstay.errors import (
    OutcomeUnknownError,
    SessionLostError,
    TimeoutError,
    TransportError,
)
from jackstay.protocol.client import events as e
from jackstay.protocol.client._transport import TransportStatus
from model.harness import HANDSHAKE, STATELESS, Harness, S

# --- single requests --------------------------------------------------------------------------------------------------


def test_one_failing_request_fails_only_itself(subtests):
    """docs/guarantees.md G2, G3."""
    cases = [
        TransportError("connection refused"),
        OutcomeUnknownError("the response ended"),
        TransportError("429", retry_in=3.0),
        OutcomeUnknownError("503", retry_in=3.0),
    ]
    for error in cases:
        with subtests.test(error=error):
            harness = Harness(is_http=True).ready()
            first, second = harness.call("first"), harness.call("second")
            harness.lost(first, error)
            assert harness.error_of("first") is error
            assert (error.method, error.request_id) == ("tools/call", first)
            assert harness.state is S.READY
            harness.respond(second)
            assert harness.only(e.Complete).caller == "second"
            harness.respond(first)
            assert harness.only(e.Stray).kind == "late"


def test_a_lost_exchange_that_is_not_open_is_counted():
    harness = Harness(is_http=True).ready()
    id = harness.call("me")
    harness.respond(id)
    harness.lost(id, OutcomeUnknownError("x"))
    harness.lost(999, OutcomeUnknownError("x"))
    assert harness.out == []
    assert harness.core.counts["ignored ExchangeLost"] == 2


def test_a_lost_listen_ends_its_subscription():
    harness = Harness(is_http=True, versions=STATELESS).ready()
    harness.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
    id = harness.only(e.Send).id
    harness.lost(id, error := OutcomeUnknownError("the response ended"))
    assert harness.out == [e.EndSubscription("k", error)]


def test_a_lost_keepalive_fails_no_call():
    harness = Harness(is_http=True, keepalive=5.0).ready()
    harness.wait(10.1)
    id = max(harness.core.calls.pending)
    harness.lost(id, TransportError("refused"))
    assert harness.out == []
    assert harness.state is S.READY


# --- sessions ---------------------------------------------------------------------------------------------------------


def session_harness():
    return Harness(is_http=True).ready()


def renew(harness):
    """Negotiate the next session immediately."""
    harness.spawned()
    harness.agree()


def renew_in_time(harness):
    """Negotiate the next session after the backoff, if there is one."""
    at = harness.core.calls.timers.at(e.BackoffElapsed)
    harness.wait(0.0 if at is None else at - harness.now)
    renew(harness)


def test_a_lost_session_is_renewed_without_delay_and_the_request_sent_again():
    """docs/guarantees.md G4."""
    harness = session_harness()
    id = harness.call("me")
    harness.step(e.SessionLost(1, id))
    assert harness.state is S.STARTING
    assert harness.only(e.Spawn).epoch == 2
    assert harness.effects(e.Close) == []
    assert harness.core.recovery.failures == 0
    again = harness.only(e.Accept).id
    renew(harness)
    assert [frame.get("id") for frame in harness.frames()][-1] == again
    harness.respond(again)
    assert harness.only(e.Complete).caller == "me"


def test_open_posts_survive_a_session_loss():
    harness = session_harness()
    first, second, third = harness.call("first"), harness.call("second"), harness.call("third")
    harness.step(e.SessionLost(1, first))
    harness.respond(second)
    assert harness.only(e.Complete).caller == "second"
    assert harness.state is S.STARTING
    harness.spawned()
    harness.receive_json(method="notifications/progress", params={"progressToken": third, "progress": 1})
    assert harness.only(e.ReportProgress).caller == "third"
    harness.lost(third, OutcomeUnknownError("the response ended"))
    assert isinstance(harness.error_of("third"), OutcomeUnknownError)
    assert harness.state is S.INITIALIZING


def test_a_second_404_of_the_same_session_sends_its_request_again_too():
    """docs/guarantees.md G4."""
    harness = session_harness()
    first, second = harness.call("first"), harness.call("second")
    harness.step(e.SessionLost(1, first))
    harness.step(e.SessionLost(1, second))
    assert harness.epoch == 2
    assert len(harness.core.calls.queue) == 2
    renew(harness)
    assert harness.methods().count("tools/call") == 2


def test_a_late_404_of_the_old_session_affects_only_its_own_request():
    """docs/guarantees.md G4, G10."""
    harness = session_harness()
    first, second = harness.call("first"), harness.call("second")
    harness.step(e.SessionLost(1, first))
    renew(harness)
    harness.step(e.SessionLost(1, second))
    assert harness.state is S.READY
    assert harness.epoch == 2
    assert harness.methods() == ["tools/call"]
    assert harness.outcomes_of("second") == 0


def test_a_request_is_queued_again_for_every_404_until_its_attempts_are_used_up():
    """docs/guarantees.md G4."""
    harness = Harness(is_http=True, session_attempts=3, request_timeout=None).ready()
    id = harness.call("me")
    for epoch in (1, 2, 3):
        assert harness.outcomes_of("me") == 0
        harness.step(e.SessionLost(epoch, id))
        if epoch < 3:
            id = harness.only(e.Accept).id
            renew_in_time(harness)
    assert type(harness.error_of("me")) is SessionLostError
    assert harness.error_of("me").may_have_run is False


def test_a_new_session_that_is_lost_soon_only_delays_the_next():
    """docs/guarantees.md G4."""
    harness = session_harness()
    other = harness.call("other")
    harness.step(e.SessionLost(1, harness.call("a")))
    renew(harness)
    harness.wait(9.0)
    harness.step(e.SessionLost(2, harness.call("b")))
    assert harness.state is S.BACKOFF
    assert harness.core.transport.status is TransportStatus.KEPT
    assert harness.core.recovery.failures == 1
    assert harness.effects(e.Close, harness.history) == []
    assert harness.effects(e.Fail, harness.history) == []
    assert harness.core.calls.timers.at(e.BackoffElapsed) == harness.now + 1.0
    harness.respond(other)
    assert harness.only(e.Complete).caller == "other"
    harness.wait(1.0)
    assert (harness.state, harness.only(e.Spawn).epoch) == (S.STARTING, 3)
    renew(harness)
    assert harness.methods() == ["notifications/initialized", "tools/call"]


def test_the_delay_grows_until_a_call_has_a_result():
    harness = Harness(is_http=True, request_timeout=None).ready()
    harness.step(e.SessionLost(1, harness.call("a")))
    delays = []
    for _ in range(6):
        renew_in_time(harness)
        harness.step(e.SessionLost(harness.epoch, max(harness.core.calls.pending)))
        delays.append(harness.core.calls.timers.at(e.BackoffElapsed) - harness.now)
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    renew_in_time(harness)
    harness.respond(max(harness.core.calls.pending))
    harness.step(e.SessionLost(harness.epoch, harness.call("b")))
    assert harness.core.calls.timers.at(e.BackoffElapsed) - harness.now == 1.0


def test_a_session_older_than_ten_seconds_is_renewed_without_delay():
    harness = session_harness()
    harness.step(e.SessionLost(1, harness.call("a")))
    renew(harness)
    harness.wait(10.1)
    harness.step(e.SessionLost(2, harness.call("b")))
    assert harness.state is S.STARTING


def test_the_age_of_a_session_counts_from_its_own_start():
    """The backoff before a session does not count: a third loss right after it is still early."""
    harness = Harness(is_http=True, backoff_min=15.0).ready()
    harness.step(e.SessionLost(1, harness.call("a")))
    renew(harness)
    harness.wait(9.0)
    harness.step(e.SessionLost(2, harness.call("b")))
    renew_in_time(harness)
    harness.step(e.SessionLost(3, harness.call("c")))
    assert harness.state is S.BACKOFF


def test_a_server_that_does_not_keep_sessions_is_reported_once():
    harness = session_harness()
    for epoch in (1, 2, 3, 4):
        harness.step(e.SessionLost(epoch, harness.call()))
        renew_in_time(harness)
    (warning,) = harness.effects(e.Warn, harness.history)
    assert "does not keep sessions" in warning.message
    assert "shared" in warning.message


def test_in_backoff_every_open_post_ends_with_its_own_response():
    """docs/guarantees.md G3, G4."""
    harness = session_harness()
    old, answered, refused, broken = (harness.call(name) for name in ("old", "answered", "refused", "broken"))
    harness.step(e.SessionLost(1, harness.call()))
    renew(harness)
    late = harness.call("late", wants_progress=True, timeout=5.0)
    harness.step(e.SessionLost(2, harness.call()))
    assert harness.state is S.BACKOFF
    harness.respond(answered)
    assert harness.only(e.Complete).caller == "answered"
    harness.step(e.SessionLost(1, old))
    harness.step(e.SessionLost(2, refused))
    harness.lost(broken, OutcomeUnknownError("the response ended"))
    assert isinstance(harness.error_of("broken"), OutcomeUnknownError)
    harness.now += 0.5
    harness.receive_json(method="notifications/progress", params={"progressToken": late, "progress": 1})
    assert harness.only(e.ReportProgress).caller == "late"
    assert harness.core.calls.timers.at(late) == harness.now + 5.0
    assert [harness.outcomes_of(name) for name in ("old", "refused", "late")] == [0, 0, 0]
    assert harness.effects(e.Close, harness.history) == []
    renew_in_time(harness)
    assert harness.methods().count("tools/call") == 3  # the two above, and the one that was refused in session 2


def test_the_response_of_a_post_that_times_out_or_is_cancelled_in_backoff_is_closed():
    """Its session is lost, so the server cannot be notified."""
    harness = session_harness()
    first, second = harness.call("first", timeout=0.5), harness.call("second")
    harness.step(e.SessionLost(1, harness.call()))
    renew(harness)
    harness.step(e.SessionLost(2, harness.call()))
    assert harness.state is S.BACKOFF
    harness.wait(0.5)
    assert harness.only(e.CloseResponse).id == first
    assert isinstance(harness.error_of("first"), TimeoutError)
    assert harness.error_of("first").may_have_run is True
    harness.step(e.CallCancelled(second))
    assert harness.only(e.CloseResponse).id == second


def test_an_http_client_that_fails_in_backoff_is_closed_and_replaced():
    harness = session_harness()
    harness.call("open")
    harness.step(e.SessionLost(1, harness.call()))
    renew(harness)
    harness.step(e.SessionLost(2, harness.call("refused")))
    harness.down(TransportError("connection refused"))
    assert (harness.state, harness.core.transport.status, harness.only(e.Close).epoch) == (
        S.BACKOFF,
        TransportStatus.CLOSING,
        2,
    )
    assert isinstance(harness.error_of("open"), OutcomeUnknownError)
    assert harness.outcomes_of("refused") == 0
    harness.reconnect().agree()
    assert "tools/call" in harness.methods()


def test_stop_in_backoff_closes_the_kept_client():
    harness = session_harness()
    harness.call("open")
    harness.step(e.SessionLost(1, harness.call()))
    renew(harness)
    harness.step(e.SessionLost(2, harness.call("refused")))
    harness.stop()
    assert (harness.state, harness.only(e.Close).epoch) == (S.CLOSING, 2)
    assert harness.error_of("open").may_have_run is True
    assert harness.error_of("refused").may_have_run is False
    harness.reaped()
    assert harness.state is S.CLOSED


def test_a_busy_call_is_not_lost_or_sent_early_in_a_session_renewal():
    harness = session_harness()
    busy = harness.call("busy", timeout=60.0)
    refused = harness.call("refused")
    harness.refuse(busy)
    harness.step(e.SessionLost(1, refused))
    harness.spawned()
    harness.wait(0.1)
    assert "tools/call" not in harness.methods()
    harness.agree()
    harness.wait(0.1)
    assert busy in [effect.id for effect in harness.effects(e.Send, harness.history)[-4:]]


def test_subscriptions_are_opened_again_in_the_new_session():
    harness = session_harness()
    harness.step(e.ReadyRequested("early"))
    harness.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    old = harness.only(e.Send).id
    harness.step(e.SessionLost(1, old))
    assert harness.state is S.STARTING
    harness.step(e.ReadyRequested("waiter"))
    renew(harness)
    assert harness.methods() == ["notifications/initialized", "resources/subscribe"]
    assert harness.only(e.Release) == e.Release("waiter", None)
    harness.respond(old)
    assert harness.only(e.Stray).kind == "late"


def test_server_requests_of_the_old_session_are_stopped():
    harness = session_harness()
    harness.receive_json(id="q", method="roots/list")
    harness.step(e.SessionLost(1, harness.call("a")))
    assert harness.effects(e.StopServing) == [e.StopServing("q")]


FAILURES = [
    ("no response to the handshake", lambda harness: harness.wait(10.1)),
    ("the handshake fails", lambda harness: harness.lost(handshake(harness), TransportError("HTTP 503"))),
]


def handshake(harness):
    return harness.core.negotiation.handshake_id


def test_a_session_that_cannot_be_renewed_keeps_open_posts(subtests):
    """docs/guarantees.md G3."""
    for name, fail in FAILURES:
        with subtests.test(name=name, fail=fail):
            harness = session_harness()
            first, second = harness.call("first", timeout=60.0), harness.call("second", timeout=60.0)
            harness.step(e.SessionLost(1, first))
            harness.spawned()
            handshake_id = handshake(harness)
            fail(harness)
            assert harness.state is S.BACKOFF
            assert harness.effects(e.Close, harness.history) == []
            assert handshake_id not in harness.core.calls.pending
            harness.respond(second)
            assert harness.only(e.Complete).caller == "second"
            renew_in_time(harness)
            assert harness.methods() == ["notifications/initialized", "tools/call"]


def test_the_response_of_an_abandoned_handshake_is_closed():
    """Its late response would begin an unused session."""
    harness = session_harness()
    first = harness.call("first", timeout=60.0)
    harness.call("second", timeout=60.0)
    harness.step(e.SessionLost(1, first))
    harness.spawned()
    handshake_id = handshake(harness)
    harness.wait(10.1)
    assert harness.effects(e.CloseResponse) == [e.CloseResponse(handshake_id)]


def test_without_open_posts_a_session_that_cannot_be_renewed_closes_the_client():
    harness = session_harness()
    harness.step(e.SessionLost(1, harness.call("first", timeout=60.0)))
    harness.spawned()
    harness.wait(10.1)
    assert (harness.state, harness.only(e.Close).epoch) == (S.BACKOFF, 2)


# --- requests that wait for a free connection -------------------------------------------------------------------------


def test_a_request_that_waits_for_a_connection_did_not_run(subtests):
    for has_started in (False, True):
        for versions in (HANDSHAKE, STATELESS):
            with subtests.test(has_started=has_started, versions=versions):
                harness = Harness(is_http=True, versions=versions).ready()
                id = harness.call("me", timeout=5.0)
                harness.step(e.PostQueued(1, id))
                if has_started:
                    harness.step(e.PostStarted(1, id))
                harness.wait(5.0)
                assert harness.error_of("me").may_have_run is has_started
                assert len(harness.effects(e.Withdraw)) == (not has_started)


def test_post_started_of_an_earlier_session_is_accepted():
    harness = session_harness()
    first, second = harness.call("first"), harness.call("second", timeout=5.0)
    harness.step(e.SessionLost(1, first))
    renew(harness)
    harness.core.calls.pending[second].is_unsent = True
    harness.step(e.PostStarted(1, second))
    assert harness.core.calls.pending[second].is_unsent is False


def test_events_of_unknown_posts_are_ignored():
    harness = session_harness()
    harness.step(e.PostQueued(1, 99))
    harness.step(e.PostStarted(1, 99))
    assert harness.out == []
