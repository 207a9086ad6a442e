"""Requests in flight: each begins and ends once, and every response belongs to its request."""

import json

import pytest

from jackstay.errors import ProtocolError
from jackstay.protocol._methods import METHODS
from jackstay.protocol.server._peer_requests import PeerRequests
from jackstay.protocol.server.events import Effect, Send, Serve, StopServing
from jackstay.protocol.wire._jsonrpc import ABSENT, Batch, Request, decode
from model.server import call, frame

ROW = METHODS["tools/call"]


def request(id: int | str) -> Request:
    message = decode(call(id))
    assert isinstance(message, Request)
    return message


def begin(*ids: int | str, limit: int = 4096) -> tuple[PeerRequests, list[Effect]]:
    out: list[Effect] = []
    requests = PeerRequests(out, limit)
    for id in ids:
        requests.serve(request(id), ROW, "2025-11-25", None)
    assert [(type(effect), effect.id) for effect in out] == [(Serve, id) for id in ids]
    out.clear()
    return requests, out


def test_integers_and_strings_are_different_ids() -> None:
    requests, out = begin(1, "1")
    assert requests.in_flight == {1: 1, "1": 2}
    requests.respond("1", b"{}")
    assert out == [Send(b"{}", "1")]
    assert requests.in_flight == {1: 1}


def test_a_serial_distinguishes_requests_with_the_same_id() -> None:
    requests, out = begin(1)
    assert requests.in_flight == {1: 1}
    requests.stop(1, "why")
    assert out == [StopServing(1, 1, "why")]
    assert requests.in_flight == {}
    requests.serve(request(1), ROW, "2025-11-25", None)
    assert requests.in_flight == {1: 2}


def test_progress_is_removed_with_its_request() -> None:
    requests, _ = begin(1)
    requests.progress[1] = 0.5
    requests.respond(1, b"{}")
    assert requests.progress == {}


def test_a_malformed_frame_gets_no_response_with_an_id_in_flight(subtests: pytest.Subtests) -> None:
    for id, unreadable, members in [
        (5, None, {"id": 5}),
        (1, None, {"id": None}),
        (1, ABSENT, {}),
        (ABSENT, None, {"id": None}),
        (ABSENT, ABSENT, {}),
    ]:
        with subtests.test(id=id, unreadable=unreadable, members=members):
            requests, out = begin(1)
            requests.reject(ProtocolError("no", code=-32600), id, unreadable, {"path": "$"})
            (send,) = out
            response = json.loads(send.frame)
            error = response.pop("error")
            assert (error["code"], error["data"]) == (-32600, {"path": "$"})
            assert response == {"jsonrpc": "2.0", **members}
            assert requests.in_flight == {1: 1}


def test_responses_of_a_batch_are_collected() -> None:
    requests, out = begin()
    requests.open_batch(Batch((request(1), request(2))))
    requests.member = 0
    requests.serve(request(1), ROW, "2025-03-26", None)
    requests.member = 1
    requests.reply(b"two", 2)
    requests.close_batch()
    assert [type(effect) for effect in out] == [Serve]
    requests.respond(1, b"one")
    assert out[1:] == [Send(b"[one,two]", 1)]


def test_a_member_without_a_response_does_not_delay_the_others() -> None:
    requests, out = begin(9)
    requests.open_batch(Batch((request(1), request("1"), request(3))))
    for requests.member, id in enumerate((1, "1", 3)):
        requests.serve(request(id), ROW, "2025-03-26", None)
        if id == "1":
            requests.stop(1, "cancelled by a member")
    requests.close_batch()
    requests.respond(9, b"alone")
    requests.respond(3, b"third")
    assert not any(isinstance(effect, Send) and effect.related_request_id != 9 for effect in out)
    requests.respond("1", b"second")
    assert out[-1] == Send(b"[second,third]", 1)
    assert not requests.batches


def test_a_batch_whose_members_have_no_response_is_not_sent() -> None:
    requests, out = begin()
    requests.open_batch(Batch((request(1),)))
    requests.serve(request(1), ROW, "2025-03-26", None)
    requests.stop(1, "cancelled by a member")
    assert not any(isinstance(effect, Send) for effect in out)
    requests.close_batch()
    assert not any(isinstance(effect, Send) for effect in out)


def test_flush_sends_each_batch_once_in_the_order_received() -> None:
    requests, out = begin()
    for id in (1, 4):
        requests.open_batch(Batch((request(id), request(id + 1), request(id + 2))))
        requests.member = 0
        requests.serve(request(id), ROW, "2025-03-26", None)
        requests.member = 1
        requests.serve(request(id + 1), ROW, "2025-03-26", None)
        requests.member = 2
        requests.reply(b"%d" % id, id + 2)
        requests.close_batch()
    requests.stop_all("closing")
    out.clear()
    requests.flush_batches()
    assert out == [Send(b"[1]", 1), Send(b"[4]", 4)]
    assert not requests.batches


def test_an_empty_batch_is_not_sent() -> None:
    requests, out = begin()
    requests.open_batch(Batch((decode(frame(method="x")),)))
    requests.close_batch()
    assert out == []


def test_stop_all_and_flush_batches() -> None:
    requests, out = begin(3, limit=10)
    requests.open_batch(Batch((request(1), request(2))))
    requests.member = 0
    requests.serve(request(1), ROW, "2025-03-26", None)
    for member in (1, 2):
        requests.member = member
        requests.reply(b"member %d" % member, member)
    requests.close_batch()
    requests.progress[3] = 1.0
    out.clear()
    requests.stop_all("closing")
    assert out == [StopServing(3, 1, "closing"), StopServing(1, 2, "closing")]
    assert not requests.in_flight
    out.clear()
    requests.flush_batches()  # together they are larger than a frame
    assert out == [Send(b"member 1", 1), Send(b"member 2", 1)]
