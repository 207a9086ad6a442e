"""Requests that may be answered with a question: the questions, the answers, and the arguments of a call."""

import json

import msgspec
import pytest

from jackstay.errors import ProtocolError, UsageError
from jackstay.types import (
    Body,
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

# what is asked, and its class
QUESTIONS = [
    (SAMPLE, CreateMessageRequest),
    (FORM, ElicitRequest),
    (URL, ElicitRequest),
    ({"method": "roots/list"}, ListRootsRequest),
    ({"method": "roots/list", "params": {"_meta": {"k": 1}}}, ListRootsRequest),
    ({"method": "roots/list", "params": None}, ListRootsRequest),
    ({"method": "vendor/ask", "params": [1]}, UnknownRequest),
    ({"params": {}}, UnknownRequest),
    ({}, UnknownRequest),
]

# an answer, and its class
ANSWERS = [
    ({"action": "accept", "content": {"a": 1}}, ElicitResult),
    ({"roots": [{"uri": "file:///a"}]}, ListRootsResult),
    ({"role": "assistant", "content": TEXT, "model": "m"}, CreateMessageResult),
    ({"role": "assistant", "content": [TEXT], "model": "m", "stopReason": "x"}, CreateMessageResult),
    ({"answer": 42}, Result),
    ({}, Result),
]


@pytest.mark.parametrize(("question", "expected"), QUESTIONS, ids=lambda value: str(value)[:40])
def test_a_question_is_chosen_by_its_method(question: dict, expected: type[Body]) -> None:
    members = {"resultType": "input_required", "inputRequests": {"k": question, "f": FORM}}
    result = decode(InputRequiredResult, json.dumps(members).encode())
    assert type(result.input_requests["k"]) is expected
    assert result.raw == members


@pytest.mark.parametrize(("answer", "expected"), ANSWERS, ids=lambda value: str(value)[:40])
def test_an_answer_is_chosen_by_what_is_in_it(answer: dict, expected: type[Body]) -> None:
    members = {"name": "n", "inputResponses": {"k": answer, "e": {"action": "cancel"}}, "requestState": "s"}
    params = decode(GetPromptRequestParams, json.dumps(members).encode())
    assert type(params.input_responses["k"]) is expected
    assert params.raw == members


def test_a_method_that_is_no_text_is_refused() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(InputRequiredResult, b'{"resultType":"input_required","inputRequests":{"k":{"method":5}}}')
    assert caught.value.path == "$.inputRequests.k.method"


def test_a_question_must_ask_something() -> None:
    for data in (b'{"resultType":"input_required"}', b'{"resultType":"input_required","requestState":null}'):
        with pytest.raises(ProtocolError, match="needs 'inputRequests' or 'requestState'"):
            decode(InputRequiredResult, data)
    with pytest.raises(ValueError, match="needs"):
        InputRequiredResult()
    assert (
        decode(InputRequiredResult, b'{"resultType":"input_required","requestState":""}').request_state == ""
    )
    assert InputRequiredResult(input_requests={}).raw == {"resultType": "input_required", "inputRequests": {}}
    with pytest.raises(ProtocolError, match="needs the member resultType"):
        decode(InputRequiredResult, b'{"requestState":"s"}')


# body, and what is written of it
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
    (InputResponseRequestParams(input_responses={"k": ElicitResult("cancel")}), {"inputResponses": {"k": {"action": "cancel"}}}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "members"), WRITTEN, ids=lambda value: type(value).__name__)
def test_bodies_are_written_and_read_back(body: Body, members: dict) -> None:
    assert json.loads(encode_json(body)) == members
    assert decode(type(body), encode_json(body)) == body


def test_arguments_are_decoded_when_asked_for() -> None:
    assert decode(CallToolRequestParams, b'{"name":"n","arguments":{"a":[1,null]}}').arguments == {
        "a": [1, None]
    }
    assert decode(CallToolRequestParams, b'{"name":"n","arguments":{}}').arguments == {}
    assert decode(CallToolRequestParams, b'{"name":"n"}').arguments == {}


def test_arguments_are_given_as_an_object() -> None:
    params = CallToolRequestParams("n", {"a": 1}, meta={"progressToken": 7})
    assert params.arguments == {"a": 1}
    assert params.progress_token == 7
    assert encode_json(params) == b'{"name":"n","arguments":{"a":1},"_meta":{"progressToken":7}}'
    assert CallToolRequestParams("n").arguments == {}
    with pytest.raises(UsageError) as caught:
        encode_json(CallToolRequestParams("n", {"a": {"b": float("nan")}}))
    assert caught.value.path == "$.arguments.a.b"


def test_a_server_decodes_the_arguments_into_what_its_tool_takes() -> None:
    class Echo(msgspec.Struct):
        text: str

    params = decode(CallToolRequestParams, b'{"name":"echo","arguments":{"text":"hi"}}')
    assert msgspec.json.decode(params.arguments_json, type=Echo) == Echo("hi")


@pytest.mark.parametrize("text", [b'{"a":1e999}', b'{"a":"\xff"}', b'{"a":' + b"1" * 5_000 + b"}"])
def test_arguments_that_only_decoding_finds_wrong_are_refused_then(text: bytes) -> None:
    params = decode(CallToolRequestParams, b'{"name":"n","arguments":' + text + b"}")
    with pytest.raises(ProtocolError) as caught:
        _ = params.arguments
    assert (caught.value.path, caught.value.code) == ("$.arguments", -32602)
