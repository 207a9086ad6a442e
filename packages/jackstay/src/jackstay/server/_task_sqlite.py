"""`SqliteTaskStore`: tasks in a file, for the workers of one machine. They survive restarts.

All statements run in one thread of the store, so the event loop never waits for the disk.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from jackstay.errors import StateError, UsageError
from jackstay.server._task_store import TaskRecord, unix_time

R = TypeVar("R")

# Seconds to wait for the lock of another process.
_BUSY_TIMEOUT: Final = 10.0

# `synchronous=FULL`: a task that was acknowledged survives a loss of power, too.
_SCHEMA: Final = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
CREATE TABLE IF NOT EXISTS tasks (
    server TEXT NOT NULL, id TEXT NOT NULL, key TEXT, principal TEXT NOT NULL, queued INTEGER NOT NULL,
    due REAL NOT NULL, revision INTEGER NOT NULL, record BLOB NOT NULL, PRIMARY KEY (server, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS tasks_by_key ON tasks (server, key) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_by_due ON tasks (server, queued, due);
CREATE INDEX IF NOT EXISTS tasks_by_principal ON tasks (server, principal);
"""


class SqliteTaskStore:
    """Tasks in an SQLite file. Every worker of the machine passes the same path.

    The file must be on a local disk: SQLite's locks do not work on network file systems.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._server = ""
        self._thread: ThreadPoolExecutor | None = None
        self._database: sqlite3.Connection | None = None

    def __repr__(self) -> str:
        return f"<SqliteTaskStore {self._path}>"

    async def open(self, name: str) -> None:
        """Open the file, or create it. Raises: UsageError, if that is not possible."""
        self._server = name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jackstay-tasks")
        try:
            await self._run(self._connect)
        except sqlite3.Error as error:
            await self.close()
            raise UsageError(f"cannot open the task store {self._path!r}: {error}", path="store") from error

    async def close(self) -> None:
        """Close the file."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._disconnect)
            thread.shutdown()

    async def now(self) -> float:
        """Return the time of this machine."""
        return unix_time()

    async def create(self, record: TaskRecord, limit: int) -> TaskRecord | None:
        """Store a new task, or return the one that is stored."""
        return await self._run(self._create, record, limit)

    async def load(self, id: str) -> TaskRecord | None:
        """Return the task with this id, or None."""
        found = await self._run(self._select, "WHERE server=? AND id=?", self._server, id)
        return found[0] if found else None

    async def replace(self, record: TaskRecord) -> bool:
        """Replace the previous revision of the task."""
        statement = "UPDATE tasks SET queued=?, due=?, revision=?, record=? WHERE server=? AND id=? AND revision=?"
        values = (record.state == "queued", record.due_at, record.revision, record.encode())
        return await self._run(self._change, statement, *values, self._server, record.id, record.revision - 1)

    async def delete(self, record: TaskRecord) -> bool:
        """Delete this revision of the task."""
        statement = "DELETE FROM tasks WHERE server=? AND id=? AND revision=?"
        return await self._run(self._change, statement, self._server, record.id, record.revision)

    async def due(self, before: float, limit: int, *, queued: bool) -> list[TaskRecord]:
        """Return the tasks that are due, the earliest first."""
        where = "WHERE server=? AND queued=? AND due<=? ORDER BY due LIMIT ?"
        return await self._run(self._select, where, self._server, queued, before, limit)

    # --- in the thread ------------------------------------------------------------------------------------------------

    async def _run(self, function: Callable[..., R], *args: Any) -> R:
        if self._thread is None:
            raise StateError("closed", message="the task store is not open")
        # Not cancelled with its caller: a statement that began also ends.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, function, *args))

    def _connect(self) -> None:
        self._database = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT, isolation_level=None)
        self._database.executescript(_SCHEMA)

    def _disconnect(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        assert self._database is not None  # checked by `_run`
        return self._database.execute(statement, values)

    def _select(self, where: str, *values: object) -> list[TaskRecord]:
        rows = self._execute(f"SELECT record FROM tasks {where}", *values)  # noqa: S608  # `where` is a constant
        return [TaskRecord.decode(row[0]) for row in rows.fetchall()]

    def _change(self, statement: str, *values: object) -> bool:
        return self._execute(statement, *values).rowcount == 1

    def _create(self, record: TaskRecord, limit: int) -> TaskRecord | None:
        key = record.idempotency_key or None
        self._execute("BEGIN IMMEDIATE")  # no other worker writes until the commit
        try:
            known = self._select("WHERE server=? AND (id=? OR key=?)", self._server, record.id, key)
            if known:
                return known[0]
            count = "SELECT count(*) FROM tasks WHERE server=? AND principal=?"
            if self._execute(count, self._server, record.principal).fetchone()[0] >= limit:
                return None
            values = (self._server, record.id, key, record.principal, record.state == "queued", record.due_at)
            insert = "INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            self._execute(insert, *values, record.revision, record.encode())
        except BaseException:
            self._execute("ROLLBACK")
            raise
        finally:
            assert self._database is not None  # as above
            if self._database.in_transaction:
                self._execute("COMMIT")
        return record


__all__ = ["SqliteTaskStore"]
