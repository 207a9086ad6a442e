"""Records what passes between a client and any target: `connect(recorded(stdio(...), "conversation.jsonl"))`.

It stands between an owner and a transport, is the one to the other, and changes nothing: every call goes through, and what was
said is written on the way. A frame of the client's is written to the file when the transport has begun to send it (over HTTP,
when it was taken), one of the server's when it is pulled. Each is one `write()` of one whole line, without a buffer: a process
that is killed leaves a file that ends with a whole line. A disk that is full ends the recording and never the conversation.

Must never know what a frame means. Above: tests, `jackstay record`. Below: `_recording`, the contract of `jackstay.transport`.
"""

import errno
import logging
import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jackstay.errors import McpError, RequestId, TransportError, UsageError
from jackstay.testing._recording import Recording, Side, event_line, frame_line, header_line, read_recording
from jackstay.testing._redaction import Redaction
from jackstay.transport import ExchangeOwner, ExchangeTransport, Owner, Target, Transport

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader

logger = logging.getLogger("jackstay.testing")


class Tape:
    """The file that is written: made by the first connection, shared by all that are open, closed with the last."""

    def __init__(
        self,
        path: str,
        target: str,
        redaction: Redaction,
        *,
        overwrite: bool,
        before: Recording | None = None,
    ) -> None:
        self.path = path
        self.redaction = redaction
        self.error: OSError | None = None
        self._target = target
        self._overwrite = overwrite
        # What is in the file already, if it is gone on with: its connections and its time count.
        said = [] if before is None else [entry.said for entry in before.entries]
        self._is_begun = before is not None
        self._connections = max((line.connection for line in said), default=0)
        self._began = time.monotonic() - max((line.at for line in said), default=0.0)
        self._open = 0
        self._size = 0
        self._file: int | None = None

    def begin(self) -> int:
        """The number of a new connection. Raises: TransportError, if the file cannot be made."""
        if self._file is None and self.error is None:
            try:
                self._file = _open(self.path, is_new=not self._is_begun, overwrite=self._overwrite)
                self._size = os.fstat(self._file).st_size
            except OSError as error:
                reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
                raise TransportError(
                    f"cannot write the recording {self.path}: {reason}", permanent=True
                ) from error
            if not self._is_begun:  # later connections go on where the last one ended
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
        """Write what was said."""
        if self._file is not None:
            self._write(frame_line(sender, self._now(), connection, frame, self.redaction))

    def event(self, sender: Side, connection: int, what: str, value: RequestId, **more: str | int) -> None:
        """Write what happened."""
        if self._file is not None:
            self._write(event_line(sender, self._now(), connection, what, value, **more))

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _write(self, line: bytes) -> None:
        assert self._file is not None  # asked by who calls
        try:
            written = os.write(self._file, line)
            while written < len(line):  # a disk that is nearly full takes a part, and refuses the next
                written += os.write(self._file, line[written:])
            self._size += len(line)
        except OSError as error:
            self.error = error
            logger.error(
                "the recording %s ends here: %s; the conversation goes on", self.path, error.strerror or error
            )
            try:
                os.ftruncate(self._file, self._size)  # half a line would make the file unreadable
            except OSError:
                pass  # no ordinary file: there is nothing to cut
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _open(path: str, *, is_new: bool, overwrite: bool) -> int:
    """Open the file for appending, readable and writable by its owner alone, whatever it was before. Raises: OSError."""
    flags = (
        os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    )  # not through a link that others made
    file = os.open(path, flags | (os.O_EXCL if is_new and not overwrite else 0), 0o600)
    try:
        if stat.S_ISREG(os.fstat(file).st_mode):  # not of a device
            os.fchmod(file, 0o600)
            if is_new:
                os.ftruncate(file, 0)
    except OSError:
        os.close(file)
        raise
    return file


class RecordedTarget:
    """Opens another target's transports and records what passes. Made by `recorded()`.

    `error` is what ended the recording early, if something did.
    """

    def __init__(self, target: Target, tape: Tape) -> None:
        self._target = target
        self._tape = tape

    def __repr__(self) -> str:
        return f"<RecordedTarget {self.name} to {self._tape.path}>"

    @property
    def name(self) -> str:
        """As the target's."""
        return self._target.name

    @property
    def is_http(self) -> bool:
        """As the target's."""
        return self._target.is_http

    @property
    def init_timeout(self) -> float | None:
        """As the target's."""
        return self._target.init_timeout

    @property
    def error(self) -> OSError | None:
        """Why the file is not whole; None while it is."""
        return self._tape.error

    async def open(self, owner: Owner, max_frame_bytes: int, close_step: float) -> Transport:
        """A transport of the target's, recorded. Raises: TransportError, also where the file cannot be made."""
        if self.is_http and not isinstance(owner, ExchangeOwner):
            raise UsageError("the owner of an HTTP transport must be an ExchangeOwner", path="owner")
        track = _Track(self._tape, holds=not self.is_http)
        inner = await self._target.open(_Tap(owner, track), max_frame_bytes, close_step)
        try:
            track.begin()
        except TransportError:
            await inner.close()
            raise
        if isinstance(inner, ExchangeTransport):
            return RecordedHttpTransport(inner, track)
        return RecordedTransport(inner, track)


class _Track:
    """What one connection writes."""

    def __init__(self, tape: Tape, *, holds: bool) -> None:
        self._tape = tape
        self._holds = holds  # frames, until they are sent: over HTTP nobody tells when that is
        self._held: deque[tuple[int, bytes]] = deque()
        self._number = 0
        self._end: tuple[Side, str, dict[str, int]] = ("client", "closed", {})
        self._is_over = False

    def begin(self) -> None:
        self._number = self._tape.begin()

    def hold(self, frame: bytes, number: int) -> None:
        if self._holds:
            self._held.append((number, frame))

    def release(self, number: int) -> None:
        self._held = deque(one for one in self._held if one[0] != number)

    def took(self, frame: bytes) -> None:
        if not self._holds:
            self._tape.frame("client", self._number, frame)

    def wrote(self, through: int) -> None:
        while self._held and self._held[0][0] <= through:
            self._tape.frame("client", self._number, self._held.popleft()[1])

    def pulled(self, frame: bytes | McpError) -> None:
        if isinstance(frame, McpError):
            self._tape.event("server", self._number, "note", frame.message)
        else:
            self._tape.frame("server", self._number, frame)

    def lost(self, id: int, why: str) -> None:
        self._tape.event("server", self._number, "lost", id, why=why)

    def hung_up(self, id: int) -> None:
        self._tape.event("client", self._number, "hung_up", id)

    def went_down(self, why: str, exit_code: int | None) -> None:
        """Written with the end: what the server said before may still be pulled."""
        self._end = ("server", why, {} if exit_code is None else {"exit": exit_code})

    def end(self) -> None:
        if not self._is_over:
            self._is_over = True
            sender, why, more = self._end
            self._tape.event(sender, self._number, "ended", why, **more)
            self._tape.end()


class _Tap:
    """The owner that the real transport knows: hears everything first."""

    def __init__(self, owner: Owner, track: _Track) -> None:
        self.owner = owner
        self.track = track

    def frames_arrived(self) -> None:
        """Written when they are pulled."""
        self.owner.frames_arrived()

    def wrote(self, through: int) -> None:
        """What was held is sent now."""
        self.track.wrote(through)
        self.owner.wrote(through)

    def room_made(self) -> None:
        """Pass it on."""
        self.owner.room_made()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """Not with the last words on stderr, which `str(error)` has: they may hold anything."""
        self.track.went_down(error.message, exit_code)
        self.owner.went_down(error, exit_code, was_silent)

    def exchange_lost(self, id: int, error: McpError, was_declined: bool) -> None:
        """Written as what came in place of an answer."""
        self.track.lost(id, error.message)
        self._http_owner.exchange_lost(id, error, was_declined)

    def queued(self, id: int) -> None:
        """Pass it on."""
        self._http_owner.queued(id)

    def started(self, id: int) -> None:
        """Pass it on."""
        self._http_owner.started(id)

    def session_lost(self, id: int) -> None:
        """As above; 0 is no request."""
        if id:
            self.track.lost(id, "the server forgot the session")
        self._http_owner.session_lost(id)

    def marked_arguments(self, tool: str) -> "Sequence[ParamHeader]":
        """Pass it on."""
        return self._http_owner.marked_arguments(tool)

    @property
    def _http_owner(self) -> ExchangeOwner:
        assert isinstance(self.owner, ExchangeOwner)  # `open()` has looked
        return self.owner


class RecordedTransport:
    """One connection that is recorded."""

    def __init__(self, inner: Transport, track: _Track) -> None:
        self._inner = inner
        self._track = track

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self._inner!r}>"

    def send(self, frame: bytes, number: int) -> bool:
        """As the contract says."""
        is_taken = False
        self._track.hold(
            frame, number
        )  # before, since a transport may tell of the writing from inside this call
        try:
            is_taken = self._inner.send(frame, number)
        finally:
            if not is_taken:
                self._track.release(number)
        if is_taken:
            self._track.took(frame)
        return is_taken

    def withdraw(self, number: int) -> bool:
        """As the contract says."""
        is_withdrawn = self._inner.withdraw(number)
        if is_withdrawn:
            self._track.release(number)
        return is_withdrawn

    def next_frame(self) -> bytes | McpError | None:
        """As the contract says."""
        frame = self._inner.next_frame()
        if frame is not None:
            self._track.pulled(frame)
        return frame

    async def flush(self) -> bool:
        """As the contract says."""
        return await self._inner.flush()

    def stop_writing(self) -> None:
        """As the contract says."""
        self._inner.stop_writing()

    async def close(self) -> None:
        """As the contract says."""
        self._track.end()
        await self._inner.close()


class RecordedHttpTransport(RecordedTransport):
    """One connection over HTTP that is recorded."""

    _inner: ExchangeTransport

    def hang_up(self, id: int) -> None:
        """As the contract says."""
        self._track.hung_up(id)
        self._inner.hang_up(id)

    def renew(self, owner: ExchangeOwner) -> None:
        """As the contract says: the next session is a part of the same connection."""
        self._inner.renew(_Tap(owner, self._track))


def recorded(
    target: Target,
    path: str | os.PathLike[str],
    *,
    redact: Iterable[str] = (),
    overwrite: bool = False,
    append: bool = False,
) -> RecordedTarget:
    """The same target, with every message that passes written to the file at `path`; for `replayed()` and people.

    `redact` names members (arguments of tools, for instance) whose values are not written. Headers, environment and the
    command itself never are; everything else that is said is. A file that is there is refused, unless `overwrite` is true,
    or `append`: then what is said now is written behind it, as further connections.

    Raises: UsageError, also where `append` meets a file that is no recording or was recorded with other redactions.
    """
    if not hasattr(target, "open"):
        raise UsageError("recorded() takes a target, such as stdio(command, ...)", path="target")
    shown = os.fspath(path)
    if os.path.isdir(shown):
        raise UsageError(f"{shown} is a directory: give the name of a file", path=shown)
    if overwrite and append:
        raise UsageError("a recording is overwritten or gone on with, not both", path="append")
    is_there, redaction, before = os.path.lexists(shown), Redaction(redact), None
    if is_there and append:
        before = read_recording(shown)
        if before.redaction.names != redaction.names:
            was = ", ".join(sorted(before.redaction.names)) or "nothing"
            raise UsageError(
                f"{shown} was recorded with {was} redacted: redact the same, or give another file", path=shown
            )
    elif is_there and not overwrite:
        raise UsageError(f"{shown} is there already, and a recording is not overwritten unasked", path=shown)
    folder = os.path.dirname(shown) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"there is no directory {folder} to write {shown} to", path=shown)
    return RecordedTarget(target, Tape(shown, target.name, redaction, overwrite=overwrite, before=before))
