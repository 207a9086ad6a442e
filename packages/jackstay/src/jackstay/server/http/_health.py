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


class Health(msgspec.Struct, frozen=True):
    """The JSON body."""

    status: str
    name: str
    version: str
    connections: int
    sessions: int


async def health_response(
    app: "App", name: str, version: str, check: HealthCheck | None = None, *, is_public: bool = False
) -> tuple[int, bytes]:
    """Return the HTTP status and the body.

    `is_public` reduces the body to the status, for a request that may not see more.
    """
    more: dict[str, Json] = {} if app.backend is None else {"backend": app.backend}
    status = "ok"
    if check is not None:
        status, checked = await check()
        more |= checked
    if app.is_draining:
        status = "draining"
    code = 200 if status == "ok" else 503
    if is_public:
        return code, msgspec.json.encode({"status": status})
    health = Health(status, name, version, app.connections, app.sessions)
    body = {**msgspec.structs.asdict(health), **more} if more else health
    return code, msgspec.json.encode(body)
