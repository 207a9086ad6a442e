"""InputRequiredResult, its requests and responses, and the arguments of a call."""

import json

import msgspec
import pytest

from jackstay.errors import ProtocolError, UsageError
from jackstay.types import (
    CallToolRequestParams,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    GetPromptRequestParams,
    InputRequiredResult,
    InputResponseRequestParams,
    ListRootsRequest,
    ListRootsResult,
    ReadResourceRequestParams,
    RequestedSchema,
    RequestParams,
    Result,
    Root,
    SamplingMessage,
    TextContent,
    UnknownRequest,
    decode,
    encode_json,
)

TEXT = {"type": "text", "text": "t"}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": TEXT}], "maxTokens": 1},
}
FORM = {
    "method": "elicitation/create",
    "params": {"message": "m", "requestedSchema": {"type": "object", "properties": {}}},
}
URL = {"method": "elicitation/create", "params": {"message": "m", "mode": "url", "url": "u"}}

# An input request, and its class.
INPUT_REQUESTS = [
    (SAMPLE, CreateMessageRequest),
    (FORM, ElicitRequest),
    (URL, ElicitRequest),
    ({"method": "roots/list"}, ListRootsRequest),
    ({"method": "roots/list", "params": {"_meta": {"k": 1}}}, ListRootsRequest),
    ({"method": "roots/list", "params": None}, ListRootsRequest),
    ({"method": "vendor/prompt", "params": [1]}, UnknownRequest),
    ({"params": {}}, UnknownRequest),
    ({}, UnknownRequest),
]

# An input response, and its class.
INPUT_RESPONSES = [
    ({"action": "accept", "content": {"a": 1}}, ElicitResult),
    ({"roots": [{"uri": "file:///a"}]}, ListRootsResult),
    ({"role": "assistant", "content": TEXT, "model": "m"}, CreateMessageResult),
    ({"role": "assistant", "content": [TEXT], "model": "m", "stopReason": "x"}, CreateMessageResult),
    ({"response": 42}, Result),
    ({}, Result),
]


def test_an_input_request_is_chosen_by_its_method() -> None:
    for request, expected in INPUT_REQUESTS:
        members = {"resultType": "input_required", "inputRequests": {"k": request, "f": FORM}}
        result = decode(InputRequiredResult, json.dumps(members).encode())
        assert type(result.input_requests["k"]) is expected
        assert result.raw == members


def test_an_input_response_is_chosen_by_its_members() -> None:
    for response, expected in INPUT_RESPONSES:
        members = {"name": "n", "inputResponses": {"k": response, "e": {"action": "cancel"}}, "requestState": "s"}
        params = decode(GetPromptRequestParams, json.dumps(members).encode())
        assert type(params.input_responses["k"]) is expected
        assert params.raw == members


def test_a_method_that_is_not_a_string_is_rejected() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(InputRequiredResult, b'{"resultType":"input_required","inputRequests":{"k":{"method":5}}}')
    assert caught.value.path == "$.inputRequests.k.method"


def test_input_required_needs_requests_or_state() -> None:
    for data in (b'{"resultType":"input_required"}', b'{"resultType":"input_required","requestState":null}'):
        with pytest.raises(ProtocolError, match="needs 'inputRequests' or 'requestState'"):
            decode(InputRequiredResult, data)
    with pytest.raises(ValueError, match="needs"):
        InputRequiredResult()
    assert decode(InputRequiredResult, b'{"resultType":"input_required","requestState":""}').request_state == ""
    assert InputRequiredResult(input_requests={}).raw == {"resultType": "input_required", "inputRequests": {}}
    with pytest.raises(ProtocolError, match="has no member resultType"):
        decode(InputRequiredResult, b'{"requestState":"s"}')


# Body, and its JSON.
WRITTEN = [
    (
        InputRequiredResult(
            input_requests={
                "a": CreateMessageRequest(CreateMessageRequestParams([SamplingMessage("user", TextContent("t"))], 1)),
                "b": ElicitRequest(ElicitRequestFormParams(message="m", requested_schema=RequestedSchema({}))),
                "c": ElicitRequest(ElicitRequestURLParams(message="m", url="u")),
                "d": ListRootsRequest(),
                "e": ListRootsRequest(RequestParams(meta={"k": 1})),
            },
            request_state="s",
        ),
        {
            "resultType": "input_required",
            "inputRequests": {
                "a": SAMPLE,
                "b": FORM,
                "c": URL,
                "d": {"method": "roots/list"},
                "e": {"method": "roots/list", "params": {"_meta": {"k": 1}}},
            },
            "requestState": "s",
        },
    ),
    (
        ReadResourceRequestParams("u", input_responses={"k": ListRootsResult([Root("file:///a")])}, request_state="s"),
        {"uri": "u", "inputResponses": {"k": {"roots": [{"uri": "file:///a"}]}}, "requestState": "s"},
    ),
    (GetPromptRequestParams("n", {"a": "b"}), {"name": "n", "arguments": {"a": "b"}}),
    (
        InputResponseRequestParams(input_responses={"k": ElicitResult("cancel")}),
        {"inputResponses": {"k": {"action": "cancel"}}},
    ),
]


def test_bodies_round_trip() -> None:
    for body, members in WRITTEN:
        assert json.loads(encode_json(body)) == members
        assert decode(type(body), encode_json(body)) == body


def test_arguments_are_decoded_on_access() -> None:
    assert decode(CallToolRequestParams, b'{"name":"n","arguments":{"a":[1,null]}}').arguments == {"a": [1, None]}
    assert decode(CallToolRequestParams, b'{"name":"n","arguments":{}}').arguments == {}
    assert decode(CallToolRequestParams, b'{"name":"n"}').arguments == {}


def test_arguments_can_be_passed_as_an_object() -> None:
    params = CallToolRequestParams("n", {"a": 1}, meta={"progressToken": 7})
    assert params.arguments == {"a": 1}
    assert params.progress_token == 7
    assert encode_json(params) == b'{"name":"n","arguments":{"a":1},"_meta":{"progressToken":7}}'
    assert CallToolRequestParams("n").arguments == {}
    with pytest.raises(UsageError) as caught:
        encode_json(CallToolRequestParams("n", {"a": {"b": float("nan")}}))
    assert caught.value.path == "$.arguments.a.b"


def test_a_server_decodes_the_arguments_into_parameter_types() -> None:
    class Echo(msgspec.Struct):
        text: str

    params = decode(CallToolRequestParams, b'{"name":"echo","arguments":{"text":"hi"}}')
    assert msgspec.json.decode(params.arguments_json, type=Echo) == Echo("hi")


def test_invalid_arguments_raise_on_access() -> None:
    for text in [b'{"a":1e999}', b'{"a":"\xff"}', b'{"a":' + b"1" * 5_000 + b"}"]:
        params = decode(CallToolRequestParams, b'{"name":"n","arguments":' + text + b"}")
        with pytest.raises(ProtocolError) as caught:
            _ = params.arguments
        assert (caught.value.path, caught.value.code) == ("$.arguments", -32602)
