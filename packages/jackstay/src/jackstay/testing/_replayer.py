"""Replays a recording as a server: `connect(replayed("session.jsonl"))`.

Each request is looked up in the cassette, and its interaction is played with the current id and progress token. There
are no delays unless `speed` is set. Connections of one target share the state of the cassette.
"""

import asyncio
import logging
import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

import msgspec

from jackstay.errors import FrameTooLargeError, Json, McpError, RequestId, TransportError, UsageError
from jackstay.protocol.wire import (
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
from jackstay.testing._cassette import Cassette, Match
from jackstay.testing._interactions import (
    CancelRequest,
    Disconnect,
    Expect,
    Interaction,
    Respond,
    Send,
    SendProgress,
    SendRequest,
    SendToSubscription,
    Step,
    cancelled_id,
    meta_of,
    read_members,
    read_params,
    with_subscription,
)
from jackstay.testing._recording import MAX_LINE, read_recording
from jackstay.testing._relay import finishes_within
from jackstay.transport import Target, Transport, TransportHandler, memory_pair
from jackstay.types import META_PROGRESS_TOKEN, META_SUBSCRIPTION_ID, encode_json

logger = logging.getLogger("jackstay.testing")

# Time limits at the end of a connection. Together less than the two seconds that a closing client gives a server.
DRAIN_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 0.25

# Enough for every recorded frame, even with a longer id.
MAX_FRAME: Final = 2 * MAX_LINE


class Playback(msgspec.Struct, eq=False):
    """An interaction that is played for a request or a notification: the next steps, and the recorded time so far."""

    interaction: Interaction
    steps: deque[Step]
    at: float
    id: RequestId | None
    token: Json
    request_ids: dict[RequestId, int] = {}  # recorded id of a request to the client -> current id


def _steps(match: Match) -> Iterator[Step]:
    """Yield the steps to play. When they are repeated, messages that the request did not cause are left out."""
    for step in match.interaction.steps:
        if not (match.is_again and isinstance(step, Send | SendToSubscription) and step.is_once):
            yield step
        if match.is_again and isinstance(step, Respond):
            return


class Replayer:
    """The transport handler of the replayed server.

    The result of `ended` is the recorded error with which the server ended the connection, or None if the client did;
    it can still receive pending responses.
    """

    def __init__(self, cassette: Cassette, speed: float | None) -> None:
        self.ended: asyncio.Future[TransportError | None] = asyncio.get_running_loop().create_future()
        self._cassette = cassette
        self._speed = speed
        self._transport: Transport | None = None
        self._number = 0
        self._unsent: deque[bytes] = deque()
        self._playbacks: dict[RequestId, Playback] = {}
        self._requests: dict[int, Playback] = {}
        self._timed: dict[Playback, asyncio.TimerHandle] = {}
        self._ids = count(1)
        self._ending: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()

    def attach(self, transport: Transport) -> None:
        """Start with an open transport: send what the server sent first, and begin to receive."""
        self._transport = transport
        for interaction in self._cassette.opening:
            self._play(Match(interaction))
        self.frames_arrived()

    async def settle(self) -> None:
        """Wait until everything is sent, except for steps that wait for a response of the client."""
        await self._until(lambda: not self._timed and not self._unsent)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._settled.clear()
            await self._settled.wait()

    def stop(self) -> None:
        """Send nothing more."""
        self._transport = None
        for playback in [*self._timed]:
            self._abandon(playback)
        self._unsent.clear()
        self._settled.set()

    # --- the handler of a transport -----------------------------------------------------------------------------------

    def frames_arrived(self) -> None:
        """See `TransportHandler.frames_arrived`. Frames are pulled while there is room for responses."""
        while self._transport is not None and not self._unsent and self._ending is None:
            frame = self._transport.next_frame()
            if frame is None:
                return
            if isinstance(frame, FrameTooLargeError):
                self._send(encode_error(None, ErrorCode.INVALID_REQUEST, str(frame)))
            elif isinstance(frame, bytes):
                self._receive(decode(frame))

    def wrote(self, through: int) -> None:
        """See `TransportHandler.wrote`."""

    def room_made(self) -> None:
        """See `TransportHandler.room_made`."""
        self._push()
        self.frames_arrived()
        self._settled.set()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:  # noqa: ARG002
        """See `TransportHandler.went_down`. The client disconnected."""
        self._end(None)

    def _end(self, error: TransportError | None) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def _receive(self, message: Message) -> None:
        if isinstance(message, Request):
            self._serve(message)
        elif isinstance(message, Notification):
            self._receive_notification(message.method, read_params(message.params))
        elif isinstance(message, Result | Error):
            self._receive_response(message.id)
        elif isinstance(message, Batch):
            if not message.members:
                self._send(encode_error(None, ErrorCode.INVALID_REQUEST, "the batch is empty or too large"))
            for member in message.members:
                self._receive(member)
        elif not message.is_response:  # malformed
            self._send(encode_error(message.id, message.code, message.message))

    def _serve(self, request: Request) -> None:
        if request.id in self._playbacks:
            # As Jackstay's server does: the two responses could not be distinguished.
            self._send(encode_error(request.id, ErrorCode.INVALID_REQUEST, "a request with this id is in flight"))
            return
        params = read_params(request.params)
        match = self._cassette.find(request.method, params)
        if isinstance(match, Match):
            self._play(match, request.id, meta_of(params).get(META_PROGRESS_TOKEN))
        elif request.method == "ping" and match.code == ErrorCode.METHOD_NOT_FOUND:
            self._send(encode_result(request.id, b"{}"))  # clients may ping at any time
        else:
            logger.warning("%s", match.message)
            self._send(encode_error(request.id, match.code, match.message, match.data))

    def _receive_notification(self, method: str, params: Json) -> None:
        if method == "notifications/cancelled":
            id = cancelled_id(params)
            if id in self._playbacks:
                self._abandon(self._playbacks[id])
            return
        match = self._cassette.find_notification(method, params)
        if match is not None:
            self._play(match)

    def _receive_response(self, id: RequestId | None) -> None:
        playback = self._requests.pop(id, None) if isinstance(id, int) else None
        if playback is not None and playback.steps and isinstance(playback.steps[0], Expect):
            self._advance(playback)

    # --- playing ------------------------------------------------------------------------------------------------------

    def _play(self, match: Match, id: RequestId | None = None, token: Json = None) -> None:
        playback = Playback(match.interaction, deque(_steps(match)), match.interaction.at, id, token)
        if id is not None:
            self._playbacks[id] = playback
        self._advance(playback)

    def _advance(self, playback: Playback) -> None:
        """Perform steps until the end, or until one has to wait.

        A request without a recorded response stays open until the client cancels it.
        """
        while playback.steps and self._ending is None:
            step = playback.steps[0]
            if isinstance(step, Expect):
                if playback.request_ids.get(step.id) in self._requests:
                    return  # until the client has responded
            elif self._speed is not None and step.at > playback.at:
                delay = (step.at - playback.at) / self._speed
                playback.at = step.at
                self._timed[playback] = asyncio.get_running_loop().call_later(delay, self._wake, playback)
                return
            playback.at = step.at
            playback.steps.popleft()
            self._perform(playback, step)

    def _wake(self, playback: Playback) -> None:
        del self._timed[playback]
        self._advance(playback)
        self._settled.set()

    def _perform(self, playback: Playback, step: Step) -> None:
        match step:
            case Send(frame=frame):
                self._send(frame)
            case SendProgress(params=params):
                if playback.token is not None:  # otherwise progress was not requested this time
                    body = encode_json({**params, "progressToken": playback.token})
                    self._send(encode_notification("notifications/progress", body))
            case SendToSubscription():
                self._notify_subscription(step)
            case SendRequest(request=request):
                id = playback.request_ids[request.id] = next(self._ids)
                self._requests[id] = playback
                self._send(encode_request(id, request.method, request.params))
            case CancelRequest(id=recorded, params=params):
                current = playback.request_ids.get(recorded)
                if current is not None and self._requests.pop(current, None) is not None:
                    body = encode_json({**params, "requestId": current})
                    self._send(encode_notification("notifications/cancelled", body))
            case Respond(response=response):
                self._answer(playback, response)
            case Disconnect():
                error = TransportError(f"{step.why} (replayed)", exit_code=step.exit_code)
                self._ending = asyncio.ensure_future(self._disconnect(error))

    def _notify_subscription(self, step: SendToSubscription) -> None:
        """Send the notification to the same subscription, or to one of the same method, if one is open."""
        method = step.subscription.method
        candidates = [each for each in self._playbacks.values() if each.interaction.method == method]
        for playback in sorted(candidates, key=lambda each: each.interaction is not step.subscription)[:1]:
            self._send(encode_notification(step.method, with_subscription(step.params, playback.id)))

    def _answer(self, playback: Playback, response: Result | Error) -> None:
        assert playback.id is not None  # only requests have a response
        self._playbacks.pop(playback.id, None)
        if isinstance(response, Error):
            self._send(encode_error(playback.id, response.code, response.message, response.data))
            return
        result: bytes = response.result
        body = read_members(result)
        if META_SUBSCRIPTION_ID in meta_of(body):
            result = with_subscription(body, playback.id)
        self._send(encode_result(playback.id, result))

    def _abandon(self, playback: Playback) -> None:
        """Stop a playback whose request was cancelled."""
        playback.steps.clear()
        if playback in self._timed:
            self._timed.pop(playback).cancel()
        if playback.id is not None:
            self._playbacks.pop(playback.id, None)
        self._settled.set()

    async def _disconnect(self, error: TransportError) -> None:
        """End the connection when everything is sent."""
        await self._until(lambda: not self._unsent)
        if self._transport is not None:
            await self._transport.flush()
        self._end(error)

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
    """A recorded server. Returned by `replayed()`; each `open()` is a connection, and no process is started."""

    is_http = False
    init_timeout: float | None = None

    def __init__(self, cassette: Cassette, speed: float | None) -> None:
        self.name = cassette.name
        self._cassette = cassette
        self._speed = speed

    def __repr__(self) -> str:
        return f"<ReplayedTarget {self._cassette!r}>"

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> Transport:
        """Return an in-memory connection to the recorded server."""
        pair = memory_pair(self.name)
        replayer = Replayer(self._cassette, self._speed)

        def end(ended: "asyncio.Future[TransportError | None]") -> None:
            replayer.stop()
            pair.cut(ended.result())

        replayer.ended.add_done_callback(end)
        server = await pair.server.open(replayer, MAX_FRAME, close_step)
        client = await pair.client.open(handler, max_frame_bytes, close_step)
        replayer.attach(server)
        return client


def replayed(path: str | os.PathLike[str], *, speed: float | None = None) -> ReplayedTarget:
    """Return a target that replays the recording at `path`. The file is read now.

    `speed` keeps the recorded delays: 1 as recorded, 2 in half the time. By default there are none.

    Raises: UsageError, with the invalid line and what to do.
    """
    return ReplayedTarget(_load(path, speed), speed)


async def serve_recording(
    path: str | os.PathLike[str], target: Target, *, speed: float | None = None
) -> TransportError | None:
    """Replay a recording to the client of `target`, for example `own_stdio()`.

    Returns None when the client disconnects, or the recorded error when the recorded server ended the connection.
    Cancel it to stop.

    Raises: UsageError, as `replayed()`; TransportError, if the target cannot be opened.
    """
    replayer = Replayer(_load(path, speed), speed)
    transport = await target.open(replayer, MAX_FRAME, DRAIN_SECONDS)
    try:
        replayer.attach(transport)
        error = await replayer.ended
        await finishes_within(DRAIN_SECONDS, replayer.settle())
        await finishes_within(FLUSH_SECONDS, transport.flush())
        return error
    finally:
        replayer.stop()
        await transport.close()


def _load(path: str | os.PathLike[str], speed: object) -> Cassette:
    is_number = isinstance(speed, int | float) and not isinstance(speed, bool)
    if speed is not None and not (is_number and 0 < speed < math.inf):  # type: ignore[operator]  # checked before
        raise UsageError(f"speed must be a number above 0 or None, not {speed!r}", path="speed")
    return Cassette(read_recording(path))
