"""The health page at `/health`.

Every request gets the status, because load balancers send an IP address as Host and no credentials. Name, version and
counts require an allowed Host, as a protection against DNS rebinding. The reasons of skipped modules contain exception
messages and require access to the MCP endpoint.
"""

import time
from typing import TYPE_CHECKING, Final

import msgspec

from apcore_mcp.access import authorize, check_host_and_origin
from jackstay.inspector import RequestRejected, respond, respond_error
from jackstay.protocol.http import error_response
from jackstay.server.http import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable

    from apcore_mcp.catalogue import Catalogue
    from jackstay.server.http import App, Asgi, Receive, Scope, Send

# The path of the health endpoint.
HEALTH_PATH: Final = "/health"


class Skipped(msgspec.Struct, frozen=True):
    """A skipped module."""

    id: str
    reason: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The response body. `skipped` is omitted for callers without access."""

    status: str
    name: str
    version: str
    uptime_seconds: float
    tools: int
    # The same, as in apcore-mcp.
    module_count: int
    skipped_count: int
    connections: int
    sessions: int
    # `ok` or the problem of the backend, if there is one.
    backend: str | msgspec.UnsetType = msgspec.UNSET
    skipped: tuple[Skipped, ...] | msgspec.UnsetType = msgspec.UNSET


def make_health(
    app: "App",
    catalogue: "Catalogue",
    started_at: float,
    *,
    clock: "Callable[[], float]" = time.monotonic,
) -> "Asgi":
    """Return an ASGI app for the page. `started_at` is the start time of the server on `clock`."""

    async def page(scope: "Scope", receive: "Receive", send: "Send") -> None:  # noqa: ARG001  # the ASGI signature
        if scope["method"] not in ("GET", "HEAD"):
            await respond_error(send, error_response(405, "/health allows only GET"))
            return
        status = 503 if app.is_draining else 200
        try:
            check_host_and_origin(app, scope)
        except RequestRejected:
            state = {"status": "draining" if app.is_draining else "ok"}
            await respond(send, status, "application/json", msgspec.json.encode(state))
            return
        try:
            # A guard may admit a request without credentials here.
            may_read = app.guard is None or await authorize(app, scope) != ANONYMOUS
        except RequestRejected:
            may_read = False
        health = describe(app, catalogue, clock() - started_at, may_read=may_read)
        await respond(send, status, "application/json", msgspec.json.encode(health))

    return page


def describe(app: "App", catalogue: "Catalogue", uptime: float, *, may_read: bool) -> Health:
    """Return the health, with the reasons of skipped modules if `may_read`."""
    skipped = tuple(Skipped(id, reason) for id, reason in catalogue.skipped().items())
    return Health(
        status="draining" if app.is_draining else "ok",
        name=app.server.name,
        version=app.server.options.version,
        uptime_seconds=round(uptime, 3),
        tools=len(catalogue),
        module_count=len(catalogue),
        skipped_count=len(skipped),
        connections=app.connections,
        sessions=app.sessions,
        backend=app.backend or msgspec.UNSET,
        skipped=skipped if may_read else msgspec.UNSET,
    )


__all__ = ["HEALTH_PATH", "Health", "Skipped", "describe", "make_health"]
