"""Streamable HTTP as a server must judge it: what each request is, what it may do, and which status says so.

Everything is decided from the verb, the headers and the decoded message, by tables and pure functions; who reads the
socket, keeps the sessions and writes the answer does only what it is told here. A request takes three steps:

1. `check_request` of `_gate`, before the body is read.
2. The caller decodes the body, and looks the session up that `session_header` names.
3. `route_post` or `route_verb`: the era, the revision, the headers against the body, and the row of ROUTES.

The first and the last give a `Refusal`, which is a whole answer, or what comes next. The era is chosen by the message and
not by the endpoint: `_meta` with a version makes a request stateless, whatever else it carries (docs/design/connection.md,
section 6). What the message then means is the machine's affair, and `answer_status` turns its answer into a status.

Sources: 2026-07-28 basic/transports/streamable-http; 2025-11-25 basic/transports; RFC 9110.

Must never know a socket, a session's contents or a handler. Above: the ASGI endpoint. Below: `_gate`, `_headers`.
"""

from typing import Final

import msgspec

from jackstay.errors import Json
from jackstay.protocol._machine import Word
from jackstay.protocol._versions import ASSUMED_VERSION, REVISIONS, Era, Revision, newest
from jackstay.protocol.http._gate import Accepts, Endpoint, Headers, Refusal, Verb, read_accept, refuse
from jackstay.protocol.http._headers import (
    LAST_EVENT_HEADER,
    NAME_SOURCES,
    SESSION_HEADER,
    VERSION_HEADER,
    HeaderMismatch,
    HeaderPairs,
    check_method_headers,
    is_session_id,
)
from jackstay.protocol.wire._jsonrpc import Error, ErrorCode, Message, Notification, Request, Result
from jackstay.types import META_PROTOCOL_VERSION


class Kind(Word):
    """What a request is, once verb, era and method are known."""

    STATELESS_POST = "a message of the stateless era"
    INITIALIZE = "`initialize`"
    HANDSHAKE_POST = "any other message of the handshake era"
    GET = "GET"
    DELETE = "DELETE"
    STATELESS_VERB = "GET or DELETE in a revision that has neither"
    OPTIONS = "OPTIONS"
    OTHER = "any other verb"


class Session(Word):
    """What is known of the session that the request names."""

    OFF = "the server keeps no sessions"
    ABSENT = "no session id"
    MALFORMED = "an id that no session can have"
    UNKNOWN = "expired, ended, or never ours"
    OPEN = "open"


class Action(Word):
    """What to do with the request: the first six serve it, the others refuse it."""

    SERVE = "serve it as a connection of its own"
    OPEN_SESSION = "serve it, and give the answer a new session id"
    SERVE_IN_SESSION = "serve it in its session"
    LISTEN = "open the session's stream"
    END_SESSION = "end the session"
    DESCRIBE = "answer 204 with what is allowed"
    NEED_ID = "400: a session id is needed"
    BAD_ID = "400: the session id is malformed"
    LOST = "404: no such session"
    NOT_ALLOWED = "405"


# Rows are kinds, columns are sessions in the order of `Session`. 2025-11-25 basic/transports, "Session Management":
# without a needed id 400, with an unknown one 404. 2026-07-28, "Earlier Streamable HTTP Revisions": GET and DELETE
# are 405, and a session id is ignored. An `initialize` that carries an open session's id reaches that session's
# machine, which refuses the sequence; one with a lost id is told so, since the client must start over without it.
ROUTES: Final = {
    kind: dict(zip(Session, actions, strict=True))
    for kind, actions in {
        #                     OFF                 ABSENT               MALFORMED      UNKNOWN      OPEN
        Kind.INITIALIZE:     (Action.SERVE,       Action.OPEN_SESSION, Action.BAD_ID, Action.LOST, Action.SERVE_IN_SESSION),
        Kind.HANDSHAKE_POST: (Action.SERVE,       Action.NEED_ID,      Action.BAD_ID, Action.LOST, Action.SERVE_IN_SESSION),
        Kind.GET:            (Action.NOT_ALLOWED, Action.NEED_ID,      Action.BAD_ID, Action.LOST, Action.LISTEN),
        Kind.DELETE:         (Action.NOT_ALLOWED, Action.NEED_ID,      Action.BAD_ID, Action.LOST, Action.END_SESSION),
        # These do not look at the session.
        Kind.STATELESS_POST: (Action.SERVE,) * 5,
        Kind.STATELESS_VERB: (Action.NOT_ALLOWED,) * 5,
        Kind.OPTIONS:        (Action.DESCRIBE,) * 5,
        Kind.OTHER:          (Action.NOT_ALLOWED,) * 5,
    }.items()
}  # fmt: skip

# The status of an error that answers a request, where it is not 200. In the handshake era only what is no request at
# all has a status of its own; 2026-07-28 gives three codes 400 and an unknown method 404 ("Protocol Version Header",
# "Server Validation"). Everything else is an ordinary answer: clients that look at the status first must get to it.
ERROR_STATUS: Final[dict[Era, dict[int, int]]] = {
    Era.HANDSHAKE: {ErrorCode.PARSE_ERROR: 400, ErrorCode.INVALID_REQUEST: 400},
    Era.STATELESS: {
        ErrorCode.PARSE_ERROR: 400,
        ErrorCode.INVALID_REQUEST: 400,
        ErrorCode.METHOD_NOT_FOUND: 404,
        ErrorCode.HEADER_MISMATCH: 400,
        ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY: 400,
        ErrorCode.UNSUPPORTED_PROTOCOL_VERSION: 400,
    },
}

ACCEPTED: Final = 202  # a notification or a response was taken; no body
JSON_HEADERS: Final[HeaderPairs] = (("content-type", "application/json"),)
# Caches and buffering proxies must leave a stream alone; `X-Accel-Buffering` is nginx's word for it, and the
# specification's ("Receiving Messages").
STREAM_HEADERS: Final[HeaderPairs] = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)
# A refusal for load or shutdown passes: one second is long enough for another worker to be chosen.
RETRY_HEADERS: Final[HeaderPairs] = (("retry-after", "1"),)

_VERSION, _SESSION, _LAST_EVENT = VERSION_HEADER.lower(), SESSION_HEADER.lower(), LAST_EVENT_HEADER.lower()

_NEEDS_STREAM = "subscriptions/listen"


class Route(msgspec.Struct, frozen=True):
    """What to do, in which revision, and how it may be answered. `last_event_id` is where a stream is resumed."""

    action: Action
    revision: Revision
    accepts: Accepts
    session_id: str | None = None
    last_event_id: str | None = None


# ---- the session ----


def session_header(endpoint: Endpoint, headers: Headers) -> str | Session:
    """The session id to look up, or what is known without looking."""
    if not endpoint.has_sessions:
        return Session.OFF
    value = headers.get(_SESSION, "")
    if not value:
        return Session.ABSENT
    return value if is_session_id(value) else Session.MALFORMED


# ---- routing ----


def route_verb(
    endpoint: Endpoint, verb: Verb, headers: Headers, session: Session, session_version: str | None = None
) -> Route | Refusal:
    """The second gate for everything but POST. `session_version` is the revision of an open session."""
    version = headers.get(_VERSION)
    kind = {Verb.GET: Kind.GET, Verb.DELETE: Kind.DELETE, Verb.OPTIONS: Kind.OPTIONS}.get(verb, Kind.OTHER)
    if kind in (Kind.GET, Kind.DELETE) and version is not None:
        if version not in endpoint.versions:
            return _unsupported(endpoint, version)
        if REVISIONS[version].era is Era.STATELESS:
            kind = Kind.STATELESS_VERB
    revision = REVISIONS[session_version or ASSUMED_VERSION]
    return _route(endpoint, headers, kind, session, revision)


def route_post(
    endpoint: Endpoint,
    headers: Headers,
    message: Message,
    session: Session,
    session_version: str | None = None,
) -> Route | Refusal:
    """The second gate for POST, once the body is decoded. `session_version` is the revision of an open session.

    A message that is malformed is routed like any other of its era: the machine answers it, with its own code.
    """
    params = _peek(message)
    revision: Revision | Refusal
    meta = params.meta
    if meta is not msgspec.UNSET and meta.version is not msgspec.UNSET:
        assert isinstance(message, _ASKING)  # nothing else has params to look at
        revision = _stateless_revision(endpoint, headers, message, params, meta.version)
        kind = Kind.STATELESS_POST
    else:
        named = headers.get(_VERSION)
        revision = _handshake_revision(endpoint, message, params, named, session_version)
        is_stateless = isinstance(revision, Revision) and revision.era is Era.STATELESS
        is_opening = isinstance(message, Request) and message.method == "initialize"
        kind = Kind.STATELESS_POST if is_stateless else Kind.INITIALIZE if is_opening else Kind.HANDSHAKE_POST
    if isinstance(revision, Refusal):
        return revision
    route = _route(endpoint, headers, kind, session, revision)
    is_subscribing = isinstance(message, Request) and message.method == _NEEDS_STREAM
    if is_subscribing and isinstance(route, Route) and not route.accepts.stream:
        return refuse(406, f"{_NEEDS_STREAM} answers with a stream: accept text/event-stream")
    return route


def _route(
    endpoint: Endpoint, headers: Headers, kind: Kind, session: Session, revision: Revision
) -> Route | Refusal:
    action = ROUTES[kind][session]
    if action is Action.NOT_ALLOWED:
        return Refusal(
            405,
            ErrorCode.INVALID_REQUEST,
            f"this endpoint allows {endpoint.allowed}",
            headers=(("allow", endpoint.allowed),),
        )
    if action in _SESSION_REFUSALS:
        status, message = _SESSION_REFUSALS[action]
        return refuse(status, message)
    is_in_session = session is Session.OPEN and kind is not Kind.STATELESS_POST
    session_id = headers.get(_SESSION) if is_in_session else None
    last_event_id = headers.get(_LAST_EVENT) if kind is Kind.GET else None
    return Route(action, revision, read_accept(headers.get("accept")), session_id, last_event_id)


_SESSION_REFUSALS = {
    Action.NEED_ID: (400, f"{SESSION_HEADER} is missing: send `initialize` first, then the id it was answered with"),
    Action.BAD_ID: (400, f"{SESSION_HEADER} must be visible ASCII characters"),
    Action.LOST: (404, "no such session: send `initialize` again, without a session id"),
}  # fmt: skip


# ---- which revision a message is in ----


class _Meta(msgspec.Struct, gc=False):
    version: str | msgspec.UnsetType | None = msgspec.field(name=META_PROTOCOL_VERSION, default=msgspec.UNSET)


class _Params(msgspec.Struct, gc=False):
    """The members of `params` that HTTP looks at; None for one that is no text. The rest is skipped."""

    meta: _Meta | msgspec.UnsetType = msgspec.field(name="_meta", default=msgspec.UNSET)
    name: str | None = None
    uri: str | None = None
    taskId: str | None = None  # noqa: N815 - as on the wire, for NAME_SOURCES
    protocolVersion: str | None = None  # noqa: N815 - the same; of `initialize`


# A tuple, because `Request | Notification` would be built anew for every request.
_ASKING = (Request, Notification)

_NOTHING = _Params()
_read_params = msgspec.json.Decoder(_Params).decode
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_string = msgspec.json.Decoder(str).decode
_NAMES = tuple(name for name in _Params.__struct_fields__ if name != "meta")


def _peek(message: Message) -> _Params:
    if not isinstance(message, _ASKING) or message.params is None:
        return _NOTHING
    try:
        return _read_params(message.params)
    except msgspec.DecodeError:
        return _peek_carefully(message.params)


def _peek_carefully(raw: msgspec.Raw) -> _Params:
    """The same, where a member is not what it should be: the others still count."""
    members = _members(raw)
    params = _Params()
    for name in _NAMES:
        if name in members:
            setattr(params, name, _string(members[name]))
    meta = _members(members["_meta"]) if "_meta" in members else {}
    if META_PROTOCOL_VERSION in meta:
        params.meta = _Meta(_string(meta[META_PROTOCOL_VERSION]))
    return params


def _members(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        return _read_members(raw)
    except msgspec.DecodeError:
        return {}  # an array, or whatever: its method will refuse it


def _string(raw: msgspec.Raw) -> str | None:
    try:
        return _read_string(raw)
    except msgspec.DecodeError:
        return None


def _stateless_revision(
    endpoint: Endpoint,
    headers: Headers,
    message: Request | Notification,
    params: _Params,
    version: str | None,
) -> Revision | Refusal:
    """The revision that `_meta` names. Version first: another revision may want other headers than these."""
    if version is None:
        return _meta_refusal(f"_meta[{META_PROTOCOL_VERSION!r}] must be a string")
    named = headers.get(_VERSION)
    if named is None:
        return mismatch_refusal(HeaderMismatch(VERSION_HEADER, "is missing"))
    if named != version:
        return mismatch_refusal(
            HeaderMismatch(
                VERSION_HEADER, f"header value {named[:32]!a} does not match _meta, {version[:32]!a}"
            )
        )
    if version not in endpoint.versions or REVISIONS[version].era is not Era.STATELESS:
        return _unsupported(endpoint, version)
    source = NAME_SOURCES.get(message.method)
    name = None if source is None else getattr(params, source)
    mismatch = check_method_headers(headers, message.method, name, is_request=isinstance(message, Request))
    return REVISIONS[version] if mismatch is None else mismatch_refusal(mismatch)


def _handshake_revision(
    endpoint: Endpoint, message: Message, params: _Params, named: str | None, session_version: str | None
) -> Revision | Refusal:
    """The revision of a message without a version in `_meta`: the header's, or what is assumed without one.

    In a session it is the session's. A header that names another known revision is let pass there: that it be the
    negotiated one is only a SHOULD (2025-11-25 "Protocol Version Header"), and the session knows better.
    """
    is_opening = isinstance(message, Request) and message.method == "initialize"
    if named is None:
        if session_version is not None:
            return REVISIONS[session_version]
        version: str | None = ASSUMED_VERSION if ASSUMED_VERSION in endpoint.versions else None
        if is_opening and version is None:
            # Its body says which revision it wants, and the header is only for what comes after it.
            version = newest(endpoint.versions, Era.HANDSHAKE)
        if version is not None:
            return REVISIONS[version]
        if is_opening:
            return _unsupported(endpoint, params.protocolVersion or "")
        return mismatch_refusal(HeaderMismatch(VERSION_HEADER, "is missing"))
    if named not in endpoint.versions:
        return _unsupported(endpoint, named)
    revision = REVISIONS[named]
    if revision.era is Era.STATELESS:
        if isinstance(message, Request):
            return _meta_refusal(f"{VERSION_HEADER} is {named}: _meta[{META_PROTOCOL_VERSION!r}] is missing")
        if isinstance(message, Result | Error):
            return refuse(400, f"a client of {named} sends no responses")
        return revision
    return revision if session_version is None else REVISIONS[session_version]


# ---- answers ----


def answer_status(
    revision: Revision, code: int, *, is_envelope: bool = False, is_refused: bool = False
) -> int:
    """The status of a JSON-RPC error that answers a request and was not yet begun as a stream.

    `is_envelope` says that -32602 is about the request's own `_meta` and not about what it asks for: 400 instead of
    200. `is_refused` is a refusal for load or shutdown: 503, to be sent with RETRY_HEADERS.
    """
    if is_refused:
        return 503
    if is_envelope and code == ErrorCode.INVALID_PARAMS and revision.era is Era.STATELESS:
        return 400
    return ERROR_STATUS[revision.era].get(code, 200)


def mismatch_refusal(mismatch: HeaderMismatch) -> Refusal:
    """The answer to headers that do not say what the body says; after `check_param_headers` too."""
    return Refusal(400, ErrorCode.HEADER_MISMATCH, mismatch.message, {"header": mismatch.header})


def _meta_refusal(message: str) -> Refusal:
    return Refusal(400, ErrorCode.INVALID_PARAMS, message)


def _unsupported(endpoint: Endpoint, version: str) -> Refusal:
    # Also to a client of the handshake era, which is only promised the 400: the list is what it can act on. A server without a
    # stateless revision must not use a code of that era: clients would then never send `initialize` (2026-07-28 basic/versioning).
    data: Json = {"supported": [*sorted(endpoint.versions, reverse=True)], "requested": version[:64]}
    is_stateless = newest(endpoint.versions, Era.STATELESS) is not None
    code = ErrorCode.UNSUPPORTED_PROTOCOL_VERSION if is_stateless else ErrorCode.INVALID_REQUEST
    return Refusal(400, code, "Unsupported protocol version", data)
