"""Authentication that some requests may do without: exempt paths, or every path with `require_auth=False`.

Valid credentials are always read, so that an ACL sees the identity also where none is required.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jackstay.server.http import ANONYMOUS, BearerAuth, Principal

if TYPE_CHECKING:
    from jackstay.protocol.http import ErrorResponse
    from jackstay.server.http import AuthLike

_UNAUTHORIZED = 401


class OptionalAuth(BearerAuth):
    """A guard that lets a request without valid credentials through, without an identity, where none is required."""

    def __init__(self, auth: "AuthLike", *, require_auth: bool, exempt_paths: Collection[str]) -> None:
        guard = _to_guard(auth)
        super().__init__(
            *guard.verifiers,
            resource=guard.resource,
            authorization_servers=guard.authorization_servers,
            scopes=guard.scopes,
            scopes_supported=guard.scopes_supported,
        )
        self._guard = guard
        self._is_required = require_auth
        self._exempt = frozenset(exempt_paths)

    def set_default_resource(self, resource: str) -> None:
        """Set the URL of the endpoint."""
        super().set_default_resource(resource)
        self._guard.set_default_resource(resource)

    async def authenticate(self, method: str, path: str, headers: Mapping[str, str]) -> "Principal | ErrorResponse":
        """Return the principal, or the error response for a request that needs one."""
        admitted = await self._guard.authenticate(method, path, headers)
        if isinstance(admitted, Principal) or (self._is_required and path not in self._exempt):
            return admitted
        return ANONYMOUS if admitted.status == _UNAUTHORIZED else admitted


def _to_guard(auth: Any) -> BearerAuth:
    if isinstance(auth, BearerAuth):
        return auth
    return BearerAuth(*auth) if isinstance(auth, Sequence) else BearerAuth(auth)


__all__ = ["OptionalAuth"]
