"""The contract of transports as tests that anybody's transport can be put through.

    class TestMine(TransportSuite):
        @asynccontextmanager
        async def pair(self):
            async with my_other_end() as peer:
                yield my_target(peer), peer

Each test opens the target, talks to it from both sides, and checks one sentence of `jackstay.transport`'s four duties. The
peer reads only when it is asked to: that is how a test makes a transport busy. Every wait has a guard.

Must never know how a transport works. Above: the tests of transports. Below: the contract.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

from jackstay.errors import FrameTooLargeError, McpError
from jackstay.transport import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, Target, Transport

# How long a wait may take before a test fails instead of hanging; a busy machine takes a second to start a process.
GUARD_SECONDS: Final = 20.0

# Limits that the suite opens targets with. The frame limit is above what a queue holds, to see that an empty one takes it.
FRAME_LIMIT: Final = MAX_QUEUED_BYTES + 1_048_576
CLOSE_STEP: Final = 5.0


class Peer(Protocol):
    """The other end of a transport, as a test drives it. Used after the target was opened."""

    async def receive(self) -> bytes:
        """The next frame that the transport sent. Nothing may be read from it before this is called."""

    async def send(self, frame: bytes) -> None:
        """Send a frame to the transport; it may be over the transport's limit."""

    async def leave(self) -> None:
        """Go away, as a peer of this kind does when it ends by itself. What was sent before must be on its way."""


class Recorder:
    """An owner that remembers what it was told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.pulls = True  # False: leave frames where they are until `pull()`
        self.transport: Transport | None = None
        self.frames: list[bytes | McpError] = []
        self.through = 0
        self.writes: list[int] = []
        self.arrivals = 0
        self.rooms = 0
        self.ends: list[tuple[McpError, int | None, bool]] = []
        self.frames_at_end = 0  # how many frames had been pulled when the end was told
        self._changed = asyncio.Event()

    def frames_arrived(self) -> None:
        """Pull everything, if it is to."""
        self.arrivals += 1
        if self.pulls and self.transport is not None:
            self.pull()
        self._changed.set()

    def wrote(self, through: int) -> None:
        """Remember it."""
        self.writes.append(through)
        self.through = through
        self._changed.set()

    def room_made(self) -> None:
        """Count it."""
        self.rooms += 1
        self._changed.set()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """Remember it."""
        self.frames_at_end = len(self.frames)
        self.ends.append((error, exit_code, was_silent))
        self._changed.set()

    def pull(self) -> None:
        """Pull until there is nothing."""
        assert self.transport is not None, "open it first"
        while (frame := self.transport.next_frame()) is not None:
            self.frames.append(frame)

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until this is true after something was told."""
        while not holds():
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def opened(target: Target, owner: Recorder) -> AsyncIterator[Transport]:
    """An open transport, closed at the end."""
    transport = await target.open(owner, FRAME_LIMIT, CLOSE_STEP)
    owner.transport = transport
    try:
        yield transport
    finally:
        await transport.close()


async def _full(transport: Transport, frame: bytes) -> int:
    """Send until it is busy with what can be written, written; how many it has taken, numbered from 1."""
    taken = 0
    while transport.send(frame, taken + 1):
        taken += 1
        await asyncio.sleep(0)  # a turn of the loop, so that what can be written is
    return taken


def run(test: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run one test on a loop of its own, under the guard."""

    async def guarded() -> None:
        async with asyncio.timeout(GUARD_SECONDS):
            await test()

    asyncio.run(guarded())


class TransportSuite:
    """Subclass it as `Test...`, say in `pair()` what to test, and let pytest collect it."""

    def pair(self) -> AbstractAsyncContextManager[tuple[Target, Peer]]:
        """A target, and the peer of its first `open()`. Everything of it is gone at the end of the context."""
        raise NotImplementedError

    # --- 1: send a frame or say busy ----------------------------------------------------------------------------------

    def test_frames_arrive_whole_and_in_order_and_are_told_as_written(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner) as transport:
                sent = [b'{"n":%d}' % number for number in range(1, 101)]
                for number, frame in enumerate(sent, 1):
                    assert transport.send(frame, number), "a hundred small frames are no reason to be busy"
                await owner.until(lambda: owner.through == 100)
                assert owner.writes == sorted(set(owner.writes)), "numbers only grow, and each is told once"
                assert [await peer.receive() for _ in sent] == sent

        run(test)

    def test_an_empty_queue_takes_any_legal_frame(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner) as transport:
                frame = b'"' + b"x" * (FRAME_LIMIT - 2) + b'"'
                assert transport.send(frame, 1)
                assert await peer.receive() == frame

        run(test)

    def test_a_frame_over_the_limit_is_refused_and_takes_nothing_along(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner) as transport:
                try:
                    was_taken = transport.send(b"x" * (FRAME_LIMIT + 1), 1)
                except FrameTooLargeError:
                    was_taken = False
                assert not was_taken, "over the limit"
                assert transport.send(b'"next"', 2)
                assert await peer.receive() == b'"next"'

        run(test)

    def test_many_frames_make_it_busy_and_reading_makes_room(self) -> None:
        async def test() -> None:
            await self._fill(b'"' + b"y" * 998 + b'"')

        run(test)

    def test_large_frames_make_it_busy_and_reading_makes_room(self) -> None:
        async def test() -> None:
            await self._fill(b'"' + b"z" * 1_048_574 + b'"')

        run(test)

    async def _fill(self, frame: bytes) -> None:
        owner = Recorder()
        async with self.pair() as (target, peer), opened(target, owner) as transport:
            taken = 0
            while transport.send(frame, taken + 1):
                taken += 1
                await asyncio.sleep(0)  # a turn of the loop, so that what can be written is
                assert taken - owner.through <= MAX_QUEUED_FRAMES, "more frames queued than may be"
                queued = (taken - owner.through) * len(frame)
                assert queued <= MAX_QUEUED_BYTES + len(frame), "more bytes queued than may be"
            assert taken, "an empty queue takes a frame"
            assert owner.rooms == 0
            for number in range(1, taken + 1):
                assert await peer.receive() == frame, f"frame {number} of {taken} was changed or lost"
            await owner.until(lambda: owner.rooms)
            assert owner.rooms == 1, "told once"
            assert transport.send(b'"after"', taken + 2)
            assert await peer.receive() == b'"after"', "of a refused frame nothing is sent"

    def test_a_frame_that_is_not_written_can_be_withdrawn_and_is_never_sent(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner) as transport:
                assert transport.send(b'"first"', 1)
                await owner.until(lambda: owner.through == 1)
                number = 1
                while transport.send(b'"' + b"w" * 65_534 + b'"', number + 1):
                    number += 1
                    await asyncio.sleep(0)
                assert not transport.withdraw(1), "it was written"
                assert not transport.withdraw(number + 7), "it was never here"
                assert transport.withdraw(number), "the last of a full queue is not written"
                assert not transport.withdraw(number), "it is no longer here"
                assert await peer.receive() == b'"first"'
                for _ in range(number - 2):
                    assert len(await peer.receive()) == 65_536
                await owner.until(lambda: owner.through == number - 1)
                assert transport.send(b'"last"', number + 1)
                assert await peer.receive() == b'"last"'

        run(test)

    def test_frames_that_are_withdrawn_make_room_too(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, _), opened(target, owner) as transport:
                taken = await _full(transport, b'"' + b"v" * 65_534 + b'"')
                withdrawn = [number for number in range(1, taken + 1) if transport.withdraw(number)]
                assert withdrawn, "nothing of a full queue could be withdrawn"
                assert owner.rooms == 0, "told from inside the owner's own call"
                await owner.until(lambda: owner.rooms)
                assert owner.rooms == 1, "told once"

        run(test)

    def test_a_flush_waits_for_everything_that_was_taken(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner) as transport:
                assert await transport.flush(), "there is nothing to wait for"
                frame = b'"' + b"f" * 1_048_574 + b'"'
                taken = await _full(transport, frame)
                first, second = (asyncio.ensure_future(transport.flush()) for _ in range(2))
                await asyncio.sleep(0)
                assert not first.done(), "the peer has read nothing"
                first.cancel()
                for _ in range(taken):
                    assert await peer.receive() == frame
                assert await second, "everything was taken"
                assert first.cancelled(), "one that gave up takes nothing back"
                assert owner.through == taken, "told of the last write before"
                assert owner.rooms == 1, "told of room before"

        run(test)

    def test_a_flush_ends_when_the_transport_does(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, _), opened(target, owner) as transport:
                await _full(transport, b'"' + b"f" * 1_048_574 + b'"')
                flushing = asyncio.ensure_future(transport.flush())
                await asyncio.sleep(0)
                await transport.close()
                assert not await flushing, "what was dropped is not written"
                assert not await transport.flush(), "it is no longer open"

        run(test)

    # --- 2: deliver frames when pulled --------------------------------------------------------------------------------

    def test_frames_are_delivered_in_order(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner):
                sent = [b'{"n":%d}' % number for number in range(100)]
                for frame in sent:
                    await peer.send(frame)
                await owner.until(lambda: len(owner.frames) == 100)
                assert owner.frames == sent

        run(test)

    def test_an_owner_that_pulls_later_misses_nothing(self) -> None:
        async def test() -> None:
            owner = Recorder()
            owner.pulls = False
            async with self.pair() as (target, peer), opened(target, owner) as transport:
                await peer.send(b'"one"')
                await owner.until(lambda: owner.arrivals)
                owner.pull()
                assert transport.next_frame() is None
                owner.pulls = True
                await peer.send(b'"two"')
                await owner.until(lambda: len(owner.frames) == 2)
                assert owner.frames == [b'"one"', b'"two"']

        run(test)

    def test_a_frame_over_the_limit_is_a_fault_and_the_next_is_delivered(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner):
                await peer.send(b'"' + b"x" * FRAME_LIMIT + b'"')
                await peer.send(b'"next"')
                await owner.until(lambda: len(owner.frames) == 2)
                assert isinstance(owner.frames[0], FrameTooLargeError)
                assert owner.frames[1] == b'"next"'
                assert owner.ends == []

        run(test)

    # --- 3: close -----------------------------------------------------------------------------------------------------

    def test_it_closes_twice_and_from_two_tasks_and_is_silent_afterwards(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner) as transport:
                assert transport.send(b'"one"', 1)
                assert await peer.receive() == b'"one"'
                await asyncio.gather(transport.close(), transport.close())
                told = (owner.arrivals, owner.through, owner.rooms)
                await transport.close()
                assert not transport.send(b'"two"', 2), "it is no longer open"
                assert not transport.withdraw(2)
                assert transport.next_frame() is None
                await asyncio.sleep(0)
                assert (owner.arrivals, owner.through, owner.rooms) == told
                assert owner.ends == [], "an end that is ours is not reported"

        run(test)

    def test_after_stop_writing_no_frame_is_written_that_was_not_begun(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner) as transport:
                assert transport.send(b'"one"', 1)
                assert await peer.receive() == b'"one"'
                await owner.until(lambda: owner.through == 1)
                assert transport.send(b'"two"', 2)
                transport.stop_writing()
                transport.stop_writing()
                receiving = asyncio.ensure_future(peer.receive())
                assert not transport.send(b'"three"', 3), "it writes nothing more"
                assert not transport.withdraw(2), "it is no longer here"
                assert not await transport.flush(), "what was dropped is not written"
                for _ in range(20):  # a frame is written in the turn after `send()`
                    await asyncio.sleep(0)
                assert owner.through == 1, "reported as written after stop_writing()"
                assert not receiving.done(), "the peer received what was written after stop_writing()"
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)

        run(test)

    def test_stop_writing_ends_a_flush_and_reports_no_room(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, _), opened(target, owner) as transport:
                await _full(transport, b'"' + b"s" * 65_534 + b'"')
                flushing = asyncio.ensure_future(transport.flush())
                await asyncio.sleep(0)
                told = (owner.through, owner.rooms)
                transport.stop_writing()
                assert not await flushing, "what was dropped is not written"
                for _ in range(20):
                    await asyncio.sleep(0)
                assert (owner.through, owner.rooms) == told

        run(test)

    def test_it_leaves_no_task_and_closes_with_frames_in_both_directions(self) -> None:
        async def test() -> None:
            owner = Recorder()
            owner.pulls = False
            async with self.pair() as (target, peer):
                before = asyncio.all_tasks()
                async with opened(target, owner) as transport:
                    await peer.send(b'"unpulled"')
                    await owner.until(lambda: owner.arrivals)
                    assert transport.send(b'"unsent"', 1)
                assert asyncio.all_tasks() <= before
                assert owner.ends == []

        run(test)

    def test_an_open_that_is_cancelled_leaves_nothing(self) -> None:
        async def test() -> None:
            async with self.pair() as (target, _):
                before = asyncio.all_tasks()
                opening = asyncio.ensure_future(target.open(Recorder(), FRAME_LIMIT, CLOSE_STEP))
                await asyncio.sleep(0)
                opening.cancel()
                (outcome,) = await asyncio.gather(opening, return_exceptions=True)
                if not isinstance(outcome, BaseException):
                    await outcome.close()  # it was open before it could be cancelled
                assert asyncio.all_tasks() <= before

        run(test)

    # --- 4: report down -----------------------------------------------------------------------------------------------

    def test_what_a_peer_sent_before_it_left_is_delivered_before_the_end_is_told_once(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner) as transport:
                for number in range(10):
                    await peer.send(b'{"answer":%d}' % number)
                await peer.leave()
                await owner.until(lambda: owner.ends)
                assert owner.frames == [b'{"answer":%d}' % number for number in range(10)]
                assert owner.frames_at_end == 10, "delivered first"
                error, _, was_silent = owner.ends[0]
                assert isinstance(error, McpError)
                assert not was_silent
                await transport.close()
                assert len(owner.ends) == 1

        run(test)

    def test_a_peer_that_left_without_a_byte_was_silent(self) -> None:
        async def test() -> None:
            owner = Recorder()
            async with self.pair() as (target, peer), opened(target, owner) as transport:
                await peer.leave()
                await owner.until(lambda: owner.ends)
                assert owner.ends[0][2], "it never sent a byte"
                assert transport.next_frame() is None

        run(test)


__all__ = [
    "CLOSE_STEP",
    "FRAME_LIMIT",
    "GUARD_SECONDS",
    "Peer",
    "Recorder",
    "TransportSuite",
    "opened",
    "run",
]
