"""One of several server processes: `scale_worker.py PORT REDIS_URL MAX_SESSIONS WORKERS [callbacks]`; "-": in memory.

With `callbacks` it measures the callbacks of the loop, which takes time, and needs the loop of asyncio.
"""

import asyncio
import sys
import time

from jackstay.redis import RedisBackend
from jackstay.server import MemoryBackend, Server

run_callback = asyncio.Handle._run
durations = [0.0]


def run_measured(handle: asyncio.Handle) -> None:
    """Run a callback of the loop, and note the CPU time of the longest one."""
    began = time.thread_time()
    run_callback(handle)
    durations[0] = max(durations[0], time.thread_time() - began)


has_durations = sys.argv[5:] == ["callbacks"]
if has_durations:
    asyncio.Handle._run = run_measured

backend = MemoryBackend() if sys.argv[2] == "-" else RedisBackend(sys.argv[2], timeout=10.0)
server = Server("scale", backend=backend)


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
async def publish(first: int, count: int) -> str:
    """Notify the subscribers of these resources."""
    for number in range(first, first + count):
        server.notify_resource_updated(f"memo://{number}")
    return "done"


@server.tool
async def longest_callback() -> float:
    """Return the CPU seconds of the longest callback since the last call."""
    found = durations[0]
    durations[0] = 0.0
    return found


@server.resource("memo://{name}")
async def memo(name: str) -> str:
    """Return the name."""
    return name


server.run(
    transport="http",
    port=int(sys.argv[1]),
    loop="asyncio" if has_durations else "auto",
    sessions=True,
    health=True,
    max_sessions=int(sys.argv[3]),
    workers=int(sys.argv[4]),
)
