"""One response that is a stream of server-sent events: a bounded queue, and the loop that writes it.

Whoever has something to say puts it in and never waits; the task that holds the HTTP response writes. An ASGI server makes
that task wait while the client reads slowly, so what has not been taken gathers here, up to a limit. Beyond it the stream is
cut: a reader that slow is as good as gone, and the others must not pay for it. Answers have a limit of their own: they were
asked for. So has what is said in one breath, before the client could have read any of it.

A stream that says nothing for a while says that it is alive, because proxies cut silent ones (G17).

Must never know a message or a session. Above: `_post`, `_session`, `_legacy`. Below: `_asgi`.
"""

import asyncio
import logging
from collections.abc import Sequence

from jackstay.protocol.http import STREAM_HEADERS
from jackstay.protocol.wire import KEEP_ALIVE
from jackstay.server.http._asgi import HeaderLines, Send, lines
from jackstay.transport import MAX_QUEUED_BYTES

logger = logging.getLogger("jackstay.server.http")

STREAM_LINES = lines(STREAM_HEADERS)
# Of a response whose events are all there when it begins.
EVENTS_LINES = [line for line in STREAM_LINES if line[0] == b"content-type"]

# What may gather in one stream while its client reads slowly. An ASGI server holds some 64 KiB of its own before it makes us
# wait, and one write more; with all that a connection needs besides, that stays under 256 KiB.
MAX_STREAM_BYTES = 48 * 1024

# What goes out in one write, unless one message is larger. The ASGI server takes the whole of it even when it holds too much by
# then, so this must be small beside what may wait.
WRITE_BYTES = 16 * 1024

# Answers were asked for, so more of them may wait: as much as a transport queues. The same for a burst of a handler that does
# not let go of the loop: nobody has been slow.
MAX_ANSWER_BYTES = MAX_QUEUED_BYTES


class Stream:
    """What is to be written to one response. `put()` never waits; `pump()` writes until `end()`, or until it is cut."""

    __slots__ = ("_burst", "_items", "_limit", "_loop", "_size", "_waiter", "_writer", "is_cut", "is_ended")

    def __init__(self, limit: int = MAX_STREAM_BYTES) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._items: list[bytes] = []
        # What waits, and what is being written; and how much of it there was when the client was last asked to read.
        self._size = self._burst = 0
        self._waiter: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[object] | None = None
        self.is_ended = False
        self.is_cut = False

    def __repr__(self) -> str:
        state = "cut" if self.is_cut else "ended" if self.is_ended else "open"
        return f"<Stream {state}, {self._size} bytes waiting>"

    @property
    def is_over(self) -> bool:
        """True if nothing more can be said."""
        return self.is_ended or self.is_cut

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken."""
        return self._size

    def put(self, chunk: bytes, *, is_answer: bool = False) -> bool:
        """Say this. False: it cannot be said, because the stream is over or was just cut for its slow reader."""
        if self.is_ended or self.is_cut:
            return False
        size = self._size + len(chunk)
        limit = MAX_ANSWER_BYTES
        if not self._is_held_up:
            self._burst = size
        elif not is_answer:
            limit = self._burst + self._limit
        # One message of any size is taken where nothing waits: a limit on messages is the server's option.
        if size > limit and self._size:
            self.cut()
            return False
        self._size = size
        self._items.append(chunk)
        self._wake()
        return True

    def end(self, last: bytes = b"") -> None:
        """Say this last, and end."""
        if self.is_ended or self.is_cut:
            return
        self.is_ended = True
        if last:
            self._size += len(last)
            self._items.append(last)
        self._wake()

    def cut(self) -> None:
        """End it without its end: a writer that is held up is let go. What waits can be taken by `left()`."""
        if self.is_cut:
            return
        self.is_cut = True
        self._wake()
        if self._writer is not None and self._waiter is None:
            self._writer.cancel()

    @property
    def _is_held_up(self) -> bool:
        """True while the writer waits for the client, and not for us."""
        return self._writer is not None and self._waiter is None

    def left(self) -> list[bytes]:
        """What was put in and never written."""
        items, self._items = self._items, []
        self._size = 0
        return items

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def pump(
        self, send: Send, headers: HeaderLines, keepalive: float, first: Sequence[bytes] = ()
    ) -> bool:
        """Write the response, from its headers to its end. False: it was cut, or the client is gone.

        `first` is written before anything that was put in, at the client's pace and whatever its size.
        """
        writer = asyncio.current_task()
        assert writer is not None
        self._writer = writer
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for chunk in first:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            return await self._write(send, keepalive)
        except OSError:  # ASGI: how a server may say that the client is gone
            self._writer = None
            self.cut()
            return False
        except asyncio.CancelledError:
            # Ours, if it is the only one: somebody else's must go on its way.
            if not self.is_cut or writer.uncancel() > 0:
                raise
            return False
        finally:
            self._writer = None

    async def _write(self, send: Send, keepalive: float) -> bool:
        while not self.is_cut:
            if self._items:
                body = self._next_write()
                is_last = self.is_ended and not self._items
                try:
                    await send({"type": "http.response.body", "body": body, "more_body": not is_last})
                finally:
                    self._size = max(0, self._size - len(body))  # `left()` may have been asked meanwhile
                if is_last:
                    return True
            elif self.is_ended:
                await send({"type": "http.response.body", "body": b""})
                return True
            else:
                await self._wait(send, keepalive)
        return False

    def _next_write(self) -> bytes:
        """What is ready, in one piece; of much, a part."""
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
