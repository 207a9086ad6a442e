# Invariant: any bytes decode to one message; the code is -32700 exactly if the json module, limited to RFC 8259, fails.
"""Envelopes, compared with an independent JSON parser. Every accepted message can be encoded and decoded again."""

import json

from jackstay.protocol.wire._json_text import MAX_DEPTH, is_deeper_than
from jackstay.protocol.wire._jsonrpc import (
    Batch,
    Error,
    ErrorCode,
    Malformed,
    Message,
    Notification,
    Request,
    Result,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)

_REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":[1,2.5e3,"\\u00e9"]}}}'
_RESULT = b'{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"\\"\\\\\\ud83d\\ude00"}]}}'
_ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no","data":null}}'
_NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

CORPUS = [
    _REQUEST,
    _RESULT,
    _ERROR,
    _NOTIFICATION,
    b"[" + _REQUEST + b"," + _NOTIFICATION + b"]",
    b'{"jsonrpc":"2.0","id":9007199254740993,"method":"m","params":{"x":"\xc3\xa9\xe2\x80\xa8"}}',
    b"[" * 130 + b"]" * 130,
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud800","a":1}}',
]


def fuzz(data: bytes) -> None:
    message = decode(data)
    if isinstance(message, Malformed):
        assert message.code in (ErrorCode.PARSE_ERROR, ErrorCode.INVALID_REQUEST)
        assert message.message
        assert len(message.message) + len(message.path) + len(message.quote) < 1_000
    if not is_deeper_than(data, MAX_DEPTH):
        is_parse_error = isinstance(message, Malformed) and message.code == ErrorCode.PARSE_ERROR
        assert is_parse_error is not _is_json(data)
    for member in message.members if isinstance(message, Batch) else (message,):
        _round_trip(member)


def _is_json(data: bytes) -> bool:
    def reject_constant(constant: str) -> object:
        raise ValueError(constant)

    # Objects as lists of members: a dict would lose the first of two members with the same name.
    def members(pairs: list[tuple[str, object]]) -> object:
        return pairs

    try:
        value = json.loads(
            data.decode(), parse_constant=reject_constant, parse_int=str, parse_float=str, object_pairs_hook=members
        )
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


def _round_trip(message: Message) -> None:
    match message:
        case Request(id, method, params):
            again = decode(encode_request(id, method, None if params is None else bytes(params)))
            assert isinstance(again, Request)
            assert (again.id, again.method, _bytes(again.params)) == (id, method, _bytes(params))
        case Notification(method, params):
            again = decode(encode_notification(method, None if params is None else bytes(params)))
            assert isinstance(again, Notification)
            assert (again.method, _bytes(again.params)) == (method, _bytes(params))
        case Result(id, result):
            again = decode(encode_result(id, bytes(result)))
            assert isinstance(again, Result)
            assert (again.id, bytes(again.result)) == (id, bytes(result))
        case Error(id, code, text, data):
            assert decode(encode_error(id, code, text, data)) == message
        case Malformed(id=id, code=code, message=text):
            assert isinstance(decode(encode_error(id, code, text)), Error)


def _bytes(raw: object) -> bytes | None:
    return None if raw is None else bytes(raw)  # type: ignore[call-overload]  # a Raw is a buffer
