"""The transport over stdin and stdout of a child process, and the end of that process.

If the child ends by itself, everything it wrote is delivered before `went_down`, which is called within 100 ms even if
a grandchild keeps the pipes open (docs/guarantees.md G1). `close()` closes stdin, then sends SIGTERM, then SIGKILL.
"""

import asyncio
import logging
import os
import signal
from enum import Enum
from functools import partial
from typing import Final

from jackstay.errors import McpError, ProtocolError, TransportError
from jackstay.protocol.wire import FRAMINGS
from jackstay.transport._contract import TransportHandler
from jackstay.transport._frame_reader import FrameReader
from jackstay.transport._pipe import ReadPipe, WritePipe
from jackstay.transport._process import Process
from jackstay.transport._queue import WriteQueue
from jackstay.transport._spawn import Child, close_pipes
from jackstay.transport._stderr_tail import StderrTail

# The longest time between the first sign of an end and `went_down` (docs/guarantees.md G1).
REPORT_AFTER: Final = 0.1

# The time between SIGTERM and SIGKILL for processes that the child has left behind. Short, because the next start
# waits for it; not zero, because a wrapper may end at once while the server behind it cleans up.
LEFTOVER_GRACE: Final = 0.5

_log = logging.getLogger("jackstay.transport")


class ChildState(Enum):
    """The state of a child, as seen by its transport."""

    OPEN = "open"
    ENDING = "ending"  # the child is ending: still read, no longer written to
    DOWN = "down"  # `went_down` was called
    CLOSING = "closing"
    CLOSED = "closed"


_CLOSING = ChildState.CLOSING  # in Python 3.11 the lookup of a member takes as long as a function call


class ChildTransport:
    """The transport of a started child. Reading begins at once."""

    def __init__(
        self,
        child: Child,
        handler: TransportHandler,
        stderr_tail: StderrTail,
        *,
        name: str,
        framing: str,
        max_frame_bytes: int,
        close_step: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._child = child
        self._handler = handler
        self._stderr_tail = stderr_tail
        self._name = name
        self._close_step = close_step
        self._state = ChildState.OPEN
        self._why = ""  # the first sign of its end
        self._report_timer: asyncio.TimerHandle | None = None
        self._have_pipes_ended = asyncio.Event()
        self._shutdown: asyncio.Task[None] | None = None
        pipes = [pipe.fileno() for pipe in (child.stdin, child.stdout, child.stderr) if pipe is not None]
        for fd in pipes:
            os.set_blocking(fd, False)
        self._frames = FrameReader(framing, max_frame_bytes, handler.frames_arrived, self._drained, self._lost)
        self._stdin = WritePipe(self._loop, pipes[0])
        frame = partial(FRAMINGS[framing].writer, limit=max_frame_bytes)  # type: ignore[call-arg]  # in every framing
        self._queue = WriteQueue(self._loop, self._stdin, handler, frame, self._write_failed)
        # See `Transport`. These run for every frame, so there is no method around them. While the child is ending,
        # frames are accepted and not sent. Received frames can be pulled until `close()`.
        self.next_frame = self._frames.next_frame
        self.send = self._queue.send
        self.withdraw = self._queue.withdraw
        self._stdout = ReadPipe(self._loop, pipes[1], self._received, self._stdout_ended)
        self._stderr = ReadPipe(self._loop, pipes[2], stderr_tail.feed, self._settle) if len(pipes) > 2 else None
        self._process = Process(self._loop, child, self._exited)
        self._stdout.resume()
        if self._stderr is not None:
            self._stderr.resume()

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self._name} {self._state.value} {self._process!r} {self._queue!r}>"

    # --- the contract -------------------------------------------------------------------------------------------------

    async def flush(self) -> bool:
        """See `Transport.flush`. After the first sign of an end nothing is written."""
        return await self._queue.flush()

    def stop_writing(self) -> None:
        """See `Transport.stop_writing`."""
        self._queue.close()

    async def close(self) -> None:
        """End the child and its process group: close stdin, SIGTERM, SIGKILL, each with `close_step` seconds to exit.

        Returns when the child is reaped and every descriptor is closed. Cancelling the caller does not stop it.
        """
        if self._shutdown is None:
            self._state = ChildState.CLOSING
            self._queue.close()
            self._frames.close()
            if self._report_timer is not None:
                self._report_timer.cancel()
            self._shutdown = self._loop.create_task(self._end(), name=f"jackstay-close-{self._name}")
        await asyncio.shield(self._shutdown)

    # --- the child ends by itself -------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        if self._state is _CLOSING:
            return  # discarded, but read: a child that blocks in a write cannot exit
        self._frames.feed(data)
        if self._frames.is_notified and self._frames.is_full() and self._state is ChildState.OPEN:
            self._stdout.pause()

    def _drained(self) -> None:
        self._stdout.resume()

    def _stdout_ended(self) -> None:
        if self._state is not ChildState.CLOSING:
            self._frames.end()
        self._begin_ending("closed its stdout")

    def _exited(self) -> None:
        self._begin_ending("exited")

    def _write_failed(self, error: OSError) -> None:
        self._begin_ending(f"does not read its stdin ({error.strerror})")

    def _lost(self, error: ProtocolError) -> None:
        # Found while the handler pulls: `went_down` must not be called inside its call.
        self._loop.call_soon(self._report, error)

    def _begin_ending(self, why: str) -> None:
        """On the first sign of an end: stop writing, read the rest, and report within 100 ms."""
        if self._state is ChildState.OPEN:
            self._state = ChildState.ENDING
            self._why = why
            self._queue.pause()
            self._stdout.resume()  # even if the handler does not pull: the pipe is about to close
            self._report_timer = self._loop.call_later(REPORT_AFTER, self._report_late)
        self._settle()

    def _settle(self) -> None:
        """Report the end, if everything about it is known."""
        if not self._stdout.has_ended or (self._stderr is not None and not self._stderr.has_ended):
            return
        self._have_pipes_ended.set()
        if self._state is ChildState.ENDING and self._process.has_exited:
            self._report()

    def _report_late(self) -> None:
        # Read what is there now. Another process keeps the pipes open, so their end may never come.
        self._stdout.drain()
        if self._stderr is not None:
            self._stderr.drain()
        if self._state is ChildState.ENDING:
            self._frames.end()
            self._report()

    def _report(self, cause: McpError | None = None) -> None:
        if self._state not in (ChildState.OPEN, ChildState.ENDING):
            return
        self._state = ChildState.DOWN
        self._queue.close()
        if self._report_timer is not None:
            self._report_timer.cancel()
        code = self._process.exit_code
        if cause is None:
            why = "exited" if self._process.has_exited else self._why
            cause = TransportError(
                f"the server {self._name!r} {why}", exit_code=code, stderr_tail=self._stderr_tail.tail()
            )
        self._handler.went_down(cause, code, self._frames.was_silent)

    # --- close() ends the child ---------------------------------------------------------------------------------------

    async def _end(self) -> None:
        step = self._close_step
        try:
            self._close_stdin()
            self._stdout.resume()
            for number in (signal.SIGTERM, signal.SIGKILL):
                if await self._process.exits_within(step):
                    break
                self._process.signal(number)
            await self._process.exits_within(step)
            await self._end_leftovers()
            self._process.clear()
        except asyncio.CancelledError:
            # The loop is ending: there is no time for the steps, but nothing must be left behind.
            self._process.discard()
            raise
        finally:
            self._release()

    async def _end_leftovers(self) -> None:
        """Let processes that the child left behind in its group, and that keep the pipes open, exit on SIGTERM."""
        if self._have_pipes_ended.is_set() or not self._process.has_exited:
            return
        self._process.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(min(self._close_step, LEFTOVER_GRACE)):
                await self._have_pipes_ended.wait()
        except TimeoutError:
            pass  # they are killed next

    def _close_stdin(self) -> None:
        self._stdin.unwatch()
        assert self._child.stdin is not None
        self._child.stdin.close()

    def _release(self) -> None:
        for pipe in (self._stdout, self._stderr):
            if pipe is not None:
                pipe.stop()
        close_pipes(self._child)
        self._stderr_tail.close()
        self._state = ChildState.CLOSED
