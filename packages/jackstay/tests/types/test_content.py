"""Classes of content blocks and resource contents."""

import json

from jackstay.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
    decode,
    encode_json,
)
from jackstay.types._content import choose_contents, joined_text

TEXT = {"type": "text", "text": "t"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///a", "text": "t"}}
TOOL_USE = {"type": "tool_use", "id": "1", "name": "n", "input": {"a": 1}}
TOOL_RESULT = {"type": "tool_result", "toolUseId": "1", "content": [TEXT, IMAGE], "structuredContent": [1]}

# Block, its class in a tool result, its class in sampling.
BLOCKS = [
    (TEXT, TextContent, TextContent),
    (IMAGE, ImageContent, ImageContent),
    (AUDIO, AudioContent, AudioContent),
    (LINK, ResourceLink, UnknownContent),
    (RESOURCE, EmbeddedResource, UnknownContent),
    (TOOL_USE, UnknownContent, ToolUseContent),
    (TOOL_RESULT, UnknownContent, ToolResultContent),
    ({"type": "video", "frames": [{"type": "image"}]}, UnknownContent, UnknownContent),
    ({"type": "TEXT", "text": "t"}, UnknownContent, UnknownContent),
    ({"type": "", "text": "t"}, UnknownContent, UnknownContent),
    ({"type": None, "text": "t"}, UnknownContent, UnknownContent),
    ({"type": 5}, UnknownContent, UnknownContent),
    ({"type": ["text"]}, UnknownContent, UnknownContent),
    ({"type": {"text": 1}}, UnknownContent, UnknownContent),
    ({"text": "t"}, UnknownContent, UnknownContent),
    ({}, UnknownContent, UnknownContent),
]


def test_the_class_of_a_block_depends_on_its_type_and_context() -> None:
    for block, in_result, in_sampling in BLOCKS:
        result = {"content": [TEXT, block]}
        decoded = decode(CallToolResult, json.dumps(result).encode())
        assert type(decoded.content[1]) is in_result
        assert decoded.raw == result
        message = {"role": "user", "content": [block, TEXT]}
        sampled = decode(SamplingMessage, json.dumps(message).encode())
        assert type(sampled.content[0]) is in_sampling
        assert sampled.raw == message


def test_an_unknown_block_has_its_type_and_raw() -> None:
    block = decode(UnknownContent, b'{"type":"video","frames":[1]}')
    assert block.type == "video"
    assert block.raw == {"type": "video", "frames": [1]}
    assert decode(UnknownContent, b'{"type":null}').raw == {"type": None}
    assert UnknownContent().raw == {}


def test_contents_are_chosen_by_their_members() -> None:
    for members, expected in [
        ({"uri": "u", "text": "t"}, TextResourceContents),
        ({"uri": "u", "blob": "b"}, BlobResourceContents),
        ({"uri": "u", "text": "t", "blob": "b"}, TextResourceContents),
        ({"uri": "u"}, ResourceContents),
    ]:
        assert choose_contents(members) is expected
        block = {"type": "resource", "resource": members}
        decoded = decode(EmbeddedResource, json.dumps(block).encode())
        assert type(decoded.resource) is expected
        assert isinstance(decoded.resource, ResourceContents)
        assert decoded.raw == block


def test_blocks_have_positional_arguments() -> None:
    made = [
        TextContent("t"),
        ImageContent("aGk=", "image/png"),
        AudioContent("aGk=", "audio/wav"),
        ResourceLink("file:///a", "a", size=3),
        EmbeddedResource(TextResourceContents(uri="file:///a", text="t")),
    ]
    assert json.loads(encode_json(made)) == [TEXT, IMAGE, AUDIO, LINK, RESOURCE]
    assert ToolUseContent("1", "n", {"a": 1}).raw == TOOL_USE
    result = ToolResultContent("1", [TextContent("t"), ImageContent("aGk=", "image/png")], structured_content=[1])
    assert result.raw == TOOL_RESULT


def test_joined_text_joins_the_text_blocks() -> None:
    blocks = [
        TextContent("a"),
        ImageContent("", "image/png"),
        UnknownContent(),
        TextContent("b\n"),
        TextContent(""),
    ]
    assert joined_text(blocks) == "a\nb\n\n"
    assert joined_text([]) == ""
