"""Queues of frames to send, and how they are written with as few system calls as possible.

`FrameQueue` decides when to reject frames and which can be withdrawn. `WriteQueue` adds the writing. Frames sent in one
iteration of the loop leave in one write. Nothing is passed to a buffer of the loop: a frame of which the operating
system has accepted no byte stays here and can be withdrawn, so "not sent" is certain.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from jackstay.transport._contract import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, TransportHandler

# How much is joined for one write. An empty Linux pipe accepts 64 KiB: more would be copied in vain.
JOINED_BYTES: Final = 65_536

# How much is written in one iteration of the loop to a peer that reads as fast, so that other tasks can run.
TURN_BYTES: Final = 1_048_576


class Sink(Protocol):
    """A destination of bytes."""

    def write(self, data: bytes | memoryview) -> int:
        """Write as much as possible without waiting, and return the number of bytes. Raises: OSError."""

    def watch(self, is_writable: Callable[[], None]) -> None:
        """Call `is_writable` once when more may be written."""

    def unwatch(self) -> None:
        """Cancel `watch()`."""


class FrameQueue:
    """Frames by number, in order, and the rule when a frame is rejected."""

    __slots__ = ("_flushed", "_waiting", "size", "was_refused")

    def __init__(self) -> None:
        self._waiting: dict[int, bytes] = {}
        self.was_refused = False
        self._flushed: asyncio.Future[bool] | None = None  # resolved when everything is written
        self.size = 0  # bytes of the frames that wait, and of the rest of one that is half written

    def __len__(self) -> int:
        return len(self._waiting)

    def __repr__(self) -> str:
        refused = ", refused one" if self.was_refused else ""
        return f"<{self.__class__.__name__} {len(self)} frames, {self.size} bytes{refused}>"

    def is_busy(self, size: int) -> bool:
        """Return whether a frame of this size is rejected, and record it for `has_room_again`."""
        count = len(self)
        if count >= MAX_QUEUED_FRAMES or (count and self.size + size > MAX_QUEUED_BYTES):
            self.was_refused = True
            return True
        return False

    def add(self, number: int, frame: bytes) -> None:
        """Add a frame that was not rejected."""
        self._waiting[number] = frame
        self.size += len(frame)

    def withdraw(self, number: int) -> bool:
        """Remove a frame of which nothing is written; False if there is none of this number."""
        frame = self._waiting.pop(number, None)
        if frame is None:
            return False
        self.size -= len(frame)
        if not self.was_refused:
            self.resolve_flush()  # otherwise after the handler was notified of the room
        return True

    def pop(self) -> tuple[int, bytes]:
        """Remove and return the oldest frame and its number."""
        number = next(iter(self._waiting))
        frame = self._waiting.pop(number)
        self.size -= len(frame)
        return number, frame

    def has_room_again(self) -> bool:
        """Return True once after a rejection, when half of the queue is free.

        With less than half, the handler would be notified once per frame. If a frame needs more than half and is
        rejected again, the handler is notified again after the next write, at the latest when the queue is empty.
        """
        if not self.was_refused or len(self) > MAX_QUEUED_FRAMES // 2 or self.size > MAX_QUEUED_BYTES // 2:
            return False
        self.was_refused = False
        return True

    async def flush(self) -> bool:
        """Wait until the queue is empty and any due `room_made` was called; False: it was cleared."""
        if not len(self) and not self.was_refused:
            return True
        if self._flushed is None:
            self._flushed = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._flushed)  # shared by all callers

    def resolve_flush(self) -> None:
        """Resolve pending flushes if the queue is empty.

        Called after every write, when the handler may have sent more.
        """
        if self._flushed is not None and not len(self) and not self.was_refused:
            self._end_flush(True)

    def clear(self) -> None:
        """Forget everything; nothing of it will be written."""
        self._waiting.clear()
        self.was_refused = False
        self.size = 0
        self._end_flush(False)

    def _end_flush(self, is_written: bool) -> None:
        waiting, self._flushed = self._flushed, None
        if waiting is not None and not waiting.done():  # a loop that ends cancels what waits on it
            waiting.set_result(is_written)


class WriteQueue(FrameQueue):
    """The queue of one pipe: `send` in any turn of the loop, written in the next.

    `failed` is called once, with the error of the write that failed; from then on frames are kept and not written.
    """

    __slots__ = (
        "_failed",
        "_frame",
        "_handle",
        "_handler",
        "_is_blocked",
        "_is_paused",
        "_is_shut",
        "_loop",
        "_rest",
        "_sink",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sink: Sink,
        handler: TransportHandler,
        frame: Callable[[bytes], bytes],
        failed: Callable[[OSError], None],
    ) -> None:
        super().__init__()
        self._loop = loop
        self._sink = sink
        self._handler = handler
        self._frame = frame
        self._failed = failed
        self._handle: asyncio.Handle | None = None  # of the flush that is due
        self._rest: memoryview | None = None  # of the frame that is half written
        self._is_blocked = False  # the sink did not accept everything and is being watched
        self._is_paused = False
        self._is_shut = False

    def __len__(self) -> int:
        return len(self._waiting) + (self._rest is not None)

    def send(self, frame: bytes, number: int) -> bool:
        """See `Transport.send`.

        Raises: FrameTooLargeError; the frame was not accepted.
        """
        waiting = self._waiting
        # In the common case, far from full, this is the only check.
        is_near = len(waiting) + 1 >= MAX_QUEUED_FRAMES or self.size + len(frame) > MAX_QUEUED_BYTES
        if self._is_shut or (is_near and self.is_busy(len(frame))):
            return False
        framed = self._frame(frame)
        waiting[number] = framed
        self.size += len(framed)
        if self._handle is None and not self._is_blocked and not self._is_paused:
            self._handle = self._loop.call_soon(self._flush)
        return True

    async def flush(self) -> bool:
        """See `Transport.flush`."""
        return not self._is_paused and await super().flush()

    def withdraw(self, number: int) -> bool:
        """See `Transport.withdraw`. `room_made` is called in the next iteration of the loop, not inside this call."""
        if not super().withdraw(number):
            return False
        if self.was_refused:
            self._loop.call_soon(self._notify_room)
        return True

    def pause(self) -> None:
        """Stop writing, but keep queued frames and accept new ones. None of them is sent.

        Used between the first sign that the peer has ended and the call of `went_down`: in this time the transport is
        not busy.
        """
        self._is_paused = True
        self._stop()
        self._end_flush(False)

    def close(self) -> None:
        """Accept and write nothing more, and drop the queue. May be called again."""
        self._is_shut = True
        self.pause()
        self.clear()
        self._rest = None

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._is_blocked:
            self._is_blocked = False
            self._sink.unwatch()

    def _unblocked(self) -> None:
        self._is_blocked = False
        self._flush()

    def _flush(self) -> None:
        """Write until the queue is empty, the sink accepts no more, or `TURN_BYTES` are written."""
        self._handle = None
        through: int | None = None
        error: OSError | None = None
        written = 0
        waiting = self._waiting
        while (waiting or self._rest is not None) and written < TURN_BYTES:
            try:
                taken, size, last = self._write_some()
            except OSError as failure:
                error = failure
                break
            written += taken
            through = last if last is not None else through
            if taken < size:
                self._is_blocked = True
                self._sink.watch(self._unblocked)
                break
        if error is not None:
            self.pause()
        elif (waiting or self._rest is not None) and not self._is_blocked and not self._is_paused:
            self._handle = self._loop.call_soon(self._flush)
        if through is not None:
            self._handler.wrote(through)
        if self.was_refused:
            self._notify_room()
        elif self._flushed is not None:
            self.resolve_flush()
        if error is not None:
            self._failed(error)

    def _notify_room(self) -> None:
        if self.has_room_again():
            self._handler.room_made()
        self.resolve_flush()

    def _write_some(self) -> tuple[int, int, int | None]:
        """Write once. Returns the bytes accepted, the bytes offered, and the number of the last frame begun, if any."""
        if self._rest is not None:
            size = len(self._rest)
            taken = self._sink.write(self._rest)
            self.size -= taken
            self._rest = self._rest[taken:] if taken < size else None
            return taken, size, None
        if self.size <= JOINED_BYTES:
            frames = list(self._waiting.values())
        else:
            frames = self._first_frames()
        chunk = frames[0] if len(frames) == 1 else b"".join(frames)
        taken = self._sink.write(chunk)
        if taken == self.size:  # everything
            last = next(reversed(self._waiting))
            self._waiting.clear()
            self.size = 0
            return taken, len(chunk), last
        return taken, len(chunk), self._let_go(taken)

    def _first_frames(self) -> list[bytes]:
        frames: list[bytes] = []
        size = 0
        for frame in self._waiting.values():
            if frames and size + len(frame) > JOINED_BYTES:
                break
            frames.append(frame)
            size += len(frame)
        return frames

    def _let_go(self, taken: int) -> int | None:
        """Remove the frames that these bytes belong to; keep the rest of a partly written one."""
        last: int | None = None
        while taken:
            last, frame = self.pop()
            if taken < len(frame):
                self._rest = memoryview(frame)[taken:]
                self.size += len(self._rest)
                break
            taken -= len(frame)
        return last
