"""Prompts and completion."""

import json

from jackstay.types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    CompletionReference,
    GetPromptResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    decode,
    encode_json,
)
from jackstay.types._body import choose_by

# Body, and its JSON.
WRITTEN = [
    (
        ListPromptsResult([Prompt("p", title="P", arguments=[PromptArgument("a", required=True)])]),
        {"prompts": [{"name": "p", "title": "P", "arguments": [{"name": "a", "required": True}]}]},
    ),
    (
        GetPromptResult([PromptMessage("user", TextContent("t"))], "d"),
        {"messages": [{"role": "user", "content": {"type": "text", "text": "t"}}], "description": "d"},
    ),
    (
        CompleteRequestParams(
            PromptReference("p", title="P"), CompletionArgument("a", "v"), CompletionContext({"b": "w"})
        ),
        {
            "ref": {"type": "ref/prompt", "name": "p", "title": "P"},
            "argument": {"name": "a", "value": "v"},
            "context": {"arguments": {"b": "w"}},
        },
    ),
    (
        CompleteRequestParams(ResourceTemplateReference("u/{x}"), CompletionArgument("x", "")),
        {"ref": {"type": "ref/resource", "uri": "u/{x}"}, "argument": {"name": "x", "value": ""}},
    ),
    (
        CompleteResult(Completion(["a"], 1, False)),
        {"completion": {"values": ["a"], "total": 1, "hasMore": False}},
    ),
]


def test_bodies_round_trip() -> None:
    for body, members in WRITTEN:
        assert json.loads(encode_json(body)) == members
        assert decode(type(body), encode_json(body)) == body


def test_a_reference_is_chosen_by_its_type() -> None:
    for members, expected in [
        ({"type": "ref/prompt"}, PromptReference),
        ({"type": "ref/resource"}, ResourceTemplateReference),
        ({"type": "ref/tool"}, None),
        ({"type": ["ref/prompt"]}, None),
        ({}, None),
    ]:
        assert choose_by("type", CompletionReference)(members) is expected
