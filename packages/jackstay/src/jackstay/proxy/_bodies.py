"""Bodies on their way through: what is taken out of them, put in, and left alone. Pure functions of bytes.

A body is passed on as it came, so that members and content nobody here knows are not lost. Only `_meta` is looked into: a
progress token is a name between two parties, and in the stateless era `_meta` says who asks. Where the eras differ, a result
gets what the other era demands, and nothing is taken from it.

Must never know a connection. Above: `_relay`, `_asking`, `_news`. Below: `jackstay.types`, msgspec.
"""

from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from jackstay.errors import Json
from jackstay.protocol import Method
from jackstay.types import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROGRESS_TOKEN,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    META_SUBSCRIPTION_ID,
)

Members: TypeAlias = dict[str, Raw]

# What a request says of its client and itself in the stateless era. Never passed on as it is: the other side has its own.
_ENVELOPE = (META_PROTOCOL_VERSION, META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_PROGRESS_TOKEN)

# Tasks of either kind belong to the connection that began them, and a server that is shared cannot tell whose they are.
TASKS = "tasks"
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

# What a client says of itself is kept for its next request, unless it says more than clients do.
MOST_KEPT_BYTES = 8192

_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

read_members = msgspec.json.Decoder(Members).decode
_read_object = msgspec.json.Decoder(dict[str, Any]).decode
encode = msgspec.json.encode


class InputRequired(msgspec.Struct, rename="camel"):
    """A result of the stateless era that asks before it answers."""

    result_type: str = ""
    input_requests: dict[str, "Question"] | None = None
    request_state: Raw | UnsetType = UNSET


class Question(msgspec.Struct):
    """One question in such a result."""

    method: str
    params: Raw = Raw(b"{}")


_read_input_required = msgspec.json.Decoder(InputRequired).decode


def split(params: Raw | bytes | None) -> tuple[bytes, Members]:
    """The params without `_meta`, and the members of `_meta`. What has none is copied, and not decoded."""
    if params is None:
        return b"{}", {}
    body = bytes(params)
    if b'"_meta"' not in body and b"\\u" not in body:
        return body, {}
    try:
        members = read_members(body)
        meta = members.pop("_meta", None)
        if meta is None:
            return body, {}
        return encode(members), read_members(meta)
    except _REFUSALS:
        return body, {}  # not ours to refuse: whoever reads them says what is wrong


def own_meta(meta: Members, *, is_stateless: bool) -> bytes:
    """The members of a client's `_meta` that are passed on, encoded, without braces.

    A log level belongs to the stateless era; a server of the other would not know it.
    """
    kept = {key: value for key, value in meta.items() if key not in _ENVELOPE}
    if not is_stateless:
        kept.pop(META_LOG_LEVEL, None)
    return encode(kept)[1:-1] if kept else b""


def speaker(capabilities: bytes, info: bytes) -> bytes:
    """What a request of the stateless era says of the client it is made for, encoded, without braces."""
    is_kept = len(capabilities) + len(info) <= MOST_KEPT_BYTES
    return (_kept_speaker if is_kept else _speaker)(capabilities, info)


def _speaker(capabilities: bytes, info: bytes) -> bytes:
    members = {META_CLIENT_CAPABILITIES: Raw(passing_client(capabilities))}
    if info:
        members[META_CLIENT_INFO] = Raw(info)
    return encode(members)[1:-1]


_kept_speaker = lru_cache(maxsize=256)(_speaker)


def passing_client(capabilities: bytes) -> bytes:
    """What a client can, without what does not pass through a server that is shared."""
    return encode(_without_tasks(_object(capabilities)))


def front_capabilities(capabilities: bytes, *, is_own: bool) -> tuple[bytes, frozenset[str]]:
    """What is declared to clients for a server that declares this, and the names of it.

    Lists can change even where the server's own never do: it may come back as another.
    """
    declared = _object(capabilities)
    if not is_own:
        declared = _without_tasks(declared)
    for name in ("tools", "resources", "prompts"):
        features = declared.get(name)
        if isinstance(features, dict):
            declared[name] = {**features, "listChanged": True}
    return encode(declared), frozenset(declared)


def _object(encoded: bytes) -> dict[str, Json]:
    try:
        found: dict[str, Json] = _read_object(encoded)
    except _REFUSALS:
        return {}
    return found


def _without_tasks(capabilities: dict[str, Json]) -> dict[str, Json]:
    kept = {name: value for name, value in capabilities.items() if name != TASKS}
    extensions = kept.get("extensions")
    if isinstance(extensions, dict) and TASKS_EXTENSION in extensions:
        kept["extensions"] = {name: value for name, value in extensions.items() if name != TASKS_EXTENSION}
    return kept


def for_stateless(result: bytes, row: Method) -> bytes:
    """A result of a handshake-era server, with the hints that 2026-07-28 demands: nobody may keep it."""
    if not row.is_cacheable or b'"ttlMs"' in result:
        return result
    hints = b'"ttlMs":0,"cacheScope":"private"'
    return b"{%b}" % hints if result == b"{}" else b"{%b,%b" % (hints, result[1:].lstrip())


def for_handshake(result: bytes) -> bytes:
    """A result of a stateless server without what only 2026-07-28 has: `resultType`, and the server's name in `_meta`."""
    has_stamp = META_SERVER_INFO.encode() in result
    if not has_stamp and b'"resultType"' not in result:
        return result
    try:
        members = read_members(result)
        meta = read_members(members["_meta"]) if has_stamp and "_meta" in members else None
    except _REFUSALS:
        return result  # the client reports what is wrong with it
    members.pop("resultType", None)
    if meta is not None and meta.pop(META_SERVER_INFO, None) is not None:
        if meta:
            members["_meta"] = Raw(encode(meta))
        else:
            del members["_meta"]
    return encode(members)


def asks(result: bytes) -> InputRequired | None:
    """What a result of the stateless era asks for, if it does."""
    if b'"input_required"' not in result:
        return None
    try:
        found = _read_input_required(result)
    except _REFUSALS:
        return None
    return found if found.result_type == "input_required" else None


def ask_result(state: str, questions: dict[str, tuple[str, bytes]]) -> bytes:
    """A result that asks these questions, each a method and its encoded params, by key."""
    said = {key: {"method": method, "params": Raw(params)} for key, (method, params) in questions.items()}
    return encode({"resultType": "input_required", "inputRequests": said, "requestState": state})


def next_round(body: bytes, asked: InputRequired, answers: Members) -> bytes:
    """The params of the next round: the same, with these answers, and the state exactly as it was given."""
    members = read_members(body)
    members.pop("inputResponses", None)
    members.pop("requestState", None)
    if asked.input_requests:
        members["inputResponses"] = Raw(encode(answers))
    if not isinstance(asked.request_state, UnsetType):
        members["requestState"] = asked.request_state
    return encode(members)


def take_round(body: bytes) -> tuple[bytes, str | None, Members]:
    """Params of the stateless era without what belongs to a round; the state, and the answers by key."""
    if b'"requestState"' not in body and b'"inputResponses"' not in body:
        return body, None, {}
    members = read_members(body)
    state, answers = members.pop("requestState", None), members.pop("inputResponses", None)
    try:
        told: object = None if state is None else msgspec.json.decode(state)
        given = {} if answers is None else read_members(answers)
    except _REFUSALS:
        told, given = None, {}
    return encode(members), told if isinstance(told, str) else None, given


def without_subscription(params: bytes) -> bytes:
    """The params of a notification without the id of the subscription it came by, which is ours alone."""
    if META_SUBSCRIPTION_ID.encode() not in params:
        return params
    try:
        members = read_members(params)
        meta = read_members(members["_meta"])
        del meta[META_SUBSCRIPTION_ID]
    except (*_REFUSALS, KeyError):
        return params
    if meta:
        members["_meta"] = Raw(encode(meta))
    else:
        del members["_meta"]
    return encode(members)
