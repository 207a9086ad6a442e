"""One POST that is a connection of its own: every request of the stateless era, and the handshake era without sessions.

Nothing is remembered after it. Its handler runs in the very task that the ASGI server made for the request, so that the
usual call costs no task of ours; what has to happen beside it starts only where it is needed: a writer with the first
notification, which turns the answer into a stream; somebody who watches for the client's leaving once a handler takes long.

The answer is JSON where it is there before anything else had to be said, and a stream from then on, if the client takes one.
A client that takes no stream is not told of progress. In the stateless era a client that leaves has cancelled its request
(2026-07-28 basic/patterns/cancellation); in the handshake era it has not (2025-11-25 basic/transports), and the handler goes
on, though nobody will hear of it.

Must never know the endpoint's rules. Above: `_app`. Below: `_stream`, the driver.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from jackstay.errors import GuardRefusedError, Json, McpError, RequestId
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import ACCEPTED, JSON_HEADERS, RETRY_HEADERS, Accepts, answer_status
from jackstay.protocol.server import ServerConnection, ServerState
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ErrorCode, Message, encode_error, encode_event, join_batch
from jackstay.server._driver import Driver, Terms, perform_table
from jackstay.server._failures import InsufficientScopeError
from jackstay.server.http._asgi import (
    HeaderLines,
    Receive,
    Send,
    lines,
    respond,
    respond_to_nobody,
    until_gone,
)
from jackstay.server.http._auth import BearerAuth, challenge_scopes
from jackstay.server.http._lookout import Lookout
from jackstay.server.http._stream import EVENTS_LINES, MAX_STREAM_BYTES, STREAM_LINES, Stream

logger = logging.getLogger("jackstay.server.http")

JSON_LINES = lines(JSON_HEADERS)
REFUSED_LINES = lines((*JSON_HEADERS, *RETRY_HEADERS))


class Answering(msgspec.Struct, frozen=True):
    """How an endpoint answers: seconds between signs of life and before a client comes back, and whether in streams."""

    keepalive: float = 15.0
    retry: float = 1.0
    is_always_stream: bool = False
    is_never_stream: bool = False
    max_stream_bytes: int = MAX_STREAM_BYTES
    # Words the challenge where a token may too little.
    auth: BearerAuth | None = None

    def taking(self, accepts: Accepts) -> tuple[bool, bool]:
        """Whether a request may be answered by JSON, and by a stream: the client's word goes before the endpoint's."""
        return (
            accepts.json and not (self.is_always_stream and accepts.stream),
            accepts.stream and not (self.is_never_stream and accepts.json),
        )


def status_of(version: str | None, error: McpError | None) -> int:
    """The status that goes with an answer."""
    if error is None or error.code is None or version is None:
        return 200
    more = error.more if isinstance(error, GuardRefusedError) else {}
    is_refused = more.get("retryable") is True
    return answer_status(REVISIONS[version], error.code, is_envelope="key" in more, is_refused=is_refused)


async def respond_cancelled(
    send: Send, ids: Sequence[RequestId], more: HeaderLines, *, takes_stream: bool
) -> None:
    """Answer a POST whose requests were all cancelled: a stream without a message, or JSON where only that is taken.

    A cancelled request has no response (basic/utilities/cancellation), but the POST that brought it needs a body of one of the
    two types; 202 is for POSTs without a request (2025-11-25 basic/transports, "Sending Messages to the Server").
    """
    if takes_stream:
        await respond(send, 200, [*EVENTS_LINES, *more], b": cancelled\n\n")
        return
    data: dict[str, Json] = {"reason": "cancelled"}
    errors = [encode_error(id, ErrorCode.INTERNAL_ERROR, "the request was cancelled", data) for id in ids]
    await respond(send, 200, [*JSON_LINES, *more], errors[0] if len(errors) == 1 else join_batch(errors))


def head_of(answering: Answering, version: str | None, error: McpError | None) -> tuple[int, HeaderLines]:
    """The status and the headers that go with an answer."""
    if error is None:
        return 200, JSON_LINES
    if isinstance(error, InsufficientScopeError):
        return 403, [*JSON_LINES, *lines(challenge_scopes(answering.auth, error.scopes))]
    status = status_of(version, error)
    return status, REFUSED_LINES if status == 503 else JSON_LINES


class Post(Driver):
    """A connection that is one POST. Make it, then `serve()` the message."""

    KEEPS_SUBSCRIPTIONS = False

    __slots__ = (
        *(
            "_answering",
            "_answers",
            "_cancelled",
            "_error",
            "_is_busy",
            "_is_gone",
            "_is_stopped",
            "_is_written",
            "_lookout",
            "_receive",
        ),
        *(
            "_respond",
            "_settled",
            "_stream",
            "_takes_json",
            "_takes_stream",
            "_task",
            "_timer",
            "_watcher",
            "_work",
            "_writing",
        ),
    )

    def __init__(
        self,
        terms: Terms,
        *,
        version: str,
        accepts: Accepts,
        answering: Answering,
        lookout: "Lookout[Post]",
    ) -> None:
        super().__init__(terms, ServerConnection(terms.offer, version=version, is_post=True))
        self._answering = answering
        self._lookout = lookout
        self._takes_json, self._takes_stream = answering.taking(accepts)
        self._answers: list[bytes] = []
        # Requests that will have no answer.
        self._cancelled: tuple[RequestId, ...] = ()
        self._error: McpError | None = None
        self._stream: Stream | None = None
        self._work: tuple[e.Serve, Coroutine[Any, Any, bytes]] | None = None
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[bool] | None = None
        self._settled: asyncio.Future[None] | None = None
        # Not phases of one thing: the client may go while the handler is stopped while the writer is busy.
        self._is_busy = self._is_gone = self._is_stopped = self._is_written = False

    # --- the whole of it ----------------------------------------------------------------------------------------------

    async def serve(self, message: Message, frame: bytes, receive: Receive, send: Send) -> None:
        """Serve the message and answer the POST."""
        self._receive, self._respond = receive, send
        self._do(self.core.receive_message(message, frame, self._loop.time()))
        if self._work is not None or self.core.in_flight:
            await self._finish_work()
        stream = self._stream
        if self._is_gone:
            if stream is None:
                await respond_to_nobody(send)
            return
        if stream is not None:
            if self._writing is not None:
                await self._writing
            elif not self._is_written:
                await stream.pump(send, STREAM_LINES, self._answering.keepalive)
        elif self._takes_json or not self._answers:
            await self._answer_whole(send)
        else:  # all of it is there: no stream to wait on, no chunks to mark its end, nothing that a proxy could hold back
            await respond(send, 200, EVENTS_LINES, self._events())

    async def _finish_work(self) -> None:
        self._is_busy = True
        self._lookout.begin(self)
        try:
            if self._work is not None:
                self._task = task = asyncio.current_task()
                assert task is not None
                try:
                    await self._run(*self._work)
                finally:
                    self._task = None
                    if self._is_stopped:
                        task.uncancel()
                if task.cancelling():
                    raise asyncio.CancelledError  # the ASGI server's, which the handler's end must not hide
            if self.core.in_flight:
                await self._wait_for_rest()
        except asyncio.CancelledError:
            self.stop()  # by the ASGI server: everything of ours ends with it
            raise
        finally:
            self._is_busy = False
            self._lookout.end(self)
            if self._timer is not None:
                self._timer.cancel()
            if self._watcher is not None:
                self._watcher.cancel()

    async def _wait_for_rest(self) -> None:
        """For requests that no coroutine of this task answers: a subscription, or the other members of an array."""
        if self._stream is not None and self._writing is None:
            # Nothing else runs here, so this task can write.
            self._is_busy = False
            if not await self._stream.pump(self._respond, STREAM_LINES, self._answering.keepalive):
                self._lose_client()
            self._is_written = True
        if self.core.in_flight:
            self._settled = self._loop.create_future()
            await self._settled

    async def _answer_whole(self, send: Send) -> None:
        answers = self._answers
        if answers:
            body = answers[0] if len(answers) == 1 else join_batch(answers)
            await respond(send, *head_of(self._answering, self.core.version, self._error), body)
        elif self._is_stopped and self.core.state is ServerState.CLOSED:
            await respond(send, 503, [])  # at the end of a drain: no error of ours could say whether it ran
        elif self._cancelled:
            await respond_cancelled(send, self._cancelled, [], takes_stream=self._takes_stream)
        else:
            await respond(send, ACCEPTED, [])

    # --- the client ---------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """The handler takes long: see whether the client stays, and give it signs of life in time."""
        if self.core.state is ServerState.STATELESS:
            self._watcher = self._loop.create_task(self._watch_client())
        if self._takes_stream and self._stream is None and self._answering.keepalive:
            self._timer = self._loop.call_later(self._answering.keepalive, self._open_stream)

    async def _watch_client(self) -> None:
        await until_gone(self._receive)
        logger.debug("connection %d: the client closed the response, which cancels its request", self.number)
        self._lose_client()

    def _lose_client(self) -> None:
        self._is_gone = True
        if self._stream is not None:
            self._stream.cut()
        if self.core.state is ServerState.STATELESS:
            self.step(e.ClientGone())

    # --- saying -------------------------------------------------------------------------------------------------------

    def _open_stream(self) -> Stream:
        stream = self._stream
        if stream is None:
            stream = self._stream = Stream(self._answering.max_stream_bytes)
            if self._is_busy:  # else this task itself will write
                writing = stream.pump(self._respond, STREAM_LINES, self._answering.keepalive)
                self._writing = self._loop.create_task(writing)
        return stream

    def _send(self, effect: e.Send) -> None:
        about = effect.about
        if about is not None and about in self.core.in_flight:
            self._say(effect.frame)
        elif about is not None or effect.error is not None:
            if effect.error is not None:
                self._error = effect.error
                logger.debug("connection %d: refused: %s", self.number, effect.error.message)
            self._answers.append(effect.frame)
            self._settle()
        # Anything else is about no request of this POST, and a POST is all there is.

    def _say(self, frame: bytes) -> None:
        if not self._takes_stream:
            self.dropped += 1
            return
        stream = self._open_stream()
        if not stream.is_over and not stream.put(encode_event(frame)):
            logger.warning("connection %d: the client reads too slowly; its stream is closed", self.number)
            self._lose_client()

    def _settle(self) -> None:
        if self.core.in_flight:
            return
        if self._stream is not None:
            self._stream.end(self._events())
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    def _events(self) -> bytes:
        return b"".join(encode_event(answer) for answer in self._answers)

    # --- effects that differ ------------------------------------------------------------------------------------------

    def fail(self, request: e.Serve, error: McpError) -> None:
        """A request ends with this error."""
        self._error = error
        super().fail(request, error)

    def _start(self, request: e.Serve, work: Coroutine[Any, Any, bytes]) -> None:
        if self._work is None:
            self._work = request, work
        else:
            super()._start(request, work)

    def _stop_serving(self, effect: e.StopServing) -> None:
        super()._stop_serving(effect)
        self._cancelled += (effect.id,)
        if self._work is not None and self._work[0].serial == effect.serial:
            self._is_stopped = True
            if self._task is not None:
                self._task.cancel(effect.reason or None)
            else:
                self._work[1].close()  # cancelled by the next member of its own array
                self._work = None
        self._settle()

    def _close(self, effect: e.Close) -> None:  # noqa: ARG002  # the effect says no more than that
        self._settle()


Post.PERFORM = perform_table(Post)
