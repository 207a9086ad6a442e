"""A background worker: takes jobs from a queue, runs each at most once, and says which ones nobody knows about.

    python examples/guides/worker.py jobs.db add pay '{"order": "A7", "cents": 500}'
    python examples/guides/worker.py jobs.db work python examples/guides/shop.py ledger.txt
    python examples/guides/worker.py jobs.db list

What each part is for: docs/guides/worker.md.
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

# How many jobs run at a time, how often an empty queue is looked at, how long the end waits for open calls.
AT_ONCE = 4
PAUSE = 0.5
DRAIN = 20.0
# A worker that is killed cannot take its server with it: that one sees the end of its input, and ends soon.
GRACE = 5.0

# For a tool that must not run twice: the tool that tells whether it ran.
LOOKS = {"pay": "was_it_paid"}

# The job itself is wrong: trying again cannot help.
HOPELESS = (UsageError, CapabilityError, ProtocolError)
# Refused before anything ran (JSON-RPC 2.0: parse error, invalid request, no such method, invalid params).
REFUSED = (-32700, -32600, -32601, -32602)


class Job(NamedTuple):
    """A tool to call."""

    id: int
    tool: str
    arguments: dict[str, Any]


class Jobs:
    """The queue, in a file. One worker process at a time.

    A job is `waiting`, `running`, `done`, `failed` or `unknown`. It is `running` before its call is made: a worker that
    dies leaves a job that may have run, and never one that is taken again.
    """

    def __init__(self, path: str) -> None:
        # Every statement is on the disk when it returns.
        self._rows = sqlite3.connect(path, isolation_level=None)
        self._rows.execute(
            "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, tool TEXT NOT NULL, arguments TEXT NOT NULL,"
            " state TEXT NOT NULL DEFAULT 'waiting', said TEXT NOT NULL DEFAULT '')"
        )

    def add(self, tool: str, arguments: dict[str, Any]) -> None:
        """A new job, last in the queue."""
        self._rows.execute("INSERT INTO jobs (tool, arguments) VALUES (?, ?)", (tool, json.dumps(arguments)))

    def take(self) -> Job | None:
        """The first that waits; it is `running` now."""
        row = self._rows.execute(
            "UPDATE jobs SET state = 'running' WHERE id = (SELECT min(id) FROM jobs WHERE state = 'waiting')"
            " RETURNING id, tool, arguments"
        ).fetchone()
        return None if row is None else Job(row[0], row[1], json.loads(row[2]))

    def put(self, job: Job, state: str, said: str = "") -> None:
        """How it ended, or that it waits again."""
        self._rows.execute("UPDATE jobs SET state = ?, said = ? WHERE id = ?", (state, said, job.id))

    def left(self) -> list[Job]:
        """Those nobody knows about; at the start, when what is `running` was left by a worker that died."""
        self._rows.execute(
            "UPDATE jobs SET state = 'unknown', said = 'the worker died' WHERE state = 'running'"
        )
        rows = self._rows.execute("SELECT id, tool, arguments FROM jobs WHERE state = 'unknown' ORDER BY id")
        return [Job(id, tool, json.loads(arguments)) for id, tool, arguments in rows]

    def close(self) -> None:
        """No more."""
        self._rows.close()

    def lines(self) -> list[str]:
        """For people."""
        rows = self._rows.execute("SELECT id, state, tool, arguments, said FROM jobs ORDER BY id")
        return [" ".join(str(part) for part in row).rstrip() for row in rows]


async def run(client: Client, jobs: Jobs, job: Job) -> None:
    """Make the call, once, and write down how it ended."""
    try:
        result = await client.tools.call(job.tool, job.arguments)
    except McpError as error:
        if error.may_have_run or (isinstance(error, JsonRpcError) and error.code not in REFUSED):
            jobs.put(job, "unknown", error.message)
        elif isinstance(error, (JsonRpcError, *HOPELESS)):
            jobs.put(job, "failed", error.message)
        else:
            jobs.put(job, "waiting", error.message)
        if isinstance(error, OutcomeUnknownError):
            await settle(client, jobs, job)
        if isinstance(error, ClosedError):
            raise
    else:
        jobs.put(job, "failed" if result.is_error else "done", result.text)


async def settle(client: Client, jobs: Jobs, job: Job) -> None:
    """Look whether an unknown job was done. Only when the server that had it is gone: else it may still be at it."""
    look = LOOKS.get(job.tool)
    if look is None or "order" not in job.arguments:
        return
    try:
        seen = await client.tools.call(look, {"order": job.arguments["order"]})
    except McpError:
        return  # still unknown
    if seen.is_error:
        return
    jobs.put(job, "done" if seen.text == "yes" else "waiting", f"{look}: {seen.text}")


async def work(client: Client, jobs: Jobs, stopping: asyncio.Event) -> None:
    """Run one job after the other until it is time to stop."""
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
    """Everything, until SIGTERM or SIGINT: then no new jobs, and open calls have `DRAIN` seconds."""
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
    """The arguments of a tool."""
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
