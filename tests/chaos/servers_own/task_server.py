"""A server with durable tasks: `python task_server.py FOLDER [SLOTS]` over stdio, or for `jackstay serve`, which reads
the folder from the environment. The store is Redis if REDIS_URL is set, else a file.

Each run appends a line to FOLDER/ledger, and ends when FOLDER/release exists.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from jackstay import Server
from jackstay.server import SqliteTaskStore, Tasks

FOLDER = Path(sys.argv[1] if __name__ == "__main__" else os.environ["TASK_FOLDER"])
SLOTS = int(sys.argv[2]) if __name__ == "__main__" and len(sys.argv) > 2 else 10

options: Any = {"lease": 1.0, "poll_interval": 0.1, "slots": SLOTS}
if os.environ.get("REDIS_URL"):
    from jackstay.redis import RedisBackend  # the other servers start sooner without it

    backend = RedisBackend(os.environ["REDIS_URL"], timeout=20.0)
    server = Server("durable", backend=backend, extensions=[Tasks(**options)])
else:
    server = Server("durable", extensions=[Tasks(SqliteTaskStore(FOLDER / "tasks.db"), **options)])


def note(act: str, tool: str) -> None:
    """Append a line to the ledger, in one write."""
    with (FOLDER / "ledger").open("ab", buffering=0) as ledger:
        ledger.write(f"{act} {tool} {os.getpid()}\n".encode())


async def work(tool: str) -> str:
    """Wait for the release."""
    note("start", tool)
    while not (FOLDER / "release").exists():
        await asyncio.sleep(0.05)
    note("end", tool)
    return f"{tool} by {os.getpid()}"


@server.tool(task=True)
async def once() -> str:
    """A tool that must not be repeated."""
    return await work("once")


@server.tool(task=True, idempotent=True)
async def again() -> str:
    """A tool that may be repeated."""
    return await work("again")


if __name__ == "__main__":
    sys.exit(server.run())
