"""`TaskWorker`: claims queued tasks and runs them, renews its leases, and gives up the tasks of dead workers.

A run is a call of the tool without a connection. If it requires input, the run ends and the task is parked with the
`requestState` of the call; the responses begin the next run. The state machine is in `_task_store`.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from jackstay.errors import JsonRpcError, McpError, ShutdownError, TransportError
from jackstay.protocol.server import events as e
from jackstay.server import _task_store as rules
from jackstay.server._changes import WORKER_METHOD
from jackstay.server._driver import Caller, ConnectionConfig
from jackstay.server._in_process import InProcessRequest
from jackstay.server._task_store import TaskRecord, TaskStore
from jackstay.types import META_CLIENT_CAPABILITIES, META_PROGRESS_TOKEN, META_PROTOCOL_VERSION, encode_json

if TYPE_CHECKING:
    from jackstay.server._dispatch import Dispatch
    from jackstay.server._server import Server

logger = logging.getLogger("jackstay.server")

# Published to the other workers: tasks are queued and this worker has no time; the task with this id was cancelled.
QUEUED: Final = f"{WORKER_METHOD}task_queued"
CANCELLED: Final = f"{WORKER_METHOD}task_cancelled"

# Signs the `requestState` of runs, which never leaves the store; any worker must be able to continue.
STATE_KEYS: Final = (b"jackstay task state",)
# Seconds between two polls for work, unless the worker is notified of it.
IDLE_SECONDS: Final = 1.0
# Seconds before a failed operation of the store is tried again.
RETRY_SECONDS: Final = 0.5
# How many tasks of dead workers, or expired ones, are processed at a time.
SWEEP_SIZE: Final = 100
# Of a status message, in characters; and what `tasks/get` needs besides the result, in bytes.
MAX_STATUS_LENGTH: Final = 1000
MAX_TASK_BYTES: Final = 8192
# How often a change that another worker interferes with is tried.
MAX_CONFLICTS: Final = 50
# The time of a `requestState` in a store: as long as the task lives.
_STATE_SECONDS: Final = 1e9


# Changes a record at this time, or returns None: `change(record, now=...)`.
Change: TypeAlias = Callable[..., TaskRecord | None]


async def update(
    store: TaskStore, id: str, change: Callable[[TaskRecord], TaskRecord | None]
) -> tuple[TaskRecord | None, bool]:
    """Change a task, whatever others do meanwhile. Returns the task (None: unknown), and whether it was changed."""
    for _ in range(MAX_CONFLICTS):
        record = await store.load(id)
        changed = None if record is None else change(record)
        if changed is None:
            return record, False
        if await store.replace(changed):
            return changed, True
    raise JsonRpcError(-32603, f"task {id}: too many workers change it at the same time")


class TaskRun(InProcessRequest):
    """A connection for one run of a task. Progress becomes the status message; log messages are dropped."""

    __slots__ = ("message",)

    def __init__(self, config: ConnectionConfig, record: TaskRecord) -> None:
        super().__init__(config, record.protocol)
        scopes = None if record.scopes is None else frozenset(record.scopes)
        self.caller = Caller(record.principal, scopes, record.claims)
        self.message: str | None = None
        # The result must fit into the response to `tasks/get`, with the other members of the task.
        limit = self.core.max_frame_bytes
        self.core.max_frame_bytes = max(limit - MAX_TASK_BYTES, limit // 2)

    def progressed(self, event: e.Progressed) -> None:
        """Keep the progress for the next renewal."""
        number = f"{event.progress:g}" + ("" if event.total is None else f" of {event.total:g}")
        # A message with lone surrogates could be neither stored nor sent.
        message = event.message[:MAX_STATUS_LENGTH].encode(errors="replace").decode()
        self.message = f"{message} ({number})" if message else number


class _Running:
    """A run in this process."""

    def __init__(self, record: TaskRecord, run: TaskRun) -> None:
        self.record = record
        self.run = run
        self.work: asyncio.Task[msgspec.Raw] | None = None
        # Set when the run should end: its task was cancelled, or belongs to another worker.
        self.must_stop = asyncio.Event()


class TaskWorker:
    """Runs the tasks of one server in one process."""

    def __init__(self, server: "Server", store: TaskStore, slots: int, lease: float) -> None:
        self.store = store
        self.slots = slots
        self.lease = lease
        self._server = server
        # Not before a start: the server may have been created before a fork.
        self._name = ""
        self._dispatch: Dispatch | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._main: asyncio.Task[None] | None = None
        self._running: dict[str, _Running] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        # Claims of which it is not known whether they were stored.
        self._uncertain: list[TaskRecord] = []
        self._swept_at: float | None = None
        # Called with the id of a task that this process has changed.
        self.on_change: Callable[[str], None] = lambda _: None
        if server._bus is not None:
            server._bus.workers.add(self)

    def __repr__(self) -> str:
        return f"<TaskWorker {len(self._running)} of {self.slots} slots used>"

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, and poll for work until `stop()`."""
        await self.store.open(self._server.name)
        self._name = secrets.token_hex(8)
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._uncertain.clear()
        self._swept_at = None
        self._main = self._loop.create_task(self._work())

    async def stop(self) -> None:
        """End the runs of this process, and close the store."""
        main, self._main = self._main, None
        if main is None:
            return
        try:
            # Not cancelled: a claim in the middle would be a task without a worker.
            self.wake()
            await asyncio.wait([main])
            for running in list(self._running.values()):
                running.must_stop.set()
            if self._jobs:
                await asyncio.wait(self._jobs)
        finally:
            await self.store.close()

    def wake(self) -> None:
        """Poll for work now. Thread-safe."""
        self._call(lambda: None if self._wake is None else self._wake.set())

    def notify_queued(self) -> None:
        """Run a task that was queued here, or notify the other workers if this one has no time. Thread-safe."""
        self.wake()
        if len(self._running) >= self.slots and self._server._bus is not None:
            self._server._bus.publish(QUEUED, "")

    def notify_cancelled(self, id: str) -> None:
        """Stop the run of a task that was cancelled, in this or another process. Thread-safe."""
        self._cancel(id)
        if self._server._bus is not None:
            self._server._bus.publish(CANCELLED, id)

    def receive_published(self, method: str, text: str) -> None:
        """Receive a message of another worker. Thread-safe."""
        if method == QUEUED:
            self.wake()
        elif method == CANCELLED:
            self._cancel(text)

    def _cancel(self, id: str) -> None:

        def stop() -> None:
            running = self._running.get(id)
            if running is not None:
                running.must_stop.set()

        self._call(stop)

    def _call(self, function: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function)

    # --- work ---------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        assert self._wake is not None
        loop = asyncio.get_running_loop()
        was_failing = False
        while self._main is not None:
            self._wake.clear()
            pause = IDLE_SECONDS
            try:
                if self._swept_at is None or loop.time() - self._swept_at >= self.lease / 3:
                    await self._sweep()
                if len(self._running) < self.slots and await self._claim():
                    continue
                was_failing = False
            except Exception as error:  # noqa: BLE001  # of any store
                # Once for each outage, and with a traceback unless the store is only unavailable.
                log = logger.debug if was_failing else logger.error
                has_traceback = not was_failing and not isinstance(error, TransportError)
                log("the task store failed; trying again: %s", error, exc_info=has_traceback)
                was_failing, pause = True, RETRY_SECONDS
            try:
                async with asyncio.timeout(min(pause, self.lease / 3)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _claim(self) -> bool:
        """Begin runs of queued tasks. Returns whether there were any."""
        now = await self.store.now()
        while self._uncertain:
            claimed = self._uncertain[-1]
            if await self.store.load(claimed.id) == claimed:
                await self.store.replace(rules.release(claimed, now))
            self._uncertain.pop()
        # Looked up in the class: an object that wraps a store may seem to have any attribute.
        claim = getattr(self.store, "claim" if hasattr(type(self.store), "claim") else "replace")
        rows = await self.store.due(now, self.slots - len(self._running), queued=True)
        for row in rows:
            run = rules.claim(row, now, self.lease, self._name)
            if run is None:
                await self.store.delete(row)  # it expired before a worker had time for it
                continue
            self._uncertain.append(run)
            was_claimed = await claim(run)
            self._uncertain.pop()
            if self._main is None:  # this worker stops
                if was_claimed:
                    await self.store.replace(rules.release(run, now))
                break
            if was_claimed:
                self._begin(run)
        return bool(rows)

    async def _sweep(self) -> None:
        """Give up runs whose lease has ended, and delete what has expired.

        The first sweep, and one that comes late, only begin the leases again: the store may have been unavailable, and
        the workers could not renew them.
        """
        loop = asyncio.get_running_loop()
        is_late = self._swept_at is None or loop.time() - self._swept_at > self.lease
        now = await self.store.now()
        has_changed = True
        while has_changed:  # if nothing has, other workers are doing it
            has_changed = False
            for row in await self.store.due(now, SWEEP_SIZE, queued=False):
                if now >= row.expires_at:
                    has_changed |= await self.store.delete(row)
                    continue
                changed = rules.postpone(row, now, self.lease) if is_late else rules.lose(row, now)
                if changed is None or not await self.store.replace(changed):
                    continue
                has_changed = True
                if changed.state == "failed":
                    logger.warning("task %s of tool %s: its worker was lost; the outcome is unknown", row.id, row.tool)
        self._swept_at = loop.time()

    # --- one run ------------------------------------------------------------------------------------------------------

    def _begin(self, record: TaskRecord) -> None:
        if self._dispatch is None:
            self._dispatch = self._make_dispatch()
        config = msgspec.structs.replace(self._server._connection_config(), handlers=self._dispatch)
        running = self._running[record.id] = _Running(record, TaskRun(config, record))
        job = asyncio.get_running_loop().create_task(self._run(running))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    def _make_dispatch(self) -> "Dispatch":
        """Return a dispatcher without middleware, which has seen the call, and with a state that any worker reads."""
        from jackstay.server._dispatch import Dispatch  # noqa: PLC0415  # loaded by now
        from jackstay.server._input_required import KeyRing  # noqa: PLC0415  # as above

        main = self._server._dispatch
        made = Dispatch(self._server, main.catalogue)
        made.key_ring = lambda: KeyRing(STATE_KEYS)
        made.round_timeout = _STATE_SECONDS
        made.__dict__["dependencies"] = main.dependencies
        return made

    async def _run(self, running: _Running) -> None:
        record = running.record
        work = running.work = asyncio.get_running_loop().create_task(running.run.send("tools/call", _params(record)))
        stopped = asyncio.get_running_loop().create_task(running.must_stop.wait())
        renewals = asyncio.get_running_loop().create_task(self._renew(running))
        try:
            await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
            renewals.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait([work])
            await self._end(record, _change_after(record, work))
        finally:
            for task in (stopped, renewals):
                task.cancel()
            await asyncio.wait((stopped, renewals))
            del self._running[record.id]
            self.wake()

    async def _update(self, id: str, change: Change) -> bool:
        """Change a task now. Returns whether the change applied."""
        now = await self.store.now()
        was_changed = (await update(self.store, id, lambda row: change(row, now=now)))[1]
        if was_changed:
            self.on_change(id)
        return was_changed

    async def _renew(self, running: _Running) -> None:
        """Renew the lease until the run ends; stop the run if it is cancelled, or if its task has another worker."""
        record, loop = running.record, asyncio.get_running_loop()
        renewed_at = loop.time()
        reported_at = 0.0
        while True:
            await asyncio.sleep(min(1.0, self.lease / 3))
            is_due = loop.time() - renewed_at >= self.lease / 3
            message = running.run.message
            if not is_due and (message is None or loop.time() - reported_at < 1.0):
                continue
            renew = partial(rules.renew, attempt=record.attempt, lease=self.lease, message=message)
            try:
                was_changed = await self._update(record.id, renew)
            except Exception as error:  # noqa: BLE001  # of any store
                logger.warning("task %s: renewing its lease failed: %s", record.id, error)
                # Another worker may run it soon: this one must not continue.
                if record.is_repeatable and loop.time() - renewed_at >= self.lease * 0.8:
                    running.must_stop.set()
                    return
                continue
            if not was_changed:
                running.must_stop.set()
                return
            renewed_at = reported_at = loop.time()
            running.run.message = None

    async def _end(self, record: TaskRecord, change: Change) -> None:
        """Store the end of a run. While the store fails, try again until another worker has given it up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.lease * rules.ONCE_LEASES
        while True:
            try:
                was_changed = await self._update(record.id, change)
            except Exception:
                if self._main is None or loop.time() > until:
                    logger.exception("task %s: its result could not be stored", record.id)
                    return
                await asyncio.sleep(RETRY_SECONDS)
            else:
                if not was_changed:
                    logger.warning(
                        "task %s: its result was refused, because the task has ended or has another worker", record.id
                    )
                return


def _params(record: TaskRecord) -> dict[str, Any]:
    """Return the params of the call for this run."""
    meta = {
        META_PROTOCOL_VERSION: record.protocol,
        META_CLIENT_CAPABILITIES: msgspec.Raw(record.capabilities),
        META_PROGRESS_TOKEN: record.id,
    }
    params: dict[str, Any] = {**msgspec.json.decode(record.call, type=dict[str, msgspec.Raw]), "_meta": meta}
    if record.request_state:
        params["requestState"] = record.request_state
    if record.input_responses:
        params["inputResponses"] = {key: msgspec.Raw(value) for key, value in record.input_responses.items()}
    return params


class _Required(msgspec.Struct, rename="camel"):
    result_type: str = "complete"
    input_requests: dict[str, msgspec.Raw] = {}
    request_state: str = ""


def _change_after(record: TaskRecord, work: "asyncio.Task[msgspec.Raw]") -> Change:
    """Return the change of the task after its run: finished, parked, or stopped."""
    error = asyncio.CancelledError() if work.cancelled() else work.exception()
    if isinstance(error, asyncio.CancelledError | ShutdownError):
        return partial(rules.stop, attempt=record.attempt, reason="the server stopped while it ran the task")
    if error is not None:
        return partial(rules.finish, attempt=record.attempt, error=_encode_error(error))
    result = bytes(work.result())
    if b'"input_required"' in result:
        required = msgspec.json.decode(result, type=_Required)
        if required.result_type == "input_required":
            requests = {key: bytes(value) for key, value in required.input_requests.items()}
            state = required.request_state
            return partial(rules.park, attempt=record.attempt, requests=requests, request_state=state)
    return partial(rules.finish, attempt=record.attempt, result=result)


def _encode_error(error: BaseException) -> bytes:
    if not isinstance(error, McpError):
        logger.error("internal error in a task", exc_info=error)
        return b'{"code":-32603,"message":"internal error"}'
    members: dict[str, Any] = {"code": -32603 if error.code is None else error.code, "message": error.message}
    if isinstance(error, JsonRpcError) and error.data is not None:
        members["data"] = error.data
    return encode_json(members)
