"""The server whose tasks are lost and found: for `jackstay serve FILE --tasks-only`, and in the process of the client.

`REDIS_URL` is its Redis and `LEDGER` the file to which every run appends a line when it starts and when it ends. The
clock of its machine is `CLOCK_OFFSET` seconds fast.
"""

import asyncio
import os
import time

from jackstay import Context, Server
from jackstay.redis import RedisBackend
from jackstay.server import Tasks

# Short, so that the tasks of killed workers end soon. A worker that is too slow to renew it loses its task, too.
LEASE = 0.6


def write(ledger: str, *words: str) -> None:
    """Append a line, in one write."""
    descriptor = os.open(ledger, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    try:
        os.write(descriptor, f"{' '.join(words)}\n".encode())
    finally:
        os.close(descriptor)


def make(url: str, ledger: str, slots: int) -> Server:
    """Return a server that runs so many tasks at a time."""
    backend = RedisBackend(url, timeout=2.0)
    tasks = Tasks(lease=LEASE, poll_interval=0.1, slots=slots, max_tasks=1_000_000)
    server = Server("tasks", backend=backend, extensions=[tasks])

    async def work(nonce: str, seconds: float) -> str:
        write(ledger, "start", nonce)
        await asyncio.sleep(seconds)
        write(ledger, "end", nonce)
        return nonce

    @server.tool(task="required")
    async def once(nonce: str, seconds: float) -> str:
        """A tool that must not be repeated."""
        return await work(nonce, seconds)

    @server.tool(task="required", idempotent=True)
    async def again(nonce: str, seconds: float) -> str:
        """A tool that may be repeated."""
        return await work(nonce, seconds)

    @server.tool(task="required")
    async def confirm(nonce: str, seconds: float, ctx: Context) -> str:
        """A tool that requires input, and must not be repeated after it."""
        answer = await ctx.elicit(nonce, {"type": "object", "properties": {"nonce": {"type": "string"}}})
        await work(nonce, seconds)
        return str((answer.content or {}).get("nonce", answer.action))

    return server


if "LEDGER" in os.environ:
    real_time, offset = time.time, float(os.environ.get("CLOCK_OFFSET", "0"))
    time.time = lambda: real_time() + offset
    server = make(os.environ["REDIS_URL"], os.environ["LEDGER"], 16)
