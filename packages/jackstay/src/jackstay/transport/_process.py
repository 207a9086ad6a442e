"""One child is watched until its end, and then cleared away with everything it started.

On Linux a descriptor of the process (`pidfd`) is watched by the loop: no thread, no signal handler, no child watcher, so it
works on any loop in any thread. Elsewhere, and where a sandbox forbids it, a thread waits. How the child ended is
looked at without reaping it (`waitid` with WNOWAIT): while it is not reaped its number, which is also that of its group,
belongs to nobody else, so the signal for what is left of the group cannot hit a stranger.

Must never know about frames or pipes. Above: the child's transport. Below: `_spawn`, the operating system.
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

# Children that were not cleared away: for a program that must end this very moment. One that was forgotten is not kept here: its
# number may be a stranger's by then.
_children: "weakref.WeakSet[Process]" = weakref.WeakSet()


def kill_children() -> None:
    """Kill every child that this process has started and not cleared away, with its group; at once, from any thread.

    For the last moment of a program, when nobody waits for ladders any more.
    """
    for process in tuple(_children):
        process.signal(signal.SIGKILL)


class Process:
    """A running child. `exited` is called once, on the loop, when it has ended; then `exit_code` is known.

    `exit_code` is negative for a signal, and None where somebody else has reaped the child before us.
    """

    __slots__ = (
        "__weakref__",
        "_child",
        "_exited",
        "_has_exited",
        "_is_cleared",
        "_loop",
        "_pidfd",
        "exit_code",
    )

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
        """Whether it has ended by itself or by us."""
        return self._has_exited.is_set()

    async def exits_within(self, seconds: float) -> bool:
        """Wait for its end, for so long at most."""
        try:
            async with asyncio.timeout(seconds):
                await self._has_exited.wait()
        except TimeoutError:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child and all of its group."""
        if not self._is_cleared:
            kill_group(self._child.pid, number)

    def clear(self) -> None:
        """Kill what is left of its group, and reap it. For a child that has exited.

        One that has not, although it was killed, waits for the kernel (a dead file server, say): a thread waits for it.
        """
        if self._is_cleared:
            return
        self.signal(signal.SIGKILL)
        self._forget()
        self._unwatch()
        if self.has_exited:
            self._child.wait()
            return
        _log.error(
            "process %d does not end although it was killed; it is reaped when it does", self._child.pid
        )
        threading.Thread(
            target=self._child.wait, name=f"jackstay-reap-{self._child.pid}", daemon=True
        ).start()

    def discard(self) -> None:
        """Kill it and wait, on the spot, for its end. For a loop that is about to end itself."""
        if not self._is_cleared:
            self._forget()
            self._unwatch()
            discard(self._child)

    def _forget(self) -> None:
        """From now on its number may be a stranger's."""
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
            pass  # the loop has gone: nobody is there to be told

    def _settle(self, code: int | None) -> None:
        if not self._is_cleared:
            self.exit_code = code
            self._has_exited.set()
            self._exited()


def exit_code_of(child: Child) -> int | None:
    """Wait for a child and say how it ended, negative for a signal. It is reaped only where there is no other way."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return child.wait()
    try:
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return child.returncode  # reaped: by us, or by a program that waits for everybody's children
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
