"""Requests to the client: unique ids, and exactly one completion for each."""

import json

import pytest

from jackstay.errors import FrameTooLargeError, JsonRpcError, ShutdownError, UsageError
from jackstay.protocol.server._outgoing_requests import OutgoingRequests
from jackstay.protocol.server.events import Complete, Effect, Fail, OutgoingRequested, Send
from jackstay.protocol.wire._jsonrpc import Error, Result, decode
from model.server import frame


def begin(*keys: str, limit: int = 4096) -> tuple[OutgoingRequests, list[Effect]]:
    out: list[Effect] = []
    requests = OutgoingRequests(out, limit)
    for key in keys:
        requests.send(OutgoingRequested(key, "roots/list", None, 7))
    return requests, out


def response(**members: object) -> Result | Error:
    message = decode(frame(**members))
    assert isinstance(message, Result | Error)
    return message


def test_ids_are_never_reused() -> None:
    requests, out = begin("a", "b")
    requests.complete(response(id=2, result={}))
    requests.send(OutgoingRequested("c", "ping", b"{}"))
    frames = [(json.loads(effect.frame)["id"], effect.related_request_id) for effect in out if isinstance(effect, Send)]
    assert frames == [(1, 7), (2, 7), (3, None)]
    assert requests.pending == {1: ("a", "roots/list", 7), 3: ("c", "ping", None)}


def test_a_response_completes_its_request() -> None:
    requests, out = begin("a", "b", "c")
    out.clear()
    requests.complete(response(id=2, result=[1]))
    requests.complete(response(id=1, error={"code": 5, "message": "no"}))
    requests.complete(response(id=3, error={"code": 5, "message": "no", "data": 0}))
    complete, first, second = out
    assert isinstance(complete, Complete)
    assert (complete.key, bytes(complete.result)) == ("b", b"[1]")
    for fail, key, data in ((first, "a", None), (second, "c", 0)):
        assert isinstance(fail, Fail)
        assert isinstance(fail.error, JsonRpcError)
        assert (fail.key, fail.error.code, fail.error.data) == (key, 5, data)
    assert not requests.pending


def test_a_stray_response_is_late_or_unknown() -> None:
    requests, _ = begin("a")
    assert [id in requests.pending for id in (1, 2, "1", None)] == [True, False, False, False]
    requests.complete(response(id=1, result={}))
    assert [requests.classify_stray(id) for id in (1, 2, 0, "1", None)] == ["late", *["unknown"] * 4]


def test_a_request_that_cannot_be_sent_fails_without_an_id(subtests: pytest.Subtests) -> None:
    for event, error_type in [
        (OutgoingRequested("a", "x" * 300), UsageError),
        (OutgoingRequested("a", "\ud800"), UsageError),
        (OutgoingRequested("a", "ping", b'{"x":"%b"}' % (b"x" * 200)), FrameTooLargeError),
    ]:
        with subtests.test(event=event, error_type=error_type):
            requests, out = begin(limit=200)
            requests.send(event)
            (fail,) = out
            assert isinstance(fail, Fail)
            assert isinstance(fail.error, error_type)
            assert (requests.pending, len(requests)) == ({}, 0)
            requests.send(OutgoingRequested("b", "ping"))
            assert list(requests.pending) == [1]


def test_cancelling_notifies_the_client_of_sent_requests_only() -> None:
    requests, out = begin("a")
    requests.queued = [OutgoingRequested("b", "ping"), Send(b"notification"), OutgoingRequested("c", "ping")]
    out.clear()
    requests.cancel("b", "timeout")
    assert (out, len(requests)) == ([], 3)
    requests.cancel("a", "timeout")
    requests.cancel("a", "timeout")
    (send,) = out
    assert send.related_request_id == 7
    assert json.loads(send.frame)["params"] == {"requestId": 1, "reason": "timeout"}
    assert requests.queued == [Send(b"notification"), OutgoingRequested("c", "ping")]


def test_a_reason_that_cannot_be_encoded_is_omitted(subtests: pytest.Subtests) -> None:
    for reason in ["", "\udfff"]:
        with subtests.test(reason=reason):
            requests, out = begin("a")
            requests.cancel("a", reason)
            assert json.loads(out[-1].frame)["params"] == {"requestId": 1}


def test_every_request_fails_with_its_own_error_at_shutdown() -> None:
    requests, out = begin("a", "b")
    requests.queued = [OutgoingRequested("c", "ping"), Send(b"notification"), OutgoingRequested("d", "ping")]
    out.clear()
    requests.fail_all()
    assert requests.drop_queued() == 1
    assert len(requests) == 0
    fails = [(fail.key, type(fail.error), fail.error.may_have_run) for fail in out]
    assert fails == [(key, ShutdownError, key in "ab") for key in "abcd"]
    assert len({id(fail.error) for fail in out}) == 4
