"""What a load balancer asks: whether this process should get requests, and what it is.

`200` while it serves, `503` from the moment it drains, so that a balancer sends nothing more while running calls end.
Counts are for people who look.

Must never know how a request is served. Above: `_edge`. Below: `_server` for the name.
"""

from typing import Final, Protocol

import msgspec

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


class Health(msgspec.Struct, frozen=True):
    """The answer as it is written."""

    status: str
    name: str
    version: str
    connections: int
    sessions: int


def health_answer(counts: Counts, name: str, version: str) -> tuple[int, bytes]:
    """The status and the body."""
    status = "draining" if counts.is_draining else "ok"
    health = Health(status, name, version, counts.connections, counts.sessions)
    return (503 if counts.is_draining else 200), msgspec.json.encode(health)


__all__ = ["PATH", "Counts", "health_answer"]
