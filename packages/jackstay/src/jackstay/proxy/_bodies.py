"""Convert encoded params and results between client and server. Pure functions of bytes.

A body is forwarded unchanged, so that unknown members are kept. Only `_meta` is read: progress tokens are valid between
two peers only, and in the stateless era `_meta` describes the client. Where the eras differ, a result gets the members
that the other era requires.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from jackstay.errors import Json
from jackstay.protocol import LISTS, Method
from jackstay.types import (
    DECODE_ERRORS,
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROGRESS_TOKEN,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    META_SUBSCRIPTION_ID,
)

T = TypeVar("T")
D = TypeVar("D")

Members: TypeAlias = dict[str, Raw]

# Members of `_meta` that are valid between two peers only (2026-07-28). The connection to the server has its own.
_ENVELOPE = (META_PROTOCOL_VERSION, META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_PROGRESS_TOKEN)

# Tasks belong to the connection that started them, so they cannot be offered by a server that clients share.
TASKS = "tasks"
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

# The encoded description of a client is cached up to this size. Real clients send far less.
MAX_CACHED_BYTES = 8192

read_members = msgspec.json.Decoder(Members).decode
_read_object = msgspec.json.Decoder(dict[str, Any]).decode
encode = msgspec.json.encode


class InputRequired(msgspec.Struct, rename="camel"):
    """An `input_required` result (2026-07-28)."""

    result_type: Literal["input_required"]
    input_requests: dict[str, "InputRequest"] | None = None
    request_state: Raw | UnsetType = UNSET


class InputRequest(msgspec.Struct):
    """One member of `inputRequests`."""

    method: str
    params: Raw = Raw(b"{}")


_read_input_required = msgspec.json.Decoder(InputRequired).decode


def decode_or(default: D, read: Callable[[bytes], T], encoded: bytes) -> T | D:
    """Return what `read` decodes, or the default for an invalid value: the other peer reports what is wrong with it."""
    try:
        return read(encoded)
    except DECODE_ERRORS:
        return default


def split(params: Raw | bytes | None) -> tuple[bytes, Members]:
    """Return the params without `_meta`, and the members of `_meta`. Params without `_meta` are not decoded."""
    if params is None:
        return b"{}", {}
    body = bytes(params)
    if b'"_meta"' not in body and b"\\u" not in body:
        return body, {}
    try:
        members = read_members(body)
        meta = members.pop("_meta")
        return encode(members), read_members(meta)
    except (*DECODE_ERRORS, KeyError):
        return body, {}  # without `_meta`, or forwarded as they are: the server reports what is wrong


def forwarded_meta(meta: Members, *, is_stateless: bool) -> bytes:
    """Return the members of a client's `_meta` that are forwarded, encoded, without braces.

    The log level is forwarded to stateless-era servers only; the handshake era has no such member.
    """
    kept = {key: value for key, value in meta.items() if key not in _ENVELOPE}
    if not is_stateless:
        kept.pop(META_LOG_LEVEL, None)
    return encode(kept)[1:-1] if kept else b""


def client_meta(capabilities: bytes, info: bytes) -> bytes:
    """Return the members of `_meta` that describe the client in the stateless era, encoded, without braces.

    Its capabilities are without those that a shared server cannot use (tasks).
    """
    is_cached = len(capabilities) + len(info) <= MAX_CACHED_BYTES
    return (_cached_client_meta if is_cached else _encode_client_meta)(capabilities, info)


def _encode_client_meta(capabilities: bytes, info: bytes) -> bytes:
    members: dict[str, Any] = {META_CLIENT_CAPABILITIES: _without_tasks(decode_or({}, _read_object, capabilities))}
    if info:
        members[META_CLIENT_INFO] = Raw(info)
    return encode(members)[1:-1]


_cached_client_meta = lru_cache(maxsize=256)(_encode_client_meta)


def downstream_capabilities(capabilities: bytes, *, is_dedicated: bool) -> tuple[bytes, frozenset[str]]:
    """Return the capabilities to declare to clients for a server with these, encoded, and their names.

    `listChanged` is always declared: after a restart the server may be another version, with other lists.
    """
    declared = decode_or({}, _read_object, capabilities)
    if not is_dedicated:
        declared = _without_tasks(declared)
    for name in {row.capability for row in LISTS.values()}:
        features = declared.get(name)
        if isinstance(features, dict):
            declared[name] = {**features, "listChanged": True}
    return encode(declared), frozenset(declared)


def _without_tasks(capabilities: dict[str, Json]) -> dict[str, Json]:
    kept = {name: value for name, value in capabilities.items() if name != TASKS}
    extensions = kept.get("extensions")
    if isinstance(extensions, dict) and TASKS_EXTENSION in extensions:
        kept["extensions"] = {name: value for name, value in extensions.items() if name != TASKS_EXTENSION}
    return kept


def for_stateless(result: bytes, row: Method) -> bytes:
    """Add the caching hints that 2026-07-28 requires to a handshake-era result: not cacheable."""
    if not row.is_cacheable or b'"ttlMs"' in result:
        return result
    hints = b'"ttlMs":0,"cacheScope":"private"'
    return b"{%b}" % hints if result == b"{}" else b"{%b,%b" % (hints, result[1:].lstrip())


def for_handshake(result: bytes) -> bytes:
    """Remove the members that only 2026-07-28 defines: `resultType`, and the server information in `_meta`."""
    if b'"resultType"' not in result and META_SERVER_INFO.encode() not in result:
        return result
    return _without(result, META_SERVER_INFO, "resultType")


def parse_input_required(result: bytes) -> InputRequired | None:
    """Return the `input_required` result that these bytes encode, or None for any other result."""
    if b'"input_required"' not in result:
        return None
    return decode_or(None, _read_input_required, result)


def input_required_result(state: str, requests: dict[str, InputRequest]) -> bytes:
    """Encode an `input_required` result with these requests."""
    return encode({"resultType": "input_required", "inputRequests": requests, "requestState": state})


def next_round_params(body: bytes, required: InputRequired, responses: Members) -> bytes:
    """Return the params of the next round: the same, with the responses, and `requestState` unchanged."""
    members = read_members(body)
    members.pop("inputResponses", None)
    members.pop("requestState", None)
    if required.input_requests:
        members["inputResponses"] = Raw(encode(responses))
    if not isinstance(required.request_state, UnsetType):
        members["requestState"] = required.request_state
    return encode(members)


def split_round(body: bytes) -> tuple[bytes, str | None, Members]:
    """Return stateless-era params without `requestState` and `inputResponses`, then the state and the responses."""
    if b'"requestState"' not in body and b'"inputResponses"' not in body:
        return body, None, {}
    members = read_members(body)
    state, encoded = members.pop("requestState", None), members.pop("inputResponses", None)
    try:
        state_value: object = None if state is None else msgspec.json.decode(state)
        responses = {} if encoded is None else read_members(encoded)
    except DECODE_ERRORS:
        state_value, responses = None, {}
    return encode(members), state_value if isinstance(state_value, str) else None, responses


def without_subscription(params: bytes) -> bytes:
    """Remove the subscription id from the params of a notification: it identifies the proxy's own subscription."""
    return _without(params, META_SUBSCRIPTION_ID) if META_SUBSCRIPTION_ID.encode() in params else params


def _without(body: bytes, key: str, member: str | None = None) -> bytes:
    """Remove a key of `_meta`, and a member. An invalid body is unchanged: the client reports what is wrong with it."""
    try:
        members = read_members(body)
        meta = read_members(members["_meta"]) if key.encode() in body and "_meta" in members else {}
    except DECODE_ERRORS:
        return body
    if member is not None:
        members.pop(member, None)
    if meta.pop(key, None) is not None:
        if meta:
            members["_meta"] = Raw(encode(meta))
        else:
            del members["_meta"]
    return encode(members)
