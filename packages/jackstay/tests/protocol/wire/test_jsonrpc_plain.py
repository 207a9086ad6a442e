"""`read_plain_request`: it reads ordinary requests as `decode` does, and raises for everything else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.protocol.wire._jsonrpc import DECODE_ERRORS, MIN_OBJECT, Request, decode, read_plain_request

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


def content(message: Any) -> tuple[object, ...]:
    return message.id, message.method, None if message.params is None else bytes(message.params)


def test_an_ordinary_request_is_read_as_decode_does(subtests: pytest.Subtests) -> None:
    for frame in READ:
        with subtests.test(frame=frame):
            request, decoded = read_plain_request(frame), decode(frame)
            assert isinstance(request, Request)
            assert isinstance(decoded, Request)
            assert content(request) == content(decoded)


def test_everything_else_is_left_to_decode(subtests: pytest.Subtests) -> None:
    for frame in LEFT_TO_DECODE:
        with subtests.test(frame=frame), pytest.raises(DECODE_ERRORS):
            read_plain_request(frame)


MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2]),
        "id": st.integers() | st.text(max_size=3) | st.none() | st.floats() | st.booleans(),
        "method": st.sampled_from(["tools/call", "ping"]) | st.none(),
        "params": st.sampled_from([{}, {"a": 1}, [], [1], None, 5, "x"]),
        "result": st.just({}),
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
