# Invariant: a header value round-trips any text, invalid values raise -32020, and any schema has rows or problems.
import contextlib

import msgspec

from jackstay.errors import ProtocolError
from jackstay.protocol.http._headers import (
    build_param_headers,
    check_param_headers,
    decode_header_value,
    encode_header_value,
    fold_headers,
    read_param_headers,
)
from jackstay.protocol.http._request_checks import Endpoint, RequestRefused, check_request
from jackstay.protocol.http._server import SessionState, route_post
from jackstay.protocol.wire._jsonrpc import ErrorCode, decode

CORPUS = [
    b"=?base64?SGVsbG8sIOS4lueVjA==?=",
    b"=?base64?SGVsbG8?=",
    b"=?base64?=",
    b" padded ",
    b'{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Region"}}}',
    b'{"properties":{"a":{"properties":{"b":{"type":"integer","x-mcp-header":"N"}}}}}',
    b'{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}},"$defs":{"x":{"x-mcp-header":1}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}',
    b"text/event-stream;q=0.5, application/*;q=0",
    b"http://localhost:8000",
]


def fuzz(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    assert decode_header_value(encode_header_value(text)) == text

    rejected = None
    try:
        decode_header_value(data.decode("latin-1"), "Mcp-Name")
    except ProtocolError as error:
        rejected = (error.code, error.path)
    assert rejected in (None, (ErrorCode.HEADER_MISMATCH, "Mcp-Name"))

    try:
        schema = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        schema = None
    found = read_param_headers(schema)
    assert len({row.name.lower() for row in found.rows}) == len(found.rows)
    arguments = {"a": "x", "b": {"a": 1}}
    if found.rows and not found.problems and all(row.path[0] not in arguments for row in found.rows):
        assert check_param_headers(found.rows, {}, arguments) is None
        assert build_param_headers(found.rows, arguments) == ()

    for name in (b"host", b"origin", b"accept", b"content-type", b"content-length", b"mcp-protocol-version"):
        usual = {b"host": b"localhost", b"content-type": b"application/json"}
        headers = fold_headers({**usual, name: data}.items())
        with contextlib.suppress(RequestRefused):
            check_request(Endpoint(), "POST", headers)
        for session in SessionState:
            with contextlib.suppress(RequestRefused):
                route_post(Endpoint(), headers, decode(data), session)
