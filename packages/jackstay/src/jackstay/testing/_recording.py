"""A recorded conversation as a file: what each line says, how it is written, and what is refused when it is read.

JSON lines. The first is the header: that it is a recording, of which version, when and of whom. Every other is one thing that
happened on one connection: who did it, when, and one member that says what (docs/design/recording.md has the table). Messages
are written as they came, byte for byte but for line breaks; what is no message is kept as text. A file is checked when it is
read, all of it, so that nothing is found out half-way through a test; what is wrong is told by its line, with what to do.

Must never know which request an answer belongs to. Above: `_recorder` writes, `_repertoire` reads. Below: `_redaction`,
`jackstay.protocol.wire`.
"""

import base64
import binascii
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, BinaryIO, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from jackstay.errors import RequestId, UsageError
from jackstay.protocol.wire import MAX_FRAME_BYTES, Malformed, Message, decode
from jackstay.testing._redaction import Redaction

# What a header calls itself, and the newest version that is written and read here.
KIND: Final = "recording"
VERSION: Final = 1

# Frames up to four times the usual limit: a recorder must not be what makes a large message fail.
MAX_RECORDED_FRAME: Final = 4 * MAX_FRAME_BYTES

# A line is a frame and a few members around it; base64 takes a third more.
MAX_LINE: Final = 2 * MAX_RECORDED_FRAME

# Of what a line holds that is no JSON, for an error: enough to know it by.
LONGEST_QUOTE: Final = 40

Side = Literal["client", "server"]

_BREAKS_TO_SPACES = bytes.maketrans(b"\r\n", b"  ")
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Header(msgspec.Struct, frozen=True):
    """The first line. `target` is the server's name and nothing else of how it was reached."""

    jackstay: str
    version: int
    recorded: str = ""
    target: str = "recording"
    redacted: list[str] = []


class Line(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """Any other line: exactly one of the members from `message` on says what happened."""

    sender: Side
    at: Annotated[float, Meta(ge=0, le=1e9)]
    connection: Annotated[int, Meta(ge=1)] = 1
    message: Raw | UnsetType = UNSET
    # What was said and is no JSON-RPC message.
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    # The connection ended, and this side ended it; `exit` is the exit code of a process.
    ended: str | UnsetType = UNSET
    exit: int | None = None
    # Over HTTP: the request with this id got no answer, and why; the client closed the response of this one.
    lost: RequestId | UnsetType = UNSET
    why: str = ""
    hung_up: RequestId | UnsetType = UNSET
    # For people.
    note: str | UnsetType = UNSET


# Who says what. A line must have exactly one of the names on the left.
_SENDERS: dict[str, tuple[Side, ...]] = {
    "message": ("client", "server"),
    "text": ("client", "server"),
    "base64": ("client", "server"),
    "ended": ("client", "server"),
    "lost": ("server",),
    "hung_up": ("client",),
    "note": ("client", "server"),
}


class Entry(msgspec.Struct, frozen=True):
    """A line that was read and found to be sound: `number` is its place in the file."""

    number: int
    said: Line
    # The message, decoded; and the bytes of what is none.
    message: Message | None = None
    rubbish: bytes | None = None


class Recording(msgspec.Struct, frozen=True):
    """A whole file."""

    path: str
    header: Header
    entries: list[Entry]

    @property
    def redaction(self) -> Redaction:
        """What was replaced before it was written."""
        return Redaction(self.header.redacted)


_read_header = msgspec.json.Decoder(Header).decode
_read_line = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder().encode


# --- writing ----------------------------------------------------------------------------------------------------------


def header_line(target: str, now: datetime, redaction: Redaction) -> bytes:
    """The first line of a file."""
    recorded = now.isoformat(timespec="seconds")
    return _encode(Header(KIND, VERSION, recorded, target, sorted(redaction.names))) + b"\n"


def frame_line(sender: Side, at: float, connection: int, frame: bytes, redaction: Redaction) -> bytes:
    """A frame as a line: a message where it is one, and text or bytes where it is not."""
    head = _head(sender, at, connection)
    if isinstance(decode(frame), Malformed):
        return b"%b%b}\n" % (head, _rubbish(frame, redaction))
    kept = redaction.of_frame(frame)
    if kept is None:
        return (
            b'%b"note":"a message was left out: it cannot be read, so nothing can be redacted in it"}\n'
            % head
        )
    return b'%b"message":%b}\n' % (head, kept.translate(_BREAKS_TO_SPACES))


def _rubbish(frame: bytes, redaction: Redaction) -> bytes:
    if redaction.names:
        # It has no members: nothing in it can be found, so nothing of it is kept.
        return b'"note":"something that is no message was left out: nothing can be redacted in it"'
    try:
        return b'"text":%b' % _encode(frame.decode())
    except UnicodeDecodeError:
        return b'"base64":"%b"' % base64.b64encode(frame)


def event_line(
    sender: Side, at: float, connection: int, what: str, value: RequestId, **more: str | int
) -> bytes:
    """Anything else that happened, by the name of its member."""
    return _head(sender, at, connection) + _encode({what: value, **more})[1:] + b"\n"


def _head(sender: Side, at: float, connection: int) -> bytes:
    return b'{"at":%.6f,"connection":%d,"from":"%b",' % (at, connection, sender.encode())


# --- reading ----------------------------------------------------------------------------------------------------------


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """The conversation in that file.

    Raises: UsageError, with the line that cannot be used and what to do.
    """
    shown = os.fspath(path)
    try:
        with open(shown, "rb") as file:
            lines = _lines(shown, file)
            number, first = next(lines, (1, b""))
            header = _header(shown, number, first)
            return Recording(shown, header, [_entry(shown, number, line) for number, line in lines])
    except FileNotFoundError:
        raise UsageError(
            f"there is no recording {shown}: make one with `jackstay record {shown} -- COMMAND`", path=shown
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"cannot read {shown}: {getattr(error, 'strerror', None) or error}", path=shown
        ) from error


def _lines(path: str, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Each line that is not blank, with its number; the newline is kept, since its absence says something."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise _refusal(
                path, number, f"is longer than {MAX_LINE} bytes", "this was not written by a recorder"
            )
        if not line.isspace():
            yield number, line


def _header(path: str, number: int, line: bytes) -> Header:
    if not line:
        raise _refusal(path, number, "is missing: the file is empty", "record the conversation again")
    try:
        header = _read_header(line)
    except _REFUSALS:
        header = None
    if header is None or header.jackstay != KIND:
        advice = "give a file that `jackstay record` wrote"
        raise _refusal(path, number, f"is not the header of a recording ({_quote(line)})", advice)
    if header.version > VERSION:
        what = f"says version {header.version}, and this Jackstay reads versions up to {VERSION}"
        raise _refusal(path, number, what, "update Jackstay, or record the conversation again")
    if header.version < 1:
        raise _refusal(path, number, f"says version {header.version}, which there never was", "record again")
    if not all(header.redacted):
        raise _refusal(path, number, "names an empty name as redacted", "record again, or mend the line")
    return header


def _entry(path: str, number: int, line: bytes) -> Entry:
    try:
        said = _read_line(line)
    except msgspec.ValidationError as error:
        raise _refusal(path, number, f"cannot be used: {error}", "record again, or mend the line") from error
    except _REFUSALS as error:
        if not line.endswith(b"\n"):
            what = "is cut short: the recorder was ended while it wrote, or the file is not whole"
            raise _refusal(path, number, what, "delete this line to replay what is before it") from error
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _refusal(path, number, f"is not JSON: {reason}", "record again, or delete the line") from error
    kinds = [kind for kind in _SENDERS if getattr(said, kind) is not UNSET]
    if len(kinds) != 1:
        what = f"must say one of {', '.join(_SENDERS)}, and says {' and '.join(kinds) or 'none'}"
        raise _refusal(path, number, what, "record again, or mend the line")
    if said.sender not in _SENDERS[kinds[0]]:
        raise _refusal(
            path, number, f"says {kinds[0]} from the {said.sender}", "record again, or mend the line"
        )
    return Entry(number, said, *_content(path, number, said))


def _content(path: str, number: int, said: Line) -> tuple[Message | None, bytes | None]:
    if said.message is not UNSET:
        message = decode(bytes(said.message))
        if isinstance(message, Malformed):
            what = f"holds what is no message: {message.message} at {message.path or '$'}"
            raise _refusal(path, number, what, "record again, or mend the line")
        return message, None
    if said.text is not UNSET:
        return None, said.text.encode()
    if said.base64 is not UNSET:
        try:
            return None, base64.b64decode(said.base64, validate=True)
        except binascii.Error as error:
            raise _refusal(
                path, number, f"holds no base64: {error}", "record again, or delete the line"
            ) from error
    return None, None


def _quote(line: bytes) -> str:
    quoted = line[:LONGEST_QUOTE].decode("utf-8", "replace").strip()
    return repr(quoted if len(line) <= LONGEST_QUOTE else quoted + "...")


def _refusal(path: str, number: int, what: str, advice: str) -> UsageError:
    error = UsageError(f"{path}: line {number} {what}; {advice}", path=path)
    error.details["line"] = number
    return error
