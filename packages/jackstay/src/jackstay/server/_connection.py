"""One connection over a transport: a stream of frames each way, as stdio and memory have it.

A client that reads slowly is not read from until it has caught up: answers wait here, and with answers waiting no further
request is pulled (at most 8 MiB are queued below). Progress and log messages are dropped meanwhile, and other notifications
kept once each, so that what waits is bounded by what the client asked for.

Above: `_server`, which owns connections. Below: `_driver` (does what the core decides), `jackstay.transport` (how frames move).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from jackstay.errors import FrameTooLargeError, McpError, RequestId
from jackstay.protocol.server import ServerConnection
from jackstay.protocol.server import events as e
from jackstay.server._driver import Driver, Terms, perform_table
from jackstay.transport import Target, Transport

logger = logging.getLogger("jackstay.server")

# What flushing may take when a connection ends, beyond the second that handlers get and may not need: together, and
# with what a process does at its end (`_run`), the client's 1.5 s are kept.
FLUSH_TIMEOUT = 0.25

# Frames pulled in one turn of the loop. Between turns handlers run and answer, so that a client which pipelines more
# quick requests than `max_concurrent` is served and not refused; and other connections have their turn.
PULLED_IN_A_TURN = 64

# What a client that reads slowly does without.
DISPENSABLE = frozenset({"notifications/message", "notifications/progress"})

# What may wait of other notifications, in bytes of their params: a server that passes on what another says does not
# decide how much that is.
MOST_NOTICE_BYTES = 8 * 1024 * 1024


class Connection(Driver):
    """One connection of a server over a transport."""

    __slots__ = (
        *(
            "_backlog",
            "_drained_by",
            "_ending",
            "_is_gone",
            "_notice_bytes",
            "_notices",
            "_number",
            "_pull",
            "_transport",
            "closed",
            "on_draining",
        ),
    )

    def __init__(self, terms: Terms, core: ServerConnection | None = None) -> None:
        super().__init__(terms, core)
        self.closed = asyncio.Event()
        # Who wants to know that the end has begun.
        self.on_draining: Callable[[], None] | None = None
        self._transport: Transport | None = None
        self._is_gone = False
        self._pull: asyncio.Handle | None = None
        self._backlog: deque[bytes] = deque()
        self._notices: set[tuple[str, bytes]] = set()
        self._notice_bytes = 0
        self._number = 0
        self._ending: asyncio.Task[None] | None = None
        self._drained_by = 0.0  # until when handlers may run; what they leave of it is for flushing

    def __repr__(self) -> str:
        return (
            f"<Connection {self.number} {self.core!r} {len(self._tasks)} tasks, {len(self._backlog)} waiting>"
        )

    # --- what its owner does ------------------------------------------------------------------------------------------

    async def open(self, target: Target, close_step: float = 2.0) -> None:
        """Begin to serve over this target. Raises: TransportError."""
        self._transport = await target.open(self, self.offer.options.max_frame_bytes, close_step)
        self.frames_arrived()

    def stop(self) -> None:
        """End at once; what was answered is still flushed, if the client takes it now."""
        self._drained_by = 0.0
        super().stop()

    def notify(self, method: str, params: bytes, about: RequestId | None = None) -> None:
        """Send a notification, or drop it where the client reads too slowly for such things.

        Raises: FrameTooLargeError for one that cannot be sent.
        """
        if self._backlog:
            notice = (method, params)
            is_too_much = self._notice_bytes + len(params) > MOST_NOTICE_BYTES
            if method in DISPENSABLE or notice in self._notices or is_too_much:
                self.dropped += 1
                return
            self._notices.add(notice)
            self._notice_bytes += len(params)
        super().notify(method, params, about)

    def progressed(self, event: e.Progressed) -> None:
        """Report progress, or drop it where the client reads too slowly."""
        if self._backlog:
            self.dropped += 1
        else:
            self.step(event)

    # --- what the transport tells (its owner's side of the contract) --------------------------------------------------

    def frames_arrived(self) -> None:
        transport = self._transport
        if transport is None or self._pull is not None:
            return
        for _ in range(PULLED_IN_A_TURN):
            if self._backlog and not self._is_gone:
                return  # until `room_made`
            frame = transport.next_frame()
            if frame is None:
                if self._is_gone:
                    self.step(e.ClientGone())
                return
            self._receive(frame)
        self._pull = self._loop.call_soon(self._pull_on)

    def wrote(self, through: int) -> None:
        pass  # an answer is never taken back, so it does not matter here when it was begun

    def room_made(self) -> None:
        transport = self._transport
        while self._backlog and transport is not None:
            if not transport.send(self._backlog[0], self._number + 1):
                return
            self._backlog.popleft()
            self._number += 1
        self._notices.clear()
        self._notice_bytes = 0
        self.frames_arrived()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:  # noqa: ARG002  # the contract's
        # What it sent before is still served: `server < requests > answers` ends its input before we have begun.
        logger.debug("connection %d: the client is gone: %s", self.number, error.message)
        self._is_gone = True
        self.frames_arrived()

    def _pull_on(self) -> None:
        self._pull = None
        self.frames_arrived()

    def _receive(self, frame: bytes | McpError) -> None:
        if isinstance(frame, bytes):
            try:
                self._do(self.core.receive(frame, self._loop.time()))
            except Exception:  # the edge of all that a frame sets off: a defect is no silence
                logger.exception("connection %d: a frame could not be handled, and it ends here", self.number)
                self.stop()
        elif isinstance(frame, FrameTooLargeError):
            self.step(e.OversizeReceived(frame.size))
        else:
            # `went_down` follows, and with it the end, which should not be a riddle.
            logger.warning("connection %d: the stream is lost: %s", self.number, frame.message)

    # --- effects ------------------------------------------------------------------------------------------------------

    def _send(self, effect: e.Send) -> None:
        if effect.error is not None:
            # Why, and not what: the error itself quotes what the client sent (section 8).
            logger.debug("connection %d: refused: %s", self.number, effect.error.message)
        transport = self._transport
        if transport is None:
            return
        if self._backlog or not transport.send(effect.frame, self._number + 1):
            self._backlog.append(effect.frame)
        else:
            self._number += 1

    def _draining(self) -> None:
        self._drained_by = self._loop.time() + self.offer.options.drain_timeout
        super()._draining()
        if self.on_draining is not None:
            self.on_draining()

    # --- the end ------------------------------------------------------------------------------------------------------

    def _close(self, _: e.Close) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        transport = self._transport
        if transport is not None:
            left = max(0.0, self._drained_by - self._loop.time())
            try:
                async with asyncio.timeout(left + FLUSH_TIMEOUT):
                    # What waits here follows when there is room, of which we are told before a flush is done; by a
                    # transport of somebody else's, perhaps, a turn of the loop later.
                    while await transport.flush() and self._backlog:
                        await asyncio.sleep(0)
            except TimeoutError:
                logger.debug("connection %d: the client did not take the last answers", self.number)
            await transport.close()
        self._transport = None
        self._backlog.clear()
        if self._pull is not None:
            self._pull.cancel()
        self.closed.set()


Connection.PERFORM = perform_table(Connection)
