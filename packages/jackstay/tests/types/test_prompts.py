"""Prompts and completion."""

import json

import pytest

from jackstay.types import (
    Body,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionContext,
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
from jackstay.types._prompts import choose_reference

# body, and what is written of it
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


@pytest.mark.parametrize(("body", "members"), WRITTEN, ids=lambda value: type(value).__name__)
def test_bodies_are_written_and_read_back(body: Body, members: dict) -> None:
    assert json.loads(encode_json(body)) == members
    assert decode(type(body), encode_json(body)) == body


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"type": "ref/prompt"}, PromptReference),
        ({"type": "ref/resource"}, ResourceTemplateReference),
        ({"type": "ref/tool"}, None),
        ({"type": ["ref/prompt"]}, None),
        ({}, None),
    ],
)
def test_a_reference_is_chosen_by_its_type_and_nothing_else_fits(
    members: dict, expected: type | None
) -> None:
    assert choose_reference(members) is expected
