"""Access that an organisation decides: its identity provider vouches for the user, and nobody is asked at each server.

Two steps (the extension "Enterprise-Managed Authorization"; draft-ietf-oauth-identity-assertion-authz-grant): the identity
provider exchanges the user's ID token for an assertion that is good for one authorization server and one resource (RFC 8693), and
that server takes the assertion for an access token (RFC 7523, 2.1).

Above: users. Below: `_client_credentials` (who we are at the server's side), `_tokens`.
"""

import time
from collections.abc import Awaitable, Callable

import msgspec

from jackstay.errors import UsageError
from jackstay.oauth._client_credentials import ClientCredentials
from jackstay.oauth._discovery import Access, find_authorization_server
from jackstay.oauth._documents import JWT_BEARER, TOKEN_EXCHANGE, AuthorizationServer
from jackstay.oauth._errors import AuthorizationError, quoted
from jackstay.oauth._identity import Identity, RegisteredClient
from jackstay.oauth._store import TokenStore
from jackstay.oauth._tokens import Applicant, Tokens, read_tokens, request_token
from jackstay.oauth._urls import check_url
from jackstay.transport import HttpClient

ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - the name of a type
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


class IdentityProvider(msgspec.Struct, frozen=True, kw_only=True):
    """Who vouches for the user. `token_endpoint`, or an `issuer` whose metadata names it.

    `client_id` is what you are there (with `client_secret`, or without for a public client). `id_token` is what the user signed
    in with: the token, or an async function that gives the current one, because ID tokens end within the hour.
    """

    client_id: str
    id_token: str | Callable[[], Awaitable[str]]
    issuer: str = ""
    token_endpoint: str = ""
    client_secret: str = ""

    def __post_init__(self) -> None:
        if not self.issuer and not self.token_endpoint:
            raise UsageError("an identity provider needs an issuer or a token_endpoint", path="issuer")
        for name in ("issuer", "token_endpoint"):
            url = getattr(self, name)
            if url:
                check_url(url, name, url)

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"IdentityProvider({self.issuer or self.token_endpoint!r}, client_id={self.client_id!r})"


class EnterpriseManaged(ClientCredentials):
    """Signs the user in by an organisation's identity provider: `http(url, auth=EnterpriseManaged(identity, provider))`.

    `identity` is what you are at the server's authorization server, as for `ClientCredentials`.
    """

    def __init__(
        self,
        identity: Identity,
        provider: IdentityProvider,
        *,
        store: TokenStore | None = None,
        scopes: str | tuple[str, ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(identity, store=store, scopes=scopes, clock=clock)
        self._provider = provider

    def __repr__(self) -> str:
        """Who it is for, never what it holds."""
        return f"EnterpriseManaged({self.identity!r}, {self._provider!r})"

    async def _grant(self, client: HttpClient, access: Access, scopes: tuple[str, ...]) -> Tokens:
        applicant = self._applicant(access)
        assertion = await self._vouched(client, access, scopes)
        form = {
            "grant_type": JWT_BEARER,
            "assertion": assertion,
            **self.identity.resource_form(access.issuer, access.resource),
        }
        if scopes:
            form["scope"] = " ".join(scopes)
        answer = await request_token(client, applicant, form, self._clock())
        return read_tokens(answer, applicant, access.resource, scopes, self._clock())

    async def _vouched(self, client: HttpClient, access: Access, scopes: tuple[str, ...]) -> str:
        """The assertion for this authorization server and this resource, from the identity provider."""
        provider = self._provider
        id_token = provider.id_token if isinstance(provider.id_token, str) else await provider.id_token()
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": access.issuer,
            "resource": access.resource,
            "subject_token": id_token,
            "subject_token_type": ID_TOKEN,
        }
        if scopes:
            form["scope"] = " ".join(scopes)
        there = await self._provider_server(client)
        registered = RegisteredClient(there.issuer, provider.client_id, provider.client_secret)
        answer = await request_token(client, Applicant(registered, Identity(), there), form, self._clock())
        if answer.issued_token_type != ID_JAG:
            raise AuthorizationError(
                f"{there.issuer} gave {quoted(answer.issued_token_type or 'no type')} instead of an identity assertion",
                issuer=there.issuer,
            )
        return answer.access_token

    async def _provider_server(self, client: HttpClient) -> AuthorizationServer:
        provider = self._provider
        if provider.token_endpoint:
            return AuthorizationServer(provider.issuer or provider.token_endpoint, provider.token_endpoint)
        found = await find_authorization_server(client, provider.issuer, (provider.issuer,), provider.issuer)
        if found is None:
            raise AuthorizationError(
                f"{provider.issuer} publishes no metadata: give the identity provider's token_endpoint",
                issuer=provider.issuer,
            )
        return found
