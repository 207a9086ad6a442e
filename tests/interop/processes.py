"""The server's process, as the operating system sees it: found, stopped in the middle of a call, killed.

No waiting by the clock: the kernel says when a process has stopped, and when a frame lies in its stdin.

Above: the tests. Below: `/proc`, and nothing of Jackstay's.
"""

import asyncio
import fcntl
import functools
import os
import signal
from collections.abc import Awaitable, Callable
from typing import ParamSpec

from chaos.leftovers import children

P = ParamSpec("P")

GUARD_SECONDS = 45.0  # below the guard of the whole test, so that the loop can still close what it opened


def on_a_loop(scenario: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """A test from a coroutine function, ended by a guard."""

    @functools.wraps(scenario)
    def test(*args: P.args, **keywords: P.kwargs) -> None:
        async def guarded() -> None:
            async with asyncio.timeout(GUARD_SECONDS):
                await scenario(*args, **keywords)

        asyncio.run(guarded())

    return test


def only_child() -> int:
    """The process id of the one server that runs now."""
    (pid,) = children()
    return pid


def freeze(pid: int) -> None:
    """Stop a child and return when it has stopped, all its threads: from now on it reads nothing."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def _pipes(pid: int | str) -> dict[str, int]:
    """The pipes that a process holds, each with one of its descriptors for it."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            what = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
        if what.startswith("pipe:"):
            found[what] = int(name)
    return found


def _can_only_write(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


async def something_in_stdin_of(pid: int) -> None:
    """Wait until bytes lie unread in the pipe to a frozen process: they are written, and it has not seen them.

    The pipe is the one between us that we can only write to; it need not be descriptor 0 there: the SDK 2.x moves it
    away and puts /dev/null in its place.
    """
    theirs = _pipes(pid)
    (ours,) = [end for what, end in _pipes("self").items() if what in theirs and _can_only_write(end)]
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()
    pipe = os.open(f"/proc/self/fd/{ours}", os.O_RDONLY | os.O_NONBLOCK)
    try:
        loop.add_reader(pipe, arrived.set)
        await arrived.wait()
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)
