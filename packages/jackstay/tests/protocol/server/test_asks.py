"""Questions to the client, by themselves: ids that are never used twice, and one end for each."""

import json

import pytest

from jackstay.errors import FrameTooLargeError, JsonRpcError, ShutdownError, UsageError
from jackstay.protocol.server._asks import Asks
from jackstay.protocol.server.events import Asked, Complete, Effect, Fail, Send
from jackstay.protocol.wire._jsonrpc import Error, Result, decode
from model.server import frame


def begin(*keys: str, limit: int = 4096) -> tuple[Asks, list[Effect]]:
    out: list[Effect] = []
    asks = Asks(out, limit)
    for key in keys:
        asks.ask(Asked(key, "roots/list", None, 7))
    return asks, out


def response(**members: object) -> Result | Error:
    message = decode(frame(**members))
    assert isinstance(message, Result | Error)
    return message


def test_each_question_has_an_id_of_its_own_for_good() -> None:
    asks, out = begin("a", "b")
    asks.answer(response(id=2, result={}))
    asks.ask(Asked("c", "ping", b"{}"))
    frames = [(json.loads(effect.frame)["id"], effect.about) for effect in out if isinstance(effect, Send)]
    assert frames == [(1, 7), (2, 7), (3, None)]
    assert asks.open == {1: ("a", "roots/list", 7), 3: ("c", "ping", None)}


def test_an_answer_ends_its_question() -> None:
    asks, out = begin("a", "b", "c")
    out.clear()
    asks.answer(response(id=2, result=[1]))
    asks.answer(response(id=1, error={"code": 5, "message": "no"}))
    asks.answer(response(id=3, error={"code": 5, "message": "no", "data": 0}))
    complete, first, second = out
    assert isinstance(complete, Complete)
    assert (complete.key, bytes(complete.result)) == ("b", b"[1]")
    for fail, key, data in ((first, "a", None), (second, "c", 0)):
        assert isinstance(fail, Fail)
        assert isinstance(fail.error, JsonRpcError)
        assert (fail.key, fail.error.code, fail.error.data) == (key, 5, data)
    assert not asks.open


def test_a_response_to_nothing_is_late_or_unknown() -> None:
    asks, _ = begin("a")
    assert [asks.is_open(id) for id in (1, 2, "1", None)] == [True, False, False, False]
    asks.answer(response(id=1, result={}))
    assert [asks.kind_of(id) for id in (1, 2, 0, "1", None)] == ["late", *["unknown"] * 4]


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (Asked("a", "x" * 300), UsageError),
        (Asked("a", "\ud800"), UsageError),
        (Asked("a", "ping", b'{"x":"%b"}' % (b"x" * 200)), FrameTooLargeError),
    ],
)
def test_what_cannot_be_sent_fails_and_takes_no_id(asked: Asked, kind: type[Exception]) -> None:
    asks, out = begin(limit=200)
    before = asks.snapshot()
    asks.ask(asked)
    (fail,) = out
    assert isinstance(fail, Fail)
    assert isinstance(fail.error, kind)
    assert asks.snapshot() == before


def test_withdrawing_tells_the_client_what_it_was_told_of() -> None:
    asks, out = begin("a")
    asks.held = [Asked("b", "ping"), Send(b"notification"), Asked("c", "ping")]
    out.clear()
    asks.withdraw("b", "bored")
    assert (out, len(asks)) == ([], 3)
    asks.withdraw("a", "bored")
    asks.withdraw("a", "bored")
    (send,) = out
    assert send.about == 7
    assert json.loads(send.frame)["params"] == {"requestId": 1, "reason": "bored"}
    assert asks.held == [Send(b"notification"), Asked("c", "ping")]


@pytest.mark.parametrize("reason", ["", "\udfff"])
def test_a_reason_that_cannot_be_said_is_left_out(reason: str) -> None:
    asks, out = begin("a")
    asks.withdraw("a", reason)
    assert json.loads(out[-1].frame)["params"] == {"requestId": 1}


def test_at_the_end_every_question_fails_with_an_error_of_its_own() -> None:
    asks, out = begin("a", "b")
    asks.held = [Asked("c", "ping"), Send(b"notification"), Asked("d", "ping")]
    out.clear()
    asks.fail_all()
    assert asks.drop_held() == 1
    assert len(asks) == 0
    fails = [(fail.key, type(fail.error), fail.error.may_have_run) for fail in out]
    assert fails == [(key, ShutdownError, key in "ab") for key in "abcd"]
    assert len({id(fail.error) for fail in out}) == 4


def test_a_copy_goes_its_own_way() -> None:
    asks, out = begin("a")
    asks.held = [Asked("b", "ping")]
    other: list[Effect] = []
    twin = asks.copy(other)
    assert twin.snapshot() == asks.snapshot()
    assert repr(twin) == "<Asks {1: ('a', 'roots/list', 7)}, 1 held>"
    out.clear()
    twin.fail_all()
    twin.drop_held()
    assert (len(asks), len(twin), len(out), len(other)) == (2, 0, 0, 2)
