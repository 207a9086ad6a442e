"""Busy, withdrawn, joined, told: the queue against a sink that takes what the test says."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import FrameTooLargeError
from jackstay.protocol.wire._lines import frame_line
from jackstay.testing.transport_suite import Recorder, run
from jackstay.transport import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES
from jackstay.transport._queue import JOINED_BYTES, TURN_BYTES, FrameQueue, WriteQueue


class FakeSink:
    """Takes as many bytes as it has room for; `None` is room without end."""

    def __init__(self, room: int | None = None) -> None:
        self.room = room
        self.writes: list[bytes] = []
        self.error: OSError | None = None
        self.watcher: Callable[[], None] | None = None

    def write(self, data: bytes | memoryview) -> int:
        if self.error is not None:
            raise self.error
        taken = len(data) if self.room is None else min(self.room, len(data))
        if self.room is not None:
            self.room -= taken
        if taken:
            self.writes.append(bytes(data[:taken]))
        return taken

    def watch(self, is_writable: Callable[[], None]) -> None:
        self.watcher = is_writable

    def unwatch(self) -> None:
        self.watcher = None

    def make_room(self, room: int | None) -> None:
        self.room = room
        watcher, self.watcher = self.watcher, None
        assert watcher is not None, "nobody waits"
        watcher()


class Bench:
    def __init__(self, room: int | None = None, limit: int = 100_000_000) -> None:
        self.sink = FakeSink(room)
        self.owner = Recorder()
        self.failures: list[OSError] = []
        self.queue = WriteQueue(
            asyncio.get_running_loop(),
            self.sink,
            self.owner,
            lambda frame: frame_line(frame, limit),
            self.failures.append,
        )


async def turn() -> None:
    await asyncio.sleep(0)


# (frames queued, of which size, size of the next, is it busy?)
BUSY = [
    (0, 0, 1, False),
    (0, 0, 2 * MAX_QUEUED_BYTES, False),
    (1, 1, MAX_QUEUED_BYTES - 1, False),
    (1, 1, MAX_QUEUED_BYTES, True),
    (1, 2 * MAX_QUEUED_BYTES, 1, True),
    (MAX_QUEUED_FRAMES - 1, 1, 1, False),
    (MAX_QUEUED_FRAMES, 1, 1, True),
]


@pytest.mark.parametrize(("count", "size", "following", "is_busy"), BUSY)
def test_busy_is_a_matter_of_count_and_size(count: int, size: int, following: int, is_busy: bool) -> None:
    queue = FrameQueue()
    for number in range(count):
        queue.add(number, bytes(size))
    assert queue.is_busy(following) is is_busy
    assert ("refused" in repr(queue)) is is_busy


def test_room_is_told_once_when_half_is_free() -> None:
    queue = FrameQueue()
    for number in range(MAX_QUEUED_FRAMES):
        queue.add(number, b"x")
    assert not queue.has_room_again(), "nobody was refused"
    assert queue.is_busy(1)
    told = []
    while len(queue):
        queue.pop()
        if queue.has_room_again():
            told.append(len(queue))
    assert told == [MAX_QUEUED_FRAMES // 2]


def test_room_waits_for_half_of_the_bytes_too() -> None:
    queue = FrameQueue()
    queue.add(1, bytes(MAX_QUEUED_BYTES))
    queue.add(2, bytes(1))
    assert queue.is_busy(1)
    assert not queue.has_room_again()
    queue.pop()
    assert queue.has_room_again()


def test_what_is_sent_in_one_turn_leaves_in_one_write_and_is_told_once() -> None:
    async def test() -> None:
        bench = Bench()
        for number in range(1, 65):
            assert bench.queue.send(b"%d" % number, number)
        assert bench.sink.writes == []
        await turn()
        assert bench.sink.writes == [b"".join(b"%d\n" % number for number in range(1, 65))]
        assert bench.owner.writes == [64]
        assert (len(bench.queue), bench.queue.size) == (0, 0)

    run(test)


def test_a_frame_is_written_with_its_first_byte_and_those_behind_it_can_be_withdrawn() -> None:
    async def test() -> None:
        bench = Bench(room=7)
        for number, frame in enumerate((b"aaaa", b"bbbb", b"cccc", b"dddd"), 1):
            assert bench.queue.send(frame, number)
        await turn()
        assert bench.owner.writes == [2]
        assert not bench.queue.withdraw(1)
        assert not bench.queue.withdraw(2), "two bytes of it are gone"
        assert bench.queue.withdraw(3), "it stood in the same write, but nothing of it was taken"
        assert len(bench.queue) == 2
        bench.sink.make_room(2)
        assert bench.owner.writes == [2], "the rest of a frame is no news"
        bench.sink.make_room(None)
        assert bench.owner.writes == [2, 4]
        assert b"".join(bench.sink.writes) == b"aaaa\nbbbb\ndddd\n"
        assert bench.queue.size == 0

    run(test)


def test_a_withdrawn_frame_is_never_written_even_if_it_was_the_only_one() -> None:
    async def test() -> None:
        bench = Bench()
        bench.queue.send(b"one", 1)
        assert bench.queue.withdraw(1)
        assert not bench.queue.withdraw(1)
        await turn()
        assert bench.sink.writes == bench.owner.writes == []

    run(test)


def test_nothing_is_scheduled_while_the_sink_is_full() -> None:
    async def test() -> None:
        bench = Bench(room=0)
        bench.queue.send(b"one", 1)
        await turn()
        assert bench.owner.writes == []
        bench.queue.send(b"two", 2)
        await turn()
        bench.sink.make_room(None)
        assert bench.sink.writes == [b"one\ntwo\n"]

    run(test)


def test_much_is_written_in_pieces_and_a_turn_has_an_end() -> None:
    async def test() -> None:
        bench = Bench()
        frame = b"x" * 30_000
        for number in range(1, 101):
            assert bench.queue.send(frame, number)
        await turn()
        written = sum(map(len, bench.sink.writes))
        assert TURN_BYTES <= written < TURN_BYTES + JOINED_BYTES
        assert max(map(len, bench.sink.writes)) <= JOINED_BYTES
        while len(bench.queue):
            await turn()
        assert bench.owner.through == 100
        assert b"".join(bench.sink.writes) == (frame + b"\n") * 100

    run(test)


def test_busy_is_refused_and_room_is_told_after_the_write_that_made_it() -> None:
    async def test() -> None:
        bench = Bench(room=0)
        number = 0
        while bench.queue.send(b"x", number + 1):
            number += 1
        assert number == MAX_QUEUED_FRAMES
        await turn()
        bench.sink.make_room(100)
        assert bench.owner.rooms == 0
        bench.sink.make_room(None)
        assert bench.owner.rooms == 1
        assert bench.owner.writes == [50, 1024]

    run(test)


def test_a_failed_write_is_told_once_with_what_was_written_before_it() -> None:
    async def test() -> None:
        bench = Bench(room=5)
        bench.queue.send(b"aaaa", 1)
        bench.queue.send(b"bbbb", 2)
        await turn()
        bench.sink.error = BrokenPipeError(32, "Broken pipe")
        bench.sink.make_room(None)
        assert bench.failures == [bench.sink.error]
        assert bench.owner.writes == [1]
        assert bench.queue.send(b"cccc", 3), "kept, and surely not sent"
        assert bench.queue.withdraw(2)
        await turn()
        assert len(bench.failures) == 1
        assert bench.sink.watcher is None

    run(test)


def test_a_queue_that_is_shut_takes_and_writes_nothing() -> None:
    async def test() -> None:
        bench = Bench(room=2)
        bench.queue.send(b"aaaa", 1)
        await turn()
        assert bench.sink.watcher is not None
        bench.queue.shut()
        assert bench.sink.watcher is None
        assert not bench.queue.send(b"bbbb", 2)
        assert not bench.queue.withdraw(1)
        await turn()
        assert (bench.sink.writes, len(bench.queue), bench.queue.size) == ([b"aa"], 0, 0)

    run(test)


def test_a_queue_that_is_shut_before_its_turn_writes_nothing() -> None:
    async def test() -> None:
        bench = Bench()
        bench.queue.send(b"aaaa", 1)
        bench.queue.shut()
        await turn()
        assert bench.sink.writes == bench.owner.writes == []

    run(test)


def test_a_frame_over_the_limit_is_refused_whole() -> None:
    async def test() -> None:
        bench = Bench(limit=3)
        with pytest.raises(FrameTooLargeError):
            bench.queue.send(b"aaaa", 1)
        assert len(bench.queue) == 0

    run(test)


@given(
    sizes=st.lists(st.integers(1, 40_000), max_size=30),
    rooms=st.lists(st.integers(0, 70_000), max_size=30),
    withdrawn=st.sets(st.integers(1, 30)),
)
def test_whatever_the_sink_takes_each_frame_is_sent_whole_or_not_at_all(
    sizes: list[int], rooms: list[int], withdrawn: set[int]
) -> None:
    async def test() -> None:
        bench = Bench(room=rooms[0] if rooms else None)
        frames = {number: bytes([65 + number % 26]) * size for number, size in enumerate(sizes, 1)}
        for number, frame in frames.items():
            assert bench.queue.send(frame, number)
        await turn()
        for number in withdrawn & frames.keys():
            through = bench.owner.through
            assert bench.queue.withdraw(number) is (number > through)
            if number > through:
                del frames[number]
        for room in [*rooms[1:], None]:
            if bench.sink.watcher is not None:
                bench.sink.make_room(room)
        while len(bench.queue):
            await turn()
        assert b"".join(bench.sink.writes) == b"".join(frame + b"\n" for frame in frames.values())
        assert bench.owner.writes == sorted(set(bench.owner.writes))
        assert bench.owner.through == max(frames, default=0)
        assert bench.queue.size == 0

    asyncio.run(test())


# --- flushed ----------------------------------------------------------------------------------------------------------


def test_a_flush_waits_for_the_last_byte_and_not_for_the_first() -> None:
    async def test() -> None:
        bench = Bench(room=3)
        bench.queue.send(b'"frame"', 1)
        flushing = asyncio.ensure_future(bench.queue.flush())
        await turn()
        await turn()
        assert bench.owner.through == 1, "begun"
        assert not flushing.done()
        bench.sink.make_room(3)
        await turn()
        assert not flushing.done()
        bench.sink.make_room(None)
        assert await flushing
        assert await bench.queue.flush()

    run(test)


def test_a_flush_waits_for_what_is_sent_when_there_is_room() -> None:
    """What an owner kept back because it was refused is part of what it wants to be rid of."""

    async def test() -> None:
        bench = Bench(room=0)
        number = 0
        while bench.queue.send(b'"x"', number + 1):
            number += 1
        bench.owner.room_made = lambda: bench.queue.send(b'"kept back"', number + 1)  # type: ignore[method-assign,assignment,return-value]  # the owner of this test
        await turn()
        flushing = asyncio.ensure_future(bench.queue.flush())
        await turn()
        bench.sink.make_room(None)
        assert await flushing
        assert b"".join(bench.sink.writes).endswith(b'"kept back"\n')

    run(test)


@pytest.mark.parametrize("end", ["hold", "shut", "error"])
def test_a_flush_ends_with_the_writing(end: str) -> None:
    async def test() -> None:
        bench = Bench(room=0)
        bench.queue.send(b'"frame"', 1)
        flushing = asyncio.ensure_future(bench.queue.flush())
        await turn()
        await turn()
        if end == "error":
            bench.sink.error = BrokenPipeError()
            bench.sink.make_room(None)
        else:
            getattr(bench.queue, end)()
        assert not await flushing
        assert not await bench.queue.flush()

    run(test)


def test_a_flush_waits_no_longer_for_what_was_withdrawn() -> None:
    async def test() -> None:
        bench = Bench(room=0)
        bench.queue.send(b'"frame"', 1)
        await turn()
        flushing = asyncio.ensure_future(bench.queue.flush())
        await turn()
        assert bench.queue.withdraw(1)
        assert await flushing

    run(test)


def test_a_flush_waits_until_room_that_was_withdrawn_is_told() -> None:
    async def test() -> None:
        bench = Bench(room=0)
        number = 0
        while bench.queue.send(b'"x"', number + 1):
            number += 1
        await turn()
        for withdrawn in range(1, number + 1):
            assert bench.queue.withdraw(withdrawn)
        flushing = asyncio.ensure_future(bench.queue.flush())
        assert bench.owner.rooms == 0
        assert await flushing
        assert bench.owner.rooms == 1

    run(test)


def test_who_waits_for_a_flush_when_the_loop_ends_is_cancelled_and_nothing_else() -> None:
    queue = FrameQueue()

    async def test() -> None:
        queue.add(1, b"x")
        waiting = asyncio.ensure_future(queue.flush())
        await turn()
        assert queue._flushed is not None
        queue._flushed.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        queue.clear()

    run(test)
