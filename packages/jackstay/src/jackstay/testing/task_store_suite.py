"""A test suite for stores of tasks.

Subclass it and return from `make()` two new stores with the same data, as two workers have them:
`class TestMine(TaskStoreSuite): ...`. Each test checks one requirement, and every wait has a time limit.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from jackstay.server import TaskRecord, TaskStore
from jackstay.testing._guarded import run, with_two

# The name under which the suite opens the stores.
NAME: Final = "suite"

# A record with a value in every member.
RECORD: Final = TaskRecord(
    id="one",
    tool="build",
    call=b'{"name":"build","arguments":{"x":"\xc3\xbc"}}',
    created_at=1_000.5,
    updated_at=1_001.0,
    expires_at=5_000.0,
    due_at=1_002.0,
    principal="alice",
    scopes=("read", "write"),
    claims={"tenant": "a"},
    protocol="2026-07-28",
    capabilities=b'{"elicitation":{}}',
    is_repeatable=True,
    idempotency_key="key-1",
    digest="d",
    status_message="half done",
    is_cancelled=True,
    input_requests={"a": b"{}"},
    input_responses={"b": bytes(range(256))},
    request_state="s",
    result=b"{}",
    error=b"{}",
    attempt=3,
    losses=1,
)


def _record(id: str, **fields: Any) -> TaskRecord:
    made: TaskRecord = msgspec.structs.replace(RECORD, id=id, **{"idempotency_key": "", **fields})
    return made


def _next(record: TaskRecord, **fields: Any) -> TaskRecord:
    made: TaskRecord = msgspec.structs.replace(record, revision=record.revision + 1, **fields)
    return made


class TaskStoreSuite:
    """Subclass it as `Test...` and return the stores from `make()`."""

    def make(self) -> tuple[TaskStore, TaskStore]:
        """Return two stores with the same data, which is empty. They may be one object."""
        raise NotImplementedError

    def run(self, test: Callable[[TaskStore, TaskStore], Awaitable[None]]) -> None:
        """Run a test on a new loop, with both stores open."""

        async def opened() -> None:
            first, second = self.make()
            await first.open(NAME)
            if second is not first:
                await second.open(NAME)
            try:
                await test(first, second)
            finally:
                if second is not first:
                    await second.close()
                await first.close()

        run(opened)

    @with_two
    async def test_a_task_of_one_worker_is_known_to_the_other(self, first: TaskStore, second: TaskStore) -> None:
        """At once and with every member unchanged. Ids are case-sensitive."""
        assert await first.create(RECORD, 10) == RECORD
        assert await second.load("one") == RECORD
        assert await second.load("ONE") is None
        assert await first.load("never") is None

    @with_two
    async def test_create_returns_the_task_that_exists(self, first: TaskStore, second: TaskStore) -> None:
        """By its id or its idempotency key, whatever the rest of the record; an empty key matches nothing."""
        await first.create(RECORD, 10)
        assert await second.create(_record("one", tool="other"), 10) == RECORD
        assert await second.create(_record("two", idempotency_key="key-1", principal="bob"), 10) == RECORD
        assert await second.load("two") is None
        for id in ("three", "four"):
            created = await second.create(_record(id), 10)
            assert created is not None
            assert created.id == id

    @with_two
    async def test_one_of_several_simultaneous_creations_wins(self, first: TaskStore, second: TaskStore) -> None:
        """Workers that receive the same idempotency key create one task between them."""
        records = [_record(f"task-{number}", idempotency_key="same") for number in range(10)]
        stores = (first, second)
        created = await asyncio.gather(*(stores[n % 2].create(row, 100) for n, row in enumerate(records)))
        winner = created[0]
        assert winner is not None
        assert all(row == winner for row in created)
        assert [row.id for row in records if await first.load(row.id) is not None] == [winner.id]

    @with_two
    async def test_a_principal_has_a_limited_number_of_tasks(self, first: TaskStore, second: TaskStore) -> None:
        """Those of others do not count; a known task is returned nevertheless; a deleted one makes room."""
        await first.create(_record("a"), 2)
        await second.create(_record("b"), 2)
        assert await first.create(_record("c"), 2) is None
        assert await second.load("c") is None
        known = await first.create(_record("a"), 2)
        assert known is not None
        assert known.id == "a"
        assert await second.create(_record("d", principal="bob"), 2) is not None
        assert await second.delete(known)
        assert await first.create(_record("c"), 2) is not None

    @with_two
    async def test_only_the_next_revision_replaces_a_task(self, first: TaskStore, second: TaskStore) -> None:
        """Of two workers that change the same revision, one succeeds. An unknown task is not created."""
        await first.create(RECORD, 10)
        changes = [_next(RECORD, status_message=f"{number}") for number in range(10)]
        stores = (first, second)
        done = await asyncio.gather(*(stores[n % 2].replace(row) for n, row in enumerate(changes)))
        assert done.count(True) == 1
        stored = changes[done.index(True)]
        assert await first.load("one") == await second.load("one") == stored
        assert not await second.replace(_next(RECORD))
        assert await second.replace(_next(stored, state="completed", due_at=9.0))
        assert not await first.replace(_next(_record("never")))
        assert await first.load("never") is None

    @with_two
    async def test_only_the_current_revision_is_deleted(self, first: TaskStore, second: TaskStore) -> None:
        """Its idempotency key can be used again."""
        await first.create(RECORD, 10)
        changed = _next(RECORD)
        assert await second.replace(changed)
        assert not await first.delete(RECORD)
        assert await first.delete(changed)
        assert not await second.delete(changed)
        assert not await second.replace(_next(changed))
        assert await second.load("one") is None
        again = _record("two", idempotency_key=RECORD.idempotency_key)
        assert await second.create(again, 10) == again

    @with_two
    async def test_due_returns_queued_tasks_or_the_others_in_order(self, first: TaskStore, second: TaskStore) -> None:
        """By the current `state` and `due_at`, up to the given time and number."""
        for number in (3, 1, 2):
            await first.create(_record(f"queued-{number}", due_at=float(number)), 100)
            await first.create(_record(f"running-{number}", due_at=number + 0.5, state="running"), 100)

        async def ids(before: float, limit: int, *, queued: bool) -> list[str]:
            return [row.id for row in await second.due(before, limit, queued=queued)]

        assert await ids(10.0, 10, queued=True) == ["queued-1", "queued-2", "queued-3"]
        assert await ids(10.0, 2, queued=False) == ["running-1", "running-2"]
        assert await ids(1.0, 10, queued=True) == ["queued-1"]
        assert await ids(1.0, 10, queued=False) == []
        stored = await first.load("queued-1")
        assert stored is not None
        assert await first.replace(_next(stored, state="running", due_at=0.5))
        assert await ids(1.0, 10, queued=True) == []
        assert await ids(1.0, 10, queued=False) == ["queued-1"]
        assert await first.delete(_next(stored))
        assert await ids(1.0, 10, queued=False) == []

    @with_two
    async def test_the_workers_share_a_clock(self, first: TaskStore, second: TaskStore) -> None:
        """It does not go back from one worker to the other, except for what a machine's clock is adjusted by."""
        times = [await store.now() for store in (first, second, first)]
        assert min(times) > 1_500_000_000
        assert times[2] - times[0] < 60

    @with_two
    async def test_a_store_can_be_opened_again(self, first: TaskStore, second: TaskStore) -> None:
        """What it stored is still there."""
        await second.create(RECORD, 10)
        await second.close()
        await second.open(NAME)
        assert await second.load("one") == RECORD
        assert await first.load("one") == RECORD


__all__ = ["NAME", "RECORD", "TaskStoreSuite"]
