"""A server's transport over stdin and stdout of its own process.

While it is open, descriptors 0 and 1 are moved away, where neither `print` nor a tool's child process finds them: 0 is
/dev/null and 1 is stderr. `close()` restores them. The end of stdin ends the connection (`went_down`), but responses
can be sent until `close()`, so that `server < requests > responses` works.
"""

import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from jackstay.errors import McpError, ProtocolError, TransportError, UsageError
from jackstay.protocol.wire import FRAMINGS, LineFramer
from jackstay.transport._contract import TransportHandler
from jackstay.transport._pipe import PipeTransport, ReadingThread, ReadPipe
from jackstay.transport._streams import Streams

# Printed to stderr if stdin is a terminal.
INTERACTIVE_HINT: Final = (
    b"This is an MCP server. It is waiting for a client on stdin; press Ctrl-C to stop it.\n"
    b"To try it, run: jackstay tools -- COMMAND, where COMMAND is the command that you just ran.\n"
)

# How long `EndOfInput.stop()` waits for its thread.
_JOIN_SECONDS: Final = 1.0

# The descriptors belong to the process: one server at a time can use them.
_stdio_lock = threading.Lock()


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
        self._thread = threading.Thread(
            target=self._run, args=(os.dup(fd), waking), name="jackstay-stdin-end", daemon=True
        )
        self._thread.start()

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}{' has ended' if self.has_ended else ''}>"

    def stop(self) -> None:
        """Stop watching. Call it once."""
        os.close(self._wake)  # wakes the thread by a hangup of the other pipe that it polls
        self._thread.join(_JOIN_SECONDS)

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
    def acquired(self) -> Iterator[None]:
        """Acquire stdin and stdout now, and release them after the block instead of in `close()`.

        With this, user code that runs before and after the connection cannot print into the frames, either.

        Raises: TransportError, as `open()`.
        """
        self._acquired = self._acquire()
        try:
            yield
        finally:
            self._release(self._acquired)
            self._acquired = None

    async def open(
        self,
        handler: TransportHandler,
        max_frame_bytes: int,
        close_step: float,  # noqa: ARG002  # part of the contract
    ) -> "OwnStdioTransport":
        """Acquire stdin and stdout.

        Raises: TransportError, permanent: another server of this process uses them, or stdout is closed.
        """
        streams = self._acquire() if self._acquired is None else self._acquired
        if os.isatty(streams.input):
            # A user started it in a terminal, and would see nothing happen.
            with contextlib.suppress(OSError):
                os.write(2, INTERACTIVE_HINT)
        release = None if self._acquired is not None else partial(self._release, streams)
        self._transport = OwnStdioTransport(streams, handler, self._framing, max_frame_bytes, release)
        if self.has_input_ended:
            self._transport.input_ended()
        return self._transport

    @property
    def has_input_ended(self) -> bool:
        """True once the client has closed stdin, while stdin is acquired or open."""
        return self._end is not None and self._end.has_ended

    def _acquire(self) -> Streams:
        if not _stdio_lock.acquire(blocking=False):
            raise TransportError("stdin and stdout are in use by another server of this process", permanent=True)
        try:
            streams = Streams()
        except OSError as error:
            _stdio_lock.release()
            raise TransportError(f"cannot serve over stdio: {error}", permanent=True) from error
        # The end of a regular file is found by reading.
        if streams.is_input_watchable:
            self._end = EndOfInput(streams.input, self._input_ended)
        return streams

    def _release(self, streams: Streams) -> None:
        end, self._end = self._end, None
        if end is not None:
            end.stop()
        streams.restore()
        _stdio_lock.release()

    def _input_ended(self) -> None:
        """Called on the watching thread."""
        if self.on_end_of_input is not None:
            self.on_end_of_input()
        transport = self._transport
        if transport is not None:
            transport.input_ended()


class OwnStdioTransport(PipeTransport):
    """Frames over this process's stdin and stdout. Sending, and `flush()`, are possible after the end of stdin.

    `close()` calls `release`, unless it is None.
    """

    def __init__(
        self, streams: Streams, handler: TransportHandler, framing: str, limit: int, release: Callable[[], None] | None
    ) -> None:
        super().__init__(handler, streams.output, framing, limit, must_not_wait=streams.must_not_wait)
        if isinstance(self._framer, LineFramer):
            self._framer.waits_for_id = True
        self._streams = streams
        self._release = release
        self._is_down = False
        self._is_closed = False
        self.send_all = self._queue.send_all
        reader = ReadPipe if streams.is_input_watchable else ReadingThread
        self._input = reader(self._loop, streams.input, self._received, self._stdin_ended)
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
        if self._release is not None:
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
            self._go_down(TransportError("the client closed stdin"))

    def _write_failed(self, error: OSError) -> None:
        self._queue.close()
        if not self._streams.is_input_shared:
            self._input.drain()  # deliver what the client had sent; if stdin has ended, that is reported instead
        self._go_down(TransportError(f"the client closed stdout ({error.strerror})"))

    def _lost(self, error: ProtocolError) -> None:
        # Found while the handler pulls: `went_down` must not be called inside its call.
        self._loop.call_soon(self._go_down, error)

    def _go_down(self, error: McpError) -> None:
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
