"""A stdio server program whose tools hang, print, start processes and block: `serving.py [OPTION ...]`.

Options: hook-hangs, atexit-hangs, startup-hangs (the hook never returns), at-once=N (max_concurrent), drain=SECONDS
(drain_timeout), after=SECONDS (the program continues after `run()`), uvloop.
"""

import asyncio
import atexit
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from jackstay.server import Context, Server

executor = ThreadPoolExecutor(2)
numbers = {
    name: float(value) for name, is_number, value in (argument.partition("=") for argument in sys.argv) if is_number
}
server = Server(
    "serving",
    version="1.0",
    max_concurrent=int(numbers.get("at-once", 1024)),
    drain_timeout=numbers.get("drain", 1.0),
)
forever = threading.Event()
together: list[asyncio.Event] = []


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool(blocking=False)
def large(size: int) -> str:
    return "x" * size


@server.tool
def hang() -> None:
    """Block a thread forever, cancelled or not."""
    forever.wait()


@server.tool
async def hang_in_executor() -> None:
    await asyncio.to_thread(forever.wait)


@server.tool
async def hang_in_new_thread() -> str:
    threading.Thread(target=forever.wait).start()
    return "started"


@server.tool
def hang_in_thread_pool() -> str:
    """The worker thread inherits `daemon` from the thread that submits, but the interpreter joins it at exit anyway."""
    executor.submit(forever.wait)
    return "submitted"


@server.tool
def use_thread_pool() -> str:
    return str(executor.submit(lambda: 42).result())


@server.tool
async def block_the_loop() -> None:
    print("blocking", file=sys.stderr, flush=True)
    time.sleep(60)


@server.tool
async def refuse_to_be_cancelled() -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


@server.tool
async def meet(count: int) -> str:
    """Return when `count` calls are waiting."""
    together.append(asyncio.Event())
    if len(together) == count:
        for waiting in together:
            waiting.set()
        together.clear()
        return "met"
    await together[-1].wait()
    return "met"


@server.tool
async def take(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


@server.tool
def shout() -> str:
    """Write to stdout in every way that a tool should not."""
    print("a print of a tool")
    os.write(1, b"a write of a tool\n")
    subprocess.run([sys.executable, "-c", "print('a print of a child')"], check=True)
    return "shouted"


@server.tool
def what_a_child_reads() -> str:
    """Return what a child process reads from stdin: nothing, or it would consume requests."""
    done = subprocess.run(["/bin/cat"], check=True, capture_output=True, timeout=120)
    return done.stdout.decode()


@server.tool
async def flood(ctx: Context) -> str:
    for number in range(20_000):
        ctx.log("error", "x" * 1000)
        if number % 100 == 0:
            await asyncio.sleep(0)
    print("flooded", file=sys.stderr, flush=True)
    return "flooded"


@server.on_shutdown
def print_goodbye() -> None:
    print("goodbye", file=sys.stderr)


if "hook-hangs" in sys.argv:
    server.on_shutdown(lambda: forever.wait())

atexit.register(print, "exited", file=sys.stderr)
if "atexit-hangs" in sys.argv:
    atexit.register(forever.wait)

if "startup-hangs" in sys.argv:

    @server.on_startup
    def start() -> None:
        print("starting", file=sys.stderr, flush=True)
        forever.wait()


def loop_factory() -> asyncio.AbstractEventLoop:
    if "uvloop" in sys.argv:
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


if __name__ == "__main__":
    code = server.run(loop_factory=loop_factory)
    if "after" in numbers:
        time.sleep(numbers["after"])
        print("continued", file=sys.stderr)
    sys.exit(code)
