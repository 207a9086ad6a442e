"""A server's own end of stdio: the client that started this process is at the other end of stdin and stdout.

While it is open the stream of frames belongs to it alone (docs/design/connection.md, section 8; G15). Descriptors 0 and 1 are moved
away, where neither `print` nor a child of a tool finds them; 0 becomes /dev/null and 1 points at stderr; on `close()` they
are put back as they were found, and so is the blocking mode, which is not ours but shared with whoever gave them to us.

The end of stdin is the end of the client, and final: `went_down`. What was asked before may still be answered until
`close()`, which is how `server < requests > answers` works. A stdout that cannot be written to is final as well. The end is
noticed while nothing is read, too: `_end_of_input` watches for it.

Must never know what a frame says. Above: the server. Below: `_pipe`, `_queue`, `_intake`, `_streams`, `_end_of_input`.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Final

from jackstay.errors import McpError, ProtocolError, TransportError, UsageError
from jackstay.protocol.wire import FRAMINGS
from jackstay.transport._contract import Owner
from jackstay.transport._end_of_input import EndOfInput
from jackstay.transport._intake import Intake
from jackstay.transport._pipe import ReadPipe, WritePipe
from jackstay.transport._queue import WriteQueue
from jackstay.transport._reading_thread import ReadingThread
from jackstay.transport._streams import Streams

# For a person whose terminal is our stdin; a client never sees it.
BY_HAND: Final = (
    b"This is an MCP server, and waits for a client on standard input. Ctrl-C ends it. To try it:\n"
    b"jackstay tools -- COMMAND, where COMMAND is what you typed.\n"
)

# The descriptors are the process's: one server at a time can have them.
_taken = threading.Lock()


class OwnStdioTarget:
    """This process's stdin and stdout. Made by `own_stdio()`; open it once at a time."""

    is_http = False

    def __init__(self, framing: str) -> None:
        self.name = "stdio"
        self.init_timeout: float | None = None
        self._framing = framing
        self._held: Streams | None = None
        self._end: EndOfInput | None = None
        self._transport: OwnStdioTransport | None = None
        # Called as soon as the client has closed our stdin, on another thread than the loop's.
        self.on_end_of_input: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self._framing}>"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Take stdin and stdout now, and give them back after the block, not with `close()`.

        For who runs an author's code before and after the client is served: what that prints is for nobody on stdout.

        Raises: TransportError, as `open()`.
        """
        self._held = _take()
        self._watch(self._held)
        try:
            yield
        finally:
            self._unwatch()
            _give_back(self._held)
            self._held = None

    async def open(self, owner: Owner, max_frame_bytes: int, close_step: float) -> "OwnStdioTransport":  # noqa: ARG002  nothing here takes steps
        """Take stdin and stdout.

        Raises: TransportError, permanent: another server of this process has them, or stdout is closed.
        """
        streams = _take() if self._held is None else self._held
        if streams.input is not None and os.isatty(streams.input):
            # Somebody started it by hand, and would see nothing happen.
            with contextlib.suppress(OSError):
                os.write(2, BY_HAND)
        if self._end is None:
            self._watch(streams)
        give_back = None if self._held is not None else self._unwatch
        self._transport = OwnStdioTransport(streams, owner, self._framing, max_frame_bytes, give_back)
        if self.has_input_ended:
            self._transport.input_ended()
        return self._transport

    @property
    def has_input_ended(self) -> bool:
        """True once the client has closed our stdin, for as long as it is held or open."""
        return self._end is not None and self._end.has_come

    def _watch(self, streams: Streams) -> None:
        # The end of a file is found by reading it.
        if streams.input is not None and streams.is_input_watchable:
            self._end = EndOfInput(streams.input, self._input_ended)

    def _unwatch(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end.stop()

    def _input_ended(self) -> None:
        """On the thread that watches."""
        if self.on_end_of_input is not None:
            self.on_end_of_input()
        transport = self._transport
        if transport is not None:
            transport.input_ended()


def _take() -> Streams:
    if not _taken.acquire(blocking=False):
        raise TransportError("stdin and stdout are taken by another server of this process", permanent=True)
    try:
        return Streams()
    except OSError as error:
        _taken.release()
        raise TransportError(f"cannot answer: {error}", permanent=True) from error


def _give_back(streams: Streams) -> None:
    streams.restore()
    _taken.release()


class OwnStdioTransport:
    """Frames over this process's stdin and stdout.

    `close()` gives them back after it has called `before_give_back`; with None it leaves that to whoever holds them.
    """

    def __init__(
        self,
        streams: Streams,
        owner: Owner,
        framing: str,
        max_frame_bytes: int,
        before_give_back: Callable[[], None] | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._streams = streams
        self._before_give_back = before_give_back
        self._owner = owner
        self._is_down = False
        self._is_closed = False
        write = FRAMINGS[framing].writer
        self._intake = Intake(framing, max_frame_bytes, owner.frames_arrived, self._drained, self._lost)
        self._stdout = WritePipe(self._loop, streams.output, must_not_wait=streams.must_not_wait)
        self._queue = WriteQueue(
            self._loop, self._stdout, owner, lambda frame: write(frame, max_frame_bytes), self._write_failed
        )
        self._stdin: ReadPipe | ReadingThread | None = None
        if streams.input is None:
            self._loop.call_soon(self._stdin_ended)
        elif streams.is_input_watchable:
            self._stdin = ReadPipe(self._loop, streams.input, self._received, self._stdin_ended)
        else:
            self._stdin = ReadingThread(self._loop, streams.input, self._received, self._stdin_ended)
        if self._stdin is not None:
            self._stdin.resume()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "down" if self._is_down else "open"
        return f"<{self.__class__.__name__} {state} {self._queue!r}>"

    def send(self, frame: bytes, number: int) -> bool:
        """As the contract says; also after the end of stdin. Raises: FrameTooLargeError; nothing was taken."""
        return self._queue.send(frame, number)

    def withdraw(self, number: int) -> bool:
        """As the contract says."""
        return self._queue.withdraw(number)

    def next_frame(self) -> bytes | McpError | None:
        """As the contract says."""
        return None if self._is_closed else self._intake.next_frame()

    async def flush(self) -> bool:
        """As the contract says; also after the end of stdin."""
        return await self._queue.flush()

    def stop_writing(self) -> None:
        """As the contract says."""
        self._queue.shut()

    async def close(self) -> None:
        """Give stdin and stdout back. `flush()` before, if the last frames matter: what is queued is dropped."""
        if self._is_closed:
            return
        self._is_closed = True
        self._queue.shut()
        if self._stdin is not None:
            self._stdin.stop()
        if self._before_give_back is not None:
            self._before_give_back()
            _give_back(self._streams)

    def input_ended(self) -> None:
        """The client has closed our stdin: read what is left of it now, even if the owner has not pulled for long.

        From any thread.
        """
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._read_rest)

    def _read_rest(self) -> None:
        # What a pipe can hold bounds this; at its end there is always something to read, so it never waits.
        if isinstance(self._stdin, ReadPipe) and not self._is_closed:
            self._stdin.drain()
            self._stdin.resume()  # a very large pipe: the rest as usual

    def _received(self, data: bytes) -> None:
        self._intake.feed(data)
        if self._stdin is not None and self._intake.is_full():
            self._stdin.pause()

    def _drained(self) -> None:
        if self._stdin is not None:
            self._stdin.resume()

    def _stdin_ended(self) -> None:
        if not self._is_closed:
            self._intake.end()
            self._go_down(TransportError("the client closed our stdin"))

    def _write_failed(self, error: OSError) -> None:
        self._queue.shut()
        if (
            self._stdin is not None
            and isinstance(self._stdin, ReadPipe)
            and not self._streams.is_input_shared
        ):
            self._stdin.drain()  # what it still said; an end of stdin found there is reported in its own words
        self._go_down(TransportError(f"the client closed our stdout ({error.strerror})"))

    def _lost(self, error: ProtocolError) -> None:
        # Found while the owner pulls: it must not be told of the end from inside its own call.
        self._loop.call_soon(self._go_down, error)

    def _go_down(self, error: McpError) -> None:
        if not self._is_down and not self._is_closed:
            self._is_down = True
            self._owner.went_down(error, None, self._intake.was_silent)


def own_stdio(framing: str = "lines") -> OwnStdioTarget:
    """A target for a server: the stdin and stdout of this process.

    Raises: UsageError.
    """
    if framing not in FRAMINGS:
        raise UsageError(f"framing must be one of {', '.join(FRAMINGS)}, not {framing!r}", path="framing")
    return OwnStdioTarget(framing)
