"""The encoding of JSON-RPC messages, to the byte, and what is refused."""

import math

import pytest

from jackstay.errors import UsageError
from jackstay.protocol.wire._jsonrpc import (
    ABSENT,
    MAX_ID_LENGTH,
    MAX_METHOD_LENGTH,
    ErrorCode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    join_batch,
    splice_meta,
)

ENCODED = [
    (encode_request(1, "ping"), b'{"jsonrpc":"2.0","id":1,"method":"ping"}'),
    (encode_request(1, "m", b"{}"), b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}'),
    (
        encode_request(1, "m", b"{}", b'{"a":1}'),
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"a":1}}}',
    ),
    (encode_request(1, "m", None, b"{}"), b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{}}}'),
    (
        encode_request(1, "m", b'{"x":1}', b"{}"),
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{},"x":1}}',
    ),
    (encode_request('"', "m"), b'{"jsonrpc":"2.0","id":"\\"","method":"m"}'),
    (encode_notification("n"), b'{"jsonrpc":"2.0","method":"n"}'),
    (encode_notification("n", b'{"x":1}'), b'{"jsonrpc":"2.0","method":"n","params":{"x":1}}'),
    (encode_result("a", b"null"), b'{"jsonrpc":"2.0","id":"a","result":null}'),
    (encode_error(None, -1, "m"), b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}'),
    (encode_error(ABSENT, -1, "m"), b'{"jsonrpc":"2.0","error":{"code":-1,"message":"m"}}'),
    (
        encode_error(1, ErrorCode.PARSE_ERROR, "m", None),
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"m","data":null}}',
    ),
    (splice_meta(b"{ \n}", b"{}"), b'{"_meta":{}}'),
    (join_batch([b"1"]), b"[1]"),
    (join_batch([b"{}", b"[]"]), b"[{},[]]"),
]


def test_encoded_messages(subtests: pytest.Subtests) -> None:
    for frame, expected in ENCODED:
        with subtests.test(frame=frame, expected=expected):
            assert frame == expected


UNSENDABLE = [
    (lambda: encode_request(10**5_000, "m"), UsageError, "id"),
    (lambda: encode_request(True, "m"), UsageError, "id"),
    (lambda: encode_request(1.0, "m"), UsageError, "id"),  # type: ignore[arg-type]  # an error of the caller
    (lambda: encode_request("i" * (MAX_ID_LENGTH + 1), "m"), UsageError, "id"),
    (lambda: encode_request("\ud800", "m"), UsageError, "$"),
    (lambda: encode_request(1, "\ud800"), UsageError, "$"),
    (lambda: encode_request(1, "m" * (MAX_METHOD_LENGTH + 1)), UsageError, "method"),
    (lambda: encode_notification("m" * (MAX_METHOD_LENGTH + 1)), UsageError, "method"),
    (lambda: encode_request(1, "m", b"[1]", b"{}"), UsageError, "_meta"),
    (lambda: encode_request(1, "m", b"{}", b"null"), UsageError, "_meta"),
    (lambda: encode_request(1, "m", b"", b"{}"), UsageError, "_meta"),
    (lambda: encode_error(1, 1, "m", {"a": [math.nan]}), UsageError, "$.a[0]"),
    (lambda: encode_error(1, 1, "m", {"a": -math.inf}), UsageError, "$.a"),
    (lambda: encode_error(1, 1, "m", ["\ud800"]), UsageError, "$[0]"),
    (lambda: encode_error(1, 1, "\udfff"), UsageError, "$"),
    (lambda: join_batch([]), UsageError, ""),
]


def test_invalid_messages_are_not_encoded(subtests: pytest.Subtests) -> None:
    for encode, error_type, path in UNSENDABLE:
        with subtests.test(encode=encode, error_type=error_type, path=path):
            assert callable(encode)
            with pytest.raises(error_type) as caught:
                encode()
            assert caught.value.path == path  # type: ignore[attr-defined]  # both classes have it
