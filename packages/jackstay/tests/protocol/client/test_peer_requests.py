"""Requests of the server: handlers, responses, and frames that wait for a busy transport."""

import json

import pytest

from jackstay.errors import BackpressureError, FrameTooLargeError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._peer_requests import PeerRequests
from jackstay.protocol.client._settings import MAX_HANDLERS
from scripted.calls import CallsHarness


def peer(**options):
    """Return the component alone."""
    harness = CallsHarness(**options)
    return harness, PeerRequests(harness.turn())


def request(id, method="roots/list"):
    return e.RequestReceived(id, method, None, 10)


def test_a_request_runs_a_handler_and_its_result_is_sent_once():
    harness, requests = peer()
    requests.serve(request("q"))
    assert harness.out == [e.Serve("q", "roots/list", None)]
    harness.turn()
    assert requests.finish(e.Finished("q", b'{"roots":[]}'))
    assert harness.frames() == [{"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}]
    assert not requests.finish(e.Finished("q"))


def test_an_error_of_a_handler_is_sent_and_a_response_that_is_too_large_replaced():
    harness, requests = peer(max_frame_bytes=1024)
    for id, reply in (("a", {"error": b'{"code":-1,"message":"no"}'}), ("b", {"result": b'"%b"' % (b"x" * 2000)})):
        requests.serve(request(id))
        harness.turn()
        assert requests.finish(e.Finished(id, **reply))
        (frame,) = harness.frames()
        assert frame["error"]["code"] == (-1 if id == "a" else -32603)


def test_a_repeated_id_is_refused():
    harness, requests = peer()
    requests.serve(request("q"))
    requests.serve(request("q"))
    assert [frame.get("result", frame.get("error", {}).get("code")) for frame in harness.frames()] == [-32600]
    assert list(requests.serving) == ["q"]


def test_the_number_of_handlers_is_limited():
    harness, requests = peer()
    for id in range(MAX_HANDLERS + 1):
        requests.serve(request(id))
    assert len(requests.serving) == MAX_HANDLERS
    (frame,) = harness.frames()
    assert (frame["id"], frame["error"]["code"]) == (MAX_HANDLERS, -32603)


def test_frames_wait_in_order_behind_one_that_was_refused():
    harness, requests = peer()
    requests.unsent.append(("a", b'{"id":"a"}'))
    requests.send(b'{"id":"b"}', "b")
    requests.notify("notifications/x", b"{}")
    assert harness.out == []
    requests.send_kept()
    assert [effect.response_to for effect in harness.out] == ["a", "b", None]
    assert requests.unsent == []


def test_a_server_that_reads_nothing_gets_no_more_frames():
    harness, requests = peer()
    requests.unsent.extend((id, b"{}") for id in range(MAX_HANDLERS))
    requests.serve(request("q", "ping"))
    (violation,) = harness.out
    assert isinstance(violation, e.Violation)
    with pytest.raises(BackpressureError):
        requests.notify("notifications/x", b"{}")
    assert len(requests.unsent) == MAX_HANDLERS


def test_a_notification_over_the_limit_is_refused():
    harness, requests = peer(max_frame_bytes=1024)
    with pytest.raises(FrameTooLargeError):
        requests.notify("notifications/x", json.dumps({"x": "y" * 2000}).encode())
    assert harness.out == []


def test_a_cancelled_request_has_no_response():
    harness, requests = peer()
    requests.serve(request("a"))
    requests.unsent.append(("b", b"{}"))
    harness.turn()
    requests.unsent.append((None, b"{}"))
    for id, is_in_progress in (("a", True), ("b", True), ("c", False), (None, False)):
        assert requests.is_in_progress(id) is is_in_progress
    requests.cancel("a")
    requests.cancel("b")
    assert (harness.out, requests.serving, requests.unsent) == ([e.StopServing("a")], {}, [(None, b"{}")])


def test_a_lost_connection_stops_every_handler():
    harness, requests = peer()
    requests.serve(request("a"))
    requests.serve(request("b"))
    requests.unsent.append((None, b"{}"))
    harness.turn()
    requests.stop()
    assert harness.out == [e.StopServing("a"), e.StopServing("b")]
    assert (requests.serving, requests.unsent) == ({}, [])
