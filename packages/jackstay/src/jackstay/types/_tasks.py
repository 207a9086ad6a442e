"""Tasks: the experimental feature of 2025-11-25, and the extension `io.modelcontextprotocol/tasks` of 2026-07-28.

Each class has the members of both. In 2025-11-25 the requester requests a task, and its result is fetched with
`tasks/result`; in the extension the server decides, and the result is in `tasks/get`. `ttl` and `ttl_ms` are null for
a task that is kept forever; write that with `with_members(task, {"ttl": None})`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from jackstay.types._body import Body, JsonObject, Maybe, OnWire
from jackstay.types._input_required import InputRequestField, InputResponseField
from jackstay.types._lifecycle import Error
from jackstay.types._messages import NotificationParams, RequestParams, Result

# The identifier of the extension, in `capabilities.extensions` of both ends.
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

# The last three are final. Closed.
TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]

TaskHandle: TypeAlias = OnWire[str, Literal["task"]]


class Task(Body, frozen=True, kw_only=True):
    """A task and its state. Times are ISO 8601."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    status_message: Maybe[str] = None
    # 2025-11-25, in milliseconds.
    ttl: Maybe[int] = None
    poll_interval: Maybe[int] = None
    # The extension.
    ttl_ms: Maybe[int] = None
    poll_interval_ms: Maybe[int] = None


# The fields of a task in the extension.
_OF_EXTENSION = ("task_id", "status", "created_at", "last_updated_at", "status_message", "ttl_ms", "poll_interval_ms")


class CreateTaskResult(Result, frozen=True, kw_only=True):
    """A task in place of a result. `handle` is the task, in both formats."""

    # "task" in the extension, absent in 2025-11-25.
    result_type: Maybe[TaskHandle] = None
    # 2025-11-25.
    task: Maybe[Task] = None
    # The extension.
    task_id: Maybe[str] = None
    status: Maybe[TaskStatus] = None
    created_at: Maybe[str] = None
    last_updated_at: Maybe[str] = None
    status_message: Maybe[str] = None
    ttl_ms: Maybe[int] = None
    poll_interval_ms: Maybe[int] = None

    def __post_init__(self) -> None:
        if self.task is None and None in (self.task_id, self.status, self.created_at, self.last_updated_at):
            raise ValueError("CreateTaskResult needs 'task', or 'taskId', 'status', 'createdAt' and 'lastUpdatedAt'")

    @property
    def handle(self) -> Task:
        """The task, in either format."""
        if self.task is not None:
            return self.task
        return Task(**{name: getattr(self, name) for name in _OF_EXTENSION})  # checked by `__post_init__`


class GetTaskRequestParams(RequestParams, frozen=True):
    """Params of `tasks/get`."""

    task_id: str


class GetTaskPayloadRequestParams(RequestParams, frozen=True):
    """Params of `tasks/result` (2025-11-25 only)."""

    task_id: str


class CancelTaskRequestParams(RequestParams, frozen=True):
    """Params of `tasks/cancel`."""

    task_id: str


class UpdateTaskRequestParams(RequestParams, frozen=True):
    """Params of `tasks/update` (the extension only): responses to the task's input requests."""

    task_id: str
    input_responses: Mapping[str, InputResponseField]


class GetTaskResult(Result, frozen=True, kw_only=True):
    """The result of `tasks/get`."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    status_message: Maybe[str] = None
    # 2025-11-25, in milliseconds.
    ttl: Maybe[int] = None
    poll_interval: Maybe[int] = None
    # The extension. One of the last three, by status: "completed", "failed", "input_required".
    ttl_ms: Maybe[int] = None
    poll_interval_ms: Maybe[int] = None
    result: Maybe[JsonObject] = None
    error: Maybe[Error] = None
    input_requests: Maybe[Mapping[str, InputRequestField]] = None


class CancelTaskResult(Result, frozen=True, kw_only=True):
    """The result of `tasks/cancel`: the task in 2025-11-25, nothing in the extension."""

    # All 2025-11-25 only.
    task_id: Maybe[str] = None
    status: Maybe[TaskStatus] = None
    created_at: Maybe[str] = None
    last_updated_at: Maybe[str] = None
    status_message: Maybe[str] = None
    ttl: Maybe[int] = None
    poll_interval: Maybe[int] = None


class UpdateTaskResult(Result, frozen=True):
    """The result of `tasks/update` (the extension only)."""


class GetTaskPayloadResult(Result, frozen=True):
    """The result of `tasks/result` (2025-11-25 only): the task's own result, in `raw`.

    Decode the same bytes into the class of the original request's result.
    """


class ListTasksResult(Result, frozen=True):
    """The result of `tasks/list` (2025-11-25 only)."""

    tasks: Sequence[Task]
    next_cursor: Maybe[str] = None


class TaskStatusNotificationParams(NotificationParams, frozen=True, kw_only=True):
    """Params of `notifications/tasks/status` (2025-11-25) and of `notifications/tasks` (the extension)."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    status_message: Maybe[str] = None
    # 2025-11-25, in milliseconds.
    ttl: Maybe[int] = None
    poll_interval: Maybe[int] = None
    # The extension. One of the last three, by status: "completed", "failed", "input_required".
    ttl_ms: Maybe[int] = None
    poll_interval_ms: Maybe[int] = None
    result: Maybe[JsonObject] = None
    error: Maybe[Error] = None
    input_requests: Maybe[Mapping[str, InputRequestField]] = None
