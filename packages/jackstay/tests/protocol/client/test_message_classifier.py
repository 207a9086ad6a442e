"""Valid frames from a server, in each state and era. Invalid ones are in `test_message_classifier_garbage`."""

import json

from jackstay.errors import JsonRpcError, ProtocolError
from jackstay.protocol.client import events as e
from model.harness import STATELESS, Harness, S, harness_in

# --- responses --------------------------------------------------------------------------------------------------------


def test_an_error_response_reaches_its_caller_unchanged():
    harness = harness_in(S.READY)
    id = harness.written_call("me")
    harness.receive_json(id=id, error={"code": -32602, "message": "no such tool", "data": {"name": "x"}})
    error = harness.error_of("me")
    assert isinstance(error, JsonRpcError)
    assert (error.code, error.data, error.may_have_run) == (-32602, {"name": "x"}, None)
    assert error.server_error == {"code": -32602, "message": "no such tool", "data": {"name": "x"}}
    assert (error.method, error.request_id) == ("tools/call", id)


def test_empty_error_data_is_kept(subtests):
    for data in (None, 0, False, "", [], {}):
        with subtests.test(data=data):
            harness = harness_in(S.READY)
            harness.receive_json(id=harness.written_call("me"), error={"code": 1, "message": "", "data": data})
            assert harness.error_of("me").data == data


RESULTS = [b"{}", b"null", b"[]", b"5", b'"x"', b"true", b'{"a":{"b":[1,2]}}']


def test_any_result_reaches_its_caller_unchanged(subtests):
    for result in RESULTS:
        with subtests.test(result=result):
            harness = harness_in(S.READY)
            harness.receive(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (harness.written_call("me"), result))
            assert bytes(harness.only(e.Complete).result) == result


# Malformed responses to a call with the id %d.
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


def test_a_malformed_response_fails_its_call(subtests):
    for frame in MALFORMED:
        with subtests.test(frame=frame):
            harness = harness_in(S.READY)
            id = harness.written_call("me")
            harness.receive(frame % id)
            error = harness.error_of("me")
            assert isinstance(error, ProtocolError)
            assert error.may_have_run is True
            assert error.quote
            assert harness.state is S.READY
            assert harness.core.calls.pending == {}


def test_a_malformed_response_to_an_id_that_is_not_open_is_an_invalid_frame(subtests):
    for frame in MALFORMED:
        with subtests.test(frame=frame):
            harness = harness_in(S.READY)
            harness.written_call("me")
            harness.receive(frame % 999)
            assert harness.kinds() == "Violation"
            assert harness.outcomes_of("me") == 0


# Responses whose id belongs to no call.
UNMATCHED = [
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


def test_a_response_with_an_unmatched_id_affects_no_call(subtests):
    for frame, kind in UNMATCHED:
        with subtests.test(frame=frame, kind=kind):
            harness = harness_in(S.READY)
            assert harness.written_call("me") == 2
            harness.receive(frame)
            assert harness.kinds() == kind
            assert harness.outcomes_of("me") == 0
            assert harness.state is S.READY


def test_late_and_unknown_responses_are_counted_separately():
    harness = harness_in(S.READY)
    id = harness.written_call("me")
    harness.step(e.Expired(id))
    harness.respond(id)
    assert harness.out == [e.Stray("late", 1, id)]
    harness.respond(id)
    assert harness.out == [e.Stray("unknown", 1, id)]
    harness.respond(999)
    assert harness.out == [e.Stray("unknown", 2, 999)]
    assert harness.outcomes_of("me") == 1


def test_a_response_after_its_tombstone_expired_is_unknown():
    harness = harness_in(S.READY, tombstone_sweep=1000.0, hang_timeout=None)
    id = harness.written_call("me", timeout=1.0)
    harness.wait(1.0 + 75.0 + 0.1)
    harness.respond(id)
    assert harness.only(e.Stray).kind == "unknown"


def test_a_response_before_anything_was_sent_is_ignored(subtests):
    for state in (S.STARTING, S.BACKOFF, S.CLOSING, S.CLOSED):
        with subtests.test(state=state):
            harness = harness_in(state)
            for id in range(5):
                harness.respond(id)
                assert harness.out == []
            assert harness.state is state


def test_a_response_to_a_queued_call_is_unknown():
    harness = harness_in(S.INITIALIZING)
    id = harness.call("me", wait_for_ready=True)
    harness.respond(id)
    assert harness.out == [e.Stray("unknown", 1, id)]
    harness.agree()
    assert harness.methods()[-1] == "tools/call"
    assert harness.outcomes_of("me") == 0


def test_a_response_to_a_keepalive_completes_no_call():
    harness = harness_in(S.READY, keepalive=5.0)
    harness.wait(10.1)
    id = max(harness.core.calls.pending)
    harness.respond(id)
    assert harness.out == []
    harness.wait(10.1)
    harness.receive_json(id=max(harness.core.calls.pending), error={"code": -32601, "message": "no"})
    assert harness.out == []


# --- notifications ----------------------------------------------------------------------------------------------------


def test_progress_goes_to_its_call_and_extends_it():
    harness = harness_in(S.READY)
    id = harness.written_call("me", timeout=10.0, wants_progress=True)
    harness.wait(8.0)
    harness.receive_json(method="notifications/progress", params={"progressToken": id, "progress": 1, "total": 2})
    report = harness.only(e.ReportProgress)
    assert (report.caller, report.id) == ("me", id)
    assert json.loads(bytes(report.params))["total"] == 2
    assert harness.core.calls.timers.at(id) == 18.0


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


def test_progress_for_an_unknown_token_is_counted(subtests):
    for params in PROGRESS:
        with subtests.test(params=params):
            harness = harness_in(S.READY)
            assert harness.written_call("me", timeout=10.0) == 2
            harness.now = 5.0
            harness.receive(b'{"jsonrpc":"2.0","method":"notifications/progress"%b}' % params)
            assert harness.out == []
            assert harness.core.counts["ignored progress"] == 1
            assert harness.core.calls.timers.at(2) == 10.0


def test_progress_after_the_end_is_dropped():
    harness = harness_in(S.READY)
    id = harness.written_call("me")
    harness.step(e.CallCancelled(id))
    harness.receive_json(method="notifications/progress", params={"progressToken": id, "progress": 1})
    assert harness.out == []


def test_progress_for_an_internal_request_is_not_reported():
    harness = harness_in(S.READY, keepalive=5.0)
    harness.wait(10.1)
    harness.receive_json(
        method="notifications/progress", params={"progressToken": max(harness.core.calls.pending), "progress": 1}
    )
    assert harness.out == []


DELIVERED = [
    "notifications/message",
    "notifications/resources/updated",
    "notifications/tools/list_changed",
    "x/y",
]


def test_every_other_notification_goes_to_the_inbox_in_ready(subtests):
    for method in DELIVERED:
        with subtests.test(method=method):
            harness = harness_in(S.READY)
            harness.receive_json(method=method, params={"a": 1})
            delivered = harness.only(e.Deliver)
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


def test_before_ready_log_and_list_changed_are_kept(subtests):
    for method, is_kept in KEPT:
        with subtests.test(method=method, is_kept=is_kept):
            harness = harness_in(S.INITIALIZING)
            harness.receive_json(method=method)
            assert harness.kinds() == ("Deliver" if is_kept else "")
            assert ("ignored NotificationReceived" in harness.core.counts) is not is_kept


# --- requests of the server -------------------------------------------------------------------------------------------


def test_ping_gets_a_response_in_initializing_and_ready():
    harness = harness_in(S.INITIALIZING)
    harness.receive_json(id="p", method="ping")
    assert harness.frames() == [{"jsonrpc": "2.0", "id": "p", "result": {}}]
    harness.agree()
    harness.receive_json(id=2**60, method="ping")
    assert harness.frames() == [{"jsonrpc": "2.0", "id": 2**60, "result": {}}]


def test_other_requests_before_ready_are_refused():
    harness = harness_in(S.INITIALIZING)
    harness.receive_json(id=7, method="sampling/createMessage")
    (frame,) = harness.frames()
    assert (frame["id"], frame["error"]["code"]) == (7, -32600)


def test_a_request_goes_to_its_handler_in_ready():
    harness = harness_in(S.READY)
    harness.receive_json(id=7, method="roots/list", params={"_meta": {}})
    serve = harness.only(e.Serve)
    assert (serve.id, serve.method, bytes(serve.params)) == (7, "roots/list", b'{"_meta": {}}')


def test_requests_of_a_stateless_server_are_violations_without_a_response(subtests):
    for method in ("ping", "sampling/createMessage", "x/y"):
        with subtests.test(method=method):
            harness = Harness(versions=STATELESS).ready()
            frame = b'{"jsonrpc":"2.0","id":7,"method":"%b"}' % method.encode()
            harness.receive(frame)
            assert harness.kinds() == "Violation"
            assert method in harness.only(e.Violation).reason
            assert harness.only(e.Violation).size == len(frame)


def test_requests_during_the_probe_of_a_stateless_client_get_no_response():
    harness = Harness(versions=STATELESS).connect()
    harness.receive_json(id=7, method="ping")
    assert harness.kinds() == "Violation"
    assert harness.only(e.Violation).size > 0


def test_more_than_64_requests_at_a_time_are_refused_and_ping_is_not():
    harness = harness_in(S.READY)
    for id in range(64):
        harness.receive_json(id=id, method="roots/list")
        assert harness.kinds() == "Serve"
    harness.receive_json(id=64, method="roots/list")
    assert harness.frames()[0]["error"]["code"] == -32603
    harness.receive_json(id=65, method="ping")
    assert harness.frames()[0]["result"] == {}
    harness.step(e.Finished(0))
    harness.receive_json(id=66, method="roots/list")
    assert harness.kinds() == "Serve"


def test_an_id_in_progress_is_refused():
    harness = harness_in(S.READY)
    harness.receive_json(id="q", method="roots/list")
    harness.receive_json(id="q", method="roots/list")
    assert harness.frames()[0]["error"]["code"] == -32600


def test_request_ids_are_distinguished_by_type():
    harness = harness_in(S.READY)
    harness.receive_json(id=1, method="roots/list")
    harness.receive_json(id="1", method="roots/list")
    assert harness.kinds() == "Serve"
    harness.step(e.Finished("1"))
    harness.receive_json(method="notifications/cancelled", params={"requestId": 1})
    assert harness.out == [e.StopServing(1)]


def test_a_cancelled_request_is_stopped_and_gets_no_response():
    harness = harness_in(S.READY)
    harness.receive_json(id="q", method="roots/list")
    harness.receive_json(method="notifications/cancelled", params={"requestId": "q", "reason": "x"})
    assert harness.out == [e.StopServing("q")]
    harness.step(e.Finished("q"))
    assert harness.out == []


def test_a_cancelled_listen_has_ended():
    harness = Harness(versions=STATELESS).ready()
    harness.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
    id = harness.only(e.Send).id
    harness.receive_json(method="notifications/cancelled", params={"requestId": id})
    assert harness.out == [e.EndSubscription("k", None)]
    harness.respond(id)
    assert harness.only(e.Stray).kind == "late"  # both are allowed, in either order


def test_a_listen_with_a_response_has_ended():
    harness = Harness(versions=STATELESS).ready()
    harness.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
    id = harness.only(e.Send).id
    harness.respond(id, {"resultType": "complete"})
    assert harness.out == [e.EndSubscription("k", None)]
    harness.receive_json(method="notifications/cancelled", params={"requestId": id})
    assert harness.out == []


def test_a_subscription_that_is_refused_has_ended_with_the_error():
    harness = harness_in(S.READY)
    harness.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    harness.receive_json(id=harness.only(e.Send).id, error={"code": -32601, "message": "no"})
    ended = harness.only(e.EndSubscription)
    assert (ended.key, ended.error.code) == ("k", -32601)


def test_a_subscription_that_is_acknowledged_stays_open():
    harness = harness_in(S.READY)
    harness.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    harness.respond(harness.only(e.Send).id)
    assert harness.out == []
    assert harness.core.calls.pending == {}


CANCELS = [None, {}, [], {"requestId": None}, {"requestId": 999}, {"requestId": 2}, {"requestId": 2.0},
           {"requestId": True}, {"requestId": [2]}, {"requestId": "x" * 5000}]  # fmt: skip


def test_a_cancellation_of_another_id_is_ignored_and_counted(subtests):
    for params in CANCELS:
        with subtests.test(params=params):
            harness = harness_in(S.READY)
            assert harness.written_call("me") == 2
            if params is None:
                harness.receive_json(method="notifications/cancelled")
            else:
                harness.receive_json(method="notifications/cancelled", params=params)
            assert harness.out == []
            assert harness.core.counts["ignored CancelReceived"] == 1
            assert 2 in harness.core.calls.pending


# --- batches ----------------------------------------------------------------------------------------------------------


def batch_harness():
    return Harness(versions=("2025-03-26",)).ready()


def frame_of(*messages):
    return json.dumps([{"jsonrpc": "2.0", **message} for message in messages]).encode()


def test_the_members_of_a_batch_are_processed_in_order_in_2025_03_26():
    harness = batch_harness()
    first, second = harness.written_call("first"), harness.written_call("second")
    harness.receive(
        frame_of(
            {"id": second, "result": {}},
            {"method": "notifications/message"},
            {"id": 7, "method": "ping"},
            {"id": first, "error": {"code": 1, "message": "no"}},
        )
    )
    assert harness.kinds() == "Complete Deliver Send Fail"
    assert [effect.caller for effect in harness.out if isinstance(effect, e.Complete | e.Fail)] == [
        "second",
        "first",
    ]


def test_a_batch_is_invalid_in_other_revisions(subtests):
    for version in ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"):
        with subtests.test(version=version):
            harness = Harness(versions=(version,)).ready()
            id = harness.written_call("me")
            harness.receive(frame_of({"id": id, "result": {}}))
            assert harness.kinds() == "Violation"
            assert harness.outcomes_of("me") == 0


def test_an_empty_batch_and_one_over_the_limit_are_invalid_frames(subtests):
    for frame in (b"[]", b" [ ] ", b"[" + b"1," * 200 + b"1]"):
        with subtests.test(frame=frame):
            harness = batch_harness()
            harness.receive(frame)
            assert harness.kinds() == "Violation"
            assert harness.core.transport.invalid_frames == 1


def test_a_batch_ends_with_its_connection():
    harness = batch_harness()
    id = harness.written_call("me")
    harness.receive(frame_of({"method": "notifications/reset"}, {"id": id, "result": {}}))
    assert harness.state is S.BACKOFF
    assert harness.effects(e.Complete) == []
    assert harness.outcomes_of("me") == 1


def test_a_batch_within_a_batch_is_an_invalid_frame():
    harness = batch_harness()
    harness.receive(b'[[{"jsonrpc":"2.0","id":2,"result":{}}]]')
    assert harness.kinds() == "Violation"


def test_a_batch_with_many_invalid_members_counts_once():
    harness = batch_harness()
    harness.receive(b"[%b]" % b",".join([b"1"] * 30))
    assert harness.state is S.READY
