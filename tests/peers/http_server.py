"""A program that is an HTTP server, for tests that start, call and end real processes.

    python http_server.py '{"port": 0, "workers": 2, "drain_timeout": 0.5}'

What is no option of the server itself goes to `run(transport="http")`. On standard error it says when a handler begins,
and when its shutdown hook ran.
"""

import asyncio
import json
import logging
import os
import sys
import time

from jackstay.server import Context, Server
from jackstay.server.http import keys

OF_THE_SERVER = ("drain_timeout", "threads", "versions")


def tell(words: str) -> None:
    os.write(2, f"{words}\n".encode())  # in one piece: workers write to the same pipe


def make(options: dict[str, object]) -> Server:
    server = Server("peer", version="1", **options)  # type: ignore[arg-type]  # a test's own

    @server.tool
    async def pid() -> int:
        return os.getpid()

    @server.tool
    async def slow(seconds: float) -> str:
        tell("begun")
        await asyncio.sleep(seconds)
        return "done"

    @server.tool
    def block(seconds: float) -> str:
        tell("begun")
        time.sleep(seconds)
        return "done"

    @server.tool
    async def ask(context: Context) -> str:
        answer = await context.elicit(
            "Go on?", {"type": "object", "properties": {"yes": {"type": "boolean"}}}
        )
        return f"{answer.action} by {os.getpid()}"

    @server.on_shutdown
    async def hook() -> None:
        tell("hook ran")

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
    of_the_server = {name: given.pop(name) for name in OF_THE_SERVER if name in given}
    return make(of_the_server).run(transport="http", **given)


if __name__ == "__main__":
    sys.exit(main())
