"""Descriptors 0 and 1 of this process, moved away and put back.

Everything that must hold about them in one place: what a closed one is, which can be watched by a loop, whose blocking
mode may be changed. Descriptors are shared with whoever started us, so each change is undone (docs/design/connection.md, section 8).

Must never know about loops or frames. Above: `_own_stdio`. Below: the operating system.
"""

import contextlib
import errno
import os
import stat
import sys
from typing import Final

# A Linux pipe holds 64 KiB by default, which a list of a hundred tools is beyond: each such answer would wait for its
# reader half-way. Twice that, and not more: the kernel counts the pages of all pipes of a user (64 MiB), and who is over
# the limit gets pipes of one page.
PIPE_BYTES: Final = 131_072


class Streams:
    """stdin and stdout, ours alone until `restore()`.

    `input` is None where stdin was closed. `must_not_wait`: stdout keeps its blocking mode, because stderr is the same
    description and whoever writes there relies on it; so write only when it is writable, and little.
    """

    def __init__(self) -> None:
        """Raises: OSError, if stdout is closed."""
        if not is_open(1):
            raise OSError(errno.EBADF, "stdout is closed")
        self._null = _out_of_the_way(os.open(os.devnull, os.O_RDWR))
        self.input = _out_of_the_way(os.dup(0)) if is_open(0) else None
        self.output = _out_of_the_way(os.dup(1))
        # A descriptor that was closed when Python started may be anybody's by now, even the loop's own: if it is in use,
        # it is left alone; if it is free, /dev/null keeps it from becoming somebody's.
        self._is_zero_ours = self.input is not None or not _is_valid(0)
        if self._is_zero_ours:
            os.dup2(self._null, 0)
        os.dup2(2 if is_open(2) else self._null, 1)
        self.is_input_shared = self.input is not None and _is_stderr(self.input)
        is_output_shared = _is_stderr(self.output)
        self.is_input_watchable = self.input is not None and _is_watchable(self.input)
        is_output_watchable = _is_watchable(self.output)
        self.must_not_wait = is_output_shared and is_output_watchable
        self._unblocked: list[int] = []
        if self.input is not None and self.is_input_watchable and not self.is_input_shared:
            self._unblock(self.input)
        if is_output_watchable and not is_output_shared:
            self._unblock(self.output)
            _enlarge(self.output)

    def restore(self) -> None:
        """Put everything back as it was."""
        # What was printed while we served is stderr's, and must not come out on the stdout that is put back.
        if sys.stdout is not None:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
        for fd in self._unblocked:
            os.set_blocking(fd, True)
        if self.input is not None:
            os.dup2(self.input, 0)
            os.close(self.input)
        elif self._is_zero_ours:
            os.close(0)
        os.dup2(self.output, 1)
        os.close(self.output)
        os.close(self._null)

    def _unblock(self, fd: int) -> None:
        if os.get_blocking(fd):
            os.set_blocking(fd, False)
            self._unblocked.append(fd)


def is_open(fd: int) -> bool:
    """Whether one of the first three descriptors is the stream it should be: open now, and when Python started."""
    at_start = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[fd]
    return at_start is not None and _is_valid(fd)


def _is_valid(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _out_of_the_way(fd: int) -> int:
    """The same, close-on-exec, and not one of the first three, which others think they know."""
    import fcntl  # noqa: PLC0415  not on Windows, where this file must still be importable

    moved: int = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def _enlarge(fd: int) -> None:
    """Let a pipe hold more, where the system can and its limits allow it. It stays so: no program minds."""
    import fcntl  # noqa: PLC0415  not on Windows, where this file must still be importable

    if stat.S_ISFIFO(os.fstat(fd).st_mode) and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < PIPE_BYTES:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _is_watchable(fd: int) -> bool:
    """Whether a loop can wait for it: epoll refuses regular files and /dev/null."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _is_stderr(fd: int) -> bool:
    """Whether it and stderr are one description, as after `2>&1` or on a terminal: then one's mode is the other's."""
    if not is_open(2) or not os.path.sameopenfile(fd, 2):
        return False
    # The same file, but is it the same opening of it? Change the mode through one and look through the other.
    was_blocking = os.get_blocking(fd)
    os.set_blocking(fd, not was_blocking)
    try:
        return os.get_blocking(2) != was_blocking
    finally:
        os.set_blocking(fd, was_blocking)
