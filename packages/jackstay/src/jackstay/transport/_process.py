"""Starts a child process, watches it until it exits, and then cleans up its process group.

If the start is cancelled, the child is killed, even if the loop is closed by then.
"""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import subprocess
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from jackstay.errors import TransportError

Child: TypeAlias = subprocess.Popen[bytes]

_log = logging.getLogger("jackstay.transport")

# Transient errors: out of memory, processes or descriptors, or the file is being written to. Every other error of
# `exec` (no such interpreter, wrong format, not permitted, too many arguments) is permanent.
_TRANSIENT = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.EINTR}


class Command(msgspec.Struct, frozen=True):
    """The executable, its arguments and its environment."""

    executable: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str | None
    inherits_stderr: bool


async def spawn(command: Command) -> Child:
    """Start the command and return the running child, with pipes, as the leader of its own process group.

    If this is cancelled, no process is left behind.

    Raises:
        TransportError: it could not be started; `permanent` if a retry cannot help.
    """
    start = _Start(command)
    try:
        result = await asyncio.shield(start.result)
    except asyncio.CancelledError:
        start.is_decided.set()
        # `exec` cannot be cancelled: wait for its result, unless this wait is cancelled, too.
        await asyncio.shield(start.undone)
        raise
    start.is_wanted = True
    start.is_decided.set()
    if isinstance(result, TransportError):
        raise result
    return result


class _Start:
    """One start, in progress in a thread, because `Popen` blocks until the child has run `exec`, which can be slow.

    Not in the loop's executor: its threads are limited and may all be busy, and the loop waits for them when it closes.
    The thread owns the child until `is_decided` is set, and discards it unless it `is_wanted` then.
    """

    def __init__(self, command: Command) -> None:
        self._loop = asyncio.get_running_loop()
        self._command = command
        self.is_wanted = False
        self.is_decided = threading.Event()
        # The error is a result, because nothing may be waiting for it.
        self.result: asyncio.Future[Child | TransportError] = self._loop.create_future()
        self.undone: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(target=self._run, name="jackstay-spawn", daemon=True).start()

    def _run(self) -> None:
        try:
            result: Child | TransportError = _start(self._command)
        except (OSError, ValueError, subprocess.SubprocessError) as failure:
            result = _start_error(self._command, failure)
        if call_on_loop(self._loop, self.result.set_result, result):
            self.is_decided.wait()
        if not self.is_wanted:
            if not isinstance(result, TransportError):
                discard(result)
            call_on_loop(self._loop, self.undone.set_result, None)


def call_on_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> bool:
    """Call a function on the loop from another thread; return False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        return False
    return True


def _start(command: Command) -> Child:
    return subprocess.Popen(  # noqa: S603  # the user's command, run without a shell
        (command.executable, *command.arguments),
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if command.inherits_stderr else subprocess.PIPE,
        close_fds=True,
        cwd=command.cwd,
        env=command.environment,
        process_group=0,
    )


def _start_error(command: Command, failure: Exception) -> TransportError:
    code, why = None, str(failure)
    if isinstance(failure, OSError):
        code, why = failure.errno, failure.strerror or why
    if code == errno.ENOENT:
        why = "the file, or the interpreter named in its first line, does not exist"
    error = TransportError(
        f"cannot start {command.executable!r}: {why}",
        permanent=code not in _TRANSIENT,
        details={"command": command.executable},
    )
    error.__cause__ = failure
    return error


def discard(child: Child) -> None:
    """Kill a child and its group, reap it and close its pipes. Blocks: not for the loop's thread."""
    kill_group(child.pid, signal.SIGKILL)
    child.wait()
    close_pipes(child)


def kill_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group whose leader is not reaped yet, so that its id cannot have been reused."""
    # Raised if the group has no process left; on macOS PermissionError if it has only zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def close_pipes(child: Child) -> None:
    """Close all pipes of a child. The loop must no longer watch them."""
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


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

    On Linux the loop watches a `pidfd`: no thread, signal handler or child watcher, so it works on any loop in any
    thread. Elsewhere a thread waits. The exit status is read without reaping (`waitid` with WNOWAIT): until the child
    is reaped, its process group id cannot be reused, so signals to the group cannot reach another process.
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
        return await is_set_within(self._has_exited, seconds)

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
        if self.has_exited:
            self._child.wait()
            return
        _log.error("process %d was killed but has not exited; it is reaped when it exits", self._child.pid)
        threading.Thread(target=self._child.wait, name=f"jackstay-reap-{self._child.pid}", daemon=True).start()

    def discard(self) -> None:
        """Kill the child and block until it is reaped. For a loop that is about to close."""
        if not self._is_cleared:
            self._forget()
            discard(self._child)

    def _forget(self) -> None:
        """Send no more signals: from now on the process id may be reused."""
        self._is_cleared = True
        _children.discard(self)
        self._unwatch()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _ended(self) -> None:
        self._unwatch()
        self._settle(exit_code_of(self._child))

    def _wait(self) -> None:
        call_on_loop(self._loop, self._settle, exit_code_of(self._child))

    def _settle(self, code: int | None) -> None:
        if not self._is_cleared:
            self.exit_code = code
            self._has_exited.set()
            self._exited()


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event. Returns False if it takes longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


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
