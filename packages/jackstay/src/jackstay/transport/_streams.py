"""Descriptors 0 and 1 of this process: moved away while a server uses them, and restored afterwards.

Descriptors and their blocking mode are shared with the parent process and others, so every change is undone.
"""

import contextlib
import errno
import os
import stat
import sys
from typing import Final

# A Linux pipe holds 64 KiB by default. A list of a hundred tools is larger: the write would block halfway until the
# client reads. Twice as much, and not more: the kernel limits the pipe pages of a user (64 MiB) and gives users over
# the limit pipes of one page.
PIPE_BYTES: Final = 131_072


class Streams:
    """stdin and stdout, for the exclusive use of the caller until `restore()`.

    `input` is /dev/null if stdin was closed. With `must_not_wait`, stdout stays in blocking mode, because stderr is the
    same open file description; so write only when it is writable, and little.
    """

    def __init__(self) -> None:
        """Raises: OSError, if stdout is closed."""
        if not is_open(1):
            raise OSError(errno.EBADF, "stdout is closed")
        self._has_stdin = is_open(0)
        # A descriptor that was closed when Python started may have been reused, even by the loop: then it is left
        # alone. If it is free, /dev/null keeps it from being reused.
        self._replaces_stdin = self._has_stdin or not _is_valid(0)
        self._null = _out_of_the_way(os.open(os.devnull, os.O_RDWR))
        self.input = _out_of_the_way(os.dup(0 if self._has_stdin else self._null))
        self.output = _out_of_the_way(os.dup(1))
        if self._replaces_stdin:
            os.dup2(self._null, 0)
        os.dup2(2 if is_open(2) else self._null, 1)
        self.is_input_shared = _is_stderr(self.input)
        self.is_input_watchable = _is_watchable(self.input)
        is_output_watchable = _is_watchable(self.output)
        self.must_not_wait = is_output_watchable and _is_stderr(self.output)
        self._unblocked: list[int] = []
        if self.is_input_watchable and not self.is_input_shared:
            self._unblock(self.input)
        if is_output_watchable and not self.must_not_wait:
            self._unblock(self.output)
            _enlarge(self.output)

    def restore(self) -> None:
        """Restore the descriptors and their blocking mode."""
        # Text printed while the server ran belongs to stderr and must not appear on the restored stdout.
        if sys.stdout is not None:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
        for fd in self._unblocked:
            os.set_blocking(fd, True)
        if self._has_stdin:
            os.dup2(self.input, 0)
        elif self._replaces_stdin:
            os.close(0)
        os.dup2(self.output, 1)
        for fd in (self.input, self.output, self._null):
            os.close(fd)

    def _unblock(self, fd: int) -> None:
        if os.get_blocking(fd):
            os.set_blocking(fd, False)
            self._unblocked.append(fd)


def is_open(fd: int) -> bool:
    """Return whether this standard descriptor (0, 1 or 2) is open now and was open when Python started."""
    at_start = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[fd]
    return at_start is not None and _is_valid(fd)


def _is_valid(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _out_of_the_way(fd: int) -> int:
    """Move the descriptor to a number above 2, close-on-exec."""
    import fcntl  # noqa: PLC0415  # not on Windows, where this module must still be importable

    moved: int = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def _enlarge(fd: int) -> None:
    """Enlarge the buffer of a pipe where the system allows it. It is not restored: that does no harm."""
    import fcntl  # noqa: PLC0415  # not on Windows, where this module must still be importable

    if stat.S_ISFIFO(os.fstat(fd).st_mode) and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < PIPE_BYTES:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _is_watchable(fd: int) -> bool:
    """Return whether a loop can watch it: epoll rejects regular files and /dev/null."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _is_stderr(fd: int) -> bool:
    """Return whether it shares an open file description, and so the blocking mode, with stderr (`2>&1`, a terminal)."""
    if not is_open(2) or not os.path.sameopenfile(fd, 2):
        return False
    # The same file may be opened twice. To find out, change the mode of one descriptor and read that of the other.
    was_blocking = os.get_blocking(fd)
    os.set_blocking(fd, not was_blocking)
    try:
        return os.get_blocking(2) != was_blocking
    finally:
        os.set_blocking(fd, was_blocking)
