"""Reading responses: a whole body within a limit, the answer in it, and the error that it may be instead.

Must never know what is done about it. Above: `_sending`, `_posts`, `_streams`. Below: the contract, `jackstay.protocol`.
"""

import asyncio
import errno
import socket
from typing import Any, Final

import msgspec

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError
from jackstay.protocol import Revision
from jackstay.protocol.wire import ABSENT, Absent, Batch, Error, Malformed, Result, decode, encode_error
from jackstay.transport.http._contract import HttpResponse

# How much of a body that is no answer is read: enough for every JSON-RPC error and for a quote of a web page.
MAX_REFUSAL_BYTES: Final = 262_144

# How much of it an error shows.
LONGEST_QUOTE: Final = 200


class _Error(msgspec.Struct):
    code: int
    message: str = ""
    data: Any = None


class _Answer(msgspec.Struct):
    id: int | str | None = None
    method: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_one(self) -> bool:
        """As the core sees it, which ends a call by nothing else: what was taken for the answer here must end it there."""
        has_either = self.result is not msgspec.UNSET or self.error is not msgspec.UNSET
        return has_either and self.method is msgspec.UNSET


class _Refusal(msgspec.Struct):
    error: _Error
    id: int | str | None = None
    method: msgspec.UnsetType = msgspec.UNSET  # a request is no error


class _Result(msgspec.Struct, rename="camel"):
    protocol_version: str = ""


class _Initialized(msgspec.Struct):
    result: _Result | None = None


_read_answer = msgspec.json.Decoder(_Answer).decode
_read_refusal = msgspec.json.Decoder(_Refusal).decode
_read_initialized = msgspec.json.Decoder(_Initialized).decode

# What msgspec raises for a body: it is the peer's, and nothing has looked at it before.
_REFUSALS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


async def read_body(response: HttpResponse, limit: int) -> bytes:
    """The whole body.

    Raises: FrameTooLargeError as soon as it is over the limit; OutcomeUnknownError where it breaks off.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in response.chunks():
        size += len(chunk)
        if size > limit:
            raise FrameTooLargeError(size, limit, sent=True)
        parts.append(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def read_refusal(response: HttpResponse) -> bytes:
    """The beginning of a body that is not the answer. It is no reason to fail: what cannot be read is empty."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(5.0):  # somebody waits, and knows the status already
            async for chunk in response.chunks():
                parts.append(chunk)
                size += len(chunk)
                if size >= MAX_REFUSAL_BYTES:
                    break
    except (McpError, TimeoutError):
        pass
    return b"".join(parts)


def answered_ids(frame: bytes, revision: Revision | None) -> tuple[int | str | None, ...]:
    """The ids of the requests that this answers: one, or as many as an array holds, or none. Never raises.

    An array answers only in the revision that has them: in any other it is garbage, which ends no call.
    """
    if frame[:1] == b"[":
        return _batched_ids(frame) if revision is not None and revision.has_batches else ()
    try:
        one = _read_answer(frame)
    except RecursionError:
        return _deep_ids(frame)
    except _REFUSALS:
        return ()
    return (one.id,) if one.is_one else ()


def _deep_ids(frame: bytes) -> tuple[int | str | None, ...]:
    """The id of an answer that is nested too deeply to be read. The core refuses it, and ends its call by that."""
    message = decode(frame)
    if not isinstance(message, Malformed) or not message.is_answer or isinstance(message.id, Absent):
        return ()
    return (message.id,)


def _batched_ids(frame: bytes) -> tuple[int | str | None, ...]:
    batch = decode(frame)
    members = batch.members if isinstance(batch, Batch) else ()
    answers = (one for one in members if isinstance(one, Result | Error | Malformed))
    return tuple(
        one.id
        for one in answers
        if not isinstance(one.id, Absent) and (not isinstance(one, Malformed) or one.is_answer)
    )


def error_in(body: bytes) -> _Error | None:
    """The JSON-RPC error that this body is, whatever its id."""
    try:
        return _read_refusal(body).error
    except _REFUSALS:
        return None


def error_for_id(body: bytes, id: int) -> bytes | None:
    """A frame that answers our request with the error in this body; None where it is none.

    A server that could not read the id, or does not care, answers without one or with another: the response to a POST
    with one request is that request's answer all the same.
    """
    error = error_in(body)
    return (
        None
        if error is None
        else encode_error(id, error.code, error.message, ABSENT if error.data is None else error.data)
    )


def negotiated_version(frame: bytes) -> str | None:
    """The revision in an answer to `initialize`; None where it is an error, or cannot be read."""
    try:
        read = _read_initialized(frame)
    except _REFUSALS:
        return None
    return None if read.result is None else read.result.protocol_version


def is_result(frame: bytes) -> bool:
    """Whether this answer is a result, and not an error."""
    try:
        return _read_answer(frame).error is msgspec.UNSET
    except _REFUSALS:
        return False


def quote(body: bytes) -> str:
    """The beginning of a body as an error may show it: one line of ASCII, since it is the peer's."""
    return ascii(body[:LONGEST_QUOTE].decode("utf-8", "replace"))[1:-1]


def not_an_answer(body: bytes) -> ProtocolError:
    """What ends a call whose response is JSON, and not its answer."""
    what = "the response is empty" if not body.strip() else "the response is not the answer to this request"
    return ProtocolError(what, quote=quote(body), sent=True)


def finds_nobody(error: BaseException) -> bool:
    """True for a connection that was refused and a host without an address, however deep a library has wrapped it."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, ConnectionRefusedError | socket.gaierror):
            return True
        if isinstance(each, OSError) and each.errno == errno.ECONNREFUSED:
            return True
        todo += [each.__cause__, each.__context__, getattr(each, "os_error", None)]
        todo += getattr(each, "exceptions", ())
    return False
