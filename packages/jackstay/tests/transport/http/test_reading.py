"""Parsing of bodies, with arbitrary content."""

import asyncio
from typing import Any

import msgspec
import pytest

from jackstay.errors import FrameTooLargeError
from jackstay.protocol import REVISIONS
from jackstay.protocol.wire import Batch, Error, Malformed, Result, decode
from jackstay.transport.http._reading import (
    answered_ids,
    error_for_id,
    error_in,
    is_result,
    negotiated_version,
    not_an_answer,
    quote,
    read_body,
)
from scripted.http import MemoryReply


@pytest.mark.parametrize(("chunks", "body"), [([], b""), ([b"a"], b"a"), ([b"a", b"bc"], b"abc")])
def test_a_body_is_read_completely(chunks: list[bytes], body: bytes) -> None:
    async def read() -> bytes:
        reply = MemoryReply()
        for chunk in chunks:
            reply.write(chunk)
        reply.end()
        return await read_body(reply, 3)

    assert asyncio.run(read()) == body


async def test_a_body_over_the_limit_is_abandoned_at_once() -> None:
    reply = MemoryReply()
    reply.write(b"ab")
    reply.write(b"cd")  # without an end
    with pytest.raises(FrameTooLargeError) as raised:
        await read_body(reply, 3)
    assert (raised.value.size, raised.value.limit, raised.value.may_have_run) == (4, 3, True)


BATCHED = REVISIONS["2025-03-26"]
DEEP = b"[" * 100_000 + b"]" * 100_000


def test_responses_are_recognised_by_id() -> None:
    """docs/guarantees.md G2: the rule is the same as in the protocol core."""
    for frame, ids in [
        (b'{"id":7,"result":{}}', (7,)),
        (b'{"id":7,"error":{}}', (7,)),
        (b'{"id":"7","result":{}}', ("7",)),
        (b'{"id":7,"method":"ping"}', ()),
        (b'{"id":7,"method":null,"result":{}}', ()),
        (b'{"id":7}', ()),
        (b'{"id":"\xff","result":{}}', ()),
        (b'{"id":7,"result":' + DEEP + b"}", (7,)),
        (b'[{"id":1,"result":{}},{"id":7,"error":{}},{"id":8}]', (1, 7)),
        (b'[{"jsonrpc":"2.0","id":7,"result":{}},{"error":{}},5]', (7,)),
        (b'[{"id":7,"method":"x"}]', ()),
        (b"[%b]" % b",".join([b'{"id":7,"result":{}}'] * 101), ()),
        (b"[1]", ()),
        (b"[" + DEEP, ()),
        (b"7", ()),
        (b"", ()),
        (b"\xff", ()),
    ]:
        assert answered_ids(frame, BATCHED) == ids
        elsewhere = () if frame[:1] == b"[" else ids
        assert answered_ids(frame, REVISIONS["2025-06-18"]) == answered_ids(frame, None) == elsewhere
        decoded = decode(frame)
        for id in ids:
            members = decoded.members if isinstance(decoded, Batch) else (decoded,)
            assert any(
                isinstance(member, Result | Error | Malformed)
                and member.id == id
                and (not isinstance(member, Malformed) or member.is_response)
                for member in members
            )


def test_an_error_is_accepted_with_any_id() -> None:
    for id in [b'"id":null,', b'"id":"server-error",', b"", b'"id":7,']:
        body = b'{"jsonrpc":"2.0",%b"error":{"code":-32600,"message":"no","data":[1]}}' % id
        frame = error_for_id(body, 9)
        assert frame is not None
        error: Any = {"code": -32600, "message": "no", "data": [1]}
        assert msgspec.json.decode(frame) == {"jsonrpc": "2.0", "id": 9, "error": error}


def test_other_bodies_are_not_errors() -> None:
    for body in [
        b"",
        b"{}",
        b'{"error":"no"}',
        b'{"error":{"code":"x"}}',
        b'{"error":{"code":1},"method":"x"}',
        b"<html>",
        b'{"error":{"code":1,"message":"\xff"}}',
        b'{"error":{"code":1,"data":' + DEEP + b"}}",
    ]:
        assert error_in(body) is None
        assert error_for_id(body, 1) is None


def test_the_revision_is_read_from_the_response_to_initialize() -> None:
    assert negotiated_version(b'{"result":{"protocolVersion":"2025-06-18"}}') == "2025-06-18"
    assert negotiated_version(b'{"result":{}}') == ""
    assert negotiated_version(b'{"error":{}}') is None
    assert negotiated_version(b'{"result":{"protocolVersion":1}}') is None
    assert is_result(b'{"id":1,"result":{}}')
    assert not is_result(b'{"id":1,"error":{}}')
    assert not is_result(b"[]")
    assert negotiated_version(b'{"error":%b}' % DEEP) is None
    assert not is_result(b'{"id":1,"result":%b}' % DEEP)


def test_a_quote_is_one_short_line_of_ascii() -> None:
    assert quote("é\n☃".encode() + b"\xff" * 500) == "\\xe9\\n\\u2603" + "\\ufffd" * 194
    assert str(not_an_answer(b" ")).startswith("the HTTP response is empty")
    assert not_an_answer(b"<html>").quote == "<html>"
