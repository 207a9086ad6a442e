"""The ASGI app: Streamable HTTP for every revision at one URL, and optionally the HTTP+SSE transport of 2024-11-05.

A request passes the checks of `jackstay.protocol.http` in order: Host, Origin and lengths, then authentication, then
the body, then revision and session. A connection serves it: one per POST (`_post`) or the session's (`_session`). The
app needs no lifespan events, works when mounted below a path, and can be used from several event loops.
"""

import asyncio
import logging
import weakref
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from jackstay.errors import RequestId, TransportError
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import (
    ACCEPTED,
    SESSION_HEADER,
    Action,
    Endpoint,
    ErrorResponse,
    Route,
    SessionState,
    Verb,
    check_request,
    error_response,
    fold_headers,
    legacy_session,
    route_post,
    route_verb,
    session_header,
    too_large,
    verb_of,
)
from jackstay.protocol.wire import ABSENT, Absent, ErrorCode, Message, Request, decode, encode_error
from jackstay.server._driver import Caller, ConnectionConfig
from jackstay.server._subscriptions import Quota
from jackstay.server.http._asgi import (
    BODY_ERRORS,
    AsgiRequest,
    BodyTooLarge,
    ClientDisconnected,
    HeaderLines,
    HttpRequest,
    Receive,
    Scope,
    Send,
    encode_headers,
    read_body,
    respond_client_closed,
)
from jackstay.server.http._auth import ANONYMOUS, Guard, caller_key, read_auth
from jackstay.server.http._auxiliary_routes import AuxiliaryRoutes, Cors, make_access
from jackstay.server.http._call_headers import check_call_headers
from jackstay.server.http._legacy import LegacyConnection
from jackstay.server.http._lifecycle import Lifecycle
from jackstay.server.http._options import HttpOptions
from jackstay.server.http._post import JSON_LINES, DisconnectPoller, Post
from jackstay.server.http._refusals import BUSY, CLOSE_HEADERS, OVERLOADED, SHUTTING_DOWN, WORKER_GONE
from jackstay.server.http._session import Session
from jackstay.server.http._sessions import Sessions, TooManySessionsError, WorkerGoneError, log_store_failure

if TYPE_CHECKING:
    from jackstay.server._changes import BusLink
    from jackstay.server._server import Server
    from jackstay.server.http._auxiliary_routes import HealthCheck

Headers: TypeAlias = Mapping[str, str]

logger = logging.getLogger("jackstay.server.http")

# Seconds for the last writes after the drain timeout.
LAST_WRITES = 0.25

_SESSION_NAME = SESSION_HEADER.lower().encode()

# Requests that need more than a connection of their own.
_SPECIAL = frozenset({"initialize", "subscriptions/listen"})


class _EndpointKind(Enum):
    """What a path serves."""

    MCP = "Streamable HTTP"
    SSE = "the event stream of HTTP+SSE"
    MESSAGES = "the POST endpoint of HTTP+SSE"


# Constants, because Python looks up the member of an Enum slowly.
_MCP, _POST, _SERVE, _NO_SESSIONS = _EndpointKind.MCP, Verb.POST, Action.SERVE, SessionState.OFF


class App:
    """An ASGI 3 application. Make it with `server.asgi()`; `await drain()` before its process ends."""

    def __init__(self, server: "Server", options: HttpOptions, guard: Guard | None = None) -> None:
        self.server = server
        self.options = options
        self.auth = auth = None if options.auth is None else read_auth(options.auth)
        cors = Cors(options.cors) if options.cors else None
        # Public: routes beside the endpoint apply the same rules.
        self.guard = auth if guard is None else guard
        self.access = make_access(options.hosts, options.origins, cors)
        self._auxiliary_routes = AuxiliaryRoutes(self, cors)
        frame_bytes = server.options.max_frame_bytes
        self._endpoint = Endpoint(
            access=self.access,
            has_sessions=options.sessions,
            versions=server.options.versions,
            max_body_bytes=frame_bytes if options.max_body_bytes is None else options.max_body_bytes,
        )
        bus = _worker_bus(server) if options.shares_sessions else None
        self._config: ConnectionConfig | None = None
        self._quota = Quota(options.max_subscription_bytes, options.max_all_subscription_bytes)
        self._sessions = Sessions(self, bus)
        # HTTP+SSE opens a stream on GET even without sessions.
        self._legacy_endpoint = msgspec.structs.replace(self._endpoint, has_sessions=True)
        self._legacy: dict[str, LegacyConnection] = {}
        self._endpoints = {options.path.rstrip("/") or "/": _EndpointKind.MCP}
        if options.sse_path is not None:
            self._endpoints[options.sse_path] = _EndpointKind.SSE
            self._endpoints[options.messages_path] = _EndpointKind.MESSAGES
        # The POSTs in progress: the poller of the loop that was used last, and the pollers of all loops.
        self._poller: DisconnectPoller | None = None
        self._pollers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, DisconnectPoller] = (
            weakref.WeakKeyDictionary()
        )
        self.lifecycle = Lifecycle(self)
        # For an application that mounts this one: `FastAPI(lifespan=app.lifespan)`.
        self.lifespan = self.lifecycle.lifespan
        self._requests = 0
        self._idle: asyncio.Event | None = None
        self._is_draining = False

    def __repr__(self) -> str:
        return f"<App of {self.server.name} at {self.options.path}, {self.connections} connections>"

    def check_health_with(self, check: "HealthCheck") -> None:
        """Make `/health` depend on `check`, which returns `ok` or another state, and members to add to the body."""
        self._auxiliary_routes.check = check

    @property
    def is_draining(self) -> bool:
        """True once new requests are refused."""
        return self._is_draining

    @property
    def connections(self) -> int:
        """The number of POSTs, HTTP+SSE streams and sessions that are open."""
        return len(self._posts) + len(self._legacy) + len(self._sessions)

    @property
    def sessions(self) -> int:
        """The number of open sessions."""
        return len(self._sessions)

    @property
    def backend(self) -> str | None:
        """`ok` or the problem of the backend of the server; None without a backend."""
        return None if self.server._backend is None else self.server._backend.problem or "ok"

    @property
    def needs_one_process(self) -> bool:
        """True if sessions or events are kept in the memory of one process, so that several workers would lose them."""
        return self.options.needs_one_process

    # --- ASGI ---------------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan of the process."""
        kind = scope["type"]
        if kind == "http":
            await self.serve(AsgiRequest(scope, receive, send))
        elif kind == "lifespan":
            await self.lifecycle.run_lifespan(receive, send)
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def serve(self, request: HttpRequest) -> None:
        """Serve one request. The methods that do so return the error response of one that they refuse."""
        if self._auxiliary_routes.is_enabled and await self._auxiliary_routes.handle(request):
            return
        self._requests += 1
        try:
            kind: _EndpointKind | None
            if request.method == "POST" and self._endpoints.get(request.path) is _MCP:
                kind, verb = _MCP, _POST
            else:
                kind, verb = self._find_endpoint(request), verb_of(request.method)
            if kind is None:
                message = f"not found; MCP is served at {request.root_path}{self.options.path}"
                headers: Headers = {}
                refusal: ErrorResponse | None = error_response(404, message)
            else:
                headers = fold_headers(request.lines)
                refusal = self._check(kind, verb, headers)
                if refusal is None and not self.lifecycle.is_started:
                    refusal = await self.lifecycle.start_on_first_request()
                principal = ANONYMOUS
                if refusal is None and self.guard is not None:
                    authenticated = await self.guard.authenticate(request.method, request.path, headers)
                    if isinstance(authenticated, ErrorResponse):
                        refusal = authenticated
                    else:
                        principal = authenticated
                if refusal is None:
                    http = (request.method, request.path, request.peer)
                    caller = Caller(principal.id, principal.scopes, principal.claims, headers, http)
                    if kind is not _MCP:
                        refusal = await self._serve_legacy(kind, verb, request, caller)
                    elif verb is _POST:
                        refusal = await self._post(request, caller)
                    else:
                        refusal = await self._verb(verb, request, caller)
            if refusal is not None:
                await self._refuse(request, refusal, headers)
        finally:
            self._requests -= 1
            if self._idle is not None and not self._requests:
                self._idle.set()

    def _check(self, kind: _EndpointKind, verb: Verb, headers: Headers) -> ErrorResponse | None:
        """Return why a request is refused before it is authenticated, or None."""
        accepts = check_request(self._endpoint if kind is _MCP else self._legacy_endpoint, verb, headers)
        if type(accepts) is ErrorResponse:
            return accepts
        if self._is_draining:
            return SHUTTING_DOWN
        return OVERLOADED if self._requests > self.options.max_requests else None

    def _find_endpoint(self, request: HttpRequest) -> _EndpointKind | None:
        """Return what this path serves, ignoring the path of the mount and a trailing slash."""
        path, root = request.path, request.root_path
        if root and (path == root or path.startswith(root + "/")):
            path = path[len(root) :]
        return self._endpoints.get(path.rstrip("/") or "/")

    # --- HTTP+SSE (2024-11-05) ----------------------------------------------------------------------------------------

    async def _serve_legacy(
        self, kind: _EndpointKind, verb: Verb, request: HttpRequest, caller: Caller
    ) -> ErrorResponse | None:
        allowed, serve = _LEGACY[kind]
        if verb is allowed:
            return await serve(self, request, caller)
        message = f"only {allowed.value} is allowed here"
        return ErrorResponse(405, ErrorCode.INVALID_REQUEST, message, headers=(("allow", allowed.value),))

    async def _open_legacy(self, request: HttpRequest, caller: Caller) -> ErrorResponse | None:
        if len(self._legacy) >= self.options.max_sessions:
            return BUSY
        await self.server._before_handshake()
        connection = LegacyConnection(self, caller)
        self.server._add_connection(connection)
        self._legacy[connection.id] = connection
        await connection.serve(request, self.options.messages_path)
        return None

    def end_legacy(self, connection: LegacyConnection) -> None:
        """Forget a stream of HTTP+SSE that has closed."""
        self._legacy.pop(connection.id, None)
        self.server._remove_connection(connection)

    async def _post_legacy(self, request: HttpRequest, caller: Caller) -> ErrorResponse | None:
        try:
            frame = await read_body(request, self._endpoint.max_body_bytes, self.options.body_timeout)
        except BODY_ERRORS as error:
            return await self._refuse_body(request, error)
        id = legacy_session(request.query)
        connection = None if id is None else self._legacy.get(id)
        if connection is None or connection.principal != caller.principal:
            return error_response(404, "unknown stream; open a new one with GET")
        connection.call(connection.receive, frame, caller)
        await request.respond(ACCEPTED, ())
        return None

    # --- POST ---------------------------------------------------------------------------------------------------------

    async def _refuse_body(self, request: HttpRequest, error: Exception) -> ErrorResponse | None:
        """Return the reason why the body cannot be read."""
        if isinstance(error, ClientDisconnected):
            await respond_client_closed(request)
            return None
        is_large = isinstance(error, BodyTooLarge)
        timed_out = error_response(408, "timed out while reading the request body")
        refusal = too_large(self._endpoint.max_body_bytes) if is_large else timed_out
        # The rest of the body stays unread, so the connection cannot be reused.
        return msgspec.structs.replace(refusal, headers=CLOSE_HEADERS)

    async def _post(self, request: HttpRequest, caller: Caller) -> ErrorResponse | None:
        headers = caller.headers
        frame = request.take_body()
        if frame is None or len(frame) > self._endpoint.max_body_bytes:
            try:
                frame = await read_body(request, self._endpoint.max_body_bytes, self.options.body_timeout, frame)
            except BODY_ERRORS as error:
                return await self._refuse_body(request, error)
        message = decode(frame)
        state, session, version = _NO_SESSIONS, None, None
        if self._endpoint.has_sessions:
            found = await self._find_session(caller)
            if isinstance(found, ErrorResponse):
                return found
            state, session = found
            version = None if session is None else session.core.version
        route = route_post(self._endpoint, headers, message, state, version)
        refused: ErrorResponse | None
        if isinstance(route, ErrorResponse):
            refused = route
        else:
            refused = None
            if route.revision.has_method_headers:
                refused = check_call_headers(self.server, message, caller)
            if refused is None:
                if route.action is _SERVE and not (type(message) is Request and message.method in _SPECIAL):
                    await Post(self, request, route, caller, self._poller_of(request.loop)).serve(message, frame)
                    return None
                if route.action is Action.OPEN_SESSION:
                    refused = await self._open_session(request, caller, route, message, frame)
                elif route.action is Action.SERVE_IN_SESSION:
                    assert session is not None  # the routing table has this action for open sessions only
                    try:
                        channel = await self._sessions.receive(session, message, frame, route.accepts, caller)
                    except WorkerGoneError:
                        refused = WORKER_GONE
                    except TransportError as error:
                        refused = log_store_failure(error)
                    else:
                        await session.respond(channel, request, ())
                else:
                    assert isinstance(message, Request)  # `initialize` or `subscriptions/listen`
                    await self._serve_special(request, caller, route, message, frame)
        if refused is not None and isinstance(message, Request):
            await self._refuse(request, refused, headers, message.id)
            return None
        return refused

    async def _find_session(self, caller: Caller) -> tuple[SessionState, Session | None] | ErrorResponse:
        header = session_header(self._endpoint, caller.headers)
        if isinstance(header, SessionState):
            return header, None
        try:
            session = await self._sessions.find(header, caller.principal)
        except TooManySessionsError:
            return BUSY
        except Exception as error:  # noqa: BLE001  # a user's store may raise anything
            return log_store_failure(error)
        return (SessionState.UNKNOWN if session is None else SessionState.OPEN), session

    async def _open_session(
        self, request: HttpRequest, caller: Caller, route: Route, message: Message, frame: bytes
    ) -> ErrorResponse | None:
        await self.server._before_handshake()
        session = self._sessions.create()
        if session is None:
            return BUSY
        session.caller_key = caller_key(caller.principal, caller.address)
        channel = session.receive(message, frame, route.accepts, caller)
        more: HeaderLines = ()
        if session.core.client is not None:
            try:
                await self._sessions.register(session)
            except Exception as error:  # noqa: BLE001  # a user's store may raise anything
                return log_store_failure(error)
            self.server._add_connection(session)
            more = [(_SESSION_NAME, session.id.encode())]
        await session.respond(channel, request, more)
        return None

    async def _serve_special(
        self, request: HttpRequest, caller: Caller, route: Route, message: Request, frame: bytes
    ) -> None:
        """Serve `initialize` or `subscriptions/listen` as a connection of its own."""
        is_listening = message.method == "subscriptions/listen"
        if not is_listening:
            await self.server._before_handshake()
        post = Post(self, request, route, caller, self._poller_of(request.loop))
        if is_listening:
            self.server._add_connection(post)  # so that it receives list changes
        try:
            await post.serve(message, frame)
        finally:
            if is_listening:
                self.server._remove_connection(post)

    def _poller_of(self, loop: asyncio.AbstractEventLoop) -> DisconnectPoller:
        poller = self._poller
        if poller is None or poller.loop is not loop:
            poller = self._pollers.get(loop)
            if poller is None:
                poller = self._pollers[loop] = DisconnectPoller(loop)
            self._poller = poller
        return poller

    @property
    def _posts(self) -> list[Post]:
        return [post for poller in list(self._pollers.values()) for post in poller.all]

    # --- other methods ------------------------------------------------------------------------------------------------

    async def _verb(self, verb: Verb, request: HttpRequest, caller: Caller) -> ErrorResponse | None:
        found = await self._find_session(caller)
        if isinstance(found, ErrorResponse):
            return found
        state, session = found
        version = None if session is None else session.core.version
        route = route_verb(self._endpoint, verb, caller.headers, state, version)
        if isinstance(route, ErrorResponse):
            return route
        if route.action is Action.DESCRIBE:
            await request.respond(204, [(b"allow", self._endpoint.allowed.encode())])
            return None
        assert session is not None  # the routing table has both actions for open sessions only
        if route.action is Action.LISTEN:
            return await session.serve_get(route.last_event_id, request)
        try:
            await self._sessions.end(session)
        except TransportError as error:
            return log_store_failure(error)
        await request.respond(204, ())
        return None

    # --- refusals and draining ----------------------------------------------------------------------------------------

    async def _refuse(
        self, request: HttpRequest, refusal: ErrorResponse, headers: Headers, id: RequestId | Absent = ABSENT
    ) -> None:
        response_id = None if id is ABSENT and _requires_id(headers) else id
        data = ABSENT if refusal.data is None else refusal.data
        body = encode_error(response_id, refusal.code, refusal.message, data)
        await request.respond(refusal.status, [*JSON_LINES, *encode_headers(refusal.headers)], body)

    def accept_new(self) -> None:
        """Accept new requests again, for example after a drain."""
        self._is_draining = False

    def refuse_new(self) -> None:
        """Refuse new requests with 503 from now on. Thread-safe."""
        self._is_draining = True

    async def drain(self) -> None:
        """Refuse new requests, wait for running handlers, and end streams and sessions.

        Returns when all requests have ended, at the latest after the server's `drain_timeout` plus `LAST_WRITES`
        seconds.
        """
        self.refuse_new()
        for connection in (*self._posts, *self._legacy.values(), *self._sessions.all):
            connection.call(connection.drain)
        end = asyncio.get_running_loop().time() + self.server.options.drain_timeout + LAST_WRITES
        while self._requests and asyncio.get_running_loop().time() < end:
            self._idle = asyncio.Event()
            try:
                async with asyncio.timeout_at(end):
                    await self._idle.wait()
            except TimeoutError:
                logger.warning("drain timeout: %d requests are still running", self._requests)

    def connection_config(self) -> ConnectionConfig:
        """Return the configuration of a new connection, the same until the capabilities of the server change."""
        server, config = self.server, self._config
        server_config, capabilities = server._current_config()
        if config is None or config.server_config is not server_config or config.numbers is not server._numbers:
            config = self._config = ConnectionConfig(
                server_config, capabilities, server._handlers, server._telemetry, server._numbers, self._quota
            )
        return config


# What the endpoints of HTTP+SSE serve: the verb, and the method that serves it.
_LEGACY = {_EndpointKind.SSE: (Verb.GET, App._open_legacy), _EndpointKind.MESSAGES: (Verb.POST, App._post_legacy)}


def _worker_bus(server: "Server") -> "BusLink | None":
    """Return the bus to other processes, if there is one."""
    return server._bus if server._bus is not None and server._bus.is_shared else None


def _requires_id(headers: Headers) -> bool:
    """Return whether an error without an id needs `"id": null`: JSON-RPC and revisions before 2025-11-25 require it."""
    revision = REVISIONS.get(headers.get("mcp-protocol-version", ""))
    return revision is None or not revision.omits_unreadable_id
