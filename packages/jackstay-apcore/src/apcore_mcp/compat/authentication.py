"""Authenticators of apcore-mcp: objects with `authenticate(headers)` that return an apcore identity or None."""

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from apcore_mcp.auth.jwt import IDENTITY_CLAIM
from jackstay.protocol.http import RETRY_HEADERS, ErrorResponse
from jackstay.protocol.wire import ErrorCode
from jackstay.server.http import BearerAuth, Principal

if TYPE_CHECKING:
    from apcore import Identity  # type: ignore[import-untyped]  # apcore ships no types

    from jackstay.server.http import Asgi, Receive, Scope, Send

logger = logging.getLogger("apcore_mcp.auth")

# The identity of the current request.
auth_identity_var: Final[ContextVar["Identity | None"]] = ContextVar("auth_identity", default=None)

# The paths that need no credentials unless `exempt_paths` is given.
EXEMPT_PATHS: Final = frozenset({"/health", "/metrics"})


@runtime_checkable
class Authenticator(Protocol):
    """Authenticates requests by their headers."""

    def authenticate(self, headers: dict[str, str]) -> "Identity | Awaitable[Identity | None] | None":
        """Return the identity of a request, or None; also as a coroutine. Header names are in lower case."""


async def call_authenticator(authenticator: Any, headers: Mapping[str, str]) -> "Identity | None":
    """Call an authenticator, which may be a coroutine function."""
    found = authenticator.authenticate(dict(headers))
    return await found if inspect.isawaitable(found) else found


def get_current_identity() -> "Identity | None":
    """Return the identity of the current request, or None."""
    return auth_identity_var.get()


def extract_headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of an ASGI scope, with names in lower case."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope.get("headers", ())}


class AuthenticatorAuth(BearerAuth):
    """An authenticator as `auth=` of `serve()`. It gets all headers, so it need not use bearer tokens."""

    def __init__(self, authenticator: Any) -> None:
        if not callable(getattr(authenticator, "authenticate", None)):
            raise TypeError(f"authenticator must have authenticate(headers), not {type(authenticator).__name__}")
        self._authenticator = authenticator
        super().__init__(self)

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a bearer token."""
        return _to_principal(await call_authenticator(self._authenticator, {"authorization": f"Bearer {token}"}))

    async def authenticate(self, method: str, path: str, headers: Mapping[str, str]) -> Principal | ErrorResponse:
        """Return the principal of a request, or the error response."""
        try:
            principal = _to_principal(await call_authenticator(self._authenticator, headers))
        except Exception as error:  # noqa: BLE001  # an authenticator may raise anything, and its text may have a token
            logger.error("the authenticator failed for %s %s: %s", method, path, type(error).__name__)
            return ErrorResponse(
                503, ErrorCode.INTERNAL_ERROR, "authentication failed; try again", headers=RETRY_HEADERS
            )
        return principal or self.challenge(401, None, "Missing or invalid Bearer token")


def _to_principal(identity: Any) -> Principal | None:
    if identity is None:
        return None
    claims: Any = {"type": identity.type, "attrs": dict(identity.attrs)}
    return Principal(identity.id, frozenset(identity.roles), {IDENTITY_CLAIM: claims})


class AuthMiddleware:
    """ASGI middleware for another app: sets `auth_identity_var`, and answers 401 to requests without an identity.

    `serve(authenticator=...)` does not need it.
    """

    def __init__(
        self,
        app: "Asgi",
        authenticator: Any,
        *,
        exempt_paths: Collection[str] | None = None,
        exempt_prefixes: Collection[str] | None = None,
        require_auth: bool = True,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._exempt = EXEMPT_PATHS if exempt_paths is None else frozenset(exempt_paths)
        self._prefixes = tuple(exempt_prefixes or ())
        self._is_required = require_auth

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope.get("path", "")
        is_exempt = path in self._exempt or path.startswith(self._prefixes)
        try:
            identity = await call_authenticator(self._authenticator, extract_headers(scope))
        except Exception:
            if not is_exempt:
                raise
            logger.warning("the authenticator failed for %s, which needs no credentials", path)
            identity = None
        if identity is None and self._is_required and not is_exempt:
            logger.warning("Authentication failed for %s", path)
            await _send_unauthorized(send)
            return
        reset = auth_identity_var.set(identity)
        try:
            await self._app(scope, receive, send)
        finally:
            auth_identity_var.reset(reset)


async def _send_unauthorized(send: "Callable[[dict[str, Any]], Awaitable[None]]") -> None:
    body = json.dumps({"error": "Unauthorized", "detail": "Missing or invalid Bearer token"}).encode()
    headers = [
        [b"content-type", b"application/json"],
        [b"www-authenticate", b"Bearer"],
        [b"content-length", str(len(body)).encode()],
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})


__all__ = [
    "EXEMPT_PATHS",
    "AuthMiddleware",
    "Authenticator",
    "AuthenticatorAuth",
    "auth_identity_var",
    "call_authenticator",
    "extract_headers",
    "get_current_identity",
]
