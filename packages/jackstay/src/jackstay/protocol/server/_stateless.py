"""What a request of the stateless era says of itself in `_meta`, and what a result says back. Pure functions of bytes.

From 2026-07-28 on there is no handshake: every request names its revision and what its client can do, and a server
may rely on nothing that an earlier request said (2026-07-28 basic/index, "Request metadata"). A request that names a
revision there *is* a stateless request; that is all a server has to tell the eras apart.

Must never know a state, a connection or a method's meaning. Above: the server's core; the dispatch, which splices
results and asks for capabilities. Below: msgspec.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from jackstay.errors import GuardRefusedError, Json, RequestId, UsageError
from jackstay.protocol.wire._jsonrpc import ErrorCode
from jackstay.types import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROGRESS_TOKEN,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
)

LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

_VERSION_BYTES = META_PROTOCOL_VERSION.encode()
_OPENS_OBJECT, _CLOSES_OBJECT, _CAPITAL_T, _CAPITAL_V, _UNDERSCORE, _BACKSLASH = b"{}TV_\\"


class RequestMeta(msgspec.Struct, frozen=True, gc=False):
    """The members that a server must understand. Raw ones are views of the frame: decode or copy them, never keep them.

    `client_info` is for display only and is not checked: a server must not require it (2026-07-28 basic/index). Without
    `log_level` no log message may be sent for this request.
    """

    version: str = msgspec.field(name=META_PROTOCOL_VERSION)
    capabilities: Raw = msgspec.field(name=META_CLIENT_CAPABILITIES)
    client_info: Raw | UnsetType = msgspec.field(default=UNSET, name=META_CLIENT_INFO)
    log_level: LogLevel | None = msgspec.field(default=None, name=META_LOG_LEVEL)
    progress_token: RequestId | None = msgspec.field(default=None, name=META_PROGRESS_TOKEN)


class MetaFlaw(msgspec.Struct, frozen=True):
    """Why a stateless request cannot be served: the key that is missing or wrong, and what it must be.

    `version` is the revision it names, or None where that is what cannot be read.
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


_read_params = msgspec.json.Decoder(_Params).decode
_read_request_meta = msgspec.json.Decoder(RequestMeta).decode
_read_outline = msgspec.json.Decoder(_Outline).decode
_read_token = msgspec.json.Decoder(_TokenParams).decode
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_object: Callable[[Raw | bytes], dict[str, Json]] = msgspec.json.Decoder(dict).decode

_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# In the order in which a flaw is named: what decides first stands first.
_RULES: tuple[tuple[str, object, bool, str], ...] = (
    (META_CLIENT_CAPABILITIES, dict[str, Raw], True, "an object"),
    (META_LOG_LEVEL, LogLevel | None, False, "a log level"),
    (META_PROGRESS_TOKEN, RequestId | None, False, "an integer or a string"),
)


def may_name_version(frame: bytes) -> bool:
    """False if no request in this frame can be a stateless one: searches at C speed instead of a decoding.

    Looking for one byte is six times faster than looking for more, and most frames have neither of these two: a
    capital V, and the backslash of an escape, without which no name can be written in another way.
    """
    if _CAPITAL_V in frame and _VERSION_BYTES in frame:
        return True
    return _BACKSLASH in frame and (b"\\u" in frame or b"\\/" in frame)


def read_meta(params: Raw | None) -> RequestMeta | MetaFlaw | None:
    """What a request says of itself, or what is wrong with that, or None: it is not a stateless request."""
    if params is None:
        return None
    try:
        meta = _read_params(params).meta
    except _REFUSALS:
        return _examine(params)
    if memoryview(meta.capabilities)[0] != _OPENS_OBJECT:
        return MetaFlaw(META_CLIENT_CAPABILITIES, "must be an object", meta.version)
    return meta


def _examine(params: Raw) -> RequestMeta | MetaFlaw | None:
    """What is wrong with `_meta`, once it was refused; None if it names no revision."""
    try:
        meta = _read_outline(params).meta
        members = {} if meta is UNSET else _read_members(meta)
    except _REFUSALS:
        return None
    if META_PROTOCOL_VERSION not in members:
        return None
    version = _read_as(str, members[META_PROTOCOL_VERSION])
    if not isinstance(version, str):
        return MetaFlaw(META_PROTOCOL_VERSION, "must be a string")
    for key, type, is_required, rule in _RULES:
        if key in members:
            if _read_as(type, members[key]) is UNSET:
                return MetaFlaw(key, f"must be {rule}", version)
        elif is_required:
            return MetaFlaw(key, "is missing", version)
    # A name stood twice, and only the first was wrong: the last wins.
    return _read_request_meta(msgspec.json.encode(members))


def _read_as(type: object, raw: Raw) -> object:
    try:
        decoded: object = msgspec.json.decode(raw, type=type)
    except _REFUSALS:
        return UNSET
    return decoded


def progress_token(params: Raw | None) -> RequestId | None:
    """The token under which the client of either era wants to hear of progress, or None. Never raises."""
    if params is None:
        return None
    try:
        meta = _read_token(params).meta
    except _REFUSALS:
        return None  # a token that is neither integer nor string asks for nothing that could be sent
    return None if meta is None else meta.progress_token


def result_head(server_info: bytes) -> bytes:
    """How every complete result of a server begins, up to members of its own: for `dress_result`, made once."""
    return b'{"resultType":"complete","_meta":{"%b":%b},' % (META_SERVER_INFO.encode(), server_info)


def dress_result(result: bytes, head: bytes) -> bytes:
    """An encoded result with `resultType` and the server's name in `_meta`, as 2026-07-28 has every result.

    `head` is from `result_head`. A result that has neither member, the usual one, is spliced and not decoded; what a
    result says of either itself is kept.

    Raises:
        UsageError: if `result` is not an encoded JSON object without space around it.
    """
    if len(result) < 2 or result[0] != _OPENS_OBJECT or result[-1] != _CLOSES_OBJECT:
        raise UsageError("an encoded JSON object is needed here, without space around it", path="result")
    # One byte is looked for before a name, and `find` instead of `in`: every answer of a server comes this way.
    if (_UNDERSCORE in result and result.find(b'"_meta"') >= 0) or (
        _CAPITAL_T in result and result.find(b'"resultType"') >= 0
    ):
        return _merge_result(result, head)
    return head[:-1] + b"}" if result == b"{}" else head + result[1:]


def _merge_result(result: bytes, head: bytes) -> bytes:
    try:
        members = _read_members(result)
        ours = _read_members(head[:-1] + b"}")
        meta = {**_read_members(ours["_meta"]), **_read_members(members.get("_meta", Raw(b"{}")))}
    except _REFUSALS as error:
        raise UsageError(f"the result or its `_meta` is not a JSON object: {error}", path="result") from error
    return msgspec.json.encode({**ours, **members, "_meta": meta})


def declares(capabilities: dict[str, Json], required: str) -> bool:
    """True if a client's capabilities include `required`, a dotted path such as `elicitation.url`.

    `elicitation: {}` means forms and nothing else (2026-07-28 client/elicitation).
    """
    if required == "elicitation.form" and capabilities.get("elicitation") == {}:
        return True
    here: Json = capabilities
    for step in required.split("."):
        if not isinstance(here, dict) or step not in here:
            return False
        here = here[step]
    return here is not None and here is not False


def refuse_undeclared(
    capabilities: Raw | bytes, required: tuple[str, ...], *, method: str
) -> GuardRefusedError | None:
    """The refusal (-32021) for a request that needs what its client did not declare, or None if nothing is missing.

    For the dispatch of the stateless era: step `Failed` with the `code`, the `message` and the `data()` of it.
    """
    try:
        declared = _read_object(capabilities)
    except _REFUSALS:
        declared = {}
    missing: dict[str, Json] = {}
    for path in required:
        if not declares(declared, path):
            here = missing
            for step in path.split("."):
                below = here.setdefault(step, {})
                assert isinstance(below, dict)  # every value in here was put in by the line above
                here = below
    if not missing:
        return None
    return GuardRefusedError(
        "the client did not declare a capability that this needs",
        event="StatelessRequested",
        state="stateless",
        code=ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY,
        method=method,
        more={"requiredCapabilities": missing},
    )
