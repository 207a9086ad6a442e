"""The client credentials grant for programs (RFC 6749, 4.4; the MCP extension "OAuth Client Credentials")."""

import time
from collections.abc import Callable

from jackstay.errors import UsageError
from jackstay.oauth._authorizer import TokenAuthorizer
from jackstay.oauth._challenge import Scopes, scope_form
from jackstay.oauth._discovery import CLIENT_CREDENTIALS, Access
from jackstay.oauth._identity import Identity
from jackstay.oauth._registration import configured_client
from jackstay.oauth._store import TokenStore
from jackstay.oauth._tokens import Tokens, read_tokens, request_token
from jackstay.transport import HttpClient


class ClientCredentials(TokenAuthorizer):
    """Authorizes a program: `http(url, auth=ClientCredentials(Identity(client_id=..., client_secret=...,
    issuer=...)))`.

    The identity needs `client_secret`, or `private_key` and `signing_algorithm`. The secret is only sent to its
    `issuer`. A token is renewed automatically, because the grant needs no user.
    """

    renews_by_grant = True

    def __init__(
        self,
        identity: Identity,
        *,
        store: TokenStore | None = None,
        scopes: str | Scopes = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(identity, store, scopes, clock)
        self._check_identity(identity)

    def __repr__(self) -> str:
        """Without tokens and secrets."""
        return f"ClientCredentials({self.identity!r})"

    async def _grant(self, client: HttpClient, access: Access, scopes: Scopes) -> Tokens:
        registered = configured_client(self.identity, access)
        if registered is None:
            raise access.server.error(
                f"the server requires a token of {access.issuer}, but the identity is for {self.identity.issuer}"
            )
        self._bind(access)
        client_auth = self._client_auth(registered, access)
        form = await self._grant_form(client, access, scopes)
        form |= self.identity.resource_form(access.issuer, access.resource) | scope_form(scopes)
        response = await request_token(client, client_auth, form, self._clock())
        return read_tokens(response, client_auth, access.resource, scopes, self._clock())

    async def _grant_form(self, client: HttpClient, access: Access, scopes: Scopes) -> dict[str, str]:  # noqa: ARG002
        """Return the parameters of the token request that depend on the grant."""
        return {"grant_type": CLIENT_CREDENTIALS}

    def _check_identity(self, identity: Identity) -> None:
        """Raises: UsageError if the identity has no credentials."""
        if not identity.client_id or not (identity.client_secret or identity.private_key):
            raise UsageError("identity must have a client_id and a client_secret or a private_key", path="identity")
