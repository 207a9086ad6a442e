"""The Jackstay client at scale: many calls in flight on one connection, many clients in one process.

python scale_jackstay.py calls N SERVER...       prints: seconds per call, bytes per open call
python scale_jackstay.py memory N                prints: KiB per client with an in-memory server; additional threads
python scale_jackstay.py stdio N SERVER...       prints: KiB per client with a server process; additional threads
"""

import asyncio
import gc
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from jackstay.client import connect
from jackstay.server import Server
from jackstay.transport import memory_pair, stdio

TEXT = "hello"
VERSIONS = ("2025-11-25",)


async def many_calls(number: int, command: list[str]) -> None:
    """Submit all calls before the first is awaited, at least ten times; print the median time."""
    async with connect(stdio(*command), versions=VERSIONS, max_pending=10_000, busy="wait") as client:
        await client.tools.call("echo", {"text": TEXT})

        def submit() -> Any:
            return client.submit("tools/call", {"name": "echo", "arguments": {"text": TEXT}})

        async def burst() -> float:
            started = time.perf_counter()
            calls = [submit() for _ in range(number)]
            for call in calls:
                await call
            return (time.perf_counter() - started) / number

        rounds = max(10, 10_000 // number)
        took = sorted([await burst() for _ in range(rounds)])[rounds // 2]
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        calls = [submit() for _ in range(number)]
        each = (tracemalloc.get_traced_memory()[0] - before) / number
        tracemalloc.stop()
        for call in calls:
            await call
    print(took, each)


def resident() -> float:
    """Return the resident memory in KiB."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0])


async def many_clients(number: int, target: Callable[[AsyncExitStack], Any]) -> None:
    """Open this many clients, call a tool with each, and print their memory and threads."""

    async def open_client(stack: AsyncExitStack) -> Any:
        client = await stack.enter_async_context(
            connect(target(stack), versions=VERSIONS, open_timeout=None, init_timeout=300)
        )
        assert (await client.tools.call("echo", {"text": TEXT})).text == TEXT
        return client

    async with AsyncExitStack() as stack:
        await open_client(stack)  # imports of the first client do not count
        before, threads = resident(), threading.active_count()
        clients = [await open_client(stack) for _ in range(number)]
        print((resident() - before) / number, threading.active_count() - threads)
        results = await asyncio.gather(*(client.tools.call("echo", {"text": TEXT}) for client in clients))
        assert all(result.text == TEXT for result in results)


def in_memory(stack: AsyncExitStack) -> Any:
    """Return a target whose server runs in this process."""
    pair = memory_pair()
    serving = asyncio.ensure_future(SERVER.serve(pair.server))
    stack.callback(serving.cancel)
    return pair.client


SERVER = Server("echo")


@SERVER.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


def main(mode: str, number: int, command: list[str]) -> None:
    if mode == "calls":
        asyncio.run(many_calls(number, command))
    elif mode == "memory":
        asyncio.run(many_clients(number, in_memory))
    else:
        asyncio.run(many_clients(number, lambda _: stdio(*command)))


main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
