"""Ids that HTTP cannot have get another on the way out and their own back on the way in; all else is left as it is."""

import json
from typing import Any

import pytest

from jackstay.protocol.wire import decode
from jackstay.testing._numbering import FIRST, Numbering
from scripted.tapes import error, notification, request, result

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def out(numbering: Numbering, message: Any) -> Any:
    frame = json.dumps(message).encode()
    return json.loads(numbering.outwards(decode(frame), frame))


def back(numbering: Numbering, message: Any) -> Any:
    frame = json.dumps(message).encode()
    return json.loads(numbering.inwards(decode(frame), frame))


@pytest.mark.parametrize("id", [0, "a", "1"])
def test_an_id_that_http_cannot_have_is_changed_and_changed_back(id: Any) -> None:
    numbering = Numbering()
    sent = request(id, "tools/call", name="a")
    assert out(numbering, sent) == {**sent, "id": FIRST}
    assert out(numbering, {"jsonrpc": "2.0", "id": "b", "method": "ping"})["id"] == FIRST + 1
    assert (numbering.given(id), numbering.own(FIRST), numbering.own("x")) == (FIRST, id, "x")
    assert back(numbering, result(FIRST, {"x": 1})) == result(id, {"x": 1})
    assert back(numbering, error(FIRST, -1, data=2)) == error(id, -1, data=2)
    cancelled = notification("notifications/cancelled", requestId=id, reason="r")
    assert out(numbering, cancelled)["params"] == {"requestId": FIRST, "reason": "r"}
    numbering.forget(id)
    numbering.forget(id)
    assert back(numbering, result(FIRST, {})) == result(FIRST, {})


def test_an_id_that_http_can_have_is_left_unless_it_is_taken() -> None:
    numbering = Numbering()
    for message in (request(1), request(-1), notification("x"), result("q", {}), [request(1)]):
        frame = json.dumps(message).encode()
        assert numbering.outwards(decode(frame), frame) is frame
    out(numbering, request(0))
    assert out(numbering, request(FIRST))["id"] == FIRST + 1
    for message in (
        result(5, {}),
        error(5, 1),
        error(None, 1),
        notification("x"),
        {"jsonrpc": "2.0", "method": "y"},
    ):
        frame = json.dumps(message).encode()
        assert numbering.inwards(decode(frame), frame) is frame
    for params in ({"requestId": 5}, {"requestId": None}, {}, [1]):
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert out(numbering, cancelled) == cancelled


def test_a_subscription_is_named_by_the_clients_own_id() -> None:
    numbering = Numbering()
    out(numbering, request("s", "subscriptions/listen"))

    def told(id: Any) -> dict[str, Any]:
        return notification("notifications/tools/list_changed", _meta={SUBSCRIPTION: id})

    assert back(numbering, told(FIRST)) == told("s")
    assert back(numbering, result(FIRST, {"_meta": {SUBSCRIPTION: FIRST}})) == result(
        "s", {"_meta": {SUBSCRIPTION: "s"}}
    )
    for other in (told(5), told("x"), notification("x", text=SUBSCRIPTION)):
        assert back(numbering, other) == other


def test_what_nobody_could_read_is_passed_on() -> None:
    numbering = Numbering()
    out(numbering, request(0))
    frame = b'{"jsonrpc":"2.0","method":"x","params":{"%b":%b}}' % (SUBSCRIPTION.encode(), b"9" * 5000)
    assert numbering.inwards(decode(frame), frame) is frame
