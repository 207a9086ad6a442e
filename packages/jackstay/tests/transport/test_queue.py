"""FrameQueue and WriteQueue with a fake sink."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import FrameTooLargeError
from jackstay.protocol.wire._lines import frame_lines
from jackstay.testing.transport_suite import RecordingHandler
from jackstay.transport import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES
from jackstay.transport._queue import (
    CELLS,
    ITERATION_BYTES,
    JOINED_BYTES,
    FrameQueue,
    QueueEvent,
    QueueState,
    WriteQueue,
)


class FakeSink:
    """A sink that accepts `room` bytes, or any number if `room` is None."""

    def __init__(self, room: int | None = None) -> None:
        self.room = room
        self.writes: list[bytes] = []
        self.error: OSError | None = None
        self.watcher: Callable[[], None] | None = None

    def write(self, data: bytes | memoryview) -> int:
        if self.error is not None:
            raise self.error
        size = len(data) if self.room is None else min(self.room, len(data))
        if self.room is not None:
            self.room -= size
        if size:
            self.writes.append(bytes(data[:size]))
        return size

    def watch(self, is_writable: Callable[[], None]) -> None:
        self.watcher = is_writable

    def unwatch(self) -> None:
        self.watcher = None

    def make_room(self, room: int | None) -> None:
        self.room = room
        watcher, self.watcher = self.watcher, None
        assert watcher is not None, "no watcher"
        watcher()


class Harness:
    def __init__(self, room: int | None = None, limit: int = 100_000_000) -> None:
        self.sink = FakeSink(room)
        self.handler = RecordingHandler()
        self.failures: list[OSError] = []
        self.queue = WriteQueue(
            asyncio.get_running_loop(),
            self.sink,
            self.handler,
            frame_lines,
            self.failures.append,
            limit=limit,
        )


async def turn() -> None:
    await asyncio.sleep(0)


# (number of queued frames, their size, size of the next frame, is the queue busy)
BUSY = [
    (0, 0, 1, False),
    (0, 0, 2 * MAX_QUEUED_BYTES, False),
    (1, 1, MAX_QUEUED_BYTES - 1, False),
    (1, 1, MAX_QUEUED_BYTES, True),
    (1, 2 * MAX_QUEUED_BYTES, 1, True),
    (MAX_QUEUED_FRAMES - 1, 1, 1, False),
    (MAX_QUEUED_FRAMES, 1, 1, True),
]


async def test_busy_depends_on_count_and_size() -> None:
    for count, size, following, is_busy in BUSY:
        queue = FrameQueue(asyncio.get_running_loop(), RecordingHandler())
        for number in range(count):
            queue.add(number, bytes(size))
        assert queue.is_busy(following) is is_busy
        assert ("refused" in repr(queue)) is is_busy


async def test_room_is_reported_once_when_half_is_free() -> None:
    handler = RecordingHandler()
    queue = FrameQueue(asyncio.get_running_loop(), handler)
    for number in range(MAX_QUEUED_FRAMES):
        queue.add(number, b"x")
    queue.notify_room()
    assert handler.room_calls == 0, "nothing was rejected"
    assert queue.is_busy(1)
    sizes = []
    while len(queue):
        queue.pop()
        calls = handler.room_calls
        queue.notify_room()
        if handler.room_calls > calls:
            sizes.append(len(queue))
    assert sizes == [MAX_QUEUED_FRAMES // 2]


async def test_room_waits_for_half_of_the_bytes_too() -> None:
    handler = RecordingHandler()
    queue = FrameQueue(asyncio.get_running_loop(), handler)
    queue.add(1, bytes(MAX_QUEUED_BYTES))
    queue.add(2, bytes(1))
    assert queue.is_busy(1)
    queue.notify_room()
    assert handler.room_calls == 0
    queue.pop()
    queue.notify_room()
    assert handler.room_calls == 1


async def test_frames_of_one_iteration_are_sent_in_one_write() -> None:
    harness = Harness()
    for number in range(1, 65):
        assert harness.queue.send(b"%d" % number, number)
    assert harness.sink.writes == []
    await turn()
    assert harness.sink.writes == [b"".join(b"%d\n" % number for number in range(1, 65))]
    assert harness.handler.writes == [64]
    assert (len(harness.queue), harness.queue.size) == (0, 0)


async def test_a_frame_counts_as_written_with_its_first_byte_and_later_frames_can_be_withdrawn() -> None:
    harness = Harness(room=7)
    for number, frame in enumerate((b"aaaa", b"bbbb", b"cccc", b"dddd"), 1):
        assert harness.queue.send(frame, number)
    await turn()
    assert harness.handler.writes == [2]
    assert not harness.queue.withdraw(1)
    assert not harness.queue.withdraw(2), "two bytes of it are written"
    assert harness.queue.withdraw(3), "in the same write, but nothing of it was accepted"
    assert len(harness.queue) == 2
    harness.sink.make_room(2)
    assert harness.handler.writes == [2], "the rest of a frame is not reported"
    harness.sink.make_room(None)
    assert harness.handler.writes == [2, 4]
    assert b"".join(harness.sink.writes) == b"aaaa\nbbbb\ndddd\n"
    assert harness.queue.size == 0


async def test_a_withdrawn_frame_is_not_written_even_if_it_was_the_only_frame() -> None:
    harness = Harness()
    harness.queue.send(b"one", 1)
    assert harness.queue.withdraw(1)
    assert not harness.queue.withdraw(1)
    await turn()
    assert harness.sink.writes == harness.handler.writes == []


async def test_nothing_is_scheduled_while_the_sink_is_full() -> None:
    harness = Harness(room=0)
    harness.queue.send(b"one", 1)
    await turn()
    assert harness.handler.writes == []
    harness.queue.send(b"two", 2)
    await turn()
    harness.sink.make_room(None)
    assert harness.sink.writes == [b"one\ntwo\n"]


async def test_much_data_is_written_in_several_iterations() -> None:
    harness = Harness()
    frame = b"x" * 30_000
    for number in range(1, 101):
        assert harness.queue.send(frame, number)
    await turn()
    written = sum(map(len, harness.sink.writes))
    assert ITERATION_BYTES <= written < ITERATION_BYTES + JOINED_BYTES
    assert max(map(len, harness.sink.writes)) <= JOINED_BYTES
    while len(harness.queue):
        await turn()
    assert harness.handler.through == 100
    assert b"".join(harness.sink.writes) == (frame + b"\n") * 100


async def test_room_is_reported_after_the_write_that_made_it() -> None:
    harness = Harness(room=0)
    number = 0
    while harness.queue.send(b"x", number + 1):
        number += 1
    assert number == MAX_QUEUED_FRAMES
    await turn()
    harness.sink.make_room(100)
    assert harness.handler.room_calls == 0
    harness.sink.make_room(None)
    assert harness.handler.room_calls == 1
    assert harness.handler.writes == [50, 1024]


async def test_a_failed_write_is_reported_once() -> None:
    harness = Harness(room=5)
    harness.queue.send(b"aaaa", 1)
    harness.queue.send(b"bbbb", 2)
    await turn()
    harness.sink.error = BrokenPipeError(32, "Broken pipe")
    harness.sink.make_room(None)
    assert harness.failures == [harness.sink.error]
    assert harness.handler.writes == [1]
    assert harness.queue.send(b"cccc", 3), "accepted, but not sent"
    assert harness.queue.withdraw(2)
    await turn()
    assert len(harness.failures) == 1
    assert harness.sink.watcher is None


async def test_a_closed_queue_accepts_and_writes_nothing() -> None:
    harness = Harness(room=2)
    harness.queue.send(b"aaaa", 1)
    await turn()
    assert harness.sink.watcher is not None
    harness.queue.close()
    assert harness.sink.watcher is None
    assert not harness.queue.send(b"bbbb", 2)
    assert not harness.queue.withdraw(1)
    await turn()
    assert (harness.sink.writes, len(harness.queue), harness.queue.size) == ([b"aa"], 0, 0)


async def test_a_queue_closed_before_its_flush_writes_nothing() -> None:
    harness = Harness()
    harness.queue.send(b"aaaa", 1)
    harness.queue.close()
    await turn()
    assert harness.sink.writes == harness.handler.writes == []


async def test_a_frame_over_the_limit_is_rejected() -> None:
    harness = Harness(limit=3)
    with pytest.raises(FrameTooLargeError):
        harness.queue.send(b"aaaa", 1)
    assert len(harness.queue) == 0


@given(
    sizes=st.lists(st.integers(1, 40_000), max_size=30),
    capacities=st.lists(st.integers(0, 70_000), max_size=30),
    withdrawn=st.sets(st.integers(1, 30)),
)
def test_each_frame_is_sent_completely_or_not_at_all(
    sizes: list[int], capacities: list[int], withdrawn: set[int]
) -> None:
    asyncio.run(send_and_withdraw(sizes, capacities, withdrawn))


async def send_and_withdraw(sizes: list[int], capacities: list[int], withdrawn: set[int]) -> None:
    harness = Harness(room=capacities[0] if capacities else None)
    frames = {number: bytes([65 + number % 26]) * size for number, size in enumerate(sizes, 1)}
    for number, frame in frames.items():
        assert harness.queue.send(frame, number)
    await turn()
    for number in withdrawn & frames.keys():
        through = harness.handler.through
        assert harness.queue.withdraw(number) is (number > through)
        if number > through:
            del frames[number]
    for room in [*capacities[1:], None]:
        if harness.sink.watcher is not None:
            harness.sink.make_room(room)
    while len(harness.queue):
        await turn()
    assert b"".join(harness.sink.writes) == b"".join(frame + b"\n" for frame in frames.values())
    assert harness.handler.writes == sorted(set(harness.handler.writes))
    assert harness.handler.through == max(frames, default=0)
    assert harness.queue.size == 0


# --- flush ------------------------------------------------------------------------------------------------------------


async def test_a_flush_waits_for_the_last_byte_and_not_for_the_first() -> None:
    harness = Harness(room=3)
    harness.queue.send(b'"frame"', 1)
    flushing = asyncio.ensure_future(harness.queue.flush())
    await turn()
    await turn()
    assert harness.handler.through == 1, "begun"
    assert not flushing.done()
    harness.sink.make_room(3)
    await turn()
    assert not flushing.done()
    harness.sink.make_room(None)
    assert await flushing
    assert await harness.queue.flush()


async def test_a_flush_waits_for_frames_sent_in_room_made() -> None:
    """A frame that was rejected and is sent in `room_made` is part of the flush."""
    harness = Harness(room=0)
    number = 0
    while harness.queue.send(b'"x"', number + 1):
        number += 1
    harness.handler.room_made = lambda: harness.queue.send(b'"retried"', number + 1)  # type: ignore
    await turn()
    flushing = asyncio.ensure_future(harness.queue.flush())
    await turn()
    harness.sink.make_room(None)
    assert await flushing
    assert b"".join(harness.sink.writes).endswith(b'"retried"\n')


@pytest.mark.parametrize("end", ["pause", "close", "error"])
async def test_a_flush_ends_when_writing_stops(end: str) -> None:
    harness = Harness(room=0)
    harness.queue.send(b'"frame"', 1)
    flushing = asyncio.ensure_future(harness.queue.flush())
    await turn()
    await turn()
    if end == "error":
        harness.sink.error = BrokenPipeError()
        harness.sink.make_room(None)
    else:
        getattr(harness.queue, end)()
    assert not await flushing
    assert not await harness.queue.flush()


async def test_a_flush_does_not_wait_for_withdrawn_frames() -> None:
    harness = Harness(room=0)
    harness.queue.send(b'"frame"', 1)
    await turn()
    flushing = asyncio.ensure_future(harness.queue.flush())
    await turn()
    assert harness.queue.withdraw(1)
    assert await flushing


async def test_a_flush_waits_for_room_made_after_a_withdrawal() -> None:
    harness = Harness(room=0)
    number = 0
    while harness.queue.send(b'"x"', number + 1):
        number += 1
    await turn()
    for withdrawn in range(1, number + 1):
        assert harness.queue.withdraw(withdrawn)
    flushing = asyncio.ensure_future(harness.queue.flush())
    assert harness.handler.room_calls == 0
    assert await flushing
    assert harness.handler.room_calls == 1


async def test_a_flush_is_cancelled_with_its_loop() -> None:
    queue = FrameQueue(asyncio.get_running_loop(), RecordingHandler())
    queue.add(1, b"x")
    waiting = asyncio.ensure_future(queue.flush())
    await turn()
    assert queue._flushed is not None
    queue._flushed.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    queue.clear()


async def test_what_is_sent_while_held_is_written_by_release() -> None:
    harness = Harness()
    harness.queue.hold()
    harness.queue.hold()
    for number in (1, 2):
        assert harness.queue.send(b"%d" % number, number)
    await turn()
    assert harness.sink.writes == []
    harness.queue.release()
    harness.queue.release()
    assert harness.sink.writes == [b"1\n2\n"]
    assert harness.handler.writes == [2]


async def test_a_release_without_frames_writes_nothing() -> None:
    harness = Harness()
    harness.queue.hold()
    harness.queue.release()
    assert harness.queue.send(b"1", 1)
    await turn()
    assert harness.sink.writes == [b"1\n"]


async def test_a_hold_changes_nothing_while_a_flush_is_due_or_impossible() -> None:
    harness = Harness(room=0)
    assert harness.queue.send(b"1", 1)
    harness.queue.hold()
    harness.queue.release()
    assert harness.sink.writes == [], "due"
    await turn()
    harness.queue.hold()
    harness.queue.release()
    assert harness.sink.writes == [], "blocked"
    harness.queue.pause()
    harness.queue.hold()
    assert harness.queue.send(b"2", 2)
    harness.queue.release()
    await turn()
    assert harness.sink.writes == [], "paused"


# (number of queued frames, their size, sizes of the next frames)
SENT_TOGETHER = [
    (0, 0, [3, 4]),
    (1, MAX_QUEUED_BYTES - 7, [3, 4]),
    (1, MAX_QUEUED_BYTES - 6, [3, 4]),
    (0, 0, [MAX_QUEUED_BYTES, 1]),
    (MAX_QUEUED_FRAMES - 3, 1, [1, 1]),
    (MAX_QUEUED_FRAMES - 3, 1, [1, 1, 1, 1]),
]


@pytest.mark.parametrize("before", ["", "hold", "pause", "close"])
@pytest.mark.parametrize(("count", "size", "sizes"), SENT_TOGETHER)
async def test_frames_sent_together_are_accepted_as_one_after_the_other(
    count: int, size: int, sizes: list[int], before: str
) -> None:
    accepted = []
    for is_together in (True, False):
        harness = Harness()
        queue = harness.queue
        if before:
            getattr(queue, before)()
        for number in range(count):
            queue.send(b"x" * size, number)
        frames = [b"y" * frame for frame in sizes]
        if is_together:
            sent = queue.send_all(frames, count)
        else:
            sent = sum(queue.send(frame, count + index) for index, frame in enumerate(frames))
        accepted.append((sent, queue._numbers.copy(), queue.size, queue.was_refused, queue._state))
        queue.close()
    assert accepted[0] == accepted[1]


async def test_a_frame_over_the_limit_is_rejected_among_others() -> None:
    harness = Harness(limit=4)
    assert harness.queue.send_all([b"123", b"456"], 1) == 2
    with pytest.raises(FrameTooLargeError):
        harness.queue.send_all([b"1", b"12345", b"2"], 3)
    await turn()
    assert harness.sink.writes == [b"123\n456\n1\n"]


def test_the_table_has_a_cell_for_every_event_in_every_state() -> None:
    assert set(CELLS) == set(QueueEvent)
    assert all(set(cells) == set(QueueState) for cells in CELLS.values())
    # Both methods may be called at any time.
    assert not any(
        cell.is_impossible for event in (QueueEvent.PAUSED, QueueEvent.CLOSED) for cell in CELLS[event].values()
    )
    # Nothing leaves the final state, and nothing but `close()` leaves the state before it.
    for event, cells in CELLS.items():
        for state, cell in cells.items():
            if state is QueueState.CLOSED:
                assert cell.to is None
            if state is QueueState.PAUSED and event is not QueueEvent.CLOSED:
                assert cell.to is None


STEPS = st.lists(
    st.sampled_from(["send", "hold", "release", "pause", "close", "turn", "fill", "make room", "fail", "withdraw"]),
    max_size=30,
)


@given(STEPS)
def test_no_sequence_of_calls_reaches_an_impossible_cell(steps: list[str]) -> None:
    asyncio.run(run_steps(steps))


async def run_steps(steps: list[str]) -> None:
    harness = Harness()
    for number, step in enumerate(steps):
        match step:
            case "send":
                harness.queue.send(b"x" * 10, number)
            case "withdraw":
                harness.queue.withdraw(number - 1)
            case "turn":
                await turn()
            case "fill":
                harness.sink.room = 5
            case "make room":
                harness.sink.room = None
                if harness.sink.watcher is not None:
                    harness.sink.make_room(None)
            case "fail":
                harness.sink.error = OSError(32, "Broken pipe")
            case _:
                getattr(harness.queue, step)()
    harness.queue.release()
    await turn()
    await turn()
    harness.queue.close()
    assert len(harness.queue) == 0
    assert harness.sink.watcher is None
