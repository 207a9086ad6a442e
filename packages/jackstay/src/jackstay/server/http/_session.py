"""A session of Streamable HTTP (2025-03-26 to 2025-11-25): one connection over many HTTP requests.

Every message is sent on exactly one *channel* (2025-11-25 basic/transports, "Multiple Connections"): that of the POST
it relates to, or the standalone channel of the GET stream. With an event store a channel outlives its HTTP response,
and a GET with `Last-Event-ID` resumes it. Handlers run in tasks of their own: closing a response cancels nothing.
"""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from jackstay.errors import CapabilityError, McpError, RequestId, ShutdownError, TransportError
from jackstay.protocol import LIST_CHANGES, REVISIONS
from jackstay.protocol.http import Accepts, RequestRefused, error_response
from jackstay.protocol.server import ServerConnection, ServerState
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import Batch, Message, Request, encode_event
from jackstay.server._driver import Caller, Driver, SubscriberIndex
from jackstay.server.http._asgi import HeaderLines, HttpRequest
from jackstay.server.http._auth import ANONYMOUS, caller_key
from jackstay.server.http._channel import Channel
from jackstay.server.http._event_store import ENDED, append_all
from jackstay.server.http._orphans import end_stream
from jackstay.server.http._post import whole_response
from jackstay.server.http._session_store import SessionChange, SessionRecord
from jackstay.server.http._stream import STREAM_LINES, Stream
from jackstay.transport import MAX_QUEUED_BYTES
from jackstay.types import encode_json

if TYPE_CHECKING:
    from jackstay.server.http._sessions import Sessions

logger = logging.getLogger("jackstay.server.http")

# Messages that wait for a GET. Equal ones, such as list changes, are kept once. Their bytes are limited by
# `max_stream_bytes`.
MAX_PENDING = 256

# Events, and their bytes, that wait for a slow event store. Further events are sent but cannot be resumed.
MAX_UNSAVED = 1024
MAX_UNSAVED_BYTES = MAX_QUEUED_BYTES

# Seconds after which, with an event store, the response to a call becomes a stream, so that it can be resumed.
STREAM_AFTER = 0.5

# The name of the standalone channel of any worker ends with this.
_STANDALONE = ".0"

_NO_EVENT = error_response(400, "unknown or expired Last-Event-ID; open the stream without it")
_CANCELLED = error_response(400, "the requests of this stream were cancelled; there is no response to resume")


_ANONYMOUS = Caller(scopes=ANONYMOUS.scopes)


class Session(Driver):
    """A session, one of `sessions`. `id` is empty until the handshake succeeded."""

    __slots__ = (
        *("_by_id", "_by_name", "_events", "_open_responses", "_options", "_queued", "_receiving", "_saving"),
        *("_seen_changes", "_sessions", "_standalone", "_unsaved", "_unsaved_bytes"),
        *("caller_key", "checked_at", "id", "is_used", "last_used", "revision", "unsaved"),
    )

    def __init__(self, sessions: "Sessions", record: SessionRecord | None = None) -> None:
        config = sessions.app.connection_config()
        client = None if record is None else record.client
        version = None if client is None else client.version
        core = ServerConnection(config.server_config, version=version, client=client, request_ids=sessions.workers)
        super().__init__(config, core)
        self.id = ""
        self.last_used = self._loop.time()
        # Both are for fair eviction: the caller it is counted for, and whether anything was sent after `initialize`.
        self.caller_key = ("", "")
        self.is_used = record is not None
        # Requests in progress that change the record, and how many were stored: a record loaded before is out of date.
        self.unsaved = self.revision = 0
        # When the record was last compared with the store.
        self.checked_at = float("-inf")
        self._options = sessions.app.options
        self._sessions = sessions
        self._events = sessions.events
        self._open_responses = self._unsaved_bytes = 0
        # The channel of the POST that is being processed: refusals by the core are sent on it.
        self._receiving: Channel | None = None
        self._by_id: dict[RequestId, Channel] = {}
        self._by_name: dict[str, Channel] | None = None
        self._standalone: Channel | None = None
        # The number of the last change of a list before the stream of the GET ended; None while it is open.
        self._seen_changes: int | None = 0
        self._queued: dict[bytes, None] | None = None
        self._unsaved: list[tuple[str, int, bytes]] | None = None
        self._saving: asyncio.Task[None] | None = None
        if record is not None:
            self.caller = Caller(record.principal)
            self.caller_key = caller_key(record.principal, "")
            self.adopt(record, self.revision)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the session. It must not be used from another one."""
        return self._loop

    @property
    def record(self) -> SessionRecord:
        """The state to be stored."""
        assert self.core.client is not None  # set by the handshake
        uris = () if self._subscriptions is None else tuple(self._subscriptions.uris)
        is_confirmed = self.core.state is not ServerState.HANDSHAKE
        return SessionRecord(self.core.client, self.principal, self.log_level, uris, is_confirmed)

    def adopt(self, record: SessionRecord, revision: int) -> None:
        """Adopt what other workers have stored, unless this one has changed the record since `revision`."""
        if self.unsaved or self.revision != revision:
            return
        self.log_level = record.log_level
        if record.uris or self._subscriptions is not None:
            self.subscriptions.replace(record.uris)
        if record.is_confirmed and self.core.state is ServerState.HANDSHAKE:
            self.step(e.InitializedReceived())

    def adopt_change(self, change: SessionChange) -> None:
        """Adopt what another worker has changed. A record that was loaded before is out of date."""
        if self.unsaved:
            self.checked_at = float("-inf")
            return
        self.adopt(change.apply(self.record), self.revision)
        self.revision += 1

    @property
    def is_idle(self) -> bool:
        """True if no response is open and no handler runs.

        A handler that waits for a response of a client without an open HTTP response does not keep a session alive.
        """
        return not self._open_responses and (not self.core.in_flight or bool(self.core.outgoing_requests))

    # --- POST ---------------------------------------------------------------------------------------------------------

    def receive(self, message: Message, frame: bytes, accepts: Accepts, caller: Caller) -> Channel:
        """Process the message of a POST by this caller. Pass the returned channel to `respond()`."""
        self.caller = caller
        in_flight = self.core.in_flight
        members = message.members if isinstance(message, Batch) else (message,)
        # A request id that is already in flight belongs to its first POST; the duplicate is refused.
        ids = tuple(member.id for member in members if isinstance(member, Request) and member.id not in in_flight)
        channel = Channel(ids, is_settled=not ids)
        channel.accepts_json, channel.accepts_stream = self._options.accepted_formats(accepts)
        for id in ids:
            self._by_id[id] = channel
        self._receiving = channel
        try:
            self._apply(self.core.receive(frame, message))
        finally:
            self._receiving = None
        if self.core.client is None:
            self._events = None  # the handshake was refused, so there is no session
        self._settle(channel)
        return channel

    def receive_forwarded(self, frame: bytes) -> None:
        """Process a response or a cancellation that another worker received."""
        if self.core.state is not ServerState.CLOSED:
            self._apply(self.core.receive(frame))

    async def settled(self, channel: Channel) -> None:
        """Wait until the requests of a POST have ended, or their response has become a stream."""
        if channel.is_settled or channel.post_stream is not None:
            return
        after = self._options.keepalive
        if self._events is not None:
            after = min(after or STREAM_AFTER, STREAM_AFTER)
        timer = self._loop.call_later(after, self._open_late, channel) if after and channel.accepts_stream else None
        channel.waiter = self._loop.create_future()
        try:
            await channel.waiter
        finally:
            channel.waiter = None
            if timer is not None:
                timer.cancel()

    async def respond(self, channel: Channel, request: HttpRequest, more: HeaderLines) -> None:
        """Respond to a POST with JSON, or with a stream if messages precede the responses."""
        self._open_responses += 1
        try:
            await self.settled(channel)
            if channel.responses and not channel.accepts_json and self._events is not None:
                # As a stream that can be resumed: the client or the endpoint does not accept JSON.
                self._open(channel)
                for response in channel.responses:
                    self._emit_event(channel, response, is_response=True)
                self._end(channel)
            if channel.post_stream is not None:
                await self._write_response(channel, channel.post_stream, request, more)
            else:
                status, lines, body = whole_response(channel, self.core, self._sessions.app.auth)
                await request.respond(status, [*lines, *more] if more else lines, body)
        finally:
            self._end_response()

    def _end_response(self) -> None:
        self._open_responses -= 1
        self.last_used = self._loop.time()
        if self._open_responses or self.core.in_flight:
            return
        # There may be thousands of idle sessions. A table that was used keeps its memory until it is cleared.
        self.core.release_memory()
        if not self._by_id:
            self._by_id.clear()
        if not self._tasks:
            self._tasks.clear()
        # Rules of visibility may use the headers of the last request.
        caller = self.caller
        if caller.headers and getattr(self.handlers, "views", None) is None:
            self.caller = Caller(caller.principal, caller.scopes, caller.claims) if caller.principal else _ANONYMOUS

    def _open_late(self, channel: Channel) -> None:
        if not channel.is_settled:  # else its response is about to be sent as JSON
            self._open(channel)

    # --- channels and the responses that carry them -------------------------------------------------------------------

    def _open(self, channel: Channel) -> Stream:
        """Turn the response to a POST into a stream, if it is not one yet."""
        if channel.post_stream is None:
            channel.post_stream = channel.current_stream = Stream(self._options.max_stream_bytes)
            if self._events is not None:
                channel.post_stream.put(self._name(channel))
            channel.wake()
        return channel.post_stream

    def _name(self, channel: Channel) -> bytes:
        """Name a channel for its events, and return the priming event.

        The priming event has an id and no data, so that a client can resume before the first message (2025-11-25
        basic/transports, "Sending Messages to the Server"). Earlier revisions get none: their clients would fail to
        parse it.
        """
        # Random, so that names are unique also when a worker restores the session.
        suffix = _STANDALONE if channel is self._standalone else ".1"
        channel.name = f"{self._sessions.workers.name}_{secrets.token_hex(8)}{suffix}"
        if self._by_name is None:
            self._by_name = {}
        self._by_name[channel.name] = channel
        self._save(channel, encode_json(list(channel.ids)))  # never sent; for `end_stream`
        return self._prime(channel)

    def _prime(self, channel: Channel) -> bytes:
        assert self.core.version is not None
        if not REVISIONS[self.core.version].has_polling:
            return b""
        retry = round(self._options.retry * 1000)
        return encode_event(b"", id=f"{channel.name}-{channel.number}", retry=retry)

    async def _write_response(
        self, channel: Channel, stream: Stream, request: HttpRequest, more: HeaderLines, first: Sequence[bytes] = ()
    ) -> None:
        """Write a response until it ends or the client disconnects."""
        watcher = self._loop.create_task(stream.abort_on_disconnect(request.receive))
        try:
            await stream.pump(request.send, [*STREAM_LINES, *more], self._options.keepalive, first)
        finally:
            watcher.cancel()
            # Otherwise another response carries the channel, or `close_stream()` detached it.
            if channel.current_stream is stream:
                self._detach(channel)
                if self._events is None and channel is not self._standalone and not channel.is_settled:
                    self._mark_lost(channel)

    @property
    def is_listening(self) -> bool:
        """Whether there is a GET stream. Without one, changes of lists are found out when there is."""
        return self._seen_changes is None

    def join(self, index: SubscriberIndex) -> None:
        """Be notified of changes from now on."""
        self._seen_changes = index.number
        super().join(index)

    def _begin_listening(self) -> None:
        """Notify the client of lists that have changed while there was no GET stream, and from now on at once."""
        seen, self._seen_changes = self._seen_changes, None
        if seen is not None and self.subscriber_index is not None:
            self.subscriber_index.add(self, LIST_CHANGES)
            for method in self.subscriber_index.changes_since(seen):
                self.changed(method, "", b"")

    def _end_listening(self) -> None:
        if self._seen_changes is None:
            self._seen_changes = 0
            if self.subscriber_index is not None:
                self._seen_changes = self.subscriber_index.number
                self.subscriber_index.remove(self, LIST_CHANGES)

    def _detach(self, channel: Channel) -> None:
        """Detach the current response of a channel. Messages that it did not write stay pending."""
        current_stream, channel.current_stream = channel.current_stream, None
        if current_stream is None:
            return
        if channel is self._standalone:
            self._end_listening()
        unsent = current_stream.unsent()
        current_stream.end()
        channel.sent -= len(unsent)
        if self._events is None and channel is self._standalone:
            for chunk in unsent:
                self._queue(chunk)

    def _mark_lost(self, channel: Channel) -> None:
        """Mark a channel that cannot reach the client, and fail the requests to the client that were sent on it."""
        channel.is_lost = True
        for key, _, about in list(self.core.outgoing_requests.values()):
            if about in channel.ids:
                self._complete_client_request(e.Fail(key, _stream_closed_error()))
                self.step(e.OutgoingCancelled(key))

    def close_stream(self, about: RequestId, retry: float | None = None) -> bool:
        """End the HTTP response of a request, so that the client reconnects for the result.

        Returns False if it cannot.
        """
        channel = self._by_id.get(about)
        version = self.core.version
        if channel is None or not channel.accepts_stream or self._events is None:
            return False
        if version is None or not REVISIONS[version].has_polling:
            return False
        self._open(channel)
        current_stream, channel.current_stream = channel.current_stream, None
        if current_stream is None:
            return False  # it is already closed
        milliseconds = None if retry is None else round(retry * 1000)
        current_stream.end(encode_event(b"", id=f"{channel.name}-{channel.number}", retry=milliseconds))
        return True

    # --- GET ----------------------------------------------------------------------------------------------------------

    async def serve_get(self, last_event_id: str | None, request: HttpRequest) -> None:
        """Respond to a GET with the standalone channel, or resume the channel of an event id.

        Raises: RequestRefused.
        """
        self._open_responses += 1
        try:
            if last_event_id is None or self._events is None:
                channel, first = await self._open_standalone()
            else:
                channel, first = await self._resume(last_event_id)
            await self._write_response(channel, self._attach(channel), request, [], first)
        finally:
            self._end_response()

    async def _open_standalone(self) -> tuple[Channel, list[bytes]]:
        """Return the standalone channel, and the events that were sent while no GET was open."""
        channel = self._standalone_channel()
        self._detach(channel)  # a new GET replaces an earlier one: the client has reconnected
        if self._events is None:
            waiting, self._queued = self._queued, None
            return channel, [*(waiting or ())]
        missed = await self._missed_events(channel, channel.sent)
        return channel, missed or [self._prime(channel)]

    async def _resume(self, last_event_id: str) -> tuple[Channel, list[bytes]]:
        assert self._events is not None
        name, _, digits = last_event_id.rpartition("-")
        if not name or not digits.isascii() or not digits.isdigit() or len(digits) > 15:
            raise RequestRefused(_NO_EVENT)
        # An unknown channel has ended or belongs to another worker: only its stored events are available.
        channel = (self._by_name or {}).get(name) or Channel(name=name)
        missed = await self._missed_events(channel, int(digits))
        if missed is None:
            raise RequestRefused(_NO_EVENT)
        if missed and not missed[-1]:
            raise RequestRefused(_CANCELLED)  # otherwise the client would resume it again and again
        if self._by_name and name in self._by_name:
            return channel, missed
        if name.endswith(_STANDALONE):
            # That of another worker, which may have died: from now on this worker has the GET stream.
            channel, first = await self._open_standalone()
            missed += first
        elif await self._sessions.workers.is_gone(name.partition("_")[0], self._loop.time()):
            if not await end_stream(self._events, self.id, name):
                raise RequestRefused(_NO_EVENT)
            return channel, await self._missed_events(channel, int(digits)) or []
        return channel, missed

    def _attach(self, channel: Channel) -> Stream:
        """Create a new response for a channel, which replaces the current one."""
        stream = Stream(self._options.max_stream_bytes)
        self._detach(channel)
        channel.current_stream = stream
        if channel is self._standalone:
            self._begin_listening()
        channel.sent = channel.number
        if (channel.is_settled and channel is not self._standalone) or self.core.state is ServerState.CLOSED:
            stream.end()
        return stream

    async def _missed_events(self, channel: Channel, after: int) -> list[bytes] | None:
        """Return all events of a channel after that number, or None if some of them are not stored.

        The last one is empty if all requests of the channel were cancelled.
        """
        assert self._events is not None
        missed: list[bytes] = []
        while True:
            while self._saving is not None:
                await asyncio.wait((self._saving,))
            saved = channel.number
            found = await self._events.replay(self.id, channel.name, after)
            if found is None:
                return None
            missed += (encode_event(data, id=f"{channel.name}-{number}") if data else b"" for number, data in found)
            after = found[-1][0] if found else after
            # More may have been added meanwhile. If nothing was found although more was saved, the store has lost it.
            if after >= channel.number or (not found and after < saved):
                return missed

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send(self, effect: e.Send) -> None:
        about = effect.related_request_id
        if effect.error is not None:
            logger.debug("session %d: request refused: %s", self.number, effect.error.message)
            if self._receiving is not None:
                self._receiving.error = effect.error
                self._send_response(self._receiving, effect.frame)
                return
        channel = None if about is None else self._by_id.get(about)
        if channel is None:
            # Related to no request, or to one that has ended: it may still cancel a request to the client.
            self._emit_event(self._standalone_channel(), effect.frame)
        elif about in self.core.in_flight:
            if channel.is_lost or not channel.accepts_stream:
                self.dropped += 1
                return
            self._open(channel)
            self._emit_event(channel, effect.frame)
        else:
            self._send_response(channel, effect.frame)
            self._settle(channel)

    def _send_response(self, channel: Channel, frame: bytes) -> None:
        if channel.post_stream is None:
            channel.responses.append(frame)
        else:
            self._emit_event(channel, frame, is_response=True)

    def _standalone_channel(self) -> Channel:
        if self._standalone is None:
            self._standalone = Channel()
            if self._events is not None:
                self._name(self._standalone)
        return self._standalone

    def _emit_event(self, channel: Channel, frame: bytes, *, is_response: bool = False) -> None:
        """Send a message on a channel, and store it if there is an event store."""
        id = None
        if self._events is not None:
            channel.number += 1
            id = f"{channel.name}-{channel.number}"
            self._save(channel, frame)
        chunk = encode_event(frame, id=id)
        current_stream = channel.current_stream
        if current_stream is None or current_stream.is_over:  # over: the client has closed the response
            if self._events is None and channel is self._standalone:
                self._queue(chunk)
            return
        channel.sent = channel.number
        if not current_stream.put(chunk, is_response=is_response):
            channel.sent -= 1
            logger.warning("session %d: closing the stream of a client that reads too slowly", self.number)

    def _queue(self, chunk: bytes) -> None:
        """Queue a message for the next GET. Equal messages are queued once; above the limits the oldest are dropped."""
        if self._queued is None:
            self._queued = {}
        self._queued[chunk] = None
        size = sum(map(len, self._queued))
        # The newest stays, whatever its size: the size of a message is limited by the server.
        while len(self._queued) > 1 and (len(self._queued) > MAX_PENDING or size > self._options.max_stream_bytes):
            oldest = next(iter(self._queued))
            del self._queued[oldest]
            size -= len(oldest)
            self.dropped += 1

    def _save(self, channel: Channel, data: bytes, number: int | None = None) -> None:
        if self._unsaved is None:
            self._unsaved = []
        if len(self._unsaved) >= MAX_UNSAVED or (self._unsaved and self._unsaved_bytes + len(data) > MAX_UNSAVED_BYTES):
            logger.warning("session %d: the event store is too slow; an event cannot be resumed", self.number)
            return
        self._unsaved.append((channel.name, channel.number if number is None else number, data))
        self._unsaved_bytes += len(data)
        if self._saving is None:
            self._saving = self._loop.create_task(self._save_all())

    async def _save_all(self) -> None:
        assert self._events is not None
        try:
            while self._unsaved:
                batch = self._unsaved[: MAX_UNSAVED if hasattr(self._events, "append_many") else 1]
                del self._unsaved[: len(batch)]
                self._unsaved_bytes -= sum(len(data) for _, _, data in batch)
                try:
                    await append_all(self._events, self.id, batch)
                except Exception as error:  # noqa: BLE001  # a user's store may raise anything
                    log = logger.debug if isinstance(error, TransportError) else logger.error
                    log("session %d: the event store failed; an event was not stored", self.number, exc_info=error)
        finally:
            self._saving = None

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _settle(self, channel: Channel) -> None:
        """End a channel if all of its requests have ended."""
        if channel.is_settled or any(id in self.core.in_flight for id in channel.ids):
            return
        channel.is_settled = True
        if channel.name and channel.cancelled == len(channel.ids):
            channel.number += 1
            self._save(channel, b"")  # never sent; for the worker at which a client resumes it
        for id in channel.ids:
            if self._by_id.get(id) is channel:
                del self._by_id[id]
        self._end(channel)
        channel.wake()

    def _end(self, channel: Channel) -> None:
        if self._by_name and self._by_name.pop(channel.name, None) is not None and hasattr(self._events, "finish"):
            self._save(channel, b"", ENDED)
        if channel.current_stream is not None:
            channel.current_stream.end()

    async def request(self, method: str, params: bytes, about: RequestId | None) -> msgspec.Raw:
        """Send a request to the client and return its result. Raises: McpError as described in `docs/errors.md`."""
        if not self._sessions.can_request:
            raise _no_bus_error(method)
        channel = None if about is None else self._by_id.get(about)
        if channel is not None and (channel.is_lost or not channel.accepts_stream):
            raise _stream_closed_error()
        return await super().request(method, params, about)

    def fail(self, request: e.Serve, error: McpError) -> None:
        """End a request with this error."""
        channel = self._by_id.get(request.id)
        if channel is not None:
            channel.error = error
        super().fail(request, error)

    def _stop_serving(self, effect: e.StopServing) -> None:
        super()._stop_serving(effect)
        channel = self._by_id.get(effect.id)
        if channel is not None:
            channel.cancelled += 1
            self._settle(channel)

    def _close(self, effect: e.Close) -> None:  # noqa: ARG002  # the effect has no data
        if self._standalone is not None and self._standalone.current_stream is not None:
            self._standalone.current_stream.end()
        self._sessions.forget(self)


def _no_bus_error(method: str) -> CapabilityError:
    return CapabilityError(
        method,
        f"cannot send {method} to the client: another worker may receive the response, and no bus passes it on; use"
        " Server(changes=...)",
    )


def _stream_closed_error() -> ShutdownError:
    return ShutdownError("the client closed the stream of this request, so no request can be sent to it")
