"""Workload identity federation (RFC 7523, 2.1; the MCP extension "Workload Identity Federation")."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from jackstay.errors import UsageError
from jackstay.oauth._client_credentials import ClientCredentials
from jackstay.oauth._discovery import JWT_BEARER, Access
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._identity import Identity
from jackstay.oauth._store import TokenStore
from jackstay.transport import HttpClient

WorkloadToken: TypeAlias = str | Path | Callable[[], Awaitable[str]]


class WorkloadIdentity(ClientCredentials):
    """Authorizes a workload by the JWT that its platform gives it: `http(url, auth=WorkloadIdentity(identity, token))`.

    `identity` needs `client_id` and `issuer`; the JWT is only sent to that issuer. `token` is the JWT, the path of a
    file that the platform keeps current (as Kubernetes does), or an async function that returns it.
    """

    def __init__(
        self,
        identity: Identity,
        token: WorkloadToken,
        *,
        store: TokenStore | None = None,
        scopes: str | tuple[str, ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(identity, store=store, scopes=scopes, clock=clock)
        _check_token(token)
        self._workload_token = token

    def __repr__(self) -> str:
        """Without tokens and secrets."""
        return f"WorkloadIdentity({self.identity!r})"

    def _check_identity(self, identity: Identity) -> None:
        if not identity.client_id or not identity.issuer:
            raise UsageError("identity must have a client_id and an issuer", path="identity")

    async def _grant_form(self, client: HttpClient, access: Access, scopes: tuple[str, ...]) -> dict[str, str]:  # noqa: ARG002
        return {"grant_type": JWT_BEARER, "assertion": await self._assertion()}

    async def _assertion(self) -> str:
        """Return the current JWT of the workload."""
        token = self._workload_token
        if isinstance(token, str):
            return token
        if callable(token):
            return await token()
        try:
            return (await asyncio.to_thread(token.read_text, "ascii")).strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a JWT"
            raise AuthorizationError(
                f"the workload token cannot be read from {token}: {reason}", permanent=False
            ) from None


def _check_token(token: object) -> None:
    if token == "" or not (isinstance(token, str | Path) or callable(token)):
        raise UsageError(f"token must be a JWT, a Path or an async function, got {type(token).__name__}", path="token")
