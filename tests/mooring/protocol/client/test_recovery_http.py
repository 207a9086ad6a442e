"""What is lost over HTTP, and what is not: one exchange that fails alone, and sessions that are made again."""

import pytest

from model.rig import STATELESS, Rig, S
from mooring.errors import (
    OutcomeUnknownError,
    SessionLostError,
    TransportError,
)
from mooring.protocol.client import events as e
from mooring.protocol.client._table import Timer

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


def test_a_request_refused_twice_fails_and_surely_did_not_run():
    """G4: re-sent once."""
    rig = session_rig()
    rig.step(e.SessionLost(1, rig.call("me")))
    again = rig.only(e.Accept).id
    renew(rig)
    rig.wait(20.0)
    rig.step(e.SessionLost(2, again))
    assert type(rig.error_of("me")) is SessionLostError
    assert rig.error_of("me").may_have_run is False


def test_two_losses_within_ten_seconds_are_a_failure():
    """Over HTTP: a server that forgets every session must not be hammered."""
    rig = session_rig()
    rig.step(e.SessionLost(1, rig.call("a")))
    renew(rig)
    rig.wait(9.0)
    rig.step(e.SessionLost(2, rig.call("b")))
    assert rig.state is S.BACKOFF
    assert rig.core.failures == 1
    assert rig.outcomes_of("b") == 0  # sent again after the wait
    assert rig.core.calls.timers.at(Timer.BACKOFF) == rig.now + 1.0


def test_two_losses_further_apart_are_not():
    rig = session_rig()
    rig.step(e.SessionLost(1, rig.call("a")))
    renew(rig)
    rig.wait(10.1)
    rig.step(e.SessionLost(2, rig.call("b")))
    assert rig.state is S.STARTING


def test_the_third_loss_is_counted_from_the_second():
    """Two session losses within 10 s: the last two, whatever the second led to."""
    rig = session_rig()
    rig.step(e.SessionLost(1, rig.call("a")))
    renew(rig)
    rig.wait(9.0)
    rig.step(e.SessionLost(2, rig.call("b")))
    rig.reaped()
    rig.wait(1.1)
    renew(rig)
    rig.wait(0.5)
    rig.step(e.SessionLost(3, rig.call("c")))
    assert rig.state is S.BACKOFF


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


def test_a_connection_that_fails_while_a_session_is_renewed_loses_its_open_posts():
    rig = session_rig()
    first = rig.call("first")
    rig.call("second")
    rig.step(e.SessionLost(1, first))
    rig.wait(10.1)
    assert rig.state is S.BACKOFF
    assert isinstance(rig.error_of("second"), OutcomeUnknownError)
    assert rig.outcomes_of("first") == 0
