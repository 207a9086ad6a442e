"""Incoming messages: their events, unreadable ids, and batches."""

import pytest

from jackstay.errors import (
    FrameTooLargeError,
)
from jackstay.protocol.server import events as e
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._states import ServerState as S
from jackstay.protocol.wire._jsonrpc import decode
from model.server import (
    DEFAULT_CONFIG,
    INITIALIZED,
    VERSION_KEY,
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
    stateless,
)
from model.server_checks import (
    CHANGED,
    NOW,
    STRAY,
    deliver,
    errs,
    put_in_flight,
)

# --- events ---

# (frame, event, state): at 2025-11-25 with request 8 in flight.
ROWS: list[tuple[bytes, type[e.Event], S]] = [
    (b"{", e.UnreadableReceived, S.OPERATING),
    (b"\xff", e.UnreadableReceived, S.OPERATING),
    (b"[]", e.BatchReceived, S.OPERATING),
    (b"1", e.InvalidReceived, S.OPERATING),
    (frame(id=1), e.InvalidReceived, S.OPERATING),
    (frame(id=None, method="ping"), e.InvalidReceived, S.OPERATING),
    (frame(id=1, result={}), e.ResponseReceived, S.OPERATING),
    (frame(id=None, error={"code": 1, "message": ""}), e.ResponseReceived, S.OPERATING),
    (cancel(8), e.CancelReceived, S.OPERATING),
    (INITIALIZED, e.InitializedReceived, S.OPERATING),
    (frame(method="notifications/progress"), e.NotificationReceived, S.OPERATING),
    (frame(method="tools/call"), e.NotificationReceived, S.OPERATING),
    (frame(method="initialize"), e.NotificationReceived, S.OPERATING),
    (call(8), e.DuplicateRequested, S.OPERATING),
    (stateless(8, "server/discover"), e.DuplicateRequested, S.OPERATING),
    (initialize(8), e.DuplicateRequested, S.OPERATING),
    (frame(id=8, method="ping"), e.DuplicateRequested, S.OPERATING),
    (call("8"), e.MethodRequested, S.OPERATING),
    (stateless(7, "server/discover", {VERSION_KEY: "2025-11-25"}), e.UnsupportedRequested, S.OPERATING),
    (stateless(7, "initialize", {VERSION_KEY: "2027-01-01"}), e.UnsupportedRequested, S.FRESH),
    (stateless(7, "server/discover"), e.DiscoverRequested, S.OPERATING),
    (stateless(7, "server/discover", {VERSION_KEY: 5}), e.DiscoverRequested, S.FRESH),
    (stateless(7), e.StatelessRequested, S.OPERATING),
    (stateless(7, "initialize"), e.StatelessRequested, S.FRESH),
    (stateless(7, "ping"), e.StatelessRequested, S.STATELESS),
    (stateless(7, meta={VERSION_KEY: 5}), e.StatelessRequested, S.FRESH),
    (initialize(7), e.InitializeRequested, S.STATELESS),
    (frame(id=7, method="ping"), e.PingRequested, S.STATELESS),
    (call(7, "server/discover"), e.UnknownRequested, S.OPERATING),
    (call(7, "server/discover"), e.MethodRequested, S.FRESH),
    (call(7, "server/discover"), e.MethodRequested, S.STATELESS),
    (call(7, "logging/setLevel"), e.UnknownRequested, S.STATELESS),
    (call(7, "logging/setLevel"), e.MethodRequested, S.HANDSHAKE),
    (call(7, "sampling/createMessage"), e.UnknownRequested, S.OPERATING),
    (call(7, "notifications/cancelled"), e.UnknownRequested, S.OPERATING),
    (call(7, ""), e.UnknownRequested, S.OPERATING),
    (call(7), e.MethodRequested, S.OPERATING),
]


def test_a_message_becomes_the_first_event_that_matches(subtests: pytest.Subtests) -> None:
    for message, kind, state in ROWS:
        with subtests.test(message=message, kind=kind, state=state):
            core = connect(state)
            put_in_flight(core, 8)
            assert type(core.classify(decode(message), len(message))) is kind


def test_the_request_of_a_cancel(subtests: pytest.Subtests) -> None:
    for params, id, reason in [
        ({"requestId": 1, "reason": "why"}, 1, "why"),
        ({"requestId": "1"}, "1", ""),
        ({"requestId": 1, "reason": 5}, 1, ""),
        ({"requestId": 1.5}, None, ""),
        ({"reason": "why"}, None, ""),
        ([1], None, ""),
        (None, None, ""),
    ]:
        with subtests.test(params=params, id=id, reason=reason):
            message = decode(frame(method="notifications/cancelled", params=params))
            assert connect(S.FRESH).classify(message, 0) == e.CancelReceived(id, reason)


def test_initialize_with_invalid_params_has_a_problem(subtests: pytest.Subtests) -> None:
    for message in [
        frame(id=7, method="initialize"),
        initialize(7, 5),
        initialize(7, clientInfo=...),
        initialize(7, capabilities={"x": "y" * 70_000}),
    ]:
        with subtests.test(message=message):
            event = connect(S.FRESH).classify(decode(message), 0)
            assert isinstance(event, e.InitializeRequested)
            assert event.client is None
            assert event.problem


def test_initialize_keeps_the_params_and_not_the_frame() -> None:
    event = connect(S.FRESH).classify(decode(initialize(7, "2025-06-18")), 0)
    assert isinstance(event, e.InitializeRequested)
    assert event.client is not None
    assert event.client.version == "2025-06-18"
    assert type(event.client.info) is type(event.client.capabilities) is bytes
    assert parse(event.client.info) == {"name": "client", "version": "1"}


# --- responses and notifications ---


def test_a_notification_is_delivered_with_its_params() -> None:
    (deliver,) = connect(S.OPERATING).receive(frame(method="notifications/x", params={"a": 1}))
    assert isinstance(deliver, e.Deliver)
    assert deliver.params is not None
    assert (deliver.method, bytes(deliver.params)) == ("notifications/x", b'{"a": 1}')


def test_a_response_is_a_violation_in_the_stateless_era() -> None:
    core = connect(S.OPERATING)
    core.step(e.OutgoingRequested("k", "ping"), NOW)
    (complete,) = core.receive(frame(id=1, result={}))
    assert isinstance(complete, e.Complete)
    STRAY(core, S.OPERATING, core.receive(frame(id=1, result={})))
    core = connect(S.STATELESS)
    assert core.receive(frame(id=1, result={})) == [e.Violation("response in the stateless era", 41, 1)]


def test_a_malformed_response_fails_its_request_only() -> None:
    core = connect(S.OPERATING)
    core.step(e.OutgoingRequested("k", "ping"), NOW)
    for id, keys in ((2, []), (1, ["k"])):
        effects = core.receive(frame(id=id, error=[]))
        assert [effect.key for effect in effects if isinstance(effect, e.Fail)] == keys


# --- unreadable ids ---


def test_an_unreadable_id_is_null_and_from_2025_11_25_on_absent(subtests: pytest.Subtests) -> None:
    for version, has_null in [
        ("2024-11-05", True),
        ("2025-03-26", True),
        ("2025-06-18", True),
        ("2025-11-25", False),
        ("2026-07-28", False),
    ]:
        with subtests.test(version=version, has_null=has_null):
            core = ServerConnection(DEFAULT_CONFIG, version=version)
            for message in (b"{", e.OversizeReceived(1 << 30), b"[]", frame(id=1, result={}, error={})):
                (response,) = responses(deliver(core, message))
                assert ("id" in response) == has_null
                assert response.get("id") is None


def test_an_unreadable_id_is_null_before_the_handshake() -> None:
    core = connect(S.FRESH)
    assert responses(core.receive(b"{"))[0]["id"] is None


def test_the_error_of_a_malformed_message_has_its_id_unless_it_is_in_flight() -> None:
    core = connect(S.OPERATING)
    (response,) = responses(core.receive(frame(id=1, method=5)))
    assert response["id"] == 1
    put_in_flight(core, 1)
    (response,) = responses(core.receive(frame(id=1, method=5)))
    assert "id" not in response


def test_the_error_of_an_oversize_frame_has_size_and_limit() -> None:
    core = connect(S.OPERATING, server_config=server_config(max_frame_bytes=4096))
    send, violation = core.step(e.OversizeReceived(5000), NOW)
    assert isinstance(send, e.Send)
    assert isinstance(send.error, FrameTooLargeError)
    assert parse(send.frame)["error"]["data"] == {"size": 5000, "limit": 4096}
    assert violation == e.Violation("oversize received", 5000, 1)
    assert parse(send.frame).get("id") is None
    send, _ = core.step(e.OversizeReceived(5000, b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{'), NOW)
    assert isinstance(send, e.Send)
    assert parse(send.frame)["id"] == "a"


def test_invalid_frames_are_counted_and_never_close_the_connection() -> None:
    core = connect(S.OPERATING)
    for count in range(1, 101):
        *_, violation = core.receive(b"garbage")
        assert violation == e.Violation("unreadable received", 7, count)
    assert core.state is S.OPERATING


# --- batches ---


def batching(state: S = S.OPERATING) -> ServerConnection:
    return connect(state, "2025-03-26")


def test_other_revisions_refuse_a_batch(subtests: pytest.Subtests) -> None:
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"]:
        with subtests.test(version=version):
            core = connect(S.OPERATING, version)
            errs(-32600)(core, S.OPERATING, core.receive(array(call(1), call(2))))
            assert not core.in_flight


def test_an_invalid_batch_is_refused_as_a_whole(subtests: pytest.Subtests) -> None:
    for message in [
        b"[]",
        array(*[INITIALIZED] * 101),
        array(call(1), initialize(2)),
        array(frame(method="initialize")),
    ]:
        for state in [S.OPERATING, S.DRAINING]:
            with subtests.test(message=message, state=state):
                core = batching(state)
                in_flight = dict(core.in_flight)
                errs(-32600)(core, state, core.receive(message))
                assert core.in_flight == in_flight


def test_a_batch_may_have_100_members() -> None:
    core = batching()
    effects = core.receive(array(*[frame(id=id, method="ping") for id in range(100)]))
    assert [response["id"] for response in sent(effects)[0]] == list(range(100))


def test_responses_are_sent_as_one_batch_in_the_order_of_the_requests() -> None:
    core = batching()
    requests = (call(1), frame(id=2, method="ping"), CHANGED, call(3), b"1", call(4, "no/such"), call(1))
    effects = core.receive(array(*requests))
    assert [type(effect) for effect in effects] == [e.Serve, e.Deliver, e.Serve, e.Violation, e.Violation]
    serials = {effect.id: effect.serial for effect in effects if isinstance(effect, e.Serve)}
    assert core.finish(3, serials[3], b'{"late":false}') == []
    (send,) = core.finish(1, serials[1], b"{}")
    assert isinstance(send, e.Send)
    assert send.related_request_id == 1
    members = parse(send.frame)
    assert [response["id"] for response in members] == [1, 2, 3, None, 4, 1]
    assert [response.get("error", {}).get("code") for response in members] == [
        None,
        None,
        None,
        -32600,
        -32601,
        -32600,
    ]


def test_a_batch_of_notifications_gets_no_response() -> None:
    core = batching()
    effects = core.receive(array(CHANGED, CHANGED, frame(id=5, result={})))
    assert [type(effect) for effect in effects] == [e.Deliver, e.Deliver, e.Stray]
    assert core.receive(array(CHANGED, cancel(1)))[1:] == []


def test_a_cancelled_member_does_not_delay_the_others() -> None:
    core = batching()
    serve, _ = core.receive(array(call(1), call(2)))
    stop = core.receive(cancel(2))
    assert [type(effect) for effect in stop] == [e.StopServing]
    (response,) = sent(core.finish(1, serve.serial, b"{}"))
    assert [member["id"] for member in response] == [1]


def test_cancelling_the_last_member_sends_the_others() -> None:
    core = batching()
    stop, send = core.receive(array(call(1), frame(id=2, method="ping"), cancel(1)))[1:]
    assert isinstance(stop, e.StopServing)
    assert isinstance(send, e.Send)
    assert [member["id"] for member in parse(send.frame)] == [2]
    core.receive(array(call(1)))
    assert [type(effect) for effect in core.receive(cancel(1))] == [e.StopServing]


def test_members_are_refused_while_draining() -> None:
    core = batching(S.DRAINING)
    (response,) = sent(core.receive(array(call(1), frame(id=2, method="ping"))))
    assert [member.get("error", {}).get("code") for member in response] == [-32603, None]


def test_the_deadline_sends_the_available_responses() -> None:
    core = batching()
    core.receive(array(call(1), frame(id=2, method="ping")))
    core.step(e.DrainRequested(), NOW)
    stop, send, *_ = core.step(e.DrainExpired(), NOW + 1)
    assert isinstance(stop, e.StopServing)
    assert [member["id"] for member in parse(send.frame)] == [2]


def test_a_batch_over_the_frame_limit_is_sent_as_single_responses() -> None:
    core = connect(S.OPERATING, "2025-03-26", server_config=server_config(max_frame_bytes=1024))
    first, second = core.receive(array(call(1), call(2)))
    core.finish(1, first.serial, b'{"a":"%b"}' % (b"x" * 600))
    effects = core.finish(2, second.serial, b'{"a":"%b"}' % (b"y" * 600))
    assert [response["id"] for response in sent(effects)] == [1, 2]
