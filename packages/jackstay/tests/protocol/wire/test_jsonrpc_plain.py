"""`read_plain_request` and `read_plain_result`: they read ordinary messages as `decode` does, others raise."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.protocol.client._message_classifier import read_plain_result
from jackstay.protocol.wire._jsonrpc import DECODE_ERRORS, MIN_OBJECT, Request, Result, decode, read_plain_request

READ = [
    b'{"jsonrpc":"2.0","id":1,"method":"x","params":{}}',
    b'{"id":"1","method":"x","jsonrpc":"2.0"}',
    b' {"params": {"a": [1]}, "jsonrpc": "2.0", "method": "\\u0078", "id": -1} ',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"x","params":5,"params":{}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"x"}' % 2**90,
]
LEFT_TO_DECODE = [
    b'{"jsonrpc":"2.0","method":"x"}',
    b'{"jsonrpc":"2.0","id":null,"method":"x"}',
    b'{"jsonrpc":"2.0","id":1.0,"method":"x"}',
    b'{"jsonrpc":"2.0","id":true,"method":"x"}',
    b'{"jsonrpc":"2.0","id":"%b","method":"x"}' % (b"x" * 1025),
    b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % (b"x" * 257),
    b'{"jsonrpc":"2.0","id":1,"method":5}',
    b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"1.0","id":1,"method":"x"}',
    b'{"id":1,"method":"x"}',
    b'{"jsonrpc":"2.0","id":1,"method":"x","result":{}}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"method":"x","other":{}}',
    b'{"jsonrpc":"2.0","id":1,"method":"x"} x',
    b'[{"jsonrpc":"2.0","id":1,"method":"x"}]',
    b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":}}',
    b"",
]
RESULTS_READ = [
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}',
    b'{"id":"1","result":null,"jsonrpc":"2.0"}',
    b' {"result": 5, "jsonrpc": "2.0", "id": -1} ',
    b'{"jsonrpc":"2.0","id":1,"id":2,"result":{},"result":[1]}',
    b'{"jsonrpc":"2.0","id":%d,"result":{}}' % 2**90,
]
RESULTS_LEFT_TO_DECODE = [
    b'{"jsonrpc":"2.0","result":{}}',
    b'{"jsonrpc":"2.0","id":null,"result":{}}',
    b'{"jsonrpc":"2.0","id":1.0,"result":{}}',
    b'{"jsonrpc":"2.0","id":"%b","result":{}}' % (b"x" * 1025),
    b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"1.0","id":1,"result":{}}',
    b'{"id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"method":"x","result":{}}',
    b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}',
    b'{"jsonrpc":"2.0","id":1,"result":{},"other":1}',
    b'{"jsonrpc":"2.0","id":1,"result":{}} x',
    b'[{"jsonrpc":"2.0","id":1,"result":{}}]',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":}}',
    b"",
]


def content(message: Any) -> tuple[object, ...]:
    return message.id, message.method, None if message.params is None else bytes(message.params)


def test_an_ordinary_request_is_read_as_decode_does(subtests: pytest.Subtests) -> None:
    for frame in READ:
        with subtests.test(frame=frame):
            request, decoded = read_plain_request(frame), decode(frame)
            assert isinstance(request, Request)
            assert isinstance(decoded, Request)
            assert content(request) == content(decoded)


def test_an_ordinary_result_is_read_as_decode_does(subtests: pytest.Subtests) -> None:
    for frame in RESULTS_READ:
        with subtests.test(frame=frame):
            assert_same_result(read_plain_result(frame), decode(frame))


def assert_same_result(result: Result, decoded: object) -> None:
    assert isinstance(result, Result)
    assert isinstance(decoded, Result)
    assert (result.id, bytes(result.result)) == (decoded.id, bytes(decoded.result))


def test_everything_else_is_left_to_decode(subtests: pytest.Subtests) -> None:
    for frame in LEFT_TO_DECODE:
        with subtests.test(frame=frame), pytest.raises(DECODE_ERRORS):
            read_plain_request(frame)
    for frame in RESULTS_LEFT_TO_DECODE:
        with subtests.test(frame=frame), pytest.raises(DECODE_ERRORS):
            read_plain_result(frame)


MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2]),
        "id": st.integers() | st.text(max_size=3) | st.none() | st.floats() | st.booleans(),
        "method": st.sampled_from(["tools/call", "ping"]) | st.none(),
        "params": st.sampled_from([{}, {"a": 1}, [], [1], None, 5, "x"]),
        "result": st.sampled_from([{}, None, [1]]),
        "error": st.just({"code": 1, "message": ""}),
        "other": st.just(1),
    },
)


@given(MEMBERS)
def test_what_is_read_with_object_params_is_what_decode_returns(members: dict[str, Any]) -> None:
    frame = json.dumps(members).encode()
    try:
        request = read_plain_request(frame)
    except DECODE_ERRORS:
        return
    if request.params is None or not request.params < MIN_OBJECT:
        decoded = decode(frame)
        assert isinstance(decoded, Request)
        assert content(request) == content(decoded)


@given(MEMBERS)
def test_a_result_that_is_read_is_what_decode_returns(members: dict[str, Any]) -> None:
    frame = json.dumps(members).encode()
    try:
        result = read_plain_result(frame)
    except DECODE_ERRORS:
        return
    assert_same_result(result, decode(frame))
