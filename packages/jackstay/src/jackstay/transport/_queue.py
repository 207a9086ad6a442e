"""Queues of frames to send, and how they are written with as few system calls as possible.

`FrameQueue` decides when to reject frames and which can be withdrawn. `WriteQueue` adds the writing. Frames sent in one
iteration of the event loop leave in one write. Nothing is passed to a buffer of the loop: a frame of which the
operating system has accepted no byte stays here and can be withdrawn, so "not sent" is certain.
"""

import asyncio
from collections.abc import Callable, Sequence, Sized
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from jackstay.errors import FrameTooLargeError
from jackstay.protocol import IMPOSSIBLE, Cell

if TYPE_CHECKING:
    from jackstay.transport._contract import TransportHandler
    from jackstay.transport._pipe import WritePipe

# The limits of the queue of a transport; beyond them it is busy.
MAX_QUEUED_FRAMES: Final = 1024
MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024

# How much is joined for one write. An empty Linux pipe accepts 64 KiB: more would be copied in vain.
JOINED_BYTES: Final = 65_536

# How much is written in one iteration of the event loop to a peer that reads as fast, so that other tasks can run.
ITERATION_BYTES: Final = 1_048_576


# A frame, or what carries one and has its length.
Frame = TypeVar("Frame", bound=Sized)


class FrameQueue(Generic[Frame]):
    """Frames by number, in order, and the rule when a frame is rejected."""

    __slots__ = ("_flushed", "_handler", "_loop", "_numbers", "frames", "size", "was_refused")

    def __init__(self, loop: asyncio.AbstractEventLoop, handler: "TransportHandler") -> None:
        self._loop = loop
        self._handler = handler
        # Two lists, because a dict would grow from nothing after each write.
        self.frames: list[Frame] = []  # without framing
        self._numbers: list[int] = []  # of `frames`, increasing
        self.was_refused = False
        self._flushed: asyncio.Future[bool] | None = None  # resolved when everything is written
        self.size = 0  # bytes of the frames that wait, and of the rest of one that is half written

    def __len__(self) -> int:
        return len(self.frames)

    def __repr__(self) -> str:
        refused = ", refused one" if self.was_refused else ""
        return f"<{self.__class__.__name__} {len(self)} frames, {self.size} bytes{refused}>"

    def is_busy(self, size: int) -> bool:
        """Return whether a frame of this size is rejected, and record it for `notify_room`."""
        count = len(self)
        if count >= MAX_QUEUED_FRAMES or (count and self.size + size > MAX_QUEUED_BYTES):
            self.was_refused = True
            return True
        return False

    def add(self, number: int, frame: Frame) -> None:
        """Add a frame that was not rejected."""
        self.frames.append(frame)
        self._numbers.append(number)
        self.size += len(frame)

    def withdraw(self, number: int) -> bool:
        """See `Transport.withdraw`."""
        from bisect import bisect_left  # noqa: PLC0415  # only for a call that is cancelled before it was written

        index = bisect_left(self._numbers, number)
        if index == len(self._numbers) or self._numbers[index] != number:
            return False
        self.remove(index)
        return True

    def remove(self, index: int) -> None:
        """Remove one of `frames`. `room_made` is called in the next iteration of the event loop."""
        del self._numbers[index]
        self.size -= len(self.frames.pop(index))
        self._loop.call_soon(self.notify_room)

    def renew(self, handler: "TransportHandler") -> None:
        """Notify this handler from now on. Its numbers begin again: what is queued can no longer be withdrawn."""
        self._handler = handler
        self._numbers = [0] * len(self._numbers)

    def pop(self) -> tuple[int, Frame]:
        """Remove and return the oldest frame and its number."""
        frame = self.frames.pop(0)
        self.size -= len(frame)
        return self._numbers.pop(0), frame

    def notify_room(self) -> None:
        """Notify the handler once after a rejection, when half of the queue is free. Resolve flushes of an empty queue.

        Called after every write, when the handler may have sent more.

        With less than half, the handler would be notified once per frame. If a frame needs more than half and is
        rejected again, the handler is notified again after the next write, at the latest when the queue is empty.
        """
        if self.was_refused and len(self) <= MAX_QUEUED_FRAMES // 2 and self.size <= MAX_QUEUED_BYTES // 2:
            self.was_refused = False
            self._handler.room_made()
        if not len(self) and not self.was_refused:
            self._end_flush(True)

    async def flush(self) -> bool:
        """Wait until the queue is empty and any due `room_made` was called; False: it was cleared."""
        if not len(self) and not self.was_refused:
            return True
        if self._flushed is None:
            self._flushed = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._flushed)  # shared by all callers

    def clear(self) -> None:
        """Forget everything; nothing of it will be written."""
        self.frames.clear()
        self._numbers.clear()
        self.was_refused = False
        self.size = 0
        self._end_flush(False)

    def _end_flush(self, is_written: bool) -> None:
        waiting, self._flushed = self._flushed, None
        if waiting is not None and not waiting.done():  # a loop that ends cancels what waits on it
            waiting.set_result(is_written)


class QueueState(Enum):
    """The state of a `WriteQueue`."""

    IDLE = "idle"  # nothing is to be written
    HELD = "held"  # `release()` writes what is sent until then
    DUE = "due"  # a flush is scheduled
    BLOCKED = "blocked"  # the sink accepts no more and is being watched
    PAUSED = "paused"  # frames are kept and not written
    CLOSED = "closed"

    __hash__ = object.__hash__  # that of Enum is a Python function


class QueueEvent(Enum):
    """What happens to a `WriteQueue`, except for frames that do not change its state."""

    SENT = "the first frame was sent"
    HELD = "the transport begins to deliver received data"
    EMPTIED = "everything is written"
    INTERRUPTED = "a flush has written as much as one iteration of the event loop may"
    FILLED = "the sink accepts no more"
    DRAINED = "the sink accepts more"
    FAILED = "a write failed"
    PAUSED = "`pause()` was called"
    CLOSED = "`close()` was called"

    __hash__ = object.__hash__


# In Python 3.11 the lookup of a member takes as long as a function call.
_IDLE, _HELD, _CLOSED = QueueState.IDLE, QueueState.HELD, QueueState.CLOSED
_SENT_EVENT, _HELD_EVENT, _EMPTIED_EVENT = QueueEvent.SENT, QueueEvent.HELD, QueueEvent.EMPTIED

# Nothing is written any more.
_STOPPED = (QueueState.PAUSED, QueueState.CLOSED)

# One less than the maximum: the frame that is half written counts, too.
_NEARLY_FULL = MAX_QUEUED_FRAMES - 1


class WriteQueue(FrameQueue[bytes]):
    """The queue of one pipe: `send` in any iteration of the event loop, written in the next.

    `failed` is called once, with the error of the write that failed; from then on frames are kept and not written.
    """

    __slots__ = ("_failed", "_join", "_limit", "_rest", "_sink", "_state")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sink: "WritePipe",
        handler: "TransportHandler",
        join: Callable[[Sequence[bytes]], bytes],
        failed: Callable[[OSError], None],
        *,
        limit: int,
    ) -> None:
        super().__init__(loop, handler)
        self._sink = sink
        self._join = join  # frames payloads
        self._limit = limit
        self._failed = failed
        self._state = _IDLE
        self._rest: memoryview | None = None  # of the frame that is half written

    def __len__(self) -> int:
        return len(self.frames) + (self._rest is not None)

    def send(self, frame: bytes, number: int) -> bool:
        """See `Transport.send`.

        Raises: FrameTooLargeError; the frame was not accepted.
        """
        numbers = self._numbers
        size = len(frame)
        total = self.size + size
        # In the common case, far from full, the first two are the only checks of the size.
        if (total > MAX_QUEUED_BYTES or len(numbers) >= _NEARLY_FULL) and self.is_busy(size):
            return False
        state = self._state
        if state is _CLOSED:
            return False
        if size > self._limit:
            raise FrameTooLargeError(size, self._limit)
        self.frames.append(frame)
        numbers.append(number)
        self.size = total
        if state is _IDLE:
            self._change(_SENT_EVENT)
        return True

    def send_all(self, frames: list[bytes], number: int) -> int:
        """Send frames with consecutive numbers, the first with this one. Returns how many were accepted.

        Raises: FrameTooLargeError; the frames before were accepted.
        """
        size = sum(map(len, frames))
        count = len(frames)
        if (
            self._state is _CLOSED
            or size > self._limit
            or self.size + size > MAX_QUEUED_BYTES
            or len(self._numbers) + count > _NEARLY_FULL
        ):
            return next((index for index, frame in enumerate(frames) if not self.send(frame, number + index)), count)
        self.frames += frames
        self._numbers += range(number, number + count)
        self.size += size
        if self._state is _IDLE:
            self._change(_SENT_EVENT)
        return count

    async def flush(self) -> bool:
        """See `Transport.flush`."""
        return self._state not in _STOPPED and await super().flush()

    def hold(self) -> None:
        """Let `release()` write what is sent until then, instead of the next iteration of the event loop."""
        if self._state is _IDLE:
            self._change(_HELD_EVENT)

    def release(self) -> None:
        """Write what was sent since `hold()`. Calls the handler, so it must not be called by the handler."""
        if self._state is _HELD:
            self._flush()

    def pause(self) -> None:
        """Stop writing, but keep queued frames and accept new ones. None of them is sent.

        Used from the moment the peer is known to be ending until `went_down` is called: in this time the transport is
        not busy.
        """
        self._change(QueueEvent.PAUSED)

    def close(self) -> None:
        """Accept and write nothing more, and drop the queue. May be called again."""
        self._change(QueueEvent.CLOSED)

    # --- writing ------------------------------------------------------------------------------------------------------

    def _unblocked(self) -> None:
        self._change(QueueEvent.DRAINED)
        self._flush()

    def _flush(self) -> None:
        """Write until the queue is empty, the sink accepts no more, or `ITERATION_BYTES` are written."""
        if self._state in _STOPPED:
            return  # since it was scheduled
        through: int | None = None
        error: OSError | None = None
        written = 0
        waiting = self.frames
        outcome = _EMPTIED_EVENT
        while waiting or self._rest is not None:
            if written >= ITERATION_BYTES:
                outcome = QueueEvent.INTERRUPTED
                break
            try:
                taken, size, last = self._write_some()
            except OSError as failure:
                error, outcome = failure, QueueEvent.FAILED
                break
            written += taken
            through = last if last is not None else through
            if taken < size:
                outcome = QueueEvent.FILLED
                break
        self._change(outcome)
        if through is not None:
            self._handler.wrote(through)
        if self.was_refused or self._flushed is not None:
            self.notify_room()
        if error is not None:
            self._failed(error)

    def _write_some(self) -> tuple[int, int, int | None]:
        """Write once. Returns the bytes accepted, the bytes offered, and the number of the last frame begun, if any."""
        if self._rest is not None:
            size = len(self._rest)
            taken = self._sink.write(self._rest)
            self.size -= taken
            self._rest = self._rest[taken:] if taken < size else None
            return taken, size, None
        frames = self.frames if self.size <= JOINED_BYTES else self._first_frames()
        chunk = self._join(frames)
        taken = self._sink.write(chunk)
        if taken == len(chunk):
            count = len(frames)
            last = self._numbers[count - 1]
            self.size -= sum(map(len, frames))
            del self.frames[:count], self._numbers[:count]
            return taken, len(chunk), last
        return taken, len(chunk), self._remove_written(taken, chunk if len(frames) == 1 else None)

    def _first_frames(self) -> list[bytes]:
        frames: list[bytes] = []
        size = 0
        for frame in self.frames:
            size += len(frame) + 1  # with its newline: a pipe should accept all of them
            if frames and size > JOINED_BYTES:
                break
            frames.append(frame)
        return frames

    def _remove_written(self, size: int, first: bytes | None) -> int | None:
        """Remove the first `size` bytes from the queue. Returns the number of the last frame they belong to, if any.

        `first` is the framed payload if there was only one: it may be too large for a second copy.

        The rest of a frame that is partly written is kept apart, because it can no longer be withdrawn.
        """
        last: int | None = None
        while size:
            last, payload = self.pop()
            frame = self._join((payload,)) if first is None else first
            if size < len(frame):
                self._rest = memoryview(frame)[size:]
                self.size += len(self._rest)
                break
            size -= len(frame)
        return last

    # --- states -------------------------------------------------------------------------------------------------------

    def _change(self, event: QueueEvent) -> None:
        """Run a cell. The state changes last: no action here calls the handler."""
        cell = CELLS[event][self._state]
        assert not cell.is_impossible, f"{event.name} in {self._state.value}"
        for action in cell.actions:
            action(self)
        to: Any = cell.to
        if to is not None:
            self._state = to

    def _schedule(self) -> None:
        """write in the next iteration of the event loop"""
        self._loop.call_soon(self._flush)

    def _watch(self) -> None:
        """watch the sink"""
        self._sink.watch(self._unblocked)

    def _unwatch(self) -> None:
        """stop watching the sink"""
        self._sink.unwatch()

    def _fail_flush(self) -> None:
        """`flush()` returns False"""
        self._end_flush(False)

    def _drop(self) -> None:
        """drop all frames"""
        self.clear()
        self._rest = None


def _cells() -> dict[QueueEvent, dict[QueueState, Cell]]:
    """Return the table. A pair that is not listed is impossible."""
    queue, state, event = WriteQueue, QueueState, QueueEvent
    rows: dict[QueueEvent, dict[QueueState, Cell]] = {
        event.SENT: {state.IDLE: Cell((queue._schedule,), state.DUE)},
        event.HELD: {state.IDLE: Cell((), state.HELD)},
        event.EMPTIED: dict.fromkeys((state.HELD, state.DUE), Cell((), state.IDLE)),
        event.INTERRUPTED: dict.fromkeys((state.HELD, state.DUE), Cell((queue._schedule,), state.DUE)),
        event.FILLED: dict.fromkeys((state.HELD, state.DUE), Cell((queue._watch,), state.BLOCKED)),
        event.DRAINED: {state.BLOCKED: Cell((), state.DUE)},
        event.FAILED: dict.fromkeys((state.HELD, state.DUE), Cell((queue._fail_flush,), state.PAUSED)),
        event.PAUSED: {
            **dict.fromkeys(QueueState, Cell((queue._unwatch, queue._fail_flush), state.PAUSED)),
            **dict.fromkeys(_STOPPED, Cell()),
        },
        event.CLOSED: {
            **dict.fromkeys(QueueState, Cell((queue._unwatch, queue._drop), state.CLOSED)),
            state.CLOSED: Cell(),
        },
    }
    return {event: {state: cells.get(state, IMPOSSIBLE) for state in QueueState} for event, cells in rows.items()}


CELLS = _cells()
