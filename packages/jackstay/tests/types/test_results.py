"""The class of a result by its `resultType`."""

import json

import pytest

import jackstay.types
from jackstay.errors import ProtocolError
from jackstay.types import (
    CallToolResult,
    CreateTaskResult,
    EmptyResult,
    GetPromptResult,
    InputRequiredResult,
    ListToolsResult,
    ReadResourceResult,
    Result,
    decode_result,
)
from jackstay.types._results import ALTERNATIVES

ASKS = {"resultType": "input_required", "requestState": "s", "x-vendor": None}
TASK = {
    "resultType": "task",
    "taskId": "t",
    "status": "working",
    "createdAt": "c",
    "lastUpdatedAt": "l",
    "ttlMs": None,
}

# The request's own result, members, the decoded class.
RESULTS = [
    (CallToolResult, {"content": []}, CallToolResult),
    (CallToolResult, {"content": [], "resultType": "complete"}, CallToolResult),
    (CallToolResult, {"content": [], "resultType": None}, CallToolResult),
    (CallToolResult, {"content": [], "x": 1}, CallToolResult),
    (CallToolResult, ASKS, InputRequiredResult),
    (CallToolResult, {**ASKS, "content": []}, InputRequiredResult),
    (CallToolResult, TASK, CreateTaskResult),
    (GetPromptResult, {"messages": []}, GetPromptResult),
    (GetPromptResult, ASKS, InputRequiredResult),
    (ReadResourceResult, {"contents": [], "ttlMs": 0, "cacheScope": "private"}, ReadResourceResult),
    (ReadResourceResult, ASKS, InputRequiredResult),
    (ListToolsResult, {"tools": []}, ListToolsResult),
    (EmptyResult, {}, EmptyResult),
    (EmptyResult, {"resultType": "complete", "x": 1}, EmptyResult),
]


def test_the_result_type_selects_the_class() -> None:
    for cls, members, expected in RESULTS:
        result = decode_result(cls, json.dumps(members).encode())
        assert type(result) is expected
        assert isinstance(result, Result)
        assert result.raw == members


# The request's own result, members, path of the error.
INVALID = [
    (CallToolResult, {"content": [], "resultType": "later"}, "$.resultType"),
    (CallToolResult, {"content": [], "resultType": 5}, "$.resultType"),
    (CallToolResult, {"content": [], "resultType": ["complete"]}, "$.resultType"),
    (CallToolResult, {"content": [], "resultType": ""}, "$.resultType"),
    (GetPromptResult, TASK, "$.resultType"),
    (ListToolsResult, ASKS, "$.resultType"),
    (EmptyResult, TASK, "$.resultType"),
    (EmptyResult, {"resultType": "later"}, "$.resultType"),
    (CallToolResult, {}, "$"),
    (CallToolResult, {"resultType": "complete"}, "$"),
    (CallToolResult, {"resultType": "input_required"}, "$"),
    (CallToolResult, {**TASK, "status": 1}, "$.status"),
    (CallToolResult, [], "$"),
]


def test_an_unknown_result_type_is_invalid() -> None:
    for cls, members, path in INVALID:
        with pytest.raises(ProtocolError) as caught:
            decode_result(cls, json.dumps(members).encode())
        assert caught.value.path == path


def test_the_error_lists_the_valid_result_types() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_result(CallToolResult, b'{"resultType":"later"}')
    assert caught.value.message == (
        "invalid resultType for CallToolResult (valid: 'complete', 'input_required', 'task')"
    )
    assert caught.value.quote == "later"


def test_invalid_json_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="cannot decode the"):
        decode_result(CallToolResult, b"{")


def test_every_alternative_has_its_result_type() -> None:
    assert ALTERNATIVES.keys() <= {
        getattr(jackstay.types, name) for name in jackstay.types.__all__ if name.endswith("Result")
    }
    for row in ALTERNATIVES.values():
        for word, cls in row.items():
            made = {"input_required": ASKS, "task": TASK}[word]
            assert decode_result(CallToolResult, json.dumps(made).encode()).result_type == word
            assert issubclass(cls, Result)
