"""A server that stops answering: when it is checked, what is kept back meanwhile, and when it is given up."""

import pytest

from jackstay.errors import OutcomeUnknownError, TimeoutError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._table import ClientState as S
from jackstay.protocol.client._table import Timer
from model.rig import HANDSHAKE, STATELESS, Rig, rig_in


def checks(rig: Rig) -> list[int]:
    return [id for id, exchange in rig.core.calls.pending.items() if exchange.role is Role.KEEPALIVE]


def sent(rig: Rig) -> list[str]:
    return rig.methods(rig.history)


@pytest.mark.parametrize(("versions", "method"), [(HANDSHAKE, "ping"), (STATELESS, "server/discover")])
@pytest.mark.parametrize("is_http", [False, True])
def test_a_call_that_times_out_in_silence_leads_to_a_check_and_to_a_restart(versions, method, is_http):
    """G21, in both eras and over every transport."""
    rig = Rig(versions=versions, is_http=is_http, wait_for_ready=False).ready(versions[-1])
    rig.written_call("lost", timeout=2.0)
    other = rig.written_call("other", timeout=60.0)
    rig.wait(2.0)
    assert isinstance(rig.error_of("lost"), TimeoutError)
    (check,) = checks(rig)
    assert rig.core.calls.pending[check].method == method
    rig.wait(4.9)
    assert rig.state is S.READY
    rig.wait(0.2)
    assert rig.state is S.BACKOFF
    assert str(rig.core.cause) == f"the server hangs: it answered neither a call nor {method}"
    error = rig.error_of("other")
    assert isinstance(error, OutcomeUnknownError)
    assert other not in rig.core.calls.pending
    rig.reconnect().agree(versions[-1])
    assert rig.core.calls.check == 0


def test_an_answered_check_changes_nothing():
    rig = rig_in(S.READY)
    rig.written_call("slow", timeout=2.0)
    rig.wait(2.0)
    (check,) = checks(rig)
    rig.answer(check)
    assert Timer.CHECK not in rig.core.calls.timers
    rig.wait(100.0)
    assert rig.state is S.READY
    assert sent(rig).count("ping") == 1


@pytest.mark.parametrize(
    "message", [{"method": "notifications/message", "params": {}}, {"id": 999, "result": {}}]
)
def test_anything_received_ends_the_check(message):
    rig = rig_in(S.READY)
    rig.written_call("slow", timeout=2.0)
    rig.wait(2.0)
    rig.say(**message)
    rig.wait(100.0)
    assert rig.state is S.READY


def test_the_answer_to_another_call_ends_the_check():
    """The short way of an answer: it marks what was received, and the timer finds that out."""
    rig = rig_in(S.READY)
    rig.written_call("slow", timeout=2.0)
    other = rig.written_call("other", timeout=60.0)
    rig.wait(2.0)
    rig.answer(other)
    rig.wait(100.0)
    assert rig.state is S.READY


def test_after_something_was_received_a_timeout_leads_to_no_check():
    rig = rig_in(S.READY)
    rig.written_call("slow", timeout=2.0)
    other = rig.written_call("other")
    rig.answer(other)
    rig.wait(2.0)
    assert isinstance(rig.error_of("slow"), TimeoutError)
    assert checks(rig) == []


def test_a_second_silence_is_checked_again_though_the_first_timer_still_runs():
    rig = rig_in(S.READY)
    rig.written_call("first", timeout=2.0)
    other = rig.written_call("other", timeout=60.0)
    rig.wait(2.0)
    rig.answer(other)  # the short way: the first check's timer stays armed
    rig.written_call("second", timeout=2.0)
    rig.wait(2.0)
    assert sent(rig).count("ping") == 2
    rig.wait(4.9)
    assert rig.state is S.READY
    rig.wait(0.2)
    assert rig.state is S.BACKOFF


def test_a_call_in_our_queue_for_too_long_leads_to_a_check_too():
    """A server that no longer reads."""
    rig = rig_in(S.READY)
    rig.call("unread", timeout=2.0)
    rig.wait(2.0)
    assert rig.error_of("unread").may_have_run is False
    assert len(checks(rig)) == 1


@pytest.mark.parametrize(("seconds", "is_checked"), [(4.9, False), (5.0, True)])
def test_a_call_given_up_leads_to_a_check_only_after_a_while(seconds, is_checked):
    rig = rig_in(S.READY)
    id = rig.written_call("me", timeout=60.0)
    rig.wait(seconds)
    rig.step(e.GaveUp(id))
    assert bool(checks(rig)) is is_checked


def test_it_can_be_turned_off():
    rig = rig_in(S.READY, hang_timeout=None)
    rig.written_call("me", timeout=2.0, may_replay=True)
    rig.wait(2.0)
    assert isinstance(rig.error_of("me"), TimeoutError)
    assert checks(rig) == []
    assert rig.state is S.READY


# --- what is kept back ------------------------------------------------------------------------------------------------


def checked(**options) -> Rig:
    rig = rig_in(S.READY, wait_for_ready=True, **options)
    rig.written_call("slow", timeout=2.0)
    rig.wait(2.0)
    assert rig.core.calls.is_checking
    return rig


def test_calls_made_during_the_check_wait_and_run_on_the_next_server():
    """G21: written to a hung server they would be lost."""
    rig = checked()
    kept = rig.call("kept", timeout=60.0)
    assert rig.effects(e.Send) == []
    rig.wait(5.0)
    assert rig.state is S.BACKOFF
    assert kept in rig.core.calls.queue
    rig.reconnect().agree()
    assert kept in [frame.get("id") for frame in rig.frames()]


@pytest.mark.parametrize("how", ["check", "notification", "timer"])
def test_they_are_sent_as_soon_as_the_server_answers(how):
    rig = checked()
    (check,) = checks(rig)
    rig.call("eager", timeout=60.0, wait_for_ready=False)
    eager = rig.frames()[-1]["id"]
    kept = rig.call("kept", timeout=60.0)
    if how == "check":
        rig.answer(check)
    elif how == "notification":
        rig.say(method="notifications/message", params={})
    else:
        rig.core.calls.received_after = rig.core.calls.number
        rig.wait(5.0)
    assert eager != kept
    assert kept in [frame.get("id") for frame in rig.frames(rig.history)]
    assert rig.core.calls.check == 0


def test_a_call_that_is_not_to_wait_is_written_all_the_same():
    rig = checked()
    rig.call("now", wait_for_ready=False)
    assert rig.methods() == ["tools/call"]


def test_a_call_kept_back_for_too_long_surely_did_not_run():
    rig = checked()
    rig.call("kept", timeout=1.0)
    rig.wait(1.0)
    assert rig.error_of("kept").may_have_run is False


# --- calls that may be sent again -------------------------------------------------------------------------------------


def test_a_call_that_may_be_sent_again_is_sent_again_inside_its_deadline():
    rig = rig_in(S.READY, backoff_jitter=0.0)
    rig.written_call("look", timeout=20.0, may_replay=True)
    rig.wait(10.0)
    assert len(checks(rig)) == 1
    rig.wait(5.0)
    assert rig.state is S.BACKOFF
    assert rig.outcomes_of("look") == 0
    rig.wait(1.0)
    rig.reconnect().agree()
    (again,) = rig.core.calls.pending
    assert rig.core.calls.timers.at(again) == pytest.approx(20.0)
    rig.wrote()
    rig.answer(again)
    assert rig.effects(e.Complete)[0].caller == "look"


def test_a_call_that_may_be_sent_again_keeps_its_deadline_when_the_server_answers_the_check():
    rig = rig_in(S.READY)
    rig.written_call("look", timeout=20.0, may_replay=True)
    rig.wait(10.0)
    (check,) = checks(rig)
    rig.answer(check)
    rig.wait(9.9)
    assert rig.outcomes_of("look") == 0
    rig.wait(0.2)
    assert isinstance(rig.error_of("look"), TimeoutError)


def test_progress_moves_both_the_check_and_the_deadline():
    rig = rig_in(S.READY)
    id = rig.written_call("look", timeout=20.0, may_replay=True, wants_progress=True)
    rig.wait(9.0)
    rig.say(method="notifications/progress", params={"progressToken": id, "progress": 1})
    rig.wait(19.9)
    assert rig.outcomes_of("look") == 0
    rig.wait(0.2)
    assert isinstance(rig.error_of("look"), TimeoutError)


def test_a_loop_that_was_held_up_past_the_deadline_ends_the_call_at_once():
    rig = rig_in(S.READY)
    rig.written_call("look", timeout=20.0, may_replay=True)
    rig.now = 25.0
    for event in rig.core.due(rig.now):
        rig.step(event)
    assert isinstance(rig.error_of("look"), TimeoutError)


def test_the_timeout_of_another_call_brings_the_end_of_the_check_forward():
    rig = rig_in(S.READY)
    rig.written_call("look", timeout=100.0, may_replay=True)
    rig.written_call("pay", timeout=52.0)
    rig.wait(50.0)
    assert rig.core.calls.timers.at(Timer.CHECK) == pytest.approx(75.0)
    rig.wait(2.0)
    assert rig.core.calls.timers.at(Timer.CHECK) == pytest.approx(57.0)
    rig.wait(5.0)
    assert rig.state is S.BACKOFF


def test_an_http_refusal_of_the_check_shows_that_the_server_is_there():
    rig = Rig(is_http=True).ready()
    rig.written_call("slow", timeout=2.0)
    rig.wait(2.0)
    (check,) = checks(rig)
    rig.lost(check, OutcomeUnknownError("HTTP 405"), was_declined=True)
    rig.wait(5.0)
    assert rig.state is S.READY
