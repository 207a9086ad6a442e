"""The authenticated caller of an HTTP request, and the protocols `TokenVerifier` and `Guard`.

The endpoint calls its `Guard` before it reads a body. `BearerAuth` is a guard that delegates to token verifiers; any
object with the method `verify` is one.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from jackstay.errors import Json
from jackstay.protocol.http import ErrorResponse


class Principal(msgspec.Struct, frozen=True):
    """The caller of a request. `id` is empty without authentication.

    Sessions and sealed request states are bound to the id, so two callers must never share one. `claims` are the other
    claims of the token, for handlers.
    """

    id: str
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Json] = {}


# The principal of all callers without authentication.
ANONYMOUS: Final = Principal("")


@lru_cache(1024)
def caller_key(principal: str, peer: str) -> tuple[str, str]:
    """Return whom a session or a POST is counted for: the principal, or the address without authentication."""
    return ("principal", principal) if principal else ("peer", peer)


class TokenVerifier(Protocol):
    """Verifies bearer tokens."""

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token, or None if it is unknown, expired or issued for another audience.

        It is called for every request: cache expensive results. Never log the token. If it raises, the request gets
        503, because the token could not be verified.
        """


class Guard(Protocol):
    """Authenticates requests to an endpoint by their headers."""

    async def authenticate(self, method: str, path: str, headers: Mapping[str, str]) -> Principal | ErrorResponse:
        """Return the principal, or the error response that refuses the request. Header names are in lower case."""
