"""Parses HTTP responses: the body within a limit, the JSON-RPC response in it, or the error."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError
from jackstay.protocol import Revision
from jackstay.protocol.wire import ABSENT, Absent, Batch, Error, Malformed, Message, Result, decode, encode_error
from jackstay.transport.http._contract import HttpResponse
from jackstay.types import DECODE_ERRORS

# How much of an error body is read: enough for every JSON-RPC error and for a quote of a web page.
MAX_REFUSAL_BYTES: Final = 262_144

# How much of a body is quoted in an error.
MAX_QUOTE_CHARS: Final = 200


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
    def is_response(self) -> bool:
        """Whether it is a JSON-RPC response, by the same rule by which the core ends a call."""
        has_either = self.result is not msgspec.UNSET or self.error is not msgspec.UNSET
        return has_either and self.method is msgspec.UNSET


class _Refusal(msgspec.Struct):
    error: _Error
    id: int | str | None = None
    method: msgspec.UnsetType = msgspec.UNSET  # a request is not an error response


class _Result(msgspec.Struct, rename="camel"):
    protocol_version: str = ""


class _Initialized(msgspec.Struct):
    result: _Result | None = None


_read_answer = msgspec.json.Decoder(_Answer).decode
_read_refusal = msgspec.json.Decoder(_Refusal).decode
_read_initialized = msgspec.json.Decoder(_Initialized).decode


async def read_body(response: HttpResponse, limit: int) -> bytes:
    """Return the whole body.

    Raises: FrameTooLargeError as soon as it is over the limit; OutcomeUnknownError if it is incomplete.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in response.chunks():
        size += len(chunk)
        if size > limit:
            raise FrameTooLargeError(size, limit, sent=True)
        parts.append(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def read_error_body(response: HttpResponse) -> bytes:
    """Return the beginning of an error body. Never raises: the result is empty if the body cannot be read."""
    body = bytearray()
    try:
        async with asyncio.timeout(5.0):  # a caller waits, and the status is known already
            async for chunk in response.chunks():
                body += chunk
                if len(body) >= MAX_REFUSAL_BYTES:
                    break
    except (McpError, TimeoutError):
        pass
    return bytes(body)


def answered_ids(frame: bytes, revision: Revision | None) -> tuple[int | str | None, ...]:
    """Return the ids of the responses in this frame: one, those of a batch, or none. Never raises.

    A batch is valid only in the revision that has batches.
    """
    if frame[:1] == b"[":
        batch = decode(frame) if revision is not None and revision.has_batches else None
        return _response_ids(batch.members) if isinstance(batch, Batch) else ()
    try:
        response = _read_answer(frame)
    except RecursionError:
        # It is nested too deeply. The core rejects it and fails its call.
        return _response_ids((decode(frame),))
    except DECODE_ERRORS:
        return ()
    return (response.id,) if response.is_response else ()


def _response_ids(messages: Iterable[Message]) -> tuple[int | str | None, ...]:
    return tuple(
        message.id
        for message in messages
        if isinstance(message, Result | Error | Malformed)
        and not isinstance(message.id, Absent)
        and (not isinstance(message, Malformed) or message.is_response)
    )


def error_in(body: bytes) -> _Error | None:
    """Return the JSON-RPC error in this body, whatever its id, or None."""
    try:
        return _read_refusal(body).error
    except DECODE_ERRORS:
        return None


def error_for_id(body: bytes, id: int) -> bytes | None:
    """Return an error response to request `id` with the JSON-RPC error in this body; None if there is none.

    Some servers respond without the id or with another one. The response to a POST with one request belongs to that
    request in any case.
    """
    error = error_in(body)
    if error is None:
        return None
    return encode_error(id, error.code, error.message, ABSENT if error.data is None else error.data)


def negotiated_version(frame: bytes) -> str | None:
    """Return the revision in a response to `initialize`; None if it is an error or invalid."""
    try:
        read = _read_initialized(frame)
    except DECODE_ERRORS:
        return None
    return None if read.result is None else read.result.protocol_version


def is_result(frame: bytes) -> bool:
    """Return whether this response is a result and not an error."""
    try:
        return _read_answer(frame).error is msgspec.UNSET
    except DECODE_ERRORS:
        return False


def quote(body: bytes) -> str:
    """Return the beginning of a body as one line of ASCII, since it comes from the peer."""
    return ascii(body[:MAX_QUOTE_CHARS].decode("utf-8", "replace"))[1:-1]


def not_an_answer(body: bytes) -> ProtocolError:
    """Return the error of a call whose HTTP response is JSON, but not its JSON-RPC response."""
    what = "the HTTP response is empty" if not body.strip() else "the HTTP response has no response to this request"
    return ProtocolError(what, quote=quote(body), sent=True)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes, however deep, also those that libraries keep as attributes."""
    seen: set[int] = set()
    todo = [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        todo += [each.__cause__, each.__context__, getattr(each, "os_error", None)]
        todo += getattr(each, "exceptions", ())


def is_unreachable(error: BaseException) -> bool:
    """Return whether the cause is a refused connection or a host name without an address."""
    return any(
        isinstance(each, ConnectionRefusedError | socket.gaierror)
        or (isinstance(each, OSError) and each.errno == errno.ECONNREFUSED)
        for each in causes(error)
    )


def is_untrusted(error: BaseException) -> bool:
    """Return whether the cause is a certificate that was not accepted, which a retry does not change."""
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in causes(error))


def is_cut_off(error: BaseException | None) -> bool:
    """Return whether the cause is that the other side ended the connection or does not use TLS; not a timeout."""
    found = list(causes(error))
    has_timed_out = any(isinstance(each, TimeoutError) for each in found)
    return not has_timed_out and any(isinstance(each, ConnectionError | ssl.SSLError) for each in found)
