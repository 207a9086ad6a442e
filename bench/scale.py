"""`make bench ONLY=scale`, or `python bench/scale.py [growth | redis | processes]`. Exits with 1 if a target is missed.

Growth: the cost of one item must not depend on how many there are. Client and server run in one process, and CPU time
is measured, so the numbers are those of both and other processes affect them little. Redis: what sharing costs.
Processes: 20,000 sessions, 2,000 listeners and a rolling restart.
"""

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from _measure import format_seconds, print_platform
from jackstay.client import connect
from jackstay.server import Server
from jackstay.transport import memory_pair

# The largest number of items may cost this many times as much per item as the cheapest: caches of the processor hold
# a few thousand calls and not a hundred thousand. Cost that is linear in the number of items would be hundreds.
MAX_GROWTH = 3.0
# The same for calls in flight, without the garbage collector. It visits all objects again whenever their number has
# grown by a quarter, so every program with many waiting tasks pays for it, and "asyncio alone" is such a program.
MAX_GROWTH_OF_CALLS = 2.0
MIN_ITEMS = 3_000  # a sample covers at least this many
ROUNDS = 3

IN_FLIGHT = (1, 10, 100, 1_000, 10_000, 100_000)
TOOLS = (10, 100, 1_000, 10_000)


@asynccontextmanager
async def connected(server: Server, **settings: Any) -> Any:
    """Serve in memory and return a client of it."""
    pair = memory_pair()
    serving = asyncio.ensure_future(server.serve(pair.server))
    async with connect(pair.client, request_timeout=None, **settings) as client:
        yield client
    serving.cancel()


class Collector:
    """The CPU seconds of the garbage collector, from its creation on."""

    def __init__(self) -> None:
        self.seconds = self._started = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._started = time.process_time()
        else:
            self.seconds += time.process_time() - self._started


async def costs(number: int, items: int, work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return the median CPU time for each item, with and without the garbage collector.

    `work` handles `number` of them.
    """
    repeats = max(1, items // number)
    collector = Collector()
    await work()
    samples, without = [], []
    for _ in range(ROUNDS):
        gc.collect()
        started, collected = time.process_time(), collector.seconds
        for _ in range(repeats):
            await work()
        took, collected = time.process_time() - started, collector.seconds - collected
        samples.append(took / (repeats * number))
        without.append((took - collected) / (repeats * number))
    return median(samples), median(without)


async def cost(number: int, items: int, work: Callable[[], Awaitable[object]]) -> float:
    """Return the median CPU time for each item."""
    return (await costs(number, items, work))[0]


async def waiting_tasks(number: int) -> float:
    """Measure tasks of asyncio that wait for one event, without Jackstay."""
    release = asyncio.Event()

    async def wait() -> str:
        await release.wait()
        return "done"

    async def work() -> None:
        release.clear()
        tasks = [asyncio.create_task(wait()) for _ in range(number)]
        await asyncio.sleep(0)
        release.set()
        for task in tasks:
            await task

    return await cost(number, MIN_ITEMS, work)


async def calls_in_flight(number: int) -> list[float]:
    """Start all calls; the server responds to none before it has received the last."""
    server = Server("scale", max_concurrent=number + 1)
    arrived, release = 0, asyncio.Event()

    @server.tool
    async def wait() -> str:
        """Respond when all calls have arrived."""
        nonlocal arrived
        arrived += 1
        if arrived == number:
            release.set()
        await release.wait()
        return "done"

    async with connected(server, max_pending=number + 1, busy="wait") as client:

        async def work() -> None:
            nonlocal arrived
            arrived = 0
            release.clear()
            for call in [client.submit("tools/call", {"name": "wait"}) for _ in range(number)]:
                await call

        measured = await costs(number, MIN_ITEMS, work)
    return [*measured, await waiting_tasks(number)]


async def many_tools(number: int) -> list[float]:
    """Measure adding a tool, calling the last one, and listing them, for each tool."""
    server = Server("scale")

    async def handler(text: str) -> str:
        """Return the text."""
        return text

    server.tool(name="first")(handler)  # imports what registration needs
    started = time.process_time()
    for index in range(number - 1):
        server.tool(name=f"tool_{index}")(handler)
    added = (time.process_time() - started) / max(number - 1, 1)
    last = f"tool_{number - 2}" if number > 1 else "first"
    async with connected(server) as client:

        async def call() -> None:
            await client.tools.call(last, {"text": "hello"})

        async def list_all() -> None:
            assert len(await client.tools.list()) == number

        return [added, await cost(1, MIN_ITEMS, call), await cost(number, MIN_ITEMS, list_all)]


# Part -> function, numbers of items, and the columns, each with the growth that it may have (None: shown, no target).
PARTS: dict[str, tuple[Callable[[int], Any], tuple[int, ...], dict[str, float | None]]] = {
    "calls in flight": (
        calls_in_flight,
        IN_FLIGHT,
        {"a call": None, "without the garbage collector": MAX_GROWTH_OF_CALLS, "a task of asyncio alone": None},
    ),
    "tools": (
        many_tools,
        TOOLS,
        dict.fromkeys(("adding a tool", "a call of the last tool", "a tool in `tools/list`"), MAX_GROWTH),
    ),
}


def measure(part: str, number: int) -> list[float]:
    """Measure in a new process: an earlier measurement leaves a larger heap."""
    command = [sys.executable, __file__, part, str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        raise SystemExit(f"{part}, {number} failed:\n{done.stderr[-2000:]}")
    return [float(value) for value in done.stdout.split()]


def growth() -> bool:
    """Print one table for each part, as in docs/performance.md. Returns whether no cost grows."""
    is_flat = True
    for part, (_, numbers, columns) in PARTS.items():
        print(f"\n| {part} | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
        rows = []
        for number in numbers:
            rows.append(measure(part, number))
            print(f"| {number:,} | {' | '.join(format_seconds(value) for value in rows[-1])} |", flush=True)
        for index, (column, target) in enumerate(columns.items()):
            growth = rows[-1][index] / min(row[index] for row in rows)
            verdict = ""
            if target is not None:
                is_flat = is_flat and growth <= target
                verdict = f", target <= {target:g}  {'ok' if growth <= target else 'MISSED'}"
            print(f"  {column}: {growth:.2f} x the least{verdict}")
    return is_flat


def main() -> int:
    """Run the measurements that are named, or all of them. Returns the exit code."""
    import _machines  # here, because `measure()` starts this program again: its heap should be small
    import _processes

    print_platform()
    names = sys.argv[1:] or ["growth", "redis", "processes"]
    is_met = growth() if "growth" in names else True
    for name, run in (("redis", lambda url: asyncio.run(_machines.measure(url))), ("processes", _processes.measure)):
        if name in names:
            with _machines.redis_server() as url:
                is_met &= run(url)
    return 0 if is_met else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(*asyncio.run(PARTS[sys.argv[1]][0](int(sys.argv[2]))))
    else:
        sys.exit(main())
