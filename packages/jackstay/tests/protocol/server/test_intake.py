"""What comes in: frames that are no messages, ids that cannot be read, and arrays."""

from typing import Any

import pytest

from jackstay.errors import (
    FrameTooLargeError,
)
from jackstay.protocol.server import events as e
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._table import ServerState as S
from jackstay.protocol.wire._jsonrpc import decode
from model.server import (
    INITIALIZED,
    OFFER,
    VERSION_KEY,
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
    NOW,
    STRAY,
    errs,
    give,
    put_in_flight,
)

# --- which row a message belongs to ---------------------------------------------------------------------------------

# (frame, event): in `operating` at 2025-11-25 with request 8 in flight, except where a state is named.
ROWS: list[tuple[bytes, type[e.Event], S]] = [
    (b"{", e.UnreadableReceived, S.OPERATING),
    (b"\xff", e.UnreadableReceived, S.OPERATING),
    (b"[]", e.ArrayReceived, S.OPERATING),
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


@pytest.mark.parametrize(("message", "kind", "state"), ROWS)
def test_a_message_belongs_to_the_first_class_that_fits(
    message: bytes, kind: type[e.Event], state: S
) -> None:
    core = connect(state)
    put_in_flight(core, 8)
    assert type(core._classify(decode(message), len(message))) is kind


@pytest.mark.parametrize(
    ("params", "id", "reason"),
    [
        ({"requestId": 1, "reason": "why"}, 1, "why"),
        ({"requestId": "1"}, "1", ""),
        ({"requestId": 1, "reason": 5}, 1, ""),
        ({"requestId": 1.5}, None, ""),
        ({"reason": "why"}, None, ""),
        ([1], None, ""),
        (None, None, ""),
    ],
)
def test_a_cancel_names_a_request_or_nothing(params: Any, id: int | str | None, reason: str) -> None:
    message = decode(frame(method="notifications/cancelled", params=params))
    assert connect(S.FRESH)._classify(message, 0) == e.CancelReceived(id, reason)


@pytest.mark.parametrize(
    "message",
    [
        frame(id=7, method="initialize"),
        initialize(7, 5),
        initialize(7, clientInfo=...),
        initialize(7, capabilities={"x": "y" * 70_000}),
    ],
    ids=["no params", "no version", "no client", "too much"],
)
def test_initialize_says_what_its_params_lack(message: bytes) -> None:
    event = connect(S.FRESH)._classify(decode(message), 0)
    assert isinstance(event, e.InitializeRequested)
    assert event.client is None
    assert event.flaw


def test_initialize_keeps_what_the_client_said_and_not_the_frame() -> None:
    event = connect(S.FRESH)._classify(decode(initialize(7, "2025-06-18")), 0)
    assert isinstance(event, e.InitializeRequested)
    assert event.client is not None
    assert event.client.version == "2025-06-18"
    assert type(event.client.info) is type(event.client.capabilities) is bytes
    assert parse(event.client.info) == {"name": "client", "version": "1"}


# --- responses and notifications ----------------------------------------------------------------------------------------


def test_a_notification_is_delivered_with_its_params() -> None:
    (deliver,) = connect(S.OPERATING).receive(frame(method="notifications/x", params={"a": 1}), NOW)
    assert isinstance(deliver, e.Deliver)
    assert deliver.params is not None
    assert (deliver.method, bytes(deliver.params)) == ("notifications/x", b'{"a": 1}')


def test_a_response_goes_to_our_question_in_the_handshake_era_and_is_a_violation_afterwards() -> None:
    core = connect(S.OPERATING)
    core.step(e.Asked("k", "ping"), NOW)
    (complete,) = core.receive(frame(id=1, result={}), NOW)
    assert isinstance(complete, e.Complete)
    STRAY(core, S.OPERATING, core.receive(frame(id=1, result={}), NOW))
    core = connect(S.STATELESS)
    assert core.receive(frame(id=1, result={}), NOW) == [e.Violation("response in the stateless era", 41, 1)]


def test_a_malformed_answer_fails_our_question_and_no_other() -> None:
    core = connect(S.OPERATING)
    core.step(e.Asked("k", "ping"), NOW)
    for id, keys in ((2, []), (1, ["k"])):
        effects = core.receive(frame(id=id, error=[]), NOW)
        assert [effect.key for effect in effects if isinstance(effect, e.Fail)] == keys


# --- ids that cannot be read ------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "has_null"),
    [
        ("2024-11-05", True),
        ("2025-03-26", True),
        ("2025-06-18", True),
        ("2025-11-25", False),
        ("2026-07-28", False),
    ],
)
def test_without_a_readable_id_it_is_null_and_from_2025_11_25_on_absent(version: str, has_null: bool) -> None:
    core = ServerConnection(OFFER, version=version)
    for message in (b"{", e.OversizeReceived(1 << 30), b"[]", frame(id=1, result={}, error={})):
        (answer,) = answers(give(core, message))
        assert ("id" in answer) == has_null
        assert answer.get("id") is None


def test_in_fresh_an_unreadable_id_is_null_also_when_draining_from_there() -> None:
    core = connect(S.FRESH)
    assert answers(core.receive(b"{", NOW))[0]["id"] is None


def test_a_malformed_message_is_answered_with_its_id_unless_that_is_in_flight() -> None:
    core = connect(S.OPERATING)
    (answer,) = answers(core.receive(frame(id=1, method=5), NOW))
    assert answer["id"] == 1
    put_in_flight(core, 1)
    (answer,) = answers(core.receive(frame(id=1, method=5), NOW))
    assert "id" not in answer


def test_a_frame_over_the_limit_says_both_sizes() -> None:
    core = connect(S.OPERATING, offer=offer(max_frame_bytes=4096))
    send, violation = core.step(e.OversizeReceived(5000), NOW)
    assert isinstance(send, e.Send)
    assert isinstance(send.error, FrameTooLargeError)
    assert parse(send.frame)["error"]["data"] == {"size": 5000, "limit": 4096}
    assert violation == e.Violation("oversize received", 5000, 1)


def test_bad_frames_are_counted_and_never_end_the_connection() -> None:
    core = connect(S.OPERATING)
    for count in range(1, 101):
        *_, violation = core.receive(b"garbage", NOW)
        assert violation == e.Violation("unreadable received", 7, count)
    assert core.state is S.OPERATING


# --- arrays ------------------------------------------------------------


def batching(state: S = S.OPERATING) -> ServerConnection:
    return connect(state, "2025-03-26")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_revisions_answer_an_array_with_one_error(version: str) -> None:
    core = connect(S.OPERATING, version)
    errs(-32600)(core, S.OPERATING, core.receive(array(call(1), call(2)), NOW))
    assert not core.in_flight


@pytest.mark.parametrize(
    "message",
    [b"[]", array(*[INITIALIZED] * 101), array(call(1), initialize(2)), array(frame(method="initialize"))],
    ids=["empty", "too long", "initialize inside", "initialize as a notification"],
)
@pytest.mark.parametrize("state", [S.OPERATING, S.DRAINING])
def test_an_array_that_is_no_batch_is_one_error_and_nothing_of_it_runs(message: bytes, state: S) -> None:
    core = batching(state)
    in_flight = dict(core.in_flight)
    errs(-32600)(core, state, core.receive(message, NOW))
    assert core.in_flight == in_flight


def test_a_hundred_members_are_taken() -> None:
    core = batching()
    effects = core.receive(array(*[frame(id=id, method="ping") for id in range(100)]), NOW)
    assert [answer["id"] for answer in sent(effects)[0]] == list(range(100))


def test_answers_of_an_array_go_out_as_one_in_the_order_of_the_requests() -> None:
    core = batching()
    members = (call(1), frame(id=2, method="ping"), CHANGED, call(3), b"1", call(4, "no/such"), call(1))
    effects = core.receive(array(*members), NOW)
    assert [type(effect) for effect in effects] == [e.Serve, e.Deliver, e.Serve, e.Violation, e.Violation]
    serials = {effect.id: effect.serial for effect in effects if isinstance(effect, e.Serve)}
    assert core.finish(3, serials[3], b'{"late":false}', NOW) == []
    (send,) = core.finish(1, serials[1], b"{}", NOW)
    assert isinstance(send, e.Send)
    assert send.about == 1
    answers = parse(send.frame)
    assert [answer["id"] for answer in answers] == [1, 2, 3, None, 4, 1]
    assert [answer.get("error", {}).get("code") for answer in answers] == [
        None,
        None,
        None,
        -32600,
        -32601,
        -32600,
    ]


def test_an_array_of_notifications_has_no_answer() -> None:
    core = batching()
    effects = core.receive(array(CHANGED, CHANGED, frame(id=5, result={})), NOW)
    assert [type(effect) for effect in effects] == [e.Deliver, e.Deliver, e.Stray]
    assert core.receive(array(CHANGED, cancel(1)), NOW)[1:] == []


def test_a_cancelled_member_has_no_answer_and_holds_nothing_up() -> None:
    core = batching()
    serve, _ = core.receive(array(call(1), call(2)), NOW)
    stop = core.receive(cancel(2), NOW)
    assert [type(effect) for effect in stop] == [e.StopServing]
    (answer,) = sent(core.finish(1, serve.serial, b"{}", NOW))
    assert [member["id"] for member in answer] == [1]


def test_when_the_last_open_member_is_cancelled_the_others_go_out() -> None:
    core = batching()
    stop, send = core.receive(array(call(1), frame(id=2, method="ping"), cancel(1)), NOW)[1:]
    assert isinstance(stop, e.StopServing)
    assert isinstance(send, e.Send)
    assert [member["id"] for member in parse(send.frame)] == [2]
    core.receive(array(call(1)), NOW)
    assert [type(effect) for effect in core.receive(cancel(1), NOW)] == [e.StopServing]


def test_members_are_refused_while_draining_and_the_array_still_answers() -> None:
    core = batching(S.DRAINING)
    (answer,) = sent(core.receive(array(call(1), frame(id=2, method="ping")), NOW))
    assert [member.get("error", {}).get("code") for member in answer] == [-32603, None]


def test_at_the_deadline_an_array_sends_the_answers_it_has() -> None:
    core = batching()
    core.receive(array(call(1), frame(id=2, method="ping")), NOW)
    core.step(e.DrainAsked(), NOW)
    stop, send, *_ = core.step(e.DrainExpired(), NOW + 1)
    assert isinstance(stop, e.StopServing)
    assert [member["id"] for member in parse(send.frame)] == [2]


def test_an_array_that_would_be_larger_than_a_frame_is_sent_in_pieces() -> None:
    core = connect(S.OPERATING, "2025-03-26", offer=offer(max_frame_bytes=1024))
    first, second = core.receive(array(call(1), call(2)), NOW)
    core.finish(1, first.serial, b'{"a":"%b"}' % (b"x" * 600), NOW)
    effects = core.finish(2, second.serial, b'{"a":"%b"}' % (b"y" * 600), NOW)
    assert [answer["id"] for answer in sent(effects)] == [1, 2]
