"""Workers that run tasks: leases, lost workers, and a store that is not available. All on a fake clock."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jackstay import Context, Server, connect
from jackstay.errors import JsonRpcError
from jackstay.server import MemoryBackend, MemoryChanges, TaskRecord, Tasks
from jackstay.server import _task_store as rules
from jackstay.server import _task_worker as worker
from jackstay.testing import on_fake_clock

LEASE = 15.0


class SharedStore:
    """The connection of one worker to a store that several share, with the clock of the loop."""

    def __init__(self, records: rules.MemoryTaskStore) -> None:
        self.records = records
        self.is_down = False
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*args: Any, **options: Any) -> Any:
            self.calls.append(name)
            if self.is_down and name not in ("open", "close"):
                raise ConnectionError("down")
            if name == "now":
                return 1_000_000.0 + asyncio.get_running_loop().time()
            return await getattr(self.records, name)(*args, **options)

        return call


class Worker:
    """A server that runs tasks of a shared store. `starts` are the ids of the runs that it began."""

    def __init__(self, records: rules.MemoryTaskStore, **options: Any) -> None:
        self.store = SharedStore(records)
        self.tasks = Tasks(self.store, **{"lease": LEASE, **options})  # type: ignore[arg-type]  # by __getattr__
        self.server = Server("shared", extensions=[self.tasks])
        self.starts: list[str] = []
        self.stopped: list[str] = []
        for name, hints in (("once", {}), ("again", {"idempotent": True})):
            self.server.tool(task=True, name=name, **hints)(self._sleep)  # type: ignore[call-overload]  # hints

    async def _sleep(self, seconds: float, ctx: Context) -> str:
        self.starts.append(str(seconds))
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.stopped.append(str(seconds))
            raise
        return "done"

    async def __aenter__(self) -> "Worker":
        await self.server.startup(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.shutdown(self)

    def die(self) -> None:
        """Stop everything without a trace in the store, as a killed process does."""
        self.store.is_down = True
        main, self.tasks.worker._main = self.tasks.worker._main, None
        assert main is not None
        main.cancel()
        for running in self.tasks.worker._running.values():
            running.must_stop.set()


def record(id: str, seconds: float, *, tool: str = "once", now: float = 1_000_000.0) -> TaskRecord:
    return TaskRecord(
        id=id,
        tool=tool,
        call=b'{"name":"%b","arguments":{"seconds":%d}}' % (tool.encode(), seconds),
        created_at=now,
        updated_at=now,
        expires_at=now + 3600,
        due_at=now,
        protocol="2026-07-28",
        is_repeatable=tool == "again",
    )


async def wait_for(records: rules.MemoryTaskStore, id: str, *states: str) -> TaskRecord:
    while True:
        found = await records.load(id)
        if found is None or found.state in states:
            assert found is not None
            return found
        await asyncio.sleep(0.5)


@on_fake_clock
async def test_a_worker_runs_the_tasks_that_another_created() -> None:
    records = rules.MemoryTaskStore()
    await records.create(record("a", 5), 10)
    async with Worker(records, slots=0) as creator, Worker(records) as runner:
        done = await wait_for(records, "a", "completed")
        assert (creator.starts, runner.starts) == ([], ["5.0"])
        assert b'"done"' in done.result
        assert "0 of 10 slots" in repr(runner.tasks.worker)


@on_fake_clock
async def test_a_process_runs_a_limited_number_of_tasks_at_a_time() -> None:
    records = rules.MemoryTaskStore()
    for number in range(5):
        await records.create(record(f"{number}", 100 + number), 10)
    async with Worker(records, slots=2) as runner:
        await asyncio.sleep(50)
        assert len(runner.starts) == 2
        for number in range(5):
            await wait_for(records, f"{number}", "completed")


@on_fake_clock
async def test_a_long_run_keeps_its_lease() -> None:
    records = rules.MemoryTaskStore()
    await records.create(record("a", 1000), 10)
    await records.create(record("b", 1000, tool="again"), 10)
    async with Worker(records) as first, Worker(records) as second:
        for id in ("a", "b"):
            done = await wait_for(records, id, "completed", "failed")
            assert (done.state, done.attempt) == ("completed", 1)
        assert len(first.starts + second.starts) == 2


@on_fake_clock
async def test_the_outcome_of_a_task_whose_worker_died_is_unknown_and_it_never_runs_again() -> None:
    """G26."""
    records = rules.MemoryTaskStore()
    await records.create(record("a", 1000), 10)
    async with Worker(records) as first:
        await wait_for(records, "a", "running")
        first.die()
        async with Worker(records) as second:
            began = asyncio.get_running_loop().time()
            failed = await wait_for(records, "a", "failed")
            assert b'"outcome":"unknown"' in failed.error
            assert LEASE * rules.ONCE_LEASES <= asyncio.get_running_loop().time() - began < 3 * 4 * LEASE
            assert second.starts == []


@on_fake_clock
async def test_a_repeatable_task_whose_worker_died_runs_again() -> None:
    """G26."""
    records = rules.MemoryTaskStore()
    await records.create(record("a", 1000, tool="again"), 10)
    async with Worker(records) as first:
        await wait_for(records, "a", "running")
        first.die()
        async with Worker(records) as second:
            done = await wait_for(records, "a", "completed")
            assert (done.attempt, done.losses, second.starts) == (2, 1, ["1000.0"])
            assert "attempt 2" in done.status_message


@on_fake_clock
async def test_a_worker_without_its_store_stops_a_repeatable_task_and_its_end_is_refused() -> None:
    """G24."""
    records = rules.MemoryTaskStore()
    await records.create(record("again", 1000, tool="again"), 10)
    await records.create(record("once", 100), 10)
    async with Worker(records) as first:
        await wait_for(records, "again", "running")
        await wait_for(records, "once", "running")
        async with Worker(records) as second:
            first.store.is_down = True
            await wait_for(records, "once", "failed")
            assert first.stopped == ["1000.0"]  # it may be running elsewhere; the other one has this worker only
            first.store.is_down = False
            await asyncio.sleep(200)
            lost = await records.load("once")
            assert lost is not None
            assert lost.state == "failed"  # whatever its worker reports now
            done = await wait_for(records, "again", "completed")
            assert done.attempt == 2
            assert [*first.starts, *second.starts].count("100.0") == 1


@on_fake_clock
async def test_an_outage_of_the_store_is_no_death_of_its_workers() -> None:
    """G26."""
    records = rules.MemoryTaskStore()
    await records.create(record("a", 300), 10)
    async with Worker(records) as first, Worker(records) as second:
        await wait_for(records, "a", "running")
        first.store.is_down = second.store.is_down = True
        await asyncio.sleep(200)  # longer than the lease
        first.store.is_down = second.store.is_down = False
        done = await wait_for(records, "a", "completed", "failed")
        assert (done.state, done.attempt) == ("completed", 1)


@on_fake_clock
async def test_an_end_is_stored_when_the_store_is_back() -> None:
    records = rules.MemoryTaskStore()
    await records.create(record("a", 10), 10)
    async with Worker(records) as first:
        await wait_for(records, "a", "running")
        first.store.is_down = True
        await asyncio.sleep(20)  # it ended meanwhile
        first.store.is_down = False
        assert (await wait_for(records, "a", "completed")).attempt == 1


@on_fake_clock
async def test_a_task_that_another_worker_cancels_is_stopped() -> None:
    records = rules.MemoryTaskStore()
    await records.create(record("a", 1000), 10)
    async with Worker(records) as first:
        running = await wait_for(records, "a", "running")
        cancelled = rules.cancel(running, 1_000_001.0)
        assert cancelled is not None
        assert await records.replace(cancelled)
        await wait_for(records, "a", "cancelled")
        assert first.stopped == ["1000.0"]


@on_fake_clock
async def test_a_server_that_stops_gives_its_tasks_back_or_reports_them() -> None:
    records = rules.MemoryTaskStore()
    await records.create(record("once", 1000), 10)
    await records.create(record("again", 1000, tool="again"), 10)
    async with Worker(records) as first:
        await wait_for(records, "once", "running")
        await wait_for(records, "again", "running")
    assert sorted(first.stopped) == ["1000.0", "1000.0"]
    failed, queued = await records.load("once"), await records.load("again")
    assert failed is not None
    assert queued is not None
    assert (failed.state, queued.state) == ("failed", "queued")
    assert b"the server stopped" in failed.error
    assert first.store.calls[-1] == "close"


class ForgetfulStore(SharedStore):
    """Stores one change, but its response is lost."""

    is_forgetful = True

    async def replace(self, record: TaskRecord) -> bool:
        stored = await self.records.replace(record)
        if self.is_forgetful:
            self.is_forgetful = False
            raise ConnectionError("the response was lost")
        return stored


@on_fake_clock
async def test_a_claim_that_was_stored_although_it_failed_is_run() -> None:
    """G24: it is returned to the queue, and then runs once."""
    records = rules.MemoryTaskStore()
    await records.create(record("a", 10), 10)
    first = Worker(records)
    first.tasks.worker.store = first.store = ForgetfulStore(records)
    async with first, Worker(records) as second:
        done = await wait_for(records, "a", "completed", "failed")
        assert (done.state, done.attempt) == ("completed", 2)
        assert first.starts + second.starts == ["10.0"]


@on_fake_clock
async def test_a_claim_that_was_stored_while_the_worker_stops_is_released() -> None:
    records = rules.MemoryTaskStore()
    await records.create(record("a", 10), 10)
    claiming, released = asyncio.Event(), asyncio.Event()

    class SlowStore(SharedStore):
        async def replace(self, record: TaskRecord) -> bool:
            claiming.set()
            await released.wait()
            return await self.records.replace(record)

    first = Worker(records)
    first.tasks.worker.store = first.store = SlowStore(records)
    async with first:
        await claiming.wait()
        asyncio.get_running_loop().call_later(1.0, released.set)
    found = await records.load("a")
    assert found is not None
    assert (found.state, first.starts) == ("queued", [])


@on_fake_clock
async def test_all_expired_tasks_are_deleted_in_one_sweep() -> None:
    records = rules.MemoryTaskStore()
    for number in range(2 * worker.SWEEP_SIZE + 1):
        row = record(f"{number}", 1, now=900_000.0)
        await records.create(msgspec.structs.replace(row, state="completed", due_at=row.expires_at), 1000)
    async with Worker(records):
        await asyncio.sleep(LEASE / 6)
        assert repr(records) == "<MemoryTaskStore of 0 tasks>"


class InParts(rules.MemoryTaskStore):
    """Returns large records one by one."""

    async def due(self, before: float, limit: int, *, queued: bool) -> list[TaskRecord]:
        return (await super().due(before, limit, queued=queued))[:1]


@on_fake_clock
async def test_a_sweep_goes_on_until_nothing_is_due() -> None:
    records = InParts()
    for number in range(3):
        expired = msgspec.structs.replace(record(f"{number}", 1), state="completed", expires_at=0.0, due_at=0.0)
        await records.create(expired, 10)
    async with Worker(records) as worker:
        while worker.tasks.worker._swept_at is None:
            await asyncio.sleep(0.1)
        assert [await records.load(f"{number}") for number in range(3)] == [None] * 3


@on_fake_clock
async def test_other_workers_are_notified_of_tasks_and_cancellations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bus they would find them with the next poll for work, and with the next renewal."""
    monkeypatch.setattr(worker, "IDLE_SECONDS", 10_000.0)
    changes = MemoryChanges()
    backends = []
    for _ in range(2):
        backend = MemoryBackend()
        backend.changes = changes
        backends.append(backend)
    backends[1].tasks = backends[0].tasks
    started, stopped = asyncio.Event(), asyncio.Event()
    front = Server("shared", backend=backends[0], extensions=[Tasks(slots=0, lease=30_000.0)])
    back = Server("shared", backend=backends[1], extensions=[Tasks(lease=30_000.0)])

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    for server in (front, back):
        server.tool(task=True, name="work")(work)
    await back.startup("test")
    async with connect(front, versions=("2026-07-28",)) as client:
        handle = await client.tools.start("work")
        async with asyncio.timeout(100.0):
            await started.wait()
            await handle.cancel()
            await stopped.wait()
    await back.shutdown("test")


@on_fake_clock
async def test_tasks_that_expired_in_the_queue_are_deleted() -> None:
    records = rules.MemoryTaskStore()
    await records.create(record("a", 1, now=900_000.0), 10)
    async with Worker(records) as runner:
        await asyncio.sleep(2)
        assert await records.load("a") is None
        assert runner.starts == []


async def test_a_change_that_never_succeeds_is_given_up() -> None:
    class Contended(rules.MemoryTaskStore):
        async def replace(self, record: TaskRecord) -> bool:
            return False

    store = Contended()
    await store.create(record("a", 1), 10)
    with pytest.raises(JsonRpcError, match="too many workers"):
        await worker.update(store, "a", lambda row: rules.claim(row, row.created_at, LEASE))
    assert await worker.update(store, "never", lambda row: row) == (None, False)


@on_fake_clock
async def test_a_defect_fails_the_task(caplog: pytest.LogCaptureFixture) -> None:
    assert worker._encode_error(ZeroDivisionError()) == b'{"code":-32603,"message":"internal error"}'
    assert "internal error in a task" in caplog.text
