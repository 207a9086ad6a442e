"""Tasks that the page has started: their states are published as they change, until they have ended."""

import asyncio
from typing import Any

from jackstay.client import Client, TaskHandle
from jackstay.errors import McpError, UsageError
from jackstay.inspector._calls import describe_result
from jackstay.inspector._events import EventLog, describe_failure
from jackstay.types import GetTaskResult


class StartedTasks:
    """The tasks of the current client, by id."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._handles: dict[str, TaskHandle] = {}
        self._waiting: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<StartedTasks {len(self._waiting)} running>"

    async def start(self, client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Start a tool as a task. Returns its id, which is empty if the server returned the result at once."""
        handle = await client.tools.start(tool, arguments)
        key = handle.id or f"done {id(handle)}"
        self._handles[key] = handle
        self._publish(key, tool, "working", arguments=arguments)
        waiting = asyncio.get_running_loop().create_task(self._wait(key, handle))
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)
        return {"task": key}

    async def cancel(self, key: str) -> None:
        """Cancel a task. Raises: UsageError for an unknown one."""
        handle = self._handles.get(key)
        if handle is None:
            raise UsageError("unknown task: it was not started on this page", path="task")
        await handle.cancel()

    async def stop(self) -> None:
        """Stop waiting; the tasks continue at the server."""
        for waiting in self._waiting:
            waiting.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        self._handles.clear()

    def _publish(self, key: str, tool: str, status: str, **more: Any) -> None:
        self._events.publish("task", {"task": key, "tool": tool, "status": status, **more})

    async def _wait(self, key: str, handle: TaskHandle) -> None:
        def report(task: GetTaskResult) -> None:
            if task.status in ("working", "input_required"):
                self._publish(key, handle.tool, task.status, message=task.status_message or "")

        try:
            result = await handle.result(on_status=report, raise_on_error=False)
        except McpError as error:
            status = "cancelled" if "was cancelled" in error.message else "failed"
            self._publish(key, handle.tool, status, failed=describe_failure(error))
        else:
            self._publish(key, handle.tool, "completed", result=describe_result(result))
