"""Reading and writing of file descriptors on the event loop; a thread copies those that no loop can watch.

`add_reader` and `add_writer` are used instead of `connect_read_pipe` and `connect_write_pipe`: when a child dies, the
rest of the pipe must be read at once, and a write must return how much was accepted (with a buffer in between, "not
sent" would be a guess).
"""

import asyncio
import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError
from jackstay.protocol.wire import LineFramer, framing_of
from jackstay.transport._queue import WriteQueue

if TYPE_CHECKING:
    from jackstay.protocol.wire import ContentLengthFramer
    from jackstay.transport._contract import TransportHandler

# A Linux pipe holds 64 KiB: one read empties it.
READ_BYTES: Final = 65_536

# The limit of `drain()`, since another process may keep the pipe open and write to it forever. The largest pipe that
# an ordinary user can have is 1 MiB.
DRAIN_BYTES: Final = 4 * 1_048_576

# Reading stops when this much is buffered. Four times the capacity of a pipe, so that a handler which pulls in a task
# of its own, one iteration of the event loop later, does not stop it.
FULL_BYTES: Final = 262_144

# POSIX: a writable pipe accepts this many bytes without blocking (PIPE_BUF on Linux; 512 is the minimum).
UNWAITING_BYTES: Final = 4_096 if os.name == "posix" and os.uname().sysname == "Linux" else 512


@contextlib.contextmanager
def keeping_mode(fd: int) -> Iterator[None]:
    """Keep the blocking mode of this descriptor while a loop begins to watch it.

    uvloop makes watched descriptors non-blocking (libuv's `uv_poll_init`). The mode is shared by every process with
    the same open file description, such as a terminal, or a pipe that is both stdout and stderr.
    """
    is_blocking = os.get_blocking(fd)
    yield
    if is_blocking:
        os.set_blocking(fd, True)


class ReadPipe(msgspec.Struct, eq=False):
    """Reads at most `size` bytes of a descriptor whenever it is readable.

    `ended` is called once, at its end or on an error. It does not own the descriptor, which may be closed
    after `stop()`.
    """

    loop: asyncio.AbstractEventLoop
    fd: int
    received: Callable[[bytes], None]
    ended: Callable[[], None]
    size: int = READ_BYTES
    is_reading: bool = False
    has_ended: bool = False

    def resume(self) -> None:
        """Start or resume reading."""
        if not self.is_reading and not self.has_ended:
            self.is_reading = True
            with keeping_mode(self.fd):
                self.loop.add_reader(self.fd, self._read)

    def pause(self) -> None:
        """Stop reading until `resume()`."""
        if self.is_reading:
            self.is_reading = False
            self.loop.remove_reader(self.fd)

    def stop(self) -> None:
        """Stop reading permanently, without a callback."""
        self.pause()
        self.has_ended = True

    def drain(self) -> None:
        """Read everything that is available now."""
        remaining = DRAIN_BYTES
        while not self.has_ended and remaining > 0 and (size := self._read()):
            remaining -= size

    def _read(self) -> int:
        try:
            data = os.read(self.fd, self.size)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""  # EIO from a terminal that was hung up counts as the end
        if data:
            self.received(data)
            return len(data)
        self.stop()
        self.ended()
        return 0


def piped(fd: int) -> int:
    """Return a pipe with the content of a descriptor that no event loop can watch: a regular file or /dev/null.

    A thread copies it until its end or until the pipe is closed. It reads a duplicate of the descriptor, since a read
    cannot be cancelled, and is a daemon, because some devices block forever.
    """
    source = os.dup(fd)
    output, sink = os.pipe()

    def copy() -> None:
        with contextlib.suppress(OSError), open(sink, "wb") as pipe:
            while data := os.read(source, READ_BYTES):
                pipe.write(data)
                pipe.flush()
        os.close(source)

    os.set_blocking(output, False)
    threading.Thread(target=copy, name="jackstay-stdin", daemon=True).start()
    return output


class WritePipe(msgspec.Struct, eq=False):
    """Writes to a descriptor as much as it accepts.

    With `must_not_wait` the descriptor is a blocking one: it is written to only when it is writable, and then no more
    than is certainly accepted. It does not own the descriptor, which may be closed after `unwatch()`.
    """

    loop: asyncio.AbstractEventLoop
    fd: int
    must_not_wait: bool = False
    _is_writable: bool = False
    _is_watched: bool = False
    _on_writable: Callable[[], None] | None = None

    def write(self, data: bytes | memoryview) -> int:
        """Write as much as possible without waiting, and return the number of bytes. Raises: OSError."""
        if self.must_not_wait:
            if not self._is_writable:
                return 0
            self._is_writable = False
            data = data[:UNWAITING_BYTES]
        try:
            return os.write(self.fd, data)
        except (BlockingIOError, InterruptedError):
            return 0

    def watch(self, is_writable: Callable[[], None]) -> None:
        """Call `is_writable` once when more may be written."""
        self._on_writable = is_writable
        if not self._is_watched:
            self._is_watched = True
            with keeping_mode(self.fd):
                self.loop.add_writer(self.fd, self._became_writable)

    def unwatch(self) -> None:
        """Cancel `watch()`."""
        self._on_writable = None
        if self._is_watched:
            self._is_watched = False
            self.loop.remove_writer(self.fd)

    def _became_writable(self) -> None:
        # A caller with more to write calls `watch()` again at once: keeping the watch saves two system calls each time.
        callback, self._on_writable = self._on_writable, None
        self._is_writable = True
        if callback is not None:
            callback()
        if self._on_writable is None:
            self.unwatch()


class FrameReader(msgspec.Struct, eq=False):
    """Receives bytes by `feed()` and returns frames from `next_frame()`.

    The frames of one read are cut at once; the rest stays as bytes. If the handler stops pulling and enough is
    buffered, reading stops.

    `_on_frames` is called when there is something to pull and there was nothing before. `_on_drained` is called when a
    reader that was full has been emptied. `_on_lost` is called once, if the stream can no longer be cut into frames.
    """

    framer: "LineFramer | ContentLengthFramer"
    _on_frames: Callable[[], None]
    _on_drained: Callable[[], None]
    _on_lost: Callable[[ProtocolError], object]
    _cut: list[bytes | McpError] = []  # not yet pulled, last first
    is_notified: bool = False  # `on_frames` was called, and not everything was pulled since
    _has_ended: bool = False
    _was_full: bool = False
    is_lost: bool = False
    was_silent: bool = True  # nothing was ever fed

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if data:
            self.was_silent = False
            self.framer.feed(data)
        if not self.is_notified and self._cut_more():
            self.is_notified = True
            self._on_frames()

    def end(self) -> None:
        """The stream has ended. A last line without a newline is delivered: it may be a complete message."""
        self._has_ended = True
        self.feed(b"")

    def close(self) -> None:
        """Drop everything that was not pulled: from now on nothing is returned."""
        self._cut.clear()
        self.is_lost = True

    def is_full(self) -> bool:
        """Whether to stop reading, until `_on_drained` is called."""
        if self.is_notified and self.framer.buffered > FULL_BYTES:
            self._was_full = True
        return self._was_full

    def next_frame(self) -> bytes | McpError | None:
        """See `Transport.next_frame`."""
        if self._cut or self._cut_more():
            return self._cut.pop()
        self.is_notified = False
        if self._was_full:
            self._was_full = False
            self._on_drained()
        return None

    def _cut_more(self) -> bool:
        """Cut the next frames, or put an error in their place. Returns False if there are none."""
        if self.is_lost:
            return False
        cut = self._cut
        try:
            cut += self.framer.next_frames()
            if not cut and self._has_ended:
                cut += self._tail()
        except FrameTooLargeError as error:
            cut.append(error)
        except ProtocolError as error:
            self.is_lost = True
            cut.append(error)
            self._on_lost(error)
        return bool(cut)

    def _tail(self) -> list[bytes | McpError]:
        try:
            # Some servers omit the newline after their last message. An incomplete message is delivered, too: only the
            # JSON parser can distinguish the two, and it rejects the incomplete one.
            last = self.framer.eof()
        except ProtocolError as error:
            return [error]
        return [last] if last else []


class PipeTransport(ABC):
    """The common part of the transports over two pipes; subclasses implement how a connection ends."""

    _input: ReadPipe

    def __init__(
        self, handler: "TransportHandler", output: int, framing: str, limit: int, *, must_not_wait: bool = False
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._handler = handler
        reader, join = framing_of(framing)
        self._framer = reader(limit)
        self._frames = FrameReader(
            self._framer,
            handler.frames_arrived,
            lambda: self._input.resume(),
            # Found while the handler pulls: `went_down` must not be called inside its call.
            lambda error: self._loop.call_soon(self._lost, error),
        )
        self._output = WritePipe(self._loop, output, must_not_wait)
        self._queue = WriteQueue(self._loop, self._output, handler, join, self._write_failed, limit=limit)
        # See `Transport`. Most of these run for every frame, so there is no method around them.
        self.next_frame = self._frames.next_frame
        self.send = self._queue.send
        self.withdraw = self._queue.withdraw
        self.flush = self._queue.flush

    def stop_writing(self) -> None:
        """See `Transport.stop_writing`."""
        self._queue.close()

    @abstractmethod
    def _lost(self, error: ProtocolError) -> None:
        """The received data can no longer be cut into frames."""

    @abstractmethod
    def _write_failed(self, error: OSError) -> None:
        """Nothing more can be sent."""
