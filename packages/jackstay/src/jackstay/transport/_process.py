"""Watches one child process until it exits, and then cleans up its process group.

On Linux the loop watches a `pidfd`: no thread, signal handler or child watcher, so it works on any loop in any thread.
Elsewhere a thread waits. The exit status is read without reaping (`waitid` with WNOWAIT): until the child is reaped,
its process group id cannot be reused, so signals to the group cannot reach another process.
"""

import asyncio
import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable

from jackstay.transport._spawn import Child, discard, kill_group

_log = logging.getLogger("jackstay.transport")

# Children that are not reaped yet, for `kill_children()`. Reaped ones are removed, because their process id may be
# reused.
_children: "weakref.WeakSet[Process]" = weakref.WeakSet()


def kill_children() -> None:
    """Kill the process group of every child that is not reaped yet. Does not wait. Thread-safe.

    For interpreter exit, when there is no time to close transports.
    """
    for process in tuple(_children):
        process.signal(signal.SIGKILL)


class Process:
    """A running child. `exited` is called once, on the loop, when it has exited and `exit_code` is set.

    `exit_code` is negative for a signal, and None if other code of this program has reaped the child.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, child: Child, exited: Callable[[], None]) -> None:
        self._loop = loop
        self._child = child
        self._exited = exited
        self._has_exited = asyncio.Event()
        self._is_cleared = False
        self._pidfd: int | None = None
        self.exit_code: int | None = None
        _children.add(self)
        try:
            # Not on macOS, and not where a sandbox forbids it.
            self._pidfd = os.pidfd_open(child.pid)
            loop.add_reader(self._pidfd, self._ended)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait, name=f"jackstay-wait-{child.pid}", daemon=True).start()

    def __repr__(self) -> str:
        state = "running" if not self.has_exited else f"exited {self.exit_code}"
        return f"<{self.__class__.__name__} {self._child.pid} {'cleared' if self._is_cleared else state}>"

    @property
    def has_exited(self) -> bool:
        """Whether the process has exited."""
        return self._has_exited.is_set()

    async def exits_within(self, seconds: float) -> bool:
        """Wait for the exit. Returns False if it takes longer than `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._has_exited.wait()
        except TimeoutError:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child's process group."""
        if not self._is_cleared:
            kill_group(self._child.pid, number)

    def clear(self) -> None:
        """Kill the rest of the process group, and reap the child, which has exited.

        If a killed child has not exited, it is blocked in the kernel (on a dead file server, for example). A thread
        reaps it.
        """
        if self._is_cleared:
            return
        self.signal(signal.SIGKILL)
        self._forget()
        self._unwatch()
        if self.has_exited:
            self._child.wait()
            return
        _log.error("process %d was killed but has not exited; it is reaped when it exits", self._child.pid)
        threading.Thread(target=self._child.wait, name=f"jackstay-reap-{self._child.pid}", daemon=True).start()

    def discard(self) -> None:
        """Kill the child and block until it is reaped. For a loop that is about to close."""
        if not self._is_cleared:
            self._forget()
            self._unwatch()
            discard(self._child)

    def _forget(self) -> None:
        """Send no more signals: from now on the process id may be reused."""
        self._is_cleared = True
        _children.discard(self)

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _ended(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
        self._settle(exit_code_of(self._child))

    def _wait(self) -> None:
        code = exit_code_of(self._child)
        try:
            self._loop.call_soon_threadsafe(self._settle, code)
        except RuntimeError:
            pass  # the loop is closed

    def _settle(self, code: int | None) -> None:
        if not self._is_cleared:
            self.exit_code = code
            self._has_exited.set()
            self._exited()


def exit_code_of(child: Child) -> int | None:
    """Wait for a child and return its exit code, negative for a signal. It is reaped only if there is no `waitid`."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return child.wait()
    try:
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return child.returncode  # already reaped, here or by other code that waits for all children
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
