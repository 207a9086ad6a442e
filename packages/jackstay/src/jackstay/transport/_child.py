"""Frames to and from a child over its stdin and stdout, and the child's whole life after it was started.

Two ends have to be right. When the child ends by itself, everything it had said is delivered first, and the report follows
as soon as it is complete: end of stdout, exit code, last words on stderr; or 100 ms after the first sign, because a
grandchild may hold the pipes for ever (G1). When we end it, the ladder is climbed: end of input, SIGTERM, SIGKILL, each
for the whole group and each for a bounded time, judged by the exit of the child and not by its pipes (G13).

Must never know what a frame says, nor when to start again: the owner decides that. Above: `_stdio`. Below: `_pipe`,
`_queue`, `_intake`, `_process`, `_last_words`.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from enum import Enum
from typing import Final

from jackstay.errors import McpError, ProtocolError, TransportError
from jackstay.protocol.wire import FRAMINGS
from jackstay.transport._contract import Owner
from jackstay.transport._intake import Intake
from jackstay.transport._last_words import LastWords
from jackstay.transport._pipe import ReadPipe, WritePipe
from jackstay.transport._process import Process
from jackstay.transport._queue import WriteQueue
from jackstay.transport._spawn import Child, close_pipes

# G1: how long after the first sign of an end the owner is told, at the latest.
REPORT_AFTER: Final = 0.1

# How long what a child has left behind gets between SIGTERM and SIGKILL. Short, because its parent has already ended and
# the next start waits for this; some time, because a wrapper may end at once where the server behind it cleans up.
LEFTOVER_GRACE: Final = 0.5

_log = logging.getLogger("jackstay.transport")


class Life(Enum):
    """Where a child stands, as its transport sees it."""

    OPEN = "open"
    ENDING = "ending"  # a sign was seen: reading on, writing no more
    DOWN = "down"  # reported
    CLOSING = "closing"
    CLOSED = "closed"


class ChildTransport:
    """A child that was started. It is read from now on."""

    def __init__(
        self,
        child: Child,
        owner: Owner,
        words: LastWords,
        *,
        name: str,
        framing: str,
        max_frame_bytes: int,
        close_step: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._child = child
        self._owner = owner
        self._words = words
        self._name = name
        self._close_step = close_step
        self._life = Life.OPEN
        self._why = ""  # the first sign
        self._report_timer: asyncio.TimerHandle | None = None
        self._have_pipes_ended = asyncio.Event()
        self._ladder: asyncio.Task[None] | None = None
        pipes = [pipe.fileno() for pipe in (child.stdin, child.stdout, child.stderr) if pipe is not None]
        for fd in pipes:
            os.set_blocking(fd, False)
        self._intake = Intake(framing, max_frame_bytes, owner.frames_arrived, self._drained, self._lost)
        self._stdin = WritePipe(self._loop, pipes[0])
        self._queue = WriteQueue(
            self._loop, self._stdin, owner, _writer(framing, max_frame_bytes), self._write_failed
        )
        self._stdout = ReadPipe(self._loop, pipes[1], self._received, self._stdout_ended)
        self._stderr = ReadPipe(self._loop, pipes[2], words.feed, self._settle) if len(pipes) > 2 else None
        self._process = Process(self._loop, child, self._exited)
        self._stdout.resume()
        if self._stderr is not None:
            self._stderr.resume()

    def __repr__(self) -> str:
        return (
            f"<{self.__class__.__name__} {self._name} {self._life.value} {self._process!r} {self._queue!r}>"
        )

    # --- the contract -------------------------------------------------------------------------------------------------

    def send(self, frame: bytes, number: int) -> bool:
        """As the contract says. Between the first sign of an end and its report frames are taken, and surely not sent.

        Raises: FrameTooLargeError; nothing was taken.
        """
        return self._queue.send(frame, number)

    def withdraw(self, number: int) -> bool:
        """As the contract says."""
        return self._queue.withdraw(number)

    def next_frame(self) -> bytes | McpError | None:
        """As the contract says. What was received can be pulled until `close()`."""
        return self._intake.next_frame() if self._life not in (Life.CLOSING, Life.CLOSED) else None

    async def flush(self) -> bool:
        """As the contract says. From the first sign of an end on nothing is written."""
        return await self._queue.flush()

    def stop_writing(self) -> None:
        """As the contract says."""
        self._queue.shut()

    async def close(self) -> None:
        """End the child and all of its group: end of input, SIGTERM, SIGKILL, each for `close_step` at most.

        Returns when it is reaped and every descriptor is closed. If the caller is cancelled, it goes on all the same.
        """
        if self._ladder is None:
            self._life = Life.CLOSING
            self._queue.shut()
            if self._report_timer is not None:
                self._report_timer.cancel()
            self._ladder = self._loop.create_task(self._end(), name=f"jackstay-close-{self._name}")
        await asyncio.shield(self._ladder)

    # --- an end that is not ours --------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        if self._life is Life.CLOSING:
            return  # read all the same: a child that cannot write cannot end
        self._intake.feed(data)
        if self._intake.is_full() and self._life is Life.OPEN:
            self._stdout.pause()

    def _drained(self) -> None:
        self._stdout.resume()

    def _stdout_ended(self) -> None:
        if self._life is not Life.CLOSING:
            self._intake.end()
        self._sign("closed its stdout")

    def _exited(self) -> None:
        self._sign("exited")

    def _write_failed(self, error: OSError) -> None:
        self._sign(f"does not read its stdin ({error.strerror})")

    def _lost(self, error: ProtocolError) -> None:
        # Found while the owner pulls: it must not be told of the end from inside its own call.
        self._loop.call_soon(self._report, error)

    def _sign(self, why: str) -> None:
        """Something ended. The first time: write no more, read the rest, and report in 100 ms at the latest."""
        if self._life is Life.OPEN:
            self._life = Life.ENDING
            self._why = why
            self._queue.hold()
            self._stdout.resume()  # whether the owner pulls or not: the pipe is all that is left of it
            self._report_timer = self._loop.call_later(REPORT_AFTER, self._report_late)
        self._settle()

    def _settle(self) -> None:
        """Report, if everything is known."""
        if not self._stdout.has_ended or (self._stderr is not None and not self._stderr.has_ended):
            return
        self._have_pipes_ended.set()
        if self._life is Life.ENDING and self._process.has_exited:
            self._report()

    def _report_late(self) -> None:
        # What the loop has not come to yet is looked at now; somebody holds the pipes, so there may be no end of it.
        self._stdout.drain()
        if self._stderr is not None:
            self._stderr.drain()
        if self._life is Life.ENDING:
            self._intake.end()
            self._report()

    def _report(self, cause: McpError | None = None) -> None:
        if self._life not in (Life.OPEN, Life.ENDING):
            return
        self._life = Life.DOWN
        self._queue.shut()
        if self._report_timer is not None:
            self._report_timer.cancel()
        code = self._process.exit_code
        if cause is None:
            why = "exited" if self._process.has_exited else self._why
            cause = TransportError(
                f"the server {self._name} {why}", exit_code=code, stderr_tail=self._words.tail()
            )
        self._owner.went_down(cause, code, self._intake.was_silent)

    # --- an end that is ours ------------------------------------------------------------------------------------------

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
            # The loop itself is ending and gives nobody time: no ladder, but nothing is left.
            self._process.discard()
            raise
        finally:
            self._release()

    async def _end_leftovers(self) -> None:
        """Let what the child has started, and left behind in its group, end by itself: it holds the pipes."""
        if self._have_pipes_ended.is_set() or not self._process.has_exited:
            return
        self._process.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(min(self._close_step, LEFTOVER_GRACE)):
                await self._have_pipes_ended.wait()
        except TimeoutError:
            pass  # next, it is killed

    def _close_stdin(self) -> None:
        self._stdin.unwatch()
        assert self._child.stdin is not None
        self._child.stdin.close()

    def _release(self) -> None:
        for pipe in (self._stdout, self._stderr):
            if pipe is not None:
                pipe.stop()
        close_pipes(self._child)
        self._words.close()
        self._life = Life.CLOSED


def _writer(framing: str, limit: int) -> Callable[[bytes], bytes]:
    write = FRAMINGS[framing].writer
    return lambda frame: write(frame, limit)
