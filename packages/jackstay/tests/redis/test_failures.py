"""What happens to a backend when its Redis is killed, stopped, full, emptied or replaced by its replica."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import redis.asyncio
from redis.asyncio.sentinel import Sentinel

from jackstay.errors import TransportError
from jackstay.redis import RedisBackend
from jackstay.redis import _bus as bus_module
from jackstay.server import GAP
from jackstay.testing.store_suites import LONG, RECORD
from jackstay.testing.task_store_suite import RECORD as TASK
from peers.redis_server import RedisSentinel, RedisServer, free_port, until_it_works

# Seconds for a promotion by a sentinel, which waits for a second of silence first.
PROMOTION_GUARD = 120.0


@asynccontextmanager
async def opened(url: str, timeout: float = 100.0) -> AsyncIterator[RedisBackend]:
    backend = RedisBackend(url, timeout=timeout)
    await backend.open("failures")
    try:
        yield backend
    finally:
        await backend.close()


def record_messages(backend: RedisBackend) -> asyncio.Queue[tuple[str, str]]:
    received: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    backend.changes.listen(lambda method, text: received.put_nowait((method, text)))
    return received


async def wait_for(received: asyncio.Queue[tuple[str, str]], method: str) -> list[str]:
    """Wait for a message with this method, and return the methods of all until then."""
    methods = []
    while method not in methods:
        methods.append((await received.get())[0])
    return methods


async def test_after_a_crash_with_a_file_nothing_is_lost() -> None:
    with RedisServer(appendonly="yes") as server:
        async with opened(server.url) as first, opened(server.url) as second:
            received, own = record_messages(second), record_messages(first)
            await first.sessions.save("one", RECORD, LONG)
            first.changes.publish("before", "")
            await wait_for(received, "before")
            await wait_for(own, "before")
            await asyncio.to_thread(server.kill)
            with pytest.raises(TransportError):
                await first.sessions.load("one", LONG)
            while first.changes._is_connected:  # the reader notices it
                await asyncio.sleep(0.01)
            first.changes.publish("while down", "")
            assert (await wait_for(own, "while down"))[-1] == "while down"  # in this process at once
            await asyncio.to_thread(server.start)
            await wait_for(received, "while down")
            assert await until_it_works(lambda: second.sessions.load("one", LONG)) == RECORD
            # It is delivered once where it was delivered before, and Redis may have lost the last second: a gap.
            first.changes.publish("after", "")
            methods = await wait_for(own, "after")
            assert GAP in methods
            assert "while down" not in methods
            assert first.problem == ""


async def test_an_empty_redis_is_a_gap_and_its_sessions_are_unknown() -> None:
    with RedisServer() as server:
        async with opened(server.url) as backend:
            received = record_messages(backend)
            await backend.sessions.save("one", RECORD, LONG)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await wait_for(received, GAP)
            assert await until_it_works(lambda: backend.sessions.load("one", LONG)) is None
            backend.changes.publish("after", "")
            await wait_for(received, "after")


async def test_a_redis_that_hangs_fails_requests_after_the_timeout_and_then_at_once() -> None:
    with RedisServer() as server:
        async with opened(server.url, timeout=0.5) as backend:
            await until_it_works(lambda: backend.sessions.save("one", RECORD, LONG))
            server.stop()
            # A request may need several commands: only the first one waits.
            with pytest.raises(TransportError, match=r"no response in 0\.5 s|Timeout"):
                await backend.sessions.load("one", LONG)
            assert backend.problem
            sent = backend._engine._waiting
            with pytest.raises(TransportError, match="Redis is unavailable"):
                await backend.sessions.load("one", LONG)
            assert backend._engine._waiting is sent
            backend.changes.publish("while it hangs", "")
            await backend.changes.flush()
            assert backend.changes._sent < backend.changes._published
            assert (await backend.limits.increment("a", LONG))[0] == 1  # each process counts for itself
            assert "unavailable" in repr(backend._engine)
            await backend.limits.set("v", b"local", LONG)
            server.resume()
            assert await until_it_works(lambda: backend.sessions.load("one", LONG)) == RECORD


async def test_a_client_without_a_time_limit_is_given_up_while_redis_hangs() -> None:
    """Its connection is half open: nothing arrives, and nothing fails."""
    with RedisServer() as server:
        client: Any = redis.asyncio.Redis(unix_socket_path=str(server.socket), socket_timeout=None)
        backend = RedisBackend(client, timeout=0.5)
        await backend.open("failures")
        received = record_messages(backend)
        await until_it_works(lambda: backend.sessions.save("one", RECORD, LONG))
        server.stop()
        while not backend.problem or backend._engine._sender is not None or backend.changes._is_connected:
            with pytest.raises(TransportError):
                await backend.sessions.load("one", LONG)
            await asyncio.sleep(0.01)
        server.resume()
        assert await until_it_works(lambda: backend.sessions.load("one", LONG)) == RECORD
        backend.changes.publish("after", "")
        await wait_for(received, "after")
        await backend.close()
        await client.aclose()


async def test_a_full_redis_refuses_writes_and_serves_reads() -> None:
    with RedisServer(maxmemory="3mb", maxmemory_policy="noeviction") as server:
        async with opened(server.url) as backend:
            await backend.sessions.save("one", RECORD, LONG)
            server.run("CONFIG", "SET", "maxmemory", "1")
            with pytest.raises(TransportError, match="maxmemory"):
                await backend.sessions.save("two", RECORD, LONG)
            with pytest.raises(TransportError, match="maxmemory"):
                await backend.events.append("one", "a.1", 1, b"data")
            assert await backend.sessions.load("one", LONG) == RECORD
            received = record_messages(backend)
            backend.changes.publish("late", "")  # waits in the outbox
            server.run("CONFIG", "SET", "maxmemory", "0")
            await wait_for(received, "late")


async def test_a_promoted_replica_has_the_sessions() -> None:
    with RedisServer(repl_diskless_sync_delay="0") as primary, RedisServer() as replica:
        # A replica connects over TCP.
        port = free_port(primary)
        replica.run("REPLICAOF", "127.0.0.1", port)
        current = primary.directory / "current"
        os.symlink(primary.socket, current)
        async with opened(f"unix://{current}") as backend:
            received = record_messages(backend)
            await backend.sessions.save("one", RECORD, LONG)
            while not await asyncio.to_thread(_has_sessions, replica):
                await asyncio.sleep(0.01)
            replica.run("REPLICAOF", "NO", "ONE")
            current.unlink()
            os.symlink(replica.socket, current)
            await asyncio.to_thread(primary.kill)
            await wait_for(received, GAP)
            assert await until_it_works(lambda: backend.sessions.load("one", LONG)) == RECORD
            await until_it_works(lambda: backend.sessions.save("two", RECORD, LONG))


def _has_sessions(server: RedisServer) -> bool:
    try:
        return bool(server.run("KEYS", "jackstay:{failures}:s:*"))
    except redis.exceptions.RedisError:
        return False  # it is loading what the primary has sent


async def test_a_client_of_a_sentinel_finds_the_promoted_replica() -> None:
    with RedisServer(repl_diskless_sync_delay="0") as primary, RedisServer() as replica:
        port = free_port(primary)
        free_port(replica)
        replica.run("REPLICAOF", "127.0.0.1", port)
        # A sentinel reads the list of replicas from the primary at once, and then only every 10 s.
        async with asyncio.timeout(PROMOTION_GUARD):
            while (await asyncio.to_thread(replica.run, "ROLE"))[3] != b"connected":
                await asyncio.sleep(0.01)
        with RedisSentinel("files", port) as process:
            sentinel = Sentinel([("unused", 0)], sentinel_kwargs={"unix_socket_path": str(process.socket)})
            client = sentinel.master_for("files")
            backend = RedisBackend(client)
            await backend.open("failures")
            received = record_messages(backend)
            async with asyncio.timeout(PROMOTION_GUARD):
                await until_it_works(lambda: backend.sessions.save("one", RECORD, LONG))
                await until_it_works(backend.tasks.now)
                await until_it_works(lambda: backend.tasks.create(TASK, 10))
                while not await asyncio.to_thread(_has_sessions, replica):
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(primary.kill)
                while (await asyncio.to_thread(replica.run, "ROLE"))[0] != b"master":
                    await asyncio.sleep(0.01)
                await wait_for(received, GAP)
                assert await until_it_works(lambda: backend.sessions.load("one", LONG)) == RECORD
                await until_it_works(lambda: backend.sessions.save("two", RECORD, LONG))
                # There is no replica any more, so that none has to confirm a task.
                await until_it_works(backend.tasks.now)
                assert await until_it_works(lambda: backend.tasks.load(TASK.id)) == TASK
                other = msgspec.structs.replace(TASK, id="two", idempotency_key="")
                assert await until_it_works(lambda: backend.tasks.create(other, 10)) == other
                backend.changes.publish("after", "")
                await wait_for(received, "after")
            await backend.close()
            await client.aclose()
            await sentinel.aclose()


async def test_a_server_begins_without_redis_and_uses_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackstay.redis._backend.OPEN_TIMEOUT", 0.01)
    with RedisServer() as server:
        await asyncio.to_thread(server.kill)
        async with opened(server.url) as backend:
            received = record_messages(backend)
            with pytest.raises(TransportError):
                await backend.sessions.load("one", LONG)
            await asyncio.to_thread(server.start)
            await wait_for(received, GAP)  # anything may have happened before
            await until_it_works(lambda: backend.sessions.save("one", RECORD, LONG))


async def test_a_worker_is_judged_only_a_while_after_redis_was_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "LEASE", 1000.0)
    with RedisServer() as server:
        async with opened(server.url) as first, opened(server.url) as second:
            second.changes.join("b")
            while await first.changes.is_gone("b"):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(server.kill)
            while not first.problem:
                assert not await first.changes.is_gone("b")
            with pytest.raises(TransportError):
                await first.changes.send("b", "m", "t")
            await asyncio.to_thread(server.start)
            while first.problem:
                assert not await first.changes.is_gone("c")
                await asyncio.sleep(0.01)
            assert not await first.changes.is_gone("c")
            with pytest.raises(TransportError, match="not known yet"):
                await first.changes.send("c", "m", "t")


async def test_too_many_messages_for_the_outbox_are_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "MAX_PENDING", 10)
    with RedisServer() as server:
        async with opened(server.url) as first, opened(server.url) as second:
            server.stop()
            for number in range(30):
                first.changes.publish("many", str(number))
            server.resume()
            received = record_messages(second)
            await wait_for(received, GAP)


async def test_the_last_of_equal_messages_is_sent(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as first, opened(redis_server.url) as second:
        received = record_messages(second)
        for text in ("a", "b", "a"):
            first.changes.publish("m", text)
        threading.Thread(target=first.changes.publish, args=("end", "")).start()
        found = []
        while (message := await received.get())[0] != "end":
            found.append(message[1])
        assert found == ["b", "a"]
        # A listener that fails does not stop the others.
        second.changes.listen(lambda method, text: 1 / 0)  # type: ignore[arg-type, return-value]
        first.changes.publish("next", "")
        await wait_for(received, "next")
        first.changes.publish("last", "")
        await wait_for(received, "last")


async def test_a_reconnect_that_the_client_hides_is_noticed(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "CHECK_INTERVAL", 0.0)
    async with opened(redis_server.url) as backend:
        received = record_messages(backend)
        backend.changes._run = "another one"
        await wait_for(received, GAP)


async def test_a_reader_that_was_away_for_too_long_learns_of_the_gap(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as backend:
        received = record_messages(backend)
        # As after a disconnect, while the stream was shortened.
        backend.changes.publish("one", "")
        await wait_for(received, "one")
        backend.changes._last, backend.changes._is_connected = "1-0", False
        redis_server.run("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await wait_for(received, GAP)


async def test_entries_of_other_programs_do_not_stop_the_bus(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(redis_server.url) as backend:
        received = record_messages(backend)
        mailbox = f"jackstay:{{failures}}:m:{backend.changes._process}"
        for stream in ("jackstay:{failures}:bus", mailbox):
            redis_server.run("XADD", stream, "*", "other", "fields")
            redis_server.run("XADD", stream, "*", "m", b"\xff\xfe", "t", "")
            redis_server.run("XADD", stream, "*", "m", "after", "t", stream)
        texts = {(await received.get())[1] for _ in range(2)}
        assert texts == {"jackstay:{failures}:bus", mailbox}
        assert caplog.text.count("that is not a message of a worker") == 4


async def test_other_loops_may_use_the_backend(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as backend:
        found = await asyncio.to_thread(lambda: asyncio.run(backend.limits.increment("other loop", LONG)))
        assert found[0] == 1
    with pytest.raises(TransportError, match="not open"):
        await backend.sessions.load("one", LONG)
    backend.changes.publish("ignored", "")
