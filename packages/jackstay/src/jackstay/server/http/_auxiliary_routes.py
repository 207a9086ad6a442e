"""The routes beside the MCP endpoint: CORS preflights, `/health` and OAuth protected-resource metadata.

They need no token, because a client uses them to get one, and accept any Host, because health checks use an
address. Under a Host that is not allowed, as after DNS rebinding, `/health` returns the status alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jackstay.errors import UsageError
from jackstay.protocol.http import Access, HeaderPairs, check_access, fold_headers
from jackstay.server.http._asgi import AsgiMessage, HeaderLines, Scope, Send, encode_headers, respond
from jackstay.server.http._auth import WELL_KNOWN, BearerAuth
from jackstay.server.http._cors import Cors
from jackstay.server.http._health import PATH as HEALTH_PATH
from jackstay.server.http._health import HealthCheck, HealthSource, health_response

if TYPE_CHECKING:
    from jackstay.server._server import Server
    from jackstay.server.http._app import App
    from jackstay.server.http._options import HttpOptions

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
    """Handles requests before the endpoint does. A feature that is None is disabled; `health` is a path."""

    def __init__(
        self,
        status: HealthSource,
        *,
        name: str,
        version: str,
        access: Access,
        auth: BearerAuth | None = None,
        cors: Cors | None = None,
        health: str | None = None,
    ) -> None:
        self._status = status
        self._name = name
        self._version = version
        self._access = access
        self._auth = auth
        self._cors = cors
        self._health = health
        # What `/health` depends on beside the endpoint itself.
        self.check: HealthCheck | None = None

    def __repr__(self) -> str:
        return f"<AuxiliaryRoutes auth={self._auth!r} cors={self._cors!r} health={self._health!r}>"

    async def handle(self, scope: Scope, send: Send) -> Send | None:
        """Respond to the request and return None, or return the `send` with which the endpoint responds."""
        # For a mounted app, `path` includes `root_path`, the path of the mount (ASGI specification).
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        method: str = scope["method"]
        if method in ("GET", "HEAD"):
            if path == self._health:
                is_foreign = check_access(self._access, fold_headers(scope["headers"])) is not None
                status, body = await health_response(
                    self._status, self._name, self._version, self.check, is_public=is_foreign
                )
                await respond(send, status, _HEALTH_LINES, body)
                return None
            if self._auth is not None and path.startswith(WELL_KNOWN):
                document = self._auth.metadata(path, self._name)
                if document is not None:
                    await respond(send, 200, _METADATA_LINES, document)
                    return None
        if self._cors is None:
            return send
        headers = fold_headers(scope["headers"])
        allowed = self._cors.preflight(method, headers)
        if allowed is not None:
            await respond(send, 204, encode_headers(allowed))
            return None
        return _with_headers(self._cors.response_headers(headers), send)


def _with_headers(pairs: HeaderPairs, send: Send) -> Send:
    """Return a `send` that adds these headers to the response."""
    more: HeaderLines = encode_headers(pairs)

    async def send_with_headers(message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *more]
        await send(message)

    return send_with_headers if more else send


def make_auxiliary_routes(
    app: "App", server: "Server", options: "HttpOptions", auth: BearerAuth | None, cors: Cors | None
) -> AuxiliaryRoutes | None:
    """Return the auxiliary routes of an endpoint, or None if none is enabled.

    Raises: UsageError for authorization servers without a resource URL.
    """
    health = HEALTH_PATH if options.health is True else options.health or None
    if auth is not None and auth.authorization_servers and auth.resource is None:
        raise UsageError(
            "BearerAuth(authorization_servers=...) needs resource=, the public URL of the endpoint", path="auth"
        )
    if auth is not None and not auth.authorization_servers:
        auth = None  # there is no metadata to publish
    if auth is None and cors is None and health is None:
        return None
    return AuxiliaryRoutes(
        app,
        name=server.options.name,
        version=server.options.version,
        access=app.access,
        auth=auth,
        cors=cors,
        health=health,
    )


def make_access(hosts: Sequence[str], origins: Sequence[str] | None, cors: Cors | None) -> Access:
    """Return the allowed hosts and origins. An origin that CORS allows to read responses may also send requests.

    Raises: UsageError.
    """
    access = Access.allow(tuple(hosts), None if origins is None else tuple(origins))
    if cors is None:
        return access
    return Access.allow(tuple(hosts), (*access.origins, *cors.origins))


__all__ = ["AuxiliaryRoutes", "make_access", "make_auxiliary_routes"]
