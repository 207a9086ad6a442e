"""One POST of ours, from the frame to the end of its response: a task of its own, that fails alone.

What a response means is `jackstay.protocol.http`'s to say (`Next`), what it leads to is the line's (`_transport`); here is
the reading. A response that ends without the answer is resumed where the server gave event ids for that (2025-03-26 to
2025-11-25), after the time it asked for, and is otherwise an outcome at once: unknown, because it was sent.

Must never know other requests, the queue or the session's fate. Above: `_transport`, which implements `Line`. Below: `_sending`,
`_reading`, `_streams`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, Protocol

import msgspec

from jackstay.errors import FrameTooLargeError, McpError, OutcomeUnknownError
from jackstay.protocol import Revision
from jackstay.protocol.http import Next, ParamHeader, Sent, listen_headers, post_headers
from jackstay.protocol.wire import EventReader
from jackstay.transport._contract import ExchangeOwner
from jackstay.transport.http._contract import HttpResponse
from jackstay.transport.http._outgoing import Outgoing
from jackstay.transport.http._reading import answered_ids, error_for_id, not_an_answer, read_body
from jackstay.transport.http._sending import CannotConnect, Reply, Sender
from jackstay.transport.http._streams import next_reader, read_events, resume_delay

logger = logging.getLogger("jackstay.client")

# How long a stream may go on after the answer before its connection is given up: servers end it at once, and then the
# connection can be used again.
LINGER: Final = 1.0

# How often a lost stream is asked for in a row without a new event before the outcome is called unknown. The deadline of
# the call bounds it as well; this is for callers that have none.
MAX_RESUMES: Final = 8

_ENDED = "the response ended without an answer"


class Session(msgspec.Struct):
    """What a server gave us with its InitializeResult. A new one for each: an old response cannot touch it."""

    id: str | None = None
    revision: Revision | None = None


class Line(Protocol):
    """What a POST needs of the transport, and tells it."""

    sender: Sender
    session: Session
    limit: int
    has_agreed: bool

    def deliver(self, frame: bytes) -> None:
        """This frame came; where it is the answer to a POST of its own, `answered()` was called before."""

    def hear(self, frame: bytes, source: int = 0) -> None:
        """This frame came on a stream; it may be anything, also another request's answer. `source` as for `Transport.source`."""

    def answered(self, post: "Post", frame: bytes) -> None:
        """The answer is here: nothing more is waited for."""

    def responded(self, post: "Post", reply: Reply) -> None:
        """The headers are here, of a response that is read."""

    def turned_away(self, post: "Post") -> None:
        """The server forgot the session that it was sent under."""

    def lost(self, post: "Post", error: McpError, *, was_declined: bool, could_connect: bool) -> None:
        """It ends without an answer."""

    def refusal(self, post: "Post", reply: Reply) -> McpError:
        """What ends a request that got this response."""

    async def try_legacy(self, post: "Post", reply: Reply) -> None:
        """This `initialize` was declined: look for a server of 2024-11-05."""


class Post:
    """One frame under way. Its task is `task`; cancelling that closes its response."""

    __slots__ = ("_line", "kind", "number", "out", "owner", "session", "task", "was_answered")

    def __init__(self, line: Line, out: Outgoing, number: int, owner: ExchangeOwner) -> None:
        self._line = line
        self.out = out
        self.number = number
        self.owner = owner
        self.session = line.session
        self.kind = out.kind(line.has_agreed)
        self.task: asyncio.Task[None] | None = None
        self.was_answered = False

    def __repr__(self) -> str:
        return f"<Post {self.out.method or 'a response'} {self.out.id}>"

    @property
    def id(self) -> int:
        """The request's id; 0 where no answer comes back."""
        return self.out.id or 0

    def start(
        self, owner: ExchangeOwner, carry: Callable[["Post"], Awaitable[None]] | None = None
    ) -> asyncio.Task[None]:
        """Send it now, under the session of now: by `carry`, or as Streamable HTTP has it. Its task."""
        self.owner = owner
        self.session = self._line.session
        self.kind = self.out.kind(self._line.has_agreed)
        self.task = asyncio.get_running_loop().create_task(self._run(carry or Post._carry))
        return self.task

    async def _run(self, carry: Callable[["Post"], Awaitable[None]]) -> None:
        line = self._line
        try:
            await carry(self)
        except CannotConnect as failure:
            line.lost(self, failure.error, was_declined=False, could_connect=False)
        except McpError as error:
            line.lost(self, error, was_declined=False, could_connect=True)
        except Exception as error:  # the edge of somebody else's HTTP client or authorizer
            logger.exception("a request could not be carried")
            unknown = OutcomeUnknownError(f"{type(error).__name__}: {error}")
            line.lost(self, unknown, was_declined=False, could_connect=True)

    async def _carry(self) -> None:
        out, session = self.out, self.session
        revision = out.revision(session.revision)
        params: Sequence[tuple[str, str]] = ()
        if out.method == "tools/call" and revision is not None and revision.has_method_headers:
            rows: Sequence[ParamHeader] = self.owner.marked_arguments(out.name or "")
            params = out.param_headers(rows)
        session_id = None if self.kind is Sent.INITIALIZE else session.id
        headers = post_headers(
            revision, out.method, name=out.name, session_id=session_id, params=tuple(params)
        )
        reply = await self._line.sender.send(self.kind, headers, out.frame, session_id=session_id)
        try:
            await self._take(reply)
        finally:
            await reply.response.close()

    async def _take(self, reply: Reply) -> None:
        line = self._line
        match reply.verdict.next:
            case Next.ANSWER:
                line.responded(self, reply)
                body = await read_body(reply.response, line.limit)
                is_ours = self.id in answered_ids(body, self.session.revision)
                frame = body if is_ours else error_for_id(body, self.id)
                if frame is None:
                    raise not_an_answer(body)
                self._answer(frame)
            case Next.STREAM:
                line.responded(self, reply)
                await self._follow(reply.response)
            case Next.ACCEPTED:
                pass
            case Next.ERROR if self.id:
                frame = error_for_id(reply.refusal, self.id)
                assert frame is not None  # that verdict needs the error
                self._answer(frame)
            case Next.ERROR:
                logger.warning(
                    "the server refused %s: %s", self.out.method or "an answer", reply.refusal[:200]
                )
            case Next.SESSION_LOST:
                line.turned_away(self)
            case Next.TRY_INITIALIZE:
                line.lost(self, reply.error(), was_declined=True, could_connect=True)
            case Next.UNEXPECTED if self.kind is Sent.PROBE:
                # Whatever it means by that, it is no DiscoverResult: `initialize` may be answered better.
                line.lost(self, reply.error(), was_declined=True, could_connect=True)
            case Next.TRY_LEGACY:
                await line.try_legacy(self, reply)
            case _:
                raise line.refusal(self, reply)

    def _answer(self, frame: bytes) -> None:
        self.was_answered = True
        self._line.answered(self, frame)
        self._line.deliver(frame)

    # --- streams ------------------------------------------------------------------------------------------------------

    async def _follow(self, response: HttpResponse) -> None:
        """Read the stream to its answer, across as many responses as that takes."""
        reader = EventReader(self._line.limit)
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
        """The response that goes on where this one ended. Raises: OutcomeUnknownError where there is none to be had."""
        while failures <= MAX_RESUMES:
            await asyncio.sleep(resume_delay(reader.retry, failures))
            response = await self._resume(reader)
            if response is not None:
                return response
            failures += 1
        raise OutcomeUnknownError(f"{_ENDED}, and could not be resumed")

    async def _read(self, response: HttpResponse, reader: EventReader) -> McpError | None:
        """Read to the answer or the end. What it broke with, if it did."""
        try:
            async with aclosing(read_events(response, reader)) as events:
                async for event in events:
                    if isinstance(event, FrameTooLargeError):
                        raise FrameTooLargeError(event.size, event.limit, sent=True)
                    if event.event != "message":
                        continue
                    if self.id in answered_ids(event.data, self.session.revision):
                        self._answer(event.data)
                        break
                    self._line.hear(event.data, self.id)
                if self.was_answered:
                    async with asyncio.timeout(LINGER):
                        async for event in events:
                            if not isinstance(event, FrameTooLargeError) and event.event == "message":
                                self._line.hear(event.data, self.id)
        except TimeoutError:
            pass  # its connection is closed, that is all
        except OutcomeUnknownError as error:
            return error
        return None

    def _may_resume(self, reader: EventReader) -> bool:
        """Event ids are what a stream can be resumed by, in the revisions that have it (2025-11-25 "Resumability")."""
        revision = self.out.revision(self._line.session.revision)
        if self.kind is Sent.INITIALIZE:
            return bool(reader.last_event_id)
        return revision is not None and revision.has_resumable_streams and bool(reader.last_event_id)

    async def _resume(self, reader: EventReader) -> HttpResponse | None:
        """The rest of the stream, or None where it may be had later. Raises: OutcomeUnknownError where it may not."""
        session = self._line.session if self.kind is Sent.INITIALIZE else self.session
        try:
            headers = listen_headers(
                session.revision, session_id=session.id, last_event_id=reader.last_event_id
            )
            reply = await self._line.sender.send(Sent.LISTEN, headers, None)
        except (CannotConnect, OutcomeUnknownError):
            return None
        except McpError as error:
            # Whatever it says of the GET (an id that no header can carry, a sign-in that failed): the call was sent.
            raise OutcomeUnknownError(f"{_ENDED}, and cannot be resumed: {error.message}") from error
        if reply.verdict.next is Next.STREAM:
            return reply.response
        await reply.response.close()
        if reply.verdict.next in (Next.THROTTLED, Next.UNAVAILABLE):
            return None
        refused = OutcomeUnknownError(f"{_ENDED}, and resuming it was refused (HTTP {reply.verdict.status})")
        refused.details["status"] = reply.verdict.status
        raise refused
