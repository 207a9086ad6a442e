"""One POST, from the frame to the end of its response: a task that can fail on its own.

`jackstay.protocol.http` decides what a response means (`Next`); the transport handles the result. A response that ends
without the answer is resumed if the server sent event ids (2025-03-26 to 2025-11-25). Otherwise the outcome is unknown
at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from jackstay.errors import FrameTooLargeError, McpError, OutcomeUnknownError, TransportError, UsageError
from jackstay.protocol import REVISIONS, Revision
from jackstay.protocol.http import (
    Next,
    ParamHeader,
    Sent,
    build_param_headers,
    listen_headers,
    mirrored_name,
    post_headers,
)
from jackstay.protocol.wire import EventReader
from jackstay.transport._contract import ExchangeHandler
from jackstay.transport.http._contract import HttpResponse
from jackstay.transport.http._reading import answered_ids, error_for_id, not_an_answer, quote, read_body
from jackstay.transport.http._sending import CannotConnect, Reply
from jackstay.transport.http._streams import next_reader, read_events, resume_delay
from jackstay.types import META_PROTOCOL_VERSION

if TYPE_CHECKING:
    from jackstay.transport.http._transport import HttpTransport

logger = logging.getLogger("jackstay.client")

# How long a stream may continue after the answer before its connection is closed. Most servers end it at once, and then
# the connection is reused.
LINGER: Final = 1.0

# How often in a row a lost stream is resumed without a new event before the outcome is unknown. The deadline of the
# call limits it as well; this is for calls without one.
MAX_RESUMES: Final = 8

# Seconds before a response to a request of the server is sent again, at least, if its connection was lost or it got one
# of these statuses: of a server that cannot pass it on now, or of a proxy without one.
RESPONSE_DELAYS: Final = (0.1, 0.5, 2.0, 4.0)
MAX_RESPONSE_DELAY: Final = 4.0
_NOT_NOW: Final = frozenset((429, 502, 503, 504))

_ENDED = "the response ended without an answer"


class _Meta(msgspec.Struct):
    version: Any = msgspec.field(name=META_PROTOCOL_VERSION, default=None)


class _Params(msgspec.Struct):
    # `Any`: a user may pass other types than the specification defines, and the server reports that better.
    meta: _Meta | None = msgspec.field(name="_meta", default=None)
    name: Any = None
    uri: Any = None
    taskId: Any = None  # noqa: N815  # the wire name, which `mirrored_name` uses
    requestId: Any = None  # noqa: N815  # as above


class _Frame(msgspec.Struct):
    id: int | str | None = None
    method: str = ""
    params: _Params | None = None


_read = msgspec.json.Decoder(_Frame).decode
_read_any = msgspec.json.Decoder(dict[str, Any]).decode

_NEGOTIATING = {"server/discover": Sent.PROBE, "initialize": Sent.INITIALIZE}


class Session(msgspec.Struct):
    """The session of one `initialize`. Each session is a new object, so that an old response cannot change it."""

    id: str | None = None
    revision: Revision | None = None


class Post:
    """One frame, and its request in flight. Cancelling `task` closes its response.

    `id` is 0 if it is not a request; `version` is the revision in its `_meta`. `start()` sets `task`, `handler`,
    `session` and `kind`.
    """

    was_answered = False
    task: asyncio.Task[None]
    handler: ExchangeHandler
    session: Session
    kind: Sent

    def __init__(self, transport: "HttpTransport", frame: bytes) -> None:
        """Parse the frame. Raises: UsageError if it is not a JSON-RPC message."""
        try:
            read = _read(frame)
        except msgspec.DecodeError as error:
            raise UsageError(f"not a JSON-RPC message: {error}") from error
        params = read.params or _Params()
        version = None if params.meta is None else params.meta.version
        cancels = params.requestId if read.method == "notifications/cancelled" else None
        self._transport = transport
        self.frame = frame
        self.method = read.method
        self.id = read.id if read.method and isinstance(read.id, int) else 0
        self.name = mirrored_name(read.method, {"name": params.name, "uri": params.uri, "taskId": params.taskId})
        self.version: str | None = version if isinstance(version, str) else None
        self.cancels: int | None = cancels if isinstance(cancels, int) else None

    def __repr__(self) -> str:
        return f"<Post {self.method or 'a response'} {self.id}>"

    def __len__(self) -> int:
        return len(self.frame)  # as a frame in a queue

    @property
    def is_long_lived(self) -> bool:
        """Whether its response stays open as long as the subscription."""
        return self.method == "subscriptions/listen"

    def sent_as(self) -> Sent:
        """Return how its HTTP response would be interpreted if it was sent now."""
        if not self.id:
            return Sent.NOTIFICATION
        if self.method == "initialize" or not self._transport.has_agreed:
            return _NEGOTIATING.get(self.method, Sent.REQUEST)
        return Sent.REQUEST

    def revision(self, agreed: Revision | None) -> Revision | None:
        """Return the revision for its headers: that of its body, or the negotiated one; None for `initialize`."""
        if self.version is not None:
            return REVISIONS.get(self.version, agreed)
        return None if self.method == "initialize" else agreed

    def param_headers(self, rows: Sequence[ParamHeader]) -> tuple[tuple[str, str], ...]:
        """Return the `Mcp-Param-*` headers of a call. Raises: UsageError for an argument that no header can contain."""
        if not rows:
            return ()
        params = _read_any(self.frame).get("params")
        arguments = params.get("arguments") if isinstance(params, dict) else None
        return build_param_headers(rows, arguments if isinstance(arguments, dict) else None)

    def start(
        self, handler: ExchangeHandler, send: Callable[["Post"], Awaitable[None]] | None = None
    ) -> asyncio.Task[None]:
        """Send it in the current session, by `send` or over Streamable HTTP, and return its task."""
        self.handler = handler
        self.session = self._transport.session
        self.kind = self.sent_as()
        self.task = asyncio.get_running_loop().create_task(self._run(send or Post._send))
        return self.task

    async def _run(self, send: Callable[["Post"], Awaitable[None]]) -> None:
        transport = self._transport
        try:
            await (send(self) if self.method else self._send_response(send))
        except CannotConnect as failure:
            transport.lost(self, failure.error, could_connect=False)
        except McpError as error:
            transport.lost(self, error)
        except Exception as error:  # raised by the user's HTTP client or authorizer
            logger.exception("sending a request failed")
            transport.lost(self, OutcomeUnknownError(f"{type(error).__name__}: {error}"))

    async def _send_response(self, send: Callable[["Post"], Awaitable[None]]) -> None:
        """Send a response, again if its connection is lost or the server cannot process it now.

        The server accepts it once, and waits for it otherwise.
        """
        for delay in RESPONSE_DELAYS:
            try:
                await send(self)
            except CannotConnect:
                await asyncio.sleep(delay)
            except (OutcomeUnknownError, TransportError) as error:
                is_lost = isinstance(error, OutcomeUnknownError) and "status" not in error.details
                if not is_lost and error.details.get("status") not in _NOT_NOW:
                    raise
                await asyncio.sleep(max(delay, min(error.retry_in or 0.0, MAX_RESPONSE_DELAY)))
            else:
                return
        await send(self)

    async def _send(self) -> None:
        session = self.session
        revision = self.revision(session.revision)
        params: tuple[tuple[str, str], ...] = ()
        if self.method == "tools/call" and revision is not None and revision.has_method_headers:
            params = self.param_headers(self.handler.header_params(self.name or ""))
        session_id = None if self.kind is Sent.INITIALIZE else session.id
        headers = post_headers(revision, self.method, name=self.name, session_id=session_id, params=params)
        reply = await self._transport.sender.send(self.kind, headers, self.frame, session_id=session_id)
        try:
            await self._handle(reply)
        finally:
            await reply.response.close()

    async def _handle(self, reply: Reply) -> None:
        transport = self._transport
        match reply.verdict.next:
            case Next.RESPONSE:
                transport.responded(self, reply)
                body = await read_body(reply.response, transport.limit)
                is_answer = self.id in answered_ids(body, self.session.revision)
                frame = body if is_answer else error_for_id(body, self.id)
                if frame is None:
                    raise not_an_answer(body)
                self._answer(frame)
            case Next.STREAM:
                transport.responded(self, reply)
                await self._follow(reply.response)
            case Next.ACCEPTED:
                pass
            case Next.ERROR if self.id:
                frame = error_for_id(reply.error_body, self.id)
                assert frame is not None  # this verdict implies it
                self._answer(frame)
            case Next.ERROR if not self.method and reply.verdict.status in _NOT_NOW:
                verdict = reply.verdict
                message = f"HTTP {verdict.status}: {quote(reply.error_body)}"
                raise TransportError(message, retry_in=verdict.retry_in, details={"status": verdict.status})
            case Next.ERROR:
                logger.warning("the server rejected %s: %s", self.method or "a response", reply.error_body[:200])
            case Next.SESSION_LOST:
                transport.session_expired(self)
            case Next.TRY_INITIALIZE:
                transport.lost(self, transport.error_for_reply(self, reply), was_declined=True)
            case Next.UNEXPECTED if self.kind is Sent.PROBE:
                # This is not a DiscoverResult: `initialize` may succeed.
                transport.lost(self, reply.error(), was_declined=True)
            case Next.TRY_LEGACY:
                await transport.try_legacy(self, reply)
            case _:
                raise transport.error_for_reply(self, reply)

    def _answer(self, frame: bytes) -> None:
        self.was_answered = True
        self._transport.answered(self, frame)
        self._transport.deliver(frame)

    # --- streams ------------------------------------------------------------------------------------------------------

    async def _follow(self, response: HttpResponse) -> None:
        """Read the stream up to its answer, resuming it as often as necessary."""
        reader = EventReader(self._transport.limit)
        failures = 0
        try:
            while True:
                broken = await self._read(response, reader)
                if self.was_answered:
                    return
                if not self._may_resume(reader):
                    raise OutcomeUnknownError(_ENDED if broken is None else broken.message) from broken
                failures = 0 if reader.events_read else failures + 1
                await response.close()
                response = await self._resumed(reader, failures)
                reader = next_reader(reader)
        finally:
            await response.close()

    async def _resumed(self, reader: EventReader, failures: int) -> HttpResponse:
        """Return the response that continues this stream. Raises: OutcomeUnknownError if it cannot be resumed."""
        while failures <= MAX_RESUMES:
            await asyncio.sleep(resume_delay(reader.retry, failures))
            response = await self._resume(reader)
            if response is not None:
                return response
            failures += 1
        raise OutcomeUnknownError(f"{_ENDED}, and could not be resumed")

    async def _read(self, response: HttpResponse, reader: EventReader) -> McpError | None:
        """Read to the answer or the end. Returns the error if the connection was lost."""
        try:
            async with aclosing(read_events(response, reader)) as events, asyncio.timeout(None) as lingering:
                async for event in events:
                    if isinstance(event, FrameTooLargeError):
                        if not self.was_answered:
                            raise FrameTooLargeError(event.size, event.limit, sent=True)
                    elif event.event != "message":
                        continue
                    elif self.was_answered or self.id not in answered_ids(event.data, self.session.revision):
                        self._transport.receive(event.data, self.id)
                    else:
                        self._answer(event.data)
                        lingering.reschedule(asyncio.get_running_loop().time() + LINGER)
        except TimeoutError:
            pass  # the answer is here; only the connection is closed
        except OutcomeUnknownError as error:
            return error
        return None

    def _may_resume(self, reader: EventReader) -> bool:
        """Return whether the stream has event ids and the revision can resume (2025-11-25 "Resumability")."""
        revision = self.revision(self._transport.session.revision)
        has_revision = revision is not None and revision.has_resumable_streams
        return bool(reader.last_event_id) and (has_revision or self.kind is Sent.INITIALIZE)

    async def _resume(self, reader: EventReader) -> HttpResponse | None:
        """Return the continued stream, or None to try again later. Raises: OutcomeUnknownError if it is rejected."""
        session = self._transport.session if self.kind is Sent.INITIALIZE else self.session
        try:
            headers = listen_headers(session.revision, session_id=session.id, last_event_id=reader.last_event_id)
            reply = await self._transport.sender.send(Sent.LISTEN, headers, None)
        except (CannotConnect, OutcomeUnknownError):
            return None
        except McpError as error:
            # Whatever failed here (an invalid event id, authorization), the call itself was sent.
            raise OutcomeUnknownError(f"{_ENDED}, and cannot be resumed: {error.message}") from error
        if reply.verdict.next is Next.STREAM:
            return reply.response
        await reply.response.close()
        if reply.verdict.next in (Next.THROTTLED, Next.UNAVAILABLE):
            return None
        status = reply.verdict.status
        message = f"{_ENDED}, and the server rejected resuming it (HTTP {status})"
        raise OutcomeUnknownError(message, details={"status": status})
