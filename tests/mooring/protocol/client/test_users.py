"""What a user can do with a connection, row by row: calls, waiting, giving up, busy, subscriptions, server facts."""

import json

import pytest

from model.rig import HANDSHAKE, STATELESS, Rig, S, rig_in
from mooring.errors import (
    BackpressureError,
    FrameTooLargeError,
    McpError,
    OutcomeUnknownError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
)
from mooring.protocol.client import events as e
from mooring.protocol.client._calls import BITE, Retry
from mooring.protocol.client._exchange import ExchangeState, Role
from mooring.protocol.client._settings import MAX_HANDLERS

# --- calls ------------------------------------------------------------------------------------------------------------


def test_a_call_stays_pending_until_its_one_outcome():
    """Row 1: one awaitable per call; the id is told first."""
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    assert rig.outcomes_of("me") == 0
    rig.answer(id, {"content": []})
    assert rig.only(e.Complete).caller == "me"
    rig.answer(id, {"content": []})
    rig.step(e.GaveUp(id))
    rig.step(e.Expired(id))
    assert rig.outcomes_of("me") == 1


WAITS = [
    (False, None, False),
    (True, None, True),
    (False, True, True),
    (True, False, False),
]


@pytest.mark.parametrize("state", [S.STARTING, S.INITIALIZING, S.BACKOFF])
@pytest.mark.parametrize(("setting", "per_call", "is_queued"), WAITS)
def test_a_call_waits_for_ready_per_client_or_per_call(state, setting, per_call, is_queued):
    """Row 15."""
    rig = rig_in(state, wait_for_ready=setting)
    id = rig.call("me", wait_for_ready=per_call)
    if is_queued:
        assert list(rig.core.calls.queue) == [id]
        assert rig.core.calls.timers.at(id) == rig.now + 30.0
    else:
        assert isinstance(rig.error_of("me"), StateError)
        assert rig.core.calls.pending.keys() <= {1}  # the handshake's own


def test_waiting_calls_are_flushed_in_order_after_subscriptions():
    """Row 15: flushed in ready after subscriptions were re-sent."""
    rig = Rig(wait_for_ready=True)
    rig.start()
    rig.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    for method in ("tools/list", "prompts/list", "tools/call"):
        rig.call(method=method)
    rig.spawned()
    rig.up()
    rig.wrote()
    assert rig.methods(rig.history) == ["initialize"]
    rig.agree()
    assert rig.methods() == [
        "notifications/initialized",
        "resources/subscribe",
        "tools/list",
        "prompts/list",
        "tools/call",
    ]


def test_a_waiting_call_keeps_its_deadline():
    """Row 2: both deadlines cover queueing. Table: deadline in starting, sent=False."""
    rig = Rig(wait_for_ready=True)
    rig.start()
    rig.call("me", timeout=4.0)
    rig.wait(3.9)
    assert rig.outcomes_of("me") == 0
    rig.wait(0.2)
    error = rig.error_of("me")
    assert isinstance(error, TimeoutError)
    assert (error.sent, error.may_have_run, error.retryable) == (False, False, True)
    assert rig.core.calls.queue == {}


def test_a_waiting_call_survives_failures_of_the_connection():
    """G5: with wait_for_ready the first call after a crash succeeds within its deadline."""
    rig = rig_in(S.READY)
    rig.down()
    id = rig.call("me", wait_for_ready=True)
    rig.reconnect()
    rig.down()
    rig.reconnect().agree()
    assert rig.methods()[-1] == "tools/call"
    rig.answer(id)
    assert rig.outcomes_of("me") == 1
    assert rig.only(e.Complete).caller == "me"


def test_too_many_waiting_calls_are_refused():
    rig = Rig(wait_for_ready=True, max_queued=2)
    rig.start()
    rig.call("a")
    rig.call("b")
    rig.call("c")
    assert isinstance(rig.error_of("c"), BackpressureError)
    assert "max_queued is 2" in str(rig.error_of("c"))


def test_an_oversized_call_fails_only_itself():
    """Row 17: both directions."""
    rig = rig_in(S.READY, max_frame_bytes=1024)
    rig.written_call("other")
    rig.call("big", params=b'{"x":"%b"}' % (b"y" * 2000))
    assert isinstance(rig.error_of("big"), FrameTooLargeError)
    assert rig.error_of("big").may_have_run is False
    assert rig.state is S.READY
    assert rig.outcomes_of("other") == 0


def test_a_call_of_the_stateless_era_carries_the_envelope():
    rig = Rig(versions=STATELESS, capabilities={"roots": {}}).ready()
    rig.call(params=b'{"name":"x"}', meta=b'"io.modelcontextprotocol/logLevel":"debug"', wants_progress=True)
    (frame,) = rig.frames()
    assert frame["params"]["name"] == "x"
    assert frame["params"]["_meta"] == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/clientInfo": rig.core.settings.client_info,
        "progressToken": frame["id"],
        "io.modelcontextprotocol/logLevel": "debug",
    }


def test_a_call_of_the_handshake_era_carries_none():
    rig = rig_in(S.READY)
    rig.call(params=b'{"name":"x"}')
    assert rig.frames()[0]["params"] == {"name": "x"}


# --- giving up and running out of time --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [e.GaveUp, e.Expired])
def test_a_written_call_is_cancelled_once_and_becomes_a_tombstone(how):
    """G11, table: caller gives up; soft or hard deadline."""
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    for _ in range(10):
        rig.step(how(id))
        rig.step(e.GaveUp(id))
    cancels = [frame for frame in rig.frames(rig.history) if frame.get("method") == "notifications/cancelled"]
    assert cancels == [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}]
    assert rig.outcomes_of("me") == (1 if how is e.Expired else 0)
    assert rig.core.calls.tombstones.holds(id, rig.now)


@pytest.mark.parametrize("how", [e.GaveUp, e.Expired])
def test_a_call_still_in_our_queue_is_taken_back_and_surely_not_sent(how):
    """Row 14, G11: never for a call still in our queue."""
    rig = rig_in(S.READY)
    id = rig.call("me")
    rig.step(how(id))
    assert rig.only(e.Withdraw).id == id
    assert rig.methods() == []
    assert not rig.core.calls.tombstones.holds(id, rig.now)
    if how is e.Expired:
        assert rig.error_of("me").sent is False


def test_written_means_that_its_own_frame_was_written():
    rig = rig_in(S.READY)
    first, second = rig.call("first"), rig.call("second")
    rig.wrote(rig.core.calls.pending[first].number)
    rig.step(e.Expired(first))
    rig.step(e.Expired(second))
    assert rig.error_of("first").sent is True
    assert rig.error_of("second").sent is False


def test_what_was_written_is_never_unwritten():
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    rig.wrote(0)
    rig.step(e.Expired(id))
    assert rig.error_of("me").sent is True


def test_deadlines_run_by_themselves():
    """Row 2: soft 30 s, cancelled on the wire."""
    rig = rig_in(S.READY)
    rig.written_call("me")
    rig.wait(30.1)
    error = rig.error_of("me")
    assert (error.timeout, error.sent) == (30.0, True)
    assert rig.methods() == ["notifications/cancelled"]


def test_the_hard_deadline_cannot_be_moved():
    rig = rig_in(S.READY)
    id = rig.written_call("me", timeout=10.0, max_timeout=25.0, wants_progress=True)
    for _ in range(4):
        rig.wait(6.0)
        rig.say(method="notifications/progress", params={"progressToken": id, "progress": 1})
    assert rig.outcomes_of("me") == 0
    rig.wait(1.01)
    assert isinstance(rig.error_of("me"), TimeoutError)


def test_a_call_without_deadlines_waits():
    rig = rig_in(S.READY)
    rig.written_call("me", timeout=None, max_timeout=None)
    rig.wait(100_000.0)
    assert rig.outcomes_of("me") == 0


@pytest.mark.parametrize("state", [S.STARTING, S.INITIALIZING, S.BACKOFF])
def test_a_waiting_call_that_is_given_up_is_dropped(state):
    rig = rig_in(state)
    id = rig.call("me", wait_for_ready=True)
    rig.step(e.GaveUp(id))
    assert rig.out == []
    assert id not in rig.core.calls.pending
    assert rig.core.calls.queue == {}
    assert id not in rig.core.calls.timers


def test_giving_up_what_is_not_open_is_harmless():
    rig = rig_in(S.READY)
    for id in (0, 1, 999, -1):
        assert rig.step(e.GaveUp(id)) == []
        assert rig.step(e.Expired(id)) == []
        assert rig.step(e.RetryDue(id)) == []


def test_on_stateless_http_giving_up_is_hanging_up():
    """Row 6, G11: closing the response is the cancel."""
    rig = Rig(versions=STATELESS, is_http=True).ready()
    id = rig.call("me")
    rig.step(e.GaveUp(id))
    assert rig.out == [e.HangUp(id)]


def test_on_stateless_stdio_and_on_handshake_http_it_is_a_notification():
    for rig in (Rig(versions=STATELESS).ready(), Rig(is_http=True).ready()):
        id = rig.written_call("me")
        rig.step(e.GaveUp(id))
        assert rig.methods() == ["notifications/cancelled"]


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
    rig = rig_in(S.READY, max_pending=1)
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


# --- notifications and answers ----------------------------------------------------------------------------------------


def test_a_notification_is_written_and_its_caller_released():
    rig = rig_in(S.READY)
    rig.step(e.Notified(caller="me", method="notifications/progress", params=b'{"progress":1}'))
    assert rig.frames() == [{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}]
    assert rig.only(e.Release) == e.Release("me", None)
    assert rig.only(e.Send).id is None


def test_an_oversized_notification_is_refused():
    """Row 17: 16 MiB, both directions."""
    rig = rig_in(S.READY, max_frame_bytes=1024)
    rig.step(e.Notified(caller="me", method="notifications/progress", params=b'{"x":"%b"}' % (b"y" * 2000)))
    assert rig.effects(e.Send) == []
    assert isinstance(rig.error_of("me"), FrameTooLargeError)


@pytest.mark.parametrize("field", ["result", "error"])
def test_an_oversized_answer_is_replaced_by_an_error(field):
    """Row 17, and the server must not wait for ever."""
    rig = rig_in(S.READY, max_frame_bytes=1024)
    rig.say(id="q", method="sampling/createMessage")
    rig.step(e.Replied("q", **{field: b'{"x":"%b"}' % (b"y" * 2000)}))
    (effect,) = rig.effects(e.Send)
    assert len(effect.frame) <= 1024
    assert json.loads(effect.frame)["error"]["code"] == -32603


IDS = ["q", 7, 0, -1, 2**53 + 1, 2**70, "ü", ""]


@pytest.mark.parametrize("id", IDS)
def test_a_handlers_answer_goes_out_with_the_id_it_was_asked_with(id):
    rig = rig_in(S.READY)
    rig.say(id=id, method="roots/list")
    assert rig.only(e.Serve).id == id
    rig.step(e.Replied(id, b'{"roots":[]}'))
    assert rig.frames() == [{"jsonrpc": "2.0", "id": id, "result": {"roots": []}}]
    rig.say(id=id, method="roots/list")
    rig.step(e.Replied(id, error=b'{"code":-32601,"message":"no"}'))
    assert rig.frames() == [{"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}]


def test_an_answer_nobody_asked_for_is_never_written():
    rig = rig_in(S.READY)
    rig.step(e.Replied("q"))
    assert rig.out == []
    assert rig.core.counts["ignored Replied"] == 1


def test_an_answer_to_a_server_that_is_gone_is_never_written():
    rig = rig_in(S.READY)
    rig.say(id="q", method="roots/list")
    rig.down()
    assert rig.only(e.StopServing).id == "q"
    rig.reconnect().agree()
    rig.step(e.Replied("q"))
    assert rig.out == []


# --- subscriptions ----------------------------------------------------------------------------------------------------

SUBSCRIPTION = e.Subscribed(
    "k", ("resources/subscribe", b'{"uri":"x:y"}'), ("subscriptions/listen", b'{"notifications":{}}')
)


def test_a_subscription_is_opened_in_the_form_of_its_era():
    rig = rig_in(S.READY)
    rig.step(SUBSCRIPTION)
    assert rig.frames()[0]["method"] == "resources/subscribe"
    rig = Rig(versions=STATELESS).ready()
    rig.step(SUBSCRIPTION)
    assert rig.frames()[0]["method"] == "subscriptions/listen"
    assert "_meta" in rig.frames()[0]["params"]


def test_a_subscription_that_its_era_has_no_form_for_is_only_remembered():
    rig = rig_in(S.READY)
    rig.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
    assert rig.out == []


def test_a_subscription_that_a_call_has_opened_is_only_remembered():
    rig = rig_in(S.READY)
    rig.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None, True))
    assert rig.out == []
    rig.down()
    rig.reconnect().agree()
    assert "resources/subscribe" in rig.methods()


@pytest.mark.parametrize("versions", [HANDSHAKE, STATELESS])
def test_subscriptions_are_always_opened_again(versions):
    """Row 25: subscriptions are always re-opened."""
    rig = Rig(versions=versions).ready()
    rig.step(SUBSCRIPTION)
    rig.wrote()
    rig.down()
    assert rig.outcomes_of("k") == 0
    rig.reconnect().agree(versions[0])
    opened = [frame["method"] for frame in rig.frames() if "id" in frame]
    assert opened in (["resources/subscribe"], ["subscriptions/listen"])


def test_a_subscription_no_longer_wanted_is_cancelled_and_forgotten():
    rig = Rig(versions=STATELESS).ready()
    rig.step(SUBSCRIPTION)
    rig.wrote()
    id = next(x.id for x in rig.core.calls.pending.values() if x.role is Role.STANDING)
    rig.step(e.Unsubscribed("k"))
    assert rig.frames()[0]["params"] == {"requestId": id}
    rig.step(e.Unsubscribed("k"))
    assert rig.out == []
    rig.down()
    rig.reconnect().agree("2026-07-28")
    assert rig.methods() == []


def test_waiting_for_ready_and_unsubscribing_are_two_things():
    rig = rig_in(S.STARTING)
    rig.step(e.ReadyAsked("waiter"))
    rig.step(SUBSCRIPTION)
    rig.step(e.Unsubscribed("k"))
    rig.spawned()
    rig.up()
    rig.wrote()
    rig.agree()
    assert rig.only(e.Release) == e.Release("waiter", None)
    assert rig.methods() == ["notifications/initialized"]


@pytest.mark.parametrize("how", ["busy", "too large"])
def test_a_subscription_that_cannot_be_opened_is_not_lost_in_silence(how):
    """Row 25: subscriptions are always re-opened; whoever listens must learn it when that fails."""
    rig = Rig(versions=STATELESS, retry_attempts=1, max_frame_bytes=1024).ready()
    padding = b"y" * (2000 if how == "too large" else 1)
    rig.step(e.Subscribed("k", None, ("subscriptions/listen", b'{"x":"%b"}' % padding)))
    if how == "busy":
        rig.refuse(rig.only(e.Send).id)
    ended = rig.effects(e.EndSubscription, rig.history)
    assert [effect.key for effect in ended] == ["k"]
    assert isinstance(ended[0].error, McpError)


# --- ready, and who the server is -------------------------------------------------------------------------------------


def test_whoever_waits_for_ready_is_released_once():
    """Table: ready(t)."""
    rig = rig_in(S.STARTING)
    rig.step(e.ReadyAsked("a"))
    rig.step(e.ReadyAsked("b"))
    rig.step(e.WaitGivenUp("b"))
    rig.step(e.WaitGivenUp("b"))
    rig.spawned()
    rig.up()
    rig.wrote()
    rig.agree()
    assert rig.effects(e.Release) == [e.Release("a", None)]
    rig.step(e.ReadyAsked("c"))
    assert rig.out == [e.Release("c", None)]


def test_whoever_waits_for_ready_when_it_ends_is_told_why():
    rig = rig_in(S.BACKOFF)
    rig.step(e.ReadyAsked("a"))
    rig.stop()
    assert isinstance(rig.only(e.Release).error, ShutdownError)


def test_the_servers_facts_are_the_last_known_and_marked_stale():
    """Table: server info, capabilities."""
    rig = rig_in(S.INITIALIZING)
    rig.step(e.ServerAsked("me"))
    told = rig.only(e.Tell)
    assert (told.server, told.is_stale) == (None, True)
    assert isinstance(told.error, StateError)
    rig.agree()
    rig.step(e.ServerAsked("me"))
    told = rig.only(e.Tell)
    assert (told.server.version, told.is_stale, told.error) == ("2025-11-25", False, None)
    for event in (e.WentDown(1, TransportError("x")), e.StopAsked(), e.Reaped(1)):
        rig.step(event)
        rig.step(e.ServerAsked("me"))
        told = rig.only(e.Tell)
        assert (told.server.version, told.is_stale, told.error) == ("2025-11-25", True, None)


@pytest.mark.parametrize("state", [S.CLOSING, S.CLOSED])
@pytest.mark.parametrize(
    "event",
    [
        e.Called(caller="me", method="ping"),
        e.Notified(caller="me", method="notifications/x"),
        e.ReadyAsked("me"),
    ],
)
def test_an_ended_connection_refuses_everything_with_its_reason(state, event):
    """Table: call, notify and ready in closing and closed."""
    rig = rig_in(state)
    rig.step(event)
    (effect,) = rig.out
    assert effect.caller == "me"
    assert effect.error.type == "shutdown"
    assert type(effect.error).__name__ == ("ShutdownError" if state is S.CLOSING else "ClosedError")
