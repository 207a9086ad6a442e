"""The HTTP transport: every frame a POST of its own, the standing stream, the session, and the way out.

Requests run side by side, each a task that fails alone (`_posts`). Two things keep them from being sent at once: there are
`max_connections` under way already, or `notifications/initialized` is not taken yet, which servers want before anything else.
What waits then is not sent, and can be dropped without a trace. Messages that others wait for (answers to the server,
cancellations) and subscriptions, which stay open, never wait in that queue.

`down` is said only where no connection can be made and nothing else is open (docs/design/connection.md, "Over HTTP"). A session
that the server forgot is told to the owner that the request was sent under; `renew()` begins the next over the same
connections, and what is left of the old one can no longer touch it.

Must never know states, deadlines or retries of calls. Above: the client's driver. Below: `_posts`, `_streams`, `_legacy`, `_sending`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Final

from jackstay.errors import McpError, OutcomeUnknownError, TransportError
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import Next, Sent, delete_headers, error_for, new_session_id
from jackstay.transport._contract import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, ExchangeOwner
from jackstay.transport.http._contract import HttpClient
from jackstay.transport.http._legacy import LegacyStream, open_legacy
from jackstay.transport.http._outgoing import read_outgoing
from jackstay.transport.http._posts import Post, Session
from jackstay.transport.http._reading import (
    answered_ids,
    error_for_id,
    error_in,
    is_result,
    negotiated_version,
    quote,
)
from jackstay.transport.http._sending import CannotConnect, Reply, Sender
from jackstay.transport.http._streams import StandingStream

logger = logging.getLogger("jackstay.client")

# These find out whether the server still answers, also while every connection is in use.
_CHECKS: Final = frozenset(("ping", "server/discover"))
_GUARD: Final = 1.0  # how long cancelled tasks may take to close their connections


class Memory:
    """What was learnt about a server, kept by its target: how to reach it next time, and whether it ever answered."""

    __slots__ = ("is_legacy", "was_reached")

    def __init__(self) -> None:
        self.is_legacy = False
        self.was_reached = False


class HttpTransport:
    """One connection of a client over HTTP."""

    def __init__(
        self,
        sender: Sender,
        owner: ExchangeOwner,
        memory: Memory,
        *,
        limit: int,
        close_step: float,
        max_connections: int,
        owned_client: HttpClient | None,
    ) -> None:
        self.sender = sender
        self.session = Session()
        self.limit = limit
        self.has_agreed = False
        self._owner = owner
        self._memory = memory
        self._close_step = close_step
        self._max_connections = max_connections
        self._owned_client = owned_client
        self._inbox: deque[tuple[bytes, int]] = deque()
        # The id of the request whose response carried the frame that was pulled last; 0: it came otherwise.
        self.source = 0
        self._waiting: deque[Post] = deque()
        self._waiting_bytes = 0
        self._was_busy = False
        self._open: dict[Post, None] = {}
        self._by_id: dict[int, Post] = {}
        # Requests that count against `max_connections`: not those that stand, nor those that were answered.
        self._running = 0
        self._is_held = False
        # The server forgot the session: what waits is for the next one.
        self._is_lost = False
        self._standing: StandingStream | None = None
        self._legacy: LegacyStream | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled = asyncio.Event()
        self._is_down = False
        self._is_shut = False
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        kind = "HTTP+SSE" if self._legacy is not None else "HTTP"
        return f"<HttpTransport {kind} open={len(self._open)} waiting={len(self._waiting)}>"

    @property
    def _is_ended(self) -> bool:
        return self._is_down or self._is_shut

    # --- the contract -------------------------------------------------------------------------------------------------

    def send(self, frame: bytes, number: int) -> bool:
        """As the contract says. Raises: UsageError for a frame that is no JSON-RPC message."""
        if self._is_ended:
            return False
        out = read_outgoing(frame)
        if out.cancels is not None and self._drop(out.cancels):
            return True  # it was never sent: there is nothing to cancel
        post = Post(self, out, number, self._owner)
        may_wait = post.kind is Sent.REQUEST and not out.stands
        is_crowded = self._running >= self._max_connections and out.method not in _CHECKS
        if may_wait and (self._is_held or is_crowded):
            is_full = len(self._waiting) >= MAX_QUEUED_FRAMES
            if is_full or (self._waiting and self._waiting_bytes + len(frame) > MAX_QUEUED_BYTES):
                self._was_busy = True
                return False
            self._waiting.append(post)
            self._waiting_bytes += len(frame)
            self._owner.queued(post.id)
            return True
        self._start(post)
        return True

    def withdraw(self, number: int) -> bool:
        """As the contract says."""
        was_here = any(post.number == number and self._drop(post.id) for post in self._waiting)
        if was_here and self._was_busy:
            asyncio.get_running_loop().call_soon(self._pump)
        return was_here

    def next_frame(self) -> bytes | McpError | None:
        """As the contract says."""
        if not self._inbox:
            return None
        frame, self.source = self._inbox.popleft()
        return frame

    async def flush(self) -> bool:
        """As the contract says: a request is with the operating system for sure when its response is here."""
        while not self._is_ended:
            if not self._waiting and all(post.out.stands for post in self._open):
                return True
            self._settled.clear()
            await self._settled.wait()
        return False

    def hang_up(self, id: int) -> None:
        """As the contract says."""
        if not self._drop(id):
            post = self._by_id.get(id)
            if post is not None and post.task is not None:
                post.task.cancel()

    def renew(self, owner: ExchangeOwner) -> None:
        """As the contract says. What waits goes out when the new session stands."""
        self._owner = owner
        self.session = Session()
        self.has_agreed = False
        self._is_held = True
        self._is_lost = False
        for post in self._waiting:
            post.number = 0  # the new owner's count begins anew
        self._end_standing()

    def stop_writing(self) -> None:
        """As the contract says: requests that wait are dropped, and open ones are cancelled before their next step.

        A request is cancelled once: a second time would interrupt the closing of its connection.
        """
        if not self._is_shut:
            self._is_shut = True
            self._waiting.clear()
            self._waiting_bytes = 0
            self._settled.set()
            for post in self._open:
                if post.task is not None:
                    post.task.cancel()

    async def close(self) -> None:
        """As the contract says: the session is ended, where there is one, and every connection closed."""
        self.stop_writing()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    # --- posts --------------------------------------------------------------------------------------------------------

    def _start(self, post: Post) -> None:
        if post.out.method == "notifications/initialized":
            self._is_held = True
        self._open[post] = None
        if post.id:
            self._by_id[post.id] = post
            self._running += not post.out.stands
        is_legacy = self._legacy is not None or (post.kind is Sent.INITIALIZE and self._memory.is_legacy)
        task = post.start(self._owner, self._carry_legacy if is_legacy else None)
        task.add_done_callback(partial(self._settle, post))

    def _settle(self, post: Post, task: "asyncio.Task[None]") -> None:
        """Its task is done, one way or the other."""
        self._open.pop(post, None)
        self._release(post)
        self._settled.set()
        if self._is_ended:
            return
        if not task.cancelled():
            self._follow_up(post)
        self._pump()

    def _follow_up(self, post: Post) -> None:
        """What the end of some messages leads to."""
        if post.out.method == "notifications/initialized":
            if post.session is self.session and not self._is_lost:  # else the next is being made
                self._is_held = False
                # Before any call: a server sends requests that belong to no call on this stream, and drops them without it.
                self._open_standing()
        elif post.out.cancels is not None:
            # The server was told; what it may still say about that request nobody reads.
            cancelled = self._by_id.get(post.out.cancels)
            if cancelled is not None and cancelled.task is not None and self._legacy is None:
                cancelled.task.cancel()

    def _release(self, post: Post) -> None:
        """It no longer counts: it was answered, or it ended."""
        if post.id and self._by_id.get(post.id) is post:
            del self._by_id[post.id]
            self._running -= not post.out.stands

    def _pump(self) -> None:
        if self._is_ended:
            return
        while self._waiting and not self._is_held and self._running < self._max_connections:
            post = self._waiting.popleft()
            self._waiting_bytes -= len(post.out.frame)
            self._owner.started(post.id)
            self._start(post)
        is_half_empty = (
            len(self._waiting) <= MAX_QUEUED_FRAMES // 2 and self._waiting_bytes <= MAX_QUEUED_BYTES // 2
        )
        if self._was_busy and is_half_empty:
            self._was_busy = False
            self._owner.room_made()

    def _drop(self, id: int) -> bool:
        """Forget a request that waits. False: it does not."""
        for post in self._waiting:
            if post.id == id:
                self._waiting.remove(post)
                self._waiting_bytes -= len(post.out.frame)
                return True
        return False

    # --- what posts tell (Line) ---------------------------------------------------------------------------------------

    def deliver(self, frame: bytes, source: int = 0) -> None:
        """Something came: for a request, or by itself."""
        if not self._is_ended:
            self._inbox.append((frame, source))
            self._owner.frames_arrived()

    def hear(self, frame: bytes, source: int = 0) -> None:
        """Something came on a stream. Servers have answered on another stream than the request's own: then nothing more is
        waited for there.
        """
        for id in answered_ids(frame, self.session.revision):
            other = self._by_id.get(id) if isinstance(id, int) else None
            if other is not None and other.task is not None and self._legacy is None:
                other.was_answered = True
                other.task.cancel()
        self.deliver(frame, source)

    def responded(self, post: Post, reply: Reply) -> None:
        """The session begins with the headers of the response to `initialize`. Raises: ProtocolError."""
        if post.kind is Sent.INITIALIZE:
            self.session = Session(new_session_id(reply.response.headers))

    def answered(self, post: Post, frame: bytes) -> None:
        """The answer is about to be delivered."""
        self._release(post)
        if post.kind is Sent.INITIALIZE:
            self.session.revision = REVISIONS.get(negotiated_version(frame) or "")
        if post.kind in (Sent.INITIALIZE, Sent.PROBE) and is_result(frame):
            self.has_agreed = self._memory.was_reached = True
            if post.kind is Sent.PROBE:
                self._is_held = False

    def turned_away(self, post: Post) -> None:
        """The session that this was sent under is gone."""
        self._release(post)
        if post.session is self.session:
            self._is_held = self._is_lost = True
        post.owner.session_lost(post.id)

    def lost(self, post: Post, error: McpError, *, was_declined: bool, could_connect: bool) -> None:
        """A request ended without an answer."""
        if self._is_ended or post.was_answered:
            return
        if post.kind in (Sent.PROBE, Sent.INITIALIZE):
            error = self._of_the_handshake(error)
        self._release(post)
        self._open.pop(post, None)  # its task is about to end: it keeps nobody else from being the last
        if post.id:
            post.owner.exchange_lost(post.id, error, was_declined)
        else:
            logger.warning("the server did not get %s: %s", post.out.method or "an answer", error)
        is_alone = not any(other.id for other in self._open)
        is_heard = self._standing is not None and self._standing.is_open
        if not could_connect and is_alone and not is_heard and not self._is_ended:
            self._go_down(error)

    def _of_the_handshake(self, error: McpError) -> McpError:
        """Nothing of the user's can have run because of it: `judge` says so of responses, and this of none."""
        if not isinstance(error, OutcomeUnknownError):
            return error
        is_plain = self.sender.url.startswith("http:") and not self._memory.was_reached
        hint = " (should the URL begin with https?)" if is_plain and "status" not in error.details else ""
        lost = TransportError(f"{error.message}{hint}", details=error.details, retry_in=error.retry_in)
        lost.__cause__ = error
        return lost

    def refusal(self, post: Post, reply: Reply) -> McpError:
        """What ends a request that got this response. A page in place of the first answer is no server, and will be none."""
        if post.kind is Sent.INITIALIZE and reply.verdict.next is Next.UNEXPECTED:
            return self._no_server(reply, f"with {reply.verdict.content_type[:80]!a} to `initialize`")
        return reply.error()

    def _no_server(self, reply: Reply, how: str) -> McpError:
        """Where this server was never reached a wrong URL must be reported soon. Else it may be back after a redeploy."""
        error = reply.error()
        if self._memory.was_reached:
            return error
        refusal = error_in(reply.refusal)
        url = reply.url.partition("?")[0]
        said = f"there is no MCP server at this URL: HTTP {reply.verdict.status} from {url} {how}"
        if refusal is not None and refusal.message:
            said += f": {quote(refusal.message.encode())}"
        else:
            said += "; is the path right? Many servers are at /mcp"
        absent = TransportError(said, absent=True, details=error.details)
        absent.__cause__ = error
        return absent

    def _go_down(self, error: McpError) -> None:
        if not self._is_ended:
            self._is_down = True
            self._settled.set()
            self._owner.went_down(error, None, not self._memory.was_reached)

    # --- the standing stream ------------------------------------------------------------------------------------------

    def _open_standing(self) -> None:
        session = self.session
        if self._legacy is not None or session.revision is None or not session.revision.has_streamable_http:
            return
        self._end_standing()
        self._standing = StandingStream(
            self.sender,
            session.revision,
            session.id,
            limit=self.limit,
            deliver=self.hear,
            lose_session=partial(self._lose_session, session, self._owner),
        )
        self._task(self._standing.run())

    def _lose_session(self, session: Session, owner: ExchangeOwner) -> None:
        if session is self.session:
            self._is_held = self._is_lost = True
            owner.session_lost(0)

    def _end_standing(self) -> None:
        self._standing = None
        for task in self._tasks:
            task.cancel()

    def _task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)

    def _forget_task(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("the standing stream failed", exc_info=task.exception())

    # --- 2024-11-05 ---------------------------------------------------------------------------------------------------

    async def try_legacy(self, post: Post, reply: Reply) -> None:
        """This `initialize` was declined, as a server of 2024-11-05 does. Its own error stands where there is no such server."""
        stream: LegacyStream | None = None
        try:
            stream = await open_legacy(self.sender, self.limit)
        except (CannotConnect, McpError) as absent:
            logger.debug("no HTTP+SSE here: %s", absent)
        if stream is not None:
            self._adopt(stream)
            await self._post_legacy(post)
            return
        frame = error_for_id(reply.refusal, post.id)
        if frame is not None and (reply.verdict.status == 400 or self._memory.was_reached):
            post.was_answered = True
            self.deliver(frame)
            return
        error = self._no_server(reply, "to `initialize`, and offers no HTTP+SSE")
        self.lost(post, error, was_declined=True, could_connect=True)

    async def _carry_legacy(self, post: Post) -> None:
        """A POST to a server of 2024-11-05, or the first one to a server that was one the last time."""
        if self._legacy is None:
            stream = await open_legacy(self.sender, self.limit)
            if stream is None:
                self._memory.is_legacy = False
                raise TransportError("the server no longer offers HTTP+SSE")
            self._adopt(stream)
        await self._post_legacy(post)

    def _adopt(self, stream: LegacyStream) -> None:
        self._legacy = stream
        self._memory.is_legacy = self._memory.was_reached = True
        stream.start(self.deliver, self._go_down)

    async def _post_legacy(self, post: Post) -> None:
        assert self._legacy is not None  # adopted before
        frame = await self._legacy.post(post.out.frame, post.id)
        if frame is not None:
            post.was_answered = True
            self.deliver(frame)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _close(self) -> None:
        self._inbox.clear()
        for task in self._tasks:
            task.cancel()
        tasks = {post.task for post in self._open if post.task is not None} | self._tasks
        if tasks:
            await asyncio.wait(tasks, timeout=_GUARD)
        if self._legacy is not None:
            await self._close_in_time(self._legacy.close(), "the stream of the server")
        await self._end_session()
        if self._owned_client is not None:
            await self._close_in_time(self._owned_client.close(), "the HTTP client")

    async def _close_in_time(self, closing: Awaitable[None], what: str) -> None:
        """The HTTP client may be anybody's: what it does not close holds nobody up."""
        try:
            async with asyncio.timeout(self._close_step):
                await closing
        except TimeoutError:
            logger.warning("%s does not close", what)

    async def _end_session(self) -> None:
        """Tell the server, once and within bounds: "Clients SHOULD send an HTTP DELETE" (2025-11-25). It may not care."""
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
        except Exception:  # the edge of somebody else's HTTP client or authorizer
            logger.exception("the session could not be ended")


__all__ = ["HttpTransport", "Memory"]
