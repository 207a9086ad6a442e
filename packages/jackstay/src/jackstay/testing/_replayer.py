"""Plays a recording to a client: `connect(replayed("conversation.jsonl"))`, or to whoever is at the other end of a target.

A request is looked up in the repertoire and its script is played: what the server said comes again, in its order, with the id
and the progress token of the request that was made now; questions to the client get new ids, and what followed an answer waits
for one. Nothing waits for the clock, unless `speed` says that the recorded delays are kept. A client that does not read is
waited for: as long as something cannot be sent, nothing more is read, and no script goes on.

Several connections of one target share what was played, as several lives of one server would.

Above: tests, `jackstay replay`. Below: `_repertoire` (what to say), the contract of `jackstay.transport`.
"""

import asyncio
import logging
import math
import os
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from jackstay.errors import FrameTooLargeError, Json, McpError, RequestId, TransportError, UsageError
from jackstay.protocol.wire import (
    ABSENT,
    Batch,
    Error,
    ErrorCode,
    Message,
    Notification,
    Request,
    Result,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from jackstay.testing._patience import within
from jackstay.testing._recording import MAX_LINE, read_recording
from jackstay.testing._repertoire import Found, Refusal, Repertoire
from jackstay.testing._scripts import (
    Answer,
    Ask,
    End,
    Hear,
    Report,
    Say,
    Step,
    TakeBack,
    Tell,
    meta_of,
    read_params,
)
from jackstay.transport import Owner, Target, Transport, memory_pair
from jackstay.types import META_PROGRESS_TOKEN, META_SUBSCRIPTION_ID, encode_json

logger = logging.getLogger("jackstay.testing")

# How long an end waits for what was begun: a client that closes gives a server two seconds (connection.md, section 8).
DRAIN_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 0.25

# Whatever stands in a line can be said, also with an id that is longer than the recorded one.
LARGEST_FRAME: Final = 2 * MAX_LINE

_SUBSCRIPTION = META_SUBSCRIPTION_ID.encode()


class Playing:
    """A script that is being played for one request, or one notification."""

    __slots__ = ("asked", "at", "found", "id", "is_over", "place", "timer", "token", "waits_for")

    def __init__(self, found: Found, id: RequestId | None, token: Json) -> None:
        self.found = found
        self.id = id
        self.token = token
        self.place = 0
        self.at = found.script.at
        self.asked: dict[RequestId, int] = {}  # what the recording calls a question -> what we call it
        self.waits_for: int | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.is_over = False

    def next_step(self) -> Step | None:
        """The next step that is to be taken, or None at the end."""
        script = self.found.script
        while self.place < len(script.steps):
            step = script.steps[self.place]
            is_behind = script.answered is not None and self.place > script.answered
            is_told = isinstance(step, Say | Tell) and step.is_once
            if not (self.found.is_again and (is_behind or is_told)):
                return step
            self.place += 1
        return None


class Replayer:
    """The owner of the server's end of a connection.

    `ended` is called when the recorded server ended it; `left` when the client did, who may still hear what it asked for.
    Without `left`, nothing more is said then.
    """

    def __init__(
        self,
        repertoire: Repertoire,
        speed: float | None,
        ended: Callable[[TransportError], None],
        left: Callable[[], None] | None = None,
    ) -> None:
        self._repertoire = repertoire
        self._speed = speed
        self._ended = ended
        self._left = left or self.stop
        self._transport: Transport | None = None
        self._number = 0
        self._unsent: deque[bytes] = deque()
        self._stalled: deque[Playing] = deque()  # they wait for room
        self._playing: dict[RequestId, Playing] = {}
        self._questions: dict[int, Playing] = {}
        self._timed: set[Playing] = set()
        self._last_question = 0
        self._ending: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()

    def attach(self, transport: Transport) -> None:
        """The connection is there: say what was said before anybody asked, and begin to listen."""
        self._transport = transport
        for script in self._repertoire.opening:
            self._advance(Playing(Found(script), None, None))
        self.frames_arrived()

    async def settle(self) -> None:
        """Wait until everything that can still be said, was: not for what waits for an answer of the client's."""
        while self._timed or self._unsent or self._stalled:
            await self._changed()

    async def _changed(self) -> None:
        self._settled.clear()
        await self._settled.wait()

    def stop(self) -> None:
        """Say nothing more."""
        self._transport = None
        for playing in [*self._timed]:
            self._give_up(playing)
        self._unsent.clear()
        self._stalled.clear()
        self._settled.set()

    # --- the owner of a transport -------------------------------------------------------------------------------------

    def frames_arrived(self) -> None:
        """As the contract says: as long as there is room to answer."""
        while self._transport is not None and not self._unsent and self._ending is None:
            frame = self._transport.next_frame()
            if frame is None:
                return
            if isinstance(frame, FrameTooLargeError):
                self._send(encode_error(None, ErrorCode.INVALID_REQUEST, str(frame)))
            elif isinstance(frame, bytes):
                self._hear(decode(frame))

    def wrote(self, through: int) -> None:
        """As the contract says."""

    def room_made(self) -> None:
        """As the contract says."""
        self._push()
        while self._stalled and not self._unsent:
            self._advance(self._stalled.popleft())
        self.frames_arrived()
        self._settled.set()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:  # noqa: ARG002  the contract's
        """As the contract says: the client left."""
        self._left()

    # --- hearing ------------------------------------------------------------------------------------------------------

    def _hear(self, message: Message) -> None:
        if isinstance(message, Request):
            self._serve(message)
        elif isinstance(message, Notification):
            self._note(message.method, read_params(message.params))
        elif isinstance(message, Result | Error):
            self._take_answer(message.id)
        elif isinstance(message, Batch):
            if not message.members:
                self._send(encode_error(None, ErrorCode.INVALID_REQUEST, "a batch of none, or of too many"))
            for member in message.members:
                self._hear(member)
        elif not message.is_answer:  # malformed
            self._send(encode_error(message.id, message.code, message.message))

    def _serve(self, request: Request) -> None:
        if request.id in self._playing:
            # As our server does (JSON-RPC has no word for it): an answer could not be told from the other's.
            self._send(
                encode_error(request.id, ErrorCode.INVALID_REQUEST, "a request with this id is in flight")
            )
            return
        params = read_params(request.params)
        found = self._repertoire.find(request.method, params)
        if isinstance(found, Found):
            token = meta_of(params).get(META_PROGRESS_TOKEN)
            playing = self._playing[request.id] = Playing(found, request.id, token)
            self._advance(playing)
        elif request.method == "ping" and found.code == ErrorCode.METHOD_NOT_FOUND:
            self._send(encode_result(request.id, b"{}"))  # clients ask at any time, recorded or not
        else:
            self._refuse(request.id, found)

    def _refuse(self, id: RequestId, refusal: Refusal) -> None:
        logger.warning("%s", refusal.message)
        data = ABSENT if refusal.data is None else refusal.data
        self._send(encode_error(id, refusal.code, refusal.message, data))

    def _note(self, method: str, params: Json) -> None:
        if method == "notifications/cancelled":
            id = params.get("requestId") if isinstance(params, dict) else None
            playing = self._playing.get(id) if isinstance(id, int | str) else None
            if playing is not None:
                self._give_up(playing)
            return
        found = self._repertoire.find_notification(method, params)
        if found is not None:
            self._advance(Playing(found, None, None))

    def _take_answer(self, id: RequestId | None) -> None:
        playing = self._questions.pop(id, None) if isinstance(id, int) else None
        if playing is None or playing.is_over:
            return
        if playing.waits_for == id:
            playing.waits_for = None
            self._advance(playing)

    # --- playing ------------------------------------------------------------------------------------------------------

    def _advance(self, playing: Playing) -> None:
        """Play on until the end, or until something has to be waited for.

        A request that has no answer at the end stays open, as it did, until the client gives it up.
        """
        while not playing.is_over and self._ending is None:
            step = playing.next_step()
            if step is None:
                return
            if self._unsent:
                self._stalled.append(playing)
                return
            delay = 0.0 if self._speed is None else max(0.0, step.at - playing.at) / self._speed
            playing.at = step.at
            if delay > 0 and not isinstance(step, Hear):
                self._timed.add(playing)
                playing.timer = asyncio.get_running_loop().call_later(delay, self._wake, playing)
                return
            if isinstance(step, Hear) and not self._has_heard(playing, step):
                return
            playing.place += 1
            self._take(playing, step)

    def _wake(self, playing: Playing) -> None:
        self._timed.discard(playing)
        self._advance(playing)
        self._settled.set()

    def _has_heard(self, playing: Playing, step: Hear) -> bool:
        """Whether the client has answered; if not, it is waited for."""
        asked = playing.asked.get(step.id, 0)
        if asked in self._questions:
            playing.place += 1
            playing.waits_for = asked
            return False
        return True

    def _take(self, playing: Playing, step: Step) -> None:
        match step:
            case Say(frame=frame):
                self._send(frame)
            case Report(method=method, params=params):
                if playing.token is not None:  # else nobody asked for it this time
                    said = encode_json({**params, "progressToken": playing.token})
                    self._send(encode_notification(method, said))
            case Tell():
                self._tell(step)
            case Ask(id=recorded, method=method, params=params):
                self._last_question += 1
                playing.asked[recorded] = self._last_question
                self._questions[self._last_question] = playing
                self._send(encode_request(self._last_question, method, params))
            case TakeBack(id=recorded, params=params):
                asked = playing.asked.get(recorded)
                if asked is not None and self._questions.pop(asked, None) is not None:
                    said = encode_json({**params, "requestId": asked})
                    self._send(encode_notification("notifications/cancelled", said))
            case Answer():
                self._answer(playing, step)
            case End():
                self._end(step)
            case Hear():
                pass  # heard already

    def _tell(self, step: Tell) -> None:
        """Tell whoever has that subscription now, or one like it; if nobody has, nobody."""
        having = [one for one in self._playing.values() if one.found.script.method == step.about.method]
        for playing in sorted(having, key=lambda one: one.found.script is not step.about)[:1]:
            meta = {**meta_of(step.params), META_SUBSCRIPTION_ID: playing.id}
            self._send(encode_notification(step.method, encode_json({**step.params, "_meta": meta})))

    def _answer(self, playing: Playing, step: Answer) -> None:
        assert playing.id is not None  # only requests are answered
        self._playing.pop(playing.id, None)
        if step.result is None:
            self._send(encode_error(playing.id, step.code, step.message, step.data))
            return
        result = step.result
        if _SUBSCRIPTION in result:
            body = read_params(msgspec.Raw(result))
            if isinstance(body, dict) and META_SUBSCRIPTION_ID in meta_of(body):
                meta = {**meta_of(body), META_SUBSCRIPTION_ID: playing.id}
                result = encode_json({**body, "_meta": meta})
        self._send(encode_result(playing.id, result))

    def _give_up(self, playing: Playing) -> None:
        """Nobody wants it any more."""
        playing.is_over = True
        if playing.timer is not None:
            playing.timer.cancel()
        self._timed.discard(playing)
        if playing.id is not None:
            self._playing.pop(playing.id, None)
        self._settled.set()

    def _end(self, step: End) -> None:
        error = TransportError(f"{step.why} (as it was recorded)", exit_code=step.exit_code)
        self._ending = asyncio.ensure_future(self._part(error))

    async def _part(self, error: TransportError) -> None:
        """End the connection once everything that was said before is on its way."""
        while self._unsent:
            await self._changed()
        if self._transport is not None:
            await self._transport.flush()
        self._ended(error)

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send(self, frame: bytes) -> None:
        self._unsent.append(frame)
        self._push()

    def _push(self) -> None:
        while self._transport is not None and self._unsent:
            if not self._transport.send(self._unsent[0], self._number + 1):
                return
            self._number += 1
            self._unsent.popleft()


class ReplayedTarget:
    """Each `open()` is a connection to the recorded server. Made by `replayed()`; no process is started."""

    is_http = False
    init_timeout: float | None = None

    def __init__(self, repertoire: Repertoire, speed: float | None) -> None:
        self.name = repertoire.name
        self._repertoire = repertoire
        self._speed = speed

    def __repr__(self) -> str:
        return f"<ReplayedTarget {self._repertoire!r}>"

    async def open(self, owner: Owner, max_frame_bytes: int, close_step: float) -> Transport:
        """A connection in memory, with the recorded server at its other end."""
        pair = memory_pair(self.name)
        replayer = Replayer(self._repertoire, self._speed, pair.cut)
        server = await pair.server.open(replayer, LARGEST_FRAME, close_step)
        client = await pair.client.open(owner, max_frame_bytes, close_step)
        replayer.attach(server)
        return client


def replayed(path: str | os.PathLike[str], *, speed: float | None = None) -> ReplayedTarget:
    """A target that answers as the server did that was recorded in the file at `path`. The file is read now.

    `speed` keeps the recorded delays: 1 as they were, 2 in half the time; without it there are none.

    Raises: UsageError, with the line that cannot be used and what to do.
    """
    _check_speed(speed)
    return ReplayedTarget(Repertoire(read_recording(path)), speed)


async def serve_recording(
    path: str | os.PathLike[str],
    target: Target,
    *,
    speed: float | None = None,
) -> TransportError | None:
    """Answer whoever is at the other end of `target`, `own_stdio()` for instance, as `replayed()` does.

    It returns when they left, or when the recorded server ended the connection: then with its end. Cancel it to end it.

    Raises: UsageError, as `replayed()`; TransportError, if the target cannot be opened.
    """
    _check_speed(speed)
    repertoire = Repertoire(read_recording(path))
    ended: asyncio.Future[TransportError | None] = asyncio.get_running_loop().create_future()

    def end(error: TransportError | None = None) -> None:
        if not ended.done():
            ended.set_result(error)

    replayer = Replayer(repertoire, speed, end, end)
    transport = await target.open(replayer, LARGEST_FRAME, DRAIN_SECONDS)
    try:
        replayer.attach(transport)
        end_of_it = await ended
        await within(DRAIN_SECONDS, replayer.settle())
        await within(FLUSH_SECONDS, transport.flush())
        return end_of_it
    finally:
        replayer.stop()
        await transport.close()


def _check_speed(speed: object) -> None:
    is_number = isinstance(speed, int | float) and not isinstance(speed, bool)
    if speed is not None and not (is_number and 0 < speed < math.inf):  # type: ignore[operator]  # asked just before
        raise UsageError(f"speed must be a number above 0, or None, not {speed!r}", path="speed")
