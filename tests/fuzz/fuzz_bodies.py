# Invariant: any bytes decode to a body that encodes to the same JSON, or raise ProtocolError and nothing else.
"""Bodies with special features: open unions, unparsed members, alternatives, base classes."""

import msgspec

from jackstay.errors import ProtocolError
from jackstay.types import (
    Body,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    GetTaskResult,
    InputRequiredResult,
    ListToolsResult,
    ReadResourceResult,
    decode,
    decode_result,
    encode_json,
)

CLASSES: list[type[Body]] = [
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    GetTaskResult,
    InputRequiredResult,
    ListToolsResult,
    ReadResourceResult,
]

CORPUS = [
    b'{"content":[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"u","blob":""}}],"isError":null,"x":1}',
    b'{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}},"requestState":""}',
    b'{"name":"n","arguments":{"a":1e999},"_meta":{"progressToken":1.0},"inputResponses":{"k":{"action":"accept"}}}',
    b'{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[]}}}}}',
    b'{"role":"user","model":"m","content":[{"type":"tool_result","toolUseId":"1","content":[]}],"content":{"type":5}}',
    b'{"tools":[{"name":"n","inputSchema":{},"*":null,"icons":[{"src":"s"}]}],"ttlMs":1.0,"cacheScope":"\\ud800"}',
    b'{"ref":{"type":"ref/prompt","name":"\xff"},"argument":{"name":"","value":""}}',
]


def fuzz(data: bytes) -> None:
    for cls in CLASSES:
        try:
            body = decode(cls, data)
            raw = body.raw
        except ProtocolError:
            continue
        assert isinstance(body, cls)
        assert raw == msgspec.json.decode(data)
        assert decode(cls, encode_json(body)).raw == raw
    try:
        result = decode_result(CallToolResult, data)
    except ProtocolError:
        return
    assert result.raw == msgspec.json.decode(data)
