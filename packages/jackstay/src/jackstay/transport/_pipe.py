"""File descriptors on the event loop: read when something is there, written when there is room.

The loop's `add_reader` and `add_writer` on our own descriptors, not `connect_read_pipe` and `connect_write_pipe`: at a
child's death what is left in the pipe must be read at once and not some turns of the loop later, a write must say how
much was taken (a buffer in between would make "surely not sent" a guess), and a descriptor that is closed is closed now.

Must never know whose descriptors they are, nor about frames. Above: the transports. Below: the loop, the operating system.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Final

# A Linux pipe holds 64 KiB, so one read takes what there is.
READ_BYTES: Final = 65_536

# How much is read at a death, when the pipe is held open by somebody else who may be writing to it for ever. The largest
# pipe an ordinary user can have is 1 MiB.
DRAIN_BYTES: Final = 4 * 1_048_576

# POSIX: where a pipe is writable, so many bytes are taken without waiting (PIPE_BUF on Linux; 512 is the least allowed).
UNWAITING_BYTES: Final = 4_096 if os.name == "posix" and os.uname().sysname == "Linux" else 512


@contextlib.contextmanager
def keeping_mode(fd: int) -> Iterator[None]:
    """Keep the blocking mode of this descriptor while a loop begins to watch it.

    uvloop makes what it watches non-blocking (libuv's `uv_poll_init`). The mode belongs to everybody who has the same open file
    description, such as the terminal or the pipe that stdout shares with stderr.
    """
    is_blocking = os.get_blocking(fd)
    yield
    if is_blocking:
        os.set_blocking(fd, True)


class ReadPipe:
    """Reads a descriptor whenever something is there. `ended` is called once, at its end or at an error.

    It does not own the descriptor: `stop()` lets go of it, and then it may be closed.
    """

    __slots__ = ("_ended", "_fd", "_is_reading", "_loop", "_received", "has_ended")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        received: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._received = received
        self._ended = ended
        self._is_reading = False
        self.has_ended = False

    def __repr__(self) -> str:
        state = "ended" if self.has_ended else "reading" if self._is_reading else "paused"
        return f"<{self.__class__.__name__} fd={self._fd} {state}>"

    def resume(self) -> None:
        """Read, from now on or again."""
        if not self._is_reading and not self.has_ended:
            self._is_reading = True
            with keeping_mode(self._fd):
                self._loop.add_reader(self._fd, self._read)

    def pause(self) -> None:
        """Do not read until `resume()`."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def stop(self) -> None:
        """Never read again, and tell nobody."""
        self.pause()
        self.has_ended = True

    def drain(self) -> None:
        """Read now what is there. For descriptors that do not block."""
        most = DRAIN_BYTES
        while not self.has_ended and most > 0 and (taken := self._read()):
            most -= taken

    def _read(self) -> int:
        try:
            data = os.read(self._fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""  # a terminal that was hung up says EIO: an end like any other
        if data:
            self._received(data)
            return len(data)
        self.stop()
        self._ended()
        return 0


class WritePipe:
    """Writes to a descriptor as much as it takes.

    With `must_not_wait` the descriptor is a blocking one: it is written to only when it was found writable, and then no
    more than is surely taken. It does not own the descriptor: `unwatch()` lets go of it.
    """

    __slots__ = ("_fd", "_is_watched", "_is_writable", "_loop", "_must_not_wait", "_said")

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, *, must_not_wait: bool = False) -> None:
        self._loop = loop
        self._fd = fd
        self._must_not_wait = must_not_wait
        self._is_writable = False
        self._is_watched = False
        self._said: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} fd={self._fd}{' full' if self._is_watched else ''}>"

    def write(self, data: bytes | memoryview) -> int:
        """Give as much as is taken at once, and say how much that was. Raises: OSError."""
        if self._must_not_wait:
            if not self._is_writable:
                return 0
            self._is_writable = False
            data = data[:UNWAITING_BYTES]
        try:
            return os.write(self._fd, data)
        except (BlockingIOError, InterruptedError):
            return 0

    def watch(self, is_writable: Callable[[], None]) -> None:
        """Call this once when more may be taken."""
        self._said = is_writable
        if not self._is_watched:
            self._is_watched = True
            with keeping_mode(self._fd):
                self._loop.add_writer(self._fd, self._became_writable)

    def unwatch(self) -> None:
        """Do not call it."""
        self._said = None
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_writer(self._fd)

    def _became_writable(self) -> None:
        # Whoever writes much asks again at once: the watch is kept for that, instead of two system calls each time.
        said, self._said = self._said, None
        self._is_writable = True
        if said is not None:
            said()
        if self._said is None:
            self.unwatch()
