"""A faulty transport: makes any target busy, late, duplicated, garbled or disconnected, at random with a seed.

Every fault is one that the contract allows or that a peer can cause. The same seed gives the same faults at the same
calls.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from jackstay.errors import McpError, TransportError
from jackstay.transport import Target, Transport, TransportHandler


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """The probability of each fault, from 0 to 1, for each frame or each `open()`.

    `refuse`: `open()` fails. `busy`: a frame is rejected. `cut`: the connection ends before this frame arrives.
    `garble`: a line of garbage arrives before it. `truncate`: its end is missing. `repeat`: it arrives twice.
    `delay`: it arrives after up to `max_delay` seconds, possibly after later frames. `stall`: from this frame on
    nothing arrives for up to `max_delay` seconds, and then everything. `drop`: it never arrives. `garble_sent`: the
    peer receives a line of garbage in place of a frame. `truncate_sent`: it receives the beginning of a frame.
    """

    refuse: float = 0.0
    busy: float = 0.0
    cut: float = 0.0
    garble: float = 0.0
    truncate: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    stall: float = 0.0
    drop: float = 0.0
    garble_sent: float = 0.0
    truncate_sent: float = 0.0
    max_delay: float = 1.0


GARBAGE = b"Debugger attached."


class FaultyTarget:
    """A target that adds faults to another target's transports. Set `faults` to `Faults()` to stop them."""

    is_http = False

    def __init__(self, target: Target, faults: Faults, seed: int) -> None:
        self.name, self.init_timeout = target.name, target.init_timeout
        self.faults = faults
        self.seed = seed
        self._target = target
        self._random = Random(seed)  # noqa: S311  # must be reproducible

    def __repr__(self) -> str:
        return f"<FaultyTarget {self.name} seed={self.seed}>"

    def occurs(self, fault: str) -> bool:
        """Return, at random, whether this fault occurs now."""
        rate: float = getattr(self.faults, fault)
        return rate > 0 and self._random.random() < rate

    def delay(self) -> float:
        """Return a random delay."""
        return self._random.uniform(0, self.faults.max_delay)

    def truncated(self, frame: bytes) -> bytes:
        """Return the beginning of a frame, never all or nothing of it."""
        return frame[: self._random.randrange(1, max(2, len(frame)))]

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> "FaultyTransport":
        """Return a faulty transport. Raises: TransportError, also as a fault."""
        if self.occurs("refuse"):
            raise TransportError("connection refused (injected fault)")
        transport = FaultyTransport(self, handler)
        transport.inner = await self._target.open(transport, max_frame_bytes, close_step)
        transport.frames_arrived()
        return transport


class FaultyTransport:
    """A connection with faults: the transport of its handler, and the handler of the real transport."""

    def __init__(self, target: FaultyTarget, handler: TransportHandler) -> None:
        self.inner: Transport | None = None
        self._target = target
        self._handler = handler
        self._arrived: deque[bytes | McpError] = deque()
        self._handles: set[asyncio.TimerHandle] = set()
        self._was_refused = False
        self._is_stalled = False
        self._is_shut = False
        self._is_over = False

    # --- the transport ------------------------------------------------------------------------------------------------

    def send(self, frame: bytes, number: int) -> bool:
        """See `Transport.send`. Sometimes busy."""
        if self.inner is None or self._is_shut or self._is_over:
            return False
        if self._target.occurs("busy"):
            self._was_refused = True
            asyncio.get_running_loop().call_soon(self._make_room)
            return False
        if self._target.occurs("garble_sent"):
            frame = GARBAGE
        if self._target.occurs("truncate_sent"):
            frame = self._target.truncated(frame)
        return self.inner.send(frame, number)

    def withdraw(self, number: int) -> bool:
        """See `Transport.withdraw`."""
        return self.inner is not None and self.inner.withdraw(number)

    def next_frame(self) -> bytes | McpError | None:
        """See `Transport.next_frame`."""
        return self._arrived.popleft() if self._arrived and not self._is_stalled else None

    async def flush(self) -> bool:
        """See `Transport.flush`. After an injected rejection, it waits for `room_made`."""
        while self._was_refused and not self._is_shut and not self._is_over:
            await asyncio.sleep(0)  # it is called in the next iteration of the loop
        return self.inner is not None and not self._is_over and await self.inner.flush()

    def stop_writing(self) -> None:
        """See `Transport.stop_writing`."""
        self._is_shut = True
        if self.inner is not None:
            self.inner.stop_writing()

    async def close(self) -> None:
        """See `Transport.close`."""
        self._is_over = True
        for handle in self._handles:
            handle.cancel()
        self._handles.clear()
        if self.inner is not None:
            await self.inner.close()

    # --- the handler of the real transport ----------------------------------------------------------------------------

    def frames_arrived(self) -> None:
        """Pull the frames and apply faults to them."""
        while self.inner is not None and not self._is_over and (frame := self.inner.next_frame()) is not None:
            if self._target.occurs("cut"):
                self._is_over = True
                self._handler.went_down(TransportError("connection cut (injected fault)"), None, False)
                return
            if self._target.occurs("drop"):
                continue
            if self._target.occurs("garble"):
                self._deliver(GARBAGE)
            if self._target.occurs("stall") and not self._is_stalled:
                self._is_stalled = True
                self._later(self._flow)
            if isinstance(frame, bytes) and self._target.occurs("truncate"):
                frame = self._target.truncated(frame)
            for _ in range(2 if self._target.occurs("repeat") else 1):
                if self._target.occurs("delay"):
                    self._later(partial(self._deliver, frame))
                else:
                    self._deliver(frame)

    def wrote(self, through: int) -> None:
        """See `TransportHandler.wrote`."""
        if not self._is_over:
            self._handler.wrote(through)

    def room_made(self) -> None:
        """See `TransportHandler.room_made`."""
        if not self._is_over:
            self._handler.room_made()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """See `TransportHandler.went_down`."""
        if not self._is_over:
            self._flow()  # received frames are delivered first
        if not self._is_over:
            self._is_over = True
            self._handler.went_down(error, exit_code, was_silent)

    # --- the faults ---------------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        if self._was_refused and not self._is_shut and not self._is_over:
            self._was_refused = False
            self._handler.room_made()

    def _deliver(self, frame: bytes | McpError) -> None:
        self._arrived.append(frame)
        if not self._is_stalled:
            self._handler.frames_arrived()

    def _flow(self) -> None:
        if self._is_stalled:
            self._is_stalled = False
            self._handler.frames_arrived()

    def _later(self, callback: Callable[[], None]) -> None:
        def run() -> None:
            self._handles.discard(handle)
            if not self._is_over:
                callback()

        handle = asyncio.get_running_loop().call_later(self._target.delay(), run)
        self._handles.add(handle)
