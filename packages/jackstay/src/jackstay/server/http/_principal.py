"""Whom an HTTP request comes from, and the two contracts about it: who checks a token, and who admits a request.

The endpoint asks its `Guard` before it reads a body, and gets a `Principal` or the refusal to send. What a token looks
like and how it is checked is a `TokenVerifier`'s affair; yours may be any object with that one method.

Must never know a header's name, a session or a connection. Above: `_auth` (the guards that come with us), the endpoint.
Below: `jackstay.protocol.http` for the shape of a refusal.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from jackstay.errors import Json
from jackstay.protocol.http import Refusal
from jackstay.server._driver import Caller

if TYPE_CHECKING:
    from jackstay.server._driver import Driver


class Principal(msgspec.Struct, frozen=True):
    """Whom a request comes from. `id` is empty where nobody was asked to prove anything.

    The id is bound to a session and into every sealed request state, so two callers must never share one. `claims` is
    what else the token says, for handlers.
    """

    id: str
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Json] = {}


# Where there is no authentication everyone is this one.
NOBODY: Final = Principal("")


def prove(connection: "Driver", principal: Principal) -> None:
    """The next message of this connection comes from this one; a session asks first that the id is its own."""
    connection.caller = Caller(principal.id, principal.scopes, principal.claims)


def owner_of(principal: str) -> tuple[str, str] | None:
    """Who waits for threads in turn with others; None, where nobody had to authenticate: the connection itself."""
    return ("principal", principal) if principal else None


def holder_of(principal: str, peer: str) -> tuple[str, str]:
    """Whose a session or a POST is: the principal's, or the address's where nobody had to authenticate."""
    return ("principal", principal) if principal else ("peer", peer)


class TokenVerifier(Protocol):
    """Checks bearer tokens."""

    async def verify(self, token: str) -> Principal | None:
        """Whom this token proves, or None if it is not valid: unknown, expired, or meant for somebody else.

        It is called for every request, so keep what was found where that costs much. Never log the token. What it
        raises is answered as 503: the token could not be checked, which says nothing against it.
        """


class Guard(Protocol):
    """Admits requests to an endpoint, by their headers alone."""

    async def admit(self, method: str, path: str, headers: Mapping[str, str]) -> Principal | Refusal:
        """Whom it comes from, or the answer that refuses it. Header names are in lower case."""


__all__ = ["NOBODY", "Guard", "Principal", "TokenVerifier", "holder_of", "owner_of", "prove"]
