"""SSE streams: reading events, the delay before a stream is resumed, and the GET stream of handshake-era servers.

From 2025-03-26 to 2025-11-25 a client may keep a GET open for messages that belong to no request; a server without it
responds 405. A stream that ended is opened again after the server's `retry`, from the last event seen
(`Last-Event-ID`), as long as the session lasts.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from jackstay.errors import FrameTooLargeError, McpError, OutcomeUnknownError
from jackstay.protocol.http import Next, Sent, listen_headers
from jackstay.protocol.wire import EventReader, ServerSentEvent
from jackstay.transport._contract import ExchangeHandler
from jackstay.transport.http._contract import HttpResponse
from jackstay.transport.http._sending import CannotConnect, Reply

if TYPE_CHECKING:
    from jackstay.transport.http._transport import HttpTransport

logger = logging.getLogger("jackstay.client")

# The delay before a stream is opened again, if the server has not set `retry`.
RESUME_DELAY: Final = 1.0

# The shortest delay, whatever the server has set.
MIN_DELAY: Final = 0.05

# The longest delay, however often it fails, unless the server has set a longer one.
MAX_DELAY: Final = 30.0

# A stream that was open this long counts as a success.
STABLE_AFTER: Final = 5.0

# The number of events handled before other tasks run: one server that sends without pause does not delay the others.
MAX_EVENTS_AT_ONCE: Final = 32


def resume_delay(retry: int | None, failures: int, retry_in: float | None = None) -> float:
    """Return the delay in seconds before a stream is opened again; `retry` is the server's value in milliseconds.

    Each consecutive failure doubles it.
    """
    base = RESUME_DELAY if retry is None else max(retry / 1000, MIN_DELAY)
    if failures:
        base = min(max(base, RESUME_DELAY) * 2.0 ** min(failures, 10), max(base, MAX_DELAY))
    return base if retry_in is None else max(base, retry_in)


async def read_events(
    response: HttpResponse, reader: EventReader
) -> AsyncGenerator[ServerSentEvent | FrameTooLargeError, None]:
    """Iterate over the events of a response that have data; an event over the limit is yielded as an error.

    The reader records where to resume.

    Raises: ProtocolError for an invalid stream; OutcomeUnknownError if the connection is lost.
    """
    count = 0
    async for chunk in response.chunks():
        reader.feed(chunk)
        while True:
            try:
                event = reader.next_event()
            except FrameTooLargeError as error:
                yield error
                continue
            if event is None:
                break
            if event.data:
                yield event
            count += 1
            if count % MAX_EVENTS_AT_ONCE == 0:
                await asyncio.sleep(0)


def next_reader(last: EventReader) -> EventReader:
    """Return a reader for the stream that resumes this one."""
    reader = EventReader(last.limit)
    reader.last_event_id, reader.retry = last.last_event_id, last.retry
    return reader


def _restart_from_beginning(reader: EventReader) -> bool:
    """Forget the last event id: the server may have dropped that event, but may still offer the stream.

    Returns False if there was none.
    """
    was_resumed, reader.last_event_id = bool(reader.last_event_id), ""
    return was_resumed


class GetStream:
    """The GET request that stays open as long as the session of the transport. `handler` is that of the session."""

    id = 0  # no call's
    is_open = False

    def __init__(self, transport: "HttpTransport", handler: ExchangeHandler) -> None:
        self._transport = transport
        self.session = transport.session
        self.handler = handler

    async def run(self) -> None:
        """Keep it open until cancelled, or until the server offers none or drops the session."""
        session = self.session
        reader = EventReader(self._transport.limit)
        was_open, failures = False, 0
        while True:
            retry_in: float | None = None
            try:
                headers = listen_headers(session.revision, session_id=session.id, last_event_id=reader.last_event_id)
                # A server without this stream may respond 404. Only if it was open before does 404 mean the session.
                known = session.id if was_open else None
                reply = await self._transport.sender.send(Sent.LISTEN, headers, None, session_id=known)
            except (CannotConnect, OutcomeUnknownError) as failure:
                logger.debug("cannot open the GET stream: %s", failure)
                failures += 1
            except McpError as error:
                logger.warning("cannot open the GET stream: %s", error)
                if not _restart_from_beginning(reader):
                    return
                failures += 1
            else:
                was_open = was_open or reply.verdict.next is Next.STREAM
                outcome = await self._handle(reply, reader)
                if outcome is None:
                    return
                failures = 0 if outcome else failures + 1
                retry_in = reply.verdict.retry_in
                reader = next_reader(reader)
            await asyncio.sleep(resume_delay(reader.retry, failures, retry_in))

    async def _handle(self, reply: Reply, reader: EventReader) -> bool | None:
        """Handle a response. Returns whether it succeeded; None: do not open the stream again."""
        match reply.verdict.next:
            case Next.STREAM:
                return await self._read(reply.response, reader)
            case Next.SESSION_LOST:
                self._transport.session_expired(self)
                return None
            case Next.NOT_SUPPORTED:
                logger.debug("the server offers no GET stream (HTTP %d)", reply.verdict.status)
                return None
            case Next.THROTTLED | Next.UNAVAILABLE:
                return False
            case _:
                logger.warning("the server rejected the GET stream: %s", reply.error())
                return False if _restart_from_beginning(reader) else None

    async def _read(self, response: HttpResponse, reader: EventReader) -> bool:
        loop = asyncio.get_running_loop()
        opened_at = loop.time()
        self.is_open = True
        try:
            async for event in read_events(response, reader):
                if isinstance(event, FrameTooLargeError):
                    logger.warning("dropped an event of the GET stream: %s", event)
                elif event.event == "message":
                    self._transport.receive(event.data)
        except McpError as error:
            logger.debug("the GET stream was lost: %s", error)
        finally:
            self.is_open = False
            await response.close()
        return reader.events_read > 0 or loop.time() - opened_at >= STABLE_AFTER
