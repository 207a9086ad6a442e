"""What users do while the transport has no room: calls that are refused or wait, and what must arrive all the same."""

import pytest

from jackstay.errors import (
    BackpressureError,
    OutcomeUnknownError,
    TransportError,
)
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import BITE, Retry
from jackstay.protocol.client._exchange import ExchangeState
from jackstay.protocol.client._settings import MAX_HANDLERS
from model.rig import STATELESS, Rig, S, rig_in

# --- busy -------------------------------------------------------------------------------------------------------------


def test_a_busy_transport_is_asked_three_times_by_time():
    """Row 14: 1 attempt + 2 retries, per id."""
    rig = rig_in(S.READY)
    id = rig.call("me")
    for luck, delay in ((0.0, 0.005), (0.999, 0.015)):
        rig.luck = luck
        rig.refuse(id)
        assert rig.out == []
        rig.wait(delay - 0.001)
        assert rig.out == []
        rig.wait(0.002)
        assert [frame["id"] for frame in rig.frames()] == [id]
    rig.refuse(id)
    error = rig.error_of("me")
    assert error.message == "transport busy after 3 attempts"
    assert error.details == {"attempts": 3, "request_id": id}
    assert error.may_have_run is False
    assert not rig.core.calls.tombstones.holds(id, rig.now)
    assert id not in rig.core.calls.timers
    assert Retry(id) not in rig.core.calls.timers


def test_a_retry_that_is_taken_is_in_flight_with_its_own_deadline():
    """Table: retry tick."""
    rig = rig_in(S.READY)
    id = rig.call("me", timeout=1.0)
    rig.refuse(id)
    rig.wait(0.02)
    rig.wrote()
    assert rig.core.calls.pending[id].state is ExchangeState.SENT
    assert rig.core.calls.timers.at(id) == 1.0
    rig.answer(id)
    assert rig.only(e.Complete).caller == "me"


def test_an_answer_to_a_call_that_was_refused_is_an_answer_to_nobody():
    rig = rig_in(S.READY)
    id = rig.call("me")
    rig.refuse(id)
    rig.answer(id)
    assert rig.only(e.Stray).kind == "unknown"
    assert rig.outcomes_of("me") == 0


def test_calls_waiting_for_a_retry_were_not_sent_when_the_transport_goes_down():
    """Row 14: TransportError, or kept with wait_for_ready."""
    rig = rig_in(S.READY)
    lost, kept = rig.call("lost"), rig.call("kept", wait_for_ready=True)
    rig.refuse(lost)
    rig.refuse(kept)
    rig.down()
    assert type(rig.error_of("lost")) is TransportError
    assert rig.error_of("lost").may_have_run is False
    rig.reconnect().agree()
    assert rig.methods()[-1] == "tools/call"
    assert rig.outcomes_of("kept") == 0


def test_with_busy_wait_a_call_waits_for_room_until_its_deadline():
    """Row 14: option busy="wait"."""
    rig = rig_in(S.READY, busy="wait")
    first, _second = rig.call("first"), rig.call("second", timeout=5.0)
    rig.refuse(first)
    rig.refuse(_second)
    third = rig.call("third")
    assert rig.methods() == []
    rig.wait(5.1)
    assert rig.error_of("second").sent is False
    rig.step(e.RoomMade(rig.epoch))
    assert [frame["id"] for frame in rig.frames()] == [first, third]


def test_a_refusal_nobody_waits_for_is_counted():
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    rig.answer(id)
    rig.refuse(id)
    assert rig.core.counts["ignored Refused"] == 1
    id = rig.call("you")
    rig.refuse(id)
    rig.refuse(id)
    assert rig.core.counts["ignored Refused"] == 2


def test_room_that_a_failed_call_leaves_is_given_to_those_who_wait():
    """Section 4: over max_pending, wait with busy="wait"."""
    rig = rig_in(S.READY, max_pending=1, retry_attempts=1)
    first = rig.call("first")
    second = rig.call("second", busy="wait")
    assert rig.methods() == []
    rig.refuse(first)
    assert isinstance(rig.error_of("first"), BackpressureError)
    assert rig.frames() == [], "the transport has just said busy"
    rig.step(e.RoomMade(rig.epoch))
    assert [frame["id"] for frame in rig.frames()] == [second]


def test_calls_that_wait_are_offered_a_bite_at_a_time_until_the_first_refusal():
    """Row 14: a queue of thousands must not be offered whole to a transport that takes a few of it."""
    rig = rig_in(S.READY, busy="wait", max_pending=10_000)
    first = rig.call()
    rig.refuse(first)
    rest = [rig.call() for _ in range(5 * BITE)]
    assert rig.frames(rig.history[-5 * BITE :]) == [], "the transport is full"
    rig.step(e.RoomMade(rig.epoch))
    assert [frame["id"] for frame in rig.frames()] == [first, *rest[: BITE - 1]]
    assert isinstance(rig.out[-1], e.Resume)
    rig.step(e.Resumed())
    offered = [frame["id"] for frame in rig.frames()]
    assert offered == rest[BITE - 1 : 2 * BITE - 1]
    for id in offered[3:]:
        rig.refuse(id)
    assert rig.step(e.Resumed()) == [], "what was offered found no room"
    rig.step(e.RoomMade(rig.epoch))
    sent = [frame["id"] for frame in rig.frames()]
    while isinstance(rig.out[-1], e.Resume):
        rig.step(e.Resumed())
        sent += [frame["id"] for frame in rig.frames()]
    assert sorted(sent) == sorted([*offered[3:], *rest[2 * BITE - 1 :]])
    assert not rig.core.calls.queue


def test_a_refused_call_stops_the_offering_of_those_that_waited_for_ready():
    """Rows 14 and 15: an attempt is not spent on a transport that has just said busy."""
    rig = rig_in(S.INITIALIZING, wait_for_ready=True)
    ids = [rig.call() for _ in range(3 * BITE)]
    rig.agree()
    offered = [frame["id"] for frame in rig.frames() if frame["method"] == "tools/call"]
    assert offered == ids[:BITE]
    rig.refuse(offered[-1])
    assert rig.step(e.Resumed()) == []
    rig.step(e.RoomMade(rig.epoch))
    assert [frame["id"] for frame in rig.frames()] == ids[BITE : 2 * BITE]


# --- what must arrive -------------------------------------------------------------------------------------------------


def asked(rig, id, method="sampling/createMessage"):
    rig.say(id=id, method=method, params={})


def refused_answer(rig):
    """The transport is busy for every frame of the last turn that must arrive."""
    for effect in [effect for effect in rig.effects(e.Send) if effect.must_arrive]:
        rig.step(e.FrameRefused(rig.epoch, effect.frame, effect.answers))


def test_an_answer_that_finds_no_room_is_sent_when_there_is_some():
    """Row 20: a request of the server's is answered, whatever the pipe is like at that moment."""
    rig = rig_in(S.READY)
    asked(rig, "a")
    asked(rig, "b")
    rig.step(e.Replied("a", b'{"n":1}'))
    refused_answer(rig)
    rig.step(e.Replied("b", b'{"n":2}'))
    assert rig.frames() == [], "behind what waits, in order"
    rig.step(e.RoomMade(rig.epoch))
    assert [(frame["id"], frame["result"]["n"]) for frame in rig.frames()] == [("a", 1), ("b", 2)]
    refused_answer(rig)
    rig.step(e.RoomMade(rig.epoch))
    assert [frame["id"] for frame in rig.frames()] == ["a", "b"], "refused again: kept again"
    assert rig.step(e.RoomMade(rig.epoch)) == []


def test_an_answer_that_waits_goes_before_calls_that_wait():
    rig = rig_in(S.READY, busy="wait")
    asked(rig, "a")
    call = rig.call()
    rig.refuse(call)
    rig.step(e.Replied("a"))
    refused_answer(rig)
    rig.step(e.RoomMade(rig.epoch))
    assert [frame["id"] for frame in rig.frames()] == ["a", call]


def test_a_request_that_the_server_cancels_is_not_answered_from_what_waits():
    """Section 2: `notifications/cancelled` of the server: nothing is answered."""
    rig = rig_in(S.READY)
    for id in ("a", "b"):
        asked(rig, id)
        rig.step(e.Replied(id))
        refused_answer(rig)
    rig.say(method="notifications/cancelled", params={"requestId": "a"})
    rig.step(e.RoomMade(rig.epoch))
    assert [frame["id"] for frame in rig.frames()] == ["b"]


def test_an_id_whose_answer_waits_is_still_in_use():
    """A second request under it would have two answers."""
    rig = rig_in(S.READY)
    asked(rig, "a")
    rig.step(e.Replied("a"))
    refused_answer(rig)
    asked(rig, "a")
    assert rig.effects(e.Serve) == []
    rig.step(e.RoomMade(rig.epoch))
    assert [sorted(frame) for frame in rig.frames()] == [
        ["id", "jsonrpc", "result"],
        ["error", "id", "jsonrpc"],
    ]


def test_answers_that_wait_count_as_being_served_and_are_bounded():
    """Row 16: 64 at a time. A server that asks without reading is refused, and then not answered at all."""
    rig = rig_in(S.READY)
    for number in range(MAX_HANDLERS):
        asked(rig, number)
    for number in range(MAX_HANDLERS):
        rig.step(e.Replied(number))
        refused_answer(rig)
    asked(rig, "one more")
    assert rig.effects(e.Serve) == []
    assert "answers wait" in rig.only(e.Violation).reason
    asked(rig, "and a ping", "ping")
    assert "answers wait" in rig.only(e.Violation).reason
    rig.step(e.RoomMade(rig.epoch))
    assert [frame["id"] for frame in rig.frames()] == list(range(MAX_HANDLERS))
    asked(rig, "again")
    assert rig.only(e.Serve).id == "again"


def test_what_was_kept_for_one_server_is_never_sent_to_the_next():
    rig = rig_in(S.READY)
    asked(rig, "a")
    rig.step(e.Replied("a"))
    refused_answer(rig)
    rig.down()
    rig.reconnect().agree()
    assert rig.step(e.RoomMade(rig.epoch)) == []


def test_a_pong_that_finds_no_room_during_the_handshake_is_sent_when_there_is_some():
    """Row 20: `ping` is answered in initializing."""
    rig = rig_in(S.INITIALIZING)
    asked(rig, "p", "ping")
    refused_answer(rig)
    rig.step(e.RoomMade(rig.epoch))
    assert [frame["id"] for frame in rig.frames()] == ["p"]


def test_initialized_is_kept_too():
    """2025-11-25 basic/lifecycle: the server may wait for it before it does anything."""
    rig = rig_in(S.INITIALIZING)
    rig.agree()
    refused_answer(rig)
    rig.step(e.RoomMade(rig.epoch))
    assert rig.methods() == ["notifications/initialized"]


def test_notifications_wait_for_room_and_are_refused_when_too_many_do():
    rig = rig_in(S.READY)
    for number in range(MAX_HANDLERS):
        rig.step(e.Notified(caller=number, method="notifications/roots/list_changed"))
        refused_answer(rig)
    rig.step(e.Notified(caller="late", method="notifications/roots/list_changed"))
    assert isinstance(rig.error_of("late"), BackpressureError)
    rig.step(e.RoomMade(rig.epoch))
    assert len(rig.frames()) == MAX_HANDLERS


@pytest.mark.parametrize(
    "end",
    [
        lambda rig, call: rig.answer(call),
        lambda rig, call: rig.step(e.GaveUp(call)),
        lambda rig, call: rig.step(e.Expired(call)),
        lambda rig, call: rig.say(id=call, error={"code": -1, "message": "no"}),
        lambda rig, call: rig.say(id=call, result={}, error={"code": -1, "message": "no"}),
        lambda rig, call: rig.lost(call, OutcomeUnknownError("the response ended")),
    ],
)
def test_room_is_given_on_however_a_call_ends(end):
    rig = rig_in(S.READY, max_pending=1, hang_timeout=None)
    first = rig.written_call("first")
    second = rig.call("second", busy="wait")
    end(rig, first)
    assert second in [frame.get("id") for frame in rig.frames()]


def test_subscriptions_and_keepalives_do_not_use_up_the_room_for_calls():
    """Section 4: `max_pending` limits the calls that are open."""
    rig = Rig(versions=STATELESS, max_pending=2).ready()
    for key in ("a", "b"):
        rig.step(e.Subscribed(key, None, ("subscriptions/listen", b"{}")))
    assert rig.call("me") != 0
    assert rig.methods() == ["tools/call"]
