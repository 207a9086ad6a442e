"""Starts a child process in a thread, in a process group of its own.

`Popen` blocks until the child has run `exec`, which can be slow, so it runs in a thread. Not in the loop's executor:
its threads are limited and may all be busy, and the loop waits for them when it closes. If the start is cancelled, the
child is killed, even if the loop is closed by then.
"""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from jackstay.errors import TransportError

Child: TypeAlias = subprocess.Popen[bytes]

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
        return await asyncio.shield(start.outcome)
    except asyncio.CancelledError:
        # `exec` cannot be cancelled: wait for its result, unless this wait is cancelled, too.
        await start.undo()
        raise


class _Start:
    """One start, in progress in a thread."""

    def __init__(self, command: Command) -> None:
        self._loop = asyncio.get_running_loop()
        self._command = command
        self._lock = threading.Lock()
        self._is_unwanted = False
        self._child: Child | None = None  # started, and not yet undone
        self.outcome: asyncio.Future[Child] = self._loop.create_future()
        self._undone: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(target=self._run, name="jackstay-spawn", daemon=True).start()

    async def undo(self) -> None:
        with self._lock:
            self._is_unwanted = True
            child, self._child = self._child, None
        if self.outcome.done():
            self.outcome.exception()  # retrieved, so that asyncio does not log it
        if child is not None:
            threading.Thread(target=self._discard, args=(child,), name="jackstay-discard", daemon=True).start()
        await asyncio.shield(self._undone)

    def _run(self) -> None:
        child: Child | None = None
        error: TransportError | None = None
        try:
            child = _start(self._command)
        except (OSError, ValueError, subprocess.SubprocessError) as failure:
            error = _start_error(self._command, failure)
        with self._lock:
            is_unwanted = self._is_unwanted
            if not is_unwanted:
                self._child = child
        if is_unwanted or not self._call_on_loop(self._settle, child, error):
            self._discard(child)

    def _discard(self, child: Child | None) -> None:
        if child is not None:
            discard(child)
        self._call_on_loop(self._settle_undone)

    def _call_on_loop(self, what: object, *arguments: object) -> bool:
        """Call it on the loop; False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(what, *arguments)  # type: ignore[arg-type]  # one of the methods below
        except RuntimeError:
            return False
        return True

    def _settle(self, child: Child | None, error: TransportError | None) -> None:
        if child is not None:
            self.outcome.set_result(child)
            return
        assert error is not None  # `_run` passes one of the two
        self.outcome.set_exception(error)
        if self._is_unwanted:
            self.outcome.exception()  # retrieved, as in `undo`
        self._settle_undone()

    def _settle_undone(self) -> None:
        self._undone.set_result(None)


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
    code = failure.errno if isinstance(failure, OSError) else None
    why = f"{failure.strerror or failure}" if isinstance(failure, OSError) else f"{failure}"
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
