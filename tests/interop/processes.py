"""Find and stop the process of a server in the middle of a call.

Nothing here sleeps: the kernel reports when a process has stopped, and when there is data in its stdin.
"""

import asyncio
import fcntl
import os
import signal
from typing import ParamSpec

from chaos.leftovers import children

P = ParamSpec("P")


def only_child() -> int:
    """Return the process id of the only running server."""
    (pid,) = children()
    return pid


def stop_process(pid: int) -> None:
    """Stop a child process, and wait until all its threads have stopped, so that it reads nothing more."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def _pipes(pid: int | str) -> dict[str, int]:
    """Return the open pipes of a process, each with one of its descriptors."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
        if link.startswith("pipe:"):
            found[link] = int(name)
    return found


def _can_only_write(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


async def wait_for_stdin_data(pid: int) -> None:
    """Wait until the pipe to a stopped process contains unread bytes.

    The pipe is the shared one that this process can only write to. It is not always descriptor 0 of the child: the SDK
    2.x duplicates that descriptor and replaces it with /dev/null.
    """
    child_pipes = _pipes(pid)
    (own_end,) = [end for link, end in _pipes("self").items() if link in child_pipes and _can_only_write(end)]
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()
    pipe = os.open(f"/proc/self/fd/{own_end}", os.O_RDONLY | os.O_NONBLOCK)
    try:
        loop.add_reader(pipe, arrived.set)
        await arrived.wait()
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)
