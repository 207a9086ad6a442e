"""A child is started: off the loop, in a group of its own, or not at all.

`Popen` waits until the child has run `exec`, which on a slow disk takes long, so it is called in a thread. The thread is
ours and not the loop's executor: that has a bounded number of them, which others may have filled, and the loop waits for
it when it ends. A start that is no longer wanted is undone by whoever has the child in hand: nothing is left of it, even
if the loop has gone in the meantime.

Must never know what the child is for. Above: `_stdio`. Below: `subprocess`, threads.
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

# What may pass by itself: no memory, no process, no descriptor to spare, a file that is being written to. All else that
# `exec` says about a file (no such interpreter, wrong format, not allowed, too many arguments) stays.
_PASSING = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.EINTR}


class Command(msgspec.Struct, frozen=True):
    """What is run, with what, and where."""

    executable: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str | None
    inherits_stderr: bool


async def spawn(command: Command) -> Child:
    """The running child, with its pipes, leader of a process group of its own.

    Raises:
        TransportError: it could not be started; `permanent` where trying again cannot help.
        asyncio.CancelledError: nothing is left of it.
    """
    start = _Start(command)
    try:
        return await asyncio.shield(start.outcome)
    except asyncio.CancelledError:
        # `exec` cannot be called back: wait for what becomes of it, for as long as nobody cancels that, too.
        await start.undo()
        raise


class _Start:
    """One start, under way in a thread."""

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
            self.outcome.exception()  # looked at, so that nobody is told that it was not
        if child is not None:
            threading.Thread(
                target=self._discard, args=(child,), name="jackstay-discard", daemon=True
            ).start()
        await asyncio.shield(self._undone)

    def _run(self) -> None:
        child: Child | None = None
        error: TransportError | None = None
        try:
            child = _start(self._command)
        except (OSError, ValueError, subprocess.SubprocessError) as failure:
            error = _translated(self._command, failure)
        with self._lock:
            is_unwanted = self._is_unwanted
            if not is_unwanted:
                self._child = child
        if is_unwanted or not self._tell(self._settle, child, error):
            self._discard(child)

    def _discard(self, child: Child | None) -> None:
        if child is not None:
            discard(child)
        self._tell(self._settle_undone)

    def _tell(self, what: object, *arguments: object) -> bool:
        """Call it on the loop; False if the loop has gone."""
        try:
            self._loop.call_soon_threadsafe(what, *arguments)  # type: ignore[arg-type]  # our own methods, below
        except RuntimeError:
            return False
        return True

    def _settle(self, child: Child | None, error: TransportError | None) -> None:
        if child is not None:
            self.outcome.set_result(child)
            return
        assert error is not None  # `_run` has one of the two
        self.outcome.set_exception(error)
        if self._is_unwanted:
            self.outcome.exception()  # looked at, as in `undo`
        self._settle_undone()

    def _settle_undone(self) -> None:
        self._undone.set_result(None)


def _start(command: Command) -> Child:
    return subprocess.Popen(  # noqa: S603  a command of the user's, run as it was given and never by a shell
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


def _translated(command: Command, failure: Exception) -> TransportError:
    code = failure.errno if isinstance(failure, OSError) else None
    why = f"{failure.strerror or failure}" if isinstance(failure, OSError) else f"{failure}"
    if code == errno.ENOENT:
        why = "the file, or the interpreter that its first line names, is not there"
    error = TransportError(
        f"cannot start {command.executable!r}: {why}",
        permanent=code not in _PASSING,
        details={"command": command.executable},
    )
    error.__cause__ = failure
    return error


def discard(child: Child) -> None:
    """Kill a child and its group, and let go of everything. Waits for its death: not for the loop's thread."""
    kill_group(child.pid, signal.SIGKILL)
    child.wait()
    close_pipes(child)


def kill_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a group of ours. While its leader is not reaped, nobody else can have that number."""
    # Gone, or (macOS) nothing but dead processes in it, or somebody else's by now: then it is not ours to end.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def close_pipes(child: Child) -> None:
    """Let go of all of a child's pipes. No watch of the loop may be left on them."""
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
