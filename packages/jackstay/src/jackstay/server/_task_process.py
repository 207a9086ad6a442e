"""A process that runs tasks and serves no client: `jackstay serve FILE --tasks-only`."""

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from jackstay.errors import UsageError
from jackstay.server._run import SIGNALS
from jackstay.server._task_store import MemoryTaskStore
from jackstay.server._tasks import Tasks

if TYPE_CHECKING:
    from jackstay.server._server import Server


def run_tasks(server: "Server") -> int:
    """Run the tasks of a server's store until a signal. Returns 130 after SIGINT, else 0; a second signal kills.

    Raises: UsageError, if the server has no tasks, or if they are in the memory of another process.
    """
    rows = () if server._extensions is None else server._extensions.rows
    tasks = next((row for row in rows if isinstance(row, Tasks)), None)
    if tasks is None:
        raise UsageError(f"the server {server.name!r} has no tasks: no tool has task=", path="tasks")
    if isinstance(tasks.store, MemoryTaskStore):
        message = "the tasks are in the memory of the process that serves; use Tasks(SqliteTaskStore(path))"
        raise UsageError(message, path="tasks")
    return asyncio.run(_run(server))


async def _run(server: "Server") -> int:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        for other in SIGNALS:
            loop.remove_signal_handler(other)
        stopped.set_result(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    await server.startup(_run)
    print(f"{server.name} runs tasks\n", end="", file=sys.stderr, flush=True)  # one write
    received = await stopped
    await server.shutdown(_run)
    return 128 + received if received == signal.SIGINT else 0
