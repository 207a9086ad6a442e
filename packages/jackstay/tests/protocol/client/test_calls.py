"""The calls of a connection, without the connection: ids, deadlines, queues, retries, and one outcome each."""

import msgspec
import pytest

from jackstay.errors import (
    BackpressureError,
    FrameTooLargeError,
    InvalidEventError,
    JsonRpcError,
    McpError,
    ShutdownError,
    TimeoutError,
    UsageError,
)
from jackstay.protocol.client._exchange import CELLS, Exchange, ExchangeEvent, ExchangeState, Role
from jackstay.protocol.client.events import Accept, Called, CloseResponse, Complete, Fail, RetryDue, Send, Withdraw
from model.copies import copied_calls
from model.harness import HANDSHAKE, STATELESS, Harness, compare_plain_call
from scripted.calls import RAW, CallsHarness, E, X, harness_with

# --- making calls -----------------------------------------------------------------------------------------------------


def test_a_call_gets_an_id_a_deadline_and_is_written():
    harness = CallsHarness()
    exchange = harness.make(params=b'{"name":"x"}')
    assert harness.kinds() == [Accept, Send]
    assert harness.frames() == [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}]
    assert harness.calls.timers.armed == {1: 30.0}
    assert exchange.state is X.SENT
    assert exchange.number == 1


def test_responses_and_notifications_are_counted_as_frames():
    harness = CallsHarness()
    first = harness.sent("first")
    harness.calls.send_message(b"{}", None)
    second = harness.sent("second")
    harness.calls.advance(second, ExchangeEvent.CANCELLED)  # sends `notifications/cancelled`
    assert (first.number, second.number, harness.calls.number) == (1, 3, 4)


def test_ids_increase_and_are_never_reused():
    harness = CallsHarness()
    ids = []
    for _ in range(5):
        exchange = harness.make()
        ids.append(exchange.id)
        harness.turn().complete(exchange, RAW)
    assert ids == [1, 2, 3, 4, 5]


# (settings, call, soft deadline, hard deadline) at time 0.
UNSET = msgspec.UNSET
DEADLINES = [
    ({}, {}, 30.0, 300.0),
    ({}, {"timeout": 5.0}, 5.0, 300.0),
    ({}, {"timeout": 600.0}, 600.0, 600.0),
    ({}, {"timeout": None}, 300.0, 300.0),
    ({}, {"max_timeout": 10.0}, 10.0, 10.0),
    ({}, {"max_timeout": None}, 30.0, None),
    ({}, {"timeout": None, "max_timeout": None}, None, None),
    ({}, {"timeout": 50.0, "max_timeout": 20.0}, 20.0, 20.0),
    ({"request_timeout": 400.0}, {}, 400.0, 400.0),
    ({"request_timeout": None}, {}, 300.0, 300.0),
    ({"max_timeout": None}, {}, 30.0, None),
    ({"request_timeout": None, "max_timeout": None}, {}, None, None),
]


def test_the_two_deadlines(subtests):
    for options, call, soft, hard in DEADLINES:
        with subtests.test(options=options, call=call, soft=soft, hard=hard):
            harness = CallsHarness(**options)
            exchange = harness.make(**call)
            assert harness.calls.timers.at(exchange.id) == soft
            assert exchange.hard_at == hard


def test_the_error_has_the_deadline_that_expired(subtests):
    cases = [
        ({"timeout": 5.0, "max_timeout": 9.0}, 5.0, "timeout"),
        ({"timeout": 9.0, "max_timeout": 5.0}, 5.0, "max_timeout"),
        ({"timeout": 5.0, "max_timeout": 5.0}, 5.0, "timeout"),
        ({"timeout": None, "max_timeout": 5.0}, 5.0, "max_timeout"),
    ]
    for call, seconds, limit in cases:
        with subtests.test(call=call, seconds=seconds, limit=limit):
            harness = CallsHarness()
            harness.calls.expire(harness.make(**call))
            error = harness.calls.out[-1].error
            assert (error.timeout, error.limit) == (seconds, limit)
            assert str(error).endswith(f"within {seconds:g} s ({limit})")


def test_a_further_request_of_a_call_has_the_rest_of_its_deadlines(subtests):
    for began_at, moved_at, soft, hard in (
        (None, None, 30.0, 70.0),
        (-20.0, -20.0, 10.0, 50.0),
        (-20.0, -5.0, 25.0, 50.0),
    ):
        with subtests.test(began_at=began_at, moved_at=moved_at, soft=soft, hard=hard):
            harness = CallsHarness(request_timeout=30.0, max_timeout=70.0)
            exchange = harness.make(began_at=began_at, moved_at=moved_at)
            assert (exchange.soft_at, exchange.hard_at) == (soft, hard)


def test_a_request_without_time_left_is_never_sent():
    harness = CallsHarness(request_timeout=30.0)
    harness.calls.make(Called(caller="c", method="tools/list", began_at=-30.0, moved_at=-30.0), may_send=True)
    assert [type(effect).__name__ for effect in harness.calls.out] == ["Accept", "Fail"]
    assert harness.calls.out[-1].error.may_have_run is False
    assert not harness.calls.pending
    assert not len(harness.calls.timers)


def test_progress_extends_the_soft_deadline_up_to_the_hard_one():
    harness = CallsHarness(request_timeout=30.0, max_timeout=70.0)
    exchange = harness.sent()
    for at, deadline in ((20.0, 50.0), (39.0, 69.0), (41.0, 70.0), (69.9, 70.0)):
        harness.turn(at - harness.now).advance(exchange, E.PROGRESSED)
        assert harness.calls.timers.at(1) == deadline


def test_progress_without_a_soft_deadline_leaves_the_hard_one():
    harness = CallsHarness(request_timeout=None)
    exchange = harness.sent()
    harness.turn(100.0).advance(exchange, E.PROGRESSED)
    assert harness.calls.timers.at(1) == 300.0


METAS = [
    ({}, b"", None),
    ({"wants_progress": True}, b"", {"progressToken": 1}),
    ({"meta": b'"a":1'}, b"", {"a": 1}),
    ({"wants_progress": True, "meta": b'"a":1'}, b'"v":"1"', {"v": "1", "progressToken": 1, "a": 1}),
    ({}, b'"v":"1"', {"v": "1"}),
    # On behalf of another client: in the stateless era `_meta` describes that client.
    (
        {"on_behalf_of": b'"client":"other"', "meta": b'"a":1'},
        b'"client":"this"',
        {"version": 1, "client": "other", "a": 1},
    ),
    ({"on_behalf_of": b'"client":"other"'}, b"", None),
    ({"on_behalf_of": b'"client":"other"', "wants_progress": True}, b"", {"progressToken": 1}),
]


def test_the_meta_of_every_request(subtests):
    for call, request_meta, meta in METAS:
        with subtests.test(call=call, request_meta=request_meta, meta=meta):
            harness = CallsHarness()
            harness.calls.request_meta = request_meta
            harness.calls.version_meta = b'"version":1'
            harness.make(params=b'{"x":1}', **call)
            assert harness.frames()[0]["params"].get("_meta") == meta
            assert harness.frames()[0]["params"]["x"] == 1


def test_an_oversized_call_fails_and_leaves_nothing():
    harness = CallsHarness(max_frame_bytes=1024)
    other = harness.sent("other")
    harness.make("big", params=b'{"x":"%b"}' % (b"y" * 2000))
    assert harness.kinds() == [Accept, Fail]
    error = harness.fail().error
    assert isinstance(error, FrameTooLargeError)
    assert (error.limit, error.may_have_run, error.method, error.request_id) == (1024, False, "tools/call", 2)
    assert error.size > 2000
    assert list(harness.calls.pending) == [other.id]
    assert list(harness.calls.timers.armed) == [other.id]


def test_a_call_of_exactly_the_limit_is_sent():
    harness = CallsHarness(max_frame_bytes=1024)
    size = 1024 - len(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":""}}')
    harness.make(method="m", params=b'{"x":"%b"}' % (b"y" * size))
    (frame,) = [effect.frame for effect in harness.out if isinstance(effect, Send)]
    assert len(frame) == 1024


# --- limits and queues ------------------------------------------------------------------------------------------------


def test_over_max_pending_a_call_is_refused():
    harness = CallsHarness(max_pending=2)
    harness.make()
    harness.make()
    assert harness.make("third") is None
    effect = harness.fail()
    assert (effect.caller, effect.id) == ("third", 0)
    assert isinstance(effect.error, BackpressureError)
    assert effect.error.message == "too many open calls: the limit max_pending is 2"
    assert len(harness.calls.pending) == 2


def test_over_max_queued_a_call_that_may_wait_is_refused():
    harness = CallsHarness(max_queued=1, wait_for_ready=True)
    harness.make(may_send=False)
    assert harness.make("second", may_send=False) is None
    assert harness.fail().error.message == "too many queued calls: the limit max_queued is 1"


def test_queued_calls_count_against_max_pending():
    harness = CallsHarness(max_pending=1, wait_for_ready=True)
    harness.make(may_send=False)
    assert harness.make(may_send=False) is None
    assert "max_pending" in harness.fail().error.message


def test_over_max_pending_a_call_that_waits_if_busy_is_sent_later():
    harness = CallsHarness(max_pending=1, busy="wait")
    first = harness.make("first")
    second = harness.make("second")
    third = harness.make("third")
    assert (second.state, third.state) == (X.WAITING, X.WAITING)
    harness.turn().complete(first, RAW)
    harness.calls.flush()
    assert harness.kinds() == [Send]
    assert second.state is X.SENT
    assert third.state is X.WAITING


def test_a_call_can_override_busy():
    harness = CallsHarness(max_pending=1)
    harness.make()
    assert harness.make(busy="wait").state is X.WAITING
    assert harness.make(busy="retry") is None


def test_queued_calls_keep_their_order():
    harness = CallsHarness(wait_for_ready=True)
    for caller in "abcde":
        harness.make(caller, may_send=False)
    harness.turn().flush()
    assert [frame["id"] for frame in harness.frames()] == [1, 2, 3, 4, 5]
    assert not harness.calls.queue


def test_flush_stops_at_max_pending():
    harness = CallsHarness(max_pending=2, busy="wait")
    for _ in range(4):
        harness.make(may_send=False)
    harness.turn().flush()
    assert [frame["id"] for frame in harness.frames()] == [1, 2]
    assert list(harness.calls.queue) == [3, 4]


def test_an_oversized_queued_call_does_not_block_later_calls():
    harness = CallsHarness(max_frame_bytes=1024, wait_for_ready=True)
    harness.make("big", may_send=False, params=b'{"x":"%b"}' % (b"y" * 2000))
    harness.make("small", may_send=False)
    harness.turn().flush()
    assert harness.fail().caller == "big"
    assert [frame["id"] for frame in harness.frames()] == [2]


UNSENDABLE = [{"method": "x" * 300}, {"method": "\ud800"}, {"params": b"[]", "wants_progress": True}]


def test_a_call_that_cannot_be_encoded_fails_and_leaves_nothing(subtests):
    for call in UNSENDABLE:
        with subtests.test(call=call):
            harness = CallsHarness()
            try:
                harness.make("bad", **call)
            except McpError:
                assert not any(isinstance(effect, Fail) for effect in harness.out)
            else:
                assert harness.fail().caller == "bad"
            assert harness.calls.pending == {}
            assert len(harness.calls.timers) == 0


def test_a_queued_call_that_cannot_be_encoded_does_not_block_later_calls(subtests):
    for call in UNSENDABLE:
        with subtests.test(call=call):
            harness = CallsHarness(wait_for_ready=True)
            harness.make("bad", may_send=False, **call)
            harness.make("good", may_send=False)
            harness.turn().flush()
            assert [frame["id"] for frame in harness.frames()] == [2]


def test_while_the_transport_is_busy_calls_wait_in_order():
    harness = CallsHarness(busy="wait")
    first = harness.make("first")
    harness.calls.is_full = True
    harness.turn().advance(first, E.REFUSED)
    second = harness.make("second")
    assert list(harness.calls.queue) == [1, 2]
    assert (first.number, first.attempts, second.number) == (0, 0, 0)
    harness.calls.is_full = False
    harness.turn().flush()
    assert [frame["id"] for frame in harness.frames()] == [1, 2]


def test_a_new_transport_counts_its_frames_from_one():
    harness = CallsHarness()
    harness.sent()
    harness.calls.is_full = True
    harness.calls.reset_transport()
    assert (harness.calls.number, harness.calls.written, harness.calls.is_full) == (0, 0, False)


# --- busy -------------------------------------------------------------------------------------------------------------


def test_a_busy_transport_gets_three_attempts():
    harness = CallsHarness()
    exchange = harness.make()
    for jitter, delay in ((0.0, 0.005), (0.5, 0.010)):
        harness.turn(jitter=jitter).advance(exchange, E.REFUSED)
        assert exchange.state is X.BUSY
        assert harness.out == []
        assert harness.calls.timers.at(RetryDue(1)) == pytest.approx(harness.now + delay)
        harness.calls.timers.disarm(RetryDue(1))
        harness.turn(0.02).send_request(exchange)
        assert harness.kinds() == [Send]
    harness.turn().advance(exchange, E.REFUSED)
    error = harness.fail().error
    assert isinstance(error, BackpressureError)
    assert error.message == "transport busy after 3 attempts"
    assert error.details == {"attempts": 3, "request_id": 1}
    assert error.may_have_run is False
    assert harness.calls.pending == {}
    assert len(harness.calls.tombstones) == 0
    assert len(harness.calls.timers) == 0


def test_retries_are_counted_per_call():
    harness = CallsHarness(retry_attempts=2)
    first, second = harness.make("first"), harness.make("second")
    harness.turn().advance(first, E.REFUSED)
    harness.turn().advance(second, E.REFUSED)
    assert (first.state, second.state) == (X.BUSY, X.BUSY)


def test_with_one_attempt_there_is_no_retry():
    harness = CallsHarness(retry_attempts=1)
    exchange = harness.make()
    harness.turn().advance(exchange, E.REFUSED)
    assert harness.fail().error.message == "transport busy after 1 attempts"


def test_the_deadline_applies_while_busy():
    harness = CallsHarness()
    exchange = harness.make(timeout=1.0)
    harness.turn(0.5).advance(exchange, E.REFUSED)
    assert harness.calls.timers.at(1) == 1.0
    harness.turn(0.5).expire(exchange)
    error = harness.fail().error
    assert isinstance(error, TimeoutError)
    assert error.sent is False
    assert len(harness.calls.timers) == 0
    assert len(harness.calls.tombstones) == 0


# --- the end of a call ------------------------------------------------------------------------------------------------


def state_of(calls):
    return (
        list(calls.pending),
        list(calls.queue),
        dict(calls.timers.armed),
        list(calls.tombstones),
        calls.late,
        calls.unknown,
        calls.out,
    )


def test_the_fast_path_has_the_same_effects_as_the_table(subtests):
    for others in (0, 2):
        for queued in (0, 1, 3):
            with subtests.test(others=others, queued=queued):
                outs = []
                for is_fast in (True, False):
                    harness = CallsHarness(max_pending=1 + others, busy="wait")
                    exchange = harness.sent("me")
                    for number in range(others):
                        harness.sent(number)
                    for number in range(queued):
                        harness.make(("queued", number))
                    calls = harness.turn(1.0)
                    if is_fast:
                        calls.out.append(calls.complete(exchange, RAW))
                        calls.flush()
                    else:
                        calls.advance(exchange, E.ANSWERED, RAW)
                        calls.flush()
                    outs.append(state_of(calls))
                assert outs[0] == outs[1]
                assert isinstance(outs[0][-1][0], Complete)


def test_an_error_response_fails_the_caller():
    harness = CallsHarness()
    exchange = harness.sent()
    harness.turn().advance(exchange, E.ANSWERED, JsonRpcError(-32601, "no"))
    assert harness.fail().error.code == -32601
    assert harness.fail().error.request_id == 1
    assert harness.calls.pending == {}


# (how, written, effects, tombstone)
ENDS = [
    ("cancel", True, [Send], True),
    ("cancel", False, [Withdraw], False),
    ("expire", True, [Fail, Send], True),
    ("expire", False, [Withdraw, Fail], False),
]


def test_a_written_call_is_cancelled_and_an_unwritten_frame_is_withdrawn(subtests):
    for how, written, effects, has_tombstone in ENDS:
        with subtests.test(how=how, written=written, effects=effects, has_tombstone=has_tombstone):
            harness = CallsHarness()
            exchange = harness.sent() if written else harness.make()
            calls = harness.turn()
            if how == "expire":
                calls.expire(exchange)
                assert harness.fail().error.sent is written
                assert harness.fail().error.may_have_run is written
            else:
                calls.advance(exchange, E.CANCELLED)
            assert harness.kinds() == effects
            if written:
                assert harness.frames() == [
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
                ]
            assert calls.pending == {}
            assert len(calls.timers) == 0
            assert (calls.tombstones.get(1, -1.0) >= 75.0) is has_tombstone
            assert calls.tombstones.get(1, -1.0) < 75.1


def test_over_http_a_sent_request_counts_as_written():
    harness = CallsHarness(is_http=True)
    exchange = harness.make()
    assert harness.calls.is_written(exchange)
    assert not harness.calls.is_written(Exchange(9, "m", b"{}"))


def test_over_stateless_http_closing_the_response_is_the_cancellation():
    harness = CallsHarness(is_http=True)
    harness.calls.closes_response_to_cancel = True
    exchange = harness.make()
    harness.turn().advance(exchange, E.CANCELLED)
    assert harness.out == [CloseResponse(1)]


def test_a_call_of_a_lost_session_is_cancelled_by_closing_its_response():
    harness = CallsHarness(is_http=True)
    exchange = harness.make()
    harness.turn().renew_session()
    harness.turn().advance(exchange, E.CANCELLED)
    assert harness.out == [CloseResponse(1)]
    assert harness.calls.tombstones.get(1, -1.0) >= 1.0


def test_internal_requests_are_never_cancelled(subtests):
    """Never for `initialize` or the probe (docs/guarantees.md G11)."""
    for role in (Role.PROBE, Role.HANDSHAKE, Role.KEEPALIVE):
        with subtests.test(role=role):
            harness = CallsHarness()
            calls = harness.turn()
            id = calls.make_internal("initialize", b"{}", role)
            calls.written = calls.number
            harness.turn().advance(calls.pending[id], E.CANCELLED)
            assert harness.out == []


def test_a_subscription_is_cancelled_like_a_call():
    harness = CallsHarness()
    calls = harness.turn()
    id = calls.make_internal("subscriptions/listen", b"{}", Role.SUBSCRIPTION, caller="key")
    calls.written = calls.number
    harness.turn().advance(calls.pending[id], E.CANCELLED)
    assert harness.frames()[0]["method"] == "notifications/cancelled"


def test_internal_requests_have_no_deadline_and_no_caller():
    harness = CallsHarness()
    calls = harness.turn()
    id = calls.make_internal("ping", b"{}", Role.KEEPALIVE, meta=b'"a":1')
    assert harness.frames()[0]["params"] == {"_meta": {"a": 1}}
    assert len(calls.timers) == 0
    calls = harness.turn()
    calls.fail(calls.pending[id], ShutdownError())
    assert harness.out == []


# --- every event in every state ---------------------------------------------------------------------------------------


def exchange_in(state):
    """Return a harness with one exchange in that state."""
    harness, exchange = harness_with({X.BUSY: "busy", X.WAITING: "waiting"}.get(state, "written"), busy="retry")
    if state is X.WAITING:
        harness = CallsHarness(wait_for_ready=True)
        exchange = harness.make(may_send=False)
    if state is X.ABANDONED:
        harness.turn().advance(exchange, E.CANCELLED)
    if state is X.DONE:
        harness.turn().advance(exchange, E.ANSWERED, RAW)
    assert exchange.state is state
    return harness, exchange


def test_every_state_with_every_event(subtests):
    for is_strict in (True, False):
        for event in ExchangeEvent:
            for state in ExchangeState:
                with subtests.test(is_strict=is_strict, event=event, state=state):
                    harness, exchange = exchange_in(state)
                    harness.calls.is_strict = is_strict
                    outcome = {E.ANSWERED: RAW, E.REFUSED: None}.get(event, ShutdownError())
                    if (state, event) == (X.WAITING, E.SENT):
                        harness.calls.queue.clear()  # a call is removed from the queue before it is sent
                    before = state_of(harness.turn())
                    cell = CELLS[event, state]
                    if cell.is_impossible:
                        if is_strict:
                            with pytest.raises(InvalidEventError):
                                harness.calls.advance(exchange, event, outcome)
                        else:
                            harness.calls.advance(exchange, event, outcome)
                        assert exchange.state is state
                        assert state_of(harness.calls) == before
                        continue
                    harness.calls.advance(exchange, event, outcome)
                    targets = {branch.to or state for branch in cell.branches()}
                    assert exchange.state in targets
                    outcomes = [effect for effect in harness.out if isinstance(effect, Fail | Complete)]
                    assert len(outcomes) <= 1
                    is_open = exchange.state in (X.WAITING, X.BUSY, X.SENT)
                    assert (exchange.id in harness.calls.pending) is is_open
                    assert (exchange.id in harness.calls.queue) is (exchange.state is X.WAITING)
                    assert not outcomes or not is_open


COUNTED = [
    (X.WAITING, E.ANSWERED, "unknown"),
    (X.BUSY, E.ANSWERED, "unknown"),
    (X.ABANDONED, E.ANSWERED, "late"),
    (X.DONE, E.ANSWERED, "unknown"),
    (X.ABANDONED, E.PROGRESSED, "late"),
]


def test_late_and_unknown_responses_are_counted(subtests):
    for state, event, kind in COUNTED:
        with subtests.test(state=state, event=event, kind=kind):
            harness, exchange = exchange_in(state)
            harness.turn().advance(exchange, event, RAW)
            assert (harness.calls.late, harness.calls.unknown) == ((1, 0) if kind == "late" else (0, 1))
            assert harness.out == []


def test_a_copy_is_independent():
    harness = CallsHarness()
    exchange = harness.sent()
    clone = copied_calls(harness.calls)
    clone.begin(1.0, 0.5)
    clone.complete(clone.pending[1], RAW)
    assert clone.pending == {}
    assert harness.calls.pending == {1: exchange}
    assert exchange.state is X.SENT
    assert 1 in harness.calls.timers
    assert harness.calls.out is not clone.out


def test_an_invalid_timeout_is_refused(subtests):
    for seconds in (0, -1, float("nan")):
        for name in ("timeout", "max_timeout"):
            with subtests.test(seconds=seconds, name=name):
                harness = CallsHarness()
                harness.make("me", **{name: seconds})
                error = harness.fail().error
                assert isinstance(error, UsageError)
                assert error.message == f"{name} must be a positive number or None, not {seconds!r}"
                assert harness.calls.pending == {}


# --- calls without options --------------------------------------------------------------------------------------------


def plain(harness: Harness, params: bytes = b"{}") -> bool:
    """Return whether `call()` makes a call without options; it is compared with the event."""
    return compare_plain_call(harness.core, Called(caller="c", method="m", params=params), harness.now)


@pytest.mark.parametrize("versions", [HANDSHAKE, STATELESS])
@pytest.mark.parametrize("is_http", [False, True])
def test_a_plain_call_is_made_without_the_table_as_the_event_makes_it(versions: tuple[str, ...], is_http: bool) -> None:
    for options in ({}, {"busy": "wait", "wait_for_ready": True}, {"request_timeout": None}, {"max_timeout": 1.0}):
        harness = Harness(versions=versions, is_http=is_http, **options).ready()
        assert plain(harness)
        harness.call()
        harness.wait(0.25)
        assert plain(harness)


def test_a_plain_call_that_cannot_be_sent_at_once_is_left_to_the_event() -> None:
    assert not plain(Harness().connect()), "not ready"
    harness = Harness(max_pending=1, max_frame_bytes=1024).ready()
    assert not plain(harness, b'{"a":"%b"}' % (b"x" * 1024)), "too large"
    assert not plain(Harness(versions=STATELESS).ready(), b"[]"), "not an object"
    assert plain(harness)
    harness.call()
    assert not plain(harness), "max_pending"
    for name, value in (("is_full", True), ("queue", {1: None}), ("check", 1), ("drain_at", 0.0)):
        harness = Harness().ready()
        assert plain(harness)
        core = harness.core
        setattr({"check": core.health, "drain_at": core}.get(name, core.calls), name, value)
        assert harness.core.call("c", "m", b"{}", harness.now) is None, name


# --- tombstones -------------------------------------------------------------------------------------------------------


def test_a_late_response_is_recognized_once_and_until_the_tombstone_expires():
    for now, id, late in [(75.0, 1, [1, 1]), (75.001, 1, [0, 0]), (0.0, 2, [0, 0]), (0.0, "1", [0, 0])]:
        calls = CallsHarness().turn()
        calls.tombstones[1] = 75.0
        calls.now = now
        seen = []
        for _ in range(2):
            calls.count_stray(id, None)
            seen.append(calls.late)
        assert seen == late, (now, id)
        assert calls.unknown == 2 - late[-1]


def test_ids_that_no_request_had_are_unknown():
    calls = CallsHarness().turn()
    calls.tombstones[1] = 75.0
    for id in (None, "", 2**70, -1):
        calls.count_stray(id, None)
    assert (calls.late, calls.unknown, calls.tombstones) == (0, 4, {1: 75.0})


def test_there_are_at_most_4096_tombstones_and_the_oldest_are_dropped_first():
    harness = CallsHarness()
    calls = harness.turn()
    for id in range(1, 4096 + 11):
        calls.abandon(Exchange(id, "ping", b"{}"))
    assert len(calls.tombstones) == 4096
    assert (min(calls.tombstones), max(calls.tombstones)) == (11, 4106)


def test_a_sweep_removes_only_expired_tombstones():
    calls = CallsHarness().turn()
    calls.tombstones |= {1: 10.0, 2: 20.0}
    for now, kept in [(10.0, [1, 2]), (10.5, [2])]:
        calls.now = now
        calls.sweep()
        assert list(calls.tombstones) == kept
    calls.clear()
    assert calls.tombstones == {}
