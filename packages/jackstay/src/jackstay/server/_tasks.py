"""The tasks extension (`io.modelcontextprotocol/tasks`, SEP-2663): tools that run in the background.

`Tasks` turns calls of tools with `task=` into records of a `TaskStore` and serves `tasks/get`, `tasks/update` and
`tasks/cancel`. The records are worked off by `_task_worker`, in this process or another one.
"""

import hashlib
import logging
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from jackstay.errors import BackpressureError, JsonRpcError, UsageError
from jackstay.extensions import Extension
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ErrorCode
from jackstay.server import _task_store as rules
from jackstay.server._context import Context
from jackstay.server._driver import Caller, Driver, Outcome, Serve
from jackstay.server._extensions import ServerExtension, is_declared, undeclared
from jackstay.server._failures import InsufficientScopeError
from jackstay.server._in_process import InProcessRequest
from jackstay.server._input_required import KeyRing, resign
from jackstay.server._task_listeners import TaskListeners, wanted_tasks
from jackstay.server._task_store import MemoryTaskStore, TaskRecord, TaskStore
from jackstay.server._task_worker import STATE_KEYS, TaskWorker, update
from jackstay.types import DECODE_ERRORS, TASKS_EXTENSION, SubscriptionsListenRequestParams, decode, encode_json

if TYPE_CHECKING:
    from jackstay.server._backend import Backend
    from jackstay.server._dispatch import Dispatch
    from jackstay.server._server import Server
    from jackstay.server._tools import ToolEntry

logger = logging.getLogger("jackstay.server")

Members: TypeAlias = dict[str, Any]

# The members of `_meta` by which a client makes a call that it may send again: a random key, and true if it was sent
# before. The extension of the same name declares that the server supports them.
IDEMPOTENCY: Final = "jackstay/idempotency"
META_KEY: Final = "jackstay/idempotencyKey"
META_RESENT: Final = "jackstay/isResent"
MAX_KEY_LENGTH: Final = 256

_STATUS: Final[Mapping[str, str]] = {"queued": "working", "running": "working", "parked": "input_required"}
_FINAL_STATE_EXPIRY: Final = 2.0**52


class _Meta(msgspec.Struct):
    key: str = msgspec.field(name=META_KEY, default="")
    is_resent: bool = msgspec.field(name=META_RESENT, default=False)


class _Call(msgspec.Struct, rename="camel"):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    request_state: str | None = None
    input_responses: dict[str, Any] | None = None
    meta: _Meta = msgspec.field(name="_meta", default_factory=_Meta)


class TaskParams(msgspec.Struct, rename="camel"):
    task_id: str


class UpdateParams(msgspec.Struct, rename="camel"):
    task_id: str
    input_responses: dict[str, msgspec.Raw] = {}


_read_call = msgspec.json.Decoder(_Call).decode


class Tasks(ServerExtension):
    """Runs calls of tools with `task=` in the background: `Server(extensions=[Tasks(SqliteTaskStore("tasks.db"))])`.

    Without a `store`, the tasks are those of the server's backend, if it has one, else in memory. A task and its
    result are kept for `ttl` seconds. Clients should poll every `poll_interval` seconds. A process runs `slots`
    tasks at a time; with 0 it only creates them. A worker that does not renew its `lease` counts as dead. A principal
    may have `max_tasks` tasks, including those that have ended, until they expire; all callers without authentication
    are one principal.

    Raises: UsageError for a value that is out of range.
    """

    def __init__(
        self,
        store: TaskStore | None = None,
        *,
        ttl: float = 3600.0,
        poll_interval: float = 1.0,
        slots: int = 10,
        lease: float = 15.0,
        max_tasks: int = 1000,
    ) -> None:
        super().__init__(TASKS_EXTENSION, since="2026-07-28")
        limits: tuple[tuple[str, object, float], ...] = (
            ("ttl", ttl, 1.0),
            ("poll_interval", poll_interval, 0.001),
            ("slots", slots, 0),
            ("lease", lease, 0.1),
            ("max_tasks", max_tasks, 1),
        )
        for name, value, low in limits:
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= 1e9:
                raise UsageError(f"{name} must be a number of at least {low:g}, not {value!r}", path=name)
        self.ttl = ttl
        self.poll_interval = poll_interval
        self.slots = slots
        self.lease = lease
        self.max_tasks = max_tasks
        self.methods.update({"tasks/get": self._get, "tasks/update": self._update, "tasks/cancel": self._cancel})
        self._given_store = store
        self._deferrable: set[tuple[int, int]] = set()
        self._listeners = TaskListeners(lambda record: encode_json(self._details(record)), poll_interval)
        self._server: Server | None = None
        self._worker: TaskWorker | None = None

    @property
    def store(self) -> TaskStore:
        """The store of the tasks. Raises: UsageError, if no server uses this."""
        return self.worker.store

    @property
    def worker(self) -> TaskWorker:
        """What runs the tasks. Raises: UsageError, if no server uses this."""
        if self._worker is None:
            raise UsageError(
                "this Tasks object belongs to no server; pass it to Server(extensions=[...])", path="Tasks"
            )
        return self._worker

    def bind(self, server: "Server") -> None:
        """Open the store when the server starts, and run the tasks until it stops. Raises: UsageError."""
        if self._server is not None:
            raise UsageError("this Tasks object already belongs to a server; create another one", path="extensions")
        self._server = server
        store = self._given_store
        if store is None:
            store = MemoryTaskStore() if server._backend is None else server._backend.tasks
        assert server._extensions is not None  # this is one of them
        server._extensions.rows = (*server._extensions.rows, Extension(IDEMPOTENCY, since=self.since))
        self._worker = TaskWorker(server, store, self.slots, self.lease)
        self._worker.on_change = self._listeners.changed
        lifetime = server._lifetime
        lifetime.startup_hooks.append(self._worker.start)
        lifetime.final_hooks.insert(0, self._worker.stop)

    def use_backend(self, backend: "Backend") -> None:
        """Keep the tasks in a backend that the server got after this was bound, unless there is a store."""
        assert self._server is not None
        assert self._server._bus is not None  # of the backend
        self._server._bus.workers.add(self.worker)
        if self._given_store is None:
            self.worker.store = backend.tasks

    @property
    def needs_one_process(self) -> bool:
        """True if the tasks are in the memory of this process."""
        return isinstance(self.store, MemoryTaskStore)

    def install(self, dispatch: "Dispatch") -> None:
        """Serve tools as tasks."""
        before, capability = dispatch._methods["tools/call"]
        dispatch.deferrable = self._deferrable
        dispatch._methods["tools/call"] = partial(self._call_tool, dispatch, before), capability
        before, capability = dispatch._methods["subscriptions/listen"]
        dispatch._methods["subscriptions/listen"] = partial(self._listen, dispatch, before), capability

    # --- creation -----------------------------------------------------------------------------------------------------

    def _call_tool(
        self, dispatch: "Dispatch", before: Serve, connection: Driver, request: e.Serve, caller: Caller
    ) -> Outcome:
        try:
            call = _read_call(request.params or b"{}")
        except DECODE_ERRORS:
            return before(connection, request, caller)  # it reports what is invalid
        entry = dispatch.catalogue.find_tool(call.name)
        task = None if entry is None else entry.task
        # A server that is mounted in another one, and a call in this process, have no client that could poll.
        if connection.handlers is not dispatch or isinstance(connection, InProcessRequest) or request.meta is None:
            task = None
        elif task is not None and not is_declared(TASKS_EXTENSION, connection, request):
            if task == "required":
                raise undeclared(TASKS_EXTENSION, "tools/call")
            task = None
        if entry is None or task is None:
            if call.meta.is_resent:
                raise _not_kept()
            return before(connection, request, caller)
        if entry.scopes and caller.scopes is not None and not entry.scopes <= caller.scopes:
            raise InsufficientScopeError(*entry.scopes)
        if len(call.meta.key) > MAX_KEY_LENGTH:
            message = f"{META_KEY} is longer than {MAX_KEY_LENGTH} characters"
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, message)
        record = self._make_record(entry, call, request, caller)
        if task == "deferred":
            return self._defer(before, connection, request, caller, record, is_resent=call.meta.is_resent)
        return self._create(connection, record, has_begun=call.meta.is_resent)

    def _make_record(self, entry: "ToolEntry", call: _Call, request: e.Serve, caller: Caller) -> TaskRecord:
        """Return the record of a call, without its times."""
        assert request.meta is not None
        encoded = b'{"name":%b,"arguments":%b}' % (encode_json(entry.key), bytes(call.arguments))
        key = ""
        if call.meta.key:
            key = hashlib.sha256(encode_json([caller.principal, call.meta.key])).hexdigest()
        sorted_call = msgspec.json.encode(msgspec.json.decode(encoded), order="sorted")
        return TaskRecord(
            id=secrets.token_urlsafe(18),
            tool=entry.key,
            call=encoded,
            created_at=0.0,
            updated_at=0.0,
            expires_at=0.0,
            due_at=0.0,
            principal=caller.principal,
            scopes=None if caller.scopes is None else tuple(sorted(caller.scopes)),
            claims=dict(caller.claims),
            protocol=request.version,
            capabilities=bytes(request.meta.capabilities),
            is_repeatable=entry.is_repeatable,
            idempotency_key=key,
            digest=hashlib.sha256(sorted_call).hexdigest(),
        )

    async def _create(self, connection: Driver, record: TaskRecord, *, has_begun: bool) -> bytes:
        """Store a task and return its handle. Raises: JsonRpcError, if it was not stored.

        `has_begun`: a part of the call has run, or it was sent before, so that its outcome is unknown if this fails.
        """
        refused: Members = {"retryable": True, "mayHaveRun": False}
        if has_begun:
            refused = {"outcome": "unknown", "mayHaveRun": True}
        try:
            now = await self.store.now()
            dated: TaskRecord = msgspec.structs.replace(
                record, created_at=now, updated_at=now, due_at=now, expires_at=now + self.ttl
            )
            created = await self._store(dated)
        except JsonRpcError:
            raise
        except Exception as error:
            end = "may have run" if has_begun else "did not run"
            raise JsonRpcError(-32603, f"the task store is not available; the call {end}", refused) from error
        if created is None:
            raise JsonRpcError(-32603, f"too many tasks: the limit is {self.max_tasks}", {**refused, "reason": "busy"})
        if created.digest != record.digest or created.principal != record.principal:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, "the idempotency key belongs to another call")
        self.worker.notify_queued()
        members = {"resultType": "task", **self._members(created)}
        return connection.server_config.finalize(encode_json(members))

    async def _store(self, record: TaskRecord) -> TaskRecord | None:
        """Create a record. A failure is followed by a second attempt: the first may have stored it, or not.

        Raises: BackpressureError, if it was not stored; JsonRpcError, if that is unknown.
        """
        try:
            return await self.store.create(record, self.max_tasks)
        except BackpressureError:
            raise
        except Exception:
            logger.exception("creating a task failed; trying again")
        try:
            return await self.store.create(record, self.max_tasks)
        except Exception as error:
            message = "the task store is not available; the call may run nevertheless"
            raise JsonRpcError(-32603, message, {"outcome": "unknown", "mayHaveRun": True}) from error

    async def _defer(
        self,
        before: Serve,
        connection: Driver,
        request: e.Serve,
        caller: Caller,
        record: TaskRecord,
        *,
        is_resent: bool,
    ) -> bytes:
        """Run a call until `ctx.background()`, and create a task for the rest."""
        if is_resent:
            raise _not_kept()
        mark = id(connection), request.serial
        self._deferrable.add(mark)
        try:
            outcome = before(connection, request, caller)
            result = await outcome if outcome is not None and not isinstance(outcome, bytes) else outcome
        finally:
            self._deferrable.discard(mark)
        assert result is not None
        members: Members = msgspec.json.decode(result) if b'"task"' in result else {}
        if members.get("resultType") != "task":
            return result
        assert self._server is not None
        state = resign(members["requestState"], self._server._key_ring, KeyRing(STATE_KEYS), _FINAL_STATE_EXPIRY)
        deferred: TaskRecord = msgspec.structs.replace(record, request_state=state)
        return await self._create(connection, deferred, has_begun=True)

    # --- the methods of the extension ---------------------------------------------------------------------------------

    async def _get(self, ctx: Context, params: TaskParams) -> Members:
        return {"resultType": "complete", **self._details(await self._find(params.task_id, ctx.principal))}

    def _listen(
        self, dispatch: "Dispatch", before: Serve, connection: Driver, request: e.Serve, caller: Caller
    ) -> Outcome:
        try:
            ids = wanted_tasks(request)
        except DECODE_ERRORS:
            ids = None  # `before` reports what is invalid
        if ids is None or connection.handlers is not dispatch:
            return before(connection, request, caller)
        if not is_declared(TASKS_EXTENSION, connection, request):
            raise undeclared(TASKS_EXTENSION, "subscriptions/listen")
        # Decoded now: the params are a view of the frame.
        wanted = decode(SubscriptionsListenRequestParams, request.params or b"{}").notifications

        async def load(id: str) -> TaskRecord | None:
            record = await self.store.load(id)
            return record if record is not None and record.principal == caller.principal else None

        return self._listeners.listen(connection, request, wanted, ids, load=load, has_resource=dispatch._has_resource)

    def _details(self, record: TaskRecord) -> Members:
        """Return all of a task, as `tasks/get` and notifications have it."""
        members = self._members(record)
        if record.state == "parked":
            members["inputRequests"] = {key: msgspec.Raw(value) for key, value in record.input_requests.items()}
        elif record.state == "completed":
            members["result"] = msgspec.Raw(record.result)
        elif record.state == "failed":
            members["error"] = msgspec.Raw(record.error)
        return members

    async def _update(self, ctx: Context, params: UpdateParams) -> Members:
        responses = {key: bytes(value) for key, value in params.input_responses.items()}
        await self._find(params.task_id, ctx.principal)
        await self._change(params.task_id, lambda record, now: rules.answer(record, now, responses))
        self.worker.notify_queued()
        return {}

    async def _cancel(self, ctx: Context, params: TaskParams) -> Members:
        await self._find(params.task_id, ctx.principal)
        await self._change(params.task_id, rules.cancel)
        self.worker.notify_cancelled(params.task_id)
        return {}

    async def _change(self, id: str, change: Any) -> None:
        try:
            now = await self.store.now()
            await update(self.store, id, lambda record: change(record, now))
            self._listeners.changed(id)
        except Exception as error:
            raise _unavailable() from error

    async def _find(self, id: str, principal: str) -> TaskRecord:
        """Return a task of this caller. Raises: JsonRpcError (-32602), also for the tasks of others."""
        try:
            record = await self.store.load(id)
        except Exception as error:
            raise _unavailable() from error
        if record is None or record.principal != principal:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, f"unknown task: {id[:128]}")
        return record

    def _members(self, record: TaskRecord) -> Members:
        """Return the members of a task on the wire."""
        members: Members = {
            "taskId": record.id,
            "status": _STATUS.get(record.state, record.state),
            "createdAt": _iso(record.created_at),
            "lastUpdatedAt": _iso(record.updated_at),
            "ttlMs": max(1, round((record.expires_at - record.created_at) * 1000)),
            "pollIntervalMs": max(1, round(self.poll_interval * 1000)),
        }
        if record.status_message:
            members["statusMessage"] = record.status_message
        return members


def enable_tasks(server: "Server") -> None:
    """Add the tasks extension to a server that does not have it. Raises: UsageError, if the server already serves."""
    extensions = server._extensions
    rows = () if extensions is None else extensions.rows
    if any(isinstance(row, Tasks) for row in rows):
        return
    if "_dispatch" in server.__dict__:
        message = "the server is running without tasks: create it with Server(extensions=[Tasks()])"
        raise UsageError(message, path="task")
    server.add_extensions((Tasks(),))


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _not_kept() -> JsonRpcError:
    message = "this call is not kept, so it cannot be sent again; its outcome is unknown"
    return JsonRpcError(-32603, message, {"outcome": "unknown", "mayHaveRun": True})


def _unavailable() -> JsonRpcError:
    return JsonRpcError(-32603, "the task store is not available", {"retryable": True})
