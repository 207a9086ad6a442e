"""Tasks on Redis, while workers and Redis are killed, stopped, full and partitioned, and a replica is promoted; and the
check of the ledger, which reads only that. The clock of one worker is an hour fast.

The ledger has a line for each act: `created NONCE TOOL` when the client has the handle, `start NONCE` and `end NONCE`
of each run, `lost NONCE` if its task is unknown to the server afterwards, and one outcome: `completed NONCE RESULT`,
`failed NONCE` (it did not run) or `unknown NONCE`.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from chaos.ledger.redis_faults import WEIGHTS, Faults, FaultyRedis
from chaos.ledger.task_server import make, write
from jackstay.client import Client, connect
from jackstay.errors import McpError
from jackstay.types import ElicitResult

SERVER = Path(__file__).with_name("task_server.py")
CALLERS = 8
WORKERS = 2
# With weights: half of the tasks may run only once, and a fifth requires input.
TOOLS = {"once": 3, "again": 5, "confirm": 2}
# Until every task has ended: far more than its leases, on a machine that is busy.
LAST_SECONDS = 120.0
OUTCOMES = ("completed", "failed", "unknown")
# What is done to the parts, with weights. A worker that is stopped loses its leases, and ends its tasks too late.
# Redis is not emptied, because that loses tasks.
FAULTS = {"kill a worker": 6, "stop a worker": 2, **WEIGHTS}
del FAULTS["empty Redis"]
CLOCK_OFFSETS = (0.0, 3600.0)


def check(lines: Iterable[str]) -> list[str]:
    """Return the breaches of what is promised of tasks."""
    acts: dict[str, list[list[str]]] = defaultdict(list)
    for line in lines:
        act, nonce, *rest = line.split()
        acts[nonce].append([act, *rest])
    found = []
    for nonce, rows in acts.items():
        count = {name: sum(row[0] == name for row in rows) for name in ("created", "start", "end", "lost", *OUTCOMES)}
        is_repeatable = nonce.startswith("again")
        outcomes = [row for row in rows if row[0] in OUTCOMES]
        if len(outcomes) != 1:
            found.append(f"{nonce}: {len(outcomes)} outcomes")
        if count["start"] > 1 and not is_repeatable:
            found.append(f"{nonce}: ran {count['start']} times")
        if count["failed"] and count["start"]:
            found.append(f"{nonce}: reported as not run, but ran")
        if count["lost"]:
            found.append(f"{nonce}: created, but lost")
        if count["completed"] and not count["end"]:
            found.append(f"{nonce}: completed, but never ended")
        if ["completed", nonce] not in rows and count["completed"]:
            found.append(f"{nonce}: completed with the result of another")
    return found


class Workers:
    """The processes that run the tasks."""

    def __init__(self, urls: list[str], ledger: str) -> None:
        self._environment, self._urls = {**os.environ, "LEDGER": ledger}, urls
        self.processes = [self._start(index) for index in range(WORKERS)]

    def _start(self, index: int) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "jackstay", "serve", str(SERVER), "--tasks-only"]
        own = {"REDIS_URL": self._urls[index], "CLOCK_OFFSET": str(CLOCK_OFFSETS[index])}
        environment = {**self._environment, **own}
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment)

    def restart(self, index: int) -> None:
        """Kill a process and start another one."""
        self._end(self.processes[index])
        self.processes[index] = self._start(index)

    def close(self) -> None:
        """Kill them all."""
        for process in self.processes:
            self._end(process)

    @staticmethod
    def _end(process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        process.wait()


async def disturb(redis: FaultyRedis, workers: Workers, faults: Faults, over: asyncio.Event) -> None:
    """Disturb a worker or Redis now and then, until `over`. In the end all of them run."""
    async for fault, seconds in faults.until(over, 2.5):
        index = faults.rng.randrange(WORKERS)
        if fault == "kill a worker":
            workers.restart(index)
        elif fault == "stop a worker":
            workers.processes[index].send_signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            workers.processes[index].send_signal(signal.SIGCONT)
        else:
            await redis.disturb(faults.rng, fault, seconds)


async def call(client: Client, ledger: str, tool: str, nonce: str, seconds: float) -> None:
    """Start a task, wait for its end, and write both to the ledger."""
    try:
        handle = await client.tools.start(tool, {"nonce": nonce, "seconds": seconds}, timeout=LAST_SECONDS)
        write(ledger, "created", nonce, tool)
        result = await handle.result(timeout=LAST_SECONDS)
    except McpError as error:
        if "does not know task" in str(error):
            write(ledger, "lost", nonce)
        write(ledger, "failed" if error.may_have_run is False else "unknown", nonce)
        await asyncio.sleep(0.05)  # while Redis is down all calls fail at once
    else:
        write(ledger, "completed", nonce, result.text)


async def run(ledger: Path, rng: random.Random, seconds: float, rate: float = 0.0, names: Sequence[str] = ()) -> str:
    """Create tasks for so many seconds, wait for all of them, and return a summary.

    So many tasks each second are created at `rate`; otherwise each caller creates one after the other. Only the faults
    that are named happen.
    """
    path, faults = str(ledger), Faults(rng, FAULTS, names, seconds)
    with FaultyRedis(1 + WORKERS) as redis:
        own, *urls = redis.urls
        workers = Workers(urls, path)
        try:
            client = connect(make(own, path, 0), versions=("2026-07-28",))

            @client.elicitation.handle
            async def elicit(params: Any) -> ElicitResult:
                return ElicitResult(action="accept", content={"nonce": params.message})

            async def create(number: int, count: int, chance: random.Random) -> None:
                tool = chance.choices(list(TOOLS), list(TOOLS.values()))[0]
                await call(client, path, tool, f"{tool}-{number}-{count}", chance.uniform(0, 0.3))

            async def caller(number: int) -> None:
                started_at, count, chance = time.monotonic(), 0, random.Random(f"{number}{rng.random()}")
                async with asyncio.TaskGroup() as group:
                    while time.monotonic() - started_at < seconds:
                        count += 1
                        created = create(number, count, chance)
                        if rate:
                            group.create_task(created)
                            await asyncio.sleep(started_at + count * CALLERS / rate - time.monotonic())
                        else:
                            await created

            async with client:
                over = asyncio.Event()
                asyncio.get_running_loop().call_later(seconds, over.set)
                disturbance = disturb(redis, workers, faults, over)
                await asyncio.gather(disturbance, *(caller(row) for row in range(CALLERS)))
        finally:
            workers.close()
    lines = ledger.read_text().splitlines()
    counts = {name: sum(line.startswith(f"{name} ") for line in lines) for name in ("created", "start", *OUTCOMES)}
    return f"{', '.join(f'{name} {count}' for name, count in counts.items())}; {dict(faults.counts)}"
