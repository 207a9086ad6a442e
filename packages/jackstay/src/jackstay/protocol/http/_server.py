"""The rules for a server of Streamable HTTP: what each request is, what it may do, and the status of the response.

A request passes `check_request` before its body is read, then `route_post` with the decoded message, or `route_verb`.
Both return the next step or raise `RequestRefused`. The message chooses the era: a version in `_meta` makes it
stateless. See 2026-07-28 basic/transports/streamable-http; 2025-11-25 basic/transports; RFC 9110.
"""

from typing import Final

import msgspec

from jackstay.errors import Json
from jackstay.protocol._machine import TableEnum
from jackstay.protocol._versions import ASSUMED_VERSION, REVISIONS, Era, Revision, newest
from jackstay.protocol.http._headers import (
    NAME_SOURCES,
    SESSION_HEADER,
    VERSION_HEADER,
    HeaderMismatch,
    HeaderPairs,
    check_method_headers,
    is_session_id,
)
from jackstay.protocol.http._request_checks import (
    BOTH,
    USUAL_ACCEPT,
    Accepts,
    Endpoint,
    ErrorResponse,
    Headers,
    RequestRefused,
    error_response,
    read_accept,
)
from jackstay.protocol.wire._jsonrpc import Error, ErrorCode, Message, Notification, Request, Result
from jackstay.types import META_PROTOCOL_VERSION


class Kind(TableEnum):
    """The kind of a request, by verb, era and method."""

    STATELESS_POST = "a message of the stateless era"
    INITIALIZE = "`initialize`"
    HANDSHAKE_POST = "any other message of the handshake era"
    GET = "GET"
    DELETE = "DELETE"
    STATELESS_VERB = "GET or DELETE in a revision that has neither"
    OPTIONS = "OPTIONS"
    OTHER = "any other verb"


class SessionState(TableEnum):
    """The state of the session that the request names."""

    OFF = "the server has no sessions"
    ABSENT = "no session id"
    MALFORMED = "invalid session id"
    UNKNOWN = "expired, ended or unknown"
    OPEN = "open"


class Action(TableEnum):
    """How to process the request: the first six serve it, the others refuse it."""

    SERVE = "serve it as a connection of its own"
    OPEN_SESSION = "serve it, with a new session id in the response"
    SERVE_IN_SESSION = "serve it in its session"
    LISTEN = "open the session's stream"
    END_SESSION = "end the session"
    DESCRIBE = "204 with the allowed methods"
    ID_REQUIRED = "400: missing session id"
    INVALID_ID = "400: invalid session id"
    UNKNOWN_SESSION = "404: unknown session"
    NOT_ALLOWED = "405"


A = Action

# Rows are kinds, columns are session states in the order of `SessionState`. 2025-11-25 basic/transports, "Session
# Management": without a required id 400, with an unknown one 404. 2026-07-28, "Earlier Streamable HTTP Revisions": GET
# and DELETE are 405, and a session id is ignored. An `initialize` with the id of an open session reaches the connection
# of that session, which refuses the sequence; with an unknown id it gets 404, since the client must start over without
# it.
ROUTES: Final = {
    kind: dict(zip(SessionState, actions, strict=True))
    for kind, actions in {
        #                     OFF            ABSENT          MALFORMED     UNKNOWN            OPEN
        Kind.INITIALIZE:     (A.SERVE,       A.OPEN_SESSION, A.INVALID_ID, A.UNKNOWN_SESSION, A.SERVE_IN_SESSION),
        Kind.HANDSHAKE_POST: (A.SERVE,       A.ID_REQUIRED,  A.INVALID_ID, A.UNKNOWN_SESSION, A.SERVE_IN_SESSION),
        Kind.GET:            (A.NOT_ALLOWED, A.ID_REQUIRED,  A.INVALID_ID, A.UNKNOWN_SESSION, A.LISTEN),
        Kind.DELETE:         (A.NOT_ALLOWED, A.ID_REQUIRED,  A.INVALID_ID, A.UNKNOWN_SESSION, A.END_SESSION),
        # These ignore the session.
        Kind.STATELESS_POST: (A.SERVE,) * 5,
        Kind.STATELESS_VERB: (A.NOT_ALLOWED,) * 5,
        Kind.OPTIONS:        (A.DESCRIBE,) * 5,
        Kind.OTHER:          (A.NOT_ALLOWED,) * 5,
    }.items()
}  # fmt: skip

# The HTTP status of a JSON-RPC error, if it is not 200. In the handshake era only invalid requests have another status;
# 2026-07-28 adds 400 for three codes and 404 for an unknown method ("Protocol Version Header", "Server Validation").
# Every other error is an ordinary response, because clients that check the status first would not read the body.
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

ACCEPTED: Final = 202  # the response to a notification or a response; no body
JSON_HEADERS: Final[HeaderPairs] = (("content-type", "application/json"),)
# Caches and proxies must not buffer a stream; `X-Accel-Buffering` is for nginx ("Receiving Messages").
STREAM_HEADERS: Final[HeaderPairs] = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)
# A refusal for overload or shutdown is transient: after one second a load balancer has chosen another worker.
RETRY_HEADERS: Final[HeaderPairs] = (("retry-after", "1"),)

_VERSION, _SESSION = VERSION_HEADER.lower(), SESSION_HEADER.lower()

_NEEDS_STREAM = "subscriptions/listen"


class Route(msgspec.Struct, frozen=True):
    """How to process a POST, its revision, and the media types that the client accepts."""

    action: Action
    revision: Revision
    accepts: Accepts


# The routes of most requests of a server without sessions, made once.
_USUAL_ROUTES = {name: Route(Action.SERVE, revision, BOTH) for name, revision in REVISIONS.items()}


# --- the session ---


def session_header(endpoint: Endpoint, headers: Headers) -> str | SessionState:
    """Return the session id to look up, or the state of the session if it is known without a lookup."""
    if not endpoint.has_sessions:
        return SessionState.OFF
    value = headers.get(_SESSION, "")
    if not value:
        return SessionState.ABSENT
    return value if is_session_id(value) else SessionState.MALFORMED


# --- routing ---


_VERB_KINDS = {"GET": Kind.GET, "DELETE": Kind.DELETE, "OPTIONS": Kind.OPTIONS}


def route_verb(endpoint: Endpoint, method: str, headers: Headers, session: SessionState) -> Action:
    """Return how to process a request of any HTTP method but POST. Raises: RequestRefused."""
    version = headers.get(_VERSION)
    kind = _VERB_KINDS.get(method, Kind.OTHER)
    if kind in (Kind.GET, Kind.DELETE) and version is not None:
        if version not in endpoint.versions:
            raise RequestRefused(_unsupported(endpoint, version))
        if REVISIONS[version].era is Era.STATELESS:
            kind = Kind.STATELESS_VERB
    action = ROUTES[kind][session]
    _check_action(endpoint, action)
    return action


def route_post(
    endpoint: Endpoint, headers: Headers, message: Message, session: SessionState, session_version: str | None = None
) -> Route:
    """Route a POST with its decoded body. `session_version` is the revision of an open session.

    A malformed message is routed like any other of its era: the connection responds with the error code.

    Raises: RequestRefused.
    """
    method = message.method if type(message) is Request else ""
    params = _peek(message)
    meta = params.meta
    if type(meta) is _Meta and meta.version is not msgspec.UNSET:
        assert isinstance(message, _CALLS)  # no other message has params
        revision = _stateless_revision(endpoint, headers, message, params, _string(meta.version))
    else:
        revision = _handshake_revision(endpoint, message, params, headers.get(_VERSION), session_version)
    if revision.era is Era.STATELESS:
        kind = Kind.STATELESS_POST
    else:
        kind = Kind.INITIALIZE if method == "initialize" else Kind.HANDSHAKE_POST
    action = ROUTES[kind][session]
    accept = headers.get("accept")
    if action is Action.SERVE and accept in USUAL_ACCEPT:
        return _USUAL_ROUTES[revision.name]
    _check_action(endpoint, action)
    accepts = read_accept(accept)
    if method == _NEEDS_STREAM and not accepts.stream:
        raise RequestRefused(error_response(406, f"{_NEEDS_STREAM} responds with a stream: accept text/event-stream"))
    return Route(action, revision, accepts)


def _check_action(endpoint: Endpoint, action: Action) -> None:
    if action is Action.NOT_ALLOWED:
        message = f"method not allowed; this endpoint allows {endpoint.allowed}"
        raise RequestRefused(error_response(405, message, (("allow", endpoint.allowed),)))
    if action in _SESSION_REFUSALS:
        raise RequestRefused(error_response(*_SESSION_REFUSALS[action]))


_SESSION_REFUSALS = {
    Action.ID_REQUIRED: (400, f"missing {SESSION_HEADER}: send `initialize` first, then the id of its response"),
    Action.INVALID_ID: (400, f"{SESSION_HEADER} must be visible ASCII"),
    Action.UNKNOWN_SESSION: (404, "unknown session: send `initialize` again, without a session id"),
}


# --- which revision a message is in ---


class _Meta(msgspec.Struct, gc=False):
    version: msgspec.Raw | msgspec.UnsetType = msgspec.field(name=META_PROTOCOL_VERSION, default=msgspec.UNSET)


class _Params(msgspec.Struct, gc=False):
    """The members of `params` that HTTP reads, with values of any type. The others are skipped."""

    meta: _Meta | bool | int | float | str | list[msgspec.Raw] | None = msgspec.field(name="_meta", default=None)
    name: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    uri: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    taskId: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # noqa: N815 - as on the wire, for NAME_SOURCES
    protocolVersion: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # noqa: N815 - the same; of `initialize`


# A tuple, because `Request | Notification` would be evaluated for every request.
_CALLS = (Request, Notification)

_NO_PARAMS = _Params()
_read_params = msgspec.json.Decoder(_Params).decode
_read_string = msgspec.json.Decoder(str).decode


def _string(raw: msgspec.Raw | msgspec.UnsetType) -> str | None:
    if raw is msgspec.UNSET:
        return None
    try:
        return _read_string(raw)
    except msgspec.DecodeError:
        return None  # of another type: the method refuses it


def _peek(message: Message) -> _Params:
    if not isinstance(message, _CALLS) or message.params is None:
        return _NO_PARAMS
    try:
        return _read_params(message.params)
    except msgspec.DecodeError as error:
        if memoryview(message.params)[0] == ord("["):
            return _NO_PARAMS  # the method refuses an array
        # A number out of range. The revision is not known, so the request is not routed.
        raise RequestRefused(_invalid_params(f"invalid params: {error}")) from error


def _stateless_revision(
    endpoint: Endpoint, headers: Headers, message: Request | Notification, params: _Params, version: str | None
) -> Revision:
    """Return the revision that `_meta` names. It is checked first: another revision may require other headers."""
    if version is None:
        raise RequestRefused(_invalid_params(f"_meta[{META_PROTOCOL_VERSION!r}] must be a string"))
    named = headers.get(_VERSION)
    if named is None:
        raise RequestRefused(mismatch_response(HeaderMismatch(VERSION_HEADER, "is missing")))
    if named != version:
        difference = f"header value {named[:32]!a} does not match _meta, {version[:32]!a}"
        raise RequestRefused(mismatch_response(HeaderMismatch(VERSION_HEADER, difference)))
    if version not in endpoint.versions or REVISIONS[version].era is not Era.STATELESS:
        raise RequestRefused(_unsupported(endpoint, version))
    source = NAME_SOURCES.get(message.method)
    name = None if source is None else _string(getattr(params, source))
    mismatch = check_method_headers(headers, message.method, name, is_request=isinstance(message, Request))
    if mismatch is not None:
        raise RequestRefused(mismatch_response(mismatch))
    return REVISIONS[version]


def _handshake_revision(
    endpoint: Endpoint, message: Message, params: _Params, named: str | None, session_version: str | None
) -> Revision:
    """Return the revision of a message without a version in `_meta`: that of the header, or the assumed one.

    In a session it is that of the session, even if the header names another supported revision: that the header be the
    negotiated one is only a SHOULD (2025-11-25 basic/transports, "Protocol Version Header").
    """
    is_initialize = isinstance(message, Request) and message.method == "initialize"
    if named is None:
        if session_version is not None:
            return REVISIONS[session_version]
        version: str | None = ASSUMED_VERSION if ASSUMED_VERSION in endpoint.versions else None
        if is_initialize and version is None:
            # The body of `initialize` names the revision; the header is only for later requests.
            version = newest(endpoint.versions, Era.HANDSHAKE)
        if version is not None:
            return REVISIONS[version]
        if is_initialize:
            requested = _string(params.protocolVersion) or ""
            raise RequestRefused(_unsupported(endpoint, requested))
        raise RequestRefused(mismatch_response(HeaderMismatch(VERSION_HEADER, "is missing")))
    if named not in endpoint.versions:
        raise RequestRefused(_unsupported(endpoint, named))
    revision = REVISIONS[named]
    if revision.era is Era.STATELESS:
        if isinstance(message, Request):
            raise RequestRefused(
                _invalid_params(f"{VERSION_HEADER} is {named}: _meta[{META_PROTOCOL_VERSION!r}] is missing")
            )
        if isinstance(message, Result | Error):
            raise RequestRefused(error_response(400, f"a client must not send responses in {named}"))
        return revision
    return revision if session_version is None else REVISIONS[session_version]


# --- responses ---


def error_status(revision: Revision, code: int, *, is_envelope: bool = False, is_refused: bool = False) -> int:
    """Return the HTTP status of a JSON-RPC error, if the response has not been started as a stream.

    `is_envelope`: -32602 is about the request's `_meta` and not its other params, which is 400 instead of 200.
    `is_refused`: a refusal for overload or shutdown, which is 503 and must be sent with RETRY_HEADERS.
    """
    if is_refused:
        return 503
    if is_envelope and code == ErrorCode.INVALID_PARAMS and revision.era is Era.STATELESS:
        return 400
    return ERROR_STATUS[revision.era].get(code, 200)


def mismatch_response(mismatch: HeaderMismatch) -> ErrorResponse:
    """Return the response to a header mismatch, also one that `check_param_headers` found."""
    return ErrorResponse(400, ErrorCode.HEADER_MISMATCH, mismatch.message, {"header": mismatch.header})


def _invalid_params(message: str) -> ErrorResponse:
    return ErrorResponse(400, ErrorCode.INVALID_PARAMS, message)


def _unsupported(endpoint: Endpoint, version: str) -> ErrorResponse:
    # The list is also useful to clients of the handshake era, which require only the 400. A server without a stateless
    # revision must not use a code of that era: clients would then never send `initialize` (2026-07-28
    # basic/versioning).
    data: Json = {"supported": [*sorted(endpoint.versions, reverse=True)], "requested": version[:64]}
    is_stateless = newest(endpoint.versions, Era.STATELESS) is not None
    code = ErrorCode.UNSUPPORTED_PROTOCOL_VERSION if is_stateless else ErrorCode.INVALID_REQUEST
    return ErrorResponse(400, code, "Unsupported protocol version", data)
