"""HTTP+SSE of 2024-11-05: one GET stream for everything the server sends, and one URL for POSTs.

The first event of the stream names that URL (`endpoint`). It must have the stream's origin, because it receives our
credentials. Responses arrive on the stream, so when it ends, the outcome of everything that was sent is unknown.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import msgspec

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError, TransportError
from jackstay.protocol.http import Next, Sent, listen_headers, post_headers, resolve_endpoint
from jackstay.protocol.wire import EventReader, ServerSentEvent
from jackstay.transport.http._reading import error_for_id
from jackstay.transport.http._sending import Reply, Sender
from jackstay.transport.http._streams import read_events

logger = logging.getLogger("jackstay.client")

Events = AsyncIterator[ServerSentEvent | FrameTooLargeError]


class LegacyStream(msgspec.Struct, eq=False):
    """An open stream of 2024-11-05 and its endpoint. Returned by `open_legacy()`."""

    _sender: Sender
    _reply: Reply
    _events: Events
    endpoint: str
    task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<LegacyStream, messages to {self.endpoint.partition('?')[0]}>"

    def start(self, deliver: Callable[[bytes], None], ended: Callable[[McpError], None]) -> None:
        """Start reading. `deliver` is called with each message, `ended` once at the end."""
        self.task = asyncio.get_running_loop().create_task(self._read(deliver, ended))

    async def _read(self, deliver: Callable[[bytes], None], ended: Callable[[McpError], None]) -> None:
        error: McpError = TransportError("the server ended the SSE stream")
        try:
            async for event in self._events:
                if isinstance(event, FrameTooLargeError):
                    logger.warning("dropped an event of the SSE stream: %s", event)
                elif event.event == "message":
                    deliver(event.data)
        except McpError as broken:
            error = broken
        finally:
            await self._reply.response.close()
        ended(error)

    async def post(self, frame: bytes, id: int) -> bytes | None:
        """Send a message. A JSON-RPC error in place of "202 Accepted" is returned as a frame.

        Raises: CannotConnect, McpError.
        """
        reply = await self._sender.send(Sent.LEGACY_POST, post_headers(None, ""), frame, url=self.endpoint)
        await reply.response.close()
        if reply.verdict.next is Next.ACCEPTED:
            return None
        if reply.verdict.next is Next.ERROR and id:
            return error_for_id(reply.error_body, id)
        raise _refused(reply)

    async def close(self) -> None:
        """Close the stream."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait((self.task,))
        await self._reply.response.close()


async def open_legacy(sender: Sender, limit: int) -> LegacyStream | None:
    """Open the stream and read its endpoint; None if the server does not offer HTTP+SSE.

    Raises: CannotConnect, McpError.
    """
    reply = await sender.send(Sent.LEGACY_LISTEN, listen_headers(None), None)
    try:
        if reply.verdict.next is Next.NOT_SUPPORTED:
            await reply.response.close()
            return None
        if reply.verdict.next is not Next.STREAM:
            raise _refused(reply)
        events = read_events(reply.response, EventReader(limit))
        async for event in events:
            if isinstance(event, FrameTooLargeError):
                raise event
            # 2024-11-05 "HTTP with SSE": "When a client connects, the server MUST send an `endpoint` event".
            if event.event == "endpoint":
                return LegacyStream(sender, reply, events, resolve_endpoint(reply.url, event.data))
        raise ProtocolError("the SSE stream ended without an endpoint event", path="endpoint")
    except BaseException:
        await reply.response.close()
        raise


def _refused(reply: Reply) -> McpError:
    if reply.verdict.next is Next.ERROR:
        return ProtocolError("the server rejected a message", quote=reply.error_body[:64].decode("ascii", "replace"))
    return reply.error()
