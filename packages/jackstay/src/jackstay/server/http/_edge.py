"""What an endpoint answers beside MCP: preflights of web pages, its health, and where tokens for it are got.

It stands before the endpoint: it looks at the path and a few headers, and answers, or lets the endpoint answer, with at most
the headers added that let a page read it. Where nothing of this was asked for, it is not there.

These answers are for everybody: no token is asked for, because they say how to get one, and no Host is refused, because
health checks come to an address and not to a name. Under a foreign name, as a web page reaches it by DNS rebinding, `/health` has
the state alone.

Above: `_app`. Below: `_auth`, `_cors`, `_health`, `_asgi`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jackstay.errors import UsageError
from jackstay.protocol.http import Access, HeaderPairs, check_access, fold_headers
from jackstay.server.http._asgi import AsgiMessage, HeaderLines, Scope, Send, lines, respond
from jackstay.server.http._auth import WELL_KNOWN, BearerAuth
from jackstay.server.http._cors import Cors
from jackstay.server.http._health import PATH as HEALTH_PATH
from jackstay.server.http._health import Counts, HealthCheck, health_answer

if TYPE_CHECKING:
    from jackstay.server._server import Server
    from jackstay.server.http._app import App
    from jackstay.server.http._options import HttpOptions

# A document that rarely changes, for clients of any origin: it holds no secret and acts on nothing.
_METADATA_LINES = lines(
    (
        ("content-type", "application/json"),
        ("cache-control", "max-age=300"),
        ("access-control-allow-origin", "*"),
    )
)
_HEALTH_LINES = lines((("content-type", "application/json"), ("cache-control", "no-store")))


class Edge:
    """What stands before an endpoint. `health` is a path; what is None is not answered here."""

    def __init__(
        self,
        counts: Counts,
        *,
        name: str,
        version: str,
        access: Access,
        auth: BearerAuth | None = None,
        cors: Cors | None = None,
        health: str | None = None,
    ) -> None:
        self._counts = counts
        self._name = name
        self._version = version
        self._access = access
        self._auth = auth
        self._cors = cors
        self._health = health
        # What the health depends on beside the endpoint itself.
        self.check: HealthCheck | None = None

    def __repr__(self) -> str:
        return f"<Edge auth={self._auth!r} cors={self._cors!r} health={self._health!r}>"

    async def meet(self, scope: Scope, send: Send) -> Send | None:
        """Answer this HTTP request, and None; or with what the endpoint is to answer it."""
        # Mounted below a path, the endpoint's own paths begin there (ASGI: `path` is the whole, `root_path` the mount).
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        method: str = scope["method"]
        if method in ("GET", "HEAD"):
            if path == self._health:
                is_foreign = check_access(self._access, fold_headers(scope["headers"])) is not None
                status, body = await health_answer(
                    self._counts, self._name, self._version, self.check, is_public=is_foreign
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
            await respond(send, 204, lines(allowed))
            return None
        return _with(self._cors.answer_headers(headers), send)


def _with(pairs: HeaderPairs, send: Send) -> Send:
    """The same `send`, which adds these headers to the answer."""
    more: HeaderLines = lines(pairs)

    async def adding(message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *more]
        await send(message)

    return adding if more else send


def make_edge(
    counts: "App", server: "Server", options: "HttpOptions", auth: BearerAuth | None, cors: Cors | None
) -> Edge | None:
    """What stands before this endpoint; None if nothing does.

    Raises: UsageError, where clients are to be told where tokens are got, but not for what.
    """
    health = HEALTH_PATH if options.health is True else options.health or None
    if auth is not None and auth.authorization_servers and auth.resource is None:
        raise UsageError(
            "BearerAuth(resource=...) must be the endpoint's URL, as clients know it", path="auth"
        )
    if auth is not None and not auth.authorization_servers:
        auth = None  # there is nothing to tell of it
    if auth is None and cors is None and health is None:
        return None
    said = server.options
    return Edge(
        counts,
        name=said.name,
        version=said.version,
        access=counts.access,
        auth=auth,
        cors=cors,
        health=health,
    )


def make_access(hosts: Sequence[str], origins: Sequence[str] | None, cors: Cors | None) -> Access:
    """Which names and pages pass the gate: a page that may read the answers may call, or it would have none to read.

    Raises: UsageError.
    """
    access = Access.allow(tuple(hosts), None if origins is None else tuple(origins))
    if cors is None:
        return access
    return Access.allow(tuple(hosts), (*access.origins, *cors.origins))


__all__ = ["Edge", "make_access", "make_edge"]
