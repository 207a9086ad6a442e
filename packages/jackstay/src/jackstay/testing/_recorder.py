"""Records the messages between a client and any target: `connect(recorded(stdio(...), "session.jsonl"))`.

It sits between a handler and a transport and changes nothing. A frame of the client is written when it is sent (over
HTTP: when it is accepted), one of the server when it is pulled. Each is written as one whole line, without a buffer,
so that a killed process leaves a valid file. A full disk ends the recording, but not the connection.
"""

import errno
import logging
import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from jackstay.errors import McpError, RequestId, TransportError, UsageError
from jackstay.testing._recording import Recording, Side, event_line, frame_line, header_line, read_recording
from jackstay.testing._redaction import Redaction
from jackstay.transport import ExchangeHandler, ExchangeTransport, Target, Transport, TransportHandler

logger = logging.getLogger("jackstay.testing")


class RecordingSink(Protocol):
    """Where the messages of a recorded target go."""

    @property
    def path(self) -> str:
        """The name of the file, for display."""

    @property
    def error(self) -> OSError | None:
        """The error that ended the recording early, if any."""

    def begin(self) -> int:
        """Return the number of a new connection. Raises: TransportError, if it cannot be recorded."""

    def end(self) -> None:
        """A connection ended."""

    def frame(self, sender: Side, connection: int, frame: bytes) -> None:
        """Record a frame."""

    def event(self, sender: Side, connection: int, what: str, value: RequestId, **more: str | int) -> None:
        """Record another event."""


class RecordingFile:
    """The file of a recording: created by the first connection, shared by all open ones, closed with the last."""

    def __init__(
        self, path: str, target: str, redaction: Redaction, *, overwrite: bool, before: Recording | None
    ) -> None:
        self.path = path
        self.redaction = redaction
        self.error: OSError | None = None
        self._target = target
        self._overwrite = overwrite
        # With `append`, the numbers of connections and the time continue those in the file.
        lines = [] if before is None else [entry.line for entry in before.entries]
        self._is_begun = before is not None
        self._connections = max((line.connection for line in lines), default=0)
        self._began = time.monotonic() - max((line.at for line in lines), default=0.0)
        self._open = 0
        self._file: int | None = None

    def begin(self) -> int:
        """Return the number of a new connection. Raises: TransportError, if the file cannot be created."""
        if self._file is None and self.error is None:
            try:
                self._file = _open(self.path, is_new=not self._is_begun, overwrite=self._overwrite)
            except OSError as error:
                reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
                raise TransportError(f"cannot write the recording {self.path!r}: {reason}", permanent=True) from error
            if not self._is_begun:  # later connections are appended
                self._is_begun = True
                self._began = time.monotonic()
                self._write(header_line(self._target, datetime.now(UTC), self.redaction))
        self._connections += 1
        self._open += 1
        return self._connections

    def end(self) -> None:
        """A connection ended."""
        self._open -= 1
        if self._open == 0:
            self._close()

    def frame(self, sender: Side, connection: int, frame: bytes) -> None:
        """Write a frame."""
        self._write(frame_line(sender, time.monotonic() - self._began, connection, frame, self.redaction))

    def event(self, sender: Side, connection: int, what: str, value: RequestId, **more: str | int) -> None:
        """Write an event."""
        self._write(event_line(sender, time.monotonic() - self._began, connection, what, value, **more))

    def _write(self, line: bytes) -> None:
        if self._file is None:
            return  # the recording has stopped
        written = 0
        try:
            while written < len(line):  # a nearly full disk accepts a part and rejects the rest
                written += os.write(self._file, line[written:])
        except OSError as error:
            self.error = error
            logger.error("the recording %s stops: %s; the connection continues", self.path, error.strerror or error)
            with suppress(OSError):  # not a regular file
                # An incomplete line would make the file invalid.
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _open(path: str, *, is_new: bool, overwrite: bool) -> int:
    """Open the file for appending, with access for its owner only. Raises: OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC  # do not follow symbolic links
    file = os.open(path, flags | (os.O_EXCL if is_new and not overwrite else 0), 0o600)
    try:
        if stat.S_ISREG(os.fstat(file).st_mode):  # not a device
            os.fchmod(file, 0o600)
            if is_new:
                os.ftruncate(file, 0)
    except OSError:
        os.close(file)
        raise
    return file


class RecordedTarget:
    """A target that records another target's connections. Returned by `recorded()`."""

    def __init__(self, target: Target, recording: RecordingSink) -> None:
        self.name, self.is_http, self.init_timeout = target.name, target.is_http, target.init_timeout
        self._target = target
        self._recording = recording

    def __repr__(self) -> str:
        return f"<RecordedTarget {self.name} to {self._recording.path}>"

    @property
    def error(self) -> OSError | None:
        """The error that ended the recording early; None if it is complete."""
        return self._recording.error

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> Transport:
        """Return a recorded transport. Raises: TransportError, also if the file cannot be created."""
        if self.is_http and not isinstance(handler, ExchangeHandler):
            raise UsageError(
                f"the handler of an HTTP transport must be an ExchangeHandler, not {type(handler).__name__}",
                path="handler",
            )
        transport = (RecordedHttpTransport if self.is_http else RecordedTransport)(self._recording)
        recording: TransportHandler
        if isinstance(handler, ExchangeHandler):
            recording = _RecordingExchangeHandler(handler, transport)
        else:
            recording = _RecordingHandler(handler, transport)
        inner = await self._target.open(recording, max_frame_bytes, close_step)
        try:
            transport.begin(inner)
        except TransportError:
            await inner.close()
            raise
        return transport


class _RecordingHandler:
    """The handler of a recorded transport: records callbacks and forwards them."""

    def __init__(self, handler: TransportHandler, transport: "RecordedTransport") -> None:
        self._handler = handler
        self._transport = transport
        self.frames_arrived = handler.frames_arrived  # frames are recorded when they are pulled
        self.room_made = handler.room_made

    def wrote(self, through: int) -> None:
        """See `TransportHandler.wrote`. Records the frames that are sent now."""
        self._transport.wrote(through)
        self._handler.wrote(through)

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """See `TransportHandler.went_down`. Records the message without stderr, which may contain secrets."""
        self._transport.went_down(error.message, exit_code)
        self._handler.went_down(error, exit_code, was_silent)


class _RecordingExchangeHandler(_RecordingHandler):
    """The handler of one session of a recorded transport over HTTP.

    After `renew()`, requests of the session before still have their own handler.
    """

    _handler: ExchangeHandler

    def __init__(self, handler: ExchangeHandler, transport: "RecordedTransport") -> None:
        super().__init__(handler, transport)
        self.queued = handler.queued
        self.started = handler.started
        self.header_params = handler.header_params

    def exchange_lost(self, id: int, error: McpError, was_declined: bool) -> None:
        """See `ExchangeHandler.exchange_lost`."""
        self._transport.lost(id, error.message)
        self._handler.exchange_lost(id, error, was_declined)

    def session_lost(self, id: int) -> None:
        """See `ExchangeHandler.session_lost`."""
        if id:
            self._transport.lost(id, "the server dropped the session")
        self._handler.session_lost(id)


class RecordedTransport:
    """A recorded connection: writes its frames and events."""

    _inner: Transport  # set by `begin()`

    def __init__(self, recording: RecordingSink) -> None:
        self._recording = recording
        self._queued: dict[int, bytes] = {}  # frames by their number, until they are sent
        self._number = 0
        # The event that `close()` records, once.
        self._end: tuple[Side, str, dict[str, int]] | None = ("client", "closed", {})

    def begin(self, inner: Transport) -> None:
        """Begin to record this transport. Raises: TransportError, if it cannot be recorded."""
        self._inner = inner
        self.flush, self.stop_writing = inner.flush, inner.stop_writing  # see `Transport`
        self._number = self._recording.begin()

    def wrote(self, through: int) -> None:
        """Record the queued frames up to this one."""
        for number in [number for number in self._queued if number <= through]:
            self._recording.frame("client", self._number, self._queued.pop(number))

    def lost(self, id: int, why: str) -> None:
        """Record that a request got no response."""
        self._recording.event("server", self._number, "lost", id, why=why)

    def went_down(self, why: str, exit_code: int | None) -> None:
        """Keep the cause for `close()`: frames that the server sent before may still be pulled."""
        self._end = ("server", why, {} if exit_code is None else {"exit": exit_code})

    # --- the contract -------------------------------------------------------------------------------------------------

    def send(self, frame: bytes, number: int) -> bool:
        """See `Transport.send`."""
        is_taken = False
        self._queued[number] = frame  # before `send()`, which may call `wrote`
        try:
            is_taken = self._inner.send(frame, number)
        finally:
            if not is_taken:
                self._queued.pop(number, None)
        return is_taken

    def withdraw(self, number: int) -> bool:
        """See `Transport.withdraw`."""
        is_withdrawn = self._inner.withdraw(number)
        if is_withdrawn:
            self._queued.pop(number, None)
        return is_withdrawn

    def next_frame(self) -> bytes | McpError | None:
        """See `Transport.next_frame`."""
        frame = self._inner.next_frame()
        if isinstance(frame, McpError):
            self._recording.event("server", self._number, "note", frame.message)
        elif frame is not None:
            self._recording.frame("server", self._number, frame)
        return frame

    async def close(self) -> None:
        """See `Transport.close`."""
        end, self._end = self._end, None
        if end is not None:
            sender, why, more = end
            self._recording.event(sender, self._number, "ended", why, **more)
            self._recording.end()
        await self._inner.close()


class RecordedHttpTransport(RecordedTransport):
    """A recorded connection over HTTP, which does not report when a frame is sent."""

    _inner: ExchangeTransport

    def send(self, frame: bytes, number: int) -> bool:
        """See `Transport.send`."""
        is_taken = self._inner.send(frame, number)
        if is_taken:
            self._recording.frame("client", self._number, frame)
        return is_taken

    def abort(self, id: int) -> None:
        """See `ExchangeTransport.abort`."""
        self._recording.event("client", self._number, "aborted", id)
        self._inner.abort(id)

    def renew(self, handler: ExchangeHandler) -> None:
        """See `ExchangeTransport.renew`. The next session belongs to the same recorded connection."""
        self._inner.renew(_RecordingExchangeHandler(handler, self))


def recorded(
    target: Target,
    path: str | os.PathLike[str],
    *,
    redact: Iterable[str] = (),
    overwrite: bool = False,
    append: bool = False,
) -> RecordedTarget:
    """Return a target that writes every message of `target` to the file at `path`, for `replayed()`.

    `redact` names members (arguments of tools, for example) whose values are not written. Headers, environment
    variables and the command are never written; everything else is. The file must not exist, unless `overwrite` or
    `append` is true; with `append`, further connections are added to it.

    Raises: UsageError, also if `append` finds a file that is not a recording or has other redactions.
    """
    if not hasattr(target, "open"):
        raise UsageError(
            f"recorded() expected a target such as stdio(command, ...), got {type(target).__name__}", path="target"
        )
    shown = os.fspath(path)
    if os.path.isdir(shown):
        raise UsageError(f"{shown!r} is a directory; pass the name of a file", path=shown)
    if overwrite and append:
        raise UsageError("overwrite and append cannot be combined; pass one of them", path="append")
    is_there, redaction, before = os.path.lexists(shown), Redaction(redact), None
    if is_there and append:
        before = read_recording(shown)
        if before.redaction.names != redaction.names:
            was = ", ".join(sorted(before.redaction.names)) or "nothing"
            raise UsageError(
                f"{shown!r} was recorded with {was} redacted; redact the same, or pass another file", path=shown
            )
    elif is_there and not overwrite:
        raise UsageError(f"{shown!r} exists; pass overwrite=True or append=True, or another file", path=shown)
    folder = os.path.dirname(shown) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"cannot create {shown!r}: the directory {folder!r} does not exist", path=shown)
    return RecordedTarget(target, RecordingFile(shown, target.name, redaction, overwrite=overwrite, before=before))
