"""Streams of events: read one, wait before the next, and the standing one that a handshake-era server may offer.

From 2025-03-26 to 2025-11-25 a client may keep a GET open, on which the server speaks unasked; a server that has none says
405, and that is no failure. A stream that ends is opened again after the time that the server asked for (`retry`), from
the event after the last one seen (`Last-Event-ID`), for as long as the session lasts.

Must never know what the events say. Above: `_transport`, `_posts`. Below: `_sending`, `jackstay.protocol.wire`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Final

from jackstay.errors import FrameTooLargeError, McpError, OutcomeUnknownError
from jackstay.protocol import Revision
from jackstay.protocol.http import Next, Sent, listen_headers
from jackstay.protocol.wire import EventReader, ServerSentEvent
from jackstay.transport.http._contract import HttpResponse
from jackstay.transport.http._sending import CannotConnect, Reply, Sender

logger = logging.getLogger("jackstay.client")

# Before a stream is opened again, where the server does not say: as long as browsers wait at the least.
RESUME_DELAY: Final = 1.0

# A server may ask to be asked again at once, and end the stream each time: it is not asked all day long for that.
SHORTEST_DELAY: Final = 0.05

# However often it fails, it is tried again within this: the server may be back, and nobody else will ask.
LONGEST_DELAY: Final = 30.0

# A stream that lived for so long did not fail.
SOUND_AFTER: Final = 5.0


def resume_delay(retry: int | None, failures: int, retry_in: float | None = None) -> float:
    """How long to wait before a stream is opened again: `retry` in milliseconds is the server's own word for it.

    Each failure in a row doubles it, because a server that closes at once must not be asked all day long.
    """
    base = RESUME_DELAY if retry is None else max(retry / 1000, SHORTEST_DELAY)
    if failures:
        base = min(max(base, RESUME_DELAY) * 2.0 ** min(failures, 10), max(base, LONGEST_DELAY))
    return base if retry_in is None else max(base, retry_in)


async def read_events(
    response: HttpResponse, reader: EventReader
) -> AsyncGenerator[ServerSentEvent | FrameTooLargeError, None]:
    """The events of a response that have data, as they come; one over the limit as the error that it is.

    The reader keeps where to resume. Raises: ProtocolError for a stream that cannot be read; OutcomeUnknownError where the
    connection breaks.
    """
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


def next_reader(last: EventReader) -> EventReader:
    """A reader for the stream that resumes this one."""
    reader = EventReader(last.limit)
    reader.last_event_id, reader.retry = last.last_event_id, last.retry
    return reader


def _begins_anew(reader: EventReader) -> bool:
    """Forget where a stream was to be resumed: the server may not have that event any more, but it may have the stream.

    False where there was nothing to forget.
    """
    was_resumed, reader.last_event_id = bool(reader.last_event_id), ""
    return was_resumed


class StandingStream:
    """The GET that stays open while a session lasts."""

    def __init__(
        self,
        sender: Sender,
        revision: Revision,
        session_id: str | None,
        *,
        limit: int,
        deliver: Callable[[bytes], None],
        lose_session: Callable[[], None],
    ) -> None:
        self._sender = sender
        self._revision = revision
        self._session_id = session_id
        self._limit = limit
        self._deliver = deliver
        self._lose_session = lose_session
        self.is_open = False

    async def run(self) -> None:
        """Keep it open until it is cancelled, or the server has none, or forgot the session."""
        reader = EventReader(self._limit)
        was_open, failures = False, 0
        while True:
            retry_in: float | None = None
            try:
                headers = listen_headers(
                    self._revision, session_id=self._session_id, last_event_id=reader.last_event_id
                )
                # A server without this stream may say 404, too: only once it was open does that mean the session.
                known = self._session_id if was_open else None
                reply = await self._sender.send(Sent.LISTEN, headers, None, session_id=known)
            except (CannotConnect, OutcomeUnknownError) as failure:
                logger.debug("the standing stream cannot be opened: %s", failure)
                failures += 1
            except McpError as error:
                logger.warning("the standing stream cannot be opened: %s", error)
                if not _begins_anew(reader):
                    return
                failures += 1
            else:
                was_open = was_open or reply.verdict.next is Next.STREAM
                outcome = await self._take(reply, reader)
                if outcome is None:
                    return
                failures = 0 if outcome else failures + 1
                retry_in = reply.verdict.retry_in
                reader = next_reader(reader)
            await asyncio.sleep(resume_delay(reader.retry, failures, retry_in))

    async def _take(self, reply: Reply, reader: EventReader) -> bool | None:
        """Read what came; whether it was sound. None: there is no use in asking again."""
        match reply.verdict.next:
            case Next.STREAM:
                return await self._read(reply.response, reader)
            case Next.SESSION_LOST:
                self._lose_session()
                return None
            case Next.NOT_OFFERED:
                logger.debug("the server offers no standing stream (HTTP %d)", reply.verdict.status)
                return None
            case Next.THROTTLED | Next.UNAVAILABLE:
                return False
            case _:
                logger.warning("the standing stream is refused: %s", reply.error())
                return False if _begins_anew(reader) else None

    async def _read(self, response: HttpResponse, reader: EventReader) -> bool:
        loop = asyncio.get_running_loop()
        opened_at = loop.time()
        self.is_open = True
        try:
            async for event in read_events(response, reader):
                if isinstance(event, FrameTooLargeError):
                    logger.warning("an event of the standing stream is dropped: %s", event)
                elif event.event == "message":
                    self._deliver(event.data)
        except McpError as error:
            logger.debug("the standing stream broke: %s", error)
        finally:
            self.is_open = False
            await response.close()
        return reader.events_read > 0 or loop.time() - opened_at >= SOUND_AFTER
