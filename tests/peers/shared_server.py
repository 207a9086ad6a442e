"""A server program that shares its sessions with others of its kind: `shared_server.py '{"file": ..., "hub": ...}'`.

`file` is the database of sessions, with `events` it has the events as well, and `hub` is the port of the bus;
None: no bus. `redis` is the URL of a Redis that has all three instead, and the state of the middleware. The program
prints to stderr when a handler begins, and when it was cancelled.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from jackstay.redis import RedisBackend
from jackstay.server import Context, RateLimit, ResponseCache, Server
from jackstay.server._driver import Driver

sys.path.insert(0, str(Path(__file__).parent.parent))

from peers.shared_state import FileEvents, FileSessions, HubBus


def write_line(line: str) -> None:
    os.write(2, f"{line}\n".encode())


visits = [0]
changed = Driver.changed


def count_visit(connection: Driver, method: str, uri: str, params: bytes) -> None:
    visits[0] += 1
    changed(connection, method, uri, params)


Driver.changed = count_visit  # type: ignore[method-assign]


def topic_of(context: Context) -> str:
    """Return the argument `topic` of a tool call, for which calls are limited."""
    arguments = context.params.get("arguments")
    return str(arguments.get("topic", "")) if isinstance(arguments, dict) else ""


def make(hub: int | None = None, redis: str = "") -> Server:
    server = Server(
        "shared",
        request_state_secrets=(b"the same secret in all processes",),
        changes=HubBus(hub) if hub else None,
        backend=RedisBackend(redis, timeout=100.0) if redis else None,
    )

    server.add_middleware(RateLimit(4, 100_000, by=topic_of))
    server.add_middleware(ResponseCache(100_000, tools=["cached_pid"], shared=True))

    @server.tool
    async def cached_pid(topic: str) -> int:
        return os.getpid()

    @server.tool
    async def pid() -> int:
        return os.getpid()

    @server.tool
    async def confirm(subject: str, context: Context) -> str:
        """Confirm one subject."""
        answer = await context.elicit(subject, {"type": "object", "properties": {"subject": {"type": "string"}}})
        return f"{subject}: {(answer.content or {}).get('subject', answer.action)}"

    @server.tool
    async def wait(context: Context) -> str:
        write_line("begun")
        context.progress(1)
        try:
            await asyncio.Event().wait()
        finally:
            write_line("cancelled")
        return "never"

    resumed = asyncio.Event()

    @server.tool
    async def pause() -> str:
        """Wait until `resume` is called in this process."""
        write_line("paused")
        await resumed.wait()
        return "resumed"

    @server.tool
    async def resume() -> str:
        resumed.set()
        return "done"

    @server.tool
    async def nap(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "awake"

    @server.tool
    async def visited() -> int:
        """Return how many connections were notified of changes."""
        return visits[0]

    @server.tool
    async def report(count: int, context: Context) -> str:
        """Send events in one turn of the loop."""
        for number in range(count):
            context.progress(number)
        return "done"

    @server.tool
    async def add(name: str) -> str:
        """Add a tool in this process."""
        server.add_tool(name, input_schema={"type": "object"}, handler=lambda arguments: "added", replace=True)
        return name

    @server.tool
    async def update(uri: str) -> str:
        """Change a resource."""
        server.notify_resource_updated(uri)
        return uri

    @server.resource("memo://{name}")
    async def memo(name: str) -> str:
        return name

    return server


def main() -> int:
    given = {"health": True, **json.loads(sys.argv[1])}
    if "redis" in given:
        return make(redis=given.pop("redis")).run(transport="http", port=0, sessions=True, **given)
    file, hub, has_events = given.pop("file"), given.pop("hub"), given.pop("events", False)
    stores = {"event_store": FileEvents(file)} if has_events else {}
    return make(hub).run(transport="http", port=0, sessions=True, session_store=FileSessions(file), **stores, **given)


if __name__ == "__main__":
    sys.exit(main())
