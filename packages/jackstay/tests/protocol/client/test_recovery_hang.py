"""A server that stops responding: health checks, calls that wait meanwhile, and the restart."""

import pytest

from jackstay.errors import OutcomeUnknownError, TimeoutError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._states import ClientState as S
from model.harness import HANDSHAKE, STATELESS, Harness, harness_in


def checks(harness: Harness) -> list[int]:
    return [id for id, exchange in harness.core.calls.pending.items() if exchange.role is Role.KEEPALIVE]


def sent(harness: Harness) -> list[str]:
    return harness.methods(harness.history)


def test_a_call_that_times_out_in_silence_leads_to_a_check_and_a_restart(subtests):
    """docs/guarantees.md G21."""
    for is_http in (False, True):
        for versions, method in ((HANDSHAKE, "ping"), (STATELESS, "server/discover")):
            with subtests.test(is_http=is_http, versions=versions, method=method):
                harness = Harness(versions=versions, is_http=is_http, wait_for_ready=False).ready(versions[-1])
                harness.written_call("lost", timeout=2.0)
                other = harness.written_call("other", timeout=60.0)
                harness.wait(2.0)
                assert isinstance(harness.error_of("lost"), TimeoutError)
                (check,) = checks(harness)
                assert harness.core.calls.pending[check].method == method
                harness.wait(4.9)
                assert harness.state is S.READY
                harness.wait(0.2)
                assert harness.state is S.BACKOFF
                assert str(harness.core.cause) == f"the server hangs: it responded neither to a call nor to {method}"
                error = harness.error_of("other")
                assert isinstance(error, OutcomeUnknownError)
                assert other not in harness.core.calls.pending
                harness.reconnect().agree(versions[-1])
                assert harness.core.health.check == 0


def test_a_check_with_a_response_changes_nothing():
    harness = harness_in(S.READY)
    harness.written_call("slow", timeout=2.0)
    harness.wait(2.0)
    (check,) = checks(harness)
    harness.respond(check)
    assert e.CheckExpired not in harness.core.calls.timers
    harness.wait(100.0)
    assert harness.state is S.READY
    assert sent(harness).count("ping") == 1


def test_anything_received_ends_the_check(subtests):
    for message in ({"method": "notifications/message", "params": {}}, {"id": 999, "result": {}}):
        with subtests.test(message=message):
            harness = harness_in(S.READY)
            harness.written_call("slow", timeout=2.0)
            harness.wait(2.0)
            harness.receive_json(**message)
            harness.wait(100.0)
            assert harness.state is S.READY


def test_a_result_of_another_call_ends_the_check():
    harness = harness_in(S.READY)
    harness.written_call("slow", timeout=2.0)
    other = harness.written_call("other", timeout=60.0)
    harness.wait(2.0)
    harness.respond(other)
    harness.wait(100.0)
    assert harness.state is S.READY


def test_after_something_was_received_a_timeout_leads_to_no_check():
    harness = harness_in(S.READY)
    harness.written_call("slow", timeout=2.0)
    other = harness.written_call("other")
    harness.respond(other)
    harness.wait(2.0)
    assert isinstance(harness.error_of("slow"), TimeoutError)
    assert checks(harness) == []


def test_a_second_silence_is_checked_while_the_first_timer_still_runs():
    harness = harness_in(S.READY)
    harness.written_call("first", timeout=2.0)
    other = harness.written_call("other", timeout=60.0)
    harness.wait(2.0)
    harness.respond(other)  # the fast path: the timer of the first check stays armed
    harness.written_call("second", timeout=2.0)
    harness.wait(2.0)
    assert sent(harness).count("ping") == 2
    harness.wait(4.9)
    assert harness.state is S.READY
    harness.wait(0.2)
    assert harness.state is S.BACKOFF


def test_a_timeout_of_an_unwritten_call_leads_to_a_check():
    harness = harness_in(S.READY)
    harness.call("unread", timeout=2.0)
    harness.wait(2.0)
    assert harness.error_of("unread").may_have_run is False
    assert len(checks(harness)) == 1


def test_a_cancelled_call_leads_to_a_check_only_after_hang_timeout(subtests):
    for seconds, is_checked in ((4.9, False), (5.0, True)):
        with subtests.test(seconds=seconds, is_checked=is_checked):
            harness = harness_in(S.READY)
            id = harness.written_call("me", timeout=60.0)
            harness.wait(seconds)
            harness.step(e.CallCancelled(id))
            assert bool(checks(harness)) is is_checked


def test_calls_that_are_cancelled_one_after_the_other_lead_to_a_check_after_hang_timeout(subtests):
    """Of callers that wait less than `hang_timeout`; a message from the server starts the count again."""
    for received_at, is_checked in ((None, True), (2, False)):
        with subtests.test(received_at=received_at):
            harness = harness_in(S.READY)
            for second in range(6):
                if second == received_at:
                    harness.respond(harness.written_call("answered"))
                id = harness.written_call(f"call {second}", timeout=60.0)
                harness.wait(1.0)
                assert checks(harness) == []
                harness.step(e.CallCancelled(id))
                if second == 4 and is_checked:
                    break
            assert bool(checks(harness)) is is_checked


def test_a_keepalive_starts_the_count_of_cancelled_calls_again_if_something_was_received():
    harness = harness_in(S.READY, keepalive=10.0)
    harness.wait(6.0)
    harness.step(e.CallCancelled(harness.written_call("first", timeout=60.0)))
    harness.respond(harness.written_call("answered"))
    harness.wait(5.0)
    id = harness.written_call("second", timeout=60.0)
    harness.step(e.CallCancelled(id))
    assert checks(harness) == []


def test_checks_can_be_disabled():
    harness = harness_in(S.READY, hang_timeout=None)
    harness.written_call("me", timeout=2.0, may_replay=True)
    harness.wait(2.0)
    assert isinstance(harness.error_of("me"), TimeoutError)
    assert checks(harness) == []
    assert harness.state is S.READY


# --- calls during a check ---------------------------------------------------------------------------------------------


def checked(**options) -> Harness:
    harness = harness_in(S.READY, wait_for_ready=True, **options)
    harness.written_call("slow", timeout=2.0)
    harness.wait(2.0)
    assert harness.core.health.is_checking
    return harness


def test_calls_made_during_the_check_wait_and_run_on_the_next_server():
    """Sent to a hung server they would be lost (docs/guarantees.md G21)."""
    harness = checked()
    kept = harness.call("kept", timeout=60.0)
    assert harness.effects(e.Send) == []
    harness.wait(5.0)
    assert harness.state is S.BACKOFF
    assert kept in harness.core.calls.queue
    harness.reconnect().agree()
    assert kept in [frame.get("id") for frame in harness.frames()]


def test_queued_calls_are_sent_as_soon_as_the_server_responds(subtests):
    for how in ("check", "notification", "timer"):
        with subtests.test(how=how):
            harness = checked()
            (check,) = checks(harness)
            harness.call("eager", timeout=60.0, wait_for_ready=False)
            eager = harness.frames()[-1]["id"]
            kept = harness.call("kept", timeout=60.0)
            if how == "check":
                harness.respond(check)
            elif how == "notification":
                harness.receive_json(method="notifications/message", params={})
            else:
                harness.core.health.received()
                harness.wait(5.0)
            assert eager != kept
            assert kept in [frame.get("id") for frame in harness.frames(harness.history)]
            assert harness.core.health.check == 0


def test_a_call_that_does_not_wait_is_sent_during_a_check():
    harness = checked()
    harness.call("now", wait_for_ready=False)
    assert harness.methods() == ["tools/call"]


def test_a_call_that_times_out_in_the_queue_did_not_run():
    harness = checked()
    harness.call("kept", timeout=1.0)
    harness.wait(1.0)
    assert harness.error_of("kept").may_have_run is False


# --- calls that are safe to repeat ------------------------------------------------------------------------------------


def test_a_safe_call_is_replayed_within_its_deadline():
    harness = harness_in(S.READY, backoff_jitter=0.0)
    harness.written_call("safe", timeout=20.0, may_replay=True)
    harness.wait(10.0)
    assert len(checks(harness)) == 1
    harness.wait(5.0)
    assert harness.state is S.BACKOFF
    assert harness.outcomes_of("safe") == 0
    harness.wait(1.0)
    harness.reconnect().agree()
    (again,) = harness.core.calls.pending
    assert harness.core.calls.timers.at(again) == pytest.approx(20.0)
    harness.wrote()
    harness.respond(again)
    assert harness.effects(e.Complete)[0].caller == "safe"


def test_a_safe_call_keeps_its_deadline_when_the_server_responds_to_the_check():
    harness = harness_in(S.READY)
    harness.written_call("safe", timeout=20.0, may_replay=True)
    harness.wait(10.0)
    (check,) = checks(harness)
    harness.respond(check)
    harness.wait(9.9)
    assert harness.outcomes_of("safe") == 0
    harness.wait(0.2)
    assert isinstance(harness.error_of("safe"), TimeoutError)


def test_progress_postpones_both_the_check_and_the_deadline():
    harness = harness_in(S.READY)
    id = harness.written_call("safe", timeout=20.0, may_replay=True, wants_progress=True)
    harness.wait(9.0)
    harness.receive_json(method="notifications/progress", params={"progressToken": id, "progress": 1})
    harness.wait(19.9)
    assert harness.outcomes_of("safe") == 0
    harness.wait(0.2)
    assert isinstance(harness.error_of("safe"), TimeoutError)


def test_a_blocked_event_loop_does_not_extend_the_deadline():
    harness = harness_in(S.READY)
    harness.written_call("safe", timeout=20.0, may_replay=True)
    harness.now = 25.0
    for event in harness.core.due(harness.now):
        harness.step(event)
    assert isinstance(harness.error_of("safe"), TimeoutError)


def test_the_timeout_of_another_call_shortens_the_check():
    harness = harness_in(S.READY)
    harness.written_call("safe", timeout=100.0, may_replay=True)
    harness.written_call("other", timeout=52.0)
    harness.wait(50.0)
    assert harness.core.calls.timers.at(e.CheckExpired) == pytest.approx(75.0)
    harness.wait(2.0)
    assert harness.core.calls.timers.at(e.CheckExpired) == pytest.approx(57.0)
    harness.wait(5.0)
    assert harness.state is S.BACKOFF


def test_an_http_error_response_to_the_check_ends_it():
    harness = Harness(is_http=True).ready()
    harness.written_call("slow", timeout=2.0)
    harness.wait(2.0)
    (check,) = checks(harness)
    harness.lost(check, OutcomeUnknownError("HTTP 405"), was_declined=True)
    harness.wait(5.0)
    assert harness.state is S.READY
