"""The ASGI app: Streamable HTTP for every revision at one URL, and optionally the HTTP+SSE transport of 2024-11-05.

A request passes the checks of `jackstay.protocol.http` in order: Host, Origin and lengths, then authentication, then
the body, then revision and session. A connection serves it: one per POST (`_post`) or the session's (`_session`). The
app needs no lifespan events, works when mounted below a path, and can be used from several event loops.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from jackstay.protocol import REVISIONS
from jackstay.protocol.http import (
    ACCEPTED,
    LAST_EVENT_HEADER,
    SESSION_HEADER,
    Action,
    Endpoint,
    ErrorResponse,
    RequestRefused,
    Route,
    SessionState,
    check_request,
    error_response,
    fold_headers,
    legacy_session,
    route_post,
    route_verb,
    session_header,
    too_large,
)
from jackstay.protocol.wire import ABSENT, Message, Request, decode, encode_error
from jackstay.server._driver import Caller, ConnectionConfig
from jackstay.server._subscriptions import Quota
from jackstay.server.http._asgi import (
    AsgiRequest,
    ClientDisconnected,
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
from jackstay.server.http._refusals import BUSY, OVERLOADED, SHUTTING_DOWN, unread
from jackstay.server.http._session import Session
from jackstay.server.http._sessions import Sessions

if TYPE_CHECKING:
    from jackstay.server._changes import BusLink
    from jackstay.server._server import Server
    from jackstay.server.http._auxiliary_routes import HealthCheck

Headers: TypeAlias = Mapping[str, str]

logger = logging.getLogger("jackstay.server.http")

# Seconds for the last writes after the drain timeout.
LAST_WRITES = 0.25

_SESSION_NAME = SESSION_HEADER.lower().encode()

# Constants, because Python looks up the member of an Enum slowly.
_SERVE, _NO_SESSIONS = Action.SERVE, SessionState.OFF


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
        self._path = options.path.rstrip("/") or "/"
        # The method that each path of HTTP+SSE allows.
        self._legacy_methods: dict[str, str] = {}
        if options.sse_path is not None:
            self._legacy_methods = {options.sse_path: "GET", options.messages_path: "POST"}
        # The POSTs in progress, by loop.
        self._pollers: dict[asyncio.AbstractEventLoop, DisconnectPoller] = {}
        self.lifecycle = Lifecycle(self)
        # For an application that mounts this one: `FastAPI(lifespan=app.lifespan)`.
        self.lifespan = self.lifecycle.lifespan
        self._requests = 0
        self._idle: asyncio.Event | None = None
        # New requests are refused.
        self.is_draining = False

    def __repr__(self) -> str:
        return f"<App of {self.server.name} at {self.options.path}, {self.connections} connections>"

    def check_health_with(self, check: "HealthCheck") -> None:
        """Make `/health` depend on `check`, which returns `ok` or another state, and members to add to the body."""
        self._auxiliary_routes.check = check

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
        """Serve one request. The methods that do so raise RequestRefused for one that they refuse."""
        if self._auxiliary_routes.is_enabled and await self._auxiliary_routes.handle(request):
            return
        self._requests += 1
        headers: Headers = {}
        try:
            method, legacy = request.method, None
            if method != "POST" or request.path != self._path:  # few requests
                legacy = self._find_legacy_method(request)
            headers = fold_headers(request.lines)
            check_request(self._endpoint if legacy is None else self._legacy_endpoint, method, headers)
            if self.is_draining:
                raise RequestRefused(SHUTTING_DOWN)
            if self._requests > self.options.max_requests:
                raise RequestRefused(OVERLOADED)
            if not self.lifecycle.is_started:
                await self.lifecycle.start_on_first_request()
            principal = ANONYMOUS
            if self.guard is not None:
                authenticated = await self.guard.authenticate(method, request.path, headers)
                if isinstance(authenticated, ErrorResponse):
                    raise RequestRefused(authenticated)
                principal = authenticated
            http = (method, request.path, request.peer)
            caller = Caller(principal.id, principal.scopes, principal.claims, headers, http)
            if legacy is not None and method != legacy:
                raise RequestRefused(error_response(405, f"only {legacy} is allowed here", (("allow", legacy),)))
            if method == "POST":
                await (self._post if legacy is None else self._post_legacy)(request, caller)
            else:
                await (self._verb if legacy is None else self._open_legacy)(request, caller)
        except RequestRefused as refused:
            await self._refuse(request, refused, headers)
        except ClientDisconnected:
            await respond_client_closed(request)
        finally:
            self._requests -= 1
            if self._idle is not None and not self._requests:
                self._idle.set()

    def _find_legacy_method(self, request: HttpRequest) -> str | None:
        """Return the method that HTTP+SSE allows at this path, without the path of the mount and a trailing slash.

        Returns None for the path of MCP. Raises: RequestRefused for any other path.
        """
        path, root = request.path, request.root_path
        if root and (path == root or path.startswith(root + "/")):
            path = path[len(root) :]
        path = path.rstrip("/") or "/"
        if path != self._path and path not in self._legacy_methods:
            raise RequestRefused(error_response(404, f"not found; MCP is served at {root}{self.options.path}"))
        return self._legacy_methods.get(path)

    # --- HTTP+SSE (2024-11-05) ----------------------------------------------------------------------------------------

    async def _open_legacy(self, request: HttpRequest, caller: Caller) -> None:
        if len(self._legacy) >= self.options.max_sessions:
            raise RequestRefused(BUSY)
        await self.server._before_handshake()
        connection = LegacyConnection(self, caller)
        self.server._add_connection(connection)
        self._legacy[connection.id] = connection
        await connection.serve(request, self.options.messages_path)

    def end_legacy(self, connection: LegacyConnection) -> None:
        """Forget a stream of HTTP+SSE that has closed."""
        self._legacy.pop(connection.id, None)
        self.server._remove_connection(connection)

    async def _post_legacy(self, request: HttpRequest, caller: Caller) -> None:
        frame = await read_body(request, self._endpoint.max_body_bytes, self.options.body_timeout)
        id = legacy_session(request.query)
        connection = None if id is None else self._legacy.get(id)
        if connection is None or connection.principal != caller.principal:
            raise RequestRefused(error_response(404, "unknown stream; open a new one with GET"))
        connection.call(connection.receive, frame, caller)
        await request.respond(ACCEPTED, ())

    # --- POST ---------------------------------------------------------------------------------------------------------

    async def _post(self, request: HttpRequest, caller: Caller) -> None:
        frame = request.take_body()
        if frame is None:
            frame = await read_body(request, self._endpoint.max_body_bytes, self.options.body_timeout)
        elif len(frame) > self._endpoint.max_body_bytes:
            raise unread(too_large(self._endpoint.max_body_bytes))
        message = decode(frame)
        state, session, version = _NO_SESSIONS, None, None
        if self._endpoint.has_sessions:
            state, session = await self._find_session(caller)
            version = None if session is None else session.core.version
        try:
            route = route_post(self._endpoint, caller.headers, message, state, version)
            if route.revision.has_method_headers:
                check_call_headers(self.server, message, caller)
            if route.action is _SERVE:
                method = message.method if type(message) is Request else ""
                if method == "initialize":
                    await self.server._before_handshake()
                post = Post(self, request, route, caller, self._poller_of(request.loop))
                if method == "subscriptions/listen":
                    await self._listen(post, message, frame)
                else:
                    await post.serve(message, frame)
            elif route.action is Action.OPEN_SESSION:
                await self._open_session(request, caller, route, message, frame)
            else:
                assert session is not None  # the routing table has this action for open sessions only
                channel = await self._sessions.receive(session, message, frame, route.accepts, caller)
                await session.respond(channel, request, ())
        except RequestRefused as refused:
            if isinstance(message, Request):
                refused.id = message.id
            raise

    async def _find_session(self, caller: Caller) -> tuple[SessionState, Session | None]:
        """Return the state of the session that a request names, and the session if it is open."""
        header = session_header(self._endpoint, caller.headers)
        if isinstance(header, SessionState):
            return header, None
        session = await self._sessions.find(header, caller.principal)
        return (SessionState.UNKNOWN if session is None else SessionState.OPEN), session

    async def _open_session(
        self, request: HttpRequest, caller: Caller, route: Route, message: Message, frame: bytes
    ) -> None:
        await self.server._before_handshake()
        session = self._sessions.create()
        session.caller_key = caller_key(caller.principal, caller.address)
        channel = session.receive(message, frame, route.accepts, caller)
        if session.core.client is not None:
            await self._sessions.register(session)
        await session.respond(channel, request, ((_SESSION_NAME, session.id.encode()),) if session.id else ())

    async def _listen(self, post: Post, message: Message, frame: bytes) -> None:
        self.server._add_connection(post)  # so that it receives list changes
        try:
            await post.serve(message, frame)
        finally:
            self.server._remove_connection(post)

    def _poller_of(self, loop: asyncio.AbstractEventLoop) -> DisconnectPoller:
        poller = self._pollers.get(loop)
        if poller is None:
            poller = self._pollers[loop] = DisconnectPoller(loop)
        return poller

    @property
    def _posts(self) -> list[Post]:
        return [post for poller in list(self._pollers.values()) for post in poller.all]

    # --- other methods ------------------------------------------------------------------------------------------------

    async def _verb(self, request: HttpRequest, caller: Caller) -> None:
        state, session = await self._find_session(caller)
        action = route_verb(self._endpoint, request.method, caller.headers, state)
        if action is Action.DESCRIBE:
            await request.respond(204, [(b"allow", self._endpoint.allowed.encode())])
            return
        assert session is not None  # the routing table has both actions for open sessions only
        if action is Action.LISTEN:
            await session.serve_get(caller.headers.get(LAST_EVENT_HEADER.lower()), request)
            return
        await self._sessions.end(session)
        await request.respond(204, ())

    # --- refusals and draining ----------------------------------------------------------------------------------------

    async def _refuse(self, request: HttpRequest, refused: RequestRefused, headers: Headers) -> None:
        response = refused.response
        id = None if refused.id is ABSENT and _requires_id(headers) else refused.id
        body = encode_error(id, response.code, response.message, ABSENT if response.data is None else response.data)
        await request.respond(response.status, [*JSON_LINES, *encode_headers(response.headers)], body)

    def accept_new(self) -> None:
        """Accept new requests again, for example after a drain."""
        self.is_draining = False

    def refuse_new(self) -> None:
        """Refuse new requests with 503 from now on. Thread-safe."""
        self.is_draining = True

    async def drain(self) -> None:
        """Refuse new requests, wait for running handlers, and end streams and sessions.

        Returns when all requests have ended, at the latest after the server's `drain_timeout` plus `LAST_WRITES`
        seconds.
        """
        self.refuse_new()
        for connection in (*self._posts, *self._legacy.values(), *self._sessions.all):
            connection.call(connection.drain)
        try:
            async with asyncio.timeout(self.server.options.drain_timeout + LAST_WRITES):
                while self._requests:
                    self._idle = asyncio.Event()
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


def _worker_bus(server: "Server") -> "BusLink | None":
    """Return the bus to other processes, if there is one."""
    return server._bus if server._bus is not None and server._bus.is_shared else None


def _requires_id(headers: Headers) -> bool:
    """Return whether an error without an id needs `"id": null`: JSON-RPC and revisions before 2025-11-25 require it."""
    revision = REVISIONS.get(headers.get("mcp-protocol-version", ""))
    return revision is None or not revision.omits_unreadable_id
