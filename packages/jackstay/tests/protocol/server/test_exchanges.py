"""Requests in flight: each begins and ends once, and every response belongs to its request."""

import json

import pytest

from jackstay.errors import ProtocolError
from jackstay.protocol._methods import METHODS
from jackstay.protocol.server._exchanges import Exchanges
from jackstay.protocol.server.events import Effect, Send, Serve, StopServing
from jackstay.protocol.wire._jsonrpc import ABSENT, Batch, Request, decode, encode_result
from model.server import call, frame

ROW = METHODS["tools/call"]


def request(id: int | str) -> Request:
    message = decode(call(id))
    assert isinstance(message, Request)
    return message


def begin(*ids: int | str, limit: int = 4096) -> tuple[Exchanges, list[Effect]]:
    out: list[Effect] = []
    exchanges = Exchanges(out, limit)
    for id in ids:
        exchanges.serve(request(id), ROW, "2025-11-25", None)
    assert [(type(effect), effect.id) for effect in out] == [(Serve, id) for id in ids]
    out.clear()
    return exchanges, out


def test_integers_and_strings_are_different_ids() -> None:
    exchanges, out = begin(1, "1")
    assert exchanges.in_flight == {1: 1, "1": 2}
    exchanges.respond("1", b"{}")
    assert out == [Send(b"{}", "1")]
    assert exchanges.in_flight == {1: 1}


def test_a_serial_distinguishes_requests_with_the_same_id() -> None:
    exchanges, out = begin(1)
    assert exchanges.is_current(1, 1)
    exchanges.stop(1, "why")
    assert out == [StopServing(1, 1, "why")]
    assert not exchanges.is_current(1, 1)
    exchanges.serve(request(1), ROW, "2025-11-25", None)
    assert not exchanges.is_current(1, 1)
    assert exchanges.is_current(1, 2)


def test_progress_increases_and_is_removed_with_its_request() -> None:
    exchanges, _ = begin(1)
    assert exchanges.is_plain
    assert exchanges.would_advance(1, 0.0)
    exchanges.advance(1, 0.5)
    assert not exchanges.is_plain
    assert [exchanges.would_advance(1, value) for value in (0.4, 0.5, 0.6)] == [False, False, True]
    assert not exchanges.would_advance(1, float("nan"))
    assert not exchanges.would_advance(1, float("inf"))
    exchanges.respond(1, b"{}")
    assert exchanges.is_plain
    assert exchanges.would_advance(1, 0.0)


def test_a_response_over_the_limit_is_replaced_by_an_error() -> None:
    exchanges, out = begin("x", limit=200)
    exchanges.respond("x", encode_result("x", b'"%b"' % (b"x" * 200)))
    (send,) = out
    response = json.loads(send.frame)
    assert (response["id"], response["error"]["code"]) == ("x", -32603)
    assert response["error"]["data"] == {"size": 238, "limit": 200}
    assert exchanges.counts == {"response too large": 1}


def test_a_malformed_frame_gets_no_response_with_an_id_in_flight(subtests: pytest.Subtests) -> None:
    for id, unreadable, members in [
        (5, None, {"id": 5}),
        (1, None, {"id": None}),
        (1, ABSENT, {}),
        (ABSENT, None, {"id": None}),
        (ABSENT, ABSENT, {}),
    ]:
        with subtests.test(id=id, unreadable=unreadable, members=members):
            exchanges, out = begin(1)
            exchanges.reject(ProtocolError("no", code=-32600), id, unreadable, {"path": "$"})
            (send,) = out
            response = json.loads(send.frame)
            error = response.pop("error")
            assert (error["code"], error["data"]) == (-32600, {"path": "$"})
            assert response == {"jsonrpc": "2.0", **members}
            assert exchanges.in_flight == {1: 1}


def test_responses_of_a_batch_are_collected() -> None:
    exchanges, out = begin()
    exchanges.open_batch(Batch((request(1), request(2))))
    assert exchanges.is_in_batch
    exchanges.select_member(0)
    exchanges.serve(request(1), ROW, "2025-03-26", None)
    exchanges.select_member(1)
    exchanges.reply(b"two", 2)
    exchanges.close_batch()
    assert not exchanges.is_in_batch
    assert [type(effect) for effect in out] == [Serve]
    exchanges.respond(1, b"one")
    assert out[1:] == [Send(b"[one,two]", 1)]


def test_an_empty_batch_is_not_sent() -> None:
    exchanges, out = begin()
    exchanges.open_batch(Batch((decode(frame(method="x")),)))
    exchanges.close_batch()
    assert out == []


def test_stop_all_and_flush_batches() -> None:
    exchanges, out = begin(3, limit=10)
    exchanges.open_batch(Batch((request(1), request(2))))
    exchanges.select_member(0)
    exchanges.serve(request(1), ROW, "2025-03-26", None)
    for member in (1, 2):
        exchanges.select_member(member)
        exchanges.reply(b"member %d" % member, member)
    exchanges.close_batch()
    exchanges.advance(3, 1.0)
    out.clear()
    exchanges.stop_all("closing")
    assert out == [StopServing(3, 1, "closing"), StopServing(1, 2, "closing")]
    assert not exchanges.in_flight
    out.clear()
    exchanges.flush_batches()  # together they are larger than a frame
    assert out == [Send(b"member 1", 1), Send(b"member 2", 1)]
    assert exchanges.is_plain


def test_a_copy_is_independent() -> None:
    exchanges, out = begin(1)
    exchanges.count("something")
    exchanges.advance(1, 1.0)
    other: list[Effect] = []
    clone = exchanges.copy(other)
    assert clone.snapshot() == exchanges.snapshot()
    assert (repr(clone), clone.counts) == ("<Exchanges {1: 1}>", {"something": 1})
    clone.respond(1, b"{}")
    assert clone.snapshot() != exchanges.snapshot()
    assert (len(out), len(other)) == (0, 1)
