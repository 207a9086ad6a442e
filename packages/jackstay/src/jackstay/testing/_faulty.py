"""A transport that misbehaves, by a seed: busy, late, twice, garbled, cut. Put it between what you test and any target.

Every fault is one that the contract allows or that a peer can cause, so whatever is built on transports must survive all
of them. The same seed gives the same faults at the same calls; print it when a test fails.

Must never know what a frame says. Above: tests. Below: the contract of `jackstay.transport`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from jackstay.errors import McpError, TransportError
from jackstay.transport import Owner, Target, Transport


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """How likely each fault is, from 0 to 1, for each frame or each opening.

    `refuse`: an opening fails. `busy`: a frame is not taken. `cut`: the connection ends before this frame arrives.
    `garble`: a line of rubbish arrives before it. `truncate`: a part of it is lost. `repeat`: it arrives twice. `delay`: it
    arrives later than those behind it were written, after up to `longest_delay` seconds. `stall`: from it on nothing arrives
    for as long, and then everything.
    """

    refuse: float = 0.0
    busy: float = 0.0
    cut: float = 0.0
    garble: float = 0.0
    truncate: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    stall: float = 0.0
    longest_delay: float = 1.0


RUBBISH = b"Debugger attached."


class FaultyTarget:
    """Opens another target's transports and makes them misbehave. Set `faults` to `Faults()` to let it heal."""

    is_http = False

    def __init__(self, target: Target, faults: Faults, seed: int) -> None:
        self.faults = faults
        self.seed = seed
        self._target = target
        self._random = Random(seed)  # noqa: S311  # chance that can be repeated is the point

    def __repr__(self) -> str:
        return f"<FaultyTarget {self.name} seed={self.seed}>"

    @property
    def name(self) -> str:
        """As the target's."""
        return self._target.name

    @property
    def init_timeout(self) -> float | None:
        """As the target's."""
        return self._target.init_timeout

    def strikes(self, fault: str) -> bool:
        """Whether this fault happens now."""
        rate: float = getattr(self.faults, fault)
        return rate > 0 and self._random.random() < rate

    def delay(self) -> float:
        """How late a late frame is."""
        return self._random.uniform(0, self.faults.longest_delay)

    def truncated(self, frame: bytes) -> bytes:
        """What is left of a frame: not all, and not nothing."""
        return frame[: self._random.randrange(1, max(2, len(frame)))]

    async def open(self, owner: Owner, max_frame_bytes: int, close_step: float) -> "FaultyTransport":
        """A transport of the target's, behind the faults. Raises: TransportError, by chance too."""
        if self.strikes("refuse"):
            raise TransportError("refused, by chance")
        transport = FaultyTransport(self, owner)
        transport.inner = await self._target.open(transport, max_frame_bytes, close_step)
        transport.frames_arrived()
        return transport


class FaultyTransport:
    """One connection behind the faults: a transport to its owner, an owner to the real transport."""

    def __init__(self, target: FaultyTarget, owner: Owner) -> None:
        self.inner: Transport | None = None
        self._target = target
        self._owner = owner
        self._arrived: deque[bytes | McpError] = deque()
        self._handles: set[asyncio.TimerHandle] = set()
        self._was_refused = False
        self._is_stalled = False
        self._is_shut = False
        self._is_over = False

    # --- what its owner calls -----------------------------------------------------------------------------------------

    def send(self, frame: bytes, number: int) -> bool:
        """As the contract says, and sometimes busy."""
        if self.inner is None or self._is_shut or self._is_over:
            return False
        if self._target.strikes("busy"):
            self._was_refused = True
            asyncio.get_running_loop().call_soon(self._make_room)
            return False
        return self.inner.send(frame, number)

    def withdraw(self, number: int) -> bool:
        """As the contract says."""
        return self.inner is not None and self.inner.withdraw(number)

    def next_frame(self) -> bytes | McpError | None:
        """As the contract says."""
        return self._arrived.popleft() if self._arrived and not self._is_stalled else None

    async def flush(self) -> bool:
        """As the contract says: after a refusal by chance, not before room was made."""
        while self._was_refused and not self._is_shut and not self._is_over:
            await asyncio.sleep(0)  # it is made in the next turn of the loop
        return self.inner is not None and not self._is_over and await self.inner.flush()

    def stop_writing(self) -> None:
        """As the contract says."""
        self._is_shut = True
        if self.inner is not None:
            self.inner.stop_writing()

    async def close(self) -> None:
        """As the contract says."""
        self._is_over = True
        for handle in self._handles:
            handle.cancel()
        self._handles.clear()
        if self.inner is not None:
            await self.inner.close()

    # --- what the real transport tells --------------------------------------------------------------------------------

    def frames_arrived(self) -> None:
        """Pull what came, and do to it what chance says."""
        while self.inner is not None and not self._is_over and (frame := self.inner.next_frame()) is not None:
            if self._target.strikes("cut"):
                self._cut()
                return
            if self._target.strikes("garble"):
                self._deliver(RUBBISH)
            if self._target.strikes("stall") and not self._is_stalled:
                self._is_stalled = True
                self._later(self._flow)
            if isinstance(frame, bytes) and self._target.strikes("truncate"):
                frame = self._target.truncated(frame)  # what is left is what arrives
            copies = 2 if self._target.strikes("repeat") else 1
            for _ in range(copies):
                if self._target.strikes("delay"):
                    self._later(partial(self._deliver, frame))
                else:
                    self._deliver(frame)

    def wrote(self, through: int) -> None:
        """Pass it on."""
        if not self._is_over:
            self._owner.wrote(through)

    def room_made(self) -> None:
        """Pass it on."""
        if not self._is_over:
            self._owner.room_made()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """Pass it on, once."""
        if not self._is_over:
            self._flow()  # what was received is delivered before the end is told
        if not self._is_over:
            self._is_over = True
            self._owner.went_down(error, exit_code, was_silent)

    # --- the faults ---------------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        if self._was_refused and not self._is_shut and not self._is_over:
            self._was_refused = False
            self._owner.room_made()

    def _deliver(self, frame: bytes | McpError) -> None:
        self._arrived.append(frame)
        if not self._is_stalled:
            self._owner.frames_arrived()

    def _flow(self) -> None:
        if self._is_stalled:
            self._is_stalled = False
            self._owner.frames_arrived()

    def _later(self, happens: Callable[[], None]) -> None:
        def happen() -> None:
            self._handles.discard(handle)
            if not self._is_over:
                happens()

        handle = asyncio.get_running_loop().call_later(self._target.delay(), happen)
        self._handles.add(handle)

    def _cut(self) -> None:
        self._is_over = True
        self._owner.went_down(TransportError("cut, by chance"), None, False)
