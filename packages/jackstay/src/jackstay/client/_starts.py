"""How many servers of a fleet start at the same time: a start takes a slot, and returns it when it is ready or has failed.

Many processes that start at once only slow each other down until every one of them runs out of time. Servers over HTTP
take no slots: nothing is started for them, and a person may be signing in.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jackstay.transport import Owner, Target, Transport

# The states of a client that is being started.
_STARTING = frozenset({"starting", "initializing"})


class Starts:
    """The slots. Each server has one at most, by its name."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._holders: set[str] = set()
        self._opening: set[str] = set()
        # Servers whose process is being made now, and whether their client has given that up since.
        self._spawning: dict[str, bool] = {}

    @asynccontextmanager
    async def opening(self, name: str) -> AsyncIterator[None]:
        """Wait for a slot and keep it for the block: `open()` with all of its attempts, whose deadlines then count from here."""
        await self.take(name)
        self._opening.add(name)
        try:
            yield
        finally:
            self._opening.discard(name)
            self.give_back(name)

    async def take(self, name: str) -> None:
        """Wait for a slot, unless this server has one."""
        if name not in self._holders:
            await self._slots.acquire()
            self._holders.add(name)

    def give_back(self, name: str) -> None:
        """Return the slot of this server, if it has one."""
        if name in self._holders:
            self._holders.discard(name)
            self._slots.release()

    def changed(self, name: str, state: str) -> None:
        """The client of this server is in this state now."""
        if state in _STARTING or name in self._opening:
            return
        if name in self._spawning:  # it takes a turn of the loop to end that
            self._spawning[name] = True
        else:
            self.give_back(name)

    @asynccontextmanager
    async def spawning(self, name: str) -> AsyncIterator[None]:
        """Wait for a slot and keep it for the block at least: it makes the process. A process that is there keeps the slot."""
        await self.take(name)
        self._spawning[name] = False
        was_given_up = True
        try:
            yield
            was_given_up = self._spawning.get(name, True)
        finally:
            self._spawning.pop(
                name, None
            )  # a start that could not be ended in time may still be under way beside the next
            if was_given_up and name not in self._opening:
                self.give_back(name)


class PacedTarget:
    """Another target, whose restarts wait for a slot. The wait is a part of the start, and of its deadline."""

    def __init__(self, target: Target, name: str, starts: Starts) -> None:
        self._target = target
        self._server = name
        self._starts = starts

    def __repr__(self) -> str:
        return f"<PacedTarget {self._target!r}>"

    @property
    def name(self) -> str:
        """As the target's."""
        return self._target.name

    @property
    def is_http(self) -> bool:
        """As the target's."""
        return self._target.is_http

    @property
    def init_timeout(self) -> float | None:
        """As the target's."""
        return self._target.init_timeout

    async def open(self, owner: Owner, max_frame_bytes: int, close_step: float) -> Transport:
        """As the contract of transports says."""
        async with self._starts.spawning(self._server):
            return await self._target.open(owner, max_frame_bytes, close_step)
