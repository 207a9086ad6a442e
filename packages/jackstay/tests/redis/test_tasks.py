"""Tasks on a real Redis: the suite, what is checked when it is opened, crashes, replicas and a full memory."""

import asyncio
from typing import Any

import msgspec
import pytest

from jackstay import Server, connect
from jackstay.errors import BackpressureError, TransportError, UsageError
from jackstay.redis import RedisBackend
from jackstay.server import TaskRecord
from jackstay.testing.task_store_suite import RECORD, TaskStoreSuite
from peers.redis_server import RedisServer, free_port, until_it_works


class OwnBackend:
    """The tasks of a backend, which is opened and closed with them."""

    def __init__(self, url: str) -> None:
        self.backend = RedisBackend(url, timeout=100.0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend.tasks, name)

    async def open(self, name: str) -> None:
        await self.backend.open(name)
        await self.backend.tasks.open(name)

    async def close(self) -> None:
        await self.backend.tasks.close()
        await self.backend.close()


class TestRedisTaskStore(TaskStoreSuite):
    """Two stores, as in two processes."""

    @pytest.fixture(autouse=True)
    def _redis(self, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = redis_server
        redis_server.run("FLUSHALL")
        monkeypatch.setattr("jackstay.testing._guarded.GUARD_SECONDS", 200.0)

    def make(self) -> tuple[Any, Any]:
        return OwnBackend(self.server.url), OwnBackend(self.server.url)


def following(record: TaskRecord, **fields: Any) -> TaskRecord:
    changed: TaskRecord = msgspec.structs.replace(record, revision=record.revision + 1, **fields)
    return changed


async def test_a_change_that_is_sent_twice_succeeds_twice(redis_server: RedisServer) -> None:
    """redis-py sends a command again if its reply was lost. That of another worker is another change."""
    redis_server.run("FLUSHALL")
    store = OwnBackend(redis_server.url)
    await store.open("twice")
    await store.create(RECORD, 10)
    claimed = following(RECORD, state="running", worker="a")
    assert [await store.replace(claimed) for _ in range(2)] == [True, True]
    assert not await store.replace(following(RECORD, state="running", worker="b"))
    assert await store.load("one") == claimed
    assert repr(store.backend.tasks) == "<RedisTaskStore 'jackstay:{twice}:'>"
    assert await store.delete(claimed)
    # Nothing is left behind.
    assert [key for key in redis_server.run("KEYS", "jackstay:{twice}:*") if not key.endswith(b"bus")] == []
    await store.close()


async def test_a_task_that_somebody_deleted_leaves_the_queue(redis_server: RedisServer) -> None:
    redis_server.run("FLUSHALL")
    store = OwnBackend(redis_server.url)
    await store.open("deleted")
    await store.create(RECORD, 10)
    redis_server.run("DEL", "jackstay:{deleted}:t:one")
    assert await store.due(10_000.0, 10, queued=True) == []
    assert redis_server.run("ZCARD", "jackstay:{deleted}:tq") == 0
    await store.close()


async def test_a_record_that_cannot_be_read_does_not_stop_the_others(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Another version may have written it, and may read it later."""
    redis_server.run("FLUSHALL")
    store = OwnBackend(redis_server.url)
    await store.open("poison")
    other = msgspec.structs.replace(RECORD, id="two", idempotency_key="key-2", due_at=RECORD.due_at + 1)
    await store.create(RECORD, 10)
    await store.create(other, 10)
    redis_server.run("HSET", "jackstay:{poison}:t:one", "d", "no record")
    assert await store.due(10_000.0, 10, queued=True) == [other]
    assert "task one cannot be read" in caplog.text
    assert await store.due(10_000.0, 10, queued=True) == [other]
    assert caplog.text.count("cannot be read") == 1
    assert redis_server.run("ZSCORE", "jackstay:{poison}:tq", "one") == 10_060.0
    await store.close()


async def test_large_records_are_returned_in_parts(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all at once: the time for a command is short, and expired results would never be deleted."""
    monkeypatch.setattr("jackstay.redis._tasks.MAX_DUE_BYTES", 1000)
    redis_server.run("FLUSHALL")
    store = OwnBackend(redis_server.url)
    await store.open("large")
    rows = [msgspec.structs.replace(RECORD, id=f"{n}", idempotency_key="", result=b"x" * 600) for n in range(5)]
    for row in rows:
        await store.create(row, 10)
    found = []
    while part := await store.due(10_000.0, 10, queued=True):
        assert len(part) <= 2
        found += part
        for row in part:
            await store.delete(row)
    assert found == rows
    await store.close()


async def test_a_redis_that_would_lose_tasks_is_refused_or_reported(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    store = OwnBackend(redis_server.url)
    await store.open("settings")
    assert "tasks do not survive a restart of this Redis" in caplog.text
    redis_server.run("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        await store.close()
        with pytest.raises(UsageError, match="allkeys-lru, which deletes tasks"):
            await store.open("settings")
    finally:
        redis_server.run("CONFIG", "SET", "maxmemory-policy", "noeviction")
        await store.close()


async def test_created_tasks_survive_a_crash_and_a_full_memory() -> None:
    with RedisServer(appendonly="yes", appendfsync="always") as server:
        store = OwnBackend(server.url)
        await store.open("crash")
        records = [msgspec.structs.replace(RECORD, id=f"{number}", idempotency_key="") for number in range(100)]
        await asyncio.gather(*(store.create(row, 1000) for row in records))
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        assert await until_it_works(lambda: store.due(10_000.0, 1000, queued=True)) == sorted(
            records, key=lambda row: row.id
        )
        server.run("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(TransportError, match="maxmemory"):
            await store.create(RECORD, 1000)
        with pytest.raises(TransportError, match="maxmemory"):
            await store.replace(following(records[0]))
        assert await store.load("0") == records[0]
        assert await store.load("one") is None
        # After `now()` the store knows that Redis is full: a new task is certainly not stored, an old one is found.
        assert await store.now() > 0
        with pytest.raises(BackpressureError, match="Redis is full"):
            await store.create(RECORD, 1000)
        assert await store.create(records[0], 1000) == records[0]
        assert await store.delete(records[0])
        server.run("CONFIG", "SET", "maxmemory", "0")
        await store.now()
        assert await store.create(RECORD, 1000) == RECORD
        await store.close()


async def test_a_task_is_created_only_if_a_replica_has_it() -> None:
    with RedisServer(repl_diskless_sync_delay="0") as primary, RedisServer() as replica:
        replica.run("REPLICAOF", "127.0.0.1", free_port(primary))
        store = OwnBackend(primary.url)
        await store.open("replica")
        while not store.backend.tasks._has_replicas:
            await store.now()
        assert await until_it_works(lambda: store.create(RECORD, 10)) == RECORD
        replica.stop()
        other = msgspec.structs.replace(RECORD, id="two", idempotency_key="key-2")
        for _ in range(2):  # also if it is already there
            with pytest.raises(TransportError, match="no replica of Redis confirmed"):
                await store.create(other, 10)
        assert await store.create(msgspec.structs.replace(other, id="three", idempotency_key=""), 1) is None
        replica.resume()
        assert await until_it_works(lambda: store.create(other, 10)) == other
        await store.close()


async def test_a_run_that_must_not_be_repeated_begins_only_if_a_replica_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G24: otherwise a replica that is promoted would have the task in its queue."""
    monkeypatch.setattr("jackstay.redis._tasks.REPLICA_TIMEOUT", 100_000)
    runs: list[int] = []
    with RedisServer(repl_diskless_sync_delay="0") as primary, RedisServer() as replica:
        backend = RedisBackend(primary.url, timeout=100.0)
        server = Server("replica", backend=backend)

        @server.tool(task=True)
        async def pay(amount: int) -> int:
            runs.append(amount)
            return amount

        async with connect(server) as client:
            assert (await client.tools.call("pay", {"amount": 1})).text == "1"  # without a replica
            replica.run("REPLICAOF", "127.0.0.1", free_port(primary))
            while primary.run("WAIT", "1", "1000") < 1:
                pass
            assert (await client.tools.call("pay", {"amount": 2})).text == "2"
            store = backend.tasks
            seen, confirmed = asyncio.Event(), store.claim

            async def claim(record: TaskRecord) -> bool:
                """Stop the replica after the task was created."""
                await asyncio.to_thread(replica.stop)
                monkeypatch.setattr("jackstay.redis._tasks.REPLICA_TIMEOUT", 100)
                try:
                    return bool(await confirmed(record))
                finally:
                    seen.set()

            store.claim = claim  # type: ignore[method-assign]
            handle = await client.tools.start("pay", {"amount": 3})
            await seen.wait()
            assert runs == [1, 2]
            store.claim = confirmed  # type: ignore[method-assign]
            monkeypatch.setattr("jackstay.redis._tasks.REPLICA_TIMEOUT", 100_000)
            replica.resume()
            assert (await handle).text == "3"
        assert runs == [1, 2, 3]
