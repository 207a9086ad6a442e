"""Decoding: the fast and the slow path agree, nothing is lost, and errors have a path.

The property tests draw messages from the annotations of every body, with absent, null and unknown members.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jackstay.types
from jackstay.errors import ProtocolError
from jackstay.types import (
    Annotations,
    Body,
    CallToolRequestParams,
    CallToolResult,
    CancelledNotificationParams,
    CompleteRequestParams,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    InitializeRequestParams,
    ListResourcesResult,
    ListToolsResult,
    LoggingMessageNotificationParams,
    ProgressNotificationParams,
    PromptMessage,
    ReadResourceResult,
    RequestedSchema,
    SetLevelRequestParams,
    TextContent,
    Tool,
    UnknownContent,
    decode,
    encode_json,
    from_json,
)
from jackstay.types._body import Choose
from jackstay.types._decode import _STRICT, INVALID_PARAMS, PARSE_ERROR, _with_constant, strict_reader

BODIES = [
    value
    for name in jackstay.types.__all__
    if isinstance(value := getattr(jackstay.types, name), type) and issubclass(value, Body)
]


def pack(value: object) -> bytes:
    return json.dumps(value).encode()


# --- messages drawn from annotations ----------------------------------------------------------------------------------

TEXT = st.text(max_size=6)
# Names that no body has; the last three look like something else.
UNKNOWN_NAMES = st.sampled_from(["x-vendor", "io.example/key", "futureMember", "*", "", "extra", "input_schema"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
SCALARS = {
    str: TEXT,
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    NoneType: st.none(),
    list: st.lists(ANY_JSON, max_size=2),
    dict: st.dictionaries(TEXT, ANY_JSON, max_size=2),
    Any: ANY_JSON,
}


def below(cls: type[Body]) -> list[type[Body]]:
    return [each for child in cls.__subclasses__() for each in (child, *below(child))]


def objects_for(usual: type[Body], choose: Choose) -> st.SearchStrategy:
    """Objects of every class of a union."""
    families = {
        "TextContent": [
            cls
            for union in (jackstay.types.ContentBlock, jackstay.types.SamplingMessageContentBlock)
            for cls in get_args(union)
            if cls is not UnknownContent
        ],
        "TextResourceContents": [jackstay.types.ResourceContents, *below(jackstay.types.ResourceContents)],
        "PromptReference": [jackstay.types.PromptReference, jackstay.types.ResourceTemplateReference],
        "StringSchema": list(get_args(jackstay.types.PrimitiveSchemaDefinition)),
        "ElicitRequestFormParams": [ElicitRequestFormParams, ElicitRequestURLParams],
        "ElicitRequest": list(get_args(jackstay.types.InputRequest)),
        "ElicitResult": list(get_args(jackstay.types.InputResponse)),
    }
    drawn = st.deferred(lambda: st.one_of([message(cls) for cls in families[usual.__name__]]))
    # A drawn object may fit no class, or another class than it was drawn for; other tests cover those.
    return drawn.filter(lambda members: is_accepted(choose, members))


def is_accepted(choose: Choose, members: dict[str, object]) -> bool:
    cls = choose(members)
    try:
        return cls is not None and from_json(cls, members) is not None
    except ProtocolError:
        return False


def value_for(hint: object) -> st.SearchStrategy:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is msgspec.Raw:
        return SCALARS[dict]
    if origin is Annotated:
        return objects_for(arguments[0], arguments[1])
    if origin in (Union, UnionType):
        return st.one_of([value_for(part) for part in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is Sequence:
        return st.lists(value_for(arguments[0]), max_size=2)
    if origin is Mapping:
        return st.dictionaries(TEXT, value_for(arguments[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, Body):
        return st.deferred(lambda: message(hint))
    return SCALARS[hint]


STRATEGIES: dict[type[Body], st.SearchStrategy] = {}


def message(cls: type[Body]) -> st.SearchStrategy:
    """JSON objects that are a body of this class."""
    if cls not in STRATEGIES:
        if "choose" in vars(cls):
            STRATEGIES[cls] = st.one_of([message(subclass) for subclass in below(cls)])
        else:
            STRATEGIES[cls] = fixed_members(cls)
    return STRATEGIES[cls]


def fixed_members(cls: type[Body]) -> st.SearchStrategy:
    required, optional = {}, {}
    for field in msgspec.structs.fields(cls):
        if field.name == "extra":
            continue
        if field.default is None:
            optional[field.encode_name] = value_for(field.type) | st.none()
        else:
            required[field.encode_name] = value_for(field.type)
    known = st.fixed_dictionaries(required, optional=optional)
    unknown = st.dictionaries(UNKNOWN_NAMES, ANY_JSON, max_size=1)
    drawn = st.tuples(unknown, known).map(lambda both: {**both[0], **both[1]})
    if cls.__name__ in ("InputRequiredResult", "CreateTaskResult"):
        return drawn.filter(lambda members: is_accepted(lambda _: cls, members))
    return drawn


@pytest.mark.guard(300)
@given(st.data())
def test_every_message_round_trips(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(BODIES))
    members = data.draw(message(cls))
    body = decode(cls, pack(members))
    assert isinstance(body, cls)
    assert json.loads(encode_json(body)) == members
    assert body.raw == members


@pytest.mark.guard(300)
@given(st.data())
def test_the_fast_and_the_slow_path_agree(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from([cls for cls in BODIES if "choose" not in vars(cls)]))
    members = data.draw(message(cls))
    packed = msgspec.json.encode(members)
    slow = from_json(cls, members)
    try:
        fast = strict_reader(cls)(packed)
    except msgspec.ValidationError:
        return
    assert fast == slow
    assert type(fast) is type(slow)


def test_both_paths_decode_every_class() -> None:
    """So that the two tests above cannot pass by rejecting everything."""
    for cls in BODIES:
        members = least(cls)
        assert decode(cls, pack(members)).raw == members, cls
        assert decode(cls, pack({**members, "x-vendor": [None]})).raw == {**members, "x-vendor": [None]}, cls
        if "choose" not in vars(cls):
            assert _STRICT[cls](pack(members)) == from_json(cls, members), cls


def least(cls: type[Body]) -> dict[str, object]:
    """The required members; in a union, those of the default class."""
    if "choose" in vars(cls):
        return least(below(cls)[0])
    if cls.__name__ in ("InputRequiredResult", "CreateTaskResult"):
        more: dict[str, object] = {
            "InputRequiredResult": {"resultType": "input_required", "requestState": ""},
            "CreateTaskResult": {"task": least(jackstay.types.Task)},
        }[cls.__name__]
        return more
    return {
        field.encode_name: least_value(field.type) for field in msgspec.structs.fields(cls) if field.default is not None
    }


def least_value(hint: object) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return least_value(arguments[0])
    if origin in (Union, UnionType, Literal):
        return least_value(arguments[0]) if origin is not Literal else arguments[0]
    if origin is Sequence:
        return [least_value(arguments[0])]
    if origin is Mapping:
        return {"key": least_value(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, Body):
        return least(hint)
    return {str: "s", int: 1, float: 0.5, bool: True, Any: {"a": None}}[hint]


# --- errors -----------------------------------------------------------------------------------------------------------

TEXT_BLOCK = {"type": "text", "text": "t"}
TOOL = {"name": "t", "inputSchema": {}}

# Class, members, path and message.
WRONG = [
    (CallToolResult, [], "$: expected an object, got an array"),
    (CallToolResult, "text", "$: expected an object, got a string"),
    (CallToolResult, {}, "$: CallToolResult has no member content"),
    (CallToolResult, {"content": None}, "$.content: expected an array, got null"),
    (CallToolResult, {"content": {}}, "$.content: expected an array, got an object"),
    (CallToolResult, {"content": ["t"]}, "$.content[0]: expected an object, got a string"),
    (CallToolResult, {"content": [TEXT_BLOCK, {"type": "text"}]}, "$.content[1]: TextContent has no member text"),
    (
        CallToolResult,
        {"content": [{"type": "text", "text": 5}]},
        "$.content[0].text: expected a string, got an integer",
    ),
    (CallToolResult, {"content": [], "isError": "no"}, "$.isError: expected a boolean, got a string"),
    (CallToolResult, {"content": [], "isError": 0}, "$.isError: expected a boolean, got an integer"),
    (CallToolResult, {"content": [], "_meta": []}, "$._meta: expected an object, got an array"),
    (CallToolResult, {"content": [], "resultType": "later"}, "$.resultType: expected 'complete', got 'later'"),
    (
        CallToolResult,
        {"content": [{**TEXT_BLOCK, "annotations": {"audience": "user"}}]},
        "$.content[0].annotations.audience: expected an array, got a string",
    ),
    (
        CallToolResult,
        {"content": [{**TEXT_BLOCK, "annotations": {"audience": [1]}}]},
        "$.content[0].annotations.audience[0]: expected a string, got an integer",
    ),
    (
        CallToolResult,
        {"content": [{"type": "resource", "resource": {"text": ""}}]},
        "$.content[0].resource: TextResourceContents has no member uri",
    ),
    (CallToolResult, {"content": [{"type": "image"}]}, "$.content[0]: ImageContent has no member data, mimeType"),
    (
        ListToolsResult,
        {"tools": [TOOL, {"name": "u", "inputSchema": []}]},
        "$.tools[1].inputSchema: expected an object, got an array",
    ),
    (ListToolsResult, {"tools": [TOOL], "ttlMs": 1.5}, "$.ttlMs: expected an integer, got a number"),
    (ListToolsResult, {"tools": [TOOL], "ttlMs": "1"}, "$.ttlMs: expected an integer, got a string"),
    (
        ListToolsResult,
        {"tools": [{**TOOL, "icons": [{"src": "s", "sizes": "any"}]}]},
        "$.tools[0].icons[0].sizes: expected an array, got a string",
    ),
    (
        ListResourcesResult,
        {"resources": [{"uri": "u", "name": "n", "size": True}]},
        "$.resources[0].size: expected an integer, got a boolean",
    ),
    (
        GetPromptResult,
        {"messages": [{"role": "system", "content": TEXT_BLOCK}]},
        "$.messages[0].role: expected 'user' or 'assistant', got 'system'",
    ),
    (
        GetPromptResult,
        {"messages": [{"role": "r" * 50, "content": TEXT_BLOCK}]},
        f"$.messages[0].role: expected 'user' or 'assistant', got '{'r' * 40}…'",
    ),
    (
        GetPromptResult,
        {"messages": [{"role": 1, "content": TEXT_BLOCK}]},
        "$.messages[0].role: expected 'user' or 'assistant', got an integer",
    ),
    (
        GetPromptRequestParams,
        {"name": "n", "arguments": {"a b": 1}},
        "$.arguments['a b']: expected a string, got an integer",
    ),
    (
        CompleteRequestParams,
        {"ref": {"type": "ref/tool"}, "argument": {"name": "n", "value": ""}},
        "$.ref: unknown kind of object",
    ),
    (
        CompleteRequestParams,
        {"ref": {"type": ["ref/prompt"]}, "argument": {"name": "n", "value": ""}},
        "$.ref: unknown kind of object",
    ),
    (
        CompleteRequestParams,
        {"ref": "ref/prompt", "argument": {"name": "n", "value": ""}},
        "$.ref: expected an object, got a string",
    ),
    (
        SetLevelRequestParams,
        {"level": "trace"},
        "$.level: expected 'debug' or 'info' or 'notice' or 'warning' or 'error' or 'critical' or 'alert' "
        "or 'emergency', got 'trace'",
    ),
    (
        ProgressNotificationParams,
        {"progressToken": 1.0, "progress": 1},
        "$.progressToken: expected an integer or a string, got a number",
    ),
    (
        ProgressNotificationParams,
        {"progressToken": True, "progress": 1},
        "$.progressToken: expected an integer or a string, got a boolean",
    ),
    (
        ProgressNotificationParams,
        {"progressToken": "p", "progress": "1"},
        "$.progress: expected an integer or a number, got a string",
    ),
    (CancelledNotificationParams, {"requestId": {}}, "$.requestId: expected an integer or a string, got an object"),
    (
        InitializeRequestParams,
        {"protocolVersion": "v", "capabilities": {"roots": True}, "clientInfo": {"name": "n", "version": "v"}},
        "$.capabilities.roots: expected an object, got a boolean",
    ),
    (
        InitializeRequestParams,
        {"protocolVersion": "v", "capabilities": {"experimental": {"a": 1}}, "clientInfo": {}},
        "$.capabilities.experimental.a: expected an object, got an integer",
    ),
    (ElicitRequestParams, {"message": "m", "mode": "telepathy"}, "$: unknown kind of object"),
    (ElicitRequestParams, {"message": "m"}, "$: ElicitRequestFormParams has no member requestedSchema"),
    (ElicitRequestParams, [], "$: expected an object, got an array"),
    (
        ElicitRequestParams,
        {"message": "m", "requestedSchema": {"properties": {}}},
        "$.requestedSchema: RequestedSchema has no member type",
    ),
    (
        ElicitResult,
        {"action": "accept", "content": {"a": {"b": 1}}},
        "$.content.a: expected a string or an integer or a number or a boolean or an array or null, got an object",
    ),
    (
        CreateMessageResult,
        {"role": "user", "model": "m", "content": "t"},
        "$.content: expected an object or an array, got a string",
    ),
    (
        CreateMessageResult,
        {"role": "user", "model": "m", "content": [TEXT_BLOCK, 1]},
        "$.content[1]: expected an object, got an integer",
    ),
    (CallToolRequestParams, {"name": "n", "arguments": []}, "$.arguments: expected an object, got an array"),
    (CallToolRequestParams, {"name": "n", "arguments": "{}"}, "$.arguments: expected an object, got a string"),
    (CallToolRequestParams, {"arguments": {}}, "$: CallToolRequestParams has no member name"),
]


def test_an_invalid_member_is_reported_with_its_path(subtests: pytest.Subtests) -> None:
    for cls, members, message in WRONG:
        for name, parse, data in (("decode", decode, pack(members)), ("from_json", from_json, members)):
            with subtests.test(name, message=message):
                with pytest.raises(ProtocolError) as caught:
                    parse(cls, data)  # type: ignore[operator]
                assert f"{caught.value.path}: {caught.value.message}" == message
                assert caught.value.code == INVALID_PARAMS


# Data, code, a part of the message.
UNREADABLE = [
    (b"", PARSE_ERROR, "truncated"),
    (b'{"content":[', PARSE_ERROR, "truncated"),
    (b'{"content":[]}x', PARSE_ERROR, "trailing"),
    (b'{"content":[NaN]}', PARSE_ERROR, "invalid character"),
    (b'{"content":[],"x":"\xff"}', PARSE_ERROR, "utf-8"),
    (b'{"content":[],"x":"\\ud800"}', PARSE_ERROR, "cannot decode the"),
    (b'{"content":[],"x":1e999}', INVALID_PARAMS, "out of range"),
    (b'{"content":[],"x":' + b"1" * 5000 + b"}", INVALID_PARAMS, "out of range"),
    (b'{"content":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", PARSE_ERROR, "nested too deeply"),
]


def test_invalid_json_is_rejected() -> None:
    for data, code, message in UNREADABLE:
        for cls in (CallToolResult, ElicitRequestParams):
            with pytest.raises(ProtocolError) as caught:
                decode(cls, data)
            assert message in caught.value.message
            assert (caught.value.path, caught.value.code) == ("$", code)


def test_invalid_params_with_unparsed_members_are_rejected() -> None:
    for data in (b"", b"[]", b"1", b'{"name":"n","x":"\xff"}', b'{"name":"n","x":1e999}'):
        with pytest.raises(ProtocolError):
            decode(CallToolRequestParams, data)


# --- details ----------------------------------------------------------------------------------------------------------


def test_of_duplicate_names_the_last_wins_on_both_paths() -> None:
    fast = b'{"content":[{"type":"image"}],"content":[{"type":"text","text":"a","text":"b"}]}'
    assert decode(CallToolResult, fast) == CallToolResult([TextContent("b")])
    slow = b'{"x":1,"content":5,"x":2,"content":[]}'
    assert decode(CallToolResult, slow).raw == {"x": 2, "content": []}
    params = b'{"x":1,"x":2,"name":"a","arguments":[],"name":"b","arguments":{"a":1}}'
    assert decode(CallToolRequestParams, params).raw == {"x": 2, "name": "b", "arguments": {"a": 1}}


def test_a_block_without_a_type_is_not_text() -> None:
    block = decode(CallToolResult, b'{"content":[{"text":"t"}]}').content[0]
    assert isinstance(block, UnknownContent)
    assert block.raw == {"text": "t"}
    for cls, members in ((TextContent, {"text": "t"}), (RequestedSchema, {"properties": {}})):
        with pytest.raises(ProtocolError, match="has no member type"):
            decode(cls, pack(members))


def test_an_integer_may_be_spelled_as_a_number() -> None:
    result = decode(ListToolsResult, b'{"tools":[],"ttlMs":5.0}')
    assert result.ttl_ms == 5
    assert isinstance(result.ttl_ms, int)


def test_numbers_round_trip() -> None:
    for text in ("1", "1.0", "0.25", "123456789012345678901234567890"):
        params = decode(ProgressNotificationParams, b'{"progressToken":"p","progress":%b}' % text.encode())
        assert encode_json(params) == b'{"progressToken":"p","progress":%b}' % text.encode()
    huge = 2**200
    assert decode(CancelledNotificationParams, b'{"requestId":%d}' % huge).request_id == huge


def test_null_data_is_a_value() -> None:
    body = decode(LoggingMessageNotificationParams, b'{"level":"info","data":null}')
    assert body.data is None
    assert body.extra is None
    assert body.raw == {"level": "info", "data": None}
    with pytest.raises(ProtocolError, match="has no member data"):
        decode(LoggingMessageNotificationParams, b'{"level":"info"}')


def test_raw_bytes_decode_like_bytes() -> None:
    data = msgspec.Raw(b'{"content":[{"type":"text","text":"t"}],"x":1}')
    assert decode(CallToolResult, data).raw == {"content": [TEXT_BLOCK], "x": 1}
    assert decode(EmptyResult, msgspec.Raw(b"{}")) == EmptyResult()


def test_arguments_are_not_decoded_on_either_path() -> None:
    text = b'{ "n" : 1.50 , "deep":[null] }'
    for more in (b"", b',"x-vendor":1', b',"_meta":null'):
        params = decode(CallToolRequestParams, b'{"name":"n","arguments":' + text + more + b"}")
        assert isinstance(params.arguments_json, msgspec.Raw)
        assert bytes(params.arguments_json) == text
        assert text in encode_json(params)
    parsed = from_json(CallToolRequestParams, {"name": "n", "arguments": {"a": 1}})
    assert bytes(parsed.arguments_json) == b'{"a":1}'


def test_null_arguments_are_preserved() -> None:
    params = decode(CallToolRequestParams, b'{"name":"n","arguments":null}')
    assert params.arguments_json is None
    assert params.raw == {"name": "n", "arguments": None}


def test_blocks_of_several_types_are_decoded() -> None:
    blocks = [
        TEXT_BLOCK,
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "u", "blob": ""}, "annotations": {"priority": 1}},
        {"type": "hologram", "depth": [None]},
    ]
    result = decode(CallToolResult, pack({"content": blocks}))
    assert [type(block) for block in result.content] == [
        TextContent,
        ImageContent,
        EmbeddedResource,
        UnknownContent,
    ]
    assert result.content[2].annotations == Annotations(priority=1)
    assert result.raw == {"content": blocks}


def test_one_block_or_an_array_of_blocks() -> None:
    for content in (
        TEXT_BLOCK,
        [TEXT_BLOCK],
        [TEXT_BLOCK, {"type": "image", "data": "", "mimeType": "m"}],
        [],
    ):
        members = {"messages": [{"role": "user", "content": content}], "maxTokens": 1}
        assert decode(CreateMessageRequestParams, pack(members)).raw == members


def test_an_abstract_class_decodes_to_a_subclass() -> None:
    form = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}
    url = {"message": "m", "mode": "url", "url": "https://example.com"}
    assert type(decode(ElicitRequestParams, pack(form))) is ElicitRequestFormParams
    assert type(decode(ElicitRequestParams, pack({**form, "mode": "form"}))) is ElicitRequestFormParams
    assert type(decode(ElicitRequestParams, pack(url))) is ElicitRequestURLParams
    assert type(decode(ElicitRequestURLParams, pack(url))) is ElicitRequestURLParams


def test_values_that_are_not_json_are_rejected() -> None:
    with pytest.raises(ProtocolError, match="expected a string, got an object of type tuple"):
        from_json(TextContent, {"type": "text", "text": ("t",)})


def test_a_thread_that_creates_blocks_meanwhile_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = b'{"content":[{"type":"text","text":"t"}]}'
    constant = repeat("text", 10)

    def interrupted(data: bytes) -> Body:
        next(constant)
        return CallToolResult([])

    reader = _with_constant(interrupted, constant)
    with pytest.raises(msgspec.ValidationError):
        reader(data)
    monkeypatch.setitem(_STRICT, CallToolResult, reader)
    assert decode(CallToolResult, data) == CallToolResult([TextContent("t")])


def test_a_message_in_a_prompt_may_be_any_block() -> None:
    members = {"role": "assistant", "content": {"type": "resource_link", "uri": "u", "name": "n"}}
    assert decode(PromptMessage, pack(members)).raw == members
    contents = {
        "contents": [
            {"uri": "u"},
            {"uri": "u", "text": ""},
            {"uri": "u", "blob": ""},
            {"uri": "u", "text": "", "blob": ""},
        ]
    }
    result = decode(ReadResourceResult, pack(contents))
    assert [type(contents).__name__ for contents in result.contents] == [
        "ResourceContents",
        "TextResourceContents",
        "BlobResourceContents",
        "TextResourceContents",
    ]
    assert result.raw == contents


def test_a_tool_of_a_list_keeps_its_own_unknown_members() -> None:
    members = {
        "tools": [
            {**TOOL, "mode": "stateless"},
            TOOL,
            {**TOOL, "annotations": {"readOnlyHint": True, "x": None}},
        ]
    }
    result = decode(ListToolsResult, pack(members))
    assert [tool.unknown for tool in result.tools] == [{"mode": "stateless"}, {}, {}]
    assert result.tools[2].annotations.unknown == {"x": None}
    assert result.tools[1] == Tool("t", {})
