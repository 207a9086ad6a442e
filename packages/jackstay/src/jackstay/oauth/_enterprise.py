"""The MCP extension "Enterprise-Managed Authorization" (draft-ietf-oauth-identity-assertion-authz-grant).

The identity provider exchanges the user's ID token for an assertion for one authorization server and one resource (RFC
8693); the authorization server exchanges the assertion for an access token (RFC 7523, 2.1).
"""

import time
from collections.abc import Awaitable, Callable

import msgspec

from jackstay.errors import UsageError
from jackstay.oauth._challenge import Scopes, scope_form
from jackstay.oauth._client_credentials import ClientCredentials
from jackstay.oauth._discovery import JWT_BEARER, Access, AuthorizationServer, check_url, find_authorization_server
from jackstay.oauth._errors import AuthorizationError, quoted
from jackstay.oauth._identity import Identity, RegisteredClient
from jackstay.oauth._store import TokenStore
from jackstay.oauth._tokens import ClientAuth, request_token
from jackstay.transport import HttpClient

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - the name of a type
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


class IdentityProvider(msgspec.Struct, frozen=True, kw_only=True):
    """The identity provider of an organisation: a `token_endpoint`, or an `issuer` with metadata.

    `client_id` is the client at the provider (with `client_secret` unless it is a public client). `id_token` is the ID
    token of the user, or an async function that returns the current one, because ID tokens are short-lived.
    """

    client_id: str
    id_token: str | Callable[[], Awaitable[str]]
    issuer: str = ""
    token_endpoint: str = ""
    client_secret: str = ""

    def __post_init__(self) -> None:
        if not self.issuer and not self.token_endpoint:
            raise UsageError("IdentityProvider() requires issuer or token_endpoint", path="issuer")
        for name in ("issuer", "token_endpoint"):
            url = getattr(self, name)
            if url:
                check_url(url, name, url)

    def __repr__(self) -> str:
        """Without secrets."""
        return f"IdentityProvider({self.issuer or self.token_endpoint!r}, client_id={self.client_id!r})"


class EnterpriseManaged(ClientCredentials):
    """Authorizes by an organisation's identity provider: `http(url, auth=EnterpriseManaged(identity, provider))`.

    `identity` is the client at the authorization server of the MCP server, as for `ClientCredentials`.
    """

    def __init__(
        self,
        identity: Identity,
        provider: IdentityProvider,
        *,
        store: TokenStore | None = None,
        scopes: str | Scopes = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(identity, store=store, scopes=scopes, clock=clock)
        self._provider = provider

    def __repr__(self) -> str:
        """Without tokens and secrets."""
        return f"EnterpriseManaged({self.identity!r}, {self._provider!r})"

    async def _grant_form(self, client: HttpClient, access: Access, scopes: Scopes) -> dict[str, str]:
        """Request the assertion for this authorization server and resource from the identity provider."""
        provider = self._provider
        id_token = provider.id_token if isinstance(provider.id_token, str) else await provider.id_token()
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": access.issuer,
            "resource": access.resource,
            "subject_token": id_token,
            "subject_token_type": ID_TOKEN,
            **scope_form(scopes),
        }
        server = await self._provider_server(client)
        registered = RegisteredClient(server.issuer, provider.client_id, provider.client_secret)
        response = await request_token(client, ClientAuth(registered, Identity(), server), form, self._clock())
        if response.issued_token_type != ID_JAG:
            raise server.error(
                f"{server.issuer} issued a token of type {quoted(response.issued_token_type or '')}; expected {ID_JAG}"
            )
        return {"grant_type": JWT_BEARER, "assertion": response.access_token}

    async def _provider_server(self, client: HttpClient) -> AuthorizationServer:
        provider = self._provider
        if provider.token_endpoint:
            return AuthorizationServer(provider.issuer or provider.token_endpoint, provider.token_endpoint)
        found = await find_authorization_server(client, provider.issuer, provider.issuer)
        if found is None:
            raise AuthorizationError(
                f"{provider.issuer}: no metadata found; pass token_endpoint= of the identity provider",
                issuer=provider.issuer,
            )
        return found
