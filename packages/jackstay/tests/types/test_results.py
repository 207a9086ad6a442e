"""Which class an answer is, by its `resultType`."""

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

# the request's own result, members, what comes
ANSWERS = [
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


@pytest.mark.parametrize(("cls", "members", "expected"), ANSWERS, ids=[str(n) for n in range(len(ANSWERS))])
def test_an_answer_is_what_its_result_type_says(
    cls: type[Result], members: dict, expected: type[Result]
) -> None:
    result = decode_result(cls, json.dumps(members).encode())
    assert type(result) is expected
    assert isinstance(result, Result)
    assert result.raw == members


# the request's own result, members, path
REFUSED = [
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


@pytest.mark.parametrize(("cls", "members", "path"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_a_result_type_that_is_not_known_here_makes_the_answer_invalid(
    cls: type[Result], members: object, path: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_result(cls, json.dumps(members).encode())
    assert caught.value.path == path


def test_the_error_says_which_words_are_known() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_result(CallToolResult, b'{"resultType":"later"}')
    assert caught.value.message == (
        "a resultType that CallToolResult does not have (it has 'complete', 'input_required', 'task')"
    )
    assert caught.value.quote == "later"


def test_bytes_that_are_no_json_are_refused() -> None:
    with pytest.raises(ProtocolError, match="cannot be decoded"):
        decode_result(CallToolResult, b"{")


def test_every_alternative_says_its_own_word() -> None:
    assert ALTERNATIVES.keys() <= {
        getattr(jackstay.types, name) for name in jackstay.types.__all__ if name.endswith("Result")
    }
    for row in ALTERNATIVES.values():
        for word, cls in row.items():
            made = {"input_required": ASKS, "task": TASK}[word]
            assert decode_result(CallToolResult, json.dumps(made).encode()).result_type == word
            assert issubclass(cls, Result)
