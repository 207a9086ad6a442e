"""A response that is a stream of server-sent events: a bounded queue, and the loop that writes it.

Senders never wait; the task of the HTTP response writes. While the client reads slowly the queue grows up to a limit,
above which the stream is aborted. Responses, and bursts that the client had no chance to read, have a higher limit.
Keepalive comments are sent on a silent stream, because proxies close those (docs/guarantees.md G17).
"""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from jackstay.protocol.http import STREAM_HEADERS
from jackstay.protocol.wire import KEEP_ALIVE
from jackstay.server.http._asgi import HeaderLines, Receive, Send, encode_headers, wait_for_disconnect
from jackstay.transport import MAX_QUEUED_BYTES

logger = logging.getLogger("jackstay.server.http")

STREAM_LINES = encode_headers(STREAM_HEADERS)
# The headers of a response whose events are complete when it begins.
EVENTS_LINES = tuple(line for line in STREAM_LINES if line[0] == b"content-type")

# Bytes that are queued for a client that reads slowly. An ASGI server buffers about 64 KiB and one more write before it
# makes the writer wait; with the rest of a connection that stays below 256 KiB.
MAX_STREAM_BYTES = 48 * 1024

# Bytes per write, unless one message is larger. The ASGI server buffers a whole write even above its limit, so this
# must be small compared to MAX_STREAM_BYTES.
WRITE_BYTES = 16 * 1024

# Bytes of responses that are queued: as many as in the queue of a transport, because the client requested them. The
# same for the burst of a handler that does not yield to the loop: the client had no chance to read.
MAX_RESPONSE_BYTES = MAX_QUEUED_BYTES


class Stream(msgspec.Struct, eq=False):
    """The events of one response. `put()` never waits; `pump()` writes until `end()` or `abort()`."""

    limit: int = MAX_STREAM_BYTES
    _loop: asyncio.AbstractEventLoop = msgspec.field(default_factory=asyncio.get_running_loop)
    _items: list[bytes] = []
    # Bytes that are queued or being written, and how many there were when the writer last began to wait for the client.
    waiting: int = 0
    _burst: int = 0
    _waiter: asyncio.Future[None] | None = None
    _writer: asyncio.Task[object] | None = None
    is_ended: bool = False
    is_aborted: bool = False

    def __repr__(self) -> str:
        state = "aborted" if self.is_aborted else "ended" if self.is_ended else "open"
        return f"<Stream {state}, {self.waiting} bytes waiting>"

    @property
    def is_over(self) -> bool:
        """True if nothing more can be put."""
        return self.is_ended or self.is_aborted

    def put(self, chunk: bytes, *, is_response: bool = False) -> bool:
        """Queue a chunk.

        Returns False if the stream is over, or was aborted now because the client reads too slowly.
        """
        if self.is_ended or self.is_aborted:
            return False
        size = self.waiting + len(chunk)
        limit = MAX_RESPONSE_BYTES
        if self._writer is None or self._waiter is not None:  # the client has not had a chance to read
            self._burst = size
        elif not is_response:
            limit = self._burst + self.limit
        # An empty queue accepts a message of any size: the size of a message is limited by the server.
        if size > limit and self.waiting:
            self.abort()
            return False
        self.waiting = size
        self._items.append(chunk)
        self._wake()
        return True

    def end(self, last: bytes = b"") -> None:
        """Queue a last chunk and end the response after it."""
        if self.is_ended or self.is_aborted:
            return
        self.is_ended = True
        if last:
            self.waiting += len(last)
            self._items.append(last)
        self._wake()

    def abort(self) -> None:
        """End the response without flushing it, and cancel a blocked write. `unsent()` returns the queue."""
        if self.is_aborted:
            return
        self.is_aborted = True
        self._wake()
        if self._writer is not None and self._waiter is None:  # it waits for the client and not for a new chunk
            self._writer.cancel()

    def unsent(self) -> list[bytes]:
        """Remove and return the chunks that were not written."""
        items, self._items = self._items, []
        self.waiting = 0
        return items

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def abort_on_disconnect(self, receive: Receive) -> None:
        """Wait until the client disconnects, then abort."""
        await wait_for_disconnect(receive)
        self.abort()

    async def pump(self, send: Send, headers: HeaderLines, keepalive: float, first: Sequence[bytes] = ()) -> bool:
        """Write the response from its headers to its end. Returns False if it was aborted or the client disconnected.

        `first` is written before the queue, without a limit of its size.
        """
        writer = asyncio.current_task()
        assert writer is not None
        self._writer = writer
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for chunk in first:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            return await self._write(send, keepalive)
        except OSError:  # an ASGI server may raise it when the client has disconnected
            self._writer = None
            self.abort()
            return False
        except asyncio.CancelledError:
            # The cancellation of `abort()` ends here; any other one must propagate.
            if not self.is_aborted or writer.uncancel() > 0:
                raise
            return False
        finally:
            self._writer = None

    async def _write(self, send: Send, keepalive: float) -> bool:
        while not self.is_aborted:
            if self._items:
                body = self._next_write()
                is_last = self.is_ended and not self._items
                try:
                    await send({"type": "http.response.body", "body": body, "more_body": not is_last})
                finally:
                    self.waiting = max(0, self.waiting - len(body))  # `unsent()` may have been called meanwhile
                if is_last:
                    return True
            elif self.is_ended:
                await send({"type": "http.response.body", "body": b""})
                return True
            else:
                await self._wait(send, keepalive)
        return False

    def _next_write(self) -> bytes:
        """Join queued chunks up to WRITE_BYTES."""
        items = self._items
        if len(items) == 1:
            return items.pop()
        size = count = 0
        while count < len(items) and (not count or size + len(items[count]) <= WRITE_BYTES):
            size += len(items[count])
            count += 1
        body = b"".join(items[:count])
        del items[:count]
        return body

    async def _wait(self, send: Send, keepalive: float) -> None:
        self._waiter = waiter = self._loop.create_future()
        timer = self._loop.call_later(keepalive, self._wake) if keepalive else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        if not self._items and not self.is_over:
            await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})
