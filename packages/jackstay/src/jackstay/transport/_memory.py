"""Two ends in one process: what one sends, the other receives, the same object, in the next turn of the loop.

For tests, ours and users', and for a client and a server that live in one program. It obeys the whole contract, busy and
withdraw included, so that code which works over it works over pipes; and it can be made to misbehave: stalled, cut. Nothing
here depends on time or chance.

Must never know what a frame says. Above: client, server, `jackstay.testing`. Below: `_queue`.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final

from jackstay.errors import FrameTooLargeError, McpError, TransportError, UsageError
from jackstay.transport._contract import Owner
from jackstay.transport._queue import FrameQueue

# As much as a pipe holds, so that a peer which does not pull is felt as it would be over one.
CAPACITY_BYTES: Final = 65_536


class MemoryPair:
    """Two targets that meet: `client` and `server`. Each `open()` of one end meets one `open()` of the other, in order."""

    __slots__ = ("client", "server")

    def __init__(self, name: str) -> None:
        self.client = MemoryTarget(name)
        self.server = MemoryTarget(name)
        self.client.other, self.server.other = self.server, self.client

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} client={self.client!r} server={self.server!r}>"

    def __iter__(self) -> "Iterator[MemoryTarget]":
        return iter((self.client, self.server))

    def cut(self, error: McpError | None = None) -> None:
        """End every open connection now: both owners are told. What was written and not yet pulled can still be."""
        for transport in [*self.client.transports, *self.server.transports]:
            transport.go_down(error or TransportError("the connection in memory was cut"))


class MemoryTarget:
    """One end of a pair. Opening it does not wait for the other: what is sent until then stays queued."""

    __slots__ = ("_lonely", "init_timeout", "is_stalled", "name", "other", "transports")

    is_http = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.init_timeout: float | None = None
        self.is_stalled = False
        self.other: MemoryTarget = self  # until the pair is made
        self.transports: list[MemoryTransport] = []  # open, in the order they were opened
        self._lonely: deque[MemoryTransport] = deque()  # open, and waiting for the other end

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self.name}, {len(self.transports)} open{', stalled' if self.is_stalled else ''}>"

    async def open(self, owner: Owner, max_frame_bytes: int, close_step: float) -> "MemoryTransport":  # noqa: ARG002  the contract's
        """An end, together with the other's oldest one that is still alone. Raises: UsageError, if that has another loop."""
        transport = MemoryTransport(self, owner, max_frame_bytes)
        if self.other._lonely:
            transport.meet(self.other._lonely[0])
            self.other._lonely.popleft()
        else:
            self._lonely.append(transport)
        self.transports.append(transport)
        return transport

    def stall(self) -> None:
        """Move nothing that this end sends, until `resume()`: it stays queued, and in the end busy."""
        self.is_stalled = True

    def resume(self) -> None:
        """Move again what this end sends."""
        self.is_stalled = False
        for transport in self.transports:
            transport.schedule()

    def forget(self, transport: "MemoryTransport") -> None:
        """It ended."""
        self.transports.remove(transport)
        if transport in self._lonely:
            self._lonely.remove(transport)


class MemoryTransport:
    """One end of one connection."""

    __slots__ = (
        "_handle",
        "_inbox",
        "_inbox_size",
        "_is_shut",
        "_is_told",
        "_limit",
        "_loop",
        "_other",
        "_owner",
        "_queue",
        "_target",
        "_was_closed",
        "_was_silent",
        "is_open",
    )

    def __init__(self, target: MemoryTarget, owner: Owner, limit: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._target = target
        self._owner = owner
        self._limit = limit
        self._queue = FrameQueue()
        self._inbox: deque[bytes] = deque()
        self._inbox_size = 0
        self._other: MemoryTransport | None = None
        self._handle: asyncio.Handle | None = None  # of the move that is due
        self._is_shut = False  # the owner writes nothing more
        self._is_told = False  # the owner knows that there is something to pull
        self._was_silent = True
        self._was_closed = False
        self.is_open = True

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed" if self._was_closed else "down"
        return f"<{self.__class__.__name__} {self._target.name} {state} {self._queue!r}, {len(self._inbox)} to pull>"

    # --- the contract -------------------------------------------------------------------------------------------------

    def send(self, frame: bytes, number: int) -> bool:
        """As the contract says. Raises: FrameTooLargeError; nothing was taken."""
        if len(frame) > self._limit:
            raise FrameTooLargeError(len(frame), self._limit)
        if not self.is_open or self._is_shut or self._queue.is_busy(len(frame)):
            return False
        self._queue.add(number, frame)
        self.schedule()
        return True

    def withdraw(self, number: int) -> bool:
        """As the contract says."""
        is_withdrawn = self._queue.withdraw(number)
        if is_withdrawn and self._queue.was_refused:
            self._loop.call_soon(self._tell_room)  # not from inside the owner's call
        return is_withdrawn

    def next_frame(self) -> bytes | McpError | None:
        """As the contract says. What was received can be pulled until `close()`."""
        if not self._inbox:
            self._is_told = False
            return None
        frame = self._inbox.popleft()
        self._inbox_size -= len(frame)
        if self._other is not None:
            self._other.schedule()
        return frame if len(frame) <= self._limit else FrameTooLargeError(len(frame), self._limit)

    async def flush(self) -> bool:
        """As the contract says: everything is at the other end, pulled or not."""
        return self.is_open and not self._is_shut and await self._queue.flush()

    def stop_writing(self) -> None:
        """As the contract says."""
        self._is_shut = True
        self._drop_queue()

    async def close(self) -> None:
        """End it; the other end goes down."""
        self._was_closed = True
        self._inbox.clear()
        if self.is_open:
            self._end()
            if self._other is not None:
                self._other.go_down(TransportError("the other end was closed"))

    # --- between the two ends -----------------------------------------------------------------------------------------

    def meet(self, other: "MemoryTransport") -> None:
        """From now on these two are one connection."""
        if other._loop is not self._loop:
            raise UsageError("both ends of a pair in memory must be opened on one loop")
        self._other, other._other = other, self
        other.schedule()

    def schedule(self) -> None:
        """Move what waits, in the next turn of the loop."""
        if self._handle is None and self.is_open and len(self._queue):
            self._handle = self._loop.call_soon(self._move)

    def go_down(self, error: McpError) -> None:
        """End by no doing of the owner's, who is told in the next turn of the loop."""
        if self.is_open:
            self._end()
            self._loop.call_soon(self._report, error)

    def _move(self) -> None:
        self._handle = None
        other = self._other
        if other is None or self._target.is_stalled:
            return
        through: int | None = None
        while len(self._queue) and (not other._inbox or other._inbox_size < CAPACITY_BYTES):
            through, frame = self._queue.pop()
            other._inbox.append(frame)
            other._inbox_size += len(frame)
        if through is None:
            return
        self._owner.wrote(through)
        self._tell_room()
        other._was_silent = False
        if not other._is_told and not other._was_closed:  # by what the owner did just now
            other._is_told = True
            other._owner.frames_arrived()

    def _tell_room(self) -> None:
        if self._queue.has_room_again():
            self._owner.room_made()
        self._queue.tell_flushed()

    def _end(self) -> None:
        self.is_open = False
        self._drop_queue()
        self._target.forget(self)

    def _drop_queue(self) -> None:
        self._queue.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _report(self, error: McpError) -> None:
        if not self._was_closed:
            self._owner.went_down(error, None, self._was_silent)


def memory_pair(name: str = "memory") -> MemoryPair:
    """A new pair of ends: `pair.client` for `connect()`, `pair.server` for whoever serves it."""
    return MemoryPair(name)
