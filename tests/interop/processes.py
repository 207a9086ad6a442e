"""The server's process, as the operating system sees it: found, stopped in the middle of a call, killed.

No sleeping: the kernel shows when a process has stopped, and when a frame is in its stdin.
"""

import asyncio
import fcntl
import os
import signal
from typing import ParamSpec

from chaos.leftovers import children

P = ParamSpec("P")


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
    child_pipes = _pipes(pid)
    (own_end,) = [end for what, end in _pipes("self").items() if what in child_pipes and _can_only_write(end)]
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()
    pipe = os.open(f"/proc/self/fd/{own_end}", os.O_RDONLY | os.O_NONBLOCK)
    try:
        loop.add_reader(pipe, arrived.set)
        await arrived.wait()
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)
