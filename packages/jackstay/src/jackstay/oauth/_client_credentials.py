"""Access for programs: the client itself is who signs in (RFC 6749, 4.4; the extension "OAuth Client Credentials").

Nobody is asked, so a token that ends is followed by another one.

Above: users. Below: `_authorizer`.
"""

import time
from collections.abc import Callable

from jackstay.errors import UsageError
from jackstay.oauth._authorizer import TokenAuthorizer
from jackstay.oauth._discovery import Access
from jackstay.oauth._documents import CLIENT_CREDENTIALS
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._identity import Identity, RegisteredClient
from jackstay.oauth._registration import given_client
from jackstay.oauth._store import TokenStore
from jackstay.oauth._tokens import Applicant, Tokens, read_tokens, request_token
from jackstay.transport import HttpClient


class ClientCredentials(TokenAuthorizer):
    """Signs the program in: `http(url, auth=ClientCredentials(Identity(client_id=..., client_secret=..., issuer=...)))`.

    The identity proves itself with `client_secret`, or with `private_key` and `signing_algorithm`. Name its `issuer`: then
    only that one ever sees the secret, whatever the server says.
    """

    renews_by_grant = True

    def __init__(
        self,
        identity: Identity,
        *,
        store: TokenStore | None = None,
        scopes: str | tuple[str, ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(identity, store, scopes, clock)
        check_confidential(identity)

    def __repr__(self) -> str:
        """Who it is for, never what it holds."""
        return f"ClientCredentials({self.identity!r})"

    async def _grant(self, client: HttpClient, access: Access, scopes: tuple[str, ...]) -> Tokens:
        applicant = self._applicant(access)
        form = {
            "grant_type": CLIENT_CREDENTIALS,
            **self.identity.resource_form(access.issuer, access.resource),
        }
        if scopes:
            form["scope"] = " ".join(scopes)
        answer = await request_token(client, applicant, form, self._clock())
        return read_tokens(answer, applicant, access.resource, scopes, self._clock())

    async def _client_of(self, tokens: Tokens, access: Access) -> RegisteredClient | None:
        registered = given_client(self.identity, access)
        return registered if registered is not None and registered.client_id == tokens.client_id else None

    def _applicant(self, access: Access) -> Applicant:
        """Who asks at that issuer. Raises: AuthorizationError where the identity is for another."""
        registered = given_client(self.identity, access)
        if registered is None:
            raise AuthorizationError(
                f"the server wants access from {access.issuer}, and the identity is for {self.identity.issuer}",
                issuer=access.issuer,
            )
        self._bind(access)
        return Applicant(registered, self.identity, access.server)


def check_confidential(identity: Identity) -> None:
    """Programs that sign in by themselves must be able to prove who they are. Raises: UsageError."""
    if not identity.client_id or not (identity.client_secret or identity.private_key):
        raise UsageError(
            "the identity needs a client_id, and a client_secret or a private_key to prove it",
            path="identity",
        )
