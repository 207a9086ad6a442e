"""The calls of a connection, without the connection: ids, deadlines, queues, retries, replays, and one outcome each."""

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
from jackstay.protocol.client._calls import Retry
from jackstay.protocol.client._exchange import CELLS, Exchange, ExchangeEvent, ExchangeState, Role
from jackstay.protocol.client.events import Accept, Called, Complete, Fail, HangUp, Send, Withdraw
from scripted.calls import RAW, Desk, E, X, desk_with

# --- making calls -----------------------------------------------------------------------------------------------------


def test_a_call_gets_an_id_a_deadline_and_is_written():
    """Table: call in ready."""
    desk = Desk()
    exchange = desk.make(params=b'{"name":"x"}')
    assert desk.kinds() == [Accept, Send]
    assert desk.frames() == [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}]
    assert desk.calls.timers.armed == {1: 30.0}
    assert exchange.state is X.SENT
    assert exchange.number == 1


def test_ids_only_grow():
    """Row 18: ids are monotonic and never reused."""
    desk = Desk()
    ids = []
    for _ in range(5):
        exchange = desk.make()
        ids.append(exchange.id)
        desk.turn().complete(exchange, RAW)
    assert ids == [1, 2, 3, 4, 5]


# (settings, call, soft deadline, hard deadline) at time 0: row 2 and section 4.
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


@pytest.mark.parametrize(("options", "call", "soft", "hard"), DEADLINES)
def test_the_two_deadlines(options, call, soft, hard):
    desk = Desk(**options)
    exchange = desk.make(**call)
    assert desk.calls.timers.at(exchange.id) == soft
    assert exchange.hard_at == hard


@pytest.mark.parametrize(
    ("call", "seconds", "limit"),
    [
        ({"timeout": 5.0, "max_timeout": 9.0}, 5.0, "timeout"),
        ({"timeout": 9.0, "max_timeout": 5.0}, 5.0, "max_timeout"),
        ({"timeout": 5.0, "max_timeout": 5.0}, 5.0, "timeout"),
        ({"timeout": None, "max_timeout": 5.0}, 5.0, "max_timeout"),
    ],
)
def test_the_error_names_the_deadline_that_passed(call, seconds, limit):
    desk = Desk()
    desk.calls.expire(desk.make(**call))
    error = desk.calls.out[-1].error
    assert (error.timeout, error.limit) == (seconds, limit)
    assert str(error).endswith(f"within {seconds:g} s ({limit})")


@pytest.mark.parametrize(
    ("began_at", "moved_at", "soft", "hard"),
    [(None, None, 30.0, 70.0), (-20.0, -20.0, 10.0, 50.0), (-20.0, -5.0, 25.0, 50.0)],
)
def test_a_request_that_continues_a_call_has_what_is_left_of_its_deadlines(began_at, moved_at, soft, hard):
    desk = Desk(request_timeout=30.0, max_timeout=70.0)
    exchange = desk.make(began_at=began_at, moved_at=moved_at)
    assert (exchange.soft_at, exchange.hard_at) == (soft, hard)


def test_a_request_without_time_left_is_never_handed_over():
    desk = Desk(request_timeout=30.0)
    desk.calls.make(Called(caller="c", method="tools/list", began_at=-30.0, moved_at=-30.0), may_send=True)
    assert [type(effect).__name__ for effect in desk.calls.out] == ["Accept", "Fail"]
    assert desk.calls.out[-1].error.may_have_run is False
    assert not desk.calls.pending
    assert not len(desk.calls.timers)


def test_progress_moves_the_soft_deadline_and_never_past_the_hard_one():
    """Row 2."""
    desk = Desk(request_timeout=30.0, max_timeout=70.0)
    exchange = desk.sent()
    for at, deadline in ((20.0, 50.0), (39.0, 69.0), (41.0, 70.0), (69.9, 70.0)):
        desk.turn(at - desk.now).advance(exchange, E.PROGRESSED)
        assert desk.calls.timers.at(1) == deadline


def test_progress_without_a_soft_deadline_leaves_the_hard_one():
    desk = Desk(request_timeout=None)
    exchange = desk.sent()
    desk.turn(100.0).advance(exchange, E.PROGRESSED)
    assert desk.calls.timers.at(1) == 300.0


METAS = [
    ({}, b"", None),
    ({"wants_progress": True}, b"", {"progressToken": 1}),
    ({"meta": b'"a":1'}, b"", {"a": 1}),
    ({"wants_progress": True, "meta": b'"a":1'}, b'"v":"1"', {"v": "1", "progressToken": 1, "a": 1}),
    ({}, b'"v":"1"', {"v": "1"}),
    # Made for somebody else: in the stateless era it says for whom, instead of us.
    ({"speaker": b'"who":"other"', "meta": b'"a":1'}, b'"who":"us"', {"head": 1, "who": "other", "a": 1}),
    ({"speaker": b'"who":"other"'}, b"", None),
]


@pytest.mark.parametrize(("call", "envelope", "meta"), METAS)
def test_what_every_request_carries_beside_its_params(call, envelope, meta):
    desk = Desk()
    desk.calls.envelope = envelope
    desk.calls.head = b'"head":1'
    desk.make(params=b'{"x":1}', **call)
    assert desk.frames()[0]["params"].get("_meta") == meta
    assert desk.frames()[0]["params"]["x"] == 1


def test_an_oversized_call_fails_alone_and_leaves_nothing():
    """Row 17, both directions."""
    desk = Desk(max_frame_bytes=1024)
    other = desk.sent("other")
    desk.make("big", params=b'{"x":"%b"}' % (b"y" * 2000))
    assert desk.kinds() == [Accept, Fail]
    error = desk.fail().error
    assert isinstance(error, FrameTooLargeError)
    assert (error.limit, error.may_have_run, error.method, error.request_id) == (1024, False, "tools/call", 2)
    assert error.size > 2000
    assert list(desk.calls.pending) == [other.id]
    assert list(desk.calls.timers.armed) == [other.id]


def test_a_call_of_exactly_the_limit_is_sent():
    desk = Desk(max_frame_bytes=1024)
    room = 1024 - len(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":""}}')
    desk.make(method="m", params=b'{"x":"%b"}' % (b"y" * room))
    (frame,) = [effect.frame for effect in desk.out if isinstance(effect, Send)]
    assert len(frame) == 1024


# --- limits, queues, room ---------------------------------------------------------------------------------------------


def test_over_max_pending_a_call_is_refused():
    """Section 4: over them BackpressureError."""
    desk = Desk(max_pending=2)
    desk.make()
    desk.make()
    assert desk.make("third") is None
    effect = desk.fail()
    assert (effect.caller, effect.id) == ("third", 0)
    assert isinstance(effect.error, BackpressureError)
    assert effect.error.message == "too many calls are open (max_pending is 2)"
    assert len(desk.calls.pending) == 2


def test_over_max_queued_a_call_that_may_wait_is_refused():
    desk = Desk(max_queued=1, wait_for_ready=True)
    desk.make(may_send=False)
    assert desk.make("second", may_send=False) is None
    assert desk.fail().error.message == "too many calls are waiting (max_queued is 1)"


def test_queued_calls_count_against_max_pending():
    """Row 15."""
    desk = Desk(max_pending=1, wait_for_ready=True)
    desk.make(may_send=False)
    assert desk.make(may_send=False) is None
    assert "max_pending" in desk.fail().error.message


def test_over_max_pending_a_call_that_waits_for_room_is_sent_when_there_is_some():
    """Section 4: or wait with busy="wait"."""
    desk = Desk(max_pending=1, busy="wait")
    first = desk.make("first")
    second = desk.make("second")
    third = desk.make("third")
    assert (second.state, third.state) == (X.WAITING, X.WAITING)
    desk.turn().complete(first, RAW)
    assert desk.kinds() == [Complete, Send]
    assert second.state is X.SENT
    assert third.state is X.WAITING


def test_a_call_may_wait_for_room_on_its_own_account():
    desk = Desk(max_pending=1)
    desk.make()
    assert desk.make(busy="wait").state is X.WAITING
    assert desk.make(busy="retry") is None


def test_queued_calls_keep_their_order():
    """Row 15."""
    desk = Desk(wait_for_ready=True)
    for caller in "abcde":
        desk.make(caller, may_send=False)
    desk.turn().flush()
    assert [frame["id"] for frame in desk.frames()] == [1, 2, 3, 4, 5]
    assert not desk.calls.queue


def test_flush_stops_at_max_pending():
    desk = Desk(max_pending=2, busy="wait")
    for _ in range(4):
        desk.make(may_send=False)
    desk.turn().flush()
    assert [frame["id"] for frame in desk.frames()] == [1, 2]
    assert list(desk.calls.queue) == [3, 4]


def test_an_oversized_queued_call_does_not_stop_those_behind_it():
    desk = Desk(max_frame_bytes=1024, wait_for_ready=True)
    desk.make("big", may_send=False, params=b'{"x":"%b"}' % (b"y" * 2000))
    desk.make("small", may_send=False)
    desk.turn().flush()
    assert desk.fail().caller == "big"
    assert [frame["id"] for frame in desk.frames()] == [2]


UNSENDABLE = [{"method": "x" * 300}, {"method": "\ud800"}, {"params": b"[]", "wants_progress": True}]


@pytest.mark.parametrize("call", UNSENDABLE)
def test_a_call_that_cannot_be_encoded_fails_alone_and_leaves_nothing(call):
    """Every call ends exactly once: refused with our error or failed, and then it is not open any more."""
    desk = Desk()
    try:
        desk.make("bad", **call)
    except McpError:
        assert not any(isinstance(effect, Fail) for effect in desk.out)
    else:
        assert desk.fail().caller == "bad"
    assert desk.calls.pending == {}
    assert len(desk.calls.timers) == 0


@pytest.mark.parametrize("call", UNSENDABLE)
def test_a_queued_call_that_cannot_be_encoded_does_not_stop_those_behind_it(call):
    desk = Desk(wait_for_ready=True)
    desk.make("bad", may_send=False, **call)
    desk.make("good", may_send=False)
    desk.turn().flush()
    assert [frame["id"] for frame in desk.frames()] == [2]


def test_while_the_transport_is_full_those_who_wait_for_room_wait_in_line():
    """Row 14: busy="wait"."""
    desk = Desk(busy="wait")
    first = desk.make("first")
    desk.calls.is_full = True
    desk.turn().advance(first, E.REFUSED)
    second = desk.make("second")
    assert list(desk.calls.queue) == [1, 2]
    assert (first.number, first.attempts, second.number) == (0, 0, 0)
    desk.calls.is_full = False
    desk.turn().flush()
    assert [frame["id"] for frame in desk.frames()] == [1, 2]


def test_a_new_transport_counts_its_frames_from_one():
    desk = Desk()
    desk.sent()
    desk.calls.is_full = True
    desk.calls.forget_transport()
    assert (desk.calls.number, desk.calls.written, desk.calls.is_full) == (0, 0, False)


# --- busy -------------------------------------------------------------------------------------------------------------


def test_a_busy_transport_is_asked_three_times():
    """Row 14: 1 attempt + 2 retries, exact words and details, no tombstone."""
    desk = Desk()
    exchange = desk.make()
    for luck, delay in ((0.0, 0.005), (0.5, 0.010)):
        desk.turn(luck=luck).advance(exchange, E.REFUSED)
        assert exchange.state is X.BUSY
        assert desk.out == []
        assert desk.calls.timers.at(Retry(1)) == pytest.approx(desk.now + delay)
        desk.calls.timers.disarm(Retry(1))
        desk.turn(0.02).hand(exchange)
        assert desk.kinds() == [Send]
    desk.turn().advance(exchange, E.REFUSED)
    error = desk.fail().error
    assert isinstance(error, BackpressureError)
    assert error.message == "transport busy after 3 attempts"
    assert error.details == {"attempts": 3, "request_id": 1}
    assert error.may_have_run is False
    assert desk.calls.pending == {}
    assert len(desk.calls.tombstones) == 0
    assert len(desk.calls.timers) == 0


def test_retries_are_counted_per_call():
    desk = Desk(retry_attempts=2)
    first, second = desk.make("first"), desk.make("second")
    desk.turn().advance(first, E.REFUSED)
    desk.turn().advance(second, E.REFUSED)
    assert (first.state, second.state) == (X.BUSY, X.BUSY)


def test_with_one_attempt_there_is_no_retry():
    desk = Desk(retry_attempts=1)
    exchange = desk.make()
    desk.turn().advance(exchange, E.REFUSED)
    assert desk.fail().error.message == "transport busy after 1 attempts"


def test_the_deadline_goes_on_while_busy():
    """Row 2: both deadlines cover queueing, busy retries and the wire."""
    desk = Desk()
    exchange = desk.make(timeout=1.0)
    desk.turn(0.5).advance(exchange, E.REFUSED)
    assert desk.calls.timers.at(1) == 1.0
    desk.turn(0.5).expire(exchange)
    error = desk.fail().error
    assert isinstance(error, TimeoutError)
    assert error.sent is False
    assert len(desk.calls.timers) == 0
    assert len(desk.calls.tombstones) == 0


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


@pytest.mark.parametrize("queued", [0, 1, 3])
@pytest.mark.parametrize("others", [0, 2])
def test_the_hot_path_does_what_the_row_does(queued, others):
    """`complete` is the row ANSWERED of a sent call, and a flush."""
    outs = []
    for is_hot in (True, False):
        desk = Desk(max_pending=1 + others, busy="wait")
        exchange = desk.sent("me")
        for number in range(others):
            desk.sent(number)
        for number in range(queued):
            desk.make(("queued", number))
        calls = desk.turn(1.0)
        if is_hot:
            calls.complete(exchange, RAW)
        else:
            calls.advance(exchange, E.ANSWERED, RAW)
            calls.flush()
        outs.append(state_of(calls))
    assert outs[0] == outs[1]
    assert isinstance(outs[0][-1][0], Complete)


def test_an_error_answer_fails_the_caller():
    desk = Desk()
    exchange = desk.sent()
    desk.turn().advance(exchange, E.ANSWERED, JsonRpcError(-32601, "no"))
    assert desk.fail().error.code == -32601
    assert desk.fail().error.request_id == 1
    assert desk.calls.pending == {}


# (how, written, effects, tombstone): table, rows "caller gives up" and "soft or hard deadline".
ENDS = [
    ("give up", True, [Send], True),
    ("give up", False, [Withdraw], False),
    ("expire", True, [Fail, Send], True),
    ("expire", False, [Withdraw, Fail], False),
]


@pytest.mark.parametrize(("how", "written", "effects", "buried"), ENDS)
def test_a_written_call_is_cancelled_and_a_queued_frame_is_taken_back(how, written, effects, buried):
    """G11 and row 14."""
    desk = Desk()
    exchange = desk.sent() if written else desk.make()
    calls = desk.turn()
    if how == "expire":
        calls.expire(exchange)
        assert desk.fail().error.sent is written
        assert desk.fail().error.may_have_run is written
    else:
        calls.advance(exchange, E.GIVEN_UP)
    assert desk.kinds() == effects
    if written:
        assert desk.frames() == [
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        ]
    assert calls.pending == {}
    assert len(calls.timers) == 0
    assert calls.tombstones.holds(1, 75.0) is buried
    assert not calls.tombstones.holds(1, 75.1)


def test_on_http_what_was_handed_over_may_have_left():
    desk = Desk(is_http=True)
    exchange = desk.make()
    assert desk.calls.is_written(exchange)
    assert not desk.calls.is_written(Exchange(9, "m", b"{}"))


def test_on_stateless_http_hanging_up_is_the_cancel():
    """Row 6, G11."""
    desk = Desk(is_http=True)
    desk.calls.hangs_up = True
    exchange = desk.make()
    desk.turn().advance(exchange, E.GIVEN_UP)
    assert desk.out == [HangUp(1)]


def test_nothing_is_cancelled_over_a_connection_that_cannot_send():
    desk = Desk()
    exchange = desk.sent()
    desk.calls.can_send = False
    desk.turn().advance(exchange, E.GIVEN_UP)
    assert desk.out == []
    assert desk.calls.tombstones.holds(1, 1.0)


@pytest.mark.parametrize("role", [Role.PROBE, Role.HANDSHAKE, Role.KEEPALIVE])
def test_the_connections_own_requests_are_never_cancelled(role):
    """G11: never for `initialize` or the probe."""
    desk = Desk()
    calls = desk.turn()
    id = calls.make_own("initialize", b"{}", role)
    calls.written = calls.number
    desk.turn().advance(calls.pending[id], E.GIVEN_UP)
    assert desk.out == []


def test_a_subscription_is_cancelled_like_a_call():
    desk = Desk()
    calls = desk.turn()
    id = calls.make_own("subscriptions/listen", b"{}", Role.STANDING, caller="key")
    calls.written = calls.number
    desk.turn().advance(calls.pending[id], E.GIVEN_UP)
    assert desk.frames()[0]["method"] == "notifications/cancelled"


def test_own_requests_have_no_deadline_and_nobody_to_fail():
    desk = Desk()
    calls = desk.turn()
    id = calls.make_own("ping", b"{}", Role.KEEPALIVE, meta=b'"a":1')
    assert desk.frames()[0]["params"] == {"_meta": {"a": 1}}
    assert len(calls.timers) == 0
    calls = desk.turn()
    calls.fail(calls.pending[id], ShutdownError())
    assert desk.out == []


# --- totality ---------------------------------------------------------------------------------------------------------


def exchange_in(state):
    """A desk with one exchange brought into that state by hand."""
    desk, exchange = desk_with({X.BUSY: "busy", X.WAITING: "waiting"}.get(state, "written"), busy="retry")
    if state is X.WAITING:
        desk = Desk(wait_for_ready=True)
        exchange = desk.make(may_send=False)
    if state is X.ABANDONED:
        desk.turn().advance(exchange, E.GIVEN_UP)
    if state is X.DONE:
        desk.turn().advance(exchange, E.ANSWERED, RAW)
    assert exchange.state is state
    return desk, exchange


@pytest.mark.parametrize("state", ExchangeState)
@pytest.mark.parametrize("event", ExchangeEvent)
@pytest.mark.parametrize("is_strict", [True, False])
def test_every_state_with_every_event(state, event, is_strict):
    desk, exchange = exchange_in(state)
    desk.calls.is_strict = is_strict
    said = {E.ANSWERED: RAW, E.REFUSED: None}.get(event, ShutdownError())
    if (state, event) == (X.WAITING, E.HANDED):
        desk.calls.queue.clear()  # whoever hands a call over has taken it out of the queue
    was = state_of(desk.turn())
    cell = CELLS[event, state]
    if cell.is_impossible:
        if is_strict:
            with pytest.raises(InvalidEventError):
                desk.calls.advance(exchange, event, said)
        else:
            desk.calls.advance(exchange, event, said)
        assert exchange.state is state
        assert state_of(desk.calls) == was
        return
    desk.calls.advance(exchange, event, said)
    targets = {branch.to or state for branch in cell.branches()}
    assert exchange.state in targets
    told = [effect for effect in desk.out if isinstance(effect, Fail | Complete)]
    assert len(told) <= 1
    is_open = exchange.state in (X.WAITING, X.BUSY, X.SENT)
    assert (exchange.id in desk.calls.pending) is is_open
    assert (exchange.id in desk.calls.queue) is (exchange.state is X.WAITING)
    assert not told or not is_open


COUNTED = [
    (X.WAITING, E.ANSWERED, "unknown"),
    (X.BUSY, E.ANSWERED, "unknown"),
    (X.ABANDONED, E.ANSWERED, "late"),
    (X.DONE, E.ANSWERED, "unknown"),
    (X.ABANDONED, E.PROGRESSED, "late"),
]


@pytest.mark.parametrize(("state", "event", "kind"), COUNTED)
def test_what_nobody_waits_for_is_counted(state, event, kind):
    desk, exchange = exchange_in(state)
    desk.turn().advance(exchange, event, RAW)
    assert (desk.calls.late, desk.calls.unknown) == ((1, 0) if kind == "late" else (0, 1))
    assert desk.out == []


def test_a_copy_goes_its_own_way():
    desk = Desk()
    exchange = desk.sent()
    twin = desk.calls.copy()
    twin.begin(1.0, 0.5)
    twin.complete(twin.pending[1], RAW)
    assert twin.pending == {}
    assert desk.calls.pending == {1: exchange}
    assert exchange.state is X.SENT
    assert 1 in desk.calls.timers
    assert desk.calls.out is not twin.out


@pytest.mark.parametrize("name", ["timeout", "max_timeout"])
@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_deadline_that_is_none_is_refused(name, seconds):
    desk = Desk()
    desk.make("me", **{name: seconds})
    assert isinstance(desk.fail().error, UsageError)
    assert desk.calls.pending == {}
