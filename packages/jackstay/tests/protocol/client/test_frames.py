"""What a peer can send, in each state and era. What makes no sense is in `test_frames_garbage`."""

import json

import pytest

from jackstay.errors import JsonRpcError, ProtocolError
from jackstay.protocol.client import events as e
from model.rig import STATELESS, Rig, S, rig_in

# --- answers ----------------------------------------------------------------------------------------------------------


def test_an_error_answer_reaches_its_caller_as_it_was_said():
    """Section 3: JsonRpcError."""
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    rig.say(id=id, error={"code": -32602, "message": "no such tool", "data": {"name": "x"}})
    error = rig.error_of("me")
    assert isinstance(error, JsonRpcError)
    assert (error.code, error.data, error.may_have_run) == (-32602, {"name": "x"}, None)
    assert error.server_error == {"code": -32602, "message": "no such tool", "data": {"name": "x"}}
    assert (error.method, error.request_id) == ("tools/call", id)


@pytest.mark.parametrize("data", [None, 0, False, "", [], {}])
def test_empty_data_is_kept_where_it_can_be(data):
    rig = rig_in(S.READY)
    rig.say(id=rig.written_call("me"), error={"code": 1, "message": "", "data": data})
    assert rig.error_of("me").data == data


RESULTS = [b"{}", b"null", b"[]", b"5", b'"x"', b"true", b'{"a":{"b":[1,2]}}']


@pytest.mark.parametrize("result", RESULTS)
def test_any_result_reaches_its_caller_as_it_was_sent(result):
    rig = rig_in(S.READY)
    rig.receive(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (rig.written_call("me"), result))
    assert bytes(rig.only(e.Complete).result) == result


# Meant as an answer to a call of ours, and not one. %d is our id.
MALFORMED = [
    b'{"jsonrpc":"2.0","id":%d,"result":{},"error":{"code":1,"message":""}}',
    b'{"jsonrpc":"2.0","id":%d,"error":{"code":"1","message":""}}',
    b'{"jsonrpc":"2.0","id":%d,"error":{"message":"x"}}',
    b'{"jsonrpc":"2.0","id":%d,"error":null}',
    b'{"jsonrpc":"2.0","id":%d,"error":"failed"}',
    b'{"jsonrpc":"2.0","id":%d,"error":[]}',
    b'{"jsonrpc":"1.0","id":%d,"result":{}}',
    b'{"id":%d,"result":{}}',
    b'{"jsonrpc":2,"id":%d,"result":{}}',
    b'{"jsonrpc":"2.0","id":%d,"result":"\xff"}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"structuredContent":{"mean":NaN}}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"text":"cut in the middle of \\ud83d"}}',
]


@pytest.mark.parametrize("frame", MALFORMED)
def test_a_malformed_answer_to_our_own_id_is_told_to_its_caller(frame):
    """Whoever waits for it must not wait for ever; the connection goes on."""
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    rig.receive(frame % id)
    error = rig.error_of("me")
    assert isinstance(error, ProtocolError)
    assert error.may_have_run is True
    assert error.quote
    assert rig.state is S.READY
    assert rig.core.calls.pending == {}


@pytest.mark.parametrize("frame", MALFORMED)
def test_a_malformed_answer_to_an_id_that_is_not_open_is_a_strike(frame):
    rig = rig_in(S.READY)
    rig.written_call("me")
    rig.receive(frame % 999)
    assert rig.kinds() == "Violation"
    assert rig.outcomes_of("me") == 0


# Frames whose id is no id of ours.
NOBODYS = [
    (b'{"jsonrpc":"2.0","id":"2","result":{}}', "Stray"),
    (b'{"jsonrpc":"2.0","id":2.0,"result":{}}', "Violation"),
    (b'{"jsonrpc":"2.0","id":true,"result":{}}', "Violation"),
    (b'{"jsonrpc":"2.0","id":null,"result":{}}', "Violation"),
    (b'{"jsonrpc":"2.0","result":{}}', "Violation"),
    (b'{"jsonrpc":"2.0","id":{},"result":{}}', "Violation"),
    (b'{"jsonrpc":"2.0","id":99999999999999999999999,"result":{}}', "Stray"),
    (b'{"jsonrpc":"2.0","id":-2,"result":{}}', "Stray"),
    (b'{"jsonrpc":"2.0","id":0,"result":{}}', "Stray"),
    (b'{"jsonrpc":"2.0","id":"","result":{}}', "Stray"),
    (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}', "Stray"),
    (b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}', "Stray"),
    (b'{"jsonrpc":"2.0","id":%b,"result":{}}' % (b"9" * 5000), "Violation"),
]


@pytest.mark.parametrize(("frame", "kind"), NOBODYS)
def test_an_answer_with_an_id_that_is_not_ours_touches_nobody(frame, kind):
    """Row 18 and the table: answer, tombstoned or unknown."""
    rig = rig_in(S.READY)
    assert rig.written_call("me") == 2
    rig.receive(frame)
    assert rig.kinds() == kind
    assert rig.outcomes_of("me") == 0
    assert rig.state is S.READY


def test_late_and_unknown_answers_are_counted_each():
    """Section 5: response.unknown, response.late."""
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    rig.step(e.Expired(id))
    rig.answer(id)
    assert rig.out == [e.Stray("late", 1)]
    rig.answer(id)
    assert rig.out == [e.Stray("unknown", 1)]
    rig.answer(999)
    assert rig.out == [e.Stray("unknown", 2)]
    assert rig.outcomes_of("me") == 1


def test_an_answer_later_than_any_can_be_is_unknown():
    """Row 18: the TTL is checked on lookup."""
    rig = rig_in(S.READY, tombstone_sweep=1000.0, hang_timeout=None)
    id = rig.written_call("me", timeout=1.0)
    rig.wait(1.0 + 75.0 + 0.1)
    rig.answer(id)
    assert rig.only(e.Stray).kind == "unknown"


@pytest.mark.parametrize("state", [S.STARTING, S.BACKOFF, S.CLOSING, S.CLOSED])
def test_an_answer_before_anything_was_sent_is_ignored(state):
    rig = rig_in(state)
    for id in range(5):
        rig.answer(id)
        assert rig.out == []
    assert rig.state is state


def test_an_answer_to_a_call_that_still_waits_is_unknown():
    rig = rig_in(S.INITIALIZING)
    id = rig.call("me", wait_for_ready=True)
    rig.answer(id)
    assert rig.out == [e.Stray("unknown", 1)]
    rig.agree()
    assert rig.methods()[-1] == "tools/call"
    assert rig.outcomes_of("me") == 0


def test_an_answer_to_our_own_ping_completes_nobody():
    rig = rig_in(S.READY, keepalive=5.0)
    rig.wait(10.1)
    id = max(rig.core.calls.pending)
    rig.answer(id)
    assert rig.out == []
    rig.wait(10.1)
    rig.say(id=max(rig.core.calls.pending), error={"code": -32601, "message": "no"})
    assert rig.out == []


# --- notifications ----------------------------------------------------------------------------------------------------


def test_progress_goes_to_its_call_and_extends_it():
    """Row 19: progress goes to its request; row 2."""
    rig = rig_in(S.READY)
    id = rig.written_call("me", timeout=10.0, wants_progress=True)
    rig.wait(8.0)
    rig.say(method="notifications/progress", params={"progressToken": id, "progress": 1, "total": 2})
    report = rig.only(e.Report)
    assert (report.caller, report.id) == ("me", id)
    assert json.loads(bytes(report.params))["total"] == 2
    assert rig.core.calls.timers.at(id) == 18.0


PROGRESS = [
    b"",
    b',"params":{}',
    b',"params":[]',
    b',"params":{"progressToken":null}',
    b',"params":{"progressToken":"2"}',
    b',"params":{"progressToken":2.0}',
    b',"params":{"progressToken":true}',
    b',"params":{"progressToken":999}',
    b',"params":{"progressToken":[2]}',
    b',"params":{"progressToken":%b}' % (b"1" * 5000),
]


@pytest.mark.parametrize("params", PROGRESS, ids=lambda value: repr(value[:40]))
def test_progress_for_nobody_is_counted(params):
    rig = rig_in(S.READY)
    assert rig.written_call("me", timeout=10.0) == 2
    rig.now = 5.0
    rig.receive(b'{"jsonrpc":"2.0","method":"notifications/progress"%b}' % params)
    assert rig.out == []
    assert rig.core.counts["ignored progress"] == 1
    assert rig.core.calls.timers.at(2) == 10.0


def test_progress_after_the_end_is_dropped():
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    rig.step(e.GaveUp(id))
    rig.say(method="notifications/progress", params={"progressToken": id, "progress": 1})
    assert rig.out == []


def test_progress_for_a_request_of_our_own_reports_to_nobody():
    rig = rig_in(S.READY, keepalive=5.0)
    rig.wait(10.1)
    rig.say(
        method="notifications/progress", params={"progressToken": max(rig.core.calls.pending), "progress": 1}
    )
    assert rig.out == []


DELIVERED = [
    "notifications/message",
    "notifications/resources/updated",
    "notifications/tools/list_changed",
    "x/y",
]


@pytest.mark.parametrize("method", DELIVERED)
def test_every_other_notification_goes_to_the_inbox_in_ready(method):
    rig = rig_in(S.READY)
    rig.say(method=method, params={"a": 1})
    delivered = rig.only(e.Deliver)
    assert (delivered.method, json.loads(bytes(delivered.params))) == (method, {"a": 1})


KEPT = [
    ("notifications/message", True),
    ("notifications/tools/list_changed", True),
    ("notifications/resources/list_changed", True),
    ("notifications/prompts/list_changed", True),
    ("notifications/resources/updated", False),
    ("notifications/progress", False),
    ("x/y", False),
]


@pytest.mark.parametrize(("method", "is_kept"), KEPT)
def test_before_ready_log_and_list_changed_are_kept(method, is_kept):
    """Table: other notification in initializing."""
    rig = rig_in(S.INITIALIZING)
    rig.say(method=method)
    assert rig.kinds() == ("Deliver" if is_kept else "")
    assert ("ignored NotificationReceived" in rig.core.counts) is not is_kept


# --- requests of the server -------------------------------------------------------------------------------------------


def test_ping_is_answered_in_initializing_and_ready():
    """Row 20."""
    rig = rig_in(S.INITIALIZING)
    rig.say(id="p", method="ping")
    assert rig.frames() == [{"jsonrpc": "2.0", "id": "p", "result": {}}]
    rig.agree()
    rig.say(id=2**60, method="ping")
    assert rig.frames() == [{"jsonrpc": "2.0", "id": 2**60, "result": {}}]


def test_other_requests_before_ready_are_refused():
    """Table: server request in initializing: others -32600."""
    rig = rig_in(S.INITIALIZING)
    rig.say(id=7, method="sampling/createMessage")
    (frame,) = rig.frames()
    assert (frame["id"], frame["error"]["code"]) == (7, -32600)


def test_a_request_goes_to_its_handler_in_ready():
    rig = rig_in(S.READY)
    rig.say(id=7, method="roots/list", params={"_meta": {}})
    serve = rig.only(e.Serve)
    assert (serve.id, serve.method, bytes(serve.params)) == (7, "roots/list", b'{"_meta": {}}')


@pytest.mark.parametrize("method", ["ping", "sampling/createMessage", "x/y"])
def test_a_stateless_server_is_never_answered(method):
    """Row 20: server requests are violations and are never answered; section 5: with the size of the frame."""
    rig = Rig(versions=STATELESS).ready()
    frame = b'{"jsonrpc":"2.0","id":7,"method":"%b"}' % method.encode()
    rig.receive(frame)
    assert rig.kinds() == "Violation"
    assert method in rig.only(e.Violation).reason
    assert rig.only(e.Violation).size == len(frame)


def test_while_only_the_probe_is_open_of_a_client_without_handshake_nothing_is_answered():
    rig = Rig(versions=STATELESS).connect()
    rig.say(id=7, method="ping")
    assert rig.kinds() == "Violation"
    assert rig.only(e.Violation).size > 0


def test_more_than_64_requests_at_a_time_are_refused_and_ping_is_not():
    """Row 16: beyond 64 running handlers -32603."""
    rig = rig_in(S.READY)
    for id in range(64):
        rig.say(id=id, method="roots/list")
        assert rig.kinds() == "Serve"
    rig.say(id=64, method="roots/list")
    assert rig.frames()[0]["error"]["code"] == -32603
    rig.say(id=65, method="ping")
    assert rig.frames()[0]["result"] == {}
    rig.step(e.Replied(0))
    rig.say(id=66, method="roots/list")
    assert rig.kinds() == "Serve"


def test_an_id_that_is_being_served_is_refused():
    rig = rig_in(S.READY)
    rig.say(id="q", method="roots/list")
    rig.say(id="q", method="roots/list")
    assert rig.frames()[0]["error"]["code"] == -32600


def test_ids_of_requests_are_told_apart_by_type():
    rig = rig_in(S.READY)
    rig.say(id=1, method="roots/list")
    rig.say(id="1", method="roots/list")
    assert rig.kinds() == "Serve"
    rig.step(e.Replied("1"))
    rig.say(method="notifications/cancelled", params={"requestId": 1})
    assert rig.out == [e.StopServing(1)]


def test_a_cancelled_request_is_stopped_and_not_answered():
    """Table: `notifications/cancelled` from the server."""
    rig = rig_in(S.READY)
    rig.say(id="q", method="roots/list")
    rig.say(method="notifications/cancelled", params={"requestId": "q", "reason": "x"})
    assert rig.out == [e.StopServing("q")]
    rig.step(e.Replied("q"))
    assert rig.out == []


def test_a_cancelled_listen_has_ended():
    rig = Rig(versions=STATELESS).ready()
    rig.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
    id = rig.only(e.Send).id
    rig.say(method="notifications/cancelled", params={"requestId": id})
    assert rig.out == [e.EndSubscription("k", None)]
    rig.answer(id)
    assert rig.only(e.Stray).kind == "late"  # the specification lets both arrive, in either order


def test_a_listen_that_is_answered_has_ended():
    rig = Rig(versions=STATELESS).ready()
    rig.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
    id = rig.only(e.Send).id
    rig.answer(id, {"resultType": "complete"})
    assert rig.out == [e.EndSubscription("k", None)]
    rig.say(method="notifications/cancelled", params={"requestId": id})
    assert rig.out == []


def test_a_subscription_that_is_refused_has_ended_with_the_error():
    rig = rig_in(S.READY)
    rig.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    rig.say(id=rig.only(e.Send).id, error={"code": -32601, "message": "no"})
    ended = rig.only(e.EndSubscription)
    assert (ended.key, ended.error.code) == ("k", -32601)


def test_a_subscription_that_is_acknowledged_stands():
    rig = rig_in(S.READY)
    rig.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    rig.answer(rig.only(e.Send).id)
    assert rig.out == []
    assert rig.core.calls.pending == {}


CANCELS = [None, {}, [], {"requestId": None}, {"requestId": 999}, {"requestId": 2}, {"requestId": 2.0},
           {"requestId": True}, {"requestId": [2]}, {"requestId": "x" * 5000}]  # fmt: skip


@pytest.mark.parametrize("params", CANCELS, ids=lambda value: str(value)[:30])
def test_a_cancel_of_our_own_call_or_of_nothing_is_ignored_and_counted(params):
    """Table: an id of our own call: ignored, counted."""
    rig = rig_in(S.READY)
    assert rig.written_call("me") == 2
    if params is None:
        rig.say(method="notifications/cancelled")
    else:
        rig.say(method="notifications/cancelled", params=params)
    assert rig.out == []
    assert rig.core.counts["ignored CancelReceived"] == 1
    assert 2 in rig.core.calls.pending


# --- batches ----------------------------------------------------------------------------------------------------------


def batch_rig():
    return Rig(versions=("2025-03-26",)).ready()


def frame_of(*messages):
    return json.dumps([{"jsonrpc": "2.0", **message} for message in messages]).encode()


def test_a_batch_is_each_of_its_members_in_order_in_2025_03_26():
    rig = batch_rig()
    first, second = rig.written_call("first"), rig.written_call("second")
    rig.receive(
        frame_of(
            {"id": second, "result": {}},
            {"method": "notifications/message"},
            {"id": 7, "method": "ping"},
            {"id": first, "error": {"code": 1, "message": "no"}},
        )
    )
    assert rig.kinds() == "Complete Deliver Send Fail"
    assert [effect.caller for effect in rig.out if isinstance(effect, e.Complete | e.Fail)] == [
        "second",
        "first",
    ]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_batch_is_not_json_rpc_elsewhere(version):
    rig = Rig(versions=(version,)).ready()
    id = rig.written_call("me")
    rig.receive(frame_of({"id": id, "result": {}}))
    assert rig.kinds() == "Violation"
    assert rig.outcomes_of("me") == 0


@pytest.mark.parametrize("frame", [b"[]", b" [ ] ", b"[" + b"1," * 200 + b"1]"])
def test_an_empty_batch_and_one_over_the_limit_are_strikes(frame):
    rig = batch_rig()
    rig.receive(frame)
    assert rig.kinds() == "Violation"
    assert rig.core._strikes == 1


def test_a_batch_is_not_taken_further_than_the_connection_it_came_over():
    rig = batch_rig()
    id = rig.written_call("me")
    rig.receive(frame_of({"method": "notifications/reset"}, {"id": id, "result": {}}))
    assert rig.state is S.BACKOFF
    assert rig.effects(e.Complete) == []
    assert rig.outcomes_of("me") == 1


def test_a_batch_within_a_batch_is_a_strike():
    rig = batch_rig()
    rig.receive(b'[[{"jsonrpc":"2.0","id":2,"result":{}}]]')
    assert rig.kinds() == "Violation"


def test_one_bad_line_is_one_strike_however_many_members_it_has():
    """Row 24: 20 bad lines in a row."""
    rig = batch_rig()
    rig.receive(b"[%b]" % b",".join([b"1"] * 30))
    assert rig.state is S.READY
