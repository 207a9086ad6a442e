"""An in-memory transport: two ends in one process. Frames arrive in the next iteration of the loop.

For tests, and for a client and a server in one program. It implements the whole contract, and can be stalled and cut.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from jackstay.errors import FrameTooLargeError, McpError, TransportError, UsageError
from jackstay.transport._contract import Target, TransportHandler
from jackstay.transport._queue import FrameQueue

logger = logging.getLogger("jackstay.transport")

# The capacity of a pipe, so that a peer which does not pull causes the same backpressure.
CAPACITY_BYTES: Final = 65_536


class MemoryPair:
    """Two connected targets, `client` and `server`.

    Each `open()` of one is paired with one `open()` of the other, in order.
    """

    def __init__(self, name: str) -> None:
        self.client = MemoryTarget(name)
        self.server = MemoryTarget(name)
        self.client.other, self.server.other = self.server, self.client

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} client={self.client!r} server={self.server!r}>"

    def __iter__(self) -> "Iterator[MemoryTarget]":
        return iter((self.client, self.server))

    def cut(self, error: McpError | None = None) -> None:
        """End every open connection now, for both sides. Frames that were written can still be pulled."""
        for transport in [*self.client.transports, *self.server.transports]:
            transport.go_down(error or TransportError("the in-memory connection was cut"))


class MemoryTarget:
    """One end of a pair. `open()` does not wait for the other end: frames sent until then stay queued."""

    is_http = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.init_timeout: float | None = None
        self.is_stalled = False
        self.other: MemoryTarget = self  # until the pair is made
        self.transports: list[MemoryTransport] = []  # open, in the order they were opened
        self.unpaired: deque[MemoryTransport] = deque()  # waiting for the other end

    def __repr__(self) -> str:
        state = ", stalled" if self.is_stalled else ""
        return f"<{self.__class__.__name__} {self.name}, {len(self.transports)} open{state}>"

    async def open(
        self,
        handler: TransportHandler,
        max_frame_bytes: int,
        close_step: float,  # noqa: ARG002  # part of the contract
    ) -> "MemoryTransport":
        """Open this end, paired with the oldest unpaired transport of the other.

        Raises: UsageError if that is on another loop.
        """
        transport = MemoryTransport(self, handler, max_frame_bytes)
        if self.other.unpaired:
            transport.pair_with(self.other.unpaired[0])
            self.other.unpaired.popleft()
        else:
            self.unpaired.append(transport)
        self.transports.append(transport)
        return transport

    def stall(self) -> None:
        """Deliver nothing that this end sends until `resume()`.

        Frames stay queued; when the queue is full, it is busy.
        """
        self.is_stalled = True

    def resume(self) -> None:
        """Deliver again what this end sends."""
        self.is_stalled = False
        for transport in self.transports:
            transport.schedule()


class Servable(Protocol):
    """A `Server`, as far as a connection in the same process needs it."""

    @property
    def name(self) -> str:
        """The name of the server."""

    async def serve(self, target: Target) -> None:
        """Serve one connection until it ends."""


class InProcessTarget:
    """A server in this process. Each `open()` begins to serve a new in-memory connection."""

    __slots__ = ("_server", "init_timeout", "name")

    is_http = False

    def __init__(self, server: Servable) -> None:
        self._server = server
        self.name = server.name
        self.init_timeout: float | None = None

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self._server!r}>"

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> "MemoryTransport":
        """Open a connection. It goes down if the server cannot start."""
        pair = MemoryPair(self.name)
        transport = await pair.client.open(handler, max_frame_bytes, close_step)
        transport.serve_with(asyncio.create_task(self._server.serve(pair.server)))
        return transport


class MemoryTransport:
    """One end of one connection."""

    def __init__(self, target: MemoryTarget, handler: TransportHandler, limit: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._target = target
        self._handler = handler
        self._limit = limit
        self._queue: FrameQueue[bytes] = FrameQueue(self._loop, handler)
        self.withdraw = self._queue.withdraw  # see `Transport.withdraw`
        self._inbox: deque[bytes] = deque()
        self._inbox_size = 0
        self._other: MemoryTransport | None = None
        self._serving: asyncio.Task[None] | None = None  # serves the other end
        self._is_scheduled = False  # a delivery, in the next iteration of the loop
        self._is_shut = False  # `stop_writing()` was called
        self._is_notified = False  # `frames_arrived` was called, and the inbox is not yet empty
        self._was_silent = True
        self._was_closed = False
        self.is_open = True

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed" if self._was_closed else "down"
        return f"<{self.__class__.__name__} {self._target.name} {state} {self._queue!r}, {len(self._inbox)} to pull>"

    # --- the contract -------------------------------------------------------------------------------------------------

    def send(self, frame: bytes, number: int) -> bool:
        """See `Transport.send`. Raises: FrameTooLargeError; the frame was not accepted."""
        if len(frame) > self._limit:
            raise FrameTooLargeError(len(frame), self._limit)
        if self._is_shut or self._queue.is_busy(len(frame)):
            return False
        self._queue.add(number, frame)
        self.schedule()
        return True

    def next_frame(self) -> bytes | McpError | None:
        """See `Transport.next_frame`. Received frames can be pulled until `close()`."""
        if not self._inbox:
            self._is_notified = False
            return None
        frame = self._inbox.popleft()
        self._inbox_size -= len(frame)
        if self._other is not None:
            self._other.schedule()
        return frame if len(frame) <= self._limit else FrameTooLargeError(len(frame), self._limit)

    async def flush(self) -> bool:
        """See `Transport.flush`. Waits until everything is at the other end, pulled or not."""
        return not self._is_shut and await self._queue.flush()

    def stop_writing(self) -> None:
        """See `Transport.stop_writing`."""
        self._is_shut = True
        self._queue.clear()

    async def close(self) -> None:
        """End the connection; the other end goes down."""
        self._was_closed = True
        self._inbox.clear()
        if self.is_open:
            self._end()
            if self._other is not None:
                self._other.go_down(TransportError("the other end was closed"))
        if self._serving is not None:
            if self._other is None:
                self._serving.cancel()  # startup hooks still run
            await asyncio.wait([self._serving])

    # --- between the two ends -----------------------------------------------------------------------------------------

    def serve_with(self, serving: asyncio.Task[None]) -> None:
        """Go down if this task, which serves the other end, fails; wait for it in `close()`."""
        self._serving = serving
        serving.add_done_callback(self._served)

    def _served(self, serving: asyncio.Task[None]) -> None:
        if serving.cancelled():
            return
        error = serving.exception()
        if error is not None:
            logger.error("the server in this process failed", exc_info=error)
            self.go_down(TransportError(f"the server in this process failed: {type(error).__name__}: {error}"))

    def pair_with(self, other: "MemoryTransport") -> None:
        """Connect these two ends."""
        if other._loop is not self._loop:
            raise UsageError("both ends of a memory_pair() must be opened on the same event loop")
        self._other, other._other = other, self
        other.schedule()

    def schedule(self) -> None:
        """Deliver the queue in the next iteration of the loop."""
        if not self._is_scheduled and len(self._queue):
            self._is_scheduled = True
            self._loop.call_soon(self._move)

    def go_down(self, error: McpError) -> None:
        """End without `close()`. `went_down` is called in the next iteration of the loop."""
        if self.is_open:
            self._end()
            self._loop.call_soon(self._report, error)

    def _move(self) -> None:
        self._is_scheduled = False
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
        self._handler.wrote(through)
        self._queue.notify_room()
        other._was_silent = False
        if not other._is_notified and not other._was_closed:  # the callbacks above may have closed it
            other._is_notified = True
            other._handler.frames_arrived()

    def _end(self) -> None:
        self.is_open = False
        self.stop_writing()
        self._target.transports.remove(self)
        if self in self._target.unpaired:
            self._target.unpaired.remove(self)

    def _report(self, error: McpError) -> None:
        if not self._was_closed:
            self._handler.went_down(error, None, self._was_silent)


def memory_pair(name: str = "memory") -> MemoryPair:
    """Return a new pair: `pair.client` for `connect()`, `pair.server` for `Server.serve()`."""
    return MemoryPair(name)
