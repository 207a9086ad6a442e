"""Bodies on their way through: what is taken out, put in, and left alone."""

import json
from typing import Any

import pytest
from msgspec import Raw

from jackstay.protocol import METHODS
from jackstay.proxy import _bodies as bodies

VERSION = "io.modelcontextprotocol/protocolVersion"
LEVEL = "io.modelcontextprotocol/logLevel"


@pytest.mark.parametrize(
    ("params", "body", "meta"),
    [
        (None, b"{}", {}),
        (b'{ "a" : 1.50 }', b'{ "a" : 1.50 }', {}),
        (b'{"a":{"_meta":1}}', b'{"a":{"_meta":1}}', {}),
        (b'{"a":"\\u00e4"}', b'{"a":"\\u00e4"}', {}),
        (b'{"_meta":{"x":[ 1 ]},"a":1.50}', b'{"a":1.50}', {"x": b"[ 1 ]"}),
        (b'{"\\u005fmeta":{"x":1}}', b"{}", {"x": b"1"}),
        (b'{"_meta":5,"a":1}', b'{"_meta":5,"a":1}', {}),
        (b'["_meta"]', b'["_meta"]', {}),
    ],
)
def test_params_are_parted_from_their_meta_and_otherwise_left_alone(
    params: bytes | None, body: bytes, meta: dict[str, bytes]
) -> None:
    """What cannot be read is passed on: whoever it is for says what is wrong with it."""
    taken, members = bodies.split(params)
    assert taken == body
    assert {key: bytes(value) for key, value in members.items()} == meta


def test_what_a_request_says_of_its_client_is_not_passed_on_as_it_is() -> None:
    meta = {VERSION: Raw(b'"x"'), "progressToken": Raw(b"1"), LEVEL: Raw(b'"info"'), "own": Raw(b"[1]")}
    assert json.loads(b"{%b}" % bodies.own_meta(meta, is_stateless=True)) == {LEVEL: "info", "own": [1]}
    assert bodies.own_meta(meta, is_stateless=False) == b'"own":[1]'
    assert bodies.own_meta({VERSION: Raw(b'"x"')}, is_stateless=True) == b""


def test_who_asks_is_said_with_what_he_can() -> None:
    said = json.loads(b"{%b}" % bodies.speaker(b'{"roots":{},"tasks":{}}', b'{"name":"n"}'))
    assert said == {
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "n"},
    }
    assert b"clientInfo" not in bodies.speaker(b"{}", b"")
    assert bodies.passing_client(b"[]") == b"{}"
    large = b'{"x":"%b"}' % (b"x" * bodies.MOST_KEPT_BYTES)
    kept = bodies._kept_speaker.cache_info().currsize
    assert large in bodies.speaker(large, b"")
    assert bodies._kept_speaker.cache_info().currsize == kept, "anybody could fill our memory with it"


@pytest.mark.parametrize(
    ("capabilities", "is_own", "told"),
    [
        ({}, False, {}),
        ({"tools": {}, "tasks": {}}, False, {"tools": {"listChanged": True}}),
        ({"tools": {}, "tasks": {"list": {}}}, True, {"tools": {"listChanged": True}, "tasks": {"list": {}}}),
        ({"resources": {"subscribe": True}}, False, {"resources": {"subscribe": True, "listChanged": True}}),
        ({"prompts": None, "x": [1]}, False, {"prompts": None, "x": [1]}),
        (
            {"extensions": {bodies.TASKS_EXTENSION: {}, "other": {}}},
            False,
            {"extensions": {"other": {}}},
        ),
        ({"extensions": {"other": {}}}, False, {"extensions": {"other": {}}}),
    ],
)
def test_a_front_declares_what_passes(capabilities: Any, is_own: bool, told: Any) -> None:
    encoded, names = bodies.front_capabilities(json.dumps(capabilities).encode(), is_own=is_own)
    assert json.loads(encoded) == told
    assert names == set(told)


@pytest.mark.parametrize(
    ("method", "result", "expected"),
    [
        ("tools/call", b'{"content":[]}', b'{"content":[]}'),
        ("tools/list", b"{}", b'{"ttlMs":0,"cacheScope":"private"}'),
        ("tools/list", b'{ "tools":[]}', b'{"ttlMs":0,"cacheScope":"private","tools":[]}'),
        ("tools/list", b'{"ttlMs":5}', b'{"ttlMs":5}'),
    ],
)
def test_a_stateless_client_is_told_how_long_a_list_may_be_kept(
    method: str, result: bytes, expected: bytes
) -> None:
    assert bodies.for_stateless(result, METHODS[method]) == expected


@pytest.mark.parametrize(
    ("result", "is_asking"),
    [
        (b'{"resultType":"input_required","requestState":"s"}', True),
        (b'{"resultType":"complete","content":"input_required"}', False),
        (b'{"resultType":"complete","content":[{"x":"input_required"}]}', False),
        (b'{"resultType":"input_required","inputRequests":5}', False),
        (b'{"content":[]}', False),
    ],
)
def test_a_result_that_asks_is_told_from_one_that_speaks_of_it(result: bytes, is_asking: bool) -> None:
    assert (bodies.asks(result) is not None) is is_asking


def test_the_next_round_is_the_same_request_with_the_answers_and_the_very_state() -> None:
    asked = bodies.asks(
        b'{"resultType":"input_required","inputRequests":{"k":{"method":"m"}},"requestState":"\\u00e4"}'
    )
    assert asked is not None
    again = bodies.next_round(
        b'{"name":"t","requestState":"old","inputResponses":{}}', asked, {"k": Raw(b"[1]")}
    )
    assert again == b'{"name":"t","inputResponses":{"k":[1]},"requestState":"\\u00e4"}'
    bare = bodies.asks(b'{"resultType":"input_required"}')
    assert bare is not None
    assert bodies.next_round(b'{"name":"t","requestState":"old"}', bare, {}) == b'{"name":"t"}'


@pytest.mark.parametrize(
    ("body", "taken", "state", "answers"),
    [
        (b'{"name":"t"}', b'{"name":"t"}', None, {}),
        (b'{"name":"t","requestState":"s"}', b'{"name":"t"}', "s", {}),
        (b'{"name":"t","requestState":5,"inputResponses":{"k":1}}', b'{"name":"t"}', None, {"k": b"1"}),
        (b'{"name":"t","requestState":"s","inputResponses":[]}', b'{"name":"t"}', None, {}),
    ],
)
def test_a_round_is_taken_out_of_a_request(
    body: bytes, taken: bytes, state: str | None, answers: Any
) -> None:
    rest, told, given = bodies.take_round(body)
    assert (rest, told) == (taken, state)
    assert {key: bytes(value) for key, value in given.items()} == answers


def test_a_question_is_put_into_a_result() -> None:
    assert json.loads(bodies.ask_result("s", {"k": ("m", b'{"a":1}')})) == {
        "resultType": "input_required",
        "requestState": "s",
        "inputRequests": {"k": {"method": "m", "params": {"a": 1}}},
    }


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (b'{"uri":"u"}', b'{"uri":"u"}'),
        (b'{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"uri":"u"}', b'{"uri":"u"}'),
        (b'{"_meta":{"io.modelcontextprotocol/subscriptionId":1,"a":2}}', b'{"_meta":{"a":2}}'),
        (
            b'{"x":"io.modelcontextprotocol/subscriptionId"}',
            b'{"x":"io.modelcontextprotocol/subscriptionId"}',
        ),
        (b'["io.modelcontextprotocol/subscriptionId"]', b'["io.modelcontextprotocol/subscriptionId"]'),
    ],
)
def test_the_id_of_our_own_subscription_is_kept_from_others(params: bytes, expected: bytes) -> None:
    assert bodies.without_subscription(params) == expected


STAMP = b'"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}'


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (b'{ "content":[ ] }', b'{ "content":[ ] }'),
        (b'{"resultType":"complete","content":[]}', b'{"content":[]}'),
        (b'{"resultType":"complete","_meta":{%b},"content":[]}' % STAMP, b'{"content":[]}'),
        (b'{"_meta":{%b,"own":1},"content":[]}' % STAMP, b'{"_meta":{"own":1},"content":[]}'),
        (b'{"content":[{"type":"text","text":"io.modelcontextprotocol/serverInfo"}]}', None),
        (b'{"_meta":{"own":"io.modelcontextprotocol/serverInfo"}}', None),
        (b'{"_meta":[%b]}' % b'"io.modelcontextprotocol/serverInfo"', None),
        (b'{"_meta":7,"x":"io.modelcontextprotocol/serverInfo"}', None),
    ],
)
def test_a_client_with_a_handshake_sees_nothing_of_the_other_era(
    result: bytes, expected: bytes | None
) -> None:
    assert bodies.for_handshake(result) == (result if expected is None else expected)
