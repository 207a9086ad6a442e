"""A connection over a transport with a stream of frames in each direction, such as stdio or memory.

Backpressure: while responses wait for a slow client, no further requests are read from it. Progress and log messages
are dropped meanwhile and other notifications are deduplicated, so memory is bounded by what the client requested.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from jackstay.errors import FrameTooLargeError, McpError, RequestId
from jackstay.protocol.server import ServerConnection
from jackstay.protocol.server import events as e
from jackstay.protocol.server.events import Serve
from jackstay.server._driver import ConnectionConfig, Driver
from jackstay.server._parked_task import NOT_STARTED, ParkedTask, Step

if TYPE_CHECKING:
    from jackstay.transport import Target, Transport

logger = logging.getLogger("jackstay.server")

# Seconds for flushing when a connection ends, in addition to what handlers left of `drain_timeout`. With the rest of
# the shutdown (`_run`) this stays within 1.5 s.
FLUSH_TIMEOUT = 0.25

# Seconds that a transport may take for each step of closing.
CLOSE_STEP = 2.0

# Frames read in one iteration of the event loop. Handlers run between iterations, so that a client may pipeline more
# quick requests than `max_concurrent`, and other connections are served too.
FRAMES_PER_ITERATION = 128

# Larger responses are not kept until all frames of an iteration were processed.
MAX_READY_BYTES = 4_096

# Notifications that are dropped for a slow client.
DROPPABLE = frozenset({"notifications/message", "notifications/progress"})

# Bytes of params of other notifications that may be queued. A proxy does not control how many its upstream sends.
MAX_NOTIFICATION_BYTES = 8 * 1024 * 1024


class Connection(Driver):
    """One connection of a server over a transport."""

    def __init__(self, config: ConnectionConfig, core: ServerConnection | None = None) -> None:
        super().__init__(config, core)
        self.closed = asyncio.Event()
        # Called when draining starts.
        self.on_draining: Callable[[], None] | None = None
        self._transport: Transport | None = None
        self._is_gone = False
        self._pull: asyncio.Handle | None = None
        # While `_is_collecting`, responses are passed to the transport together, when `frames_arrived()` returns.
        self._is_collecting = False
        self._ready: list[bytes] = []
        self._send_all: Callable[[list[bytes], int], int] | None = None
        self._backlog: deque[bytes] = deque()
        self._queued_notifications: set[tuple[str, bytes]] = set()
        self._queued_bytes = 0
        self._number = 0
        self._parked: ParkedTask | None = None
        self._ending: asyncio.Task[None] | None = None
        self._drained_by = 0.0  # deadline of the handlers; what they leave of it is added to the time for flushing

    def __repr__(self) -> str:
        return f"<Connection {self.number} {self.core!r} {len(self._tasks)} tasks, {len(self._backlog)} waiting>"

    # --- public methods -----------------------------------------------------------------------------------------------

    async def open(self, target: "Target") -> None:
        """Open the target and start to serve. Raises: TransportError."""
        self._transport = await target.open(self, self.server_config.options.max_frame_bytes, CLOSE_STEP)
        self._send_all = getattr(self._transport, "send_all", None)
        self.frames_arrived()

    def stop(self) -> None:
        """Close at once. Responses that are already queued are still flushed, if the client reads them now."""
        self._drained_by = 0.0
        super().stop()

    def notify(self, method: str, params: bytes, about: RequestId | None = None) -> None:
        """Send a notification. For a slow client it may be dropped.

        Raises: FrameTooLargeError.
        """
        if self._backlog:
            notification = (method, params)
            is_too_much = self._queued_bytes + len(params) > MAX_NOTIFICATION_BYTES
            if method in DROPPABLE or notification in self._queued_notifications or is_too_much:
                self.dropped += 1
                return
            self._queued_notifications.add(notification)
            self._queued_bytes += len(params)
        super().notify(method, params, about)

    def progressed(self, event: e.Progressed) -> None:
        """Send progress. For a slow client it is dropped."""
        if self._backlog:
            self.dropped += 1
        else:
            self.step(event)

    # --- TransportHandler ---------------------------------------------------------------------------------------------

    def frames_arrived(self, pulled: bytes | McpError | None = None) -> None:
        """Process the frame that the caller has pulled, if any, and then those that the transport has."""
        transport = self._transport
        if transport is None or self._pull is not None:
            return
        core, next_frame, backlog = self.core, transport.next_frame, self._backlog
        accept, serve = core.accept, self._serve
        try:
            for _ in range(FRAMES_PER_ITERATION):
                if backlog and not self._is_gone:
                    return  # resumed by `room_made`
                frame = next_frame() if pulled is None else pulled
                pulled = None
                if not isinstance(frame, bytes):
                    if isinstance(frame, FrameTooLargeError):
                        self.step(e.OversizeReceived(frame.size, frame.start, frame.end))
                        continue
                    if frame is not None:
                        # `went_down` follows and closes the connection; this is the reason.
                        logger.warning("connection %d: the input stream is corrupt: %s", self.number, frame.message)
                        continue
                    if self._is_gone:
                        self.step(e.ClientDisconnected())
                    return
                try:
                    self._is_stepping = True
                    try:
                        accepted = accept(frame)
                        if isinstance(accepted, Serve):
                            serve(accepted)
                        else:
                            self._perform(core.process(accepted, len(frame)))
                    finally:
                        self._is_stepping = False
                    if self._queued_events:
                        self._process_events()
                    elif self._wake is not None or core.wake_at is not None:
                        self._arm()
                    self._is_collecting = True  # the response to a single request is sent at once
                except Exception:  # a defect in this package must not leave the client without a response
                    logger.exception("connection %d: internal error while handling a frame; closing", self.number)
                    self.stop()
            self._pull = self._loop.call_soon(self._pull_on)
        finally:
            self._is_collecting = False
            if self._ready:
                self._send_ready()

    def wrote(self, through: int) -> None:
        pass  # responses are never withdrawn, so it does not matter when they were written

    def room_made(self) -> None:
        transport = self._transport
        while self._backlog and transport is not None:
            if not transport.send(self._backlog[0], self._number + 1):
                return
            self._backlog.popleft()
            self._number += 1
        self._queued_notifications.clear()
        self._queued_bytes = 0
        self.frames_arrived()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:  # noqa: ARG002  # unused
        # Frames that were received before are still served: in `server < requests > responses` the input ends first.
        logger.debug("connection %d: the client disconnected: %s", self.number, error.message)
        self._is_gone = True
        self.frames_arrived()

    def _pull_on(self) -> None:
        self._pull = None
        self.frames_arrived()

    # --- handlers -----------------------------------------------------------------------------------------------------

    def _serve(self, request: e.Serve) -> None:
        """As `Driver._serve`; the first step of a coroutine runs at once, and the rest, if there is one, in a task."""
        if self.telemetry.listeners:
            self._emit_start(request)
        try:
            outcome = self.handlers.serve(self, request)
        except Exception as error:  # noqa: BLE001  # reported
            self._raised(request, error)
            return
        if not isinstance(outcome, bytes):
            if outcome is None:
                return
            parked = self._parked
            step = NOT_STARTED if parked is None else parked.start(outcome)
            if not isinstance(step, bytes):
                self._continue(request, outcome, step)
                return
            if not step:  # the request stays open
                return
            outcome = step
        # As `finish`, without two calls: a response that follows no event, and ends nothing else, is sent at once.
        if not (self._queued_events or self._stop_hooks or self._started):
            frame = self.core.respond(request.id, request.serial, outcome)
            if frame is not None:
                if self._is_collecting and len(frame) <= MAX_READY_BYTES:
                    self._ready.append(frame)
                else:
                    self._send_frame(frame)
                return
        self.finish(request, outcome)

    def _continue(self, request: e.Serve, work: Coroutine[Any, Any, bytes], step: Step) -> None:
        """Continue a coroutine that did not return in its first step."""
        parked = self._parked
        if isinstance(step, BaseException):
            self._raised(request, step)
        elif parked is None or step is NOT_STARTED:
            if parked is None or parked.is_spent:
                self._parked = ParkedTask(self._loop)
            self._start(request, work)
        else:
            self._parked = None
            rest = parked.remaining_steps(step)
            self._tasks[request.serial] = parked.task, rest
            parked.assign(self._run(request, rest))

    # --- effects ------------------------------------------------------------------------------------------------------

    def _send(self, effect: e.Send) -> None:
        if effect.error is not None:
            # Only the message: the error itself quotes what the client sent.
            logger.debug("connection %d: rejected: %s", self.number, effect.error.message)
        self._send_frame(effect.frame)

    def _send_ready(self) -> None:
        frames, self._ready = self._ready, []
        if self._send_all is not None and not self._backlog:
            sent = self._send_all(frames, self._number + 1)
            self._number += sent
            self._backlog.extend(frames[sent:])
        else:
            for frame in frames:
                self._send_frame(frame)

    def _send_frame(self, frame: bytes) -> None:
        if self._ready:
            self._send_ready()
        transport = self._transport
        if transport is None:
            return
        number = self._number + 1
        send = transport.send  # an attribute of most transports, and not a method: its call is slow in Python 3.11
        if self._backlog or not send(frame, number):
            self._backlog.append(frame)
        else:
            self._number = number

    def _draining(self) -> None:
        self._drained_by = self._loop.time() + self.server_config.options.drain_timeout
        super()._draining()
        if self.on_draining is not None:
            self.on_draining()

    # --- closing ------------------------------------------------------------------------------------------------------

    def _close(self, _: e.Close) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        transport = self._transport
        if self._parked is not None:
            self._parked.discard()
            self._parked = None
        if transport is not None:
            left = max(0.0, self._drained_by - self._loop.time())
            try:
                async with asyncio.timeout(left + FLUSH_TIMEOUT):
                    # The backlog is sent in `room_made`, which is called before a flush is done; by a third-party
                    # transport perhaps one iteration of the event loop later.
                    while await transport.flush() and self._backlog:
                        await asyncio.sleep(0)
            except TimeoutError:
                logger.debug("connection %d: the client did not read the last responses in time", self.number)
            await transport.close()
        self._transport = None
        self._backlog.clear()
        if self._pull is not None:
            self._pull.cancel()
        self.closed.set()
