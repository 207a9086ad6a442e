"""One session of the handshake era: a connection whose messages travel in the responses of many HTTP requests.

Every message goes out on exactly one stream (2025-11-25 basic/transports, "Multiple Connections"): what belongs to a request
of the client's in the response to the POST that brought it, everything else in the response to a GET. Here such a stream is
a *channel*: it outlives the HTTP response that carries it. A client that lost the response, or was sent away to come back
later, opens a GET with the id of the last event it saw; the event store gives it what it missed, of that channel and no
other. Without an event store a lost response takes its channel along, and what nobody can hear is dropped; only what waits
for a GET is kept, once each and bounded.

Handlers run in tasks of their own: a client that closes a response has not cancelled anything.

Must never know a header or how sessions are found. Above: `_sessions`, `_app`. Below: `_stream`, `_event_store`, the driver.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence

import msgspec

from jackstay.errors import McpError, RequestId, ShutdownError
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import ACCEPTED, Accepts, Refusal, refuse
from jackstay.protocol.server import ServerConnection, ServerState
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import Batch, Message, Request, encode_event, join_batch
from jackstay.server._driver import Caller, Driver, Terms, perform_table
from jackstay.server.http._asgi import HeaderLines, Receive, Send, respond, until_gone
from jackstay.server.http._event_store import EventStore
from jackstay.server.http._post import Answering, head_of, respond_cancelled
from jackstay.server.http._session_store import SessionRecord
from jackstay.server.http._stream import STREAM_LINES, Stream
from jackstay.transport import MAX_QUEUED_BYTES

logger = logging.getLogger("jackstay.server.http")

# What waits for a GET: list changes are the same bytes each time and kept once, so this is about resources. In bytes it is
# what may wait in a stream (`max_stream_bytes`): nobody reads this one at all.
MOST_WAITING = 256

# Events that an event store may be behind with, and what they may weigh. Beyond it they are sent, but cannot be resumed.
MOST_UNSAVED = 1024
MOST_UNSAVED_BYTES = MAX_QUEUED_BYTES

# With an event store a call that takes longer than this is answered by a stream, so that it can be resumed.
PRIME_AFTER = 0.5

_NO_EVENT = refuse(400, "no such event is kept here: open the stream without Last-Event-ID")


class Channel:
    """A stream of a session. `ids` are the requests that it answers; none: it is the one that a GET opens."""

    __slots__ = (
        *("answers", "error", "ids", "is_lost", "is_settled", "name", "number", "opened", "outlet", "sent"),
        *("takes_json", "takes_stream", "waiter"),
    )

    def __init__(self, ids: tuple[RequestId, ...] = (), *, name: str = "") -> None:
        self.ids = ids
        # What the client of its POST, and the endpoint, make of it.
        self.takes_json = self.takes_stream = True
        # What its events are called by. It gets one when it is opened, if events are kept.
        self.name = name
        # The newest event, and the newest that was given to a response.
        self.number = self.sent = 0
        # What carries it now, and what carried it first: the response that the task of its POST writes.
        self.outlet: Stream | None = None
        self.opened: Stream | None = None
        # Answers of a channel that was never opened: they become a JSON body.
        self.answers: list[bytes] = []
        self.error: McpError | None = None
        # Every request of it has ended; nobody can hear it any more.
        self.is_settled = not ids
        self.is_lost = False
        self.waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        state = "lost" if self.is_lost else "settled" if self.is_settled else "open"
        return f"<Channel {self.name} {state} {self.outlet!r}>"

    def wake(self) -> None:
        """Something happened that its POST waits for."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class Session(Driver):
    """A session. `ended` is called once, when it is over; `id` is empty until it has one."""

    __slots__ = (
        *(
            "_answering",
            "_by_id",
            "_by_name",
            "_events",
            "_names",
            "_receiving",
            "_responses",
            "_saving",
            "_standing",
        ),
        *("_unsaved", "_waiting", "ended", "holder", "id", "is_used", "last_used"),
    )

    def __init__(
        self,
        terms: Terms,
        *,
        answering: Answering,
        events: EventStore | None,
        ended: "Callable[[Session], None]",
        record: SessionRecord | None = None,
    ) -> None:
        core = None
        if record is not None:
            core = ServerConnection(terms.offer, version=record.client.version, client=record.client)
        super().__init__(terms, core)
        self.id = ""
        self.ended = ended
        self.last_used = self._loop.time()
        # Who has it, for a fair choice of what ends when there are too many; and whether anything came after `initialize`.
        self.holder = ("", "")
        self.is_used = record is not None
        self._answering = answering
        self._events = events
        self._responses = 0
        # Whose POST is being taken: what the core refuses belongs to it.
        self._receiving: Channel | None = None
        self._by_id: dict[RequestId, Channel] = {}
        self._by_name: dict[str, Channel] = {}
        self._names: tuple[str, int] | None = None
        self._standing: Channel | None = None
        self._waiting: dict[bytes, None] | None = None
        self._unsaved: list[tuple[str, int, bytes]] = []
        self._saving: asyncio.Task[None] | None = None
        if record is not None:
            self.caller = Caller(record.principal)
            self.log_level = record.log_level
            if record.uris:
                self.listening.restore(record.uris)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where it runs; nothing of it may be used elsewhere."""
        return self._loop

    @property
    def record(self) -> SessionRecord:
        """What is to be remembered of it."""
        assert self.core.client is not None  # there is no session without a handshake
        uris = () if self._listening is None else tuple(self._listening.uris)
        return SessionRecord(self.core.client, self.principal, self.log_level, uris)

    @property
    def is_idle(self) -> bool:
        """True if nothing happens in it: no response is open, and no handler runs.

        A handler that waits for the client to answer, while the client has no response open, does not keep a session.
        """
        return not self._responses and (not self.core.in_flight or bool(self.core.asked))

    # --- POST ---------------------------------------------------------------------------------------------------------

    def receive(self, message: Message, frame: bytes, accepts: Accepts) -> Channel:
        """Take what a POST brought; then `answer()` it with what this returns."""
        in_flight = self.core.in_flight
        members = message.members if isinstance(message, Batch) else (message,)
        # An id that is in flight already stays with the POST that brought it first; this one is refused.
        ids = tuple(
            member.id for member in members if isinstance(member, Request) and member.id not in in_flight
        )
        channel = Channel(ids)
        channel.takes_json, channel.takes_stream = self._answering.taking(accepts)
        for id in ids:
            self._by_id[id] = channel
        self._receiving = channel
        try:
            self._do(self.core.receive_message(message, frame, self._loop.time()))
        finally:
            self._receiving = None
        if self.core.client is None:
            self._events = None  # the handshake was refused: there is no session whose events could be kept
        self._settle(channel)
        return channel

    async def answer(self, channel: Channel, receive: Receive, send: Send, more: HeaderLines) -> None:
        """Answer a POST: JSON, if the answer comes before anything else must be said, or else a stream."""
        self._responses += 1
        try:
            if not channel.is_settled and channel.opened is None:
                await self._wait(channel)
            if channel.answers and not channel.takes_json:
                self._stream_answers(channel)
            if channel.opened is not None:
                await self._carry(channel, channel.opened, receive, send, more)
            else:
                await self._answer_whole(channel, send, more)
        finally:
            self._responses -= 1
            self.last_used = self._loop.time()

    async def _wait(self, channel: Channel) -> None:
        after = self._answering.keepalive
        if self._events is not None:
            after = min(after or PRIME_AFTER, PRIME_AFTER)
        timer = self._loop.call_later(after, self._open, channel) if after and channel.takes_stream else None
        try:
            while not channel.is_settled and channel.opened is None:
                channel.waiter = self._loop.create_future()
                await channel.waiter
        finally:
            channel.waiter = None
            if timer is not None:
                timer.cancel()

    def _stream_answers(self, channel: Channel) -> None:
        """The client or the endpoint wants a stream, whether it is needed or not."""
        stream = self._open(channel)
        for answer in channel.answers:
            self._emit(channel, answer, is_answer=True)
        stream.end()

    async def _answer_whole(self, channel: Channel, send: Send, more: HeaderLines) -> None:
        answers = channel.answers
        if answers:
            status, lines = head_of(self._answering, self.core.version, channel.error)
            body = answers[0] if len(answers) == 1 else join_batch(answers)
            await respond(send, status, [*lines, *more], body)
        elif channel.ids and self.core.state is ServerState.CLOSED:
            await respond(
                send, 503, []
            )  # stopped with the session: no error of ours could say whether it ran
        elif channel.ids:
            await respond_cancelled(send, channel.ids, more, takes_stream=channel.takes_stream)
        else:
            await respond(send, ACCEPTED, more)

    # --- channels and the responses that carry them -------------------------------------------------------------------

    def _open(self, channel: Channel) -> Stream:
        """Turn the answer to a POST into a stream, if it is not one yet."""
        if channel.opened is None:
            channel.opened = channel.outlet = Stream(self._answering.max_stream_bytes)
            if self._events is not None:
                channel.opened.put(self._name(channel))
            channel.wake()
        return channel.opened

    def _name(self, channel: Channel) -> bytes:
        """Give a channel the name that its events are kept under. Returns what to say first, to who knows the custom.

        An event without data gives a client the id to come back with before anything has happened (2025-11-25
        basic/transports, "Sending Messages"); clients of earlier revisions would take it for a broken message.
        """
        # The name says which life of the session it belongs to: another worker counts from one as well.
        life, count = self._names or (secrets.token_hex(4), 0)
        self._names = life, count + 1
        channel.name = f"{life}.{count + 1}"
        self._by_name[channel.name] = channel
        self._save(channel, b"")
        return self._prime(channel)

    def _prime(self, channel: Channel) -> bytes:
        assert self.core.version is not None
        if not REVISIONS[self.core.version].has_polling:
            return b""
        retry = round(self._answering.retry * 1000)
        return encode_event(b"", id=f"{channel.name}-{channel.number}", retry=retry)

    async def _carry(  # noqa: PLR0917  # ASGI's two, and what goes into one response
        self,
        channel: Channel,
        stream: Stream,
        receive: Receive,
        send: Send,
        more: HeaderLines,
        first: Sequence[bytes] = (),
    ) -> None:
        """Write a response until it ends, or its client goes."""
        watcher = self._loop.create_task(_cut_when_gone(stream, receive))
        try:
            await stream.pump(send, [*STREAM_LINES, *more], self._answering.keepalive, first)
        finally:
            watcher.cancel()
            self._let_go(channel, stream)

    def _let_go(self, channel: Channel, stream: Stream) -> None:
        """A response is over; perhaps its channel is not."""
        if channel.outlet is not stream:
            return  # another response carries it by now, or it was told to come back
        self._take_away(channel)
        if self._events is None and channel is not self._standing and not channel.is_settled:
            self._lose(channel)

    def _take_away(self, channel: Channel) -> None:
        """No response carries this channel any more. What the last one did not get to say is still to be said."""
        outlet, channel.outlet = channel.outlet, None
        if outlet is None:
            return
        left = outlet.left()
        outlet.end()
        channel.sent -= len(left)
        if self._events is None and channel is self._standing:
            for chunk in left:
                self._keep(chunk)

    def _lose(self, channel: Channel) -> None:
        """Nobody can hear this channel any more: who asks its client something would wait for ever."""
        channel.is_lost = True
        for key, _, about in list(self.core.asked.values()):
            if about in channel.ids:
                waiting = self._asked.get(key)
                if waiting is not None and not waiting.done():
                    waiting.set_exception(_unheard())
                self.step(e.Withdrew(key))

    def close_stream(self, about: RequestId, retry: float | None = None) -> bool:
        """End the response that this request is answered in; the client comes back for the answer. False: it cannot be."""
        channel = self._by_id.get(about)
        version = self.core.version
        if channel is None or self._events is None or version is None or not REVISIONS[version].has_polling:
            return False
        if not channel.takes_stream:
            return False
        self._open(channel)
        outlet, channel.outlet = channel.outlet, None
        if outlet is None:
            return False  # it is away already
        milliseconds = None if retry is None else round(retry * 1000)
        outlet.end(encode_event(b"", id=f"{channel.name}-{channel.number}", retry=milliseconds))
        return True

    # --- GET ----------------------------------------------------------------------------------------------------------

    async def listen(self, last_event_id: str | None, receive: Receive, send: Send) -> Refusal | None:
        """Carry the standing channel, or resume the one that an event id belongs to. Returns a refusal to send."""
        self._responses += 1
        try:
            if last_event_id is None or self._events is None:
                channel, first = await self._stand()
            else:
                found = await self._resume(last_event_id)
                if isinstance(found, Refusal):
                    return found
                channel, first = found
            stream = self._attach(channel)
            await self._carry(channel, stream, receive, send, [], first)
            return None
        finally:
            self._responses -= 1
            self.last_used = self._loop.time()

    async def _stand(self) -> tuple[Channel, list[bytes]]:
        """The channel that belongs to no request, and what it said while nobody listened."""
        channel = self._standing
        if channel is None:
            channel = self._standing = Channel()
            if self._events is not None:
                self._name(channel)
        self._take_away(channel)  # a response that carries it now: it is the same client, come back
        if self._events is None:
            waiting, self._waiting = self._waiting, None
            return channel, [*(waiting or ())]
        missed = await self._missed(channel, channel.sent)
        return channel, missed or [self._prime(channel)]

    async def _resume(self, last_event_id: str) -> tuple[Channel, list[bytes]] | Refusal:
        name, _, digits = last_event_id.rpartition("-")
        if not name or not digits.isascii() or not digits.isdigit() or len(digits) > 15:
            return _NO_EVENT
        # One that is not ours any more is over, or another worker's: what was kept of it is all there is.
        channel = self._by_name.get(name) or Channel(name=name)
        missed = await self._missed(channel, int(digits))
        return _NO_EVENT if missed is None else (channel, missed)

    def _attach(self, channel: Channel) -> Stream:
        """A new response for a channel, in place of one that carried it."""
        stream = Stream(self._answering.max_stream_bytes)
        self._take_away(channel)
        channel.outlet = stream
        channel.sent = channel.number
        if (channel.is_settled and channel is not self._standing) or self.core.state is ServerState.CLOSED:
            stream.end()
        return stream

    async def _missed(self, channel: Channel, after: int) -> list[bytes] | None:
        """The events of a channel after that one, all that there are by now; None: they cannot be had."""
        assert self._events is not None
        missed: list[bytes] = []
        while True:
            while self._saving is not None:
                await asyncio.wait((self._saving,))
            saved = channel.number
            found = await self._events.replay(self.id, channel.name, after)
            if found is None:
                return None
            missed += (encode_event(data, id=f"{channel.name}-{number}") for number, data in found)
            after = found[-1][0] if found else after
            # More may have been said while we read. None found of what was saved before: the store has lost it.
            if after >= channel.number or (not found and after < saved):
                return missed

    # --- saying -------------------------------------------------------------------------------------------------------

    def _send(self, effect: e.Send) -> None:
        about = effect.about
        if effect.error is not None:
            logger.debug("session %d: refused: %s", self.number, effect.error.message)
            if self._receiving is not None:
                self._receiving.error = effect.error
                self._answer(self._receiving, effect.frame)
                return
        channel = None if about is None else self._by_id.get(about)
        if channel is None:
            # Of no request, or of one that has ended: it may still have a question to take back.
            self._say_standing(effect.frame)
        elif about in self.core.in_flight:
            self._say(channel, effect.frame)
        else:
            self._answer(channel, effect.frame)
            self._settle(channel)

    def _answer(self, channel: Channel, frame: bytes) -> None:
        if channel.opened is None:
            channel.answers.append(frame)
        else:
            self._emit(channel, frame, is_answer=True)

    def _say(self, channel: Channel, frame: bytes) -> None:
        if channel.is_lost or not channel.takes_stream:
            self.dropped += 1
            return
        self._open(channel)
        self._emit(channel, frame)

    def _say_standing(self, frame: bytes) -> None:
        if self._standing is None:
            self._standing = Channel()
            if self._events is not None:
                self._name(self._standing)
        self._emit(self._standing, frame)

    def _emit(self, channel: Channel, frame: bytes, *, is_answer: bool = False) -> None:
        """Say this on a channel, and keep it if events are kept."""
        id = None
        if self._events is not None:
            channel.number += 1
            id = f"{channel.name}-{channel.number}"
            self._save(channel, frame)
        chunk = encode_event(frame, id=id)
        outlet = channel.outlet
        if outlet is None:
            if self._events is None and channel is self._standing:
                self._keep(chunk)
            return
        channel.sent = channel.number
        if not outlet.put(chunk, is_answer=is_answer):
            channel.sent -= 1
            logger.warning("session %d: the client reads too slowly; its stream is closed", self.number)

    def _keep(self, chunk: bytes) -> None:
        """Something waits for a GET: once, and not without end."""
        if self._waiting is None:
            self._waiting = {}
        self._waiting[chunk] = None
        size = sum(map(len, self._waiting))
        # The newest stays, whatever its size: a limit on messages is the server's option.
        while len(self._waiting) > 1 and (
            len(self._waiting) > MOST_WAITING or size > self._answering.max_stream_bytes
        ):
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            size -= len(oldest)
            self.dropped += 1

    def _save(self, channel: Channel, data: bytes) -> None:
        size = sum(len(unsaved) for _, _, unsaved in self._unsaved)
        if len(self._unsaved) >= MOST_UNSAVED or (self._unsaved and size + len(data) > MOST_UNSAVED_BYTES):
            logger.warning("session %d: the event store is behind; an event cannot be resumed", self.number)
            return
        self._unsaved.append((channel.name, channel.number, data))
        if self._saving is None:
            self._saving = self._loop.create_task(self._save_all())

    async def _save_all(self) -> None:
        assert self._events is not None
        try:
            while self._unsaved:
                name, number, data = self._unsaved.pop(0)
                try:
                    await self._events.append(self.id, name, number, data)
                except Exception:  # the edge of somebody's store
                    logger.exception("session %d: an event was not kept", self.number)
        finally:
            self._saving = None

    # --- settling -----------------------------------------------------------------------------------------------------

    def _settle(self, channel: Channel) -> None:
        """If all its requests have ended, so has the channel."""
        if channel.is_settled or any(id in self.core.in_flight for id in channel.ids):
            return
        channel.is_settled = True
        for id in channel.ids:
            if self._by_id.get(id) is channel:
                del self._by_id[id]
        self._by_name.pop(channel.name, None)
        if channel.outlet is not None:
            channel.outlet.end()
        channel.wake()

    async def ask(self, method: str, params: bytes, about: RequestId | None) -> msgspec.Raw:
        """Ask the client, and wait for its answer. Raises: McpError as `docs/errors.md` says."""
        channel = None if about is None else self._by_id.get(about)
        if channel is not None and (channel.is_lost or not channel.takes_stream):
            raise _unheard()
        return await super().ask(method, params, about)

    def fail(self, request: e.Serve, error: McpError) -> None:
        """A request ends with this error."""
        channel = self._by_id.get(request.id)
        if channel is not None:
            channel.error = error
        super().fail(request, error)

    def _stop_serving(self, effect: e.StopServing) -> None:
        super()._stop_serving(effect)
        channel = self._by_id.get(effect.id)
        if channel is not None:
            self._settle(channel)

    def _close(self, effect: e.Close) -> None:  # noqa: ARG002  # the effect says no more than that
        if self._standing is not None and self._standing.outlet is not None:
            self._standing.outlet.end()
        self.ended(self)


def _unheard() -> ShutdownError:
    return ShutdownError("the client closed the stream of this request, so it cannot be asked")


async def _cut_when_gone(stream: Stream, receive: Receive) -> None:
    await until_gone(receive)
    stream.cut()


Session.PERFORM = perform_table(Session)
