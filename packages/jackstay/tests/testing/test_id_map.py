"""Mapping of ids that HTTP does not accept, in both directions."""

import json
from typing import Any

import pytest

from jackstay.protocol.wire import decode
from jackstay.testing._id_map import FIRST, IdMap
from scripted.cassettes import error, notification, request, result

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def out(id_map: IdMap, message: Any) -> Any:
    frame = json.dumps(message).encode()
    return json.loads(id_map.to_server(decode(frame), frame))


def back(id_map: IdMap, message: Any) -> Any:
    frame = json.dumps(message).encode()
    return json.loads(id_map.to_client(decode(frame), frame))


@pytest.mark.parametrize("id", [0, "a", "1"])
def test_an_id_that_http_does_not_accept_is_mapped_and_restored(id: Any) -> None:
    id_map = IdMap()
    sent = request(id, "tools/call", name="a")
    assert out(id_map, sent) == {**sent, "id": FIRST}
    assert out(id_map, {"jsonrpc": "2.0", "id": "b", "method": "ping"})["id"] == FIRST + 1
    assert (id_map.given(id), id_map.own(FIRST), id_map.own("x")) == (FIRST, id, "x")
    assert back(id_map, result(FIRST, {"x": 1})) == result(id, {"x": 1})
    assert back(id_map, error(FIRST, -1, data=2)) == error(id, -1, data=2)
    cancelled = notification("notifications/cancelled", requestId=id, reason="r")
    assert out(id_map, cancelled)["params"] == {"requestId": FIRST, "reason": "r"}
    id_map.forget(id)
    id_map.forget(id)
    assert back(id_map, result(FIRST, {})) == result(FIRST, {})


def test_an_id_that_http_accepts_is_unchanged_unless_it_is_in_use() -> None:
    id_map = IdMap()
    for message in (request(1), request(-1), notification("x"), result("q", {}), [request(1)]):
        frame = json.dumps(message).encode()
        assert id_map.to_server(decode(frame), frame) is frame
    out(id_map, request(0))
    assert out(id_map, request(FIRST))["id"] == FIRST + 1
    for message in (
        result(5, {}),
        error(5, 1),
        error(None, 1),
        notification("x"),
        {"jsonrpc": "2.0", "method": "y"},
    ):
        frame = json.dumps(message).encode()
        assert id_map.to_client(decode(frame), frame) is frame
    for params in ({"requestId": 5}, {"requestId": None}, {}, [1]):
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert out(id_map, cancelled) == cancelled


def test_a_subscription_is_named_by_the_clients_own_id() -> None:
    id_map = IdMap()
    out(id_map, request("s", "subscriptions/listen"))

    def changed(id: Any) -> dict[str, Any]:
        return notification("notifications/tools/list_changed", _meta={SUBSCRIPTION: id})

    assert back(id_map, changed(FIRST)) == changed("s")
    assert back(id_map, result(FIRST, {"_meta": {SUBSCRIPTION: FIRST}})) == result("s", {"_meta": {SUBSCRIPTION: "s"}})
    for other in (changed(5), changed("x"), notification("x", text=SUBSCRIPTION)):
        assert back(id_map, other) == other


def test_a_frame_that_cannot_be_decoded_is_unchanged() -> None:
    id_map = IdMap()
    out(id_map, request(0))
    frame = b'{"jsonrpc":"2.0","method":"x","params":{"%b":%b}}' % (SUBSCRIPTION.encode(), b"9" * 5000)
    assert id_map.to_client(decode(frame), frame) is frame
