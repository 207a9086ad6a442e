"""Tasks of 2025-11-25 and of the extension."""

import json

import pytest

from jackstay.errors import ProtocolError
from jackstay.types import (
    CancelTaskRequestParams,
    CancelTaskResult,
    CreateTaskResult,
    ElicitResult,
    Error,
    GetTaskPayloadRequestParams,
    GetTaskPayloadResult,
    GetTaskRequestParams,
    GetTaskResult,
    ListRootsRequest,
    ListTasksResult,
    Task,
    TaskStatusNotificationParams,
    UpdateTaskRequestParams,
    UpdateTaskResult,
    decode,
    encode_json,
    with_members,
)

HEAD = {
    "taskId": "t",
    "status": "working",
    "createdAt": "2025-11-25T10:30:00Z",
    "lastUpdatedAt": "2025-11-25T10:40:00Z",
}
OLD = {**HEAD, "ttl": 60000, "pollInterval": 5000, "statusMessage": "m"}
NEW = {**HEAD, "ttlMs": 60000, "pollIntervalMs": 5000, "statusMessage": "m"}

# Class, members.
MESSAGES = [
    (Task, OLD),
    (Task, NEW),
    (Task, {**HEAD, "ttl": None}),
    (CreateTaskResult, {"task": OLD, "_meta": {"k": 1}}),
    (CreateTaskResult, {"resultType": "task", **NEW}),
    (GetTaskResult, OLD),
    (GetTaskResult, {"resultType": "complete", **NEW}),
    (GetTaskResult, {**NEW, "status": "completed", "result": {"content": [], "isError": True}}),
    (GetTaskResult, {**NEW, "status": "failed", "error": {"code": -32603, "message": "m", "data": [1]}}),
    (GetTaskResult, {**NEW, "status": "input_required", "inputRequests": {"k": {"method": "roots/list"}}}),
    (CancelTaskResult, {**OLD, "status": "cancelled"}),
    (CancelTaskResult, {"resultType": "complete"}),
    (CancelTaskResult, {}),
    (UpdateTaskResult, {"resultType": "complete"}),
    (GetTaskPayloadResult, {"content": [{"type": "text", "text": "t"}], "_meta": {}}),
    (ListTasksResult, {"tasks": [OLD, {**HEAD, "ttl": None}], "nextCursor": ""}),
    (TaskStatusNotificationParams, {**OLD, "_meta": {}}),
    (TaskStatusNotificationParams, {**NEW, "status": "completed", "result": {}}),
    (GetTaskRequestParams, {"taskId": "t"}),
    (GetTaskPayloadRequestParams, {"taskId": "t"}),
    (CancelTaskRequestParams, {"taskId": "t"}),
    (UpdateTaskRequestParams, {"taskId": "t", "inputResponses": {"k": {"action": "accept"}}}),
]


def test_messages_of_both_formats_round_trip() -> None:
    for cls, members in MESSAGES:
        body = decode(cls, json.dumps(members).encode())
        assert json.loads(encode_json(body)) == members


def test_handle_is_the_same_for_both_formats() -> None:
    old = decode(CreateTaskResult, json.dumps({"task": OLD}).encode()).handle
    new = decode(CreateTaskResult, json.dumps({"resultType": "task", **NEW}).encode()).handle
    assert (old.task_id, old.status, old.ttl, old.poll_interval) == ("t", "working", 60000, 5000)
    assert (new.task_id, new.status, new.ttl_ms, new.poll_interval_ms) == ("t", "working", 60000, 5000)
    assert new == decode(Task, json.dumps(NEW).encode())


def test_a_handle_needs_the_required_members_of_a_task() -> None:
    for missing in sorted(HEAD):
        members = {"resultType": "task", **{name: value for name, value in NEW.items() if name != missing}}
        with pytest.raises(ProtocolError, match="CreateTaskResult needs 'task', or 'taskId'"):
            decode(CreateTaskResult, json.dumps(members).encode())
        with pytest.raises(ValueError, match="needs"):
            CreateTaskResult(task_id="t")


def test_an_unlimited_ttl_is_written_as_null() -> None:
    task = Task(task_id="t", status="working", created_at=HEAD["createdAt"], last_updated_at=HEAD["lastUpdatedAt"])
    assert with_members(task, {"ttl": None}).raw == {**HEAD, "ttl": None}
    assert with_members(task, {"ttl": None}) == decode(Task, json.dumps({**HEAD, "ttl": None}).encode())


def test_the_members_of_a_task_are_typed() -> None:
    failed = decode(GetTaskResult, json.dumps({**NEW, "error": {"code": 1, "message": "m", "data": None}}).encode())
    assert isinstance(failed.error, Error)
    assert failed.error.has("data")
    input_requests = decode(
        GetTaskResult, json.dumps({**NEW, "inputRequests": {"k": {"method": "roots/list"}}}).encode()
    )
    assert input_requests.input_requests == {"k": ListRootsRequest()}
    answered = decode(UpdateTaskRequestParams, b'{"taskId":"t","inputResponses":{"k":{"action":"cancel"}}}')
    assert answered.input_responses == {"k": ElicitResult("cancel")}


def test_an_unknown_status_is_rejected() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(GetTaskResult, json.dumps({**NEW, "status": "asleep"}).encode())
    assert caught.value.path == "$.status"
