"""The load of a client under test: a warm-up, then CALLS calls. Prints the seconds per call.

python client_x.py CALLS IN_FLIGHT SERVER...

TEXT_SIZE in the environment is the size of the echoed text in bytes.
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
    """Print the seconds per call, wall and CPU. Every result is checked."""

    async def worker(number: int) -> None:
        for _ in range(number):
            if await call(TEXT) != TEXT:
                raise SystemExit("unexpected result")

    for _ in range(min(200, calls)):
        await call(TEXT)
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker(calls // in_flight) for _ in range(in_flight)))
    made = calls // in_flight * in_flight
    print((time.perf_counter() - started) / made, (time.process_time() - cpu) / made)
