"""The HTTP transport: one POST per frame, the GET stream, and the session.

Requests run concurrently, each in a task (`_posts`). They are queued while `max_connections` are in flight, and until
the server has accepted `notifications/initialized`; responses to the server, cancellations and subscriptions never are.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from functools import partial
from typing import Final

import msgspec

from jackstay.errors import McpError, OutcomeUnknownError, TransportError
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import Next, Sent, delete_headers, error_for, new_session_id
from jackstay.transport._contract import ExchangeHandler
from jackstay.transport._queue import FrameQueue
from jackstay.transport.http._contract import HttpClient
from jackstay.transport.http._legacy import LegacyStream, open_legacy
from jackstay.transport.http._posts import Post, Session
from jackstay.transport.http._reading import answered_ids, error_for_id, error_in, is_result, negotiated_version, quote
from jackstay.transport.http._sending import CannotConnect, Reply, Sender
from jackstay.transport.http._streams import GetStream

logger = logging.getLogger("jackstay.client")

_CHECK_PATH = "check the path, many servers use /mcp"

# Liveness checks: sent even while every connection is in use.
_CHECKS: Final = frozenset(("ping", "server/discover"))
_GUARD: Final = 1.0  # how long cancelled tasks may take to close their connections


class KnownServer(msgspec.Struct):
    """What a target remembers about its server: whether it uses HTTP+SSE, and whether it ever responded.

    `was_cut_off`: the newest handshake ended because the other side closed the connection without a complete response.
    """

    is_legacy: bool = False
    was_cut_off: bool = False
    was_reached: bool = False


class HttpTransport(msgspec.Struct, eq=False, kw_only=True):
    """One connection of a client over HTTP."""

    sender: Sender
    limit: int
    session: Session = msgspec.field(default_factory=Session)
    has_agreed: bool = False
    # The id of the request whose response carried the frame that was pulled last; 0: another stream.
    source: int = 0
    _handler: ExchangeHandler
    _known: KnownServer
    _was_cut_off_before: bool = False
    _close_step: float
    _max_connections: int
    _owned_client: HttpClient | None
    _inbox: deque[tuple[bytes, int]] = msgspec.field(default_factory=deque)
    _queue: FrameQueue[Post]
    _open: dict[Post, None] = {}
    _by_id: dict[int, Post] = {}
    # Requests that count against `max_connections`: not subscriptions, nor those that were answered.
    _running: int = 0
    _is_paused: bool = False
    # The server dropped the session: queued requests wait for the next one.
    _is_lost: bool = False
    _legacy: LegacyStream | None = None
    # Also those of former sessions, until they have ended.
    _get_streams: dict[asyncio.Task[None], GetStream] = {}
    _settled: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    _is_down: bool = False
    _is_shut: bool = False
    _closing: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._was_cut_off_before, self._known.was_cut_off = self._known.was_cut_off, False

    def __repr__(self) -> str:
        kind = "HTTP+SSE" if self._legacy is not None else "HTTP"
        return f"<HttpTransport {kind} open={len(self._open)} waiting={len(self._queue)}>"

    @property
    def _is_ended(self) -> bool:
        return self._is_down or self._is_shut

    # --- the contract -------------------------------------------------------------------------------------------------

    def send(self, frame: bytes, number: int) -> bool:
        """See `Transport.send`. Raises: UsageError for a frame that is not a JSON-RPC message."""
        if self._is_ended:
            return False
        post = Post(self, frame)
        if post.cancels is not None and self._drop(post.cancels):
            return True  # the request was never sent: there is nothing to cancel
        may_wait = post.sent_as() is Sent.REQUEST and not post.is_long_lived
        is_crowded = self._running >= self._max_connections and post.method not in _CHECKS
        if may_wait and (self._is_paused or is_crowded):
            if self._queue.is_busy(len(frame)):
                return False
            self._queue.add(number, post)
            self._handler.queued(post.id)
            return True
        self._start(post)
        return True

    def withdraw(self, number: int) -> bool:
        """See `Transport.withdraw`."""
        return self._queue.withdraw(number)

    def next_frame(self) -> bytes | McpError | None:
        """See `Transport.next_frame`."""
        if not self._inbox:
            return None
        frame, self.source = self._inbox.popleft()
        return frame

    async def flush(self) -> bool:
        """See `Transport.flush`. A request counts as written when its response has arrived."""
        while not self._is_ended:
            if not self._queue.frames and all(post.is_long_lived for post in self._open):
                return True
            self._settled.clear()
            await self._settled.wait()
        return False

    def abort(self, id: int) -> None:
        """See `ExchangeTransport.abort`."""
        if not self._drop(id):
            post = self._by_id.get(id)
            if post is not None:
                post.task.cancel()

    def renew(self, handler: ExchangeHandler) -> None:
        """See `ExchangeTransport.renew`. Queued requests are sent when the new session is established."""
        self._handler = handler
        self._queue.renew(handler)
        self.session = Session()
        self.has_agreed = False
        self._is_paused = True
        self._is_lost = False
        self._close_get_stream()

    def stop_writing(self) -> None:
        """See `Transport.stop_writing`. Queued requests are dropped, and open ones are cancelled.

        Each request is cancelled only once: a second time would interrupt the closing of its connection.
        """
        if not self._is_shut:
            self._is_shut = True
            self._queue.clear()
            self._settled.set()
            for post in self._open:
                post.task.cancel()

    async def close(self) -> None:
        """See `Transport.close`. Ends the session, if there is one, and closes every connection."""
        self.stop_writing()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    # --- posts --------------------------------------------------------------------------------------------------------

    def _start(self, post: Post) -> None:
        if post.method == "notifications/initialized":
            self._is_paused = True
        self._open[post] = None
        if post.id:
            self._by_id[post.id] = post
            self._running += not post.is_long_lived
        is_legacy = self._legacy is not None or (post.sent_as() is Sent.INITIALIZE and self._known.is_legacy)
        task = post.start(self._handler, self._send_legacy if is_legacy else None)
        task.add_done_callback(partial(self._settle, post))

    def _settle(self, post: Post, task: "asyncio.Task[None]") -> None:
        """The task of this POST is done."""
        self._open.pop(post, None)
        self._release(post)
        self._settled.set()
        if self._is_ended:
            return
        if not task.cancelled():
            self._follow_up(post)
        self._pump()

    def _follow_up(self, post: Post) -> None:
        """Handle the end of `notifications/initialized` and of cancellations."""
        if post.method == "notifications/initialized":
            if post.session is self.session and not self._is_lost:  # otherwise a new session is being opened
                self._is_paused = False
                # Before any call: servers send requests that belong to no call on this stream, and drop them without
                # it.
                self._open_subscription()
        elif post.cancels is not None:
            # The server was notified; the rest of that response is not needed.
            cancelled = self._by_id.get(post.cancels)
            if cancelled is not None and self._legacy is None:
                cancelled.task.cancel()

    def _release(self, request: Post | GetStream) -> None:
        """Stop counting this request: it was answered or it ended."""
        if self._by_id.get(request.id) is request:
            self._running -= not self._by_id.pop(request.id).is_long_lived

    def _pump(self) -> None:
        if self._is_ended:
            return
        while self._queue.frames and not self._is_paused and self._running < self._max_connections:
            _, post = self._queue.pop()
            self._handler.started(post.id)
            self._start(post)
        self._queue.notify_room()

    def _drop(self, id: int) -> bool:
        """Remove a request from the queue. False: it is not queued."""
        for index, post in enumerate(self._queue.frames):
            if post.id == id:
                self._queue.remove(index)
                return True
        return False

    # --- called by posts ----------------------------------------------------------------------------------------------

    def deliver(self, frame: bytes, source: int = 0) -> None:
        """A frame arrived. If it answers its own POST, `answered()` was called before."""
        if not self._is_ended:
            self._inbox.append((frame, source))
            self._handler.frames_arrived()

    def receive(self, frame: bytes, source: int = 0) -> None:
        """A frame arrived on a stream. It may answer another request, whose own stream is closed then."""
        for id in answered_ids(frame, self.session.revision):
            other = self._by_id.get(id) if isinstance(id, int) else None
            if other is not None and self._legacy is None:
                other.was_answered = True
                other.task.cancel()
        self.deliver(frame, source)

    def responded(self, post: Post, reply: Reply) -> None:
        """The headers of a response arrived, and its body will be read.

        The headers of the response to `initialize` start a session. Raises: ProtocolError.
        """
        if post.kind is Sent.INITIALIZE:
            self.session = Session(new_session_id(reply.response.headers))

    def answered(self, post: Post, frame: bytes) -> None:
        """The answer arrived."""
        self._release(post)
        if post.kind is Sent.INITIALIZE:
            self.session.revision = REVISIONS.get(negotiated_version(frame) or "")
        if post.kind in (Sent.INITIALIZE, Sent.PROBE) and is_result(frame):
            self.has_agreed = self._known.was_reached = True
            if post.kind is Sent.PROBE:
                self._is_paused = False

    def session_expired(self, request: Post | GetStream) -> None:
        """The server dropped the session of this request."""
        self._release(request)
        if request.session is self.session:
            self._is_paused = self._is_lost = True
        request.handler.session_lost(request.id)

    def lost(self, post: Post, error: McpError, *, was_declined: bool = False, could_connect: bool = True) -> None:
        """The POST ends without an answer."""
        if self._is_ended or post.was_answered:
            return
        if post.kind in (Sent.PROBE, Sent.INITIALIZE):
            self._known.was_cut_off = was_cut_off = self.sender.was_cut_off or _is_incomplete(error)
            error = self._as_handshake_error(error)
            if self._was_cut_off_before and was_cut_off and isinstance(error, TransportError):
                # One such start may be an accident of a server that is starting or ending; two are a wrong URL.
                error.absent |= not self._known.was_reached
        self._release(post)
        self._open.pop(post, None)  # its task is about to end: it no longer counts as open
        if post.id:
            post.handler.exchange_lost(post.id, error, was_declined)
        else:
            logger.warning("the server did not receive %s: %s", post.method or "a response", error)
        is_last = not any(other.id for other in self._open)
        has_stream = any(stream.is_open for stream in self._get_streams.values())
        if not could_connect and is_last and not has_stream and not self._is_ended:
            self._go_down(error)

    def _as_handshake_error(self, error: McpError) -> McpError:
        """Return a TransportError for an unknown outcome: no call of the user can have run in the handshake."""
        if not isinstance(error, OutcomeUnknownError):
            return error
        if "status" not in error.details and "quote" in error.details and not self._known.was_reached:
            url, received = self.sender.url.partition("?")[0], error.details["quote"]
            return _replaced(error, f"no HTTP server at {url}: it responded {received}; check the port", absent=True)
        # A TLS server closes the connection instead of responding. One that began a response uses plain HTTP.
        is_plain = self.sender.url.startswith("http:") and not self._known.was_reached and self.sender.was_cut_off
        hint = "; should the URL begin with https://?" if is_plain and "status" not in error.details else ""
        return _replaced(error, f"{error.message}{hint}", retry_in=error.retry_in)

    def error_for_reply(self, post: Post, reply: Reply) -> McpError:
        """Return the error of a request that got this response.

        A web page in response to `initialize` means that there is no server.
        """
        if post.kind is Sent.INITIALIZE and reply.verdict.next is Next.UNEXPECTED:
            return self._not_a_server(reply, f"initialize returned {reply.verdict.content_type[:80]!a}")
        if post.kind is Sent.PROBE and reply.verdict.status == 404 and error_in(reply.error_body) is None:
            # Reported only if the client supports no revision with `initialize`.
            message = f"HTTP 404 at {reply.url.partition('?')[0]}; {_CHECK_PATH}"
            return TransportError(message, details=reply.error().details)
        return reply.error()

    def _not_a_server(self, reply: Reply, how: str) -> McpError:
        """Report a wrong URL at once, unless this server has responded before: it may be back after a redeploy."""
        error = reply.error()
        if self._known.was_reached:
            return error
        found = error_in(reply.error_body)
        more = f": {quote(found.message.encode())}" if found is not None and found.message else f"; {_CHECK_PATH}"
        message = f"no MCP server at {reply.url.partition('?')[0]}: HTTP {reply.verdict.status}, {how}{more}"
        return _replaced(error, message, absent=True)

    def _go_down(self, error: McpError) -> None:
        if not self._is_ended:
            self._is_down = True
            self._settled.set()
            self._handler.went_down(error, None, not self._known.was_reached)

    # --- the GET stream -----------------------------------------------------------------------------------------------

    def _open_subscription(self) -> None:
        session = self.session
        if self._legacy is not None or session.revision is None or not session.revision.has_streamable_http:
            return
        stream = GetStream(self, self._handler)
        task = asyncio.get_running_loop().create_task(stream.run())
        self._get_streams[task] = stream
        task.add_done_callback(self._forget_task)

    def _close_get_stream(self) -> None:
        for task in self._get_streams:
            task.cancel()

    def _forget_task(self, task: "asyncio.Task[None]") -> None:
        del self._get_streams[task]
        if not task.cancelled() and task.exception() is not None:
            logger.error("the GET stream failed", exc_info=task.exception())

    # --- 2024-11-05 ---------------------------------------------------------------------------------------------------

    async def try_legacy(self, post: Post, reply: Reply) -> None:
        """This `initialize` was rejected: try HTTP+SSE of 2024-11-05. If that fails, too, report the original error."""
        try:
            await self._open_legacy()
        except (CannotConnect, McpError) as absent:
            logger.debug("the server does not offer HTTP+SSE: %s", absent)
        else:
            await self._send_legacy(post)
            return
        frame = error_for_id(reply.error_body, post.id)
        if frame is not None and (reply.verdict.status == 400 or self._known.was_reached):
            post.was_answered = True
            self.deliver(frame)
            return
        error = self._not_a_server(reply, "initialize was rejected and HTTP+SSE is not offered")
        self.lost(post, error, was_declined=True)

    async def _send_legacy(self, post: Post) -> None:
        """Send a POST over HTTP+SSE. The first one opens the stream, if the server used HTTP+SSE the last time."""
        legacy = self._legacy or await self._open_legacy()
        frame = await legacy.post(post.frame, post.id)
        if frame is not None:
            post.was_answered = True
            self.deliver(frame)

    async def _open_legacy(self) -> LegacyStream:
        stream = await open_legacy(self.sender, self.limit)
        self._known.is_legacy = stream is not None
        if stream is None:
            raise TransportError("the server no longer offers HTTP+SSE")
        self._legacy = stream
        self._known.was_reached = True
        stream.start(self.deliver, self._go_down)
        return stream

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _close(self) -> None:
        self._inbox.clear()
        self._close_get_stream()
        tasks = {post.task for post in self._open} | self._get_streams.keys()
        if tasks:
            await asyncio.wait(tasks, timeout=_GUARD)
        if self._legacy is not None:
            await self._close_in_time(self._legacy.close(), "the SSE stream")
        await self._end_session()
        if self._owned_client is not None:
            await self._close_in_time(self._owned_client.close(), "the HTTP client")

    async def _close_in_time(self, closing: Awaitable[None], what: str) -> None:
        """Close with a time limit: the HTTP client may be the user's."""
        try:
            async with asyncio.timeout(self._close_step):
                await closing
        except TimeoutError:
            logger.warning("%s did not close within %g s", what, self._close_step)

    async def _end_session(self) -> None:
        """Send an HTTP DELETE once, with a time limit (2025-11-25 "Session Management"). The server may ignore it."""
        session = self.session
        if session.id is None or session.revision is None or self._is_down:
            return
        try:
            async with asyncio.timeout(self._close_step):
                reply = await self.sender.send(
                    Sent.END, delete_headers(session.revision, session.id), None, session_id=session.id
                )
                await reply.response.close()
                error = error_for(reply.verdict)
                if error is not None:
                    logger.debug("the session was not ended: %s", error)
        except (CannotConnect, McpError, TimeoutError) as error:
            logger.debug("the session was not ended: %s", error)
        except Exception:  # raised by the user's HTTP client or authorizer
            logger.exception("ending the session failed")


def _replaced(error: McpError, message: str, *, absent: bool = False, retry_in: float | None = None) -> TransportError:
    """Return a TransportError caused by this error, with its details."""
    other = TransportError(message, details=error.details, absent=absent, retry_in=retry_in)
    other.__cause__ = error
    return other


def _is_incomplete(error: McpError) -> bool:
    """Return whether the other side ended a response early, instead of being slow or responding with a status."""
    is_slow = isinstance(error.__cause__, TimeoutError)
    return isinstance(error, OutcomeUnknownError) and "status" not in error.details and not is_slow
