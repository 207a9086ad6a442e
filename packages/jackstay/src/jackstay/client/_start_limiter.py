"""Limits how many servers of a fleet start at the same time: a start holds a slot until it is ready or has failed.

Many processes that start at once slow each other down until all of them time out. Servers over HTTP need no slot.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jackstay.transport import Target, Transport, TransportHandler

# The states of a client that is being started.
_STARTING = frozenset({"starting", "initializing"})


class StartLimiter:
    """The slots. A server, identified by name, has at most one."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._acquired: set[str] = set()
        self._opening: set[str] = set()
        # Servers whose process is being spawned, and whether their client has abandoned the start.
        self._spawning: dict[str, bool] = {}

    @asynccontextmanager
    async def opening(self, name: str) -> AsyncIterator[None]:
        """Acquire a slot for the block, which is `open()` with all attempts; its deadlines start after the wait."""
        await self.acquire(name)
        self._opening.add(name)
        try:
            yield
        finally:
            self._opening.discard(name)
            self.release(name)

    async def acquire(self, name: str) -> None:
        """Wait for a slot, unless this server has one."""
        if name not in self._acquired:
            await self._slots.acquire()
            self._acquired.add(name)

    def release(self, name: str) -> None:
        """Release the slot of this server, if it has one."""
        if name in self._acquired:
            self._acquired.discard(name)
            self._slots.release()

    def on_state(self, name: str, state: str) -> None:
        """Release the slot when the client of this server is no longer starting."""
        if state in _STARTING or name in self._opening:
            return
        if name in self._spawning:  # cancelling it takes an iteration of the loop
            self._spawning[name] = True
        else:
            self.release(name)

    @asynccontextmanager
    async def spawning(self, name: str) -> AsyncIterator[None]:
        """Acquire a slot for the block, which spawns the process; after a successful spawn the slot is kept."""
        await self.acquire(name)
        self._spawning[name] = False
        was_abandoned = True
        try:
            yield
            was_abandoned = self._spawning.get(name, True)
        finally:
            # May be absent: a start that was not cancelled in time can overlap the next one.
            self._spawning.pop(name, None)
            if was_abandoned and name not in self._opening:
                self.release(name)


class ThrottledTarget:
    """A target whose starts wait for a slot. The wait counts towards the start timeout."""

    def __init__(self, target: Target, name: str, starts: StartLimiter) -> None:
        self.name, self.is_http, self.init_timeout = target.name, target.is_http, target.init_timeout
        self._target = target
        self._server = name
        self._starts = starts

    def __repr__(self) -> str:
        return f"<ThrottledTarget {self._target!r}>"

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> Transport:
        """See `Target.open()`."""
        async with self._starts.spawning(self._server):
            return await self._target.open(handler, max_frame_bytes, close_step)
