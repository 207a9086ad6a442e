"""A corpus of hand-written messages: every method of every revision.

Each row has its first and last revision. Every row is decoded, encoded and validated by the official models of its
revisions.
"""

import json
from typing import Any, NamedTuple

import pydantic
import pytest
from mcp_types import methods

import jackstay.types
from jackstay.types import Body, Result, decode, decode_result, encode_json

NAMES = ("R24", "R03", "R06", "R25", "R26")
R24, R03, R06, R25, R26 = REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

META = "io.modelcontextprotocol/"
STATELESS = {
    META + "protocolVersion": R26,
    META + "clientCapabilities": {"elicitation": {}, "sampling": {"tools": {}}},
}
FULL_STATELESS = {
    **STATELESS,
    META + "clientInfo": {"name": "ed", "version": "1"},
    META + "logLevel": "info",
    "progressToken": "p",
}
ANSWERED = {META + "serverInfo": {"name": "srv", "version": "2", "title": "Srv"}}
CACHED = {"resultType": "complete", "ttlMs": 300000, "cacheScope": "private"}
TEXT = {"type": "text", "text": "22 °C and sunny"}
HINTED = {**TEXT, "annotations": {"audience": ["user"], "priority": 0.9}}
DATED = {
    **HINTED,
    "annotations": {"audience": ["assistant"], "lastModified": "2025-06-18T09:00:00Z"},
    "_meta": {"k": None},
}
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
EMBEDDED = {"type": "resource", "resource": {"uri": "file:///log", "mimeType": "text/plain", "text": "line"}}
BLOB = {"type": "resource", "resource": {"uri": "file:///bin", "blob": "AAEC"}}
LINK = {
    "type": "resource_link",
    "uri": "file:///main.rs",
    "name": "main.rs",
    "mimeType": "text/x-rust",
    "size": 120,
}
ICONS = [{"src": "https://example.com/48.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "light"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "weather", "description": "Weather now", "inputSchema": SCHEMA}
TOOL03 = {**TOOL, "annotations": {"title": "Weather", "readOnlyHint": True, "openWorldHint": True}}
TOOL06 = {**TOOL03, "title": "Weather", "outputSchema": {"type": "object"}, "_meta": {"mode": "stateless"}}
TOOL25 = {**TOOL06, "icons": ICONS, "execution": {"taskSupport": "optional"}}
TOOL26 = {
    **TOOL06,
    "icons": ICONS,
    "outputSchema": {"type": "array"},
    "inputSchema": {**SCHEMA, "$schema": "https://json-schema.org/draft/2020-12/schema"},
}
RESOURCE = {
    "uri": "file:///readme",
    "name": "readme",
    "description": "Read me",
    "mimeType": "text/markdown",
    "size": 3,
}
TEMPLATE = {"uriTemplate": "file:///{path}", "name": "files", "annotations": {"priority": 1}}
PROMPT = {"name": "review", "description": "Review code", "arguments": [{"name": "code", "required": True}]}
SAMPLE = {"messages": [{"role": "user", "content": TEXT}], "maxTokens": 100}
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 0},
        "ok": {"type": "boolean"},
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["small", "large"]},
    },
    "required": ["name"],
}
FORM25 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "one": {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
        "many": {"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1},
        "named": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
    },
}
TASK = {
    "taskId": "786512e2",
    "status": "working",
    "createdAt": "2025-11-25T10:30:00Z",
    "lastUpdatedAt": "2025-11-25T10:40:00Z",
    "ttl": 60000,
    "pollInterval": 5000,
}
STREAM = {META + "subscriptionId": 7}
INPUT_REQUESTS = {
    "name": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM25}},
    "roots": {"method": "roots/list"},
    "model": {"method": "sampling/createMessage", "params": {**SAMPLE, "toolChoice": {"mode": "auto"}}},
}
INPUT_RESPONSES = {
    "name": {"action": "accept", "content": {"many": ["a"]}},
    "roots": {"roots": [{"uri": "file:///w"}]},
    "model": {"role": "assistant", "content": TEXT, "model": "m"},
}

# "first-last revision, method, params or result, class", and the members
ROWS: list[tuple[str, dict[str, Any]]] = [
    (
        "R24-R25 initialize params InitializeRequestParams",
        {
            "protocolVersion": R24,
            "capabilities": {"roots": {"listChanged": True}, "sampling": {}, "experimental": {"x": {}}},
            "clientInfo": {"name": "ed", "version": "1"},
        },
    ),
    (
        "R06-R25 initialize params InitializeRequestParams",
        {
            "protocolVersion": R06,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "ed", "title": "Ed", "version": "1"},
        },
    ),
    (
        "R25-R25 initialize params InitializeRequestParams",
        {
            "protocolVersion": R25,
            "capabilities": {
                "elicitation": {"form": {}, "url": {}},
                "sampling": {"tools": {}},
                "tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}}},
            },
            "clientInfo": {"name": "ed", "version": "1", "icons": ICONS, "websiteUrl": "https://example.com"},
        },
    ),
    (
        "R24-R25 initialize result InitializeResult",
        {
            "protocolVersion": R24,
            "capabilities": {
                "logging": {},
                "prompts": {"listChanged": True},
                "resources": {"subscribe": True, "listChanged": True},
                "tools": {},
            },
            "serverInfo": {"name": "srv", "version": "2"},
            "instructions": "Ask.",
        },
    ),
    (
        "R03-R25 initialize result InitializeResult",
        {"protocolVersion": R03, "capabilities": {"completions": {}}, "serverInfo": {"name": "srv", "version": "2"}},
    ),
    (
        "R25-R25 initialize result InitializeResult",
        {
            "protocolVersion": R25,
            "capabilities": {"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
            "serverInfo": {"name": "srv", "version": "2", "description": "d"},
        },
    ),
    ("R24-R25 notifications/initialized params NotificationParams", {}),
    ("R24-R25 ping params RequestParams", {"_meta": {"progressToken": 1}}),
    ("R24-R25 ping result EmptyResult", {}),
    ("R26-R26 server/discover params RequestParams", {"_meta": FULL_STATELESS}),
    (
        "R26-R26 server/discover result DiscoverResult",
        {
            **CACHED,
            "supportedVersions": [R26, R25],
            "capabilities": {"tools": {"listChanged": True}, "extensions": {META + "tasks": {}}},
            "instructions": "Ask.",
            "_meta": ANSWERED,
        },
    ),
    ("R24-R25 tools/list params PaginatedRequestParams", {"cursor": ""}),
    ("R26-R26 tools/list params PaginatedRequestParams", {"cursor": "2", "_meta": STATELESS}),
    ("R24-R25 tools/list result ListToolsResult", {"tools": [TOOL], "nextCursor": "2"}),
    ("R03-R25 tools/list result ListToolsResult", {"tools": [TOOL03, TOOL]}),
    ("R06-R25 tools/list result ListToolsResult", {"tools": [TOOL06], "_meta": {}}),
    ("R25-R25 tools/list result ListToolsResult", {"tools": [TOOL25]}),
    ("R26-R26 tools/list result ListToolsResult", {**CACHED, "tools": [TOOL26], "_meta": ANSWERED}),
    (
        "R24-R25 tools/call params CallToolRequestParams",
        {"name": "weather", "arguments": {"city": "Oslo", "deep": [{"a": None}]}, "_meta": {"progressToken": "p"}},
    ),
    ("R25-R25 tools/call params CallToolRequestParams", {"name": "weather", "task": {"ttl": 60000}}),
    (
        "R26-R26 tools/call params CallToolRequestParams",
        {
            "name": "weather",
            "arguments": {},
            "_meta": FULL_STATELESS,
            "inputResponses": INPUT_RESPONSES,
            "requestState": "eyJ9",
        },
    ),
    (
        "R24-R25 tools/call result CallToolResult",
        {"content": [HINTED, IMAGE, EMBEDDED, BLOB], "isError": False},
    ),
    ("R03-R25 tools/call result CallToolResult", {"content": [AUDIO], "isError": True}),
    (
        "R06-R25 tools/call result CallToolResult",
        {"content": [DATED, LINK], "structuredContent": {"celsius": 22}},
    ),
    (
        "R25-R25 tools/call result CallToolResult",
        {"content": [{**LINK, "icons": ICONS}], "_meta": {META + "related-task": {"taskId": "1"}}},
    ),
    (
        "R26-R26 tools/call result CallToolResult",
        {"resultType": "complete", "content": [], "structuredContent": [1, None], "_meta": ANSWERED},
    ),
    (
        "R26-R26 tools/call result CallToolResult",
        {"resultType": "complete", "content": [TEXT], "structuredContent": "22"},
    ),
    (
        "R26-R26 tools/call result InputRequiredResult",
        {"resultType": "input_required", "inputRequests": INPUT_REQUESTS, "requestState": "eyJ9", "_meta": ANSWERED},
    ),
    ("R24-R26 notifications/tools/list_changed params NotificationParams", {"_meta": STREAM}),
    ("R24-R25 resources/list params PaginatedRequestParams", {}),
    ("R26-R26 resources/list params PaginatedRequestParams", {"_meta": STATELESS}),
    (
        "R24-R25 resources/list result ListResourcesResult",
        {"resources": [RESOURCE, {**RESOURCE, "annotations": {"audience": ["user", "assistant"]}}]},
    ),
    (
        "R26-R26 resources/list result ListResourcesResult",
        {**CACHED, "resources": [{**RESOURCE, "icons": ICONS, "title": "T", "_meta": {"k": 1}}], "nextCursor": "n"},
    ),
    ("R24-R25 resources/templates/list params PaginatedRequestParams", {"cursor": "c"}),
    ("R26-R26 resources/templates/list params PaginatedRequestParams", {"_meta": STATELESS}),
    ("R24-R25 resources/templates/list result ListResourceTemplatesResult", {"resourceTemplates": [TEMPLATE]}),
    (
        "R26-R26 resources/templates/list result ListResourceTemplatesResult",
        {**CACHED, "resourceTemplates": [{**TEMPLATE, "title": "T"}]},
    ),
    ("R24-R25 resources/read params ReadResourceRequestParams", {"uri": "file:///readme"}),
    (
        "R26-R26 resources/read params ReadResourceRequestParams",
        {"uri": "file:///readme", "_meta": STATELESS, "requestState": ""},
    ),
    (
        "R24-R25 resources/read result ReadResourceResult",
        {"contents": [EMBEDDED["resource"], BLOB["resource"]]},
    ),
    (
        "R26-R26 resources/read result ReadResourceResult",
        {**CACHED, "contents": [{**BLOB["resource"], "_meta": {"k": 1}}]},
    ),
    (
        "R26-R26 resources/read result InputRequiredResult",
        {"resultType": "input_required", "requestState": "s"},
    ),
    ("R24-R25 resources/subscribe params SubscribeRequestParams", {"uri": "file:///readme"}),
    ("R24-R25 resources/subscribe result EmptyResult", {}),
    ("R24-R25 resources/unsubscribe params UnsubscribeRequestParams", {"uri": "file:///readme"}),
    ("R24-R25 resources/unsubscribe result EmptyResult", {"_meta": {}}),
    ("R24-R26 notifications/resources/list_changed params NotificationParams", {}),
    (
        "R24-R26 notifications/resources/updated params ResourceUpdatedNotificationParams",
        {"uri": "file:///readme", "_meta": STREAM},
    ),
    ("R24-R25 prompts/list params PaginatedRequestParams", {"cursor": "c"}),
    ("R26-R26 prompts/list params PaginatedRequestParams", {"_meta": STATELESS}),
    ("R24-R25 prompts/list result ListPromptsResult", {"prompts": [PROMPT]}),
    (
        "R26-R26 prompts/list result ListPromptsResult",
        {**CACHED, "prompts": [{**PROMPT, "title": "T", "icons": ICONS}]},
    ),
    ("R24-R25 prompts/get params GetPromptRequestParams", {"name": "review", "arguments": {"code": "x = 1"}}),
    (
        "R26-R26 prompts/get params GetPromptRequestParams",
        {"name": "review", "_meta": STATELESS, "inputResponses": {}},
    ),
    (
        "R24-R25 prompts/get result GetPromptResult",
        {
            "description": "d",
            "messages": [
                {"role": "user", "content": TEXT},
                {"role": "assistant", "content": IMAGE},
                {"role": "user", "content": EMBEDDED},
            ],
        },
    ),
    ("R06-R25 prompts/get result GetPromptResult", {"messages": [{"role": "user", "content": LINK}]}),
    (
        "R26-R26 prompts/get result GetPromptResult",
        {"resultType": "complete", "messages": [{"role": "user", "content": AUDIO}]},
    ),
    ("R26-R26 prompts/get result InputRequiredResult", {"resultType": "input_required", "inputRequests": {}}),
    ("R24-R26 notifications/prompts/list_changed params NotificationParams", {"_meta": STREAM}),
    (
        "R24-R25 completion/complete params CompleteRequestParams",
        {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "code", "value": "x"}},
    ),
    (
        "R24-R25 completion/complete params CompleteRequestParams",
        {"ref": {"type": "ref/resource", "uri": "file:///{path}"}, "argument": {"name": "path", "value": ""}},
    ),
    (
        "R06-R25 completion/complete params CompleteRequestParams",
        {
            "ref": {"type": "ref/prompt", "name": "r", "title": "R"},
            "argument": {"name": "a", "value": ""},
            "context": {"arguments": {"b": "c"}},
        },
    ),
    (
        "R26-R26 completion/complete params CompleteRequestParams",
        {"ref": {"type": "ref/resource", "uri": "u"}, "argument": {"name": "a", "value": ""}, "_meta": STATELESS},
    ),
    (
        "R24-R25 completion/complete result CompleteResult",
        {"completion": {"values": ["x"], "total": 1, "hasMore": False}},
    ),
    (
        "R26-R26 completion/complete result CompleteResult",
        {"resultType": "complete", "completion": {"values": []}},
    ),
    ("R24-R25 logging/setLevel params SetLevelRequestParams", {"level": "notice"}),
    ("R24-R25 logging/setLevel result EmptyResult", {}),
    (
        "R24-R26 notifications/message params LoggingMessageNotificationParams",
        {"level": "error", "logger": "db", "data": {"error": "lost", "host": None}},
    ),
    ("R24-R26 notifications/message params LoggingMessageNotificationParams", {"level": "debug", "data": None}),
    (
        "R26-R26 subscriptions/listen params SubscriptionsListenRequestParams",
        {
            "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"], "taskIds": ["1"]},
            "_meta": STATELESS,
        },
    ),
    (
        "R26-R26 subscriptions/listen result SubscriptionsListenResult",
        {"resultType": "complete", "_meta": {**STREAM, **ANSWERED}},
    ),
    (
        "R26-R26 notifications/subscriptions/acknowledged params SubscriptionsAcknowledgedNotificationParams",
        {"notifications": {"toolsListChanged": True}, "_meta": STREAM},
    ),
    (
        "R24-R25 sampling/createMessage params CreateMessageRequestParams",
        {
            **SAMPLE,
            "modelPreferences": {"hints": [{"name": "m"}], "costPriority": 0.3},
            "systemPrompt": "s",
            "includeContext": "thisServer",
            "temperature": 0.1,
            "stopSequences": ["."],
            "metadata": {"k": [1]},
        },
    ),
    (
        "R25-R25 sampling/createMessage params CreateMessageRequestParams",
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Oslo"}}],
                },
                {
                    "role": "user",
                    "content": {
                        "type": "tool_result",
                        "toolUseId": "1",
                        "content": [TEXT],
                        "structuredContent": {"c": 1},
                        "isError": False,
                    },
                    "_meta": {},
                },
            ],
            "maxTokens": 5,
            "tools": [TOOL25],
            "toolChoice": {"mode": "required"},
            "task": {},
        },
    ),
    (
        "R24-R25 sampling/createMessage result CreateMessageResult",
        {"role": "assistant", "content": IMAGE, "model": "m", "stopReason": "endTurn"},
    ),
    (
        "R25-R25 sampling/createMessage result CreateMessageResult",
        {
            "role": "assistant",
            "content": [TEXT, {"type": "tool_use", "id": "1", "name": "n", "input": {}}],
            "model": "m",
            "stopReason": "toolUse",
        },
    ),
    ("R24-R25 roots/list params RequestParams", {}),
    ("R24-R25 roots/list result ListRootsResult", {"roots": [{"uri": "file:///w", "name": "w"}]}),
    ("R24-R25 notifications/roots/list_changed params NotificationParams", {}),
    ("R06-R25 elicitation/create params ElicitRequestFormParams", {"message": "Who?", "requestedSchema": FORM}),
    (
        "R25-R25 elicitation/create params ElicitRequestFormParams",
        {"mode": "form", "message": "Which?", "requestedSchema": FORM25, "task": {"ttl": 1}},
    ),
    (
        "R25-R25 elicitation/create params ElicitRequestURLParams",
        {"mode": "url", "message": "Pay", "url": "https://example.com/pay", "elicitationId": "e"},
    ),
    (
        "R06-R25 elicitation/create result ElicitResult",
        {"action": "accept", "content": {"name": "a@b.c", "age": 3, "ok": True, "size": "s"}},
    ),
    ("R06-R25 elicitation/create result ElicitResult", {"action": "decline"}),
    ("R25-R25 elicitation/create result ElicitResult", {"action": "accept", "content": {"many": ["a", "b"]}}),
    (
        "R25-R25 notifications/elicitation/complete params ElicitationCompleteNotificationParams",
        {"elicitationId": "e"},
    ),
    (
        "R24-R25 notifications/cancelled params CancelledNotificationParams",
        {"requestId": "123", "reason": "user"},
    ),
    ("R26-R26 notifications/cancelled params CancelledNotificationParams", {"requestId": 0}),
    (
        "R24-R26 notifications/progress params ProgressNotificationParams",
        {"progressToken": "p", "progress": 0.5, "total": 1.0},
    ),
    (
        "R03-R26 notifications/progress params ProgressNotificationParams",
        {"progressToken": 5, "progress": 50, "total": 100, "message": "half"},
    ),
    ("R25-R25 tasks/get params GetTaskRequestParams", {"taskId": "1"}),
    ("R25-R25 tasks/get result GetTaskResult", {**TASK, "statusMessage": "m"}),
    ("R25-R25 tasks/result params GetTaskPayloadRequestParams", {"taskId": "1"}),
    (
        "R25-R25 tasks/result result GetTaskPayloadResult",
        {"content": [TEXT], "_meta": {META + "related-task": {"taskId": "1"}}},
    ),
    ("R25-R25 tasks/list params PaginatedRequestParams", {"cursor": "c"}),
    ("R25-R25 tasks/list result ListTasksResult", {"tasks": [TASK, {**TASK, "ttl": None}], "nextCursor": "c"}),
    ("R25-R25 tasks/cancel params CancelTaskRequestParams", {"taskId": "1"}),
    ("R25-R25 tasks/cancel result CancelTaskResult", {**TASK, "status": "cancelled"}),
    ("R25-R25 tools/call result CreateTaskResult", {"task": TASK}),
    (
        "R25-R25 notifications/tasks/status params TaskStatusNotificationParams",
        {**TASK, "status": "failed", "statusMessage": "m"},
    ),
]

# Not in the official method tables, which leave the tasks of 2025-11-25 out.
TASK_METHODS = {"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "notifications/tasks/status"}

REQUESTS = {**methods.CLIENT_REQUESTS, **methods.SERVER_REQUESTS}
NOTIFICATIONS = {**methods.CLIENT_NOTIFICATIONS, **methods.SERVER_NOTIFICATIONS}
RESULTS = {**methods.SERVER_RESULTS, **methods.CLIENT_RESULTS}


class Row(NamedTuple):
    revisions: list[str]
    method: str
    part: str
    name: str
    members: dict[str, Any]


def parse(description: str, members: dict[str, Any]) -> Row:
    span, method, part, name = description.split()
    since, until = (NAMES.index(revision) for revision in span.split("-"))
    return Row(list(REVISIONS[since : until + 1]), method, part, name, members)


CORPUS = [parse(*row) for row in ROWS]


def check_with_official_models(method: str, part: str, revision: str, members: object) -> None:
    if part == "result":
        pydantic.TypeAdapter(RESULTS[method, revision]).validate_python(members, by_name=False)
        return
    is_request = (method, revision) in REQUESTS
    model = REQUESTS[method, revision] if is_request else NOTIFICATIONS[method, revision]
    envelope = {"jsonrpc": "2.0", "method": method, "params": members, **({"id": 1} if is_request else {})}
    model.model_validate(envelope, by_name=False)


def test_a_message_round_trips_and_is_valid_in_its_revisions(subtests: pytest.Subtests) -> None:
    for revisions, method, part, name, members in CORPUS:
        cls: type[Body] = getattr(jackstay.types, name)
        with subtests.test(since=revisions[0], method=method, name=name):
            body = decode(cls, json.dumps(members).encode())
            assert type(body) is cls
            # Every member in the corpus has a field, except in the result of a task, which may be any result.
            assert body.unknown == ({"content": members["content"]} if name == "GetTaskPayloadResult" else {})
            assert json.loads(encode_json(body)) == members
            for revision in revisions:
                if method not in TASK_METHODS and name != "CreateTaskResult":
                    check_with_official_models(method, part, revision, members)


def test_the_class_of_a_result_depends_on_its_result_type() -> None:
    own = {"tools/call": "CallToolResult", "prompts/get": "GetPromptResult", "resources/read": "ReadResourceResult"}
    for _, method, part, name, members in CORPUS:
        if part == "result":
            expected: type[Result] = getattr(jackstay.types, own.get(method, name))
            if name == "CreateTaskResult":
                expected = jackstay.types.CreateTaskResult  # in 2025-11-25 a task is returned only on request
            result = decode_result(expected, json.dumps(members).encode())
            assert type(result).__name__ == name
            assert result.raw == members


def test_unknown_members_are_preserved_in_every_object() -> None:
    for *_, name, members in CORPUS:
        grown = with_a_member_in_every_object(members)
        body = decode(getattr(jackstay.types, name), json.dumps(grown).encode())
        assert json.loads(encode_json(body)) == grown


def with_a_member_in_every_object(value: Any, is_map: bool = False) -> Any:
    """Add an unknown member to each object whose member names are defined by the protocol."""
    if isinstance(value, list):
        return [with_a_member_in_every_object(item) for item in value]
    if not isinstance(value, dict):
        return value
    maps = ("arguments", "properties", "inputRequests", "inputResponses", "experimental", "extensions")
    inner = {
        key: with_a_member_in_every_object(
            item, key in maps or (key == "content" and isinstance(item, dict) and "type" not in item)
        )
        for key, item in value.items()
    }
    return inner if is_map else {**inner, "x-unknown": {"deep": [None]}}


def test_every_method_of_a_revision_is_in_the_corpus() -> None:
    for revision in REVISIONS:
        messages = {(method, "params") for method, name in {**REQUESTS, **NOTIFICATIONS} if name == revision}
        messages |= {(method, "result") for method, name in RESULTS if name == revision}
        if revision == R25:
            messages |= {(method, "params") for method in TASK_METHODS}
            messages |= {(method, "result") for method in TASK_METHODS if method.startswith("tasks/")}
        assert {(row.method, row.part) for row in CORPUS if revision in row.revisions} == messages
