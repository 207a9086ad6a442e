"""The records of tasks, the changes that a record may undergo, and the contract of the stores that keep them.

A store does not implement the rules: it creates, loads, replaces and deletes records, each atomically. The functions of
this module return the changed record, or None if the change does not apply to its state.
`jackstay.testing.task_store_suite` has tests for implementations.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

# The last three are final. On the wire `queued` and `running` are "working", and `parked` is "input_required".
TaskState: TypeAlias = Literal["queued", "running", "parked", "completed", "failed", "cancelled"]

# How many runs of a repeatable task may be lost with their worker before it fails.
MAX_LOSSES: Final = 5
# Seconds that the end of a task can be read at least, even if its time to live is over before.
MIN_RESULT_SECONDS: Final = 60.0
# A task that is not repeatable is given up after so many leases: a delay costs little.
ONCE_LEASES: Final = 4

_OUTCOME_UNKNOWN: Final = b'{"code":-32603,"message":%b,"data":{"outcome":"unknown"}}'


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task as it is stored. Times are seconds since 1970, by the clock of the store.

    `call` is the encoded params of the `tools/call` request without `_meta`; `capabilities` and `protocol` are what its
    client declared. `principal`, `scopes` and `claims` describe the caller. `idempotency_key` is unique among the
    tasks of a store unless it is empty; `digest` identifies what was called.

    `revision` increases by one with every change. `attempt` increases with every run and identifies the worker that
    owns the run; `worker` is its name. `due_at` is when the record needs attention: a queued task now, a running one
    when its lease ends, any other when it expires. `input_requests` are those without a response; `input_responses` and
    `request_state` are for the next run.
    """

    id: str
    tool: str
    call: bytes
    created_at: float
    updated_at: float
    expires_at: float
    due_at: float
    state: TaskState = "queued"
    revision: int = 1
    attempt: int = 0
    worker: str = ""
    losses: int = 0
    principal: str = ""
    scopes: tuple[str, ...] | None = None
    claims: Mapping[str, Any] = {}
    protocol: str = ""
    capabilities: bytes = b"{}"
    is_repeatable: bool = False
    idempotency_key: str = ""
    digest: str = ""
    status_message: str = ""
    is_cancelled: bool = False
    input_requests: Mapping[str, bytes] = {}
    input_responses: Mapping[str, bytes] = {}
    request_state: str = ""
    result: bytes = b""
    error: bytes = b""

    @property
    def has_ended(self) -> bool:
        """True in a final state."""
        return self.state in ("completed", "failed", "cancelled")

    def encode(self) -> bytes:
        """Return the record as bytes, for stores."""
        return _encode(self)

    @staticmethod
    def decode(data: bytes) -> "TaskRecord":
        """Return the record that `encode()` returned."""
        return _decode(data)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TaskRecord).decode


class TaskStore(Protocol):
    """Keeps the records of tasks. Several workers use the same store, each with its own object.

    Atomicity: `create`, `replace` and `delete` are each a single step that happens completely or not at all, also if
    the worker or the store is killed meanwhile. Of two workers that replace or delete the same revision, exactly one
    succeeds. Once a method has returned, what it stored is durable (as far as the store is: a memory store ends with
    its process), and every later call of any worker sees it. A method that raises may have happened or not: the caller
    loads the record to find out.

    The store needs no knowledge of states: it indexes `idempotency_key`, `principal`, `state == "queued"` and `due_at`,
    and may treat the rest, `record.encode()`, as bytes. It deletes nothing by itself.
    """

    async def open(self, name: str) -> None:
        """Connect. Servers with the same name share their tasks. Called before anything else, once per worker."""

    async def close(self) -> None:
        """Disconnect. The store can be opened again."""

    async def now(self) -> float:
        """Return the time in seconds since 1970, by the clock that all workers share."""

    async def create(self, record: TaskRecord, limit: int) -> TaskRecord | None:
        """Store a new task and return it; or return the task that has the same id or idempotency key.

        Returns None, and stores nothing, if its principal already has `limit` tasks. Raises: BackpressureError if it is
        certain that the task was not and will not be stored; after any other exception the call may run.
        """

    async def load(self, id: str) -> TaskRecord | None:
        """Return the task with this id, or None."""

    async def replace(self, record: TaskRecord) -> bool:
        """Replace the stored record if its revision is `record.revision - 1`. Returns whether it was.

        A store may have a method `claim(record)`, which is called instead for the beginning of a run. If it raises, the
        run does not begin, and is returned to the queue.
        """

    async def delete(self, record: TaskRecord) -> bool:
        """Delete the stored record if its revision is `record.revision`. Returns whether it was."""

    async def due(self, before: float, limit: int, *, queued: bool) -> list[TaskRecord]:
        """Return up to `limit` tasks with `due_at <= before`, the earliest first: those queued, or all others.

        Fewer, but at least one, if their results are large.
        """


class MemoryTaskStore:
    """Tasks in the memory of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a server may serve on several loops
        self._records: dict[str, TaskRecord] = {}
        self._by_key: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<MemoryTaskStore of {len(self._records)} tasks>"

    async def open(self, name: str) -> None:
        """Do nothing: memory is always there."""

    async def close(self) -> None:
        """Do nothing."""

    async def now(self) -> float:
        """Return the time of this machine."""
        return unix_time()

    async def create(self, record: TaskRecord, limit: int) -> TaskRecord | None:
        """Store a new task, or return the one that is stored."""
        with self._lock:
            known = self._records.get(self._by_key.get(record.idempotency_key, record.id))
            if known is not None:
                return known
            if sum(other.principal == record.principal for other in self._records.values()) >= limit:
                return None
            self._records[record.id] = record
            if record.idempotency_key:
                self._by_key[record.idempotency_key] = record.id
        return record

    async def load(self, id: str) -> TaskRecord | None:
        """Return the task with this id, or None."""
        return self._records.get(id)

    async def replace(self, record: TaskRecord) -> bool:
        """Replace the previous revision of the task."""
        with self._lock:
            stored = self._records.get(record.id)
            if stored is None or stored.revision != record.revision - 1:
                return False
            self._records[record.id] = record
        return True

    async def delete(self, record: TaskRecord) -> bool:
        """Delete this revision of the task."""
        with self._lock:
            stored = self._records.get(record.id)
            if stored is None or stored.revision != record.revision:
                return False
            del self._records[record.id]
            self._by_key.pop(record.idempotency_key, None)
        return True

    async def due(self, before: float, limit: int, *, queued: bool) -> list[TaskRecord]:
        """Return the tasks that are due, the earliest first."""
        with self._lock:
            found = [
                row for row in self._records.values() if row.due_at <= before and (row.state == "queued") is queued
            ]
        return sorted(found, key=lambda row: row.due_at)[:limit]


def unix_time() -> float:
    """Return the time of this machine."""
    return time.time()


# --- changes ----------------------------------------------------------------------------------------------------------


def _change(record: TaskRecord, **fields: Any) -> TaskRecord:
    return msgspec.structs.replace(record, revision=record.revision + 1, **fields)


def _end(record: TaskRecord, now: float, state: TaskState, **fields: Any) -> TaskRecord:
    expires_at = max(record.expires_at, now + MIN_RESULT_SECONDS)
    cleared = {"call": b"", "capabilities": b"{}", "request_state": "", "input_requests": {}, "input_responses": {}}
    times = {"updated_at": now, "due_at": expires_at, "expires_at": expires_at}
    return _change(record, state=state, **times, **cleared, **fields)


def lease_end(record: TaskRecord, now: float, lease: float) -> float:
    """Return when a run that begins or is renewed now counts as lost."""
    return min(now + (lease if record.is_repeatable else lease * ONCE_LEASES), record.expires_at)


def claim(record: TaskRecord, now: float, lease: float, worker: str = "") -> TaskRecord | None:
    """Begin a run of a queued task."""
    if record.state != "queued" or now >= record.expires_at:
        return None
    due_at = lease_end(record, now, lease)
    return _change(record, state="running", attempt=record.attempt + 1, worker=worker, due_at=due_at)


def release(record: TaskRecord, now: float) -> TaskRecord:
    """Return a claimed task to the queue: its run has not begun."""
    return _change(record, state="queued", due_at=now)


def _is_own(record: TaskRecord, attempt: int) -> bool:
    return record.state == "running" and record.attempt == attempt


def renew(record: TaskRecord, attempt: int, now: float, lease: float, message: str | None = None) -> TaskRecord | None:
    """Extend the lease of a run, and set its status message unless it is None. Not for a cancelled task."""
    if not _is_own(record, attempt) or record.is_cancelled:
        return None
    due_at = lease_end(record, now, lease)
    if message is None or message == record.status_message:
        return _change(record, due_at=due_at)
    return _change(record, due_at=due_at, status_message=message, updated_at=now)


def park(
    record: TaskRecord, attempt: int, now: float, requests: Mapping[str, bytes], request_state: str
) -> TaskRecord | None:
    """End a run that requires input. The next one begins when all requests have a response."""
    if not _is_own(record, attempt):
        return None
    if record.is_cancelled:
        return _end(record, now, "cancelled")
    return _change(
        record,
        state="parked",
        updated_at=now,
        due_at=record.expires_at,
        input_requests=dict(requests),
        input_responses={},
        request_state=request_state,
    )


def answer(record: TaskRecord, now: float, responses: Mapping[str, bytes]) -> TaskRecord | None:
    """Add the responses to requests that have none yet; others are ignored."""
    given = {key: value for key, value in responses.items() if key in record.input_requests}
    if record.state != "parked" or not given:
        return None
    left = {key: value for key, value in record.input_requests.items() if key not in given}
    fields: dict[str, Any] = {} if left else {"state": "queued", "due_at": now}
    every = {**record.input_responses, **given}
    return _change(record, updated_at=now, input_requests=left, input_responses=every, **fields)


def finish(
    record: TaskRecord, attempt: int, now: float, *, result: bytes = b"", error: bytes = b""
) -> TaskRecord | None:
    """End a run with a result or with a JSON-RPC error. None if it is not the current run: there is one end only."""
    if not _is_own(record, attempt):
        return None
    return _end(record, now, "failed" if error else "completed", result=result, error=error)


def stop(record: TaskRecord, attempt: int, now: float, reason: str) -> TaskRecord | None:
    """End a run that was interrupted: by a cancellation, or because its worker stops."""
    if not _is_own(record, attempt):
        return None
    return _end(record, now, "cancelled") if record.is_cancelled else _lose(record, now, reason)


def cancel(record: TaskRecord, now: float) -> TaskRecord | None:
    """Cancel a task. A running one ends when its worker has stopped it."""
    if record.has_ended or record.is_cancelled:
        return None
    return _change(record, is_cancelled=True) if record.state == "running" else _end(record, now, "cancelled")


def lose(record: TaskRecord, now: float) -> TaskRecord | None:
    """Give up a run whose lease has ended: its worker is dead, or cannot reach the store."""
    if record.state != "running" or now < record.due_at:
        return None
    return _lose(record, now, "the worker that ran the task was lost")


def _lose(record: TaskRecord, now: float, reason: str) -> TaskRecord:
    losses = record.losses + 1
    if record.is_repeatable and losses < MAX_LOSSES and not record.is_cancelled:
        message = f"{reason}; it is repeated (attempt {record.attempt + 1})"
        fields: dict[str, Any] = {"updated_at": now, "due_at": now, "status_message": message}
        return _change(record, state="queued", losses=losses, **fields)
    error = _OUTCOME_UNKNOWN % msgspec.json.encode(f"{reason}; the outcome is unknown")
    return _end(record, now, "failed", error=error, losses=losses)


def postpone(record: TaskRecord, now: float, lease: float) -> TaskRecord | None:
    """Begin the lease of a run again: the store or this worker was unavailable, so its worker may be alive."""
    if record.state != "running" or record.due_at > now:
        return None
    return _change(record, due_at=lease_end(record, now, lease))


__all__ = ["MemoryTaskStore", "TaskRecord", "TaskState", "TaskStore"]
