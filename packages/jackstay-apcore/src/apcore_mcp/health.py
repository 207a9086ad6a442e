"""What `/health` tells: whether to send requests here, since when, how many tools there are, and what is missing and why.

Load balancers come without a key and by an address, so anybody gets the status. Name, version and numbers are for requests under
a name of the server's, because a web page can reach it under its own by DNS rebinding. The reasons why modules were skipped are the
text of exceptions, with paths and names in it: only callers of the endpoint get those.

Above: `pages`. Below: `catalogue`, `admission`, jackstay's `App`.
"""

import time
from typing import TYPE_CHECKING, Final

import msgspec

from apcore_mcp.admission import admit, check_names
from apcore_mcp.answers import Refused, answer, answer_refusal
from jackstay.protocol.http import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from apcore_mcp.catalogue import Catalogue
    from jackstay.server.http import App, Asgi, Receive, Scope, Send

# Where it is.
HEALTH_PATH: Final = "/health"


class Skipped(msgspec.Struct, frozen=True):
    """A module that is not offered."""

    id: str
    reason: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The answer as it is written. `skipped` is left out for who may not read it."""

    status: str
    name: str
    version: str
    uptime_seconds: float
    tools: int
    skipped_count: int
    connections: int
    sessions: int
    skipped: tuple[Skipped, ...] | msgspec.UnsetType = msgspec.UNSET


def make_health(
    app: "App",
    catalogue: "Catalogue",
    started_at: float,
    *,
    clock: "Callable[[], float]" = time.monotonic,
) -> "Asgi":
    """The page. `started_at` is when it began to serve, on the same clock."""

    async def page(scope: "Scope", receive: "Receive", send: "Send") -> None:  # noqa: ARG001  # ASGI's
        if scope["method"] not in ("GET", "HEAD"):
            await answer_refusal(send, refuse(405, "the health is read with GET"))
            return
        status = 503 if app.is_draining else 200
        try:
            check_names(app, scope)
        except Refused:
            state = {"status": "draining" if app.is_draining else "ok"}
            await answer(send, status, "application/json", msgspec.json.encode(state))
            return
        try:
            await admit(app, scope)
            may_read = True
        except Refused:
            may_read = False
        health = describe(app, catalogue, clock() - started_at, may_read=may_read)
        await answer(send, status, "application/json", msgspec.json.encode(health))

    return page


def describe(app: "App", catalogue: "Catalogue", uptime: float, *, may_read: bool) -> Health:
    """How it is, for somebody who may read the reasons, or may not."""
    skipped = tuple(Skipped(id, reason) for id, reason in catalogue.skipped().items())
    return Health(
        status="draining" if app.is_draining else "ok",
        name=app.server.name,
        version=app.server.options.version,
        uptime_seconds=round(uptime, 3),
        tools=len(catalogue),
        skipped_count=len(skipped),
        connections=app.connections,
        sessions=app.sessions,
        skipped=skipped if may_read else msgspec.UNSET,
    )


__all__ = ["HEALTH_PATH", "Health", "Skipped", "describe", "make_health"]
