"""The endpoint: a plain ASGI app that serves both eras of Streamable HTTP at one URL, and 2024-11-05's HTTP+SSE if asked to.

A request goes through the gates of `jackstay.protocol.http` in their order: names and lengths before anything is read, then
who it comes from, then the body, then era, revision and session. What it means is served by a connection: one for the POST
(`_post`), or the session's (`_session`). Nothing here depends on lifespan events, on being mounted at the root, or on the
loop being the same for the life of the app.

Must never know what a request means. Above: `Server.asgi`, ASGI servers. Below: everything else in this room.
"""

import asyncio
import logging
import weakref
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from jackstay.errors import RequestId
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import (
    ACCEPTED,
    JSON_HEADERS,
    RETRY_HEADERS,
    SESSION_HEADER,
    Action,
    Endpoint,
    Refusal,
    Route,
    Verb,
    check_request,
    fold_headers,
    legacy_session,
    refuse,
    route_post,
    route_verb,
    session_header,
    too_large,
    verb_of,
)
from jackstay.protocol.http import Session as SessionState
from jackstay.protocol.wire import ABSENT, Absent, Batch, ErrorCode, Message, Request, decode, encode_error
from jackstay.server._driver import Terms
from jackstay.server._subscriptions import Quota
from jackstay.server.http._asgi import (
    Gone,
    HeaderLines,
    Receive,
    Scope,
    Send,
    TooLarge,
    TooSlow,
    lines,
    read_body,
    respond,
    respond_to_nobody,
)
from jackstay.server.http._auth import read_auth
from jackstay.server.http._call_headers import check_call_headers
from jackstay.server.http._cors import Cors
from jackstay.server.http._edge import make_access, make_edge
from jackstay.server.http._legacy import LegacyConnection
from jackstay.server.http._life import Life
from jackstay.server.http._lookout import Lookout
from jackstay.server.http._options import HttpOptions
from jackstay.server.http._post import Answering, Post
from jackstay.server.http._principal import NOBODY, Guard, Principal, holder_of, owner_of, prove
from jackstay.server.http._session import Session
from jackstay.server.http._session_store import MemorySessions, SessionRecord
from jackstay.server.http._sessions import Sessions

if TYPE_CHECKING:
    from jackstay.server._server import Server
    from jackstay.server.http._health import HealthCheck

Headers: TypeAlias = Mapping[str, str]

logger = logging.getLogger("jackstay.server.http")

JSON_LINES = lines(JSON_HEADERS)
_CLOSE: HeaderLines = [(b"connection", b"close")]
SHUTTING_DOWN = Refusal(
    503,
    ErrorCode.INTERNAL_ERROR,
    "server is shutting down",
    {"retryable": True, "mayHaveRun": False},
    RETRY_HEADERS,
)


BUSY = Refusal(
    503,
    ErrorCode.INTERNAL_ERROR,
    "too many sessions are open",
    {"retryable": True, "mayHaveRun": False, "reason": "busy"},
    RETRY_HEADERS,
)

UNAVAILABLE = Refusal(
    503,
    ErrorCode.INTERNAL_ERROR,
    "sessions cannot be looked up now",
    {"retryable": True, "mayHaveRun": False},
    RETRY_HEADERS,
)

# What is left for the last writes when a drain's time is over.
LAST_WRITES = 0.25

_SESSION_NAME = SESSION_HEADER.lower().encode()

# Requests after which a session is remembered differently.
_CHANGING = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})


class _Asked:
    """One HTTP request: its headers, whom it comes from, ASGI's two functions, and what its body was if it has one."""

    __slots__ = ("frame", "headers", "message", "peer", "principal", "receive", "send")

    def __init__(
        self, headers: Headers, principal: Principal, peer: str, receive: Receive, send: Send
    ) -> None:
        self.headers = headers
        self.principal = principal
        # The address that it comes from, as the ASGI server has it.
        self.peer = peer
        self.receive = receive
        self.send = send
        self.message: Message = _NO_MESSAGE
        self.frame = b""


_NO_MESSAGE = Batch()


class _Place(Enum):
    """What is at a path."""

    MCP = "both eras of Streamable HTTP"
    SSE = "the stream of 2024-11-05"
    MESSAGES = "where its messages are POSTed"


class App:
    """An ASGI 3 application. Make it with `server.asgi()`; `await drain()` before its process ends."""

    def __init__(self, server: "Server", options: HttpOptions, guard: Guard | None = None) -> None:
        self.server = server
        self.options = options
        auth = None if options.auth is None else read_auth(options.auth)
        self.auth = auth
        cors = Cors(options.cors) if options.cors else None
        # Public: what is served beside the endpoint is held to the same rules.
        self.guard = auth if guard is None else guard
        self.access = make_access(options.hosts, options.origins, cors)
        self._edge = make_edge(self, server, options, auth, cors)
        frame_bytes = server.options.max_frame_bytes
        self._endpoint = Endpoint(
            access=self.access,
            has_sessions=options.sessions,
            versions=server.options.versions,
            max_body_bytes=frame_bytes if options.max_body_bytes is None else options.max_body_bytes,
        )
        self._answering = Answering(
            keepalive=options.keepalive,
            is_always_stream=options.answers == "sse",
            is_never_stream=options.answers == "json",
            max_stream_bytes=options.max_stream_bytes,
            retry=options.retry,
            auth=auth,
        )
        self._quota = Quota(options.max_subscription_bytes, options.max_all_subscription_bytes)
        self._sessions: Sessions | None = None
        self._session_ended = self._end_session  # one for all of them
        if options.sessions:
            self._sessions = Sessions(
                self._make_session,
                MemorySessions() if options.session_store is None else options.session_store,
                options.event_store,
                ttl=options.session_ttl,
                limit=options.max_sessions,
            )
        # Here GET opens a stream whether sessions are on or not.
        self._legacy_endpoint = msgspec.structs.replace(self._endpoint, has_sessions=True)
        self._legacy: dict[str, LegacyConnection] = {}
        self._places = {options.path.rstrip("/") or "/": _Place.MCP}
        if options.sse_path is not None:
            self._places |= {options.sse_path: _Place.SSE, options.messages_path: _Place.MESSAGES}
        # What is under way, on the loop that was last used and on others.
        self._lookout: Lookout[Post] | None = None
        self._lookouts: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Lookout[Post]] = (
            weakref.WeakKeyDictionary()
        )
        self.life = Life(server, self)
        # For the application that this one is mounted in: `FastAPI(lifespan=app.lifespan)`.
        self.lifespan = self.life.lifespan
        self._requests = 0
        self._idle: asyncio.Event | None = None
        self._is_draining = False

    def __repr__(self) -> str:
        return f"<App of {self.server.name} at {self.options.path}, {self.connections} connections>"

    def check_health_with(self, check: "HealthCheck") -> None:
        """Let `/health` depend on this as well; it returns `ok` or a state, and members for the answer."""
        if self._edge is not None:
            self._edge.check = check

    @property
    def is_draining(self) -> bool:
        """True once it takes no new requests."""
        return self._is_draining

    @property
    def connections(self) -> int:
        """Requests, streams and sessions that are served now."""
        return len(self._posts) + len(self._legacy) + self.sessions

    @property
    def sessions(self) -> int:
        """Sessions that are open."""
        return 0 if self._sessions is None else len(self._sessions)

    @property
    def needs_one_process(self) -> bool:
        """True if more than one worker would lose sessions or events: they are kept in the memory of one."""
        return self.options.needs_one_process

    # --- ASGI ---------------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan of the process."""
        kind = scope["type"]
        if kind == "http":
            if self._edge is not None:
                onward = await self._edge.meet(scope, send)
                if onward is None:
                    return
                send = onward
            self._requests += 1
            try:
                await self._serve(scope, receive, send)
            finally:
                self._requests -= 1
                if self._idle is not None and not self._requests:
                    self._idle.set()
        elif kind == "lifespan":
            await self.life.follow(receive, send)
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        place = self._places.get(scope["path"]) or self._find_place(scope)
        if place is None:
            where = f"{scope.get('root_path', '').rstrip('/')}{self.options.path}"
            await self._refuse(send, refuse(404, f"nothing is here; MCP is served at {where}"))
            return
        verb = verb_of(scope["method"])
        headers = fold_headers(scope["headers"])
        endpoint = self._endpoint if place is _Place.MCP else self._legacy_endpoint
        accepts = check_request(endpoint, verb, headers)
        if isinstance(accepts, Refusal):
            await self._refuse(send, accepts, headers)
            return
        if self._is_draining:
            await self._refuse(send, SHUTTING_DOWN, headers, more=_CLOSE)
            return
        if not self.life.is_started:
            not_started = await self.life.start_late()
            if not_started is not None:
                await self._refuse(send, not_started, headers)
                return
        principal = NOBODY
        if self.guard is not None:
            admitted = await self.guard.admit(scope["method"], scope["path"], headers)
            if isinstance(admitted, Refusal):
                await self._refuse(send, admitted, headers)
                return
            principal = admitted
        client = scope.get("client")
        asked = _Asked(headers, principal, client[0] if client else "", receive, send)
        if place is not _Place.MCP:
            await self._serve_legacy(place, verb, asked, scope)
        elif verb is Verb.POST:
            await self._post(asked)
        else:
            await self._verb(verb, asked)

    def _find_place(self, scope: Scope) -> _Place | None:
        """What is at this path. The mount's own path does not count, and neither does a slash at the end."""
        path: str = scope["path"]
        root: str = scope.get("root_path", "").rstrip("/")
        if root and (path == root or path.startswith(root + "/")):
            path = path[len(root) :]
        return self._places.get(path.rstrip("/") or "/")

    # --- 2024-11-05 ---------------------------------------------------------------------------------------------------

    async def _serve_legacy(self, place: _Place, verb: Verb, asked: _Asked, scope: Scope) -> None:
        if place is _Place.SSE and verb is Verb.GET:
            await self._open_legacy(asked, scope.get("root_path", ""))
        elif place is _Place.MESSAGES and verb is Verb.POST:
            await self._post_legacy(asked, scope.get("query_string", b""))
        else:
            allowed = "GET" if place is _Place.SSE else "POST"
            refusal = Refusal(
                405,
                ErrorCode.INVALID_REQUEST,
                f"only {allowed} is allowed here",
                headers=(("allow", allowed),),
            )
            await self._refuse(asked.send, refusal)

    async def _open_legacy(self, asked: _Asked, root_path: str) -> None:
        if len(self._legacy) >= self.options.max_sessions:
            await self._refuse(asked.send, BUSY)
            return
        await self.server.before_handshake()
        connection = LegacyConnection(self._terms(), answering=self._answering, ended=self._end_legacy)
        prove(connection, asked.principal)
        self.server.remember(connection)
        self._legacy[connection.id] = connection
        await connection.carry(root_path.rstrip("/"), self.options.messages_path, asked.receive, asked.send)

    def _end_legacy(self, connection: LegacyConnection) -> None:
        self._legacy.pop(connection.id, None)
        self.server.forget(connection)

    async def _post_legacy(self, asked: _Asked, query: bytes) -> None:
        if not await self._read(asked):
            return
        id = legacy_session(query)
        connection = None if id is None else self._legacy.get(id)
        if connection is None or connection.principal != asked.principal.id:
            await self._refuse(asked.send, refuse(404, "no such stream: open it again with GET"))
            return
        connection.call(connection.receive, asked.frame, asked.principal)
        await respond(asked.send, ACCEPTED, [])

    # --- POST ---------------------------------------------------------------------------------------------------------

    async def _read(self, asked: _Asked) -> bool:
        """Read the body. False: it cannot be had, and the answer says why."""
        limit = self._endpoint.max_body_bytes
        try:
            asked.frame = await read_body(asked.receive, limit, self.options.body_timeout)
        except Gone:
            await respond_to_nobody(asked.send)
            return False
        except (TooLarge, TooSlow) as error:
            # The rest of it is not read: the connection cannot be used again.
            is_large = isinstance(error, TooLarge)
            refusal = too_large(limit) if is_large else refuse(408, "the body did not come in time")
            await self._refuse(asked.send, refusal, asked.headers, more=_CLOSE)
            return False
        return True

    async def _post(self, asked: _Asked) -> None:
        if not await self._read(asked):
            return
        headers = asked.headers
        asked.message = message = decode(asked.frame)
        known, session, version = SessionState.OFF, None, None
        if self._sessions is not None:
            looked_up = await self._look_up(asked)
            if isinstance(looked_up, Refusal):
                await self._refuse(asked.send, looked_up, headers)
                return
            known, session = looked_up
            version = None if session is None else session.core.version
        route = route_post(self._endpoint, headers, message, known, version)
        refused: Refusal | None
        if isinstance(route, Route):
            refused = check_call_headers(self.server, message, headers, route.revision)
            if refused is None:
                refused = await self._serve_post(asked, route, session)
        else:
            refused = route
        if refused is not None:
            id = message.id if isinstance(message, Request) else ABSENT
            await self._refuse(asked.send, refused, headers, id)

    async def _look_up(self, asked: _Asked) -> tuple[SessionState, Session | None] | Refusal:
        found = session_header(self._endpoint, asked.headers)
        if isinstance(found, SessionState):
            return found, None
        assert self._sessions is not None  # there is an id to look up
        try:
            session = await self._sessions.find(found, asked.principal.id)
        except Exception:  # the edge of somebody's store
            logger.exception("the session store failed")
            return UNAVAILABLE
        return (SessionState.UNKNOWN if session is None else SessionState.OPEN), session

    async def _serve_post(self, asked: _Asked, route: Route, session: Session | None) -> Refusal | None:
        if route.action is Action.SERVE:
            await self._serve_alone(asked, route)
        elif route.action is Action.SERVE_IN_SESSION:
            assert session is not None  # OPEN, says its row
            assert self._sessions is not None
            prove(session, asked.principal)
            channel = session.receive(asked.message, asked.frame, route.accepts)
            if _changes_record(asked.message):
                await self._sessions.save(session)
            await session.answer(channel, asked.receive, asked.send, [])
        else:
            return await self._open_session(asked, route)
        return None

    async def _open_session(self, asked: _Asked, route: Route) -> Refusal | None:
        assert self._sessions is not None  # OPEN_SESSION, says its row
        await self.server.before_handshake()
        session = self._sessions.new()
        if session is None:
            return BUSY
        prove(session, asked.principal)
        session.owner = owner_of(asked.principal.id)
        session.holder = holder_of(asked.principal.id, asked.peer)
        channel = session.receive(asked.message, asked.frame, route.accepts)
        more: HeaderLines = []
        if session.core.client is not None:
            try:
                await self._sessions.begin(session)
            except Exception:  # the edge of somebody's store
                logger.exception("the session store failed")
                return UNAVAILABLE
            self.server.remember(session)
            more = [(_SESSION_NAME, session.id.encode())]
        await session.answer(channel, asked.receive, asked.send, more)
        return None

    async def _serve_alone(self, asked: _Asked, route: Route) -> None:
        """A POST that is a connection of its own."""
        message = asked.message
        if type(message) is Request and message.method == "initialize":
            await self.server.before_handshake()
        post = Post(
            self._terms(),
            version=route.revision.name,
            accepts=route.accepts,
            answering=self._answering,
            lookout=self._look_out(),
        )
        prove(post, asked.principal)
        # All POSTs of one caller wait for threads in one queue: otherwise whoever sends most has most of the turns.
        post.owner = holder_of(asked.principal.id, asked.peer)
        if type(message) is not Request or message.method != "subscriptions/listen":
            await post.serve(message, asked.frame, asked.receive, asked.send)
            return
        self.server.remember(post)  # who is told of changes
        try:
            await post.serve(message, asked.frame, asked.receive, asked.send)
        finally:
            self.server.forget(post)

    def _look_out(self) -> Lookout[Post]:
        """Who looks after what is under way on this loop."""
        loop = asyncio.get_running_loop()
        lookout = self._lookout
        if lookout is None or lookout.loop is not loop:
            lookout = self._lookouts.get(loop)
            if lookout is None:
                lookout = self._lookouts[loop] = Lookout(loop)
            self._lookout = lookout
        return lookout

    @property
    def _posts(self) -> list[Post]:
        return [post for lookout in list(self._lookouts.values()) for post in lookout.all]

    # --- other verbs --------------------------------------------------------------------------------------------------

    async def _verb(self, verb: Verb, asked: _Asked) -> None:
        headers, send = asked.headers, asked.send
        looked_up = await self._look_up(asked)
        if isinstance(looked_up, Refusal):
            await self._refuse(send, looked_up, headers)
            return
        known, session = looked_up
        version = None if session is None else session.core.version
        route = route_verb(self._endpoint, verb, headers, known, version)
        if isinstance(route, Refusal):
            await self._refuse(send, route, headers)
        elif route.action is Action.DESCRIBE:
            await respond(send, 204, [(b"allow", self._endpoint.allowed.encode())])
        else:
            assert session is not None  # OPEN, say the rows of both
            assert self._sessions is not None
            if route.action is Action.END_SESSION:
                await self._sessions.end(session)
                await respond(send, 204, [])
                return
            refusal = await session.listen(route.last_event_id, asked.receive, send)
            if refusal is not None:
                await self._refuse(send, refusal, headers)

    # --- refusing, ending ---------------------------------------------------------------------------------------------

    async def _refuse(
        self,
        send: Send,
        refusal: Refusal,
        headers: Headers | None = None,
        id: RequestId | Absent = ABSENT,
        more: HeaderLines | None = None,
    ) -> None:
        said = None if id is ABSENT and _wants_null(headers or {}) else id
        data = ABSENT if refusal.data is None else refusal.data
        body = encode_error(said, refusal.code, refusal.message, data)
        await respond(send, refusal.status, [*JSON_LINES, *lines(refusal.headers), *(more or ())], body)

    def accept_new(self) -> None:
        """Take new requests, also after a drain."""
        self._is_draining = False

    def refuse_new(self) -> None:
        """Take no new requests from now on: each is answered 503. From any thread."""
        self._is_draining = True

    async def drain(self) -> None:
        """Refuse what comes from now on, let what runs have its time, and end streams and sessions.

        Returns when that is done: after the server's `drain_timeout` at the latest, and a moment for the last writes.
        """
        self.refuse_new()
        for connection in (*self._posts, *self._legacy.values(), *self._all_sessions()):
            connection.call(connection.drain)
        end = asyncio.get_running_loop().time() + self.server.options.drain_timeout + LAST_WRITES
        while self._requests and asyncio.get_running_loop().time() < end:
            self._idle = asyncio.Event()
            try:
                async with asyncio.timeout_at(end):
                    await self._idle.wait()
            except TimeoutError:
                logger.warning("%d requests did not end in time", self._requests)

    def _all_sessions(self) -> list[Session]:
        return [] if self._sessions is None else self._sessions.all

    def _make_session(self, record: SessionRecord | None) -> Session:
        session = Session(
            self._terms(),
            answering=self._answering,
            events=self.options.event_store,
            ended=self._session_ended,
            record=record,
        )
        if record is not None:
            session.owner = owner_of(record.principal)
            session.holder = holder_of(record.principal, "")
            self.server.remember(session)
        return session

    def _terms(self) -> Terms:
        """What the next connection begins with."""
        server = self.server
        offer, offered = server.offering()
        return Terms(offer, offered, server.handlers, server.telemetry, server.next_number(), self._quota)

    def _end_session(self, session: Session) -> None:
        assert self._sessions is not None
        self.server.forget(session)
        self._sessions.forget(session)


def _changes_record(message: Message) -> bool:
    """Whether this may change what is remembered of a session."""
    members = message.members if isinstance(message, Batch) else (message,)
    return any(isinstance(member, Request) and member.method in _CHANGING for member in members)


def _wants_null(headers: Headers) -> bool:
    """Whether an error without an id says `null`: revisions before 2025-11-25 demand the member (JSON-RPC 2.0 as well)."""
    revision = REVISIONS.get(headers.get("mcp-protocol-version", ""))
    return revision is None or not revision.omits_unreadable_id
