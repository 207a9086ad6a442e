"""What a load balancer asks: whether this process should get requests, and what it is.

`200` while it serves, `503` from the moment it drains, so that a balancer sends nothing more while running calls end, and while
something that it depends on is down. Counts are for people who look.

Must never know how a request is served. Above: `_edge`. Below: `_server` for the name.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeAlias

import msgspec

from jackstay.errors import Json

PATH: Final = "/health"


class Counts(Protocol):
    """What the endpoint knows of itself."""

    @property
    def is_draining(self) -> bool:
        """True once it takes no new requests."""

    @property
    def connections(self) -> int:
        """Requests, streams and sessions that are served now."""

    @property
    def sessions(self) -> int:
        """Sessions that are open."""


# Returns `ok`, or the state of what the endpoint depends on, and members for the answer.
HealthCheck: TypeAlias = Callable[[], Awaitable[tuple[str, Mapping[str, Json]]]]


class Health(msgspec.Struct, frozen=True):
    """The answer as it is written."""

    status: str
    name: str
    version: str
    connections: int
    sessions: int


async def health_answer(
    counts: Counts, name: str, version: str, check: HealthCheck | None = None, *, is_public: bool = False
) -> tuple[int, bytes]:
    """The status and the body. `is_public`: the state alone, for whoever asks under a foreign name."""
    more: Mapping[str, Json] = {}
    status = "ok"
    if check is not None:
        status, more = await check()
    if counts.is_draining:
        status = "draining"
    code = 200 if status == "ok" else 503
    if is_public:
        return code, msgspec.json.encode({"status": status})
    health = Health(status, name, version, counts.connections, counts.sessions)
    body = {**msgspec.structs.asdict(health), **more} if more else health
    return code, msgspec.json.encode(body)


__all__ = ["PATH", "Counts", "HealthCheck", "health_answer"]
