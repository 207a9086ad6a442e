"""Capabilities, with and without members."""

import json

from jackstay.types import (
    ClientCapabilities,
    ClientTasksCapability,
    ClientTasksRequestsCapability,
    ElicitationCapability,
    PromptsCapability,
    ResourcesCapability,
    RootsCapability,
    SamplingCapability,
    ServerCapabilities,
    ServerTasksCapability,
    ServerTasksRequestsCapability,
    TasksElicitationCapability,
    TasksSamplingCapability,
    TasksToolsCapability,
    ToolsCapability,
    decode,
    encode_json,
)

# Body, and its JSON.
WRITTEN = [
    (ClientCapabilities(), {}),
    (ServerCapabilities(), {}),
    (
        ClientCapabilities(
            experimental={"a": {}},
            roots=RootsCapability(False),
            sampling=SamplingCapability(context={}),
            elicitation=ElicitationCapability(form={}, url={}),
            tasks=ClientTasksCapability(
                list={},
                cancel={},
                requests=ClientTasksRequestsCapability(
                    sampling=TasksSamplingCapability({}), elicitation=TasksElicitationCapability({})
                ),
            ),
            extensions={"io.modelcontextprotocol/tasks": {}},
        ),
        {
            "experimental": {"a": {}},
            "roots": {"listChanged": False},
            "sampling": {"context": {}},
            "elicitation": {"form": {}, "url": {}},
            "tasks": {
                "list": {},
                "cancel": {},
                "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
            },
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
    ),
    (
        ServerCapabilities(
            logging={},
            prompts=PromptsCapability(True),
            resources=ResourcesCapability(subscribe=True, list_changed=False),
            tools=ToolsCapability(True),
            completions={},
            tasks=ServerTasksCapability(requests=ServerTasksRequestsCapability(TasksToolsCapability({}))),
        ),
        {
            "logging": {},
            "prompts": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": False},
            "tools": {"listChanged": True},
            "completions": {},
            "tasks": {"requests": {"tools": {"call": {}}}},
        },
    ),
]


def test_bodies_round_trip() -> None:
    for body, members in WRITTEN:
        assert json.loads(encode_json(body)) == members
        assert decode(type(body), encode_json(body)) == body


def test_an_empty_object_declares_a_capability() -> None:
    capabilities = decode(ClientCapabilities, b'{"elicitation":{},"sampling":{}}')
    assert capabilities.elicitation == ElicitationCapability()
    assert capabilities.sampling == SamplingCapability()
    assert capabilities.roots is None


def test_an_unknown_capability_is_preserved() -> None:
    members = {"telepathy": {"range": 5}, "tools": {"listChanged": True, "streaming": None}}
    capabilities = decode(ServerCapabilities, json.dumps(members).encode())
    assert capabilities.unknown == {"telepathy": {"range": 5}}
    assert capabilities.raw == members
