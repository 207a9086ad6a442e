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
from typing import Any, Final

from jackstay.errors import ProtocolError, TransportError
from jackstay.protocol import IMPOSSIBLE, Cell
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
    """The state of a child, as seen by its transport."""

    OPEN = "open"
    ENDING = "ending"  # still read, no longer written to
    DOWN = "down"  # `went_down` was called
    CLOSING = "closing"  # `close()` ends the process
    CLOSED = "closed"

    __hash__ = object.__hash__  # that of Enum is a Python function


class ChildEvent(Enum):
    """What happens to a child, except for data on its pipes."""

    # The child is ending. The first of these is reported, unless the child exits meanwhile.
    STDOUT_ENDED = "closed its stdout"
    EXITED = "exited"
    WRITE_FAILED = "does not read its stdin"

    CORRUPTED = "its stdout can no longer be cut into frames"
    SETTLED = "it has exited, and both its pipes have ended"
    EXPIRED = "it is ending for 100 ms; a process that it started may keep the pipes open"
    CLOSED = "`close()` was called"
    RELEASED = "every process and descriptor is gone"

    __hash__ = object.__hash__


_OPEN, _CLOSING = ChildState.OPEN, ChildState.CLOSING  # a lookup in an Enum takes as long as a function call in 3.11


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
        self._state = ChildState.OPEN
        self._reason = ""  # how it began to end
        self._error: ProtocolError | None = None  # what corrupted the frames
        self._report_timer: asyncio.TimerHandle | None = None
        self._have_pipes_ended = asyncio.Event()
        self._shutdown: asyncio.Task[None] | None = None
        self._input = ReadPipe(self._loop, fds[1], self._received, partial(self._on_end, ChildEvent.STDOUT_ENDED))
        self._pipes = [self._input]
        if child.stderr is not None:
            self._pipes.append(ReadPipe(self._loop, fds[2], stderr_tail.feed, self._settle, STDERR_BYTES))
        self._process = Process(self._loop, child, partial(self._on_end, ChildEvent.EXITED))
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
            self._change(ChildEvent.CLOSED)
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

    def _on_end(self, event: ChildEvent, error: OSError | None = None) -> None:
        if not self._reason:
            self._reason = event.value if error is None else f"{event.value} ({error.strerror})"
        self._change(event)
        self._settle()

    def _write_failed(self, error: OSError) -> None:
        self._on_end(ChildEvent.WRITE_FAILED, error)

    def _lost(self, error: ProtocolError) -> None:
        self._error = error
        self._change(ChildEvent.CORRUPTED)

    def _settle(self) -> None:
        if all(pipe.has_ended for pipe in self._pipes):
            self._have_pipes_ended.set()
            if self._process.has_exited:
                self._change(ChildEvent.SETTLED)

    def _expired(self) -> None:
        # Read what is there now. If another process keeps the pipes open, their end may never come.
        for pipe in self._pipes:
            pipe.drain()
        self._change(ChildEvent.EXPIRED)

    # --- states -------------------------------------------------------------------------------------------------------

    def _change(self, event: ChildEvent) -> None:
        """Run a cell: first the state changes, because `went_down` may call back."""
        cell = CELLS[event][self._state]
        assert not cell.is_impossible, f"{event.name} in {self._state.value}"
        to: Any = cell.to
        if to is not None:
            self._state = to
        for action in cell.actions:
            action(self)

    def _end_frames(self) -> None:
        """deliver the last line"""
        self._frames.end()

    def _begin_ending(self) -> None:
        """stop writing, read the rest, report within 100 ms"""
        self._queue.pause()
        self._input.resume()  # even if the handler does not pull: the pipe is about to close
        self._report_timer = self._loop.call_later(REPORT_AFTER, self._expired)

    def _stop(self) -> None:
        """stop writing, cancel the timer"""
        self._queue.close()
        if self._report_timer is not None:
            self._report_timer.cancel()

    def _report(self) -> None:
        """call `went_down`"""
        code = self._process.exit_code
        error = self._error or TransportError(
            f"the server {self._name!r} {'exited' if self._process.has_exited else self._reason}",
            exit_code=code,
            stderr_tail=self._stderr_tail.tail(),
            absent=self._is_no_server() and not self._process.has_exited,
        )
        self._handler.went_down(error, code, self._frames.was_silent)

    def _is_no_server(self) -> bool:
        """Return True if the program closed its stdout before it sent anything."""
        return self._input.has_ended and self._frames.was_silent

    def _drop_frames(self) -> None:
        """drop what was not pulled"""
        self._frames.close()

    # --- close() ends the child ---------------------------------------------------------------------------------------

    async def _end(self) -> None:
        step = self._close_step
        # A program that is not a server has no session to end.
        first = min(step, SILENT_GRACE) if self._is_no_server() else step
        try:
            self._output.unwatch()
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
            self._change(ChildEvent.RELEASED)

    async def _end_leftovers(self) -> None:
        """Let processes that the child left behind in its group, and that keep the pipes open, exit on SIGTERM."""
        if self._have_pipes_ended.is_set() or not self._process.has_exited:
            return
        self._process.signal(signal.SIGTERM)
        await is_set_within(self._have_pipes_ended, min(self._close_step, LEFTOVER_GRACE))  # they are killed next


def _cells() -> dict[ChildEvent, dict[ChildState, Cell]]:
    """Return the table. A pair that is not listed is impossible."""
    child, state, event = ChildTransport, ChildState, ChildEvent
    begin: Any = Cell((child._begin_ending,), state.ENDING)
    report: Any = Cell((child._stop, child._report), state.DOWN)
    close = Cell((child._stop, child._drop_frames), state.CLOSING)
    stay = Cell()
    rows: dict[ChildEvent, dict[ChildState, Cell]] = {
        event.STDOUT_ENDED: {
            state.OPEN: Cell((child._end_frames, child._begin_ending), state.ENDING),
            state.ENDING: Cell((child._end_frames,)),
            state.DOWN: Cell((child._end_frames,)),
            state.CLOSING: stay,
        },
        event.EXITED: {
            state.OPEN: begin,
            **dict.fromkeys((state.ENDING, state.DOWN, state.CLOSING, state.CLOSED), stay),
        },
        event.WRITE_FAILED: {state.OPEN: begin},
        event.CORRUPTED: {state.OPEN: report, state.ENDING: report, **dict.fromkeys(_ENDED, stay)},
        event.SETTLED: {state.ENDING: report, **dict.fromkeys(_ENDED, stay)},
        event.EXPIRED: {
            state.ENDING: Cell((child._end_frames, child._stop, child._report), state.DOWN),
            **dict.fromkeys(_ENDED, stay),
        },
        event.CLOSED: dict.fromkeys((state.OPEN, state.ENDING, state.DOWN), close),
        event.RELEASED: {state.CLOSING: Cell((), state.CLOSED)},
    }
    return {event: {state: cells.get(state, IMPOSSIBLE) for state in ChildState} for event, cells in rows.items()}


_ENDED = (ChildState.DOWN, ChildState.CLOSING, ChildState.CLOSED)
CELLS = _cells()
