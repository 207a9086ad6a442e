"""A server's transport over stdin and stdout of its own process.

While it is open, descriptors 0 and 1 are moved away, where neither `print` nor a tool's child process finds them: 0 is
/dev/null and 1 is stderr. `close()` restores them. The end of stdin ends the connection (`went_down`), but responses
can be sent until `close()`, so that `server < requests > responses` works.
"""

import _thread
import contextlib
import errno
import os
import select
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from jackstay.errors import McpError, TransportError, UsageError
from jackstay.protocol.wire import FRAMINGS, LineFramer
from jackstay.transport._pipe import PipeTransport, ReadPipe, piped

if TYPE_CHECKING:
    from jackstay.transport._contract import TransportHandler

# Printed to stderr if stdin is a terminal.
INTERACTIVE_HINT: Final = (
    b"This is an MCP server. It is waiting for a client on stdin; press Ctrl-C to stop it.\n"
    b"To try it, run: jackstay tools -- COMMAND, where COMMAND is the command that you just ran.\n"
)

# How long `EndOfInput.stop()` waits for its thread.
_JOIN_SECONDS: Final = 1.0

# The descriptors belong to the process: one server at a time can use them.
_stdio_lock = threading.Lock()


# A Linux pipe holds 64 KiB by default. A list of a hundred tools is larger: the write would block halfway until the
# client reads. Twice as much, and not more: the kernel limits the pipe pages of a user (64 MiB) and gives users over
# the limit pipes of one page.
PIPE_BYTES: Final = 131_072


class Streams:
    """stdin and stdout, for the exclusive use of the caller until `restore()`.

    The descriptors and their blocking mode are shared with the parent process and others, so every change is undone.
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


class EndOfInput:
    """Calls `ended` once, on a thread of its own, when the other end of a pipe, socket or terminal is closed.

    A reader detects the end only after it has read everything before it. That is too late for a server whose loop is
    blocked, or that has stopped reading because its client does not read. `poll(2)` reports a closed pipe or socket at
    once: POLLHUP, and POLLRDHUP for a socket that was closed for writing only.
    """

    def __init__(self, fd: int, ended: Callable[[], None]) -> None:
        self.has_ended = False
        self._ended = ended
        waking, self._wake = os.pipe()
        self._is_running = threading.Lock()
        self._is_running.acquire()
        # `Thread.start()` would wait until the thread runs, and the first response with it.
        _thread.start_new_thread(self._run, (os.dup(fd), waking))

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}{' has ended' if self.has_ended else ''}>"

    def stop(self) -> None:
        """Stop watching. Call it once."""
        os.close(self._wake)  # wakes the thread by a hangup of the other pipe that it polls
        self._is_running.acquire(timeout=_JOIN_SECONDS)

    def _run(self, fd: int, waking: int) -> None:
        poll = select.poll()
        # POLLHUP and POLLERR are always reported; nothing else wakes the thread.
        poll.register(fd, getattr(select, "POLLRDHUP", 0))
        poll.register(waking, 0)
        try:
            if waking not in dict(poll.poll()):
                self.has_ended = True
                self._ended()
        finally:
            os.close(fd)
            os.close(waking)
            self._is_running.release()


class OwnStdioTarget:
    """stdin and stdout of this process. Returned by `own_stdio()`. One transport at a time can be open."""

    is_http = False

    def __init__(self, framing: str) -> None:
        self.name = "stdio"
        self.init_timeout: float | None = None
        self._framing = framing
        self._acquired: Streams | None = None
        self._end: EndOfInput | None = None
        self._transport: OwnStdioTransport | None = None
        # Called, on another thread than the loop's, as soon as the client has closed stdin.
        self.on_end_of_input: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self._framing}>"

    @contextlib.contextmanager
    def acquired(self) -> Iterator[Streams]:
        """Acquire stdin and stdout now, and release them after the block instead of in `close()`.

        With this, user code that runs before and after the connection cannot print into the frames, either.

        Raises: TransportError, as `open()`.
        """
        if not _stdio_lock.acquire(blocking=False):
            raise TransportError("stdin and stdout are in use by another server of this process", permanent=True)
        try:
            self._acquired = streams = Streams()
        except OSError as error:
            _stdio_lock.release()
            raise TransportError(f"cannot serve over stdio: {error}", permanent=True) from error
        # The end of a regular file is found by reading.
        self._end = end = EndOfInput(streams.input, self._input_ended) if streams.is_input_watchable else None
        try:
            yield streams
        finally:
            self._acquired = self._end = None
            if end is not None:
                end.stop()
            streams.restore()
            _stdio_lock.release()

    async def open(
        self,
        handler: "TransportHandler",
        max_frame_bytes: int,
        close_step: float,  # noqa: ARG002  # part of the contract
    ) -> "OwnStdioTransport":
        """Acquire stdin and stdout.

        Raises: TransportError, permanent: another server of this process uses them, or stdout is closed.
        """
        acquired = contextlib.ExitStack()
        streams = self._acquired
        if streams is None:
            streams = acquired.enter_context(self.acquired())
            self._acquired = None  # only those of the caller's `acquired()` are shared with an open transport
        if os.isatty(streams.input):
            # A user started it in a terminal, and would see nothing happen.
            with contextlib.suppress(OSError):
                os.write(2, INTERACTIVE_HINT)
        self._transport = OwnStdioTransport(streams, handler, self._framing, max_frame_bytes, acquired.close)
        if self.has_input_ended:
            self._transport.input_ended()
        return self._transport

    @property
    def has_input_ended(self) -> bool:
        """True once the client has closed stdin, while stdin is acquired or open."""
        return self._end is not None and self._end.has_ended

    def _input_ended(self) -> None:
        """Called on the watching thread."""
        if self.on_end_of_input is not None:
            self.on_end_of_input()
        transport = self._transport
        if transport is not None:
            transport.input_ended()


class OwnStdioTransport(PipeTransport):
    """Frames over this process's stdin and stdout. Sending, and `flush()`, are possible after the end of stdin.

    `close()` calls `release`.
    """

    def __init__(
        self, streams: Streams, handler: "TransportHandler", framing: str, limit: int, release: Callable[[], None]
    ) -> None:
        super().__init__(handler, streams.output, framing, limit, must_not_wait=streams.must_not_wait)
        if isinstance(self._framer, LineFramer):
            self._framer.waits_for_id = True
        self._streams = streams
        self._release = release
        self._is_down = False
        self._is_closed = False
        self.send_all = self._queue.send_all
        fd = streams.input if streams.is_input_watchable else piped(streams.input)
        self._input = ReadPipe(self._loop, fd, self._received, self._stdin_ended)
        self._input.resume()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "down" if self._is_down else "open"
        return f"<{self.__class__.__name__} {state} {self._queue!r}>"

    async def close(self) -> None:
        """Release stdin and stdout. Queued frames are dropped: call `flush()` first to send them."""
        if self._is_closed:
            return
        self._is_closed = True
        self._queue.close()
        self._frames.close()
        self._input.stop()
        if self._input.fd != self._streams.input:
            os.close(self._input.fd)
        self._release()

    def input_ended(self) -> None:
        """The client has closed stdin: read the rest of it now, even if the handler has stopped pulling.

        Thread-safe.
        """
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._read_rest)

    def _read_rest(self) -> None:
        # This is bounded by the capacity of the pipe, and never blocks: the end of the stream is always readable.
        if not self._is_closed:
            self._input.drain()
            self._input.resume()  # for the rest of a very large pipe

    def _received(self, data: bytes) -> None:
        # Responses that are ready at once leave in this iteration of the event loop.
        self._queue.hold()
        try:
            self._frames.feed(data)
        finally:
            self._queue.release()
        if self._frames.is_notified and self._frames.is_full():
            self._input.pause()

    def _stdin_ended(self) -> None:
        if not self._is_closed:
            self._frames.end()
            self._lost(TransportError("the client closed stdin"))

    def _write_failed(self, error: OSError) -> None:
        self._queue.close()
        if not self._streams.is_input_shared:
            self._input.drain()  # deliver what the client had sent; if stdin has ended, that is reported instead
        self._lost(TransportError(f"the client closed stdout ({error.strerror})"))

    def _lost(self, error: McpError) -> None:
        if not self._is_down and not self._is_closed:
            self._is_down = True
            self._handler.went_down(error, None, self._frames.was_silent)


def own_stdio(framing: str = "lines") -> OwnStdioTarget:
    """Return a target for a server: stdin and stdout of this process.

    Raises: UsageError.
    """
    if framing not in FRAMINGS:
        raise UsageError(f"framing must be one of {', '.join(FRAMINGS)}, not {framing!r}", path="framing")
    return OwnStdioTarget(framing)
