"""The routes beside the MCP endpoint: CORS preflights, `/health` and OAuth protected-resource metadata.

They need no token, because a client uses them to get one, and accept any Host, because health checks use an
address. Without the credentials of the endpoint, or under a Host that is not allowed, as after DNS rebinding, `/health`
returns the status alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jackstay.errors import UsageError
from jackstay.protocol.http import Access, ErrorResponse, check_access, fold_headers
from jackstay.server.http._asgi import HttpRequest, encode_headers
from jackstay.server.http._auth import WELL_KNOWN, BearerAuth
from jackstay.server.http._cors import Cors
from jackstay.server.http._health import PATH as HEALTH_PATH
from jackstay.server.http._health import HealthCheck, health_response

if TYPE_CHECKING:
    from jackstay.server.http._app import App

# The metadata rarely changes, contains no secret, and may be read from any origin.
_METADATA_LINES = encode_headers(
    (
        ("content-type", "application/json"),
        ("cache-control", "max-age=300"),
        ("access-control-allow-origin", "*"),
    )
)
_HEALTH_LINES = encode_headers((("content-type", "application/json"), ("cache-control", "no-store")))


class AuxiliaryRoutes:
    """Handles requests before the endpoint of `app` does. A feature that is None is disabled."""

    def __init__(self, app: "App", auth: BearerAuth | None, cors: Cors | None) -> None:
        self._app = app
        self._auth = auth
        self._cors = cors
        health = app.options.health
        self._health = HEALTH_PATH if health is True else health or None
        # What `/health` depends on beside the endpoint itself.
        self.check: HealthCheck | None = None

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
            if self._auth is not None and path.startswith(WELL_KNOWN):
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


def make_auxiliary_routes(app: "App", auth: BearerAuth | None, cors: Cors | None) -> AuxiliaryRoutes | None:
    """Return the auxiliary routes of an endpoint, or None if none is enabled.

    Raises: UsageError for authorization servers without a resource URL.
    """
    if auth is not None and not auth.authorization_servers:
        auth = None  # there is no metadata to publish
    if auth is not None and auth.resource is None:
        raise UsageError(
            "BearerAuth(authorization_servers=...) needs resource=, the public URL of the endpoint", path="auth"
        )
    if auth is None and cors is None and not app.options.health:
        return None
    return AuxiliaryRoutes(app, auth, cors)


def make_access(hosts: Sequence[str], origins: Sequence[str] | None, cors: Cors | None) -> Access:
    """Return the allowed hosts and origins. An origin that CORS allows to read responses may also send requests.

    Raises: UsageError.
    """
    access = Access.allow(tuple(hosts), None if origins is None else tuple(origins))
    if cors is None:
        return access
    return Access.allow(tuple(hosts), (*access.origins, *cors.origins))


__all__ = ["AuxiliaryRoutes", "make_access", "make_auxiliary_routes"]
