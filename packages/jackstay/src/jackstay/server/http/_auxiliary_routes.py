"""The routes beside the MCP endpoint: CORS preflights, `/health` and OAuth protected-resource metadata.

They need no token, because a client uses them to get one, and accept any Host, because health checks use an
address. Without the credentials of the endpoint, or under a Host that is not allowed, as after DNS rebinding, `/health`
returns the status alone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.protocol.http import (
    LAST_EVENT_HEADER,
    METHOD_HEADER,
    NAME_HEADER,
    PARAM_PREFIX,
    SESSION_HEADER,
    VERSION_HEADER,
    Access,
    ErrorResponse,
    HeaderPairs,
    check_access,
    fold_headers,
    with_port,
)
from jackstay.server.http._asgi import HttpRequest, encode_headers

if TYPE_CHECKING:
    from jackstay.server.http._app import App

# The metadata rarely changes, contains no secret, and may be read from any origin.
_METADATA_LINES = encode_headers(
    (("content-type", "application/json"), ("cache-control", "max-age=300"), ("access-control-allow-origin", "*"))
)
_HEALTH_LINES = encode_headers((("content-type", "application/json"), ("cache-control", "no-store")))

# Returns `ok` or the state of a dependency, and members to add to the body.
HealthCheck: TypeAlias = Callable[[], Awaitable[tuple[str, Mapping[str, Json]]]]

METHODS: Final = "GET, POST, DELETE, OPTIONS"

# Request headers that need permission. `Mcp-Param-*` headers are named after arguments of a tool, so they are allowed
# by prefix. The trace headers are sent by instrumented clients.
_SENT: Final = frozenset(
    name.lower()
    for name in (
        "Accept", "Authorization", "Content-Type", LAST_EVENT_HEADER, METHOD_HEADER, NAME_HEADER, SESSION_HEADER,
        VERSION_HEADER, "baggage", "traceparent", "tracestate",
    )
)  # fmt: skip

# Response headers that a page may read: a client in a browser needs them to keep its session and to find the
# authorization server.
EXPOSED: Final = f"{SESSION_HEADER}, {VERSION_HEADER}, Retry-After, WWW-Authenticate"

# How long a browser may cache a preflight, in seconds. Chromium caps it at two hours.
MAX_AGE: Final = "7200"


class Cors:
    """CORS: preflight responses, and the headers that let a web page read a response (Fetch standard, "CORS protocol").

    `origins` are those whose pages may read responses: for example `https://app.example.com`, or `*` for all. One
    without a port has the default port of its scheme, as browsers write it. Credentials that a browser adds by itself
    (cookies, client certificates) are never allowed, so `*` is safe: a page needs a token of its own. Which origins may
    send requests at all is checked by `jackstay.protocol.http`.

    Raises: UsageError for an invalid origin.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        self.origins = tuple(map(with_port, origins))
        self._access = Access.allow(("*",), self.origins)

    def __repr__(self) -> str:
        return f"<Cors for {', '.join(self.origins)}>"

    def response_headers(self, headers: Mapping[str, str]) -> HeaderPairs:
        """Return the CORS headers for a response to this request."""
        # With `*` the response is the same for all origins, so caches need no Vary.
        vary = () if self._access.is_any_origin else (("vary", "Origin"),)
        return (*self._allowed(headers), *vary)

    def _allowed(self, headers: Mapping[str, str]) -> HeaderPairs:
        origin = headers.get("origin")
        if origin is None or check_access(self._access, {"origin": origin}) is not None:
            return ()
        allowed_origin = "*" if self._access.is_any_origin else origin
        return (("access-control-allow-origin", allowed_origin), ("access-control-expose-headers", EXPOSED))

    def preflight(self, method: str, headers: Mapping[str, str]) -> HeaderPairs | None:
        """Return the headers of the 204 for a preflight, or None for another request or a forbidden origin."""
        if method != "OPTIONS" or "access-control-request-method" not in headers or not self._allowed(headers):
            return None
        requested = headers.get("access-control-request-headers", "").lower().split(",")
        allowed = [name for name in map(str.strip, requested) if name in _SENT or name.startswith(PARAM_PREFIX.lower())]
        return (
            *self.response_headers(headers),
            ("access-control-allow-methods", METHODS),
            ("access-control-allow-headers", ", ".join(allowed)),
            ("access-control-max-age", MAX_AGE),
        )


class AuxiliaryRoutes:
    """Handles requests before the endpoint of `app` does.

    Raises: UsageError for authorization servers without a resource URL.
    """

    def __init__(self, app: "App", cors: Cors | None) -> None:
        self._app = app
        self._auth = auth = app.auth
        self._cors = cors
        self._health = app.options.health_path
        # What `/health` depends on beside the endpoint itself.
        self.check: HealthCheck | None = None
        has_metadata = auth is not None and bool(auth.authorization_servers)
        if auth is not None and has_metadata and auth.resource is None:
            raise UsageError(
                "BearerAuth(authorization_servers=...) needs resource=, the public URL of the endpoint", path="auth"
            )
        # Otherwise every request is for the endpoint.
        self.is_enabled = has_metadata or cors is not None or self._health is not None

    def __repr__(self) -> str:
        return f"<AuxiliaryRoutes auth={self._auth!r} cors={self._cors!r} health={self._health!r}>"

    async def handle(self, request: HttpRequest) -> bool:
        """Respond to the request and return True, or add the headers that every response has and return False."""
        # For a mounted app, `path` includes `root_path`, the path of the mount (ASGI specification).
        path = request.path.removeprefix(request.root_path)
        method = request.method
        if method in ("GET", "HEAD"):
            if path == self._health:
                is_public = not await self._may_see_details(request)
                status, body = await health_response(self._app, self.check, is_public=is_public)
                await request.respond(status, _HEALTH_LINES, body)
                return True
            if self._auth is not None:
                document = self._auth.metadata(path, self._app.server.options.name)
                if document is not None:
                    await request.respond(200, _METADATA_LINES, document)
                    return True
        if self._cors is None:
            return False
        headers = fold_headers(request.lines)
        allowed = self._cors.preflight(method, headers)
        if allowed is not None:
            await request.respond(204, encode_headers(allowed))
            return True
        more = self._cors.response_headers(headers)
        if more:
            request.add_headers(encode_headers(more))
        return False

    async def _may_see_details(self, request: HttpRequest) -> bool:
        headers = fold_headers(request.lines)
        if check_access(self._app.access, headers) is not None:
            return False
        if self._app.guard is None:
            return True
        caller = await self._app.guard.authenticate(request.method, request.path, headers)
        return not isinstance(caller, ErrorResponse)


def make_access(hosts: Sequence[str], origins: Sequence[str] | None, cors: Cors | None) -> Access:
    """Return the allowed hosts and origins. An origin that CORS allows to read responses may also send requests.

    Raises: UsageError.
    """
    access = Access.allow(tuple(hosts), None if origins is None else tuple(origins))
    if cors is None:
        return access
    return Access.allow(tuple(hosts), (*access.origins, *cors.origins))


async def health_response(
    app: "App", check: HealthCheck | None = None, *, is_public: bool = False
) -> tuple[int, bytes]:
    """Return the HTTP status and the JSON body of `/health`, for load balancers.

    200 while the endpoint serves; 503 while it drains, so that a balancer sends no more requests, and while a
    dependency is down. A backend is none: what needs no session is served without it, and all machines would fail at
    once.

    `is_public` reduces the body to the status, for a request that may not see more.
    """
    status, more = ("ok", {}) if check is None else await check()
    if app.is_draining:
        status = "draining"
    code = 200 if status == "ok" else 503
    body: dict[str, Json] = {"status": status}
    if not is_public:
        server = app.server.options
        body |= {"name": server.name, "version": server.version}
        body |= {"connections": app.connections, "sessions": app.sessions}
        if app.backend is not None:
            body["backend"] = app.backend
        body |= more
    return code, msgspec.json.encode(body)
