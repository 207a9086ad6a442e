"""A test suite for transports: each test checks one requirement of the contract of `jackstay.transport.Transport`.

Subclass `TransportSuite` and yield a target and its peer from `pair()`. The peer reads only when a test calls
`receive()`, which is how a test makes a transport busy. Every test has a time limit.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final, Protocol

from jackstay.errors import FrameTooLargeError, McpError
from jackstay.testing._guarded import GUARD_SECONDS, guarded, run
from jackstay.transport import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, Target, Transport

# The frame limit is larger than a queue, to check that an empty queue accepts a frame of that size.
FRAME_LIMIT: Final = MAX_QUEUED_BYTES + 1_048_576
CLOSE_STEP: Final = 5.0


class Peer(Protocol):
    """The other end of a transport, controlled by a test. Used after the target was opened."""

    async def receive(self) -> bytes:
        """Return the next frame that the transport sent. Nothing may be read before this is called."""

    async def send(self, frame: bytes) -> None:
        """Send a frame to the transport; it may be over the transport's limit."""

    async def disconnect(self) -> None:
        """Disconnect. Frames that were sent before must still arrive."""


class RecordingHandler:
    """A transport handler that records its callbacks, and lets a test wait for them."""

    def __init__(self) -> None:
        self.pulls = True  # False: leave frames where they are until `pull()`
        self.transport: Transport | None = None
        self.frames: list[bytes | McpError] = []
        self.through = 0
        self.writes: list[int] = []
        self.arrivals = 0
        self.room_calls = 0
        self.ends: list[tuple[McpError, int | None, bool]] = []
        self.frames_at_end = 0  # the number of frames pulled before `went_down`
        self._changed = asyncio.Event()

    def frames_arrived(self) -> None:
        """Count it, and pull everything unless `pulls` is False."""
        self.arrivals += 1
        if self.pulls and self.transport is not None:
            self.pull()
        self._changed.set()

    def wrote(self, through: int) -> None:
        """Record it."""
        self.writes.append(through)
        self.through = through
        self._changed.set()

    def room_made(self) -> None:
        """Count it."""
        self.room_calls += 1
        self._changed.set()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """Record it."""
        self.frames_at_end = len(self.frames)
        self.ends.append((error, exit_code, was_silent))
        self._changed.set()

    def pull(self) -> None:
        """Pull all available frames."""
        assert self.transport is not None, "open it first"
        while (frame := self.transport.next_frame()) is not None:
            self.frames.append(frame)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true. It is checked after every callback."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def opened(target: Target, handler: RecordingHandler) -> AsyncIterator[Transport]:
    """Open a transport, and close it at the end of the context."""
    transport = await target.open(handler, FRAME_LIMIT, CLOSE_STEP)
    handler.transport = transport
    try:
        yield transport
    finally:
        await transport.close()


def _text(size: int) -> bytes:
    """Return a frame of this many bytes."""
    return b'"%b"' % (b"x" * (size - 2))


async def _fill(handler: RecordingHandler, transport: Transport, frame: bytes, number: int = 0) -> int:
    """Send until it is busy, and return the number of the last accepted frame. `number` is that of the last one before.

    Those before must be written.
    """
    first = number
    while transport.send(frame, number + 1):
        number += 1
        await asyncio.sleep(0)  # one iteration of the loop, so that it can write
        assert number - handler.through <= MAX_QUEUED_FRAMES, "too many frames queued"
        queued = (number - handler.through) * len(frame)
        assert queued <= MAX_QUEUED_BYTES + len(frame), "too many bytes queued"
    assert number > first, "an empty queue rejected a frame"
    return number


@guarded
class TransportSuite:
    """Subclass it as `Test...` and implement `pair()`.

    class TestMine(TransportSuite):
        @asynccontextmanager
        async def pair(self):
            async with my_other_end() as peer:
                yield my_target(peer), peer
    """

    def pair(self) -> AbstractAsyncContextManager[tuple[Target, Peer]]:
        """Return a context with a target and the peer of its first `open()`. It cleans up at its end."""
        raise NotImplementedError

    @asynccontextmanager
    async def _opened(self, *, pulls: bool = True) -> AsyncIterator[tuple[RecordingHandler, Peer, Transport]]:
        handler = RecordingHandler()
        handler.pulls = pulls
        async with self.pair() as (target, peer), opened(target, handler) as transport:
            yield handler, peer, transport

    # --- 1: sending ---------------------------------------------------------------------------------------------------

    async def test_frames_arrive_whole_and_in_order_and_are_reported_as_written(self) -> None:
        async with self._opened() as (handler, peer, transport):
            sent = [b'{"n":%d}' % number for number in range(1, 101)]
            for number, frame in enumerate(sent, 1):
                assert transport.send(frame, number), "busy after less than a hundred small frames"
            await handler.until(lambda: handler.through == 100)
            assert handler.writes == sorted(set(handler.writes)), "numbers increase, and each is reported once"
            assert [await peer.receive() for _ in sent] == sent

    async def test_an_empty_queue_accepts_any_legal_frame(self) -> None:
        async with self._opened() as (_, peer, transport):
            frame = _text(FRAME_LIMIT)
            assert transport.send(frame, 1)
            assert await peer.receive() == frame

    async def test_a_frame_over_the_limit_is_rejected_and_does_not_affect_others(self) -> None:
        async with self._opened() as (_, peer, transport):
            with suppress(FrameTooLargeError):
                assert not transport.send(b"x" * (FRAME_LIMIT + 1), 1), "over the limit"
            assert transport.send(b'"next"', 2)
            assert await peer.receive() == b'"next"'

    async def test_many_frames_make_it_busy_and_reading_makes_room(self) -> None:
        await self._fill_and_read(_text(1000))

    async def test_large_frames_make_it_busy_and_reading_makes_room(self) -> None:
        await self._fill_and_read(_text(1_048_576))

    async def _fill_and_read(self, frame: bytes) -> None:
        async with self._opened() as (handler, peer, transport):
            accepted = await _fill(handler, transport, frame)
            assert handler.room_calls == 0
            for number in range(1, accepted + 1):
                assert await peer.receive() == frame, f"frame {number} of {accepted} was changed or lost"
            await handler.until(lambda: handler.room_calls)
            assert handler.room_calls == 1, "room_made is called once"
            assert transport.send(b'"after"', accepted + 2)
            assert await peer.receive() == b'"after"', "nothing of a rejected frame is sent"

    async def test_a_frame_that_is_not_written_can_be_withdrawn_and_is_never_sent(self) -> None:
        async with self._opened() as (handler, peer, transport):
            assert transport.send(b'"first"', 1)
            await handler.until(lambda: handler.through == 1)
            number = await _fill(handler, transport, _text(65_536), 1)
            assert not transport.withdraw(1), "it was written"
            assert not transport.withdraw(number + 7), "the number is unknown"
            assert transport.withdraw(number), "the last of a full queue is not written"
            assert not transport.withdraw(number), "it was withdrawn already"
            assert await peer.receive() == b'"first"'
            for _ in range(number - 2):
                assert len(await peer.receive()) == 65_536
            await handler.until(lambda: handler.through == number - 1)
            assert transport.send(b'"last"', number + 1)
            assert await peer.receive() == b'"last"'

    async def test_withdrawing_frames_makes_room(self) -> None:
        async with self._opened() as (handler, _, transport):
            accepted = await _fill(handler, transport, _text(65_536))
            withdrawn = [number for number in range(1, accepted + 1) if transport.withdraw(number)]
            assert withdrawn, "nothing of a full queue could be withdrawn"
            assert handler.room_calls == 0, "room_made was called inside withdraw()"
            await handler.until(lambda: handler.room_calls)
            assert handler.room_calls == 1, "room_made is called once"

    async def test_a_flush_waits_for_all_accepted_frames(self) -> None:
        async with self._opened() as (handler, peer, transport):
            assert await transport.flush(), "there is nothing to wait for"
            frame = _text(1_048_576)
            accepted = await _fill(handler, transport, frame)
            first, second = (asyncio.ensure_future(transport.flush()) for _ in range(2))
            await asyncio.sleep(0)
            assert not first.done(), "the peer has read nothing"
            first.cancel()
            for _ in range(accepted):
                assert await peer.receive() == frame
            assert await second, "everything was written"
            assert first.cancelled(), "a cancelled flush withdraws nothing"
            assert handler.through == accepted, "the last write is reported before"
            assert handler.room_calls == 1, "room_made is called before"

    async def test_a_flush_ends_when_the_transport_does(self) -> None:
        async with self._opened() as (handler, _, transport):
            await _fill(handler, transport, _text(1_048_576))
            flushing = asyncio.ensure_future(transport.flush())
            await asyncio.sleep(0)
            await transport.close()
            assert not await flushing, "dropped frames are not written"
            assert not await transport.flush(), "it is closed"

    # --- 2: receiving -------------------------------------------------------------------------------------------------

    async def test_frames_are_delivered_in_order(self) -> None:
        async with self._opened() as (handler, peer, _):
            sent = [b'{"n":%d}' % number for number in range(100)]
            for frame in sent:
                await peer.send(frame)
            await handler.until(lambda: len(handler.frames) == 100)
            assert handler.frames == sent

    async def test_a_handler_that_pulls_later_misses_nothing(self) -> None:
        async with self._opened(pulls=False) as (handler, peer, transport):
            await peer.send(b'"one"')
            await handler.until(lambda: handler.arrivals)
            handler.pull()
            assert transport.next_frame() is None
            handler.pulls = True
            await peer.send(b'"two"')
            await handler.until(lambda: len(handler.frames) == 2)
            assert handler.frames == [b'"one"', b'"two"']

    async def test_a_frame_over_the_limit_is_an_error_and_the_next_is_delivered(self) -> None:
        async with self._opened() as (handler, peer, _):
            await peer.send(_text(FRAME_LIMIT + 2))
            await peer.send(b'"next"')
            await handler.until(lambda: len(handler.frames) == 2)
            assert isinstance(handler.frames[0], FrameTooLargeError)
            assert handler.frames[1] == b'"next"'
            assert handler.ends == []

    # --- 3: closing ---------------------------------------------------------------------------------------------------

    async def test_it_closes_twice_and_from_two_tasks_without_callbacks_afterwards(self) -> None:
        async with self._opened() as (handler, peer, transport):
            assert transport.send(b'"one"', 1)
            assert await peer.receive() == b'"one"'
            await asyncio.gather(transport.close(), transport.close())
            before = (handler.arrivals, handler.through, handler.room_calls)
            await transport.close()
            assert not transport.send(b'"two"', 2), "it is closed"
            assert not transport.withdraw(2)
            assert transport.next_frame() is None
            await asyncio.sleep(0)
            assert (handler.arrivals, handler.through, handler.room_calls) == before
            assert handler.ends == [], "went_down is not called after close()"

    async def test_after_stop_writing_no_frame_is_written_that_was_not_begun(self) -> None:
        async with self._opened() as (handler, peer, transport):
            assert transport.send(b'"one"', 1)
            assert await peer.receive() == b'"one"'
            await handler.until(lambda: handler.through == 1)
            assert transport.send(b'"two"', 2)
            transport.stop_writing()
            transport.stop_writing()
            receiving = asyncio.ensure_future(peer.receive())
            assert not transport.send(b'"three"', 3), "it writes nothing more"
            assert not transport.withdraw(2), "it was dropped"
            assert not await transport.flush(), "dropped frames are not written"
            for _ in range(20):  # a frame is written in the iteration after `send()`
                await asyncio.sleep(0)
            assert handler.through == 1, "reported as written after stop_writing()"
            assert not receiving.done(), "a frame was written after stop_writing()"
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def test_stop_writing_ends_a_flush_and_reports_no_room(self) -> None:
        async with self._opened() as (handler, _, transport):
            await _fill(handler, transport, _text(65_536))
            flushing = asyncio.ensure_future(transport.flush())
            await asyncio.sleep(0)
            before = (handler.through, handler.room_calls)
            transport.stop_writing()
            assert not await flushing, "dropped frames are not written"
            for _ in range(20):
                await asyncio.sleep(0)
            assert (handler.through, handler.room_calls) == before

    async def test_it_leaves_no_task_and_closes_with_frames_in_both_directions(self) -> None:
        handler = RecordingHandler()
        handler.pulls = False
        async with self.pair() as (target, peer):
            before = asyncio.all_tasks()
            async with opened(target, handler) as transport:
                await peer.send(b'"unpulled"')
                await handler.until(lambda: handler.arrivals)
                assert transport.send(b'"unsent"', 1)
            assert asyncio.all_tasks() <= before
            assert handler.ends == []

    async def test_an_open_that_is_cancelled_leaves_nothing(self) -> None:
        async with self.pair() as (target, _):
            before = asyncio.all_tasks()
            opening = asyncio.ensure_future(target.open(RecordingHandler(), FRAME_LIMIT, CLOSE_STEP))
            await asyncio.sleep(0)
            opening.cancel()
            (outcome,) = await asyncio.gather(opening, return_exceptions=True)
            if not isinstance(outcome, BaseException):
                await outcome.close()  # it was opened before the cancellation
            assert asyncio.all_tasks() <= before

    # --- 4: disconnection ---------------------------------------------------------------------------------------------

    async def test_frames_sent_before_a_disconnect_are_delivered_before_went_down(self) -> None:
        async with self._opened() as (handler, peer, transport):
            for number in range(10):
                await peer.send(b'{"answer":%d}' % number)
            await peer.disconnect()
            await handler.until(lambda: handler.ends)
            assert handler.frames == [b'{"answer":%d}' % number for number in range(10)]
            assert handler.frames_at_end == 10, "delivered first"
            error, _, was_silent = handler.ends[0]
            assert isinstance(error, McpError)
            assert not was_silent
            await transport.close()
            assert len(handler.ends) == 1

    async def test_was_silent_is_true_if_the_peer_sent_nothing(self) -> None:
        async with self._opened() as (handler, peer, transport):
            await peer.disconnect()
            await handler.until(lambda: handler.ends)
            assert handler.ends[0][2], "it never sent a byte"
            assert transport.next_frame() is None


__all__ = ["CLOSE_STEP", "FRAME_LIMIT", "GUARD_SECONDS", "Peer", "RecordingHandler", "TransportSuite", "opened", "run"]
