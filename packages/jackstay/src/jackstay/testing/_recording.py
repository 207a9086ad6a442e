"""The file format of recordings: JSON lines, written byte for byte, and fully checked when they are read.

The first line is a header. Every other line is an event on one connection (docs/design/recording.md has the table);
frames that are not messages are kept as text. Errors name the line and what to do.
"""

import os
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from jackstay.errors import RequestId, UsageError
from jackstay.protocol.wire import MAX_FRAME_BYTES, Malformed, Message, decode
from jackstay.testing._redaction import Redaction
from jackstay.types import DECODE_ERRORS

# The newest version of the format.
VERSION: Final = 1

# Four times the usual limit, so that a large message does not fail because of the recorder.
MAX_RECORDED_FRAME: Final = 4 * MAX_FRAME_BYTES

# A line is a frame and a few members around it; base64 takes a third more.
MAX_LINE: Final = 2 * MAX_RECORDED_FRAME

# How much of an invalid line is quoted in an error.
MAX_QUOTE_CHARS: Final = 40

# Every message as it is.
NO_REDACTION: Final = Redaction()

# The two ends of a connection.
Side = Literal["client", "server"]

_BREAKS_TO_SPACES = bytes.maketrans(b"\r\n", b"  ")


class Header(msgspec.Struct, frozen=True):
    """The first line. `target` is the server's name, without its command or URL."""

    jackstay: Literal["recording"]
    version: int
    recorded: str = ""
    target: str = "recording"
    redacted: list[str] = []


class Line(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """Any other line. It has exactly one of the members from `message` on."""

    sender: Side
    at: Annotated[float, Meta(ge=0, le=1e9)]
    connection: Annotated[int, Meta(ge=1)] = 1
    message: Raw | UnsetType = UNSET
    # A frame that is not a JSON-RPC message.
    text: str | UnsetType = UNSET
    base64: bytes | UnsetType = UNSET
    # This side ended the connection; `exit` is the exit code of a process.
    ended: str | UnsetType = UNSET
    exit: int | None = None
    # Over HTTP: the request with this id got no response, and why; the client closed the response of this request.
    lost: RequestId | UnsetType = UNSET
    why: str = ""
    aborted: RequestId | UnsetType = UNSET
    # A comment.
    note: str | UnsetType = UNSET


# A line must have exactly one of these members.
_KINDS: Final = ("message", "text", "base64", "ended", "lost", "aborted", "note")
# The members that only one side writes.
_SENDERS: Final = {"lost": "server", "aborted": "client"}


class Entry(msgspec.Struct, frozen=True):
    """A valid line; `number` is its line number."""

    number: int
    line: Line
    # The decoded message, or the bytes of a frame that is not a message; None for another event.
    content: Message | bytes | None = None


class Recording(msgspec.Struct, frozen=True):
    """A whole file."""

    path: str
    header: Header
    entries: list[Entry]

    @property
    def redaction(self) -> Redaction:
        """The redaction that was applied when it was written."""
        return Redaction(self.header.redacted)


_read_header = msgspec.json.Decoder(Header).decode
_read_line = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder().encode


# --- writing ----------------------------------------------------------------------------------------------------------


def header_line(target: str, now: datetime, redaction: Redaction = NO_REDACTION) -> bytes:
    """Return the first line of a file."""
    recorded = now.isoformat(timespec="seconds")
    return _encode(Header("recording", VERSION, recorded, target, sorted(redaction.names))) + b"\n"


def frame_line(sender: Side, at: float, connection: int, frame: bytes, redaction: Redaction = NO_REDACTION) -> bytes:
    """Return the line for a frame: with `message` if it is one, otherwise with `text` or `base64`."""
    if isinstance(decode(frame), Malformed):
        return event_line(sender, at, connection, *_garbage(frame, redaction))
    redacted = redaction.of_frame(frame)
    if redacted is None:
        return event_line(sender, at, connection, "note", "omitted a message that cannot be parsed for redaction")
    return b'%b"message":%b}\n' % (_head(sender, at, connection), redacted.translate(_BREAKS_TO_SPACES))


def _garbage(frame: bytes, redaction: Redaction) -> tuple[str, str | bytes]:
    """Return the member for a frame that is not a message, and its value."""
    if redaction.names:
        # It has no members, so the values to redact cannot be found.
        return "note", "omitted a frame that is not a message and cannot be redacted"
    try:
        return "text", frame.decode()
    except UnicodeDecodeError:
        return "base64", frame


def event_line(
    sender: Side, at: float, connection: int, what: str, value: RequestId | bytes, **more: RequestId
) -> bytes:
    """Return the line for another event, with the member `what`."""
    return _head(sender, at, connection) + _encode({what: value, **more})[1:] + b"\n"


def _head(sender: Side, at: float, connection: int) -> bytes:
    return b'{"at":%.6f,"connection":%d,"from":"%b",' % (at, connection, sender.encode())


# --- reading ----------------------------------------------------------------------------------------------------------


class _InvalidLineError(Exception):
    """A line cannot be used: what is wrong with it, and what to do."""

    def __init__(self, what: str, advice: str = "record again, or fix the line") -> None:
        super().__init__(f"{what}; {advice}")


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read a recording.

    Raises: UsageError, with the invalid line and what to do.
    """
    shown = os.fspath(path)
    number = 1
    header: Header | None = None
    entries: list[Entry] = []
    try:
        with open(shown, "rb") as file:
            while line := file.readline(MAX_LINE + 1):  # with its newline: without one, the file was truncated
                if len(line) > MAX_LINE:
                    advice = "pass a file written by `jackstay record`"
                    raise _InvalidLineError(f"is longer than {MAX_LINE} bytes", advice)
                if line.isspace():
                    pass
                elif header is None:
                    header = _header(line)
                else:
                    entries.append(_entry(number, line))
                number += 1
        if header is None:
            number = 1
            raise _InvalidLineError("is missing: the file is empty", "record again")
        return Recording(shown, header, entries)
    except _InvalidLineError as invalid:
        error = UsageError(f"{shown}: line {number} {invalid}", path=shown)
        error.details["line"] = number
        raise error from invalid
    except FileNotFoundError:
        raise UsageError(
            f"no such recording: {shown!r}; create it with `jackstay record {shown} -- COMMAND`", path=shown
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {shown!r}: {getattr(error, 'strerror', None) or error}", path=shown) from error


def _header(line: bytes) -> Header:
    try:
        header = _read_header(line)
    except DECODE_ERRORS as error:
        advice = "pass a file written by `jackstay record`"
        raise _InvalidLineError(f"is not the header of a recording ({_quote(line)})", advice) from error
    if header.version > VERSION:
        what = f"has version {header.version}, but this Jackstay reads versions up to {VERSION}"
        raise _InvalidLineError(what, "update Jackstay, or record again")
    if header.version < 1:
        raise _InvalidLineError(f"has the invalid version {header.version}", "record again")
    if not all(header.redacted):
        raise _InvalidLineError("has an empty name in redacted")
    return header


def _entry(number: int, data: bytes) -> Entry:
    try:
        line = _read_line(data)
    except msgspec.ValidationError as error:
        raise _InvalidLineError(f"is invalid: {error}") from error
    except DECODE_ERRORS as error:
        if not data.endswith(b"\n"):
            what = "is truncated: the recorder was killed while writing, or the file is incomplete"
            raise _InvalidLineError(what, "delete this line to replay the lines before it") from error
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _InvalidLineError(f"is not JSON: {reason}", "record again, or delete the line") from error
    kinds = [kind for kind in _KINDS if getattr(line, kind) is not UNSET]
    if len(kinds) != 1:
        what = f"must have exactly one of {', '.join(_KINDS)}, but has {' and '.join(kinds) or 'none'}"
        raise _InvalidLineError(what)
    if line.sender != _SENDERS.get(kinds[0], line.sender):
        raise _InvalidLineError(f"has {kinds[0]} from the {line.sender}")
    return Entry(number, line, _content(line))


def _content(line: Line) -> Message | bytes | None:
    if line.message is not UNSET:
        message = decode(bytes(line.message))
        if isinstance(message, Malformed):
            raise _InvalidLineError(f"has an invalid message: {message.message} at {message.path or '$'}")
        return message
    if line.text is not UNSET:
        return line.text.encode()
    return None if line.base64 is UNSET else line.base64


def _quote(line: bytes) -> str:
    quoted = line[:MAX_QUOTE_CHARS].decode("utf-8", "replace").strip()
    return repr(quoted if len(line) <= MAX_QUOTE_CHARS else quoted + "...")
