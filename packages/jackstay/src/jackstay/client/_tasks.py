"""Tasks of a server (extension `io.modelcontextprotocol/tasks`): polled until they end, whatever happens in between.

`tools/call` may return a task. From then on the outcome is at the server: `tasks/get` is repeated through lost
connections and restarts until the deadline of the call. A call whose response was lost is sent again with
its idempotency key, if the server declares that it supports such keys.
"""

import asyncio
import builtins
import inspect
import logging
import random
from collections.abc import Awaitable, Callable, Generator, Mapping
from secrets import token_urlsafe
from typing import Any, Final, TypeVar, Unpack

import msgspec

from jackstay._signatures import shows
from jackstay.client._deadline import Deadline
from jackstay.client._requests import CallOptions, Requests
from jackstay.client._task_log import LoggedTask, TaskLog
from jackstay.errors import (
    BackpressureError,
    Json,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    SessionLostError,
    StateError,
    TimeoutError,
    ToolCallError,
    TransportError,
)
from jackstay.protocol.client import events as e
from jackstay.protocol.wire import ErrorCode
from jackstay.types import (
    CallToolResult,
    CreateTaskResult,
    GetTaskResult,
    Result,
    TaskStatus,
    UpdateTaskResult,
    decode,
    encode_json,
    from_json,
)

logger = logging.getLogger("jackstay.client")

R = TypeVar("R", bound=Result)

# The members of `_meta` by which our servers recognize a call that is sent again.
META_KEY: Final = "jackstay/idempotencyKey"
META_RESENT: Final = "jackstay/isResent"

# Seconds between two polls: at first, and at most.
FIRST_POLL: Final = 0.02
MAX_POLL: Final = 60.0
POLL_JITTER: Final = 0.1
# How much longer the time between two polls is while notifications arrive.
LISTENING_FACTOR: Final = 10
# Errors after which a request about a task is sent again: none of them concerns the task.
_TRANSIENT: Final = (OutcomeUnknownError, TransportError, SessionLostError, BackpressureError, TimeoutError)


class TaskHandle:
    """A tool call that runs as a task: await it for its result, or `cancel()` it. `id` survives this process.

    If the server returned the result at once, there is no task: `id` is empty.
    """

    def __init__(self, tasks: "Tasks", id: str, tool: str, result: CallToolResult | None = None) -> None:
        self.id = id
        self.tool = tool
        self._tasks = tasks
        self._result = result

    def __repr__(self) -> str:
        return f"<TaskHandle {self.id or 'done'} {self.tool}>"

    def __await__(self) -> Generator[Any, None, CallToolResult]:
        return self.result().__await__()

    async def result(
        self,
        *,
        timeout: float | None = None,
        raise_on_error: bool = True,
        on_status: Callable[[GetTaskResult], object] | None = None,
    ) -> CallToolResult:
        """Wait until the task has ended, and return its result.

        Loss of the connection and restarts of the server do not end the wait. After `timeout` seconds it ends with
        TimeoutError, and the task continues; cancelling the wait does not cancel the task either. `on_status(task)`,
        sync or async, is called for every state of the task; the client listens to notifications of its status for it.

        Raises: ToolCallError if the tool failed, unless `raise_on_error=False`; JsonRpcError if the task failed;
        OutcomeUnknownError if it was cancelled, or if the server lost it.
        """
        if self._result is None:
            deadline = Deadline(self._tasks._requests.connection.time(), None, timeout)
            result = await self._tasks._wait(self, deadline, on_status)
            describe = self._tasks._describe
            if describe is not None and self.tool and result.structured_content is not None:
                result = await describe(self.tool, result)
            self._result = result
        if self._result.is_error and raise_on_error:
            raise ToolCallError.of(self.tool, self._result)
        return self._result

    @shows("jackstay.client:CallOptions")
    async def status(self, **options: Unpack[CallOptions]) -> TaskStatus:
        """Return the status of the task: "working", "input_required", "completed", "failed" or "cancelled"."""
        if not self.id:
            return "completed"
        deadline = self._tasks._requests.deadline(options)
        return (await self._tasks._request("tasks/get", {"taskId": self.id}, GetTaskResult, deadline)).status

    @shows("jackstay.client:CallOptions")
    async def cancel(self, **options: Unpack[CallOptions]) -> None:
        """Cancel the task. It may end in another way nevertheless: see `result()`."""
        if self.id:
            deadline = self._tasks._requests.deadline(options)
            await self._tasks._request("tasks/cancel", {"taskId": self.id}, Result, deadline)


class Tasks:
    """The tasks of a client."""

    def __init__(self, requests: Requests, log: TaskLog | None, server: str) -> None:
        self._requests = requests
        requests.on_task = self._adopt
        # Adds what is known of the output schema of a tool to its result. Set by `Tools`.
        self._describe: Callable[[str, CallToolResult], Awaitable[CallToolResult]] | None = None
        self._log = log
        self._server = server
        self._listeners: list[_Listener] = []

    def attach(self, id: str, tool: str = "") -> TaskHandle:
        """Return the task with this id, which this or an earlier process has begun. Nothing is sent."""
        return TaskHandle(self, id, tool)

    async def pending(self) -> list[TaskHandle]:
        """Return the tasks of the task log whose outcome no process has seen. Needs the setting `task_log`."""
        if self._log is None:
            return []
        rows = await asyncio.to_thread(self._log.pending)
        return [TaskHandle(self, row.id, row.tool) for row in rows if row.server == self._server]

    # --- calls --------------------------------------------------------------------------------------------------------

    async def _call(
        self, name: str, params: dict[str, Any], options: CallOptions, deadline: Deadline, *, is_safe: bool | None
    ) -> CallToolResult | TaskHandle:
        """Call a tool and return its result, or the task that it has become.

        A response that was lost is requested again, if the server can recognize the call.
        """
        keyed, key = options, ""
        if self._requests.has_idempotency:
            key = token_urlsafe(18)
            keyed = {**options, "meta": {**(options.get("meta") or {}), META_KEY: key}}
        lost: McpError | None = None
        delay = FIRST_POLL
        while True:
            try:
                answer: Any = await self._requests.request(
                    "tools/call",
                    params,
                    CallToolResult,
                    keyed,
                    is_safe=is_safe,
                    subject=name,
                    deadline=deadline,
                    read=self._requests.read_tool_result,
                    has_alternatives=True,
                )
            except OutcomeUnknownError as error:
                if not key:
                    raise
                lost = lost or error
            except (JsonRpcError, StateError) as error:
                if lost is None:
                    raise
                # An error that the request did not run is about this request, and not about the first one.
                if isinstance(error, JsonRpcError) and not _is_unknown(error) and error.may_have_run is not False:
                    raise
                raise lost from error
            else:
                break
            meta: dict[str, Json] = {**(options.get("meta") or {}), META_KEY: key, META_RESENT: True}
            keyed = {**options, "meta": meta}
            # A proxy without a server responds at once, and so does every attempt.
            async with deadline.bound(sent=True):
                await asyncio.sleep(delay)
            delay = min(delay * 2, 1.0)
        if isinstance(answer, CreateTaskResult):
            return await self._begin(name, answer)
        result: CallToolResult = answer
        if not isinstance(answer, CallToolResult):
            result = await self._requests.complete(answer)
        return result

    async def _begin(self, tool: str, created: CreateTaskResult) -> TaskHandle:
        handle = TaskHandle(self, created.handle.task_id, tool)
        await self._write(handle, has_ended=False)
        return handle

    async def _adopt(self, tool: str, created: CreateTaskResult, deadline: Deadline) -> CallToolResult:
        return await self._drive(await self._begin(tool, created), deadline)

    async def _drive(self, handle: TaskHandle, deadline: Deadline) -> CallToolResult:
        """Wait for the result of a task as part of a call: if the call is cancelled or times out, cancel the task."""
        try:
            return await self._wait(handle, deadline)
        except (asyncio.CancelledError, TimeoutError):
            self._cancel(handle)
            raise

    def _cancel(self, handle: TaskHandle) -> None:
        """Send `tasks/cancel` once, and do not wait for the response."""
        connection = self._requests.connection
        try:
            call = connection.submit("tasks/cancel", encode_json({"taskId": handle.id}), bytes)
        except McpError:  # the client was closed
            return
        call.future.add_done_callback(lambda _: call.retrieve_exception())

    def _notified(self, params: msgspec.Raw | bytes) -> None:
        """Process `notifications/tasks`, which has a task as `tasks/get` returns it. Raises: ProtocolError."""
        task = decode(GetTaskResult, params)
        for listener in self._listeners:
            if listener.id == task.task_id:
                listener.task = task
                listener.has_arrived.set()
                if task.status in ("completed", "failed", "cancelled"):
                    listener.has_ended.set()

    async def _wait(
        self, handle: TaskHandle, deadline: Deadline, on_status: Callable[[GetTaskResult], object] | None = None
    ) -> CallToolResult:
        """Wait until a task has ended. Raises: as `TaskHandle.result()`."""
        if on_status is None:
            return await self._poll(handle, deadline, None, None)
        connection = self._requests.connection
        listener = _Listener(handle.id)
        key = f"task {handle.id} {id(listener)}"
        listen = {"notifications": {"taskIds": [handle.id]}}
        self._listeners.append(listener)
        connection.step(e.Subscribed(key, None, ("subscriptions/listen", encode_json(listen))))
        try:
            return await self._poll(handle, deadline, on_status, listener)
        finally:
            self._listeners.remove(listener)
            connection.step(e.Unsubscribed(key))

    async def _poll(
        self,
        handle: TaskHandle,
        deadline: Deadline,
        on_status: Callable[[GetTaskResult], object] | None,
        listener: "_Listener | None",
    ) -> CallToolResult:
        """Poll a task until it has ended, less often while notifications of its status arrive."""
        answered: dict[str, Any] = {}
        updated_at, delay = "", FIRST_POLL
        task: GetTaskResult | None = None
        reported: GetTaskResult | None = None
        while True:
            if task is None:
                task = await self._request("tasks/get", {"taskId": handle.id}, GetTaskResult, deadline)
            if on_status is not None and not _is_same(task, reported):
                reported = task
                called = on_status(task)
                if inspect.isawaitable(called):
                    await called
            if task.status in ("completed", "failed", "cancelled"):
                await self._write(handle, has_ended=True)
                return _outcome(handle, task)
            if task.last_updated_at != updated_at:  # it counts as progress
                updated_at, deadline.moved_at = task.last_updated_at, self._requests.connection.time()
            if task.status == "input_required" and task.input_requests:
                missing = {key: value for key, value in task.input_requests.items() if key not in answered}
                async with deadline.bound(sent=True):
                    given = await self._fulfil(missing, listener)
                if given is None:
                    task = None  # it has ended meanwhile
                    continue
                answered.update(given)
                responses = {key: answered[key] for key in task.input_requests or ()}
                params = {"taskId": handle.id, "inputResponses": responses}
                await self._request("tasks/update", params, UpdateTaskResult, deadline)
                delay = FIRST_POLL
            interval = 1.0 if task.poll_interval_ms is None else task.poll_interval_ms / 1000
            if listener is not None and listener.task is not None:
                interval *= LISTENING_FACTOR
            pause = delay * (1 + POLL_JITTER * random.random())  # noqa: S311  # jitter
            async with deadline.bound(sent=True):
                if listener is None:
                    await asyncio.sleep(pause)
                task = None if listener is None else await listener.wait(pause)
            delay = min(delay * 2, max(FIRST_POLL, min(interval, MAX_POLL)))

    async def _fulfil(self, requests: Mapping[str, Any], listener: "_Listener | None") -> Mapping[str, Any] | None:
        """Return the responses to the requests of a task; None if a notification reports that it has ended."""
        fulfil = self._requests.request_handlers.fulfil(requests)
        if listener is None:
            return await fulfil
        both = asyncio.ensure_future(fulfil), asyncio.ensure_future(listener.has_ended.wait())
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return both[0].result() if both[0].done() else None
        finally:
            for work in both:
                work.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _request(self, method: str, params: Mapping[str, Any], result: type[R], deadline: Deadline) -> R:
        """Send a request about a task, and repeat it through every failure of the connection until the deadline.

        Raises: OutcomeUnknownError if the server does not know the task; TimeoutError; others if the client is closed.
        """
        delay = FIRST_POLL
        while True:
            connection = self._requests.connection
            left = None if deadline.at is None else deadline.at - connection.time()
            if left is not None and left <= 0:
                raise deadline.error(sent=True).about("tools/call", None)
            fields: dict[str, Any] = {"wait_for_ready": True}
            limit = connection.settings.request_timeout
            if left is not None and (limit is None or left < limit):
                fields["timeout"] = left
            call = connection.submit(method, encode_json(params), lambda raw: decode(result, raw), **fields)
            try:
                return await call.future
            except asyncio.CancelledError:
                connection.cancel_call(call)
                raise
            except _TRANSIENT as error:
                if isinstance(error, TransportError) and error.permanent:
                    raise
                logger.debug("%s: %s failed, trying again: %s", connection.telemetry.client, method, error)
            except JsonRpcError as error:
                if not _is_retryable(error):
                    raise _lost(str(params["taskId"]), error) from error
            except McpError as error:
                error.may_have_run = True  # it concerns the task, which runs
                raise
            async with deadline.bound(sent=True):
                await asyncio.sleep(delay)
            delay = min(delay * 2, 1.0)

    async def _write(self, handle: TaskHandle, *, has_ended: bool) -> None:
        if self._log is not None:
            row = LoggedTask(handle.id, self._server, handle.tool)
            await asyncio.to_thread(self._log.ended if has_ended else self._log.began, row)


class _Listener:
    """Receives the notifications of the status of one task."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.task: GetTaskResult | None = None
        self.has_arrived = asyncio.Event()
        self.has_ended = asyncio.Event()

    async def wait(self, seconds: float) -> GetTaskResult | None:
        """Wait for the next notification, and return its task; None after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self.has_arrived.wait()
        except builtins.TimeoutError:
            return None
        self.has_arrived.clear()
        return self.task


def _is_same(task: GetTaskResult, other: GetTaskResult | None) -> bool:
    """Return whether two states are the same: those of a notification and of `tasks/get` differ in `_meta`."""
    if other is None or (task.status, task.last_updated_at) != (other.status, other.last_updated_at):
        return False
    return (task.status_message, task.input_requests) == (other.status_message, other.input_requests)


def _outcome(handle: TaskHandle, task: GetTaskResult) -> CallToolResult:
    """Return the result of a task that has ended. Raises: McpError, if it has none."""
    if task.status == "completed" and task.result is not None:
        return from_json(CallToolResult, dict(task.result))
    if task.status == "failed" and task.error is not None:
        error = JsonRpcError(task.error.code, task.error.message, task.error.data)
        if not _is_unknown(error):
            raise error.about("tools/call", None)
        raise OutcomeUnknownError(f"task {handle.id}: {task.error.message}").about("tools/call", None)
    if task.status == "cancelled":
        message = f"task {handle.id} was cancelled; it may have run in part"
        raise OutcomeUnknownError(message).about("tools/call", None)
    raise ProtocolError(f"task {handle.id} is {task.status}, but has no outcome", sent=True).about("tasks/get", None)


def _lost(id: str, error: JsonRpcError) -> McpError:
    if error.code == ErrorCode.INVALID_PARAMS:
        message = f"the server does not know task {id} any more: it expired, or its store was lost"
    else:
        message = f"the server refused a request about task {id}: {error.message}"
    return OutcomeUnknownError(message).about("tools/call", None)


def _is_unknown(error: JsonRpcError) -> bool:
    return isinstance(error.data, dict) and error.data.get("outcome") == "unknown"


def _is_retryable(error: JsonRpcError) -> bool:
    return isinstance(error.data, dict) and error.data.get("retryable") is True
