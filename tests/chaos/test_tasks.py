"""Durable tasks: real processes that are killed while a task runs. Every run is in a ledger."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import pytest

from jackstay.client import Client, FileTaskLog, connect
from jackstay.errors import OutcomeUnknownError
from jackstay.transport import stdio
from peers.redis_server import RedisServer

SERVER = Path(__file__).parent / "servers_own" / "task_server.py"
# Generous: the machine may be busy. The tests wait for events, not for this.
GUARD = 180.0

CLIENT = """
import asyncio, sys
from jackstay.client import FileTaskLog, connect
from jackstay.transport import stdio

async def main():
    log = FileTaskLog(sys.argv[2] + "/tasks.log")
    target, versions = stdio(sys.executable, sys.argv[1], sys.argv[2]), ("2026-07-28",)
    async with connect(target, name="durable", task_log=log, versions=versions, init_timeout=180) as client:
        await client.tools.call("again", timeout=1000)

asyncio.run(main())
"""


def starts(folder: Path, tool: str) -> list[int]:
    """The process ids of all runs of a tool, in order."""
    ledger = folder / "ledger"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return [int(line.split()[2]) for line in lines if line.startswith(f"start {tool} ")]


async def started(folder: Path, tool: str, count: int = 1) -> int:
    """Wait for the nth run of a tool, and return its process id."""
    while len(starts(folder, tool)) < count:
        await asyncio.sleep(0.02)
    return starts(folder, tool)[count - 1]


@asynccontextmanager
async def connected(folder: Path, *arguments: str, redis_url: str = "", **options: Any) -> AsyncIterator[Client]:
    target = stdio(sys.executable, str(SERVER), str(folder), *arguments, env={"REDIS_URL": redis_url})
    async with asyncio.timeout(GUARD):
        # One revision: a server that starts slowly would be offered a handshake too, and that era has no tasks.
        fixed: Any = {"name": "durable", "versions": ("2026-07-28",), "backoff_min": 0.05, "init_timeout": GUARD}
        async with connect(target, **fixed, **options) as client:
            yield client


@contextmanager
def worker(folder: Path, redis_url: str = "") -> Iterator["Popen[bytes]"]:
    """A process that only runs tasks."""
    command = [sys.executable, "-m", "jackstay", "serve", str(SERVER), "--tasks-only"]
    environment = {**os.environ, "TASK_FOLDER": str(folder), "REDIS_URL": redis_url}
    with Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env=environment) as process:
        try:
            assert process.stderr is not None
            while (line := process.stderr.readline()) != b"durable runs tasks\n":
                assert line, "it ended"  # else a warning about Redis
            yield process
        finally:
            process.terminate()
            process.wait(GUARD)


async def test_a_task_of_a_killed_server_is_run_again_if_its_tool_allows_it(tmp_path: Path) -> None:
    """G22, G24: the client restarts the server, and gets the result of the second run."""
    async with connected(tmp_path) as client:
        call = asyncio.ensure_future(client.tools.call("again", timeout=GUARD))
        os.kill(await started(tmp_path, "again"), signal.SIGKILL)
        second = await started(tmp_path, "again", 2)
        (tmp_path / "release").touch()
        assert (await call).text == f"again by {second}"
    assert len(starts(tmp_path, "again")) == 2


async def test_a_task_of_a_killed_server_is_not_run_again_otherwise(tmp_path: Path) -> None:
    """G24: its outcome is unknown, and the client reports that."""
    async with connected(tmp_path) as client:
        call = asyncio.ensure_future(client.tools.call("once", timeout=GUARD))
        os.kill(await started(tmp_path, "once"), signal.SIGKILL)
        (tmp_path / "release").touch()
        with pytest.raises(OutcomeUnknownError, match="worker that ran the task was lost"):
            await call
    assert len(starts(tmp_path, "once")) == 1


async def test_workers_are_killed_and_started_apart_from_the_server(tmp_path: Path) -> None:
    """G22, G24: `jackstay serve FILE --tasks-only` on the store of a server that runs no tasks itself."""
    async with connected(tmp_path, "0") as client:
        handle = await client.tools.start("again")
        assert await handle.status() == "working"
        with worker(tmp_path) as first:
            assert await started(tmp_path, "again") == first.pid
            first.kill()
        with worker(tmp_path) as second:
            assert await started(tmp_path, "again", 2) == second.pid
            (tmp_path / "release").touch()
            assert (await handle).text == f"again by {second.pid}"
            second.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(second.wait, GUARD) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="`make test` installs Redis on Debian")
async def test_redis_and_a_worker_are_killed_while_a_task_runs(tmp_path: Path) -> None:
    """G22, G24: a new worker finds the task in the Redis that was restarted, and its result reaches the client."""
    with RedisServer(appendonly="yes", appendfsync="always") as redis:
        async with connected(tmp_path, "0", redis_url=redis.url) as client:
            again, once = await client.tools.start("again"), await client.tools.start("once")
            with worker(tmp_path, redis.url) as first:
                await started(tmp_path, "again")
                await started(tmp_path, "once")
                await asyncio.to_thread(redis.kill)
                first.kill()
            await asyncio.to_thread(redis.start)
            with worker(tmp_path, redis.url) as second:
                assert await started(tmp_path, "again", 2) == second.pid
                (tmp_path / "release").touch()
                assert (await again).text == f"again by {second.pid}"
                with pytest.raises(OutcomeUnknownError, match="worker that ran the task was lost"):
                    await once
    assert len(starts(tmp_path, "once")) == 1


async def test_a_client_that_was_killed_finds_its_task_again(tmp_path: Path) -> None:
    """G25: by its task log; the server was restarted, too."""
    command = [sys.executable, "-c", CLIENT, str(SERVER), str(tmp_path)]
    with Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
        await started(tmp_path, "again")
        log = FileTaskLog(tmp_path / "tasks.log")
        while not log.pending():
            await asyncio.sleep(0.02)
        process.kill()
    (tmp_path / "release").touch()
    async with connected(tmp_path, task_log=log) as client:
        (found,) = await client.tasks.pending()
        assert (await found).text.startswith("again by ")
        assert await client.tasks.pending() == []
