"""A server's connection: every message class in every state, a connection that is one POST, and the end.

The first table is the design's: one row a message, one column a state. Error classes, codes and fields are asserted,
never the words of a message.
"""

import itertools
from typing import Any

import pytest

from jackstay.errors import (
    BackpressureError,
    CapabilityError,
    FrameTooLargeError,
    GuardRefusedError,
    InvalidEventError,
    JsonRpcError,
    ProtocolError,
    ShutdownError,
    StateError,
    UsageError,
)
from jackstay.protocol.server import events as e
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._table import ServerState as S
from jackstay.protocol.wire._jsonrpc import decode
from model.server import (
    INITIALIZED,
    OFFER,
    VERSION_KEY,
    SlowConnection,
    answers,
    array,
    call,
    cancel,
    connect,
    frame,
    initialize,
    offer,
    parse,
    sent,
    stateless,
)
from model.server_checks import (
    CHANGED,
    DELIVER,
    DRAINED,
    DUPLICATE,
    LATE_ERA,
    NO_HANDSHAKE,
    NO_META,
    NOW,
    OPERATES,
    SEQUENCE,
    SHUTDOWN,
    STOP,
    STRAY,
    UNKNOWN,
    VERSION,
    VIOLATION,
    Check,
    agreed,
    answered,
    dropped,
    errs,
    give,
    put_in_flight,
    refuses,
    served,
)

LIVE = (S.FRESH, S.HANDSHAKE, S.OPERATING, S.STATELESS, S.DRAINING)

# --- the table: every message class in every state ------------------------------------------------------------

NEVER = None
UNSUPPORTED = stateless(7, meta={VERSION_KEY: "2027-01-01"})

# message:                   fresh, handshake, operating, stateless, draining, closed
TABLE: dict[str, tuple[bytes | e.Event, tuple[Check | None, ...]]] = {
    "frame over limit": (e.OversizeReceived(1 << 25), (*[errs(-32600)] * 5, dropped)),
    "not JSON": (b'{"jsonrpc":', (*[errs(-32700)] * 5, dropped)),
    "array": (array(call(7)), (*[errs(-32600)] * 5, dropped)),
    "not JSON-RPC": (frame(id=7), (*[errs(-32600)] * 5, dropped)),
    "response": (frame(id=1, result={}), (STRAY, STRAY, STRAY, VIOLATION, STRAY, dropped)),
    "error response": (frame(id=None, error={"code": 1, "message": ""}),
                       (STRAY, STRAY, STRAY, VIOLATION, STRAY, dropped)),
    "cancel of 8": (cancel(8), (dropped, STOP, STOP, STOP, STOP, dropped)),
    "cancel of nothing": (cancel(99), (*[dropped] * 6,)),
    "initialized": (INITIALIZED, (dropped, OPERATES, dropped, dropped, dropped, dropped)),
    "other notification": (CHANGED, (dropped, dropped, DELIVER, DELIVER, dropped, dropped)),
    "request 8 again": (call(8), (NEVER, DUPLICATE, DUPLICATE, DUPLICATE, DUPLICATE, dropped)),
    "discover": (stateless(7, "server/discover"), (*[answered] * 4, SHUTDOWN, dropped)),
    "unsupported": (UNSUPPORTED, (*[VERSION] * 4, SHUTDOWN, dropped)),
    "unsupported discover": (stateless(7, "server/discover", {VERSION_KEY: "2027-01-01"}),
                             (*[VERSION] * 4, SHUTDOWN, dropped)),
    "stateless request": (stateless(7), (served(S.STATELESS), LATE_ERA, LATE_ERA, served(), SHUTDOWN, dropped)),
    "stateless ping": (stateless(7, "ping"), (UNKNOWN, LATE_ERA, LATE_ERA, UNKNOWN, SHUTDOWN, dropped)),
    "initialize": (initialize(7), (agreed, SEQUENCE, SEQUENCE, NO_HANDSHAKE, SHUTDOWN, dropped)),
    "ping": (frame(id=7, method="ping"), (answered, answered, answered, UNKNOWN, answered, dropped)),
    "unknown method": (call(7, "no/such"), (*[UNKNOWN] * 5, dropped)),
    "a notification's name": (call(7, "notifications/initialized"), (*[UNKNOWN] * 5, dropped)),
    "a server's method": (call(7, "roots/list"), (*[UNKNOWN] * 5, dropped)),
    "known method": (call(7), (SEQUENCE, served(), served(), NO_META, SHUTDOWN, dropped)),
    "method of the other era": (call(7, "subscriptions/listen"), (SEQUENCE, UNKNOWN, UNKNOWN, NO_META, UNKNOWN, dropped)),
    "client gone": (e.ClientGone(), (DRAINED, DRAINED, DRAINED, DRAINED, dropped, dropped)),
}  # fmt: skip

PAIRS = [
    pytest.param(message, state, check, id=f"{name} in {state.value}")
    for name, (message, checks) in TABLE.items()
    for state, check in zip(S, checks, strict=True)
    if check is not None
]
NEEDS_8 = (TABLE["cancel of 8"][0], TABLE["request 8 again"][0])


@pytest.mark.parametrize("kind", [ServerConnection, SlowConnection], ids=["hot path", "table"])
@pytest.mark.parametrize(("message", "state", "check"), PAIRS)
def test_every_message_in_every_state(
    message: bytes | e.Event, state: S, check: Check, kind: type[ServerConnection]
) -> None:
    core = connect(state, kind=kind)
    if message in NEEDS_8:
        put_in_flight(core, 8)
    check(core, state, give(core, message))


def test_the_table_above_covers_every_event_that_a_client_can_cause() -> None:
    seen = set()
    for (message, _), state in itertools.product(TABLE.values(), S):
        core = connect(state)
        put_in_flight(core, 8)
        event = message if isinstance(message, e.Event) else core._classify(decode(message), 0)
        seen.add(type(event))
    caused = set(e.RequestEvent.__subclasses__()) | {
        kind for kind in e.Event.__subclasses__() if kind.__name__.endswith("Received")
    }
    assert seen == caused | {e.ClientGone}


def test_an_array_is_each_of_its_members_in_order() -> None:
    core = connect(S.OPERATING, "2025-03-26")
    effects = core.receive(array(call(1), CHANGED, frame(id=7, method="ping")), NOW)
    assert [type(effect) for effect in effects] == [e.Serve, e.Deliver]
    (answer,) = sent(core.finish(1, core.in_flight[1], b"{}", NOW))
    assert [member["id"] for member in answer] == [1, 7]


# --- one POST ------------------------------------------------------------


def post(version: str, **options: Any) -> ServerConnection:
    return ServerConnection(offer(**options), version=version, is_post=True, is_strict=True)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_post_of_the_handshake_era_starts_operating_and_remembers_no_handshake(version: str) -> None:
    core = post(version)
    assert (core.state, core.version) == (S.OPERATING, version)
    (answer,) = answers(core.receive(initialize(7, "2025-06-18"), NOW))
    assert answer["result"]["protocolVersion"] == "2025-06-18"
    assert (core.state, core.version, core.client) == (S.OPERATING, version, None)
    bad = core.receive(initialize(7, 1), NOW)
    refuses(-32602, GuardRefusedError)(core, S.OPERATING, bad)
    served()(core, S.OPERATING, core.receive(call(7), NOW))


def test_nothing_can_be_asked_of_the_client_of_a_post() -> None:
    core = post("2025-11-25")
    (fail,) = core.step(e.Asked("k", "roots/list"), NOW)
    assert isinstance(fail, e.Fail)
    assert isinstance(fail.error, CapabilityError)
    assert (fail.key, fail.error.required) == ("k", "roots")


def test_the_end_of_a_stateless_post_is_its_cancel_and_the_notification_is_not() -> None:
    core = post("2026-07-28")
    (serve,) = core.receive(stateless(1), NOW)
    dropped(core, S.STATELESS, core.receive(cancel(1), NOW))
    effects = core.step(e.ClientGone(), NOW)
    assert effects[0] == e.StopServing(1, serve.serial, "client gone")
    assert [type(effect) for effect in effects[1:]] == [e.Transition, e.Transition, e.Close]
    assert core.state is S.CLOSED


def test_the_end_of_another_post_leaves_its_handler_a_second() -> None:
    core = post("2025-11-25")
    (serve,) = core.receive(call(1), NOW)
    effects = core.step(e.ClientGone(), NOW)
    assert effects == [e.Transition("operating", "draining", "client gone")]
    assert core.wake_at == NOW + 1.0
    assert sent(core.finish(1, serve.serial, b"{}", NOW))[0]["id"] == 1


def test_a_version_that_is_not_offered_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        ServerConnection(offer(versions=("2025-11-25",)), version="2026-07-28")
    assert refused.value.path == "version"


def test_a_session_can_be_restored_with_what_its_client_said() -> None:
    client = e.ClientFacts("2025-11-25", b"{}", b'{"roots":{}}')
    core = ServerConnection(OFFER, version="2025-11-25", client=client)
    SEQUENCE(core, S.OPERATING, core.receive(initialize(7), NOW))
    assert isinstance(core.step(e.Asked("k", "roots/list"), NOW)[0], e.Send)


# --- handlers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [S.HANDSHAKE, S.OPERATING, S.STATELESS, S.DRAINING])
def test_a_result_and_a_failure_are_sent_once(state: S) -> None:
    core = connect(state)
    first, second = put_in_flight(core, 1), put_in_flight(core, "1")
    assert sent(core.finish(1, first, b'{"a":1}', NOW)) == [{"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}]
    (send, *_) = core.step(e.Failed("1", second, -32000, "no", {"why": None}), NOW)
    error = {"code": -32000, "message": "no", "data": {"why": None}}
    assert parse(send.frame) == {"jsonrpc": "2.0", "id": "1", "error": error}
    assert send.about == "1"
    for again in (core.finish(1, first, b"{}", NOW), core.step(e.Failed("1", second, 1, ""), NOW)):
        assert again == []
    assert core.counts["late result"] == 2


@pytest.mark.parametrize("state", [S.HANDSHAKE, S.OPERATING, S.STATELESS, S.DRAINING])
def test_the_late_result_of_a_cancelled_request_is_not_the_answer_to_the_next_with_its_id(state: S) -> None:
    core = connect(state)
    old = put_in_flight(core, 1)
    assert core.receive(cancel(1, reason="bored"), NOW) == [e.StopServing(1, old, "bored")]
    new = put_in_flight(core, 1)
    assert core.finish(1, old, b"{}", NOW) == []
    assert core.step(e.Failed(1, old, 1, ""), NOW) == []
    assert core.in_flight[1] == new
    assert len(sent(core.finish(1, new, b"{}", NOW))) == 1


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"requestId": None},
        {"requestId": 1.5},
        {"requestId": True},
        {"requestId": [1]},
        {"requestId": "8"},
    ],
)
def test_a_cancel_that_names_no_request_in_flight_is_dropped(params: dict[str, Any]) -> None:
    core = connect(S.OPERATING)
    put_in_flight(core, 8)
    dropped(core, S.OPERATING, core.receive(frame(method="notifications/cancelled", params=params), NOW))
    dropped(core, S.OPERATING, core.receive(frame(method="notifications/cancelled"), NOW))
    assert core.counts["ignored CancelReceived"] == 2


def test_a_cancel_with_a_bad_reason_still_cancels() -> None:
    core = connect(S.OPERATING)
    serial = put_in_flight(core, 8)
    assert core.receive(cancel(8, reason=5), NOW) == [e.StopServing(8, serial)]


def test_an_answer_larger_than_a_frame_is_an_error_instead() -> None:
    core = connect(S.OPERATING, offer=offer(max_frame_bytes=1024))
    (answer,) = sent(core.finish(1, put_in_flight(core, 1), b'{"a":"%b"}' % (b"x" * 1024), NOW))
    assert (answer["id"], answer["error"]["code"], answer["error"]["data"]["limit"]) == (1, -32603, 1024)
    assert core.counts["answer too large"] == 1


def test_a_failure_whose_data_is_not_json_is_still_an_answer() -> None:
    core = connect(S.OPERATING)
    (answer,) = sent(core.step(e.Failed(1, put_in_flight(core, 1), -32000, "no", {"x": float("nan")}), NOW))
    assert (answer["id"], answer["error"]["code"]) == (1, -32000)
    assert core.counts["error not encoded"] == 1


def test_progress_is_sent_while_it_increases_and_the_request_runs() -> None:
    core = connect(S.HANDSHAKE)
    serial = put_in_flight(core, 1)

    def report(progress: float, **more: Any) -> list[Any]:
        return sent(core.step(e.Progressed(1, serial, "t", progress, **more), NOW))

    params = {"progressToken": "t", "progress": 0.5, "total": 2.0, "message": "half"}
    assert report(0.5, total=2.0, message="half") == [
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    ]
    for still in (0.5, 0.25, -1.0, float("nan"), float("inf"), float("-inf")):
        assert report(still) == []
    assert report(0.75)[0]["params"] == {"progressToken": "t", "progress": 0.75}
    assert core.counts["progress dropped"] == 6
    core.finish(1, serial, b"{}", NOW)
    assert report(1.0) == []
    again = put_in_flight(core, 1)
    assert len(core.step(e.Progressed(1, again, "t", 0.1), NOW)) == 1


@pytest.mark.parametrize("event", [e.Finished(1, 1), e.Failed(1, 1, 1, ""), e.Progressed(1, 1, 1, 1.0)])
def test_nothing_can_end_where_nothing_was_served(event: e.Event) -> None:
    with pytest.raises(InvalidEventError) as invalid:
        connect(S.FRESH).step(event, NOW)
    assert (invalid.value.event, invalid.value.state) == (type(event).__name__, "fresh")
    core = ServerConnection(OFFER)
    assert core.step(event, NOW) == []
    assert core.counts == {f"impossible {type(event).__name__}": 1}


# --- what we send by ourselves --------------------------------------------------------------------------------------

LOG = e.Notified("notifications/message", b'{"level":"info","data":1}')
LISTS = e.Notified("notifications/tools/list_changed")
RELATED = e.Notified("notifications/message", b"{}", 7)


@pytest.mark.parametrize(
    ("state", "goes", "waits"),
    [
        (S.FRESH, (), ()),
        (S.HANDSHAKE, (LOG, RELATED), (LISTS,)),
        (S.OPERATING, (LOG, RELATED, LISTS), ()),
        (S.STATELESS, (LOG, RELATED, LISTS), ()),
        (S.DRAINING, (LOG, RELATED, LISTS), ()),
        (S.CLOSED, (), ()),
    ],
)
def test_notifications_go_out_when_the_state_allows(
    state: S, goes: tuple[e.Notified, ...], waits: tuple[e.Notified, ...]
) -> None:
    core = connect(state)
    for event in (LOG, RELATED, LISTS):
        effects = core.step(event, NOW)
        assert [m["method"] for m in sent(effects)] == ([event.method] if event in goes else [])
        assert [x.about for x in effects if isinstance(x, e.Send)] == ([event.about] if event in goes else [])
    assert len(core._asks.held) == len(waits)


def test_what_is_held_goes_out_in_order_when_the_client_has_confirmed() -> None:
    core = connect(S.HANDSHAKE)
    for event in (
        LISTS,
        e.Asked("a", "roots/list", about=5),
        e.Asked("p", "ping"),
        e.Asked("b", "roots/list"),
    ):
        core.step(event, NOW)
    core.step(e.Withdrew("b"), NOW)
    transition, notified, asked = core.receive(INITIALIZED, NOW)
    assert transition == e.Transition("handshake", "operating", "initialized received")
    assert parse(notified.frame)["method"] == LISTS.method
    assert (parse(asked.frame)["id"], parse(asked.frame)["method"], asked.about) == (2, "roots/list", 5)
    assert [key for key, _, _ in core.asked.values()] == ["p", "a"]


@pytest.mark.parametrize("end", [e.DrainAsked(), e.ClientGone(), e.StopAsked()])
def test_what_is_held_when_the_connection_ends_fails_unsent(end: e.Event) -> None:
    core = connect(S.HANDSHAKE)
    core.step(LISTS, NOW)
    core.step(e.Asked("a", "roots/list"), NOW)
    fails = [effect for effect in core.step(end, NOW) if isinstance(effect, e.Fail)]
    assert [(fail.key, type(fail.error), fail.error.may_have_run) for fail in fails] == [
        ("a", ShutdownError, False)
    ]
    assert core.counts["notification not held"] == 1


@pytest.mark.parametrize("end", [e.DrainAsked(), e.ClientGone()])
def test_what_is_held_fails_when_the_drain_begins_and_not_when_it_ends(end: e.Event) -> None:
    core = connect(S.HANDSHAKE)
    put_in_flight(core, 7)
    core.step(LISTS, NOW)
    core.step(e.Asked("a", "roots/list"), NOW)
    fails = [effect for effect in core.step(end, NOW) if isinstance(effect, e.Fail)]
    assert core.state is S.DRAINING
    assert [(fail.key, fail.error.may_have_run) for fail in fails] == [("a", False)]
    assert core._asks.held == []


def test_what_is_held_is_bounded() -> None:
    core = connect(S.HANDSHAKE, offer=offer(max_concurrent=2))
    for _ in range(3):
        core.step(LISTS, NOW)
    assert core.counts["notification not held"] == 1
    (fail,) = core.step(e.Asked("a", "roots/list"), NOW)
    assert isinstance(fail.error, BackpressureError)
    assert len(core._asks.held) == 2


@pytest.mark.parametrize("state", [S.HANDSHAKE, S.OPERATING])
@pytest.mark.parametrize(
    ("method", "params"),
    [("notifications/x", b'{"a":"%b"}' % (b"x" * 2000)), ("x" * 300, b"{}"), ("\ud800", b"{}")],
    ids=["too large", "too long a name", "not text"],
)
def test_a_notification_that_cannot_be_sent_is_its_makers_error(state: S, method: str, params: bytes) -> None:
    core = connect(state, offer=offer(max_frame_bytes=1024))
    before = core.snapshot()
    with pytest.raises((UsageError, FrameTooLargeError)):
        core.step(e.Notified(method, params), NOW)
    assert core.snapshot() == before
    answered(core, state, core.receive(frame(id=7, method="ping"), NOW))


@pytest.mark.parametrize(
    ("state", "error", "goes"),
    [
        (S.FRESH, StateError, False),
        (S.HANDSHAKE, None, False),
        (S.OPERATING, None, True),
        (S.STATELESS, CapabilityError, False),
        (S.DRAINING, ShutdownError, False),
        (S.CLOSED, ShutdownError, False),
    ],
)
def test_the_client_is_asked_where_the_state_allows(
    state: S, error: type[Exception] | None, goes: bool
) -> None:
    effects = connect(state).step(e.Asked("k", "sampling/createMessage", b"{}", 7), NOW)
    fails = [(effect.key, type(effect.error)) for effect in effects if isinstance(effect, e.Fail)]
    assert fails == ([("k", error)] if error is not None else [])
    asked = [(parse(x.frame)["method"], x.about) for x in effects if isinstance(x, e.Send)]
    assert asked == ([("sampling/createMessage", 7)] if goes else [])


@pytest.mark.parametrize(
    ("version", "method", "required"),
    [
        ("2025-11-25", "tools/list", "tools"),
        ("2025-11-25", "no/such", "no/such"),
        ("2025-03-26", "elicitation/create", "elicitation"),
        ("2025-11-25", "tasks/list", "tasks.list"),
    ],
)
def test_only_what_the_client_declared_and_the_revision_has_is_asked(
    version: str, method: str, required: str
) -> None:
    (fail,) = connect(S.OPERATING, version).step(e.Asked("k", method), NOW)
    assert isinstance(fail.error, CapabilityError)
    assert fail.error.required == required


def test_an_answer_goes_to_whoever_asked_and_strays_are_told_apart() -> None:
    core = connect(S.OPERATING)
    core.step(e.Asked("a", "roots/list"), NOW)
    core.step(e.Asked("b", "ping"), NOW)
    (complete,) = core.receive(frame(id=2, result={"x": 1}), NOW)
    assert isinstance(complete, e.Complete)
    assert (complete.key, bytes(complete.result)) == ("b", b'{"x": 1}')
    (fail,) = core.receive(frame(id=1, error={"code": -1, "message": "no", "data": [1]}), NOW)
    assert isinstance(fail.error, JsonRpcError)
    assert (fail.key, fail.error.code, fail.error.data) == ("a", -1, [1])
    assert (fail.error.method, fail.error.request_id) == ("roots/list", 1)
    assert core.receive(frame(id=2, result={}), NOW) == [e.Stray("late", 1)]
    for unknown in (3, 0, -1, "1", "x"):
        (stray,) = core.receive(frame(id=unknown, result={}), NOW)
        assert stray.kind == "unknown"
    assert core.counts["unknown response"] == 5


def test_a_malformed_answer_ends_what_it_meant_to_answer() -> None:
    core = connect(S.OPERATING)
    core.step(e.Asked("a", "roots/list"), NOW)
    send, fail, violation = core.receive(frame(id=1, error={"code": "x"}), NOW)
    assert parse(send.frame)["error"]["code"] == -32600
    assert "id" not in parse(send.frame)
    assert isinstance(fail.error, ProtocolError)
    assert (fail.key, fail.error.may_have_run) == ("a", True)
    assert isinstance(violation, e.Violation)
    assert not core.asked


@pytest.mark.parametrize("reason", ["", "bored", "\ud800"])
def test_a_withdrawn_question_is_cancelled_at_the_client_and_its_answer_is_late(reason: str) -> None:
    core = connect(S.OPERATING)
    core.step(e.Asked("a", "roots/list", about=7), NOW)
    (send,) = core.step(e.Withdrew("a", reason), NOW)
    assert send.about == 7
    params = {"requestId": 1, "reason": "bored"} if reason == "bored" else {"requestId": 1}
    assert parse(send.frame) == {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    assert core.step(e.Withdrew("a"), NOW) == []
    assert core.receive(frame(id=1, result={}), NOW) == [e.Stray("late", 1)]


def test_a_question_that_cannot_be_sent_fails() -> None:
    core = connect(S.OPERATING, offer=offer(max_frame_bytes=1024))
    (fail,) = core.step(e.Asked("a", "roots/list", b'{"a":"%b"}' % (b"x" * 2000)), NOW)
    assert isinstance(fail.error, FrameTooLargeError)
    assert not core.asked


def test_questions_are_bounded() -> None:
    core = connect(S.OPERATING, offer=offer(max_concurrent=1))
    core.step(e.Asked("a", "roots/list"), NOW)
    (fail,) = core.step(e.Asked("b", "roots/list"), NOW)
    assert isinstance(fail.error, BackpressureError)


# --- the end ------------------------------------------------------------


@pytest.mark.parametrize("state", [S.HANDSHAKE, S.OPERATING, S.STATELESS])
def test_draining_waits_for_handlers_and_no_longer_than_a_second(state: S) -> None:
    core = connect(state)
    first, second = put_in_flight(core, 1), put_in_flight(core, 2)
    assert core.wake_at is None
    assert core.step(e.DrainAsked(), NOW) == [e.Transition(state.value, "draining", "drain asked")]
    assert core.wake_at == NOW + 1.0
    assert len(sent(core.finish(1, first, b"{}", NOW + 0.9))) == 1
    assert core.due(NOW + 0.999) == []
    (expired,) = core.due(NOW + 1.0)
    assert core.step(expired, NOW + 1.0) == [
        e.StopServing(2, second, "drain expired"),
        e.Transition("draining", "closed", "drain expired"),
        e.Close(),
    ]
    assert (core.wake_at, core.due(NOW + 9)) == (None, [])
    assert core.finish(2, second, b"{}", NOW + 9) == []


def test_draining_ends_with_its_last_handler() -> None:
    core = connect(S.DRAINING)
    send, transition, close = core.finish(90, core.in_flight[90], b"{}", 0.5)
    assert parse(send.frame)["id"] == 90
    assert (transition, close) == (e.Transition("draining", "closed", "emptied"), e.Close())


def test_draining_ends_when_its_last_handler_is_cancelled() -> None:
    core = connect(S.DRAINING)
    assert [type(effect) for effect in core.receive(cancel(90), 0.5)] == [
        e.StopServing,
        e.Transition,
        e.Close,
    ]


def test_a_client_that_is_gone_answers_no_more_questions_but_one_that_is_drained_may() -> None:
    gone, drained = connect(S.OPERATING), connect(S.OPERATING)
    for core in (gone, drained):
        put_in_flight(core, 1)
        core.step(e.Asked("a", "roots/list"), NOW)
    fail, _ = gone.step(e.ClientGone(), NOW)
    assert isinstance(fail.error, ShutdownError)
    assert (fail.key, fail.error.may_have_run) == ("a", True)
    assert [type(effect) for effect in drained.step(e.DrainAsked(), NOW)] == [e.Transition]
    (complete,) = drained.receive(frame(id=1, result={}), NOW)
    assert isinstance(complete, e.Complete)


def test_the_end_fails_what_is_still_asked() -> None:
    core = connect(S.OPERATING)
    core.step(e.Asked("a", "roots/list"), NOW)
    effects = core.step(e.DrainAsked(), NOW)
    assert [type(effect) for effect in effects] == [e.Transition, e.Transition, e.Fail, e.Close]


@pytest.mark.parametrize("state", LIVE)
def test_a_stop_ends_at_once(state: S) -> None:
    core = connect(state)
    serial = put_in_flight(core, 1)
    effects = core.step(e.StopAsked(), NOW)
    stops = [effect for effect in effects if isinstance(effect, e.StopServing) and effect.id == 1]
    assert stops == ([e.StopServing(1, serial, "stop asked")] if serial else [])
    assert effects[-2:] == [e.Transition(state.value, "closed", "stop asked"), e.Close()]
    assert (core.state, core.wake_at, dict(core.in_flight)) == (S.CLOSED, None, {})


def test_an_event_of_another_machine_is_refused() -> None:
    with pytest.raises(UsageError):
        connect(S.FRESH).step(e.Event(), NOW)
