"""An HTTP server program, for tests with real processes: `python http_server.py '{"port": 0, "workers": 2}'`.

Options that `Server` does not have are passed to `run(transport="http")`. The program prints to stderr when a handler
begins, and when its shutdown hook ran.
"""

import asyncio
import json
import logging
import os
import sys
import time

from jackstay.server import Context, Server
from jackstay.server.http import keys

SERVER_OPTIONS = ("drain_timeout", "threads", "versions")


def write_line(line: str) -> None:
    os.write(2, f"{line}\n".encode())  # in one write: workers share the pipe


def make(options: dict[str, object]) -> Server:
    server = Server("peer", version="1", **options)  # type: ignore[arg-type]  # options of a test

    @server.tool
    async def pid() -> int:
        return os.getpid()

    @server.tool
    async def slow(seconds: float) -> str:
        write_line("begun")
        await asyncio.sleep(seconds)
        return "done"

    @server.tool
    def block(seconds: float) -> str:
        write_line("begun")
        time.sleep(seconds)
        return "done"

    @server.tool
    async def elicit(context: Context) -> str:
        answer = await context.elicit("Go on?", {"type": "object", "properties": {"yes": {"type": "boolean"}}})
        return f"{answer.action} by {os.getpid()}"

    @server.on_shutdown
    async def hook() -> None:
        write_line("hook ran")

    return server


def main() -> int:
    given = json.loads(sys.argv[1])
    if given.pop("breaks_when_started_again", False) and "JACKSTAY_WORKER" in os.environ:
        raise RuntimeError("this worker does not start")
    level = given.pop("log_level", None)
    if level is not None:
        logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    if "keys" in given:
        given["auth"] = keys(given.pop("keys"))
    server_options = {name: given.pop(name) for name in SERVER_OPTIONS if name in given}
    return make(server_options).run(transport="http", **given)


if __name__ == "__main__":
    sys.exit(main())
