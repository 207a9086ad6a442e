"""A server's connection: every message class in every state, a connection that is one POST, and shutdown.

Error classes, codes and fields are asserted, not the texts of messages.
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
from jackstay.protocol.server._states import ServerState as S
from jackstay.protocol.wire._jsonrpc import decode
from model.server import (
    DEFAULT_CONFIG,
    INITIALIZED,
    META,
    VERSION_KEY,
    SlowConnection,
    array,
    call,
    cancel,
    connect,
    frame,
    initialize,
    parse,
    responses,
    sent,
    server_config,
    snapshot,
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
    deliver,
    dropped,
    errs,
    put_in_flight,
    refuses,
    served,
)

LIVE = (S.FRESH, S.HANDSHAKE, S.OPERATING, S.STATELESS, S.DRAINING)

# --- the table: every message class in every state ---

NEVER = None
UNSUPPORTED = stateless(7, meta={VERSION_KEY: "2027-01-01"})

# message:                   fresh, handshake, operating, stateless, draining, closed
TABLE: dict[str, tuple[bytes | e.Event, tuple[Check | None, ...]]] = {
    "frame over limit": (e.OversizeReceived(1 << 25), (*[errs(-32600)] * 5, dropped)),
    "not JSON": (b'{"jsonrpc":', (*[errs(-32700)] * 5, dropped)),
    "batch": (array(call(7)), (*[errs(-32600)] * 5, dropped)),
    "not JSON-RPC": (frame(id=7), (*[errs(-32600)] * 5, dropped)),
    "response": (frame(id=1, result={}), (STRAY, STRAY, STRAY, VIOLATION, STRAY, dropped)),
    "error response": (
        frame(id=None, error={"code": 1, "message": ""}),
        (STRAY, STRAY, STRAY, VIOLATION, STRAY, dropped),
    ),
    "cancel of 8": (cancel(8), (dropped, STOP, STOP, STOP, STOP, dropped)),
    "cancel of nothing": (cancel(99), (*[dropped] * 6,)),
    "initialized": (INITIALIZED, (dropped, OPERATES, dropped, dropped, dropped, dropped)),
    "other notification": (CHANGED, (dropped, dropped, DELIVER, DELIVER, dropped, dropped)),
    "request 8 again": (call(8), (NEVER, DUPLICATE, DUPLICATE, DUPLICATE, DUPLICATE, dropped)),
    "discover": (stateless(7, "server/discover"), (*[answered] * 4, SHUTDOWN, dropped)),
    "unsupported": (UNSUPPORTED, (*[VERSION] * 4, SHUTDOWN, dropped)),
    "unsupported discover": (
        stateless(7, "server/discover", {VERSION_KEY: "2027-01-01"}),
        (*[VERSION] * 4, SHUTDOWN, dropped),
    ),
    "stateless request": (stateless(7), (served(S.STATELESS), LATE_ERA, LATE_ERA, served(), SHUTDOWN, dropped)),
    "stateless ping": (stateless(7, "ping"), (UNKNOWN, LATE_ERA, LATE_ERA, UNKNOWN, SHUTDOWN, dropped)),
    "initialize": (initialize(7), (agreed, SEQUENCE, SEQUENCE, NO_HANDSHAKE, SHUTDOWN, dropped)),
    "ping": (frame(id=7, method="ping"), (answered, answered, answered, UNKNOWN, answered, dropped)),
    "unknown method": (call(7, "no/such"), (*[UNKNOWN] * 5, dropped)),
    "a notification's name": (call(7, "notifications/initialized"), (*[UNKNOWN] * 5, dropped)),
    "a server's method": (call(7, "roots/list"), (*[UNKNOWN] * 5, dropped)),
    "known method": (call(7), (SEQUENCE, served(), served(), NO_META, SHUTDOWN, dropped)),
    "method of the other era": (
        call(7, "subscriptions/listen"),
        (SEQUENCE, UNKNOWN, UNKNOWN, NO_META, UNKNOWN, dropped),
    ),
    "client disconnected": (e.ClientDisconnected(), (DRAINED, DRAINED, DRAINED, DRAINED, dropped, dropped)),
}

NEEDS_8 = (TABLE["cancel of 8"][0], TABLE["request 8 again"][0])


def test_every_message_in_every_state(subtests: pytest.Subtests) -> None:
    """By the fast path (`ServerConnection`) and by the table alone (`SlowConnection`)."""
    for kind, (name, (message, checks)) in itertools.product((ServerConnection, SlowConnection), TABLE.items()):
        for state, check in zip(S, checks, strict=True):
            if check is None:
                continue
            with subtests.test(name, state=state, kind=kind):
                core = connect(state, kind=kind)
                if message in NEEDS_8:
                    put_in_flight(core, 8)
                check(core, state, deliver(core, message))


def test_the_table_covers_every_event_that_a_client_can_cause() -> None:
    seen = set()
    for (message, _), state in itertools.product(TABLE.values(), S):
        core = connect(state)
        put_in_flight(core, 8)
        event = message if isinstance(message, e.Event) else core.classify(decode(message), 0)
        seen.add(type(event))
    caused = set(e.RequestEvent.__subclasses__()) | {
        kind for kind in e.Event.__subclasses__() if kind.__name__.endswith("Received")
    }
    assert seen == caused | {e.ClientDisconnected}


def test_a_batch_is_processed_in_order() -> None:
    core = connect(S.OPERATING, "2025-03-26")
    effects = core.receive(array(call(1), CHANGED, frame(id=7, method="ping")))
    assert [type(effect) for effect in effects] == [e.Serve, e.Deliver]
    (response,) = sent(core.finish(1, core.in_flight[1], b"{}"))
    assert [member["id"] for member in response] == [1, 7]


# --- one POST ---


def post(version: str, **options: Any) -> ServerConnection:
    return ServerConnection(server_config(**options), version=version, is_post=True, is_strict=True)


def test_a_post_of_the_handshake_era_starts_in_operating_and_stores_no_handshake(subtests: pytest.Subtests) -> None:
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]:
        with subtests.test(version=version):
            core = post(version)
            assert (core.state, core.version) == (S.OPERATING, version)
            (response,) = responses(core.receive(initialize(7, "2025-06-18")))
            assert response["result"]["protocolVersion"] == "2025-06-18"
            assert (core.state, core.version, core.client) == (S.OPERATING, version, None)
            bad = core.receive(initialize(7, 1))
            refuses(-32602, GuardRefusedError)(core, S.OPERATING, bad)
            served()(core, S.OPERATING, core.receive(call(7)))


def test_no_request_can_be_sent_to_the_client_of_a_post() -> None:
    core = post("2025-11-25")
    (fail,) = core.step(e.OutgoingRequested("k", "roots/list"), NOW)
    assert isinstance(fail, e.Fail)
    assert isinstance(fail.error, CapabilityError)
    assert (fail.key, fail.error.required) == ("k", "roots")
    assert str(fail.error) == "sessions are off, so roots cannot be requested from the client"


def test_closing_a_stateless_post_cancels_it_but_a_notification_does_not() -> None:
    core = post("2026-07-28")
    (serve,) = core.receive(stateless(1))
    dropped(core, S.STATELESS, core.receive(cancel(1)))
    effects = core.step(e.ClientDisconnected(), NOW)
    assert effects[0] == e.StopServing(1, serve.serial, "client disconnected")
    assert [type(effect) for effect in effects[1:]] == [e.Transition, e.Transition, e.Close]
    assert core.state is S.CLOSED


def test_closing_a_post_of_the_handshake_era_drains_it() -> None:
    core = post("2025-11-25")
    (serve,) = core.receive(call(1))
    effects = core.step(e.ClientDisconnected(), NOW)
    assert effects == [e.Transition("operating", "draining", "client disconnected")]
    assert core.wake_at == NOW + 1.0
    assert sent(core.finish(1, serve.serial, b"{}"))[0]["id"] == 1


def test_an_unsupported_version_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        ServerConnection(server_config(versions=("2025-11-25",)), version="2026-07-28")
    assert refused.value.path == "version"


def test_a_session_can_be_restored_with_the_client_params() -> None:
    client = e.ClientParams("2025-11-25", b"{}", b'{"roots":{}}')
    core = ServerConnection(DEFAULT_CONFIG, version="2025-11-25", client=client)
    SEQUENCE(core, S.OPERATING, core.receive(initialize(7)))
    assert isinstance(core.step(e.OutgoingRequested("k", "roots/list"), NOW)[0], e.Send)


# --- handlers ---


def test_a_result_and_a_failure_are_sent_once(subtests: pytest.Subtests) -> None:
    for state in [S.HANDSHAKE, S.OPERATING, S.STATELESS, S.DRAINING]:
        with subtests.test(state=state):
            core = connect(state)
            first, second = put_in_flight(core, 1), put_in_flight(core, "1")
            assert sent(core.finish(1, first, b'{"a":1}')) == [{"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}]
            (send, *_) = core.step(e.Failed("1", second, -32000, "no", {"why": None}), NOW)
            error = {"code": -32000, "message": "no", "data": {"why": None}}
            assert parse(send.frame) == {"jsonrpc": "2.0", "id": "1", "error": error}
            assert send.related_request_id == "1"
            for again in (core.finish(1, first, b"{}"), core.step(e.Failed("1", second, 1, ""), NOW)):
                assert again == []
            assert core.counts["late result"] == 2


def test_a_late_result_is_not_the_response_to_a_later_request_with_the_same_id(subtests: pytest.Subtests) -> None:
    for state in [S.HANDSHAKE, S.OPERATING, S.STATELESS, S.DRAINING]:
        with subtests.test(state=state):
            core = connect(state)
            old = put_in_flight(core, 1)
            assert core.receive(cancel(1, reason="timeout")) == [e.StopServing(1, old, "timeout")]
            new = put_in_flight(core, 1)
            assert core.finish(1, old, b"{}") == []
            assert core.step(e.Failed(1, old, 1, ""), NOW) == []
            assert core.in_flight[1] == new
            assert len(sent(core.finish(1, new, b"{}"))) == 1


def test_a_cancel_without_a_request_in_flight_is_dropped(subtests: pytest.Subtests) -> None:
    for params in [
        {},
        {"requestId": None},
        {"requestId": 1.5},
        {"requestId": True},
        {"requestId": [1]},
        {"requestId": "8"},
    ]:
        with subtests.test(params=params):
            core = connect(S.OPERATING)
            put_in_flight(core, 8)
            dropped(core, S.OPERATING, core.receive(frame(method="notifications/cancelled", params=params)))
            dropped(core, S.OPERATING, core.receive(frame(method="notifications/cancelled")))
            assert core.counts["ignored CancelReceived"] == 2


def test_a_cancel_with_an_invalid_reason_still_cancels() -> None:
    core = connect(S.OPERATING)
    serial = put_in_flight(core, 8)
    assert core.receive(cancel(8, reason=5)) == [e.StopServing(8, serial)]


def test_a_response_over_the_frame_limit_becomes_an_error() -> None:
    core = connect(S.OPERATING, server_config=server_config(max_frame_bytes=1024))
    (response,) = sent(core.finish(1, put_in_flight(core, 1), b'{"a":"%b"}' % (b"x" * 1024)))
    assert (response["id"], response["error"]["code"], response["error"]["data"]["limit"]) == (1, -32603, 1024)
    assert core.counts["response too large"] == 1


def test_an_error_with_data_that_is_not_json_still_gets_a_response() -> None:
    core = connect(S.OPERATING)
    (response,) = sent(core.step(e.Failed(1, put_in_flight(core, 1), -32000, "no", {"x": float("nan")}), NOW))
    assert (response["id"], response["error"]["code"]) == (1, -32000)
    assert core.counts["error not encoded"] == 1


def test_progress_is_sent_while_it_increases_and_the_request_is_in_flight() -> None:
    core = connect(S.HANDSHAKE)
    serial = put_in_flight(core, 1)

    def report(progress: float, **more: Any) -> list[Any]:
        return sent(core.step(e.Progressed(1, serial, "t", progress, **more), NOW))

    params = {"progressToken": "t", "progress": 0.5, "total": 2.0, "message": "half"}
    assert report(0.5, total=2.0, message="half") == [
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    ]
    for value in (0.5, 0.25, -1.0, float("nan"), float("inf"), float("-inf")):
        assert report(value) == []
    assert report(0.75)[0]["params"] == {"progressToken": "t", "progress": 0.75}
    assert core.counts["progress dropped"] == 6
    core.finish(1, serial, b"{}")
    assert report(1.0) == []
    again = put_in_flight(core, 1)
    assert len(core.step(e.Progressed(1, again, "t", 0.1), NOW)) == 1


def test_no_handler_can_finish_in_fresh(subtests: pytest.Subtests) -> None:
    for event in [e.Finished(1, 1), e.Failed(1, 1, 1, ""), e.Progressed(1, 1, 1, 1.0)]:
        with subtests.test(event=event):
            with pytest.raises(InvalidEventError) as invalid:
                connect(S.FRESH).step(event, NOW)
            assert (invalid.value.event, invalid.value.state) == (type(event).__name__, "fresh")
            core = ServerConnection(DEFAULT_CONFIG)
            assert core.step(event, NOW) == []
            assert core.counts == {f"impossible {type(event).__name__}": 1}


# --- notifications and requests to the client ---

LOG = e.Notified("notifications/message", b'{"level":"info","data":1}')
LISTS = e.Notified("notifications/tools/list_changed")
RELATED = e.Notified("notifications/message", b"{}", 7)


def test_notifications_are_sent_if_the_state_allows(subtests: pytest.Subtests) -> None:
    for state, sent_now, queued in [
        (S.FRESH, (), ()),
        (S.HANDSHAKE, (LOG, RELATED), (LISTS,)),
        (S.OPERATING, (LOG, RELATED, LISTS), ()),
        (S.STATELESS, (LOG, RELATED, LISTS), ()),
        (S.DRAINING, (LOG, RELATED, LISTS), ()),
        (S.CLOSED, (), ()),
    ]:
        with subtests.test(state=state, sent_now=sent_now, queued=queued):
            core = connect(state)
            for event in (LOG, RELATED, LISTS):
                effects = core.step(event, NOW)
                assert [m["method"] for m in sent(effects)] == ([event.method] if event in sent_now else [])
                assert [x.related_request_id for x in effects if isinstance(x, e.Send)] == (
                    [event.related_request_id] if event in sent_now else []
                )
            assert len(core.outgoing.queued) == len(queued)


def test_the_queue_is_sent_in_order_after_the_handshake() -> None:
    core = connect(S.HANDSHAKE)
    for event in (
        LISTS,
        e.OutgoingRequested("a", "roots/list", related_request_id=5),
        e.OutgoingRequested("p", "ping"),
        e.OutgoingRequested("b", "roots/list"),
    ):
        core.step(event, NOW)
    core.step(e.OutgoingCancelled("b"), NOW)
    transition, notification, request = core.receive(INITIALIZED)
    assert transition == e.Transition("handshake", "operating", "initialized received")
    assert parse(notification.frame)["method"] == LISTS.method
    assert (parse(request.frame)["id"], parse(request.frame)["method"]) == (2, "roots/list")
    assert request.related_request_id == 5
    assert [key for key, _, _ in core.outgoing_requests.values()] == ["p", "a"]


def test_queued_requests_fail_unsent_at_shutdown(subtests: pytest.Subtests) -> None:
    for end in [e.DrainRequested(), e.ClientDisconnected(), e.StopRequested()]:
        with subtests.test(end=end):
            core = connect(S.HANDSHAKE)
            core.step(LISTS, NOW)
            core.step(e.OutgoingRequested("a", "roots/list"), NOW)
            fails = [effect for effect in core.step(end, NOW) if isinstance(effect, e.Fail)]
            assert [(fail.key, type(fail.error), fail.error.may_have_run) for fail in fails] == [
                ("a", ShutdownError, False)
            ]
            assert core.counts["notification dropped"] == 1


def test_queued_requests_fail_when_the_drain_begins(subtests: pytest.Subtests) -> None:
    for end in [e.DrainRequested(), e.ClientDisconnected()]:
        with subtests.test(end=end):
            core = connect(S.HANDSHAKE)
            put_in_flight(core, 7)
            core.step(LISTS, NOW)
            core.step(e.OutgoingRequested("a", "roots/list"), NOW)
            fails = [effect for effect in core.step(end, NOW) if isinstance(effect, e.Fail)]
            assert core.state is S.DRAINING
            assert [(fail.key, fail.error.may_have_run) for fail in fails] == [("a", False)]
            assert core.outgoing.queued == []


def test_the_queue_is_bounded() -> None:
    core = connect(S.HANDSHAKE, server_config=server_config(max_concurrent=2))
    for _ in range(3):
        core.step(LISTS, NOW)
    assert core.counts["notification dropped"] == 1
    (fail,) = core.step(e.OutgoingRequested("a", "roots/list"), NOW)
    assert isinstance(fail.error, BackpressureError)
    assert len(core.outgoing.queued) == 2


def test_a_notification_that_cannot_be_sent_raises(subtests: pytest.Subtests) -> None:
    for state in [S.HANDSHAKE, S.OPERATING]:
        for method, params in [
            ("notifications/x", b'{"a":"%b"}' % (b"x" * 2000)),
            ("x" * 300, b"{}"),
            ("\ud800", b"{}"),
        ]:
            with subtests.test(state=state, method=method, params=params):
                core = connect(state, server_config=server_config(max_frame_bytes=1024))
                before = snapshot(core)
                with pytest.raises((UsageError, FrameTooLargeError)):
                    core.step(e.Notified(method, params), NOW)
                assert snapshot(core) == before
                answered(core, state, core.receive(frame(id=7, method="ping")))


def test_requests_are_sent_to_the_client_if_the_state_allows(subtests: pytest.Subtests) -> None:
    for state, error, is_sent in [
        (S.FRESH, StateError, False),
        (S.HANDSHAKE, None, False),
        (S.OPERATING, None, True),
        (S.STATELESS, CapabilityError, False),
        (S.DRAINING, ShutdownError, False),
        (S.CLOSED, ShutdownError, False),
    ]:
        with subtests.test(state=state, error=error, is_sent=is_sent):
            effects = connect(state).step(e.OutgoingRequested("k", "sampling/createMessage", b"{}", 7), NOW)
            fails = [(effect.key, type(effect.error)) for effect in effects if isinstance(effect, e.Fail)]
            assert fails == ([("k", error)] if error is not None else [])
            requests = [(parse(x.frame)["method"], x.related_request_id) for x in effects if isinstance(x, e.Send)]
            assert requests == ([("sampling/createMessage", 7)] if is_sent else [])


def test_undeclared_and_unknown_requests_to_the_client_fail(subtests: pytest.Subtests) -> None:
    for version, method, required in [
        ("2025-11-25", "tools/list", "tools"),
        ("2025-11-25", "no/such", "no/such"),
        ("2025-03-26", "elicitation/create", "elicitation"),
        ("2025-11-25", "tasks/list", "tasks.list"),
    ]:
        with subtests.test(version=version, method=method, required=required):
            (fail,) = connect(S.OPERATING, version).step(e.OutgoingRequested("k", method), NOW)
            assert isinstance(fail.error, CapabilityError)
            assert fail.error.required == required
            assert str(fail.error) == f"the client did not declare {required}"


def test_responses_complete_their_requests_and_strays_are_classified() -> None:
    core = connect(S.OPERATING)
    core.step(e.OutgoingRequested("a", "roots/list"), NOW)
    core.step(e.OutgoingRequested("b", "ping"), NOW)
    (complete,) = core.receive(frame(id=2, result={"x": 1}))
    assert isinstance(complete, e.Complete)
    assert (complete.key, bytes(complete.result)) == ("b", b'{"x": 1}')
    (fail,) = core.receive(frame(id=1, error={"code": -1, "message": "no", "data": [1]}))
    assert isinstance(fail.error, JsonRpcError)
    assert (fail.key, fail.error.code, fail.error.data) == ("a", -1, [1])
    assert (fail.error.method, fail.error.request_id) == ("roots/list", 1)
    assert core.receive(frame(id=2, result={})) == [e.Stray("late", 1)]
    for unknown in (3, 0, -1, "1", "x"):
        (stray,) = core.receive(frame(id=unknown, result={}))
        assert stray.kind == "unknown"
    assert core.counts["unknown response"] == 5


def test_a_malformed_response_fails_its_request() -> None:
    core = connect(S.OPERATING)
    core.step(e.OutgoingRequested("a", "roots/list"), NOW)
    send, fail, violation = core.receive(frame(id=1, error={"code": "x"}))
    assert parse(send.frame)["error"]["code"] == -32600
    assert "id" not in parse(send.frame)
    assert isinstance(fail.error, ProtocolError)
    assert (fail.key, fail.error.may_have_run) == ("a", True)
    assert isinstance(violation, e.Violation)
    assert not core.outgoing_requests


def test_a_cancelled_request_is_cancelled_at_the_client_and_its_response_is_late(subtests: pytest.Subtests) -> None:
    for reason in ["", "timeout", "\ud800"]:
        with subtests.test(reason=reason):
            core = connect(S.OPERATING)
            core.step(e.OutgoingRequested("a", "roots/list", related_request_id=7), NOW)
            (send,) = core.step(e.OutgoingCancelled("a", reason), NOW)
            assert send.related_request_id == 7
            params = {"requestId": 1, "reason": "timeout"} if reason == "timeout" else {"requestId": 1}
            assert parse(send.frame) == {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            assert core.step(e.OutgoingCancelled("a"), NOW) == []
            assert core.receive(frame(id=1, result={})) == [e.Stray("late", 1)]


def test_a_request_that_cannot_be_sent_fails() -> None:
    core = connect(S.OPERATING, server_config=server_config(max_frame_bytes=1024))
    (fail,) = core.step(e.OutgoingRequested("a", "roots/list", b'{"a":"%b"}' % (b"x" * 2000)), NOW)
    assert isinstance(fail.error, FrameTooLargeError)
    assert not core.outgoing_requests


def test_requests_to_the_client_are_bounded() -> None:
    core = connect(S.OPERATING, server_config=server_config(max_concurrent=1))
    core.step(e.OutgoingRequested("a", "roots/list"), NOW)
    (fail,) = core.step(e.OutgoingRequested("b", "roots/list"), NOW)
    assert isinstance(fail.error, BackpressureError)


# --- shutdown ---


def test_draining_waits_for_handlers_until_the_deadline(subtests: pytest.Subtests) -> None:
    for state in [S.HANDSHAKE, S.OPERATING, S.STATELESS]:
        with subtests.test(state=state):
            core = connect(state)
            first, second = put_in_flight(core, 1), put_in_flight(core, 2)
            assert core.wake_at is None
            assert core.step(e.DrainRequested(), NOW) == [e.Transition(state.value, "draining", "drain requested")]
            assert core.wake_at == NOW + 1.0
            assert len(sent(core.finish(1, first, b"{}"))) == 1
            assert core.due(NOW + 0.999) == []
            (expired,) = core.due(NOW + 1.0)
            assert core.step(expired, NOW + 1.0) == [
                e.StopServing(2, second, "drain expired"),
                e.Transition("draining", "closed", "drain expired"),
                e.Close(),
            ]
            assert (core.wake_at, core.due(NOW + 9)) == (None, [])
            assert core.finish(2, second, b"{}") == []


def test_draining_ends_with_its_last_handler() -> None:
    core = connect(S.DRAINING)
    send, transition, close = core.finish(90, core.in_flight[90], b"{}")
    assert parse(send.frame)["id"] == 90
    assert (transition, close) == (e.Transition("draining", "closed", "drained"), e.Close())


def test_draining_ends_when_its_last_handler_is_cancelled() -> None:
    core = connect(S.DRAINING)
    assert [type(effect) for effect in core.receive(cancel(90))] == [
        e.StopServing,
        e.Transition,
        e.Close,
    ]


def test_requests_to_the_client_fail_on_disconnect_but_not_on_drain() -> None:
    gone, drained = connect(S.OPERATING), connect(S.OPERATING)
    for core in (gone, drained):
        put_in_flight(core, 1)
        core.step(e.OutgoingRequested("a", "roots/list"), NOW)
    fail, _ = gone.step(e.ClientDisconnected(), NOW)
    assert isinstance(fail.error, ShutdownError)
    assert (fail.key, fail.error.may_have_run) == ("a", True)
    assert [type(effect) for effect in drained.step(e.DrainRequested(), NOW)] == [e.Transition]
    (complete,) = drained.receive(frame(id=1, result={}))
    assert isinstance(complete, e.Complete)


def test_closing_fails_the_pending_requests() -> None:
    core = connect(S.OPERATING)
    core.step(e.OutgoingRequested("a", "roots/list"), NOW)
    effects = core.step(e.DrainRequested(), NOW)
    assert [type(effect) for effect in effects] == [e.Transition, e.Transition, e.Fail, e.Close]


def test_a_stop_closes_immediately(subtests: pytest.Subtests) -> None:
    for state in LIVE:
        with subtests.test(state=state):
            core = connect(state)
            serial = put_in_flight(core, 1)
            effects = core.step(e.StopRequested(), NOW)
            stops = [effect for effect in effects if isinstance(effect, e.StopServing) and effect.id == 1]
            assert stops == ([e.StopServing(1, serial, "stop requested")] if serial else [])
            assert effects[-2:] == [e.Transition(state.value, "closed", "stop requested"), e.Close()]
            assert (core.state, core.wake_at, dict(core.in_flight)) == (S.CLOSED, None, {})


def test_an_event_of_another_machine_is_refused() -> None:
    with pytest.raises(UsageError):
        connect(S.FRESH).step(e.Event(), NOW)


# --- requests that are served without the table -----------------------------------------------------------------------


def test_what_must_be_checked_is_not_served_without_the_table():
    deep = b'{"a":' * 200 + b"{}" + b"}" * 200
    another_version = {**META, VERSION_KEY: "2025-11-25"}
    for kind, request in itertools.product(
        (ServerConnection, SlowConnection),
        (
            stateless(1, meta=another_version),
            stateless(1).replace(b'"echo"', b'"echo","arguments":' + deep),
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\xff"}}',
        ),
    ):
        core = connect(S.STATELESS, kind=kind)
        assert responses(core.receive(request))[0]["error"]["code"] < 0, request
        assert core.in_flight == {}
