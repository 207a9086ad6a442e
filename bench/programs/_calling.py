"""What every client under test does: warm up, then so many calls with so many in flight; seconds a call on stdout.

python client_x.py CALLS IN_FLIGHT SERVER...

TEXT_SIZE in the environment makes the text that is echoed so many bytes long.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable

TEXT = "hello".ljust(int(os.environ.get("TEXT_SIZE", "5")), "x")


def arguments() -> tuple[int, int, list[str]]:
    return int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]


async def measure(call: Callable[[str], Awaitable[str]], calls: int, in_flight: int) -> None:
    """Print the seconds of one call, wall and CPU. Every answer is checked."""

    async def worker(number: int) -> None:
        for _ in range(number):
            if await call(TEXT) != TEXT:
                raise SystemExit("a wrong answer")

    for _ in range(min(200, calls)):
        await call(TEXT)
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker(calls // in_flight) for _ in range(in_flight)))
    made = calls // in_flight * in_flight
    print((time.perf_counter() - started) / made, (time.process_time() - cpu) / made)
