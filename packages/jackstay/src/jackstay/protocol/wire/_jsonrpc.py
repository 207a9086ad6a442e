"""JSON-RPC 2.0 messages: decoding of the envelope, with the bodies left as `msgspec.Raw`, and encoding.

Independent of methods, states and revisions. `decode` never raises: an invalid frame becomes a `Malformed` message.
`params` and `result` are views that keep the whole frame in memory: decode them now, or store a copy (`raw.copy()`).
Ids, method names and errors are copies, and members of a batch are views of their own member only.
"""

import re
from collections.abc import Callable
from enum import IntEnum
from functools import cache, lru_cache
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from jackstay.errors import Json, ProtocolError, RequestId, UsageError
from jackstay.protocol.wire._framer import MAX_QUOTE
from jackstay.protocol.wire._json_text import MAX_SHALLOW_TEXT, JsonProblem, explain, find_problem, flatten, needs_check
from jackstay.types import DECODE_ERRORS, encode_json

# A server stores the id of every request in flight, up to 1,024 per connection, so their length is limited. Ids are
# usually counters or UUIDs (36 characters). At the limit all of them take 4 MiB (4 bytes per character in the worst
# case). Integers need no limit: msgspec rejects more than 4,300 digits (1.8 KiB), and all others are exact, also beyond
# 2^53.
MAX_ID_LENGTH: Final = 1_024

# Method names are part of errors, logs and telemetry. The longest in MCP has 40 characters.
MAX_METHOD_LENGTH: Final = 256

# Larger batches are not decoded at all: 16 MiB of `1,1,1` would become 8 million objects.
MAX_BATCH_MEMBERS: Final = 100

# The maximum size of an invalid frame that is decoded again, leniently, to find the id of a response: this creates an
# object for every value.
MAX_LENIENT: Final = 1 << 20

# How much of a frame that is nested too deeply is scanned for its id.
MAX_FLATTENED: Final = 1 << 17

# The value of an absent member, as opposed to one that is `null`.
ABSENT: Final = UNSET
Absent: TypeAlias = UnsetType


# A member of a request before its params. This and the next are compiled on first use, which takes 0.5 ms.
_EARLY_MEMBER: Final = rb'\s*[{,]\s*"(jsonrpc|id|method)"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]+)(?=\s*,)'

# The id of a request as its last member, where the official SDK for Python writes it. The last brace of a frame closes
# the message itself, and quotes inside of strings are escaped, so this is not the id of something in `params`.
_LAST_ID: Final = rb'[{,]\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]+)\s*\}\s*$'


class ErrorCode(IntEnum):
    """Every code that Jackstay sends or recognises (JSON-RPC 2.0, section 5.1; MCP 2026-07-28 basic/index)."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SEQUENCE_ERROR = -32001  # a known message in the wrong state; handshake era only
    RESOURCE_NOT_FOUND = -32002  # handshake era; -32602 in 2026-07-28
    URL_ELICITATION_REQUIRED = -32042  # 2025-11-25 only
    HEADER_MISMATCH = -32020  # this and the two below: 2026-07-28
    MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
    UNSUPPORTED_PROTOCOL_VERSION = -32022


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request. `params` is an object or an array, not yet decoded, or None."""

    id: RequestId
    method: str
    params: Raw | None = None


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A notification, which gets no response."""

    method: str
    params: Raw | None = None


class Result(msgspec.Struct, frozen=True, gc=False):
    """The response to a request. `result` is any JSON value, including `null`."""

    id: RequestId
    result: Raw


class Error(msgspec.Struct, frozen=True):
    """The error response to a request. `id` is None if the peer could not read the id.

    `data` is ABSENT if there was none, as opposed to None for `null`.
    """

    id: RequestId | None
    code: int
    message: str
    data: "Json | Absent" = ABSENT


class Malformed(msgspec.Struct, frozen=True):
    """A frame, or a member of a batch, that is not a message.

    `message` and `path` describe the problem, also to the peer; `quote` is the start of the frame and stays local. `id`
    is ABSENT if it could not be read. With `is_response` the frame is an invalid response, and `id` is one of our own:
    an error response with it would belong to an unrelated request of the peer.
    """

    code: ErrorCode
    message: str
    path: str = ""
    quote: str = ""
    id: RequestId | Absent = ABSENT
    is_response: bool = False

    def as_error(self, *, sent: bool = False) -> ProtocolError:
        """Return the exception for a caller that waits for this message; `sent` as in `ProtocolError`."""
        return ProtocolError(self.message, path=self.path, quote=self.quote, code=self.code, sent=sent)


class Batch(msgspec.Struct, frozen=True):
    """A batch of messages (2025-03-26 only), in order. It may be empty, which JSON-RPC forbids.

    With `is_over_limit` there were more than MAX_BATCH_MEMBERS, and none was decoded.
    """

    members: "tuple[Single, ...]" = ()
    is_over_limit: bool = False


# `Message` is the content of a frame, `Single` a member of a batch.
Single: TypeAlias = Request | Notification | Result | Error | Malformed
Message: TypeAlias = Single | Batch


_Id: TypeAlias = int | Annotated[str, Meta(max_length=MAX_ID_LENGTH)]
_MethodName: TypeAlias = Annotated[str, Meta(max_length=MAX_METHOD_LENGTH)]


class _Envelope(msgspec.Struct, gc=False):
    """The members of all messages, validated by msgspec as far as possible."""

    jsonrpc: Literal["2.0"]
    id: _Id | UnsetType | None = UNSET
    method: _MethodName | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class PlainRequest(Request, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """A request as nearly every client writes it: `jsonrpc`, `id`, `method` and perhaps `params`, of any type."""

    jsonrpc: Literal["2.0"]
    id: _Id
    method: _MethodName
    params: Raw = None  # type: ignore[assignment]  # msgspec has no `Raw | None`


class _Outline(msgspec.Struct, gc=False):
    """The members that identify an invalid message, with values of any type."""

    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _ErrorObject(msgspec.Struct):
    code: int
    message: str
    data: Raw | UnsetType = UNSET


_read_envelope = msgspec.json.Decoder(_Envelope).decode
_encode_small_id = msgspec.json.Encoder().encode
# For a server: reads a request in one step if its text needs no check. Everything else raises, and is left to `decode`.
read_plain_request: Callable[[bytes], Request] = msgspec.json.Decoder(PlainRequest).decode
_read_outline = msgspec.json.Decoder(_Outline).decode
_read_error = msgspec.json.Decoder(_ErrorObject).decode
_read_id = msgspec.json.Decoder(_Id).decode
_read_any = msgspec.json.Decoder().decode
_check_syntax = msgspec.json.Decoder(Raw).decode

# msgspec's messages contain Python types; peers get these instead.
_RULES = {
    "$.jsonrpc": '`jsonrpc` must be "2.0"',
    "$.id": f"`id` must be an integer or a string of at most {MAX_ID_LENGTH} characters",
    "$.method": f"`method` must be a string of at most {MAX_METHOD_LENGTH} characters",
    "$.error.code": "`code` of an error must be an integer",
    "$.error.message": "`message` of an error must be a string",
}

# `{` is the greatest byte that a JSON value can begin with, so a value that is not smaller than this is an object. A
# bytearray can be compared with a Raw directly; reading the first byte through a memoryview takes three times as long.
MIN_OBJECT = bytearray(b"{")

_WHITESPACE = b" \t\r\n"


def decode(frame: bytes | bytearray | memoryview) -> Message:
    """Decode a frame. Never raises: an invalid frame becomes a `Malformed` message.

    Raw members are views that keep the frame in memory; see the module docstring.
    """
    if type(frame) is not bytes:
        frame = bytes(frame)  # a view would lock a bytearray, so that it could not be resized
    # Most frames are short ASCII, which `needs_check` always accepts.
    if (len(frame) > MAX_SHALLOW_TEXT or not frame.isascii()) and needs_check(frame):
        problem = find_problem(frame)
        if problem is not None:
            return _malformed_text(frame, problem)
    try:
        envelope = _read_envelope(frame)
    except DECODE_ERRORS as error:
        return _explain(frame, error)
    id = envelope.id
    method = envelope.method
    if method is UNSET:
        result = envelope.result
        if result is not UNSET and envelope.error is UNSET and id is not UNSET and id is not None:
            return Result(id, result)
        return _decode_response(frame, envelope)
    if envelope.result is not UNSET or envelope.error is not UNSET:
        return _invalid(frame, "a message cannot have both `method` and `result` or `error`", "$")
    params: Raw | None = None
    if envelope.params is not UNSET:
        params = envelope.params
        if params < MIN_OBJECT:
            first = memoryview(params)[0]
            if first == ord("n"):
                # More lenient than JSON-RPC 2.0, section 4.2: some libraries write absent members as null.
                params = None
            elif first != ord("["):
                return _invalid(frame, "`params` must be an object or an array", "$.params")
    if id is UNSET:
        return Notification(method, params)
    if id is None:
        # JSON-RPC 2.0 discourages a null id; MCP forbids it (basic/index of every revision).
        return _invalid(frame, "`id` of a request must not be null", "$.id")
    return Request(id, method, params)


def _decode_response(frame: bytes, envelope: _Envelope) -> Single:
    """Decode a response that is not a valid result: an error, or an invalid message."""
    id = envelope.id
    if envelope.error is not UNSET:
        if envelope.result is not UNSET:
            return _invalid(frame, "a response cannot have both `result` and `error`", "$")
        return _decode_error(frame, None if id is UNSET else id, envelope.error)
    if envelope.result is UNSET:
        return _invalid(frame, "a message must have `method`, `result` or `error`", "$")
    return _invalid(frame, "a result must have the `id` of its request", "$.id")


def _decode_error(frame: bytes, id: RequestId | None, raw: Raw) -> Single:
    path = "$.error"
    try:
        error = _read_error(raw)
        path = "$.error.data"
        return Error(id, error.code, error.message, ABSENT if error.data is UNSET else _read_any(error.data))
    except DECODE_ERRORS as refusal:
        return _invalid(frame, *_describe_refusal(refusal, path))


@cache
def _read_members() -> "msgspec.json.Decoder[msgspec.Struct]":
    """Return a decoder of arrays that keeps the first members and only checks the syntax of the others.

    msgspec has no list of limited length, but an array-like Struct keeps only as many members as it has fields. It is
    created on first use: it takes 0.4 ms, and only one revision has batches.
    """
    fields = [(f"member_{index}", Raw | UnsetType, UNSET) for index in range(MAX_BATCH_MEMBERS + 1)]
    return msgspec.json.Decoder(msgspec.defstruct("Members", fields, array_like=True))


def _decode_batch(frame: bytes) -> Message:
    try:
        values = msgspec.structs.astuple(_read_members().decode(frame))
    except DECODE_ERRORS as error:
        return _malformed_text(frame, explain(frame, error))
    members = [bytes(value) for value in values if value is not UNSET]
    if len(members) > MAX_BATCH_MEMBERS:
        return Batch(is_over_limit=True)
    return Batch(tuple(_decode_member(index, member) for index, member in enumerate(members)))


def _decode_member(index: int, member: bytes) -> Single:
    # Checked before decoding: nested batches would be decoded again at every level.
    message = None if member[:1] == b"[" else decode(member)
    if message is None or isinstance(message, Batch):
        return Malformed(ErrorCode.INVALID_REQUEST, "a batch cannot contain a batch", f"$[{index}]", _quote(member))
    if isinstance(message, Malformed):
        return msgspec.structs.replace(message, path=f"$[{index}]{message.path[1:]}")
    return message


def _explain(frame: bytes, error: Exception) -> Message:
    """Return the batch in a frame without an envelope, or why the frame is invalid."""
    if frame.lstrip(_WHITESPACE)[:1] == b"[":
        return _decode_batch(frame)
    if not isinstance(error, msgspec.ValidationError):
        return _malformed_text(frame, explain(frame, error))
    try:
        _check_syntax(frame)  # msgspec stopped at the first invalid member
    except DECODE_ERRORS as refusal:
        return _malformed_text(frame, explain(frame, refusal))
    return _invalid(frame, *_describe_refusal(error, "$"))


def _describe_refusal(error: Exception, under: str) -> tuple[str, str]:
    """Return msgspec's message, or the rule for this path, and the path below `under`."""
    reason, _, path = str(error).partition(" - at `$")
    path = under + path.removesuffix("`")
    return _RULES.get(path, reason), path


def _invalid(frame: bytes, message: str, path: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> Malformed:
    id, is_response = _identify(frame)
    return Malformed(code, message, path, _quote(frame), id, is_response)


def _malformed_text(frame: bytes, problem: JsonProblem) -> Malformed:
    """Return the message for a frame that is not accepted as JSON. Its id may still be readable.

    Too deeply nested is -32600, like a frame over the size limit: it may be valid JSON, and the limit is ours.
    """
    code = ErrorCode.INVALID_REQUEST if problem.is_depth else ErrorCode.PARSE_ERROR
    return _invalid(frame, problem.message, problem.path, code)


def _identify(frame: bytes) -> tuple[RequestId | Absent, bool]:
    """Return the id of an invalid message, if it can be read, and whether it is a response."""
    try:
        outline = _read_outline(frame)
    except RecursionError:
        try:
            outline = _read_outline(flatten(frame, MAX_FLATTENED))
        except DECODE_ERRORS:
            return ABSENT, False
    except DECODE_ERRORS:
        id = _read_response_id(frame)
        return id, id is not ABSENT
    is_response = outline.method is UNSET and (outline.result is not UNSET or outline.error is not UNSET)
    if outline.id is UNSET:
        return ABSENT, is_response
    try:
        return _read_id(outline.id), is_response
    except DECODE_ERRORS:
        return ABSENT, is_response


def _read_response_id(frame: bytes) -> int | Absent:
    """Return the id of a response that is JSON except for NaN, a lone surrogate or a control character.

    Python and JavaScript write and accept these. With the id the caller gets an error now and not after a timeout.
    """
    if len(frame) > MAX_LENIENT:
        return ABSENT
    import json  # noqa: PLC0415  # only for invalid frames

    try:
        outline = json.loads(frame, strict=False)
    except (ValueError, RecursionError):
        return ABSENT
    if not isinstance(outline, dict) or "method" in outline or not outline.keys() & {"result", "error"}:
        return ABSENT
    id = outline.get("id")
    return id if type(id) is int else ABSENT


def _quote(frame: bytes) -> str:
    quote = frame[:MAX_QUOTE].decode("utf-8", "replace")
    return quote if len(frame) <= MAX_QUOTE else quote + "..."


def encode_request(id: RequestId, method: str, params: bytes | None = None, meta: bytes | None = None) -> bytes:
    """Encode a request. `params` and `meta` are encoded JSON objects.

    Raises:
        UsageError: the id, the method name, the params or the meta are invalid.
    """
    # Joining takes half of the time of formatting, and for a short id msgspec a quarter of the time of `%d`.
    id_text = _encode_small_id(id) if type(id) is int and id.bit_length() < 64 else _encode_id(id)
    if meta is not None:
        params = splice_meta(b"{}" if params is None else params, meta)
    if params is None:
        return b'{"jsonrpc":"2.0","id":%b,"method":%b}' % (id_text, _encode_method(method))
    return b"".join(
        (b'{"jsonrpc":"2.0","id":', id_text, b',"method":', _encode_method(method), b',"params":', params, b"}")
    )


def encode_notification(method: str, params: bytes | None = None) -> bytes:
    """Encode a notification; `params` as for `encode_request`."""
    params_member = b"" if params is None else b',"params":%b' % params
    return b'{"jsonrpc":"2.0","method":%b%b}' % (_encode_method(method), params_member)


def encode_result(id: RequestId, result: bytes) -> bytes:
    """Encode the response to a request. `result` is encoded JSON and is not validated."""
    if type(id) is int and id.bit_length() <= 64:
        return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id, result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode_id(id), result)


def encode_error(id: RequestId | Absent | None, code: int, message: str, data: "Json | Absent" = ABSENT) -> bytes:
    """Encode an error response. `id` is None or ABSENT if it could not be read.

    None writes `"id":null`, which JSON-RPC 2.0 and the revisions up to 2025-06-18 require; ABSENT omits the member, as
    revisions from 2025-11-25 on require.

    Raises:
        UsageError: `data` is not JSON; `path` is its position.
    """
    id_member = b"" if id is ABSENT else b'"id":%b,' % (b"null" if id is None else _encode_id(id))
    data_member = b"" if data is ABSENT else b',"data":%b' % encode_json(data)
    body = b'{"code":%d,"message":%b%b}' % (code, encode_json(message), data_member)
    return b'{"jsonrpc":"2.0",%b"error":%b}' % (id_member, body)


def join_batch(frames: list[bytes]) -> bytes:
    """Encode a batch of encoded messages.

    Raises:
        UsageError: the list is empty, which JSON-RPC forbids.
    """
    if not frames:
        raise UsageError("a batch must have at least one message")
    return b"[%b]" % b",".join(frames)


def splice_meta(body: bytes, meta: bytes) -> bytes:
    """Insert `_meta` as the first member of `body`, without decoding either.

    `body` must not have a `_meta` already: the name would be duplicated, and the one in the body would count.

    Raises:
        UsageError: one of them is not a JSON object.
    """
    if body[:1] != b"{" or meta[:1] != b"{":
        raise UsageError("params and `_meta` must be JSON objects", path="_meta")
    rest = body[1:].lstrip(_WHITESPACE)
    if rest == b"}":
        return b'{"_meta":%b}' % meta
    return b'{"_meta":%b,%b' % (meta, rest)


# A program uses few method names.
@lru_cache(maxsize=256)
def _encode_method(method: str) -> bytes:
    if len(method) > MAX_METHOD_LENGTH:
        raise UsageError(f"method must have at most {MAX_METHOD_LENGTH} characters, not {len(method)}", path="method")
    return encode_json(method)


def _encode_id(id: RequestId) -> bytes:
    if type(id) is int:
        try:
            return b"%d" % id
        except ValueError as error:  # over 4,300 digits, which peers could not decode either
            raise UsageError("id must have at most 4300 digits", path="id") from error
    if type(id) is str and len(id) <= MAX_ID_LENGTH:
        return encode_json(id)
    raise UsageError(f"id must be an int or a str of at most {MAX_ID_LENGTH} characters", path="id")


def request_id_at_start(start: bytes, end: bytes = b"") -> RequestId | None:
    """Return the id of a request from the beginning of its frame; None if the id or the method is not before `params`.

    Without the method it may be a response, whose id is one of ours. With the `end` of the frame, the id may also be
    its last member.
    """
    members = _early_members(start)
    if b"method" not in members:
        return None
    last = None if b"id" in members else re.search(_LAST_ID, end)
    encoded = members.get(b"id") if last is None else last[1]
    if encoded is None:
        return None
    try:
        id: RequestId = msgspec.json.decode(encoded, type=int | str)
    except DECODE_ERRORS:
        return None
    return id


def may_have_id_at_end(start: bytes) -> bool:
    """Return whether a frame begins as a request without an id before `params`."""
    members = _early_members(start)
    return b"method" in members and b"id" not in members


def _early_members(start: bytes) -> dict[bytes, bytes]:
    members: dict[bytes, bytes] = {}
    match_member = re.compile(_EARLY_MEMBER).match
    at = 0
    while (found := match_member(start, at)) is not None:
        members[found[1]] = found[2]
        at = found.end()
    return members
