"""A background worker that runs each job of a queue at most once (docs/guides/worker.md).

python examples/guides/worker.py jobs.db add pay '{"order": "A7", "cents": 500}'
python examples/guides/worker.py jobs.db work python examples/guides/shop.py ledger.txt
python examples/guides/worker.py jobs.db list
"""

import argparse
import asyncio
import json
import signal
import sqlite3
import sys
from typing import Any, NamedTuple

from jackstay import (
    CapabilityError,
    Client,
    ClosedError,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    UsageError,
    connect,
    stdio,
)

# Concurrent jobs, the poll interval of an empty queue, and how long the shutdown waits for open calls.
AT_ONCE = 4
PAUSE = 0.5
DRAIN = 20.0
# The server of a killed worker ends soon after, because its input ends. This is how long to wait for it.
GRACE = 5.0

# For a tool that must not run twice: the tool that checks whether it ran.
CHECK_TOOLS = {"pay": "was_it_paid"}

# Errors of the job itself: a retry cannot help.
PERMANENT = (UsageError, CapabilityError, ProtocolError)
# Rejected before anything ran (JSON-RPC 2.0: parse error, invalid request, method not found, invalid params).
REFUSED = (-32700, -32600, -32601, -32602)


class Job(NamedTuple):
    """A tool to call."""

    id: int
    tool: str
    arguments: dict[str, Any]


class Jobs:
    """The queue in a file, for one worker process at a time.

    A job is `waiting`, `running`, `done`, `failed` or `unknown`. It is `running` before its call is made, so
    that a job of a crashed worker is never run again by mistake.
    """

    def __init__(self, path: str) -> None:
        # Autocommit: every statement is on disk when it returns.
        self._rows = sqlite3.connect(path, isolation_level=None)
        self._rows.execute(
            "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, tool TEXT NOT NULL, arguments TEXT NOT NULL,"
            " state TEXT NOT NULL DEFAULT 'waiting', message TEXT NOT NULL DEFAULT '')"
        )

    def add(self, tool: str, arguments: dict[str, Any]) -> None:
        """Add a job at the end of the queue."""
        self._rows.execute("INSERT INTO jobs (tool, arguments) VALUES (?, ?)", (tool, json.dumps(arguments)))

    def take(self) -> Job | None:
        """Return the first waiting job, and set it to `running`."""
        row = self._rows.execute(
            "UPDATE jobs SET state = 'running' WHERE id = (SELECT min(id) FROM jobs WHERE state = 'waiting')"
            " RETURNING id, tool, arguments"
        ).fetchone()
        return None if row is None else Job(row[0], row[1], json.loads(row[2]))

    def put(self, job: Job, state: str, message: str = "") -> None:
        """Set the state of a job."""
        self._rows.execute("UPDATE jobs SET state = ?, message = ? WHERE id = ?", (state, message, job.id))

    def left(self) -> list[Job]:
        """Return the unknown jobs. Call it at the start: jobs that are still `running` belong to a crashed worker."""
        self._rows.execute("UPDATE jobs SET state = 'unknown', message = 'the worker died' WHERE state = 'running'")
        rows = self._rows.execute("SELECT id, tool, arguments FROM jobs WHERE state = 'unknown' ORDER BY id")
        return [Job(id, tool, json.loads(arguments)) for id, tool, arguments in rows]

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def lines(self) -> list[str]:
        """Return one line for each job."""
        rows = self._rows.execute("SELECT id, state, tool, arguments, message FROM jobs ORDER BY id")
        return [" ".join(str(part) for part in row).rstrip() for row in rows]


async def run(client: Client, jobs: Jobs, job: Job) -> None:
    """Make the call once, and store the outcome."""
    try:
        result = await client.tools.call(job.tool, job.arguments, raise_on_error=False)
    except McpError as error:
        if error.may_have_run or (isinstance(error, JsonRpcError) and error.code not in REFUSED):
            jobs.put(job, "unknown", error.message)
        elif isinstance(error, (JsonRpcError, *PERMANENT)):
            jobs.put(job, "failed", error.message)
        else:
            jobs.put(job, "waiting", error.message)
        if isinstance(error, OutcomeUnknownError):
            await settle(client, jobs, job)
        if isinstance(error, ClosedError):
            raise
    else:
        if result.is_error:
            jobs.put(job, "failed", result.error_text)
        else:
            jobs.put(job, "done", result.text)


async def settle(client: Client, jobs: Jobs, job: Job) -> None:
    """Find out whether an unknown job was done. Only if its server is gone: otherwise it may still be running."""
    check = CHECK_TOOLS.get(job.tool)
    if check is None or "order" not in job.arguments:
        return
    try:
        result = await client.tools.call(check, {"order": job.arguments["order"]}, raise_on_error=False)
    except McpError:
        return  # still unknown
    if result.is_error:
        return
    jobs.put(job, "done" if result.text == "yes" else "waiting", f"{check}: {result.text}")


async def work(client: Client, jobs: Jobs, stopping: asyncio.Event) -> None:
    """Run jobs in sequence until `stopping` is set."""
    while not stopping.is_set():
        job = jobs.take()
        if job is not None:
            await run(client, jobs, job)
            continue
        try:
            async with asyncio.timeout(PAUSE):
                await stopping.wait()
        except TimeoutError:
            pass


async def serve(client: Client, jobs: Jobs) -> None:
    """Run jobs until SIGTERM or SIGINT; then open calls have `DRAIN` seconds to finish."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with client:
        left = jobs.left()
        if left:
            await asyncio.sleep(GRACE)
        for job in left:
            await settle(client, jobs, job)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(work(client, jobs, stopping))
            await stopping.wait()
            await client.stop(drain=DRAIN)


def json_object(text: str) -> dict[str, Any]:
    """Parse the arguments of a tool."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object, such as '{}'")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description="Run jobs from a queue, each at most once.")
    parser.add_argument("queue", help="the file of the queue")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add", help="add a job")
    add.add_argument("tool")
    add.add_argument("arguments", type=json_object, help="a JSON object")
    serving = commands.add_parser("work", help="run jobs until SIGTERM or Ctrl-C")
    serving.add_argument("server", nargs="+", help="the command of the server")
    commands.add_parser("list", help="show all jobs")
    given, status = parser.parse_args(), 0
    try:
        jobs = Jobs(given.queue)
    except sqlite3.Error as error:
        parser.error(f"cannot open the queue {given.queue}: {error}")
    if given.command == "add":
        jobs.add(given.tool, given.arguments)
    elif given.command == "work":
        client = connect(stdio(*given.server, inherit_env=["PYTHONPATH"]))
        try:
            asyncio.run(serve(client, jobs))
        except* McpError as errors:
            print(errors.exceptions[0], file=sys.stderr)
            status = 1
    print(*jobs.lines(), sep="\n")
    jobs.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
