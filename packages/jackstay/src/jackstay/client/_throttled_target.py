"""Limits how many servers of a fleet start at the same time: a start holds a slot until it is ready or has failed.

Many processes that start at once slow each other down until all of them time out. Servers over HTTP need no slot.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jackstay.transport import Target, Transport, TransportHandler

# The states of a client that is being started.
_STARTING = frozenset({"starting", "initializing"})


class ThrottledTarget:
    """A target whose starts wait for one of the slots that several targets share. It has at most one.

    The wait counts towards the start timeout.
    """

    def __init__(self, target: Target, slots: asyncio.Semaphore) -> None:
        self.name, self.is_http, self.init_timeout = target.name, target.is_http, target.init_timeout
        self._target = target
        self._slots = slots
        self._has_slot = False
        self._is_opening = False
        # While the process is spawned: whether the client has abandoned the start. Otherwise None.
        self._is_abandoned: bool | None = None

    def __repr__(self) -> str:
        return f"<ThrottledTarget {self._target!r}>"

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> Transport:
        """See `Target.open()`. After a successful start the slot is kept until `on_state()` releases it."""
        await self._acquire()
        self._is_abandoned = False
        is_kept = False
        try:
            transport = await self._target.open(handler, max_frame_bytes, close_step)
            is_kept = self._is_abandoned is False
            return transport
        finally:
            # May be None already: a start that was not cancelled in time can overlap the next one.
            self._is_abandoned = None
            if not is_kept and not self._is_opening:
                self._release()

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[None]:
        """Acquire a slot for the block, which is `open()` with all attempts; its deadlines start after the wait."""
        await self._acquire()
        self._is_opening = True
        try:
            yield
        finally:
            self._is_opening = False
            self._release()

    def on_state(self, state: str) -> None:
        """Release the slot when the client of this server is no longer starting."""
        if state in _STARTING or self._is_opening:
            return
        if self._is_abandoned is None:
            self._release()
        else:  # cancelling it takes an iteration of the loop
            self._is_abandoned = True

    async def _acquire(self) -> None:
        if not self._has_slot:
            await self._slots.acquire()
            self._has_slot = True

    def _release(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._slots.release()
