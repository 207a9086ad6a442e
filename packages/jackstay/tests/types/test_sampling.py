"""Sampling and roots."""

import json

from jackstay.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ImageContent,
    ListRootsResult,
    ModelHint,
    ModelPreferences,
    Root,
    SamplingMessage,
    TaskMetadata,
    TextContent,
    Tool,
    ToolChoice,
    ToolUseContent,
    decode,
    encode_json,
)

TEXT = {"type": "text", "text": "t"}

# Body, and its JSON.
WRITTEN = [
    (
        CreateMessageRequestParams(
            [SamplingMessage("user", TextContent("t")), SamplingMessage("assistant", [TextContent("t")], meta={})],
            100,
            model_preferences=ModelPreferences(
                hints=[ModelHint("m"), ModelHint()], cost_priority=0, speed_priority=0.5
            ),
            include_context="everything",
            temperature=0.7,
            stop_sequences=["."],
            metadata={"k": [None]},
            tools=[Tool("t", {})],
            tool_choice=ToolChoice("required"),
            task=TaskMetadata(5),
        ),
        {
            "messages": [{"role": "user", "content": TEXT}, {"role": "assistant", "content": [TEXT], "_meta": {}}],
            "maxTokens": 100,
            "modelPreferences": {"hints": [{"name": "m"}, {}], "costPriority": 0, "speedPriority": 0.5},
            "includeContext": "everything",
            "temperature": 0.7,
            "stopSequences": ["."],
            "metadata": {"k": [None]},
            "tools": [{"name": "t", "inputSchema": {}}],
            "toolChoice": {"mode": "required"},
            "task": {"ttl": 5},
        },
    ),
    (
        CreateMessageResult("assistant", TextContent("t"), "model", "bored"),
        {"role": "assistant", "content": TEXT, "model": "model", "stopReason": "bored"},
    ),
    (ListRootsResult([Root("file:///a", "a")]), {"roots": [{"uri": "file:///a", "name": "a"}]}),
]


def test_bodies_round_trip() -> None:
    for body, members in WRITTEN:
        assert json.loads(encode_json(body)) == members
        assert decode(type(body), encode_json(body)) == body


def test_blocks_is_always_a_sequence() -> None:
    one, many = TextContent("a"), [TextContent("a"), ImageContent("", "m"), ToolUseContent("1", "n", {})]
    for make in (
        lambda content: SamplingMessage("user", content),
        lambda c: CreateMessageResult("user", c, "m"),
    ):
        assert make(one).blocks == [one]
        assert make(many).blocks == many
        assert make([]).blocks == []
    assert CreateMessageResult("user", one, "m").text == "a"
    assert CreateMessageResult("user", [*many, TextContent("b")], "m").text == "a\nb"
