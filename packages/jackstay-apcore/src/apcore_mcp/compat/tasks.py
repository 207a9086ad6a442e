"""Tools that run a module in the background and return its result later, and one that validates a call.

`serve(async_tasks=True)` adds them. They use apcore's task manager, and every call goes through the executor.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from apcore import AsyncTaskManager, CancelToken  # type: ignore[import-untyped]  # apcore ships no types
from apcore.async_task import TaskStatus  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.adapters.errors import ErrorMapper
from apcore_mcp.approval import CLIENT_CALL, CONSENT, ClientCall, Consent, principal_of
from apcore_mcp.catalogue import runs_in_background
from apcore_mcp.compat.calls import make_context
from apcore_mcp.compat.constants import APCORE_META_TOOL_PREFIX
from apcore_mcp.compat.results import FactoryTool
from apcore_mcp.secrets import SECRETS, Secrets
from apcore_mcp.tracing import TRACE_ID

logger = logging.getLogger("apcore_mcp.tasks")

# Its name in `server.async_task_bridge`.
RESERVED_PREFIX: Final = APCORE_META_TOOL_PREFIX

# The tools.
META_TOOL_NAMES: Final = (
    "__apcore_task_submit",
    "__apcore_task_status",
    "__apcore_task_cancel",
    "__apcore_task_list",
    "__apcore_module_preview",
)

_MODULE: Final = {"type": "string", "description": "The id of a module"}
_TASK: Final = {"type": "string", "description": "The id of a task"}
_ARGUMENTS: Final = {"type": "object", "description": "The arguments of the module"}
_STATUSES: Final = [status.value for status in TaskStatus]

# Each tool: its description, its properties, and the required ones.
_TOOLS: Final[dict[str, tuple[str, dict[str, Any], list[str]]]] = {
    "__apcore_task_submit": (
        "Run a module in the background. Returns the id of a task.",
        {"module_id": _MODULE, "arguments": _ARGUMENTS},
        ["module_id"],
    ),
    "__apcore_task_status": ("Return the state of a task, and its result.", {"task_id": _TASK}, ["task_id"]),
    "__apcore_task_cancel": ("Cancel a task.", {"task_id": _TASK}, ["task_id"]),
    "__apcore_task_list": (
        "List the tasks, all or those in one state.",
        {"status": {"type": "string", "enum": _STATUSES}},
        [],
    ),
    "__apcore_module_preview": (
        "Validate a call without running the module: arguments, access and approval.",
        {"module_id": _MODULE, "arguments": _ARGUMENTS},
        ["module_id"],
    ),
}

# The content, whether it is an error, and the trace id.
Answer = tuple[list[dict[str, Any]], bool, str | None]


class _Started(NamedTuple):
    """What is known of a task from its start: the caller, whose task others do not see, and what its log lines need."""

    owner: str = ""
    trace_id: str = ""
    secrets: Secrets | None = None
    # apcore does not end the module itself: modules look at the token.
    token: CancelToken | None = None


class AsyncTaskBridge:
    """The tools in front of an `AsyncTaskManager`. `redactor(module_id, result)` removes sensitive values."""

    DEFAULT_MAX_CONCURRENT = 10
    DEFAULT_MAX_TASKS = 1000

    def __init__(
        self,
        manager: AsyncTaskManager,
        *,
        redactor: Callable[[str, Any], Any] | None = None,
        executor: Any = None,
    ) -> None:
        self.manager = manager
        self._redactor = redactor
        self._executor: Any = executor if executor is not None else getattr(manager, "_executor", None)
        self._errors = ErrorMapper()
        # The ids of the tasks of each session.
        self._sessions: dict[str, list[str]] = {}
        self._started: dict[str, _Started] = {}
        self._tools: dict[str, Callable[[dict[str, Any], dict[str, Any]], Awaitable[Any]]] = {
            "__apcore_task_submit": self._submit,
            "__apcore_task_status": self._status,
            "__apcore_task_cancel": self._cancel,
            "__apcore_task_list": self._list,
            "__apcore_module_preview": self._preview,
        }

    @classmethod
    def with_limits(
        cls,
        executor: Any,
        *,
        max_concurrent: int = DEFAULT_MAX_CONCURRENT,
        max_tasks: int = DEFAULT_MAX_TASKS,
        redactor: Callable[[str, Any], Any] | None = None,
    ) -> "AsyncTaskBridge":
        """Return a bridge with a new task manager."""
        return cls(AsyncTaskManager(executor, max_concurrent, max_tasks), redactor=redactor, executor=executor)

    @property
    def has_approval_gate(self) -> bool:
        """Whether the executor requests the approval that a module needs."""
        state = getattr(self._executor, "governance_state", None)
        return bool(state().builtin_approval_gate_wired) if callable(state) else False

    @staticmethod
    def is_meta_tool(name: str) -> bool:
        """Return whether a tool belongs to this bridge."""
        return name in META_TOOL_NAMES

    @staticmethod
    def is_async_module(descriptor: Any) -> bool:
        """Return whether a module runs in the background."""
        return runs_in_background(descriptor)

    def build_meta_tools(self) -> list[FactoryTool]:
        """Return the tools."""
        return [
            FactoryTool(
                name=name,
                description=description,
                input_schema={
                    "type": "object",
                    "properties": properties,
                    "required": [*required],
                    "additionalProperties": False,
                },
            )
            for name, (description, properties, required) in _TOOLS.items()
        ]

    async def submit(
        self,
        module_id: str,
        arguments: dict[str, Any],
        context: Any,
        *,
        session_key: str | None = None,
    ) -> dict[str, Any]:
        """Start a task. Return its id and state. If the call needs the approval of the client's user, it fails."""
        owner = principal_of(context)
        trace_id = "" if context is None else context.trace_id
        # The task inherits these: without them, the call would count as one of the program, which may run unapproved.
        reset = CONSENT.set(None if context is None else Consent(context.trace_id))
        call_reset = CLIENT_CALL.set(None if context is None else ClientCall(owner, module_id, arguments))
        trace_reset = TRACE_ID.set(trace_id)
        try:
            task_id: str = await self.manager.submit(module_id, arguments, context)
        finally:
            TRACE_ID.reset(trace_reset)
            CLIENT_CALL.reset(call_reset)
            CONSENT.reset(reset)
        known = {task.task_id for task in self.manager.list_tasks()}
        self._started = {id: started for id, started in self._started.items() if id in known}
        self._started[task_id] = _Started(owner, trace_id, SECRETS.get(), getattr(context, "cancel_token", None))
        if session_key is not None:
            self._sessions.setdefault(session_key, []).append(task_id)
        return {"task_id": task_id, "status": TaskStatus.PENDING.value}

    async def cancel_session_tasks(self, session_key: str) -> int:
        """Cancel the tasks of a session. Return how many were cancelled."""
        cancelled = [await self._end(task_id) for task_id in self._sessions.pop(session_key, [])]
        return sum(cancelled)

    async def shutdown(self) -> None:
        """Cancel all tasks."""
        for started in self._started.values():
            if started.token is not None:
                started.token.cancel()
        await self.manager.shutdown()

    async def _end(self, task_id: str) -> bool:
        token = self._started.get(task_id, _Started()).token
        if token is not None:
            token.cancel()
        return bool(await self.manager.cancel(task_id))

    async def handle_meta_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None,
        *,
        resolve_descriptor: Callable[[str], Any] | None = None,
        router_extra: dict[str, Any] | None = None,
    ) -> Answer:
        """Call a tool."""
        tool = self._tools.get(name)
        if tool is None:
            return _text(f"Unknown meta-tool: {name}", is_error=True)
        extra = {**(router_extra or {}), "resolve_descriptor": resolve_descriptor}
        try:
            found = await tool(arguments or {}, extra)
        except _BadArgumentError as error:
            return _text(str(error), is_error=True)
        except _FailedError as error:
            return _text(json.dumps(error.found, default=str), is_error=True)
        except Exception as error:  # noqa: BLE001  # any error becomes a result
            result: Any = self._errors.to_mcp_error(error)
            return _text(result.content[0].text, is_error=True)
        return _text(json.dumps(found, default=str))

    async def _submit(self, arguments: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        module_id, inputs = _module_of(arguments), _inputs_of(arguments)
        resolve = extra.get("resolve_descriptor")
        if resolve is not None and not self.is_async_module(resolve(module_id)):
            message = f"{module_id} does not declare that it runs in the background (metadata.async)"
            raise _FailedError({"error": "ASYNC_MODULE_NOT_ASYNC", "message": message})
        return await self.submit(module_id, inputs or {}, make_context(extra), session_key=extra.get("session_key"))

    async def _status(self, arguments: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        info = self._find(arguments, extra)
        shown = _shown(info)
        if info.status == TaskStatus.COMPLETED:
            shown["result"] = info.result if self._redactor is None else self._redactor(info.module_id, info.result)
        elif info.status == TaskStatus.FAILED:
            started = self._started.get(info.task_id, _Started())
            text = str(info.error) if started.secrets is None else started.secrets.hide(str(info.error))
            trace = f" [trace_id={started.trace_id}]" if started.trace_id else ""
            logger.error("task %s of %s failed: %s%s", info.task_id, info.module_id, text, trace)
            shown["error"] = info.error if self._redactor is None else "Internal error occurred"
            if started.trace_id:
                shown["trace_id"] = started.trace_id
        return shown

    async def _cancel(self, arguments: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        info = self._find(arguments, extra)
        return {"task_id": info.task_id, "cancelled": await self._end(info.task_id)}

    async def _list(self, arguments: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        status = arguments.get("status")
        if status is not None and status not in _STATUSES:
            raise _BadArgumentError(f"status must be one of {', '.join(_STATUSES)}, not {status!r}")
        tasks = self.manager.list_tasks(None if status is None else TaskStatus(status))
        return {"tasks": [_shown(task) for task in tasks if self._is_visible(task, extra)]}

    async def _preview(self, arguments: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        module_id, inputs = _module_of(arguments), _inputs_of(arguments)
        context = make_context(extra)

        async def validate() -> Any:
            return self._executor.validate(module_id, inputs, context)

        # It blocks. Within an event loop it uses one of its own and closes it, otherwise it keeps one open.
        return preflight_of(await asyncio.to_thread(asyncio.run, validate()))

    def _is_visible(self, info: Any, extra: dict[str, Any]) -> bool:
        """Return whether a caller may see a task: it started the task, or the program did without an identity."""
        return self._started.get(info.task_id, _Started()).owner in ("", _caller_of(extra))

    def _find(self, arguments: dict[str, Any], extra: dict[str, Any]) -> Any:
        task_id = arguments.get("task_id")
        if not isinstance(task_id, str) or not task_id:
            raise _BadArgumentError("task_id is required")
        info = self.manager.get_status(task_id)
        if info is None or not self._is_visible(info, extra):
            raise _FailedError({"error": "ASYNC_TASK_NOT_FOUND", "task_id": task_id})
        return info


class _BadArgumentError(Exception):
    """The message is for the caller."""


class _FailedError(Exception):
    """The result is an error with these fields."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(found["error"])
        self.found = found


def preflight_of(result: Any) -> dict[str, Any]:
    """Return the result of `Executor.validate()` as a dict."""
    checks = []
    for check in result.checks:
        shown = {"check": check.check, "passed": check.passed, "error": check.error, "warnings": check.warnings}
        checks.append({key: value for key, value in shown.items() if value not in (None, [], {})})
    changes = getattr(result, "predicted_changes", None) or []
    return {
        "valid": bool(result.valid),
        "requires_approval": bool(result.requires_approval),
        "predicted_changes": [
            change.model_dump(exclude_none=True) if hasattr(change, "model_dump") else dict(change)
            for change in changes
        ],
        "checks": checks,
    }


def _module_of(arguments: dict[str, Any]) -> str:
    module_id = arguments.get("module_id")
    if not isinstance(module_id, str) or not module_id:
        raise _BadArgumentError("module_id is required")
    if module_id.startswith(RESERVED_PREFIX):
        raise _BadArgumentError(f"Reserved module id: {module_id!r}; ids with {RESERVED_PREFIX!r} are not modules")
    return module_id


def _inputs_of(arguments: dict[str, Any]) -> dict[str, Any] | None:
    inputs = arguments.get("arguments")
    if inputs is not None and not isinstance(inputs, dict):
        raise _BadArgumentError("arguments must be an object")
    return inputs


def _caller_of(extra: dict[str, Any]) -> str:
    identity = extra.get("identity")
    return "" if identity is None else str(identity.id)


def _shown(info: Any) -> dict[str, Any]:
    return {
        "task_id": info.task_id,
        "module_id": info.module_id,
        "status": info.status.value,
        "submitted_at": info.submitted_at,
        "started_at": info.started_at,
        "completed_at": info.completed_at,
    }


def _text(text: str, *, is_error: bool = False) -> Answer:
    return [{"type": "text", "text": text}], is_error, None


__all__ = ["APCORE_META_TOOL_PREFIX", "META_TOOL_NAMES", "RESERVED_PREFIX", "Answer", "AsyncTaskBridge", "preflight_of"]
