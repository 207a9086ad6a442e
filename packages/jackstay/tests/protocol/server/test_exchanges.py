"""Requests in flight, by themselves: begun once, ended once, and every answer where it belongs."""

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
    exchanges.settle("1", b"{}")
    assert out == [Send(b"{}", "1")]
    assert exchanges.in_flight == {1: 1}


def test_only_the_very_request_is_current() -> None:
    exchanges, out = begin(1)
    assert exchanges.is_current(1, 1)
    exchanges.stop(1, "why")
    assert out == [StopServing(1, 1, "why")]
    assert not exchanges.is_current(1, 1)
    exchanges.serve(request(1), ROW, "2025-11-25", None)
    assert not exchanges.is_current(1, 1)
    assert exchanges.is_current(1, 2)


def test_progress_increases_and_is_forgotten_with_its_request() -> None:
    exchanges, _ = begin(1)
    assert exchanges.is_plain
    assert exchanges.would_advance(1, 0.0)
    exchanges.advance(1, 0.5)
    assert not exchanges.is_plain
    assert [exchanges.would_advance(1, value) for value in (0.4, 0.5, 0.6)] == [False, False, True]
    assert not exchanges.would_advance(1, float("nan"))
    assert not exchanges.would_advance(1, float("inf"))
    exchanges.settle(1, b"{}")
    assert exchanges.is_plain
    assert exchanges.would_advance(1, 0.0)


def test_an_answer_too_large_is_replaced_by_one_that_says_so() -> None:
    exchanges, out = begin("x", limit=200)
    exchanges.settle("x", encode_result("x", b'"%b"' % (b"x" * 200)))
    (send,) = out
    answer = json.loads(send.frame)
    assert (answer["id"], answer["error"]["code"]) == ("x", -32603)
    assert answer["error"]["data"] == {"size": 238, "limit": 200}
    assert exchanges.counts == {"answer too large": 1}


@pytest.mark.parametrize(
    ("id", "unreadable", "members"),
    [
        (5, None, {"id": 5}),
        (1, None, {"id": None}),
        (1, ABSENT, {}),
        (ABSENT, None, {"id": None}),
        (ABSENT, ABSENT, {}),
    ],
)
def test_a_frame_that_is_no_message_never_answers_a_request_in_flight(id, unreadable, members) -> None:
    exchanges, out = begin(1)
    exchanges.reject(ProtocolError("no", code=-32600), id, unreadable, {"path": "$"})
    (send,) = out
    answer = json.loads(send.frame)
    error = answer.pop("error")
    assert (error["code"], error["data"]) == (-32600, {"path": "$"})
    assert answer == {"jsonrpc": "2.0", **members}
    assert exchanges.in_flight == {1: 1}


def test_answers_of_an_array_wait_for_each_other() -> None:
    exchanges, out = begin()
    exchanges.open_array(Batch((request(1), request(2))))
    assert exchanges.is_in_array
    exchanges.look_at(0)
    exchanges.serve(request(1), ROW, "2025-03-26", None)
    exchanges.look_at(1)
    exchanges.reply(b"two", 2)
    exchanges.close_array()
    assert not exchanges.is_in_array
    assert [type(effect) for effect in out] == [Serve]
    exchanges.settle(1, b"one")
    assert out[1:] == [Send(b"[one,two]", 1)]


def test_an_array_with_nothing_to_say_is_not_sent() -> None:
    exchanges, out = begin()
    exchanges.open_array(Batch((decode(frame(method="x")),)))
    exchanges.close_array()
    assert out == []


def test_everything_can_be_stopped_and_what_arrays_have_be_sent() -> None:
    exchanges, out = begin(3, limit=10)
    exchanges.open_array(Batch((request(1), request(2))))
    exchanges.look_at(0)
    exchanges.serve(request(1), ROW, "2025-03-26", None)
    for member in (1, 2):
        exchanges.look_at(member)
        exchanges.reply(b"answer %d" % member, member)
    exchanges.close_array()
    exchanges.advance(3, 1.0)
    out.clear()
    exchanges.stop_all("the end")
    assert out == [StopServing(3, 1, "the end"), StopServing(1, 2, "the end")]
    assert not exchanges.in_flight
    out.clear()
    exchanges.flush_arrays()  # together they are larger than a frame
    assert out == [Send(b"answer 1", 1), Send(b"answer 2", 1)]
    assert exchanges.is_plain


def test_a_copy_goes_its_own_way() -> None:
    exchanges, out = begin(1)
    exchanges.count("something")
    exchanges.advance(1, 1.0)
    other: list[Effect] = []
    twin = exchanges.copy(other)
    assert twin.snapshot() == exchanges.snapshot()
    assert (repr(twin), twin.counts) == ("<Exchanges {1: 1}>", {"something": 1})
    twin.settle(1, b"{}")
    assert twin.snapshot() != exchanges.snapshot()
    assert (len(out), len(other)) == (0, 1)
