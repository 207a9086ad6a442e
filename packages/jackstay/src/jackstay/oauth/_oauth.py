"""Access for people: the authorization code flow, with a browser or with a program that stands in for one.

Above: users, who hold an `OAuth`, and commands. Below: `_authorizer` (everything but the grant), `_flow`, `_browser`.
"""

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from jackstay.errors import UsageError
from jackstay.oauth._authorizer import TokenAuthorizer
from jackstay.oauth._browser import SIGN_IN_SECONDS, Redirect, open_page, through_browser
from jackstay.oauth._discovery import Access
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._flow import SignIn, begin, check_flow, code_form, read_callback
from jackstay.oauth._identity import Identity, RegisteredClient
from jackstay.oauth._listener import free_port, is_free
from jackstay.oauth._registration import forget_client, given_client, register, serves, stored_client
from jackstay.oauth._store import TokenStore
from jackstay.oauth._tokens import Applicant, Tokens, read_tokens, request_token
from jackstay.transport import HttpClient
from jackstay.transport.http import is_loopback

_PATH = "/callback"


class OAuth(TokenAuthorizer):
    """Signs people in: `http(url, auth=OAuth())`. A page opens in the browser when the server first wants to know who you are.

    `store` remembers tokens (`FileStore()` for the next run; without one, as long as the program runs). A program that cannot
    show a browser gives `redirect`, an async function from the URL to sign in at to the URL it was sent back to, with
    the `redirect_uri` that it answers at. `scopes` are asked for in addition to what the server wants. `show` is called
    with the page to open, instead of opening it; with None nobody is asked, and only what the store holds is used.
    `seconds` is how long people have.
    """

    def __init__(
        self,
        identity: Identity | None = None,
        *,
        store: TokenStore | None = None,
        scopes: str | tuple[str, ...] = (),
        redirect: Redirect | None = None,
        redirect_uri: str = "",
        show: Callable[[str], None] | None = open_page,
        seconds: float = SIGN_IN_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(identity, store, scopes, clock)
        _check_patience(show, seconds)
        if redirect_uri:
            _check_redirect_uri(redirect_uri, is_ours=redirect is None)
        elif redirect is not None:
            raise UsageError("redirect needs the redirect_uri that it answers at", path="redirect_uri")
        self._redirect = redirect
        self._redirect_uri = redirect_uri
        self._show = show
        self._seconds = seconds
        # What the transport looks for: how long somebody may be asked. A program that answers by itself has the same time.
        self.patience = 0.0 if show is None and redirect is None else seconds

    def __repr__(self) -> str:
        """Who it is for, never what it holds."""
        return f"OAuth({self.identity!r}, store={self.store!r})"

    async def _grant(self, client: HttpClient, access: Access, scopes: tuple[str, ...]) -> Tokens:
        check_flow(access, self.identity)
        if self._redirect is None and self._show is None:
            raise AuthorizationError(
                f"access to {access.resource} needs a sign-in at {access.issuer}, and nobody may be asked here",
                error="login_required",
                issuer=access.issuer,
            )
        registered, redirect_uri = await self._registered(client, access, scopes)
        sign_in = begin(access, registered.client_id, redirect_uri, scopes, self.identity)
        try:
            callback = await self._sent_back(sign_in)
        except BaseException:
            # An issuer that forgot the program says so in the browser, and nobody ever comes back: register anew next time.
            if registered.is_dynamic:
                await forget_client(self.store, access.issuer)
            raise
        code = read_callback(sign_in, callback)
        applicant = Applicant(registered, self.identity, access.server)
        try:
            answer = await request_token(client, applicant, code_form(sign_in, code), self._clock())
        except AuthorizationError as error:
            if error.error == "invalid_client" and registered.is_dynamic:
                await forget_client(self.store, access.issuer)  # as above
            raise
        return read_tokens(answer, applicant, access.resource, scopes, self._clock())

    async def _registered(
        self, client: HttpClient, access: Access, scopes: tuple[str, ...]
    ) -> tuple[RegisteredClient, str]:
        """Who we are there, and the way back that goes with it."""
        given = given_client(self.identity, access)
        if given is not None:
            if given.client_id == self.identity.client_id:
                self._bind(access)
            return given, self._redirect_uri or _loopback_uri(free_port())
        stored = await stored_client(self.store, access.issuer, self._clock())
        redirect_uri = self._redirect_uri or _usable_uri(stored)
        if stored is not None and serves(stored, redirect_uri, scopes):
            return stored, redirect_uri
        registered = await register(
            client,
            access,
            identity=self.identity,
            store=self.store,
            redirect_uri=redirect_uri,
            scopes=scopes,
        )
        return registered, redirect_uri

    async def _sent_back(self, sign_in: SignIn) -> str:
        """The URL that the browser, or who stands in for it, was sent back to."""
        if self._redirect is not None:
            return await self._redirect(sign_in.url)
        show = self._show or open_page
        return await through_browser(sign_in.url, sign_in.redirect_uri, sign_in.state, self._seconds, show)

    async def _client_of(self, tokens: Tokens, access: Access) -> RegisteredClient | None:
        for registered in (
            given_client(self.identity, access),
            await stored_client(self.store, access.issuer, self._clock()),
        ):
            if registered is not None and registered.client_id == tokens.client_id:
                return registered
        return None


def _check_patience(show: object, seconds: object) -> None:
    if show is not None and not callable(show):
        raise UsageError("show must be a function of the address, or None", path="show")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise UsageError(f"seconds must be a number above 0, not {seconds!r}", path="seconds")


def _check_redirect_uri(uri: str, *, is_ours: bool) -> None:
    """2026-07-28 basic/authorization, "Communication Security": loopback or https. We listen on loopback only.

    Raises: UsageError.
    """
    parts = urlsplit(uri)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(
            f"redirect_uri is {uri!r}; it must have no query and no fragment", path="redirect_uri"
        )
    if is_ours and (parts.scheme != "http" or not is_loopback(uri) or parts.port is None):
        raise UsageError(
            f"redirect_uri is {uri!r}; a listener needs http://127.0.0.1:PORT/PATH, anything else needs redirect=",
            path="redirect_uri",
        )
    if parts.scheme == "http" and not is_loopback(uri):
        raise UsageError(f"redirect_uri is {uri!r}; it must be https, or on loopback", path="redirect_uri")


def _loopback_uri(port: int) -> str:
    return f"http://127.0.0.1:{port}{_PATH}"


def _usable_uri(registered: RegisteredClient | None) -> str:
    """The redirect URI of the last registration while its port is free: many servers compare the port, too."""
    if registered is not None and is_loopback(registered.redirect_uri):
        port = urlsplit(registered.redirect_uri).port
        if port is not None and is_free(port):
            return registered.redirect_uri
    return _loopback_uri(free_port())
