"""A POST that is a connection of its own: stateless requests (2026-07-28), and earlier revisions without sessions.

The handler runs in the task of the ASGI server; other tasks start only if needed. The response is JSON, or a stream if
messages precede it. A disconnect cancels a stateless request (2026-07-28 basic/patterns/cancellation), but no other
(2025-11-25 basic/transports).
"""

import asyncio
import logging
from collections.abc import Coroutine, Hashable
from typing import TYPE_CHECKING, Any

import msgspec

from jackstay.errors import GuardRefusedError, Json, McpError
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import ACCEPTED, JSON_HEADERS, RETRY_HEADERS, Route, error_status
from jackstay.protocol.server import ServerConnection, ServerState
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ErrorCode, Message, encode_error, encode_event, join_batch
from jackstay.server._driver import Caller, Driver
from jackstay.server._failures import InsufficientScopeError
from jackstay.server.http._asgi import ClientDisconnected, HeaderLines, HttpRequest, encode_headers, wait_for_disconnect
from jackstay.server.http._auth import BearerAuth, caller_key, challenge_scopes
from jackstay.server.http._channel import Channel
from jackstay.server.http._stream import EVENTS_LINES, STREAM_LINES, Stream

if TYPE_CHECKING:
    from jackstay.server.http._app import App

logger = logging.getLogger("jackstay.server.http")

JSON_LINES = encode_headers(JSON_HEADERS)
REFUSED_LINES = encode_headers((*JSON_HEADERS, *RETRY_HEADERS))

# Seconds. A client that has already disconnected is detected at once, so a late start costs only this delay.
POLL_INTERVAL = 0.02


def whole_response(channel: Channel, core: ServerConnection, auth: BearerAuth | None) -> tuple[int, HeaderLines, bytes]:
    """Return the HTTP status, headers and body of a response that is complete when it begins: JSON or events."""
    responses, error = channel.responses, channel.error
    if not responses:
        if not channel.ids:
            return ACCEPTED, (), b""
        if core.state is ServerState.CLOSED:
            return 503, (), b""  # whether the handler completed is unknown
        return _cancelled_response(channel)
    if not channel.accepts_json:  # it has a length, so that no proxy buffers it for its chunked encoding
        return 200, EVENTS_LINES, b"".join(map(encode_event, responses))
    body = responses[0] if len(responses) == 1 else join_batch(responses)
    if error is None:
        return 200, JSON_LINES, body
    if isinstance(error, InsufficientScopeError):
        return 403, [*JSON_LINES, *encode_headers(challenge_scopes(auth, error.scopes))], body
    status = 200
    if error.code is not None and core.version is not None:
        more = error.more if isinstance(error, GuardRefusedError) else {}
        is_refused = more.get("retryable") is True
        status = error_status(REVISIONS[core.version], error.code, is_envelope="key" in more, is_refused=is_refused)
    return status, REFUSED_LINES if status == 503 else JSON_LINES, body


def _cancelled_response(channel: Channel) -> tuple[int, HeaderLines, bytes]:
    """Return the response to a POST whose requests were all cancelled: an empty stream, or errors in JSON.

    A cancelled request has no response (2025-11-25 basic/utilities/cancellation), but its POST needs a body of one of
    the two types: 202 is for POSTs without a request (2025-11-25 basic/transports, "Sending Messages to the Server").
    """
    if channel.accepts_stream:
        return 200, EVENTS_LINES, b": cancelled\n\n"
    data: dict[str, Json] = {"reason": "cancelled"}
    errors = [encode_error(id, ErrorCode.INTERNAL_ERROR, "the request was cancelled", data) for id in channel.ids]
    return 200, JSON_LINES, errors[0] if len(errors) == 1 else join_batch(errors)


class Post(Driver):
    """A connection that lasts for one POST. Create it, then `serve()` the message."""

    KEEPS_SUBSCRIPTIONS = False
    is_listening = False

    __slots__ = (
        *("_app", "_channel", "_is_busy", "_is_gone", "_is_stopped", "_is_written"),
        *("_poller", "_request", "_task", "_timer", "_watcher", "_work", "_writing"),
    )

    def __init__(
        self, app: "App", request: HttpRequest, route: Route, caller: Caller, poller: "DisconnectPoller"
    ) -> None:
        config = app.connection_config()
        core = ServerConnection(config.server_config, version=route.revision.name, is_post=True)
        super().__init__(config, core, poller.loop)
        self.caller = caller
        self._app = app
        self._request = request
        self._poller = poller
        # Its `ids` are the requests that were cancelled.
        self._channel = Channel()
        self._channel.accepts_json, self._channel.accepts_stream = app.options.accepted_formats(route.accepts)
        self._work: tuple[e.Serve, Coroutine[Any, Any, bytes]] | None = None
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[bool] | None = None
        # Independent flags: the client may disconnect while the handler is being stopped and the writer is busy.
        self._is_busy = self._is_gone = self._is_stopped = self._is_written = False

    @property
    def owner(self) -> Hashable:
        """The caller: all their POSTs share one queue for threads. Else those with the most POSTs get most of them."""
        return caller_key(self.caller.principal, self.caller.address)

    # --- serving ------------------------------------------------------------------------------------------------------

    async def serve(self, message: Message, frame: bytes) -> None:
        """Serve the message and respond to the POST. Raises: ClientDisconnected if there was no response until then."""
        request = self._request
        accepted = self.core.accept(frame, message)
        if isinstance(accepted, e.Serve):
            self._is_stepping = True
            try:
                self._serve(accepted)
            finally:
                self._is_stepping = False
            if self._queued_events:
                self._process_events()
        else:
            self._apply(self.core.process(accepted, len(frame)))
        if self._work is not None or self.core.in_flight:
            await self._finish_work()
        channel = self._channel
        stream = channel.post_stream
        if self._is_gone:
            if stream is None:
                raise ClientDisconnected
            return
        if stream is not None:
            if self._writing is not None:
                await self._writing
            elif not self._is_written:
                await stream.pump(request.send, STREAM_LINES, self._app.options.keepalive)
        elif len(channel.responses) == 1 and channel.error is None and channel.accepts_json:  # most POSTs
            await request.respond(200, JSON_LINES, channel.responses[0])
        else:
            await request.respond(*whole_response(channel, self.core, self._app.auth))

    async def _finish_work(self) -> None:
        self._is_busy = True
        self._poller.add(self)
        try:
            if self._work is not None:
                self._task = task = asyncio.current_task(self._loop)
                assert task is not None
                request, work = self._work
                try:
                    result = await work
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # reported
                    self._raised(request, error)
                else:
                    if result:  # empty: the request stays open
                        self.finish(request, result)
                finally:
                    self._task = None
                    if self._is_stopped:
                        task.uncancel()
                if task.cancelling():
                    raise asyncio.CancelledError  # by the ASGI server; the end of the handler must not hide it
            if self.core.in_flight:
                await self._wait_for_rest()
        except asyncio.CancelledError:
            self.stop()  # cancelled by the ASGI server
            raise
        finally:
            self._is_busy = False
            self._poller.remove(self)
            if self._timer is not None:
                self._timer.cancel()
            if self._watcher is not None:
                self._watcher.cancel()

    async def _wait_for_rest(self) -> None:
        """Wait for requests that do not run in this task: a subscription, or the other members of a batch."""
        if self._channel.post_stream is not None and self._writing is None:
            # This task has nothing else to do, so it can write.
            self._is_busy = False
            if not await self._channel.post_stream.pump(self._request.send, STREAM_LINES, self._app.options.keepalive):
                self._on_disconnect()
            self._is_written = True
        if self.core.in_flight:
            self._channel.waiter = self._loop.create_future()
            await self._channel.waiter

    # --- the client ---------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch for a disconnect and send keepalives: called when the handler takes long."""
        if self.core.state is ServerState.STATELESS:
            self._watcher = self._loop.create_task(self._watch_client())
        if self._channel.accepts_stream and self._channel.post_stream is None and self._app.options.keepalive:
            self._timer = self._loop.call_later(self._app.options.keepalive, self._open_late)

    async def _watch_client(self) -> None:
        await wait_for_disconnect(self._request.receive)
        logger.debug("connection %d: the client closed the response, which cancels its request", self.number)
        self._on_disconnect()

    def _on_disconnect(self) -> None:
        self._is_gone = True
        if self._channel.post_stream is not None:
            self._channel.post_stream.abort()
        if self.core.state is ServerState.STATELESS:
            self.step(e.ClientDisconnected())

    # --- sending ------------------------------------------------------------------------------------------------------

    def _open_late(self) -> None:
        if self.core.in_flight:  # else the response is complete, and about to be sent as JSON
            self._open_stream()

    def _open_stream(self) -> Stream:
        stream = self._channel.post_stream
        if stream is None:
            stream = self._channel.post_stream = Stream(self._app.options.max_stream_bytes)
            if self._is_busy:  # otherwise the task of the POST writes
                writing = stream.pump(self._request.send, STREAM_LINES, self._app.options.keepalive)
                self._writing = self._loop.create_task(writing)
        return stream

    def _send(self, effect: e.Send) -> None:
        about = effect.related_request_id
        if about is not None and about in self.core.in_flight:
            if not self._channel.accepts_stream:
                self.dropped += 1
                return
            stream = self._open_stream()
            if not stream.is_over and not stream.put(encode_event(effect.frame)):
                logger.warning("connection %d: closing the stream of a client that reads too slowly", self.number)
                self._on_disconnect()
        elif about is not None or effect.error is not None:
            if effect.error is not None:
                self._channel.error = effect.error
                logger.debug("connection %d: request refused: %s", self.number, effect.error.message)
            self._channel.responses.append(effect.frame)
            self._settle()
        # Messages that relate to no request of this POST are dropped: there is no other stream.

    def _settle(self) -> None:
        if self.core.in_flight:
            return
        if self._channel.post_stream is not None:
            self._channel.post_stream.end(b"".join(map(encode_event, self._channel.responses)))
        self._channel.wake()

    # --- overridden effects -------------------------------------------------------------------------------------------

    def finish(self, request: e.Serve, result: bytes) -> None:
        """As `Driver.finish`. A response that follows no event, and ends nothing else, is stored at once."""
        if not (self._queued_events or self._stop_hooks or self._started):
            frame = self.core.respond(request.id, request.serial, result)
            if frame is not None:
                self._channel.responses.append(frame)
                if self._channel.post_stream is not None or self._channel.waiter is not None:
                    self._settle()
                return
        super().finish(request, result)

    def fail(self, request: e.Serve, error: McpError) -> None:
        """End a request with this error."""
        self._channel.error = error
        super().fail(request, error)

    def _start(self, request: e.Serve, work: Coroutine[Any, Any, bytes]) -> None:
        if self._work is None:
            self._work = request, work
        else:
            super()._start(request, work)

    def _stop_serving(self, effect: e.StopServing) -> None:
        super()._stop_serving(effect)
        self._channel.ids += (effect.id,)
        if self._work is not None and self._work[0].serial == effect.serial:
            self._is_stopped = True
            if self._task is not None:
                self._task.cancel(effect.reason or None)
            else:
                self._work[1].close()  # cancelled by a later member of the same batch
                self._work = None
        self._settle()

    def _close(self, effect: e.Close) -> None:  # noqa: ARG002  # the effect has no data
        self._settle()


class DisconnectPoller(msgspec.Struct, eq=False):
    """One timer for all POSTs of a loop that take long enough to need watching.

    Most calls end before it matters whether their client is still connected, and a timer for each would cost more than
    the rest of the driver. So `watch()` of a call runs between one and two intervals after it began.
    """

    loop: asyncio.AbstractEventLoop
    # The POSTs that began since the last poll, those before it, and those that are watched.
    _new: set[Post] = set()
    _old: set[Post] = set()
    _watched: set[Post] = set()
    _timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<DisconnectPoller of {len(self.all)} tasks>"

    @property
    def all(self) -> set[Post]:
        """The tasks that have begun and not ended."""
        return self._new | self._old | self._watched

    def add(self, task: Post) -> None:
        """Track a task until `remove()`."""
        self._new.add(task)
        if self._timer is None:
            self._timer = self.loop.call_later(POLL_INTERVAL, self._poll)

    def remove(self, task: Post) -> None:
        """Stop tracking a task that has ended."""
        if task in self._new:  # most tasks
            self._new.remove(task)
        else:
            self._old.discard(task)
            self._watched.discard(task)

    def _poll(self) -> None:
        late, self._old, self._new = self._old, self._new, set()
        self._watched |= late
        for task in late:
            task.watch()
        self._timer = self.loop.call_later(POLL_INTERVAL, self._poll) if self._old else None
