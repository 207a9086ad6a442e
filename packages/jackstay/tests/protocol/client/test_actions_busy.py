"""Calls, responses and notifications while the transport is busy."""

from jackstay.errors import (
    BackpressureError,
    OutcomeUnknownError,
    TransportError,
)
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import FLUSH_BATCH_SIZE
from jackstay.protocol.client._exchange import ExchangeState
from jackstay.protocol.client._settings import MAX_HANDLERS
from model.harness import STATELESS, Harness, S, harness_in

# --- busy -------------------------------------------------------------------------------------------------------------


def test_a_busy_transport_gets_three_attempts():
    harness = harness_in(S.READY)
    id = harness.call("me")
    for jitter, delay in ((0.0, 0.005), (0.999, 0.015)):
        harness.jitter = jitter
        harness.refuse(id)
        assert harness.out == []
        harness.wait(delay - 0.001)
        assert harness.out == []
        harness.wait(0.002)
        assert [frame["id"] for frame in harness.frames()] == [id]
    harness.refuse(id)
    error = harness.error_of("me")
    assert error.message == "transport busy after 3 attempts"
    assert error.details == {"attempts": 3, "request_id": id}
    assert error.may_have_run is False
    assert harness.core.calls.tombstones.get(id, -1.0) < harness.now
    assert id not in harness.core.calls.timers
    assert e.RetryDue(id) not in harness.core.calls.timers


def test_a_refused_handshake_is_sent_again():
    harness = harness_in(S.INITIALIZING)
    (id,) = harness.core.calls.pending
    harness.refuse(id)
    harness.wait(0.02)
    assert [frame["id"] for frame in harness.frames()] == [id]
    assert harness.state is S.INITIALIZING


def test_a_retry_that_succeeds_keeps_the_deadline_of_its_call():
    harness = harness_in(S.READY)
    id = harness.call("me", timeout=1.0)
    harness.refuse(id)
    harness.wait(0.02)
    harness.wrote()
    assert harness.core.calls.pending[id].state is ExchangeState.SENT
    assert harness.core.calls.timers.at(id) == 1.0
    harness.respond(id)
    assert harness.only(e.Complete).caller == "me"


def test_a_response_to_a_call_that_was_refused_is_unknown():
    harness = harness_in(S.READY)
    id = harness.call("me")
    harness.refuse(id)
    harness.respond(id)
    assert harness.only(e.Stray).kind == "unknown"
    assert harness.outcomes_of("me") == 0


def test_calls_that_wait_for_a_retry_did_not_run_when_the_transport_goes_down():
    harness = harness_in(S.READY)
    lost, kept = harness.call("lost"), harness.call("kept", wait_for_ready=True)
    harness.refuse(lost)
    harness.refuse(kept)
    harness.down()
    assert type(harness.error_of("lost")) is TransportError
    assert harness.error_of("lost").may_have_run is False
    harness.reconnect().agree()
    assert harness.methods()[-1] == "tools/call"
    assert harness.outcomes_of("kept") == 0


def test_with_busy_wait_a_call_waits_until_its_deadline():
    harness = harness_in(S.READY, busy="wait")
    first, _second = harness.call("first"), harness.call("second", timeout=5.0)
    harness.refuse(first)
    harness.refuse(_second)
    third = harness.call("third")
    assert harness.methods() == []
    harness.wait(5.1)
    assert harness.error_of("second").sent is False
    harness.step(e.BecameWritable(harness.epoch))
    assert [frame["id"] for frame in harness.frames()] == [first, third]


def test_a_refusal_of_an_unknown_call_is_counted():
    harness = harness_in(S.READY)
    id = harness.written_call("me")
    harness.respond(id)
    harness.refuse(id)
    assert harness.core.counts["ignored Refused"] == 1
    id = harness.call("you")
    harness.refuse(id)
    harness.refuse(id)
    assert harness.core.counts["ignored Refused"] == 2


def test_a_queued_call_is_sent_when_another_failed_and_the_transport_is_writable():
    harness = harness_in(S.READY, max_pending=1, retry_attempts=1)
    first = harness.call("first")
    second = harness.call("second", busy="wait")
    assert harness.methods() == []
    harness.refuse(first)
    assert isinstance(harness.error_of("first"), BackpressureError)
    assert harness.frames() == [], "the transport is busy"
    harness.step(e.BecameWritable(harness.epoch))
    assert [frame["id"] for frame in harness.frames()] == [second]


def test_queued_calls_are_sent_in_batches_until_the_first_refusal():
    harness = harness_in(S.READY, busy="wait", max_pending=10_000)
    first = harness.call()
    harness.refuse(first)
    rest = [harness.call() for _ in range(5 * FLUSH_BATCH_SIZE)]
    assert harness.frames(harness.history[-5 * FLUSH_BATCH_SIZE :]) == [], "the transport is busy"
    harness.step(e.BecameWritable(harness.epoch))
    assert [frame["id"] for frame in harness.frames()] == [first, *rest[: FLUSH_BATCH_SIZE - 1]]
    assert isinstance(harness.out[-1], e.Resume)
    harness.step(e.Resumed())
    sent_ids = [frame["id"] for frame in harness.frames()]
    assert sent_ids == rest[FLUSH_BATCH_SIZE - 1 : 2 * FLUSH_BATCH_SIZE - 1]
    for id in sent_ids[3:]:
        harness.refuse(id)
    assert harness.step(e.Resumed()) == [], "the transport refused the frames"
    harness.step(e.BecameWritable(harness.epoch))
    sent = [frame["id"] for frame in harness.frames()]
    while isinstance(harness.out[-1], e.Resume):
        harness.step(e.Resumed())
        sent += [frame["id"] for frame in harness.frames()]
    assert sorted(sent) == sorted([*sent_ids[3:], *rest[2 * FLUSH_BATCH_SIZE - 1 :]])
    assert not harness.core.calls.queue


def test_after_a_refusal_no_queued_calls_are_sent():
    harness = harness_in(S.INITIALIZING, wait_for_ready=True)
    ids = [harness.call() for _ in range(3 * FLUSH_BATCH_SIZE)]
    harness.agree()
    sent_ids = [frame["id"] for frame in harness.frames() if frame["method"] == "tools/call"]
    assert sent_ids == ids[:FLUSH_BATCH_SIZE]
    harness.refuse(sent_ids[-1])
    assert harness.step(e.Resumed()) == []
    harness.step(e.BecameWritable(harness.epoch))
    assert [frame["id"] for frame in harness.frames()] == ids[FLUSH_BATCH_SIZE : 2 * FLUSH_BATCH_SIZE]


# --- frames that must arrive ------------------------------------------------------------------------------------------


def request_from_server(harness, id, method="sampling/createMessage"):
    harness.receive_json(id=id, method=method, params={})


def refuse_frames(harness):
    """Refuse every frame of the last turn that must arrive."""
    for effect in [effect for effect in harness.effects(e.Send) if effect.must_arrive]:
        harness.step(e.FrameRefused(harness.epoch, effect.frame, effect.response_to))


def test_a_refused_response_is_sent_when_the_transport_is_writable():
    harness = harness_in(S.READY)
    request_from_server(harness, "a")
    request_from_server(harness, "b")
    harness.step(e.Finished("a", b'{"n":1}'))
    refuse_frames(harness)
    harness.step(e.Finished("b", b'{"n":2}'))
    assert harness.frames() == [], "queued behind the kept frame"
    harness.step(e.BecameWritable(harness.epoch))
    assert [(frame["id"], frame["result"]["n"]) for frame in harness.frames()] == [("a", 1), ("b", 2)]
    refuse_frames(harness)
    harness.step(e.BecameWritable(harness.epoch))
    assert [frame["id"] for frame in harness.frames()] == ["a", "b"], "kept again"
    assert harness.step(e.BecameWritable(harness.epoch)) == []


def test_a_kept_response_is_sent_before_queued_calls():
    harness = harness_in(S.READY, busy="wait")
    request_from_server(harness, "a")
    call = harness.call()
    harness.refuse(call)
    harness.step(e.Finished("a"))
    refuse_frames(harness)
    harness.step(e.BecameWritable(harness.epoch))
    assert [frame["id"] for frame in harness.frames()] == ["a", call]


def test_a_kept_response_is_dropped_when_the_server_cancels_its_request():
    harness = harness_in(S.READY)
    for id in ("a", "b"):
        request_from_server(harness, id)
        harness.step(e.Finished(id))
        refuse_frames(harness)
    harness.receive_json(method="notifications/cancelled", params={"requestId": "a"})
    harness.step(e.BecameWritable(harness.epoch))
    assert [frame["id"] for frame in harness.frames()] == ["b"]


def test_the_id_of_a_kept_response_is_still_in_use():
    """Otherwise a second request with this id would get two responses."""
    harness = harness_in(S.READY)
    request_from_server(harness, "a")
    harness.step(e.Finished("a"))
    refuse_frames(harness)
    request_from_server(harness, "a")
    assert harness.effects(e.Serve) == []
    harness.step(e.BecameWritable(harness.epoch))
    assert [sorted(frame) for frame in harness.frames()] == [
        ["id", "jsonrpc", "result"],
        ["error", "id", "jsonrpc"],
    ]


def test_kept_responses_count_as_requests_in_progress():
    """A server that sends requests without reading responses gets errors, and then no responses at all."""
    harness = harness_in(S.READY)
    for number in range(MAX_HANDLERS):
        request_from_server(harness, number)
    for number in range(MAX_HANDLERS):
        harness.step(e.Finished(number))
        refuse_frames(harness)
    request_from_server(harness, "one more")
    assert harness.effects(e.Serve) == []
    assert "responses wait" in harness.only(e.Violation).reason
    request_from_server(harness, "and a ping", "ping")
    assert "responses wait" in harness.only(e.Violation).reason
    harness.step(e.BecameWritable(harness.epoch))
    assert [frame["id"] for frame in harness.frames()] == list(range(MAX_HANDLERS))
    request_from_server(harness, "again")
    assert harness.only(e.Serve).id == "again"


def test_frames_kept_for_one_transport_are_never_sent_to_the_next():
    harness = harness_in(S.READY)
    request_from_server(harness, "a")
    harness.step(e.Finished("a"))
    refuse_frames(harness)
    harness.down()
    harness.reconnect().agree()
    assert harness.step(e.BecameWritable(harness.epoch)) == []


def test_a_refused_response_to_ping_during_the_handshake_is_sent_later():
    harness = harness_in(S.INITIALIZING)
    request_from_server(harness, "p", "ping")
    refuse_frames(harness)
    harness.step(e.BecameWritable(harness.epoch))
    assert [frame["id"] for frame in harness.frames()] == ["p"]


def test_initialized_is_kept_too():
    """2025-11-25 basic/lifecycle: the server may wait for it."""
    harness = harness_in(S.INITIALIZING)
    harness.agree()
    refuse_frames(harness)
    harness.step(e.BecameWritable(harness.epoch))
    assert harness.methods() == ["notifications/initialized"]


def test_notifications_are_kept_up_to_a_limit():
    harness = harness_in(S.READY)
    for number in range(MAX_HANDLERS):
        harness.step(e.Notified(caller=number, method="notifications/roots/list_changed"))
        refuse_frames(harness)
    harness.step(e.Notified(caller="late", method="notifications/roots/list_changed"))
    assert isinstance(harness.error_of("late"), BackpressureError)
    harness.step(e.BecameWritable(harness.epoch))
    assert len(harness.frames()) == MAX_HANDLERS


def test_a_queued_call_is_sent_however_another_ends(subtests):
    cases = [
        lambda harness, call: harness.respond(call),
        lambda harness, call: harness.step(e.CallCancelled(call)),
        lambda harness, call: harness.step(e.Expired(call)),
        lambda harness, call: harness.receive_json(id=call, error={"code": -1, "message": "no"}),
        lambda harness, call: harness.receive_json(id=call, result={}, error={"code": -1, "message": "no"}),
        lambda harness, call: harness.lost(call, OutcomeUnknownError("the response ended")),
    ]
    for end in cases:
        with subtests.test(end=end):
            harness = harness_in(S.READY, max_pending=1, hang_timeout=None)
            first = harness.written_call("first")
            second = harness.call("second", busy="wait")
            end(harness, first)
            assert second in [frame.get("id") for frame in harness.frames()]


def test_subscriptions_and_keepalives_do_not_count_towards_max_pending():
    harness = Harness(versions=STATELESS, max_pending=2).ready()
    for key in ("a", "b"):
        harness.step(e.Subscribed(key, None, ("subscriptions/listen", b"{}")))
    assert harness.call("me") != 0
    assert harness.methods() == ["tools/call"]
