"""The response of `/health`, for load balancers.

200 while the endpoint serves; 503 while it drains, so that a balancer sends no more requests, and while a dependency is
down. A backend is none: what needs no session is served without it, and all machines would fail at once.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from jackstay.errors import Json

if TYPE_CHECKING:
    from jackstay.server.http._app import App

PATH: Final = "/health"

# Returns `ok` or the state of a dependency, and members to add to the body.
HealthCheck: TypeAlias = Callable[[], Awaitable[tuple[str, Mapping[str, Json]]]]


async def health_response(
    app: "App", check: HealthCheck | None = None, *, is_public: bool = False
) -> tuple[int, bytes]:
    """Return the HTTP status and the JSON body.

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
