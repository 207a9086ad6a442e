"""What waits to be written: who gets in, who is taken back, and how frames leave in as few writes as possible.

Two layers. `FrameQueue` is the rule alone (docs/design/connection.md, row 14): when it is busy, what can be withdrawn, when there is
room again. `WriteQueue` adds the writing to something that takes bytes. Frames sent in one turn of the loop leave in one
write, because one `write` a message is what peers spend their time on.

Nothing is handed to a buffer of the loop: what the operating system does not take stays here. So a frame of which no byte
was taken can still be withdrawn, even if it stood in the same write as one that was taken: that is what makes "surely not
sent" true.

Must never know what a frame says, nor what the other end is. Above: the transports. Below: the contract, the loop.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from jackstay.transport._contract import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, Owner

# How much is joined for one write. A Linux pipe takes 64 KiB when it is empty: more would be copied for nothing.
JOINED_BYTES: Final = 65_536

# How much is written in one turn of the loop to a peer that reads as fast as we write: others want their turn, too.
TURN_BYTES: Final = 1_048_576


class Sink(Protocol):
    """Where bytes go."""

    def write(self, data: bytes | memoryview) -> int:
        """Give as much as is taken at once, and say how much that was; 0: nothing now. Raises: OSError."""

    def watch(self, is_writable: Callable[[], None]) -> None:
        """Call this once when more may be taken."""

    def unwatch(self) -> None:
        """Do not call it."""


class FrameQueue:
    """Frames by their numbers, in the order they came, and the rule of when to say busy."""

    __slots__ = ("_flushed", "_waiting", "size", "was_refused")

    def __init__(self) -> None:
        self._waiting: dict[int, bytes] = {}
        self.was_refused = False
        self._flushed: asyncio.Future[bool] | None = None  # who waits for the last byte
        self.size = 0  # bytes of the frames that wait, and of the rest of one that is half written

    def __len__(self) -> int:
        return len(self._waiting)

    def __repr__(self) -> str:
        refused = ", refused one" if self.was_refused else ""
        return f"<{self.__class__.__name__} {len(self)} frames, {self.size} bytes{refused}>"

    def is_busy(self, size: int) -> bool:
        """Whether a frame of this size is refused; remembered, so that `has_room_again` can be told."""
        count = len(self)
        if count >= MAX_QUEUED_FRAMES or (count and self.size + size > MAX_QUEUED_BYTES):
            self.was_refused = True
            return True
        return False

    def add(self, number: int, frame: bytes) -> None:
        """Take a frame for which it is not busy."""
        self._waiting[number] = frame
        self.size += len(frame)

    def withdraw(self, number: int) -> bool:
        """Take a frame back of which nothing is written."""
        frame = self._waiting.pop(number, None)
        if frame is None:
            return False
        self.size -= len(frame)
        if not self.was_refused:
            self.tell_flushed()  # else when the owner was told of the room that this has made
        return True

    def pop(self) -> tuple[int, bytes]:
        """The oldest frame and its number."""
        number = next(iter(self._waiting))
        frame = self._waiting.pop(number)
        self.size -= len(frame)
        return number, frame

    def has_room_again(self) -> bool:
        """True once after a refusal, when half of it is free.

        Half, because an owner that is told of every single place would come once a frame. Whoever is refused again, for
        a frame that needs more than half, is told again after the next write: at the latest when it is empty.
        """
        if not self.was_refused or len(self) > MAX_QUEUED_FRAMES // 2 or self.size > MAX_QUEUED_BYTES // 2:
            return False
        self.was_refused = False
        return True

    async def flush(self) -> bool:
        """Wait until it is empty and whoever was refused was told; False: it was cleared. Many may wait."""
        if not len(self) and not self.was_refused:
            return True
        if self._flushed is None:
            self._flushed = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._flushed)  # the next who waits has the same one

    def tell_flushed(self) -> None:
        """To be called after every write, when the owner was told of it and may have sent more."""
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
        "_is_blocked",
        "_is_held",
        "_is_shut",
        "_loop",
        "_owner",
        "_rest",
        "_sink",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sink: Sink,
        owner: Owner,
        frame: Callable[[bytes], bytes],
        failed: Callable[[OSError], None],
    ) -> None:
        super().__init__()
        self._loop = loop
        self._sink = sink
        self._owner = owner
        self._frame = frame
        self._failed = failed
        self._handle: asyncio.Handle | None = None  # of the flush that is due
        self._rest: memoryview | None = None  # of the frame that is half written
        self._is_blocked = False  # the sink took less than all: it will call
        self._is_held = False
        self._is_shut = False

    def __len__(self) -> int:
        return len(self._waiting) + (self._rest is not None)

    def send(self, frame: bytes, number: int) -> bool:
        """As the contract's `send`.

        Raises: FrameTooLargeError; nothing was taken.
        """
        waiting = self._waiting
        # Far from full, the ordinary case, nothing more is asked.
        is_near = len(waiting) + 1 >= MAX_QUEUED_FRAMES or self.size + len(frame) > MAX_QUEUED_BYTES
        if self._is_shut or (is_near and self.is_busy(len(frame))):
            return False
        framed = self._frame(frame)
        waiting[number] = framed
        self.size += len(framed)
        if self._handle is None:
            self._schedule()
        return True

    async def flush(self) -> bool:
        """As the contract says."""
        return not self._is_held and await super().flush()

    def withdraw(self, number: int) -> bool:
        """As the contract's; the room that it makes is told of in the next turn, not from inside the owner's call."""
        if not super().withdraw(number):
            return False
        if self.was_refused:
            self._loop.call_soon(self._tell_room)
        return True

    def hold(self) -> None:
        """Write nothing more, but keep what waits and take what comes: it is surely not sent.

        For the moment between the first sign of an end and the report of it, when to say busy would be a lie.
        """
        self._is_held = True
        self._stop()
        self._end_flush(False)

    def shut(self) -> None:
        """Take nothing more, write nothing more, forget what waits. May be called again."""
        self._is_shut = True
        self.hold()
        self.clear()
        self._rest = None

    def _schedule(self) -> None:
        if self._handle is None and not self._is_blocked and not self._is_held:
            self._handle = self._loop.call_soon(self._flush)

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
        """Write what waits, until it is all gone, the sink takes no more, or the turn was long enough."""
        self._handle = None
        through: int | None = None
        error: OSError | None = None
        written = 0
        while len(self) and written < TURN_BYTES:
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
            self.hold()
        elif len(self):
            self._schedule()
        if through is not None:
            self._owner.wrote(through)
        if self.was_refused:
            self._tell_room()
        elif self._flushed is not None:
            self.tell_flushed()
        if error is not None:
            self._failed(error)

    def _tell_room(self) -> None:
        if self.has_room_again():
            self._owner.room_made()
        self.tell_flushed()

    def _write_some(self) -> tuple[int, int, int | None]:
        """One write. How many bytes were taken of how many, and the last frame that was begun, if any was."""
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
        if taken == self.size:  # all there is
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
        """Forget the frames that these bytes were of; keep the rest of one that was begun."""
        last: int | None = None
        while taken:
            last, frame = self.pop()
            if taken < len(frame):
                self._rest = memoryview(frame)[taken:]
                self.size += len(self._rest)
                break
            taken -= len(frame)
        return last
