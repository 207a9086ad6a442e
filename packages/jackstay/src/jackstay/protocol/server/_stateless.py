"""The request metadata (`_meta`) of the stateless era, and the metadata of its results.

From 2026-07-28 on there is no handshake: every request names its revision and the capabilities of its client, and a
server may not rely on an earlier request (2026-07-28 basic/index, "Request metadata"). A request is a stateless request
if its `_meta` names a revision.
"""

from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from jackstay.errors import GuardRefusedError, Json, RequestId, UsageError
from jackstay.protocol.wire._jsonrpc import MIN_OBJECT, ErrorCode
from jackstay.types import (
    DECODE_ERRORS,
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROGRESS_TOKEN,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    LoggingLevel,
)

_VERSION_BYTES = META_PROTOCOL_VERSION.encode()
_OPENS_OBJECT, _CLOSES_OBJECT, _CAPITAL_T, _CAPITAL_V, _UNDERSCORE, _BACKSLASH = b"{}TV_\\"


class RequestMeta(msgspec.Struct, frozen=True, gc=False):
    """The members of `_meta` that a server must understand. Raw members are views of the frame: decode or copy them.

    `client_info` is for display only and is not validated: a server must not require it (2026-07-28 basic/index).
    Without `log_level` no log message may be sent for this request.
    """

    version: str = msgspec.field(name=META_PROTOCOL_VERSION)
    capabilities: Raw = msgspec.field(name=META_CLIENT_CAPABILITIES)
    client_info: Raw | UnsetType = msgspec.field(default=UNSET, name=META_CLIENT_INFO)
    log_level: LoggingLevel | None = msgspec.field(default=None, name=META_LOG_LEVEL)
    progress_token: RequestId | None = msgspec.field(default=None, name=META_PROGRESS_TOKEN)


class InvalidMeta(msgspec.Struct, frozen=True):
    """A key of `_meta` that is missing or invalid, and the reason.

    `version` is the revision that the request names, or None if it cannot be read.
    """

    key: str
    reason: str
    version: str | None = None


class _Params(msgspec.Struct, gc=False):
    meta: RequestMeta = msgspec.field(name="_meta")


class _Outline(msgspec.Struct, gc=False):
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")


class _TokenMeta(msgspec.Struct, gc=False):
    progress_token: RequestId | None = msgspec.field(default=None, name=META_PROGRESS_TOKEN)


class _TokenParams(msgspec.Struct, gc=False):
    meta: _TokenMeta | None = msgspec.field(default=None, name="_meta")


read_params = msgspec.json.Decoder(_Params).decode
_read_request_meta = msgspec.json.Decoder(RequestMeta).decode
_read_outline = msgspec.json.Decoder(_Outline).decode
_read_token = msgspec.json.Decoder(_TokenParams).decode
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_object: Callable[[Raw | bytes], dict[str, Json]] = msgspec.json.Decoder(dict).decode

# In the order in which problems are reported.
_RULES: tuple[tuple[str, object, bool, str], ...] = (
    (META_CLIENT_CAPABILITIES, dict[str, Raw], True, "an object"),
    (META_LOG_LEVEL, LoggingLevel | None, False, "a log level"),
    (META_PROGRESS_TOKEN, RequestId | None, False, "an integer or a string"),
)


def may_name_version(frame: bytes) -> bool:
    """Return False if no request in this frame can be stateless: a fast search instead of decoding.

    Searching for one byte is six times faster than for several, and most frames contain neither a capital V nor a
    backslash. Without a backslash the key cannot be written with escapes.
    """
    if _CAPITAL_V in frame and _VERSION_BYTES in frame:
        return True
    return _BACKSLASH in frame and (b"\\u" in frame or b"\\/" in frame)


def read_meta(params: Raw | None) -> RequestMeta | InvalidMeta | None:
    """Return the metadata of a stateless request, what is invalid in it, or None if the request is not stateless."""
    if params is None:
        return None
    try:
        meta = read_params(params).meta
    except DECODE_ERRORS:
        return _examine(params)
    if meta.capabilities < MIN_OBJECT:
        return InvalidMeta(META_CLIENT_CAPABILITIES, "must be an object", meta.version)
    return meta


def _examine(params: Raw) -> RequestMeta | InvalidMeta | None:
    """Return what is invalid in a `_meta` that could not be decoded; None if it names no revision."""
    members = _members(params)
    if META_PROTOCOL_VERSION not in members:
        return None
    version = _read_as(str, members[META_PROTOCOL_VERSION])
    if not isinstance(version, str):
        return InvalidMeta(META_PROTOCOL_VERSION, "must be a string")
    for key, type, is_required, rule in _RULES:
        if key in members:
            if _read_as(type, members[key]) is UNSET:
                return InvalidMeta(key, f"must be {rule}", version)
        elif is_required:
            return InvalidMeta(key, "is missing", version)
    # A key was duplicated and only the first value was invalid: the last one counts.
    return _read_request_meta(msgspec.json.encode(members))


def _members(params: Raw) -> dict[str, Raw]:
    """Return the members of `_meta`, of duplicate ones the last; none if it is missing or not an object."""
    try:
        meta = _read_outline(params).meta
        return {} if meta is UNSET else _read_members(meta)
    except DECODE_ERRORS:
        return {}


def _read_as(type: object, raw: Raw) -> object:
    try:
        decoded: object = msgspec.json.decode(raw, type=type)
    except DECODE_ERRORS:
        return UNSET
    return decoded


def progress_token(params: Raw | None) -> RequestId | None:
    """Return the progress token of a request of either era, or None. Never raises."""
    if params is None:
        return None
    try:
        meta = _read_token(params).meta
    except DECODE_ERRORS:
        # Of a duplicate key the last value counts. A token that is neither an integer nor a string is ignored.
        token = _read_as(RequestId, _members(params).get(META_PROGRESS_TOKEN, Raw(b"null")))
        return token if isinstance(token, int | str) else None
    return None if meta is None else meta.progress_token


def result_head(server_info: bytes) -> bytes:
    """Return the start of every complete result of a server, for `finalize_result`."""
    return b'{"resultType":"complete","_meta":{"%b":%b},' % (META_SERVER_INFO.encode(), server_info)


def finalize_result(result: bytes, head: bytes) -> bytes:
    """Add `resultType` and the server's name in `_meta` to an encoded result, as 2026-07-28 requires.

    `head` comes from `result_head`. A result with neither member, the usual case, is not decoded. Members that the
    result already has are kept.

    Raises:
        UsageError: if `result` is not an encoded JSON object without surrounding whitespace.
    """
    if len(result) < 2 or result[0] != _OPENS_OBJECT or result[-1] != _CLOSES_OBJECT:
        raise UsageError("result must be an encoded JSON object without surrounding whitespace", path="result")
    # Search for one byte before the name, with `find` instead of `in`: this runs for every response.
    if (_UNDERSCORE in result and result.find(b'"_meta"') >= 0) or (
        _CAPITAL_T in result and result.find(b'"resultType"') >= 0
    ):
        return _merge_result(result, head)
    return head[:-1] + b"}" if result == b"{}" else head + result[1:]


def _merge_result(result: bytes, head: bytes) -> bytes:
    try:
        members = _read_members(result)
        defaults = _read_members(head[:-1] + b"}")
        meta = {**_read_members(defaults["_meta"]), **_read_members(members.get("_meta", Raw(b"{}")))}
    except DECODE_ERRORS as error:
        raise UsageError(f"result and its `_meta` must be JSON objects: {error}", path="result") from error
    return msgspec.json.encode({**defaults, **members, "_meta": meta})


def declares(capabilities: dict[str, Json], required: str) -> bool:
    """Return True if the capabilities include `required`, a dotted path such as `elicitation.url`.

    `elicitation: {}` means forms only (2026-07-28 client/elicitation).
    """
    if required == "elicitation.form" and capabilities.get("elicitation") == {}:
        return True
    here: Json = capabilities
    for step in required.split("."):
        if not isinstance(here, dict) or step not in here:
            return False
        here = here[step]
    return here is not None and here is not False


def check_capabilities(
    capabilities: Raw | bytes, required: tuple[str, ...], *, method: str
) -> GuardRefusedError | None:
    """Return the error (-32021) for a request whose client did not declare a required capability, or None.

    A dispatcher of the stateless era steps `Failed` with its `code`, `message` and `data()`.
    """
    try:
        declared = _read_object(capabilities)
    except DECODE_ERRORS:
        declared = {}
    missing: dict[str, Json] = {}
    for path in required:
        if not declares(declared, path):
            here = missing
            for step in path.split("."):
                child = here.setdefault(step, {})
                assert isinstance(child, dict)  # only the line above adds values
                here = child
    if not missing:
        return None
    return GuardRefusedError(
        "the client did not declare a required capability",
        event="StatelessRequested",
        state="stateless",
        code=ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY,
        method=method,
        more={"requiredCapabilities": missing},
    )
