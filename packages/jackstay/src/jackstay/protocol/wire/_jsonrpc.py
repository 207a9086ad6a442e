"""JSON-RPC 2.0 envelopes: bytes in, one of five messages out, and bytes again on the way back.

This file knows what every message has in common (`jsonrpc`, `id`, `method`, `params`, `result`, `error`) and nothing
of what methods mean. Decoding is two-step: here the envelope, with `params` and `result` left as `msgspec.Raw`; then,
elsewhere, the body by method and revision. It must never know a method, a state or a revision; whether a batch is
allowed, what an unknown method is, and who is told about it, the machines decide.

`decode` never raises. What cannot be used comes back as a `Malformed` value: a machine handles it like any other
message, by its type, and a batch can hold good and bad members side by side. It returns a message of its own class
and not the envelope it was read from: building one costs 50 ns of about 500, and in exchange the type checker knows
that a `Request` has an id and that a `Result` has no method.

**How long a Raw lives.** `params` and `result` are views: each keeps the whole frame in memory. They are for
decoding the body now. Whoever stores one must store a copy (`raw.copy()`), or a 16 MiB frame stays alive for one
member of it. Ids, method names and errors are copies already, and members of a batch are views of their own member.

Above: the machines, the body decoders. Below: `_json_text` (which bytes are JSON), `jackstay.types` (values to JSON).
"""

from enum import IntEnum
from functools import cache, lru_cache
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from jackstay.errors import Json, ProtocolError, RequestId, UsageError
from jackstay.protocol.wire._json_text import Flaw, explain, find_flaw, flatten, needs_look
from jackstay.types import encode_json

# A server keeps the id of every request in flight, 1,024 of them for each connection, so an id may not be as long as
# a frame. Ids in the wild are counters and UUIDs (36 characters). At the limit all of them take 4 MiB (4 bytes for
# each character in the worst case). Integers need no limit of ours: msgspec refuses to read more than 4,300 digits,
# which are 1.8 KiB, and all that can be read are kept exactly, beyond 2^53 too.
MAX_ID_LENGTH: Final = 1_024

# Method names are quoted in errors, logs and telemetry. MCP's longest has 40 characters.
MAX_METHOD_LENGTH: Final = 256

# docs/design/connection.md, section 6. More are not decoded at all: 16 MiB of `1,1,1` would become 8 million objects.
MAX_BATCH_MEMBERS: Final = 100

# How much of a frame an error shows.
LONGEST_QUOTE: Final = 120

# How long a frame may be that is read once more, leniently, for the id of an answer: that makes an object of every value.
LONGEST_LENIENT: Final = 1 << 20

# How much of a frame that is nested too deeply is searched for its id, bracket by bracket: beyond it, the id must come first.
LONGEST_FLATTENED: Final = 1 << 17

# Said of a member that is not there, as opposed to one that is `null`.
ABSENT: Final = UNSET
Absent: TypeAlias = UnsetType


class ErrorCode(IntEnum):
    """Every code that Jackstay sends or recognises (JSON-RPC 2.0, section 5.1; MCP 2026-07-28 basic/index)."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SEQUENCE_ERROR = (
        -32001
    )  # a known message in the wrong state; handshake era only, docs/design/connection.md section 6
    RESOURCE_NOT_FOUND = -32002  # handshake era; -32602 in 2026-07-28
    URL_ELICITATION_REQUIRED = -32042  # 2025-11-25 only
    HEADER_MISMATCH = -32020  # this and the two below: 2026-07-28
    MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
    UNSUPPORTED_PROTOCOL_VERSION = -32022


class Request(msgspec.Struct, frozen=True, gc=False):
    """A call that must be answered with its id. `params` is an object or an array, not yet looked into, or None."""

    id: RequestId
    method: str
    params: Raw | None = None


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A call that must never be answered."""

    method: str
    params: Raw | None = None


class Result(msgspec.Struct, frozen=True, gc=False):
    """The answer to a request of ours. `result` is any JSON value, `null` included."""

    id: RequestId
    result: Raw


class Error(msgspec.Struct, frozen=True):
    """The answer to a request of ours that failed. `id` is None where the peer could not read ours.

    `data` is ABSENT where there was none, which is not the same as None.
    """

    id: RequestId | None
    code: int
    message: str
    data: "Json | Absent" = ABSENT


class Malformed(msgspec.Struct, frozen=True):
    """A frame, or a member of a batch, that is not a message.

    `message` and `path` say what was wrong and where, for the peer too; `quote` is how the frame began, for us only.
    `id` is ABSENT unless it could be read. With `is_answer` the frame was meant as an answer to a request of ours: `id`
    is then our own, and sending an error back with it would answer an unrelated request of the peer's.
    """

    code: ErrorCode
    message: str
    path: str = ""
    quote: str = ""
    id: RequestId | Absent = ABSENT
    is_answer: bool = False

    def as_error(self, *, sent: bool = False) -> ProtocolError:
        """What a caller of ours gets who was waiting for this; `sent` as in `ProtocolError`."""
        return ProtocolError(self.message, path=self.path, quote=self.quote, code=self.code, sent=sent)


class Batch(msgspec.Struct, frozen=True):
    """An array of messages (2025-03-26 only), in order; it may be empty, which JSON-RPC forbids.

    With `is_over_limit` there were more than MAX_BATCH_MEMBERS, and none was decoded.
    """

    members: "tuple[Single, ...]" = ()
    is_over_limit: bool = False


# What a frame may hold; `Single` is what a member of a batch may be.
Single: TypeAlias = Request | Notification | Result | Error | Malformed
Message: TypeAlias = Single | Batch


class _Envelope(msgspec.Struct, gc=False):
    """Every member of every message. What msgspec can check here, it checks in C."""

    jsonrpc: Literal["2.0"]
    id: int | Annotated[str, Meta(max_length=MAX_ID_LENGTH)] | UnsetType | None = UNSET
    method: Annotated[str, Meta(max_length=MAX_METHOD_LENGTH)] | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Outline(msgspec.Struct, gc=False):
    """The members that say whose id it is, whatever they hold."""

    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _ErrorObject(msgspec.Struct):
    code: int
    message: str
    data: Raw | UnsetType = UNSET


_read_envelope = msgspec.json.Decoder(_Envelope).decode
_read_outline = msgspec.json.Decoder(_Outline).decode
_read_error = msgspec.json.Decoder(_ErrorObject).decode
_read_id = msgspec.json.Decoder(int | Annotated[str, Meta(max_length=MAX_ID_LENGTH)]).decode
_read_any = msgspec.json.Decoder().decode
_check_syntax = msgspec.json.Decoder(Raw).decode

# UnicodeDecodeError is what msgspec raises for a decoded string that is not UTF-8. The frame is checked before, so it
# is met only where the id of a frame that failed that check is looked for.
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# What msgspec says of a member names Python's types; a peer is told the rule.
_RULES = {
    "$.jsonrpc": '`jsonrpc` must be "2.0"',
    "$.id": f"`id` must be an integer or a string of at most {MAX_ID_LENGTH} characters",
    "$.method": f"`method` must be a string of at most {MAX_METHOD_LENGTH} characters",
    "$.error.code": "`code` of an error must be an integer",
    "$.error.message": "`message` of an error must be a string",
}

# Of all bytes that a JSON value can begin with `{` is the greatest, so what is not smaller than this is an object. A
# bytearray compares with a Raw as it is; reading the first byte through a memoryview takes three times as long.
_LEAST_OBJECT = bytearray(b"{")

_WHITESPACE = b" \t\r\n"


def decode(frame: bytes | bytearray | memoryview) -> Message:
    """The message in a frame. Never raises: what is not a message comes back as `Malformed`.

    Raw members of the message are views that keep the frame alive; see the top of this file.
    """
    if type(frame) is not bytes:
        frame = bytes(frame)  # a view would pin a bytearray, and the reader could not grow it
    if needs_look(frame):
        flaw = find_flaw(frame)
        if flaw is not None:
            return _malformed_text(frame, flaw)
    try:
        envelope = _read_envelope(frame)
    except _REFUSALS as error:
        return _explain(frame, error)
    id = envelope.id
    method = envelope.method
    if method is UNSET:
        return _decode_answer(frame, envelope)
    if envelope.result is not UNSET or envelope.error is not UNSET:
        return _invalid(frame, "a message cannot have both `method` and `result` or `error`", "$")
    params: Raw | None = None
    if envelope.params is not UNSET:
        params = envelope.params
        if params < _LEAST_OBJECT:
            first = memoryview(params)[0]
            if first == ord("n"):
                # Laxer than JSON-RPC 2.0, section 4.2: libraries that write absent members as null mean no params.
                params = None
            elif first != ord("["):
                return _invalid(frame, "`params` must be an object or an array", "$.params")
    if id is UNSET:
        return Notification(method, params)
    if id is None:
        # JSON-RPC 2.0 discourages a null id; MCP forbids it (basic/index of every revision).
        return _invalid(frame, "`id` of a request must not be null", "$.id")
    return Request(id, method, params)


def _decode_answer(frame: bytes, envelope: _Envelope) -> Single:
    id = envelope.id
    if envelope.error is not UNSET:
        if envelope.result is not UNSET:
            return _invalid(frame, "an answer cannot have both `result` and `error`", "$")
        return _decode_error(frame, None if id is UNSET else id, envelope.error)
    if envelope.result is UNSET:
        return _invalid(frame, "a message needs `method`, `result` or `error`", "$")
    if id is UNSET or id is None:
        return _invalid(frame, "a result needs the `id` of its request", "$.id")
    return Result(id, envelope.result)


def _decode_error(frame: bytes, id: RequestId | None, raw: Raw) -> Single:
    try:
        error = _read_error(raw)
    except _REFUSALS as refusal:
        reason, path = _said(refusal, "$.error")
        return _invalid(frame, reason, path)
    if error.data is UNSET:
        return Error(id, error.code, error.message)
    try:
        return Error(id, error.code, error.message, _read_any(error.data))
    except _REFUSALS as refusal:
        reason, path = _said(refusal, "$.error.data")
        return _invalid(frame, reason, path)


@cache
def _read_members() -> "msgspec.json.Decoder[msgspec.Struct]":
    """A decoder of arrays that keeps the first members and checks, but does not keep, what comes after them.

    msgspec has no list that stops growing, but a Struct written as an array has as many places as it has fields.
    Made on first use: it takes 0.4 ms, and only one revision has batches.
    """
    places = [(f"member_{index}", Raw | UnsetType, UNSET) for index in range(MAX_BATCH_MEMBERS + 1)]
    return msgspec.json.Decoder(msgspec.defstruct("Members", places, array_like=True))


def _decode_batch(frame: bytes) -> Message:
    try:
        places = msgspec.structs.astuple(_read_members().decode(frame))
    except _REFUSALS as error:
        return _malformed_text(frame, explain(frame, error))
    members = [bytes(place) for place in places if place is not UNSET]
    if len(members) > MAX_BATCH_MEMBERS:
        return Batch(is_over_limit=True)
    return Batch(tuple(_decode_member(index, member) for index, member in enumerate(members)))


def _decode_member(index: int, member: bytes) -> Single:
    # Looked at before it is decoded: batches within batches would be read again at every level.
    message = None if member[:1] == b"[" else decode(member)
    if message is None or isinstance(message, Batch):
        return Malformed(
            ErrorCode.INVALID_REQUEST, "a batch cannot hold a batch", f"$[{index}]", _quote(member)
        )
    if isinstance(message, Malformed):
        return msgspec.structs.replace(message, path=f"$[{index}]{message.path[1:]}")
    return message


def _explain(frame: bytes, error: Exception) -> Message:
    """Why there is no envelope: because it is a batch, because of what it says, or because it is not JSON at all."""
    if frame.lstrip(_WHITESPACE)[:1] == b"[":
        return _decode_batch(frame)
    if not isinstance(error, msgspec.ValidationError):
        return _malformed_text(frame, explain(frame, error))
    try:
        _check_syntax(frame)  # msgspec stopped at the first wrong member and has not seen the rest
    except _REFUSALS as refusal:
        return _malformed_text(frame, explain(frame, refusal))
    reason, path = _said(error, "$")
    return _invalid(frame, reason, path)


def _said(error: Exception, under: str) -> tuple[str, str]:
    """What msgspec said, as a rule of ours where there is one, and the path below `under`."""
    reason, _, path = str(error).partition(" - at `$")
    path = under + path.removesuffix("`")
    return _RULES.get(path, reason), path


def _invalid(frame: bytes, message: str, path: str) -> Malformed:
    id, is_answer = _identify(frame)
    return Malformed(ErrorCode.INVALID_REQUEST, message, path, _quote(frame), id, is_answer)


def _malformed_text(frame: bytes, flaw: Flaw) -> Malformed:
    """For a text that is refused as text. Its id may still be readable: not all of it need be broken.

    Too deep is -32600, as a frame over the size limit is: it may well be JSON, and the limit is ours.
    """
    code = ErrorCode.INVALID_REQUEST if flaw.is_depth else ErrorCode.PARSE_ERROR
    id, is_answer = _identify(frame)
    return Malformed(code, flaw.message, flaw.path, _quote(frame), id, is_answer)


def _identify(frame: bytes) -> tuple[RequestId | Absent, bool]:
    """The id of a message that is not one, if it can be read, and whether it was meant as an answer."""
    try:
        outline = _read_outline(frame)
    except RecursionError:
        try:
            outline = _read_outline(flatten(frame, LONGEST_FLATTENED))
        except _REFUSALS:
            return ABSENT, False
    except _REFUSALS:
        id = _answered_id(frame)
        return id, id is not ABSENT
    is_answer = outline.method is UNSET and (outline.result is not UNSET or outline.error is not UNSET)
    if outline.id is UNSET:
        return ABSENT, is_answer
    try:
        return _read_id(outline.id), is_answer
    except _REFUSALS:
        return ABSENT, is_answer


def _answered_id(frame: bytes) -> int | Absent:
    """Our id in an answer that is JSON but for NaN, a lone surrogate or a control character: Python and JavaScript write
    these, and their own readers take them. Whoever waits for that answer is told at once, not when his time runs out.
    """
    if len(frame) > LONGEST_LENIENT:
        return ABSENT
    import json  # noqa: PLC0415  # only for what is broken

    try:
        outline = json.loads(frame, strict=False)
    except (ValueError, RecursionError):
        return ABSENT
    if not isinstance(outline, dict) or "method" in outline or not outline.keys() & {"result", "error"}:
        return ABSENT
    id = outline.get("id")
    return id if type(id) is int else ABSENT


def _quote(frame: bytes) -> str:
    quote = frame[:LONGEST_QUOTE].decode("utf-8", "replace")
    return quote if len(frame) <= LONGEST_QUOTE else quote + "..."


def encode_request(
    id: RequestId, method: str, params: bytes | None = None, meta: bytes | None = None
) -> bytes:
    """A request. `params` and `meta` are JSON objects already encoded, with `encode_json` for instance.

    Raises:
        UsageError: for an id, a method name, params or meta that no peer would take.
    """
    head = b'{"jsonrpc":"2.0","id":%b,"method":%b' % (_encode_id(id), _encode_method(method))
    return head + _params_member(params, meta)


def encode_notification(method: str, params: bytes | None = None, meta: bytes | None = None) -> bytes:
    """A notification; `params` and `meta` as for `encode_request`."""
    return b'{"jsonrpc":"2.0","method":%b' % _encode_method(method) + _params_member(params, meta)


def encode_result(id: RequestId, result: bytes) -> bytes:
    """The answer to a request. `result` is JSON already encoded: nothing of it is looked at or copied twice."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode_id(id), result)


def encode_error(
    id: RequestId | Absent | None, code: int, message: str, data: "Json | Absent" = ABSENT
) -> bytes:
    """The answer to a request that failed. `id` is None or ABSENT where it could not be read.

    None writes `"id":null`, which JSON-RPC 2.0 and the revisions up to 2025-06-18 demand; ABSENT leaves the member out,
    as revisions from 2025-11-25 on have it.

    Raises:
        UsageError: for data that is not JSON; `path` names the place.
    """
    answered = b"" if id is ABSENT else b'"id":%b,' % (b"null" if id is None else _encode_id(id))
    more = b"" if data is ABSENT else b',"data":%b' % encode_json(data)
    body = b'{"code":%d,"message":%b%b}' % (code, encode_json(message), more)
    return b'{"jsonrpc":"2.0",%b"error":%b}' % (answered, body)


def join_batch(frames: list[bytes]) -> bytes:
    """One array of encoded messages. With nothing to say, say nothing: an empty array is not a batch.

    Raises:
        UsageError: for an empty list.
    """
    if not frames:
        raise UsageError("a batch needs at least one message")
    return b"[%b]" % b",".join(frames)


def splice_meta(body: bytes, meta: bytes) -> bytes:
    """`body` with `_meta` as its first member, without decoding either.

    `body` must not have a `_meta` of its own: the name would stand twice, and the last, the body's, would win.

    Raises:
        UsageError: if either is not a JSON object.
    """
    if body[:1] != b"{" or meta[:1] != b"{":
        raise UsageError("`_meta` is an object and can only be put into one", path="_meta")
    rest = body[1:].lstrip(_WHITESPACE)
    if rest == b"}":
        return b'{"_meta":%b}' % meta
    return b'{"_meta":%b,%b' % (meta, rest)


def _params_member(params: bytes | None, meta: bytes | None) -> bytes:
    """The last member of a request or notification, and the end of the message."""
    if meta is not None:
        params = splice_meta(b"{}" if params is None else params, meta)
    elif params is None:
        return b"}"
    return b',"params":%b}' % params


# A program uses a handful of names; others cost what encoding them costs.
@lru_cache(maxsize=256)
def _encode_method(method: str) -> bytes:
    if len(method) > MAX_METHOD_LENGTH:
        raise UsageError(f"a method name has at most {MAX_METHOD_LENGTH} characters", path="method")
    return encode_json(method)


def _encode_id(id: RequestId) -> bytes:
    if type(id) is int:
        try:
            return b"%d" % id
        except ValueError as error:  # over 4,300 digits, which no peer could read either
            raise UsageError("an integer id this long cannot be sent", path="id") from error
    if type(id) is str and len(id) <= MAX_ID_LENGTH:
        return encode_json(id)
    raise UsageError(f"an id is an integer or a string of at most {MAX_ID_LENGTH} characters", path="id")
