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

from jackstay.errors import ProtocolError, TransportError
from jackstay.transport._contract import TransportHandler
from jackstay.transport._pipe import PipeTransport, ReadPipe
from jackstay.transport._process import Child, Process, close_pipes, is_set_within
from jackstay.transport._stderr_tail import StderrTail

# The longest time between the first event that ends a child and the call of `went_down` (docs/guarantees.md G1).
REPORT_AFTER: Final = 0.1

# The time between SIGTERM and SIGKILL for processes that the child has left behind. Short, because the next start
# waits for it; not zero, because a wrapper may end at once while the server behind it cleans up.
LEFTOVER_GRACE: Final = 0.5

# How much of stderr is read at once. Each line is forwarded on its own, so a full pipe of short lines would block the
# event loop for most of a second.
STDERR_BYTES: Final = 1_024

# The time between the end of input and SIGTERM for a program that closed its stdout before it sent anything.
SILENT_GRACE: Final = 0.1

_log = logging.getLogger("jackstay.transport")


class ChildState(Enum):
    """The state of a child, as seen by its transport: it may skip states, but never returns to an earlier one."""

    OPEN = "open"
    ENDING = "ending"  # still read, no longer written to
    DOWN = "down"  # `went_down` was called
    CLOSING = "closing"  # `close()` ends the process
    CLOSED = "closed"


# In Python 3.11 the lookup of a member takes as long as a function call.
_OPEN, _ENDING, _CLOSING = ChildState.OPEN, ChildState.ENDING, ChildState.CLOSING


class ChildTransport(PipeTransport):
    """The transport of a started child. Reading begins at once.

    While the child is ending, frames are accepted and not sent. Received frames can be pulled until `close()`.
    """

    def __init__(
        self,
        child: Child,
        handler: TransportHandler,
        stderr_tail: StderrTail,
        name: str,
        framing: str,
        *,
        max_frame_bytes: int,
        close_step: float,
    ) -> None:
        fds = [pipe.fileno() for pipe in (child.stdin, child.stdout, child.stderr) if pipe is not None]
        for fd in fds:
            os.set_blocking(fd, False)
        super().__init__(handler, fds[0], framing, max_frame_bytes)
        self._child = child
        self._stderr_tail = stderr_tail
        self._name = name
        self._close_step = close_step
        self._state = _OPEN
        self._reason = ""  # how it began to end
        self._report_timer: asyncio.TimerHandle | None = None
        self._have_pipes_ended = asyncio.Event()
        self._shutdown: asyncio.Task[None] | None = None
        self._input = ReadPipe(self._loop, fds[1], self._received, self._stdout_ended)
        self._pipes = [self._input]
        if child.stderr is not None:
            self._pipes.append(ReadPipe(self._loop, fds[2], stderr_tail.feed, self._settle, STDERR_BYTES))
        self._process = Process(self._loop, child, partial(self._on_end, "exited"))
        for pipe in self._pipes:
            pipe.resume()

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self._name} {self._state.value} {self._process!r} {self._queue!r}>"

    # --- the contract -------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the child and its process group: close stdin, SIGTERM, SIGKILL, each with `close_step` seconds to exit.

        Returns when the child is reaped and every descriptor is closed. Cancelling the caller does not stop it.
        """
        if self._shutdown is None:
            self._stop(_CLOSING)
            self._frames.close()
            self._shutdown = self._loop.create_task(self._end(), name=f"jackstay-close-{self._name}")
        await asyncio.shield(self._shutdown)

    def kill(self) -> None:
        """Kill the child and its process group. The handler is notified as for any exit."""
        self._process.signal(signal.SIGKILL)

    # --- the child ends by itself -------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        if self._state is _CLOSING:
            return  # discarded, but read: a child that blocks in a write cannot exit
        self._frames.feed(data)
        if self._frames.is_notified and self._state is _OPEN and self._frames.is_full():
            self._input.pause()

    def _stdout_ended(self) -> None:
        if self._state is not _CLOSING:
            self._frames.end()
        self._on_end("closed its stdout")

    def _write_failed(self, error: OSError) -> None:
        self._on_end(f"does not read its stdin ({error.strerror})")

    def _on_end(self, reason: str) -> None:
        """Stop writing, read the rest, and report the end within 100 ms. Does nothing if it is ending or was closed."""
        if self._state is _OPEN:
            self._state = _ENDING
            self._reason = reason
            self._queue.pause()
            self._input.resume()  # even if the handler does not pull: the pipe is about to close
            self._report_timer = self._loop.call_later(REPORT_AFTER, self._expired)
        self._settle()

    def _lost(self, error: ProtocolError) -> None:
        self._go_down(error)

    def _settle(self) -> None:
        if all(pipe.has_ended for pipe in self._pipes):
            self._have_pipes_ended.set()
            if self._process.has_exited:
                self._go_down()

    def _expired(self) -> None:
        # Read what is there now. If another process keeps the pipes open, their end may never come.
        for pipe in self._pipes:
            pipe.drain()
        if self._state is _ENDING:
            self._frames.end()
            self._go_down()

    def _stop(self, state: ChildState) -> None:
        self._state = state
        self._queue.close()
        if self._report_timer is not None:
            self._report_timer.cancel()

    def _go_down(self, corruption: ProtocolError | None = None) -> None:
        """Report the end, unless that was done or `close()` was called. `corruption`: what corrupted the frames."""
        if self._state not in (_OPEN, _ENDING):
            return
        self._stop(ChildState.DOWN)
        code = self._process.exit_code
        error = corruption or TransportError(
            f"the server {self._name!r} {'exited' if self._process.has_exited else self._reason}",
            exit_code=code,
            stderr_tail=self._stderr_tail.tail(),
            absent=self._is_no_server() and not self._process.has_exited,
        )
        self._handler.went_down(error, code, self._frames.was_silent)

    def _is_no_server(self) -> bool:
        """Return True if the program closed its stdout before it sent anything."""
        return self._input.has_ended and self._frames.was_silent

    # --- close() ends the child ---------------------------------------------------------------------------------------

    async def _end(self) -> None:
        step = self._close_step
        # A program that is not a server has no session to end.
        first = min(step, SILENT_GRACE) if self._is_no_server() else step
        try:
            assert self._child.stdin is not None
            self._child.stdin.close()
            self._input.resume()
            for number, seconds in ((signal.SIGTERM, first), (signal.SIGKILL, step)):
                if await self._process.exits_within(seconds):
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
            for pipe in self._pipes:
                pipe.stop()
            close_pipes(self._child)
            self._stderr_tail.close()
            self._state = ChildState.CLOSED

    async def _end_leftovers(self) -> None:
        """Let processes that the child left behind in its group, and that keep the pipes open, exit on SIGTERM."""
        if self._have_pipes_ended.is_set() or not self._process.has_exited:
            return
        self._process.signal(signal.SIGTERM)
        await is_set_within(self._have_pipes_ended, min(self._close_step, LEFTOVER_GRACE))  # they are killed next
