"""`OAuth`: the authorization code grant for users, with a browser or a custom redirect function."""

import time
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from jackstay.errors import UsageError
from jackstay.oauth._authorizer import TokenAuthorizer
from jackstay.oauth._browser import SIGN_IN_SECONDS, Redirect, free_port, is_free, open_browser, sign_in_with_browser
from jackstay.oauth._challenge import Scopes
from jackstay.oauth._discovery import Access
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._flow import begin, check_flow, read_callback
from jackstay.oauth._identity import Identity, RegisteredClient
from jackstay.oauth._registration import configured_client, covers_sign_in, delete_client, register, stored_client
from jackstay.oauth._store import TokenStore
from jackstay.oauth._tokens import Tokens, read_tokens, request_token
from jackstay.transport import HttpClient
from jackstay.transport.http import is_loopback

_PATH = "/callback"


class OAuth(TokenAuthorizer):
    """Signs the user in: `http(url, auth=OAuth())`. A browser page opens when the server first requires authorization.

    `store` keeps tokens (`FileStore()` across runs; default: in memory). `scopes` are requested in addition to those
    that the server requires. `show` is called with the URL to open; with None there is no sign-in, and only stored
    tokens are used. `sign_in_timeout` is the time for the sign-in in seconds.

    A program without a browser passes `redirect`, an async function that receives the URL to sign in at and returns the
    URL of the redirect, and its `redirect_uri`.
    """

    def __init__(
        self,
        identity: Identity | None = None,
        *,
        store: TokenStore | None = None,
        scopes: str | Scopes = (),
        redirect: Redirect | None = None,
        redirect_uri: str = "",
        show: Callable[[str], None] | None = open_browser,
        sign_in_timeout: float = SIGN_IN_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(identity, store, scopes, clock)
        _check_options(show, sign_in_timeout)
        if redirect_uri:
            _check_redirect_uri(redirect_uri, has_listener=redirect is None)
        elif redirect is not None:
            raise UsageError("redirect requires redirect_uri", path="redirect_uri")
        self._redirect = redirect
        self._redirect_uri = redirect_uri
        self._show = show
        self._seconds = sign_in_timeout
        # Read by the transport: 0.0 without a sign-in.
        self.sign_in_timeout = 0.0 if show is None and redirect is None else sign_in_timeout

    def __repr__(self) -> str:
        """Without tokens and secrets."""
        return f"OAuth({self.identity!r}, store={self.store!r})"

    async def _grant(self, client: HttpClient, access: Access, scopes: Scopes) -> Tokens:
        check_flow(access, self.identity)
        if self._redirect is None and self._show is None:
            raise access.server.error(
                f"{access.resource} requires a sign-in at {access.issuer}, which is disabled here (show=None)",
                error="login_required",
            )
        registered = await self._registered(client, access, scopes)
        redirect_uri = registered.redirect_uri
        client_auth = self._client_auth(registered, access)
        thumbprint = "" if client_auth.proofs is None else client_auth.proofs.thumbprint(client_auth.dpop_key)
        sign_in = begin(access, registered.client_id, redirect_uri, scopes, self.identity, thumbprint=thumbprint)
        try:
            if self._redirect is not None:
                callback = await self._redirect(sign_in.url)
            else:
                show = self._show or open_browser
                callback = await sign_in_with_browser(sign_in.url, redirect_uri, sign_in.state, self._seconds, show)
        except BaseException:
            # An issuer that has deleted the registration shows an error page and does not redirect: register again next
            # time.
            if registered.is_dynamic:
                await delete_client(self.store, access.issuer)
            raise
        code = read_callback(sign_in, callback)
        try:
            response = await request_token(client, client_auth, {**sign_in.token_form, "code": code}, self._clock())
        except AuthorizationError as error:
            if error.error == "invalid_client" and registered.is_dynamic:
                await delete_client(self.store, access.issuer)  # as above
            raise
        return read_tokens(response, client_auth, access.resource, scopes, self._clock())

    async def _registered(self, client: HttpClient, access: Access, scopes: Scopes) -> RegisteredClient:
        """Return the client at this issuer with the redirect URI to use; registers the client if necessary."""
        configured = configured_client(self.identity, access)
        if configured is not None:
            if configured.client_id == self.identity.client_id:
                self._bind(access)
            return msgspec.structs.replace(configured, redirect_uri=self._redirect_uri or _usable_uri(None))
        stored = await stored_client(self.store, access.issuer, self._clock())
        redirect_uri = self._redirect_uri or _usable_uri(stored)
        if stored is not None and covers_sign_in(stored, redirect_uri, scopes):
            return stored
        return await register(
            client, access, identity=self.identity, store=self.store, redirect_uri=redirect_uri, scopes=scopes
        )

    async def _client_for(self, tokens: Tokens, access: Access) -> RegisteredClient | None:
        configured = await super()._client_for(tokens, access)
        if configured is not None:
            return configured
        stored = await stored_client(self.store, access.issuer, self._clock())
        return stored if stored is not None and stored.client_id == tokens.client_id else None


def _check_options(show: object, seconds: object) -> None:
    if show is not None and not callable(show):
        raise UsageError(f"show must be a function or None, got {show!r}", path="show")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise UsageError(f"sign_in_timeout must be a positive number, got {seconds!r}", path="sign_in_timeout")


def _check_redirect_uri(uri: str, *, has_listener: bool) -> None:
    """Raises: UsageError unless it is https or loopback (2026-07-28 basic/authorization, "Communication Security").

    With the built-in listener it must be loopback.
    """
    parts = urlsplit(uri)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(
            f"redirect_uri must not have a query, a fragment or user info, got {uri!r}", path="redirect_uri"
        )
    if has_listener and (parts.scheme != "http" or not is_loopback(uri) or parts.port is None):
        raise UsageError(
            f"redirect_uri must be http://127.0.0.1:PORT/PATH, got {uri!r}; for another URI pass redirect=",
            path="redirect_uri",
        )
    if parts.scheme == "http" and not is_loopback(uri):
        raise UsageError(f"redirect_uri must be https or on loopback, got {uri!r}", path="redirect_uri")


def _usable_uri(registered: RegisteredClient | None) -> str:
    """Return the redirect URI of the last registration if its port is free, because many servers compare the port."""
    if registered is not None and is_loopback(registered.redirect_uri):
        port = urlsplit(registered.redirect_uri).port
        if port is not None and is_free(port):
            return registered.redirect_uri
    return f"http://127.0.0.1:{free_port()}{_PATH}"
