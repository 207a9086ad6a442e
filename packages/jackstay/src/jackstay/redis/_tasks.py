"""Tasks in Redis: a hash for each, and sorted sets of their ids by the time when they are due.

Each change of a task is one script, so that Redis makes it completely or not at all. The fields of the hash: `r` the
revision, `d` the encoded record. None of the keys expires: with the policies `noeviction` and `volatile-*` Redis keeps
them until a worker deletes the task.
"""

import logging
from typing import Any

import msgspec

from jackstay.errors import BackpressureError, TransportError, UsageError
from jackstay.redis._engine import Command, Engine
from jackstay.server import TaskRecord
from jackstay.server.http import id_hash

logger = logging.getLogger("jackstay.redis")

# Milliseconds that a new task, and the claim of one that may run only once, wait for a replica, if there are any.
REPLICA_TIMEOUT = 100

# Seconds and microseconds of the clock of Redis, the number of its replicas, and "1" if its memory is full: then it
# refuses also a write that would change nothing. KEYS: an index.
_NOW = """
local time = redis.call('TIME')
local replicas = string.match(redis.call('INFO', 'replication'), 'connected_slaves:(%d+)')
local reply = redis.pcall('ZADD', KEYS[1], 'XX', 0, '')
local is_full = type(reply) == 'table' and reply.err and string.find(reply.err, 'OOM')
return {time[1], time[2], replicas or '0', is_full and '1' or '0'}
"""

# KEYS: the task, its idempotency key, the tasks of its principal, the index. ARGV: the id, the revision, the record,
# its time, the limit, the prefix of tasks, "1" if there is a key, "1" to write in any case: WAIT covers the last write
# of a connection; "1" to store nothing new and return 0, because Redis is full: its refusal of a write would not prove
# that the command was not also sent before. A full Redis refuses only the first write of a script.
_CREATE = """
local task = KEYS[1]
local known = redis.call('HGET', task, 'd')
if not known and ARGV[7] == '1' then
  local id = redis.call('GET', KEYS[2])
  if id then
    task = ARGV[6] .. id
    known = redis.call('HGET', task, 'd')
  end
end
if known then
  if ARGV[8] == '1' then redis.call('HSET', task, 'd', known) end
  return known
end
if ARGV[9] == '1' then return 0 end
if redis.call('SCARD', KEYS[3]) >= tonumber(ARGV[5]) then return false end
redis.call('HSET', KEYS[1], 'r', ARGV[2], 'd', ARGV[3])
if ARGV[7] == '1' then redis.call('SET', KEYS[2], ARGV[1]) end
redis.call('SADD', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[4], ARGV[4], ARGV[1])
return ARGV[3]
"""

# KEYS: the task, the index of its new state, the other index. ARGV: the id, the revision before, the new one, the
# record, its time. A command whose reply was lost is sent again: a change that is already stored has succeeded. Two
# workers never store the same bytes, because a claim contains the worker's name.
_REPLACE = """
local revision = redis.call('HGET', KEYS[1], 'r')
if revision == ARGV[3] and redis.call('HGET', KEYS[1], 'd') == ARGV[4] then return 1 end
if revision ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'r', ARGV[3], 'd', ARGV[4])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[5], ARGV[1])
return 1
"""

# KEYS: the task, its idempotency key, the tasks of its principal, both indexes. ARGV: the id, the revision, "1" if
# there is a key.
_DELETE = """
if redis.call('HGET', KEYS[1], 'r') ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
if ARGV[3] == '1' then redis.call('DEL', KEYS[2]) end
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
return 1
"""

# Seconds until a record that cannot be read is looked at again: perhaps by a worker of another version.
UNREADABLE_SECONDS = 60.0

# Records that are returned at once have about so many bytes: results may be large, and time is short.
MAX_DUE_BYTES = 1 << 20

# KEYS: the index. ARGV: the prefix of tasks, the time, the limit, the limit of bytes. A task that somebody else deleted
# leaves the index.
_DUE = """
local found, size = {}, 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[2], 'LIMIT', 0, ARGV[3])) do
  local record = redis.call('HGET', ARGV[1] .. id, 'd')
  if record then
    found[#found + 1] = {id, record}
    size = size + #record
    if size > tonumber(ARGV[4]) then break end
  else
    redis.call('ZREM', KEYS[1], id)
  end
end
return found
"""


class RedisTaskStore:
    """Stores tasks in Redis. The backend that it belongs to must be open."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.prefix = ""
        # What Redis reported when the backend was opened; empty if it was down.
        self.settings: dict[str, Any] = {}
        # Whether a new task must reach a replica, too, and whether there is no memory for one.
        self._has_replicas = self._is_full = False

    def __repr__(self) -> str:
        return f"<RedisTaskStore {self.prefix!r}>"

    def _task(self, id: str) -> str:
        return f"{self.prefix}t:{id}"

    def _index(self, *, queued: bool) -> str:
        return f"{self.prefix}{'tq' if queued else 'to'}"

    def _keys(self, record: TaskRecord) -> tuple[str, str, str]:
        return (
            self._task(record.id),
            f"{self.prefix}tk:{record.idempotency_key}",
            f"{self.prefix}tp:{id_hash(record.principal)}",
        )

    async def open(self, name: str) -> None:  # noqa: ARG002  # the backend has set the prefix
        """Check that Redis keeps tasks. Raises: UsageError if it evicts keys that do not expire."""
        policy = str(self.settings.get("maxmemory_policy", "noeviction"))
        if policy != "noeviction" and not policy.startswith("volatile"):
            message = f"Redis has maxmemory-policy {policy}, which deletes tasks; use noeviction"
            raise UsageError(message, path="backend")
        if not self.settings.get("aof_enabled", True):
            logger.warning("tasks do not survive a restart of this Redis; use appendonly yes")

    async def close(self) -> None:
        """Do nothing: the backend disconnects."""

    async def now(self) -> float:
        """Return the time of Redis."""
        seconds, microseconds, replicas, full = await self._engine.run("EVAL", _NOW, 1, self._index(queued=True))
        self._has_replicas, self._is_full = int(replicas) > 0, full == b"1"
        return int(seconds) + int(microseconds) / 1e6

    async def create(self, record: TaskRecord, limit: int) -> TaskRecord | None:
        """Store a new task, or return the one that is stored.

        Raises: BackpressureError if Redis was full at the last `now()`; TransportError if it does not
        respond, refuses the task, or no replica confirmed it.
        """
        keys = (*self._keys(record), self._index(queued=record.state == "queued"))
        values = (record.id, record.revision, record.encode(), repr(record.due_at), limit, self._task(""))
        flags = (_flag(bool(record.idempotency_key)), _flag(self._has_replicas), _flag(self._is_full))
        commands: list[Command] = [("EVAL", _CREATE, len(keys), *keys, *values, *flags)]
        if self._has_replicas:
            commands.append(("WAIT", 1, REPLICA_TIMEOUT))
        created, *replicas = await self._engine.run_all(commands)
        if created == 0:
            raise BackpressureError("Redis is full: no task can be created")
        if created is not None and replicas == [0]:
            raise _unconfirmed("task")
        return None if created is None else TaskRecord.decode(created)

    async def load(self, id: str) -> TaskRecord | None:
        """Return the task with this id, or None."""
        found = await self._engine.run("HGET", self._task(id), "d")
        return None if found is None else TaskRecord.decode(found)

    async def replace(self, record: TaskRecord) -> bool:
        """Replace the previous revision of the task."""
        return bool(await self._engine.run(*self._replacement(record)))

    async def claim(self, record: TaskRecord) -> bool:
        """Replace a queued task by its run.

        If a replica that does not have the run was promoted, the task would be queued there, and run again. So a run
        that must not be repeated has to be confirmed by a replica, if there are any.

        Raises: TransportError if Redis does not respond, or no replica confirmed the run.
        """
        commands: list[Command] = [self._replacement(record)]
        if self._has_replicas and not record.is_repeatable:
            commands.append(("WAIT", 1, REPLICA_TIMEOUT))
        was_replaced, *replicas = await self._engine.run_all(commands)
        if was_replaced and replicas == [0]:
            raise _unconfirmed("run of a task")
        return bool(was_replaced)

    def _replacement(self, record: TaskRecord) -> Command:
        is_queued = record.state == "queued"
        keys = (self._task(record.id), self._index(queued=is_queued), self._index(queued=not is_queued))
        values = (record.id, record.revision - 1, record.revision, record.encode(), repr(record.due_at))
        return ("EVAL", _REPLACE, len(keys), *keys, *values)

    async def delete(self, record: TaskRecord) -> bool:
        """Delete this revision of the task."""
        keys = (*self._keys(record), self._index(queued=True), self._index(queued=False))
        values = (record.id, record.revision, _flag(bool(record.idempotency_key)))
        return bool(await self._engine.run("EVAL", _DELETE, len(keys), *keys, *values))

    async def due(self, before: float, limit: int, *, queued: bool) -> list[TaskRecord]:
        """Return the tasks that are due, the earliest first."""
        values = (self._task(""), repr(before), limit, MAX_DUE_BYTES)
        found = await self._engine.run("EVAL", _DUE, 1, self._index(queued=queued), *values)
        records = []
        for id, row in found:
            try:
                records.append(TaskRecord.decode(row))
            except msgspec.DecodeError as error:
                logger.error("task %s cannot be read; another program or version wrote it: %s", id.decode(), error)
                later = repr(before + UNREADABLE_SECONDS)
                await self._engine.run("ZADD", self._index(queued=queued), "XX", later, id)
        return records


def _unconfirmed(what: str) -> TransportError:
    return TransportError(f"no replica of Redis confirmed the {what} in {REPLICA_TIMEOUT} ms")


def _flag(value: bool) -> str:  # an argument of a script
    return "1" if value else "0"


__all__ = ["RedisTaskStore"]
