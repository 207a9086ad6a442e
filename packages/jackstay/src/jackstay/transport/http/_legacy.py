"""The transport of 2024-11-05, "HTTP with SSE": one GET that stays open and brings everything, one URL that everything is POSTed to.

The stream's first event names that URL (`endpoint`); it must be of the stream's own origin, because it gets our messages and
our credentials. Answers come on the stream, so when it ends, everything that was sent has an unknown outcome: it is one
connection, as a pipe is, and not many exchanges.

Must never know what is said over it, nor when to try it (`_transport`). Above: `_transport`. Below: `_sending`, `_streams`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError, TransportError
from jackstay.protocol.http import Next, Sent, listen_headers, post_headers, resolve_endpoint
from jackstay.protocol.wire import EventReader, ServerSentEvent
from jackstay.transport.http._reading import error_for_id
from jackstay.transport.http._sending import Reply, Sender
from jackstay.transport.http._streams import read_events

logger = logging.getLogger("jackstay.client")

Events = AsyncIterator[ServerSentEvent | FrameTooLargeError]


class LegacyStream:
    """An open stream of 2024-11-05, and the URL that belongs to it. Made by `open_legacy()`."""

    def __init__(self, sender: Sender, reply: Reply, events: Events, endpoint: str) -> None:
        self._sender = sender
        self._reply = reply
        self._events = events
        self.endpoint = endpoint
        self.task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<LegacyStream, messages to {self.endpoint.partition('?')[0]}>"

    def start(self, deliver: Callable[[bytes], None], ended: Callable[[McpError], None]) -> None:
        """Read it to its end, and tell what comes."""
        self.task = asyncio.get_running_loop().create_task(self._read(deliver, ended))

    async def _read(self, deliver: Callable[[bytes], None], ended: Callable[[McpError], None]) -> None:
        error: McpError = TransportError("the stream of the server ended")
        try:
            async for event in self._events:
                if isinstance(event, FrameTooLargeError):
                    logger.warning("an event of the stream is dropped: %s", event)
                elif event.event == "message":
                    deliver(event.data)
        except McpError as broken:
            error = broken
        finally:
            await self._reply.response.close()
        ended(error)

    async def post(self, frame: bytes, id: int) -> bytes | None:
        """Send a message. An error in place of "accepted" is its answer, and is returned as a frame.

        Raises: CannotConnect, McpError.
        """
        reply = await self._sender.send(Sent.LEGACY_POST, post_headers(None, ""), frame, url=self.endpoint)
        await reply.response.close()
        if reply.verdict.next is Next.ACCEPTED:
            return None
        if reply.verdict.next is Next.ERROR and id:
            return error_for_id(reply.refusal, id)
        raise _refused(reply)

    async def close(self) -> None:
        """End the stream."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait((self.task,))
        await self._reply.response.close()


async def open_legacy(sender: Sender, limit: int) -> LegacyStream | None:
    """The stream and its endpoint; None where the server is not one of 2024-11-05.

    Raises: CannotConnect, McpError.
    """
    reply = await sender.send(Sent.LEGACY_LISTEN, listen_headers(None), None)
    try:
        if reply.verdict.next is Next.NOT_OFFERED:
            await reply.response.close()
            return None
        if reply.verdict.next is not Next.STREAM:
            raise _refused(reply)
        events = read_events(reply.response, EventReader(limit))
        async for event in events:
            if isinstance(event, FrameTooLargeError):
                raise event
            # "When a client connects, the server MUST send an `endpoint` event": before it, nothing counts.
            if event.event == "endpoint":
                return LegacyStream(sender, reply, events, resolve_endpoint(reply.url, event.data))
        raise ProtocolError("the stream ended without naming its endpoint", path="endpoint")
    except BaseException:
        await reply.response.close()
        raise


def _refused(reply: Reply) -> McpError:
    if reply.verdict.next is Next.ERROR:
        return ProtocolError(
            "the server refused a message", quote=reply.refusal[:64].decode("ascii", "replace")
        )
    return reply.error()
