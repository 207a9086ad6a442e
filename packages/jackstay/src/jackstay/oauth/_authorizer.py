"""`TokenAuthorizer`: the part of authorization that is common to all grants.

It obtains, stores and refreshes tokens for one or more servers; a token is only sent to the server it was issued for.
Concurrent requests share one sign-in, which runs in its own task: a call that times out must not abort the page in
which the user is typing a password.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import ClassVar

import msgspec

from jackstay.errors import McpError, TransportError, UsageError
from jackstay.oauth._challenge import BearerChallenge, Scopes, read_bearer_challenge, read_scopes
from jackstay.oauth._discovery import Access, discover, find_authorization_server, find_resource
from jackstay.oauth._dpop import ALGORITHM, NONCE_REQUIRED, Proofs
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._fetch import probe
from jackstay.oauth._flow import choose_scopes
from jackstay.oauth._identity import Identity, RegisteredClient
from jackstay.oauth._registration import configured_client, delete_client
from jackstay.oauth._store import MemoryStore, TokenStore, load_entry, save_entry, server_key, tokens_key
from jackstay.oauth._tokens import ClientAuth, Tokens, refresh
from jackstay.transport import Challenge, HttpClient
from jackstay.transport.http import Headers

_LOG = logging.getLogger("jackstay.oauth")

# Limits sign-ins for a server that rejects every token or requires another scope each time (2026-07-28
# basic/authorization, "Step-Up Authorization Flow": retry limits). Five in five minutes leave room for a mistyped
# password and for tools with different scopes.
MAX_GRANTS = 5
GRANTS_WINDOW = 300.0
# If a token is rejected this soon after it was issued, the next one would be rejected as well.
FRESH_SECONDS = 10.0


class KnownServer(msgspec.Struct, frozen=True):
    """An entry of the store: the issuer and the resource of a server's last token."""

    issuer: str
    resource: str


class ServerState(msgspec.Struct, eq=False):
    """What is known about one MCP server: its authorization server, the tokens, and the pending authorization."""

    url: str
    access: Access | None = None
    tokens: Tokens | None = None
    is_loaded: bool = False
    pending: "asyncio.Task[None] | None" = None
    granted_at: deque[float] = msgspec.field(default_factory=partial(deque, maxlen=MAX_GRANTS))

    @property
    def token(self) -> str:
        """The access token, or an empty string."""
        return "" if self.tokens is None else self.tokens.access_token


class TokenAuthorizer(ABC):
    """An `Authorizer` that obtains tokens, bound to a key if the server requires DPoP; subclasses implement a grant."""

    # True if the grant needs no user, so that it can be repeated when a token expires.
    renews_by_grant: ClassVar[bool] = False

    def __init__(
        self, identity: Identity | None, store: TokenStore | None, scopes: str | Scopes, clock: Callable[[], float]
    ) -> None:
        self.identity = Identity() if identity is None else identity
        self.store: TokenStore = MemoryStore() if store is None else store
        _check_types(self.identity, self.store, scopes)
        self._extra_scopes = tuple(dict.fromkeys(scopes.split() if isinstance(scopes, str) else scopes))
        if read_scopes(" ".join(self._extra_scopes)) != self._extra_scopes:
            raise UsageError(f"scopes must be printable ASCII without spaces, got {scopes!r}", path="scopes")
        self._clock = clock
        self._server_states: dict[str, ServerState] = {}
        self._proofs = Proofs(clock)
        # The issuer that a client id without `issuer` is bound to: the first one that a server names.
        self._bound_issuer = self.identity.issuer
        # The last tokens could not be stored, which was logged.
        self._is_store_failing = False

    async def sign_out(self, url: str) -> bool:
        """Delete the stored tokens of this server; return whether there were any. They are not revoked at the issuer.

        The registration of the client is kept, because other servers of the same issuer use it.
        """
        server = self._server_state(url)
        server.tokens, server.is_loaded = None, False
        known = await load_entry(self.store, server_key(server.url), KnownServer)
        if known is None:
            return False
        key = tokens_key(known.issuer, known.resource)
        async with self.store.lock(key):  # a program that refreshes them now would save them again
            is_stored = await self.store.load(key) is not None
            await self.store.save(key, None)
            await self.store.save(server_key(server.url), None)
        return is_stored

    # ---- the Authorizer protocol ----

    async def headers(self, client: HttpClient, url: str) -> Headers:
        """Return the bearer header for `url`, or nothing without a token. Refreshes a token that is about to expire.

        Raises: McpError if the token has expired and cannot be refreshed for now.
        """
        server = await self._loaded_state(url)
        if server.tokens is None and server.pending is not None:
            await self._wait_for(server.pending)
        tokens = server.tokens
        if tokens is not None and tokens.is_due(self._clock()) and (self.renews_by_grant or tokens.refresh_token):
            try:
                await self._run_shared(server, self._renew_due(client, server, tokens))
            except TransportError as error:
                if self._clock() >= (tokens.expires_at or 0.0):
                    raise
                _LOG.warning("the token of %s expires soon and could not be refreshed: %s", tokens.issuer, error)
        if server.tokens is None:
            return ()
        return (("Authorization", f"{'DPoP' if server.tokens.dpop_key else 'Bearer'} {server.token}"),)

    async def challenged(self, client: HttpClient, challenge: Challenge) -> bool:
        """Obtain a token, or one with more scopes. Returns False if the response does not request one.

        Raises: AuthorizationError or another McpError if no token can be obtained.
        """
        bearer = read_bearer_challenge(challenge.www_authenticate)
        is_step_up = challenge.status == 403
        if not (bearer.is_bearer or bearer.has_dpop) or (is_step_up and bearer.error != "insufficient_scope"):
            return False
        server = await self._loaded_state(challenge.url)
        while server.pending is not None:
            before = server.token
            await self._wait_for(server.pending)
            if server.tokens is not None and server.token != before and bearer.is_met_by(server.tokens.scopes):
                return True
        await self._run_shared(server, self._obtain(client, server, bearer, is_step_up))
        return True

    def prove(self, url: str, method: str, target: str) -> Headers:
        """Return the proof for a request to `target` with the token of the server at `url`, if it is bound to a key."""
        tokens = self._server_state(url).tokens
        if tokens is None or not tokens.dpop_key:
            return ()
        return self._proofs.header(tokens.dpop_key, method, target, tokens.access_token)

    def note_response(self, target: str, headers: Mapping[str, str]) -> None:
        """Remember the nonce of a response for the next proof."""
        self._proofs.note_response(target, headers)

    def requires_nonce(self, challenge: Challenge) -> bool:
        """Return whether the request only has to be repeated, with the nonce of this response in its proof."""
        bearer = read_bearer_challenge(challenge.www_authenticate)
        return bearer.has_dpop and bearer.error == NONCE_REQUIRED and bool(self._proofs.nonce(challenge.url))

    async def sign_in(self, client: HttpClient, url: str) -> None:
        """Obtain a token for `url` before the first call. Does nothing if the server accepts the current one.

        Raises: McpError.
        """
        current = await self.headers(client, url)
        for _ in range(2):
            status, headers = await probe(client, url, (*current, *self.prove(url, "GET", url)))
            self.note_response(url, headers)
            fields = (headers.get("www-authenticate", ""),)
            if not self.requires_nonce(Challenge(url, status, fields)):
                break
        if status != 401 and (current or await find_resource(client, url, "") is None):
            return  # the token is accepted, or the server requires no authorization and publishes no metadata
        bearer = read_bearer_challenge(fields if status == 401 else ())
        server = self._server_state(url)
        await self._run_shared(server, self._obtain(client, server, bearer, is_step_up=False))

    # ---- sharing one pending authorization ----

    async def _run_shared(self, server: ServerState, authorization: Coroutine[None, None, None]) -> None:
        """Wait for the pending authorization; if there is none, start this one. Cancelling a waiter does not end it."""
        if server.pending is not None:
            authorization.close()
        else:
            task = asyncio.create_task(authorization, name="jackstay-oauth")
            server.pending = task

            def on_done(done: asyncio.Task[None]) -> None:
                server.pending = None
                if not done.cancelled() and done.exception() is not None:
                    # Waiters receive it as well; this marks it as retrieved if there are none left.
                    _LOG.debug("authorization for %s failed: %s", server.url.partition("?")[0], done.exception())

            task.add_done_callback(on_done)
        await self._wait_for(server.pending)

    async def _wait_for(self, task: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            if task.cancelled() and (waiter is None or not waiter.cancelling()):
                # The sign-in was cancelled, not this waiter, so this is an ordinary error.
                raise AuthorizationError("the sign-in was cancelled", permanent=False) from None
            raise

    # ---- obtaining tokens ----

    async def _obtain(self, client: HttpClient, server: ServerState, bearer: BearerChallenge, is_step_up: bool) -> None:
        """Obtain tokens after a challenge: from the store, by a refresh unless scopes are missing, or by a grant."""
        rejected = server.tokens
        access = await discover(client, server.url, bearer.resource_metadata, self.identity.issuer)
        server.access = access = _with_dpop(access, bearer)
        if rejected is not None and (rejected.issuer, rejected.resource) != (access.issuer, access.resource):
            # The authorization server has changed (2026-07-28 basic/authorization, "Authorization Server Binding").
            rejected = None
        earlier = rejected.scopes if rejected is not None else ()
        stored = await self._stored(access)
        if stored is not None and stored != rejected and bearer.is_met_by(stored.scopes):
            # Another program or authorizer with this store has obtained tokens meanwhile.
            if not stored.is_due(self._clock()):
                await self._save(server, stored)
                return
            rejected = stored
        elif rejected is not None and is_step_up:
            self._check_step_up(access, bearer, rejected)
            rejected = None  # a refreshed token has the same scopes
        self._check_grant_rate(server, access)
        if rejected is not None:
            if await self._refresh(client, server, access, rejected):
                return
            self._check_fresh(access, rejected)
        scopes = choose_scopes(access, bearer.scopes, earlier, self._extra_scopes)
        _LOG.info(
            "requesting a token from %s for %s (scopes: %s)", access.issuer, access.resource, " ".join(scopes) or "none"
        )
        await self._save(server, await self._grant(client, access, scopes))

    async def _renew_due(self, client: HttpClient, server: ServerState, tokens: Tokens) -> None:
        """Refresh a token that is about to expire. If that fails, the token is kept until the server rejects it."""
        access = server.access
        if access is None or access.issuer != tokens.issuer:
            # The tokens are from the store, or the server has changed its issuer: the endpoints are not known.
            issuer = await find_authorization_server(client, tokens.issuer, server.url)
            if issuer is None:
                return  # a 2025-03-26 server without metadata: discovered again when it rejects the token
            access = Access(tokens.resource, issuer, uses_dpop=bool(tokens.dpop_key))
            if server.access is None:
                server.access = access
        stored = await self._stored(access)
        if stored is not None and stored != tokens and not stored.is_due(self._clock()):
            server.tokens = stored
            return
        if not await self._refresh(client, server, access, tokens) and self.renews_by_grant:
            await self._save(server, await self._grant(client, access, tokens.scopes))

    async def _refresh(self, client: HttpClient, server: ServerState, access: Access, tokens: Tokens) -> bool:
        """Use the refresh token, if there is one. Returns False if it is no longer valid; a sign-in follows then."""
        if tokens.refresh_token is None or tokens.issuer != access.issuer:
            return False
        if access.uses_dpop != bool(tokens.dpop_key):
            return False  # the server requires the other kind of token now
        # Reuse of a refresh token may revoke all tokens (RFC 9700, 4.14.2). So all users of the store refresh one at a
        # time, and never use a refresh token that another has used.
        async with self.store.lock(tokens_key(access.issuer, access.resource)):
            stored = await self._stored(access)
            if stored is not None and stored != tokens and stored.obtained_at >= tokens.obtained_at:
                server.tokens = tokens = stored
                if not stored.is_due(self._clock()):
                    return True
                if stored.refresh_token is None:
                    return False
            return await self._use_refresh_token(client, server, access, tokens)

    async def _use_refresh_token(self, client: HttpClient, server: ServerState, access: Access, tokens: Tokens) -> bool:
        registered = await self._client_for(tokens, access)
        if registered is None:
            return False
        client_auth = self._client_auth(registered, access, tokens.dpop_key)
        try:
            renewed = await refresh(client, client_auth, tokens, self._clock())
        except AuthorizationError as error:
            _LOG.info(
                "%s did not refresh the token for %s: %s", access.issuer, access.resource, error.error or error.message
            )
            if error.error in ("invalid_client", "unauthorized_client") and registered.is_dynamic:
                await delete_client(self.store, access.issuer)
            stored = await self._stored(access)
            if stored is not None and stored != tokens:
                # Another program signed in meanwhile, which needs no lock.
                server.tokens = stored
                return not stored.is_due(self._clock())
            # Used or revoked: it must not be tried again with every request.
            await self._save(server, msgspec.structs.replace(tokens, refresh_token=None))
            return False
        await self._save(server, renewed)
        return True

    def _client_auth(self, registered: RegisteredClient, access: Access, dpop_key: str = "") -> ClientAuth:
        if not access.uses_dpop:
            return ClientAuth(registered, self.identity, access.server)
        key = dpop_key or self._proofs.own_key()
        return ClientAuth(registered, self.identity, access.server, self._proofs, key)

    @abstractmethod
    async def _grant(self, client: HttpClient, access: Access, scopes: Scopes) -> Tokens:
        """Obtain tokens by the grant of the subclass. Raises: McpError."""

    async def _client_for(self, tokens: Tokens, access: Access) -> RegisteredClient | None:
        """Return the client that these tokens were issued to, or None if it is no longer registered."""
        registered = configured_client(self.identity, access)
        return registered if registered is not None and registered.client_id == tokens.client_id else None

    # ---- limits ----

    def _check_step_up(self, access: Access, bearer: BearerChallenge, rejected: Tokens) -> None:
        if set(bearer.scopes) <= set(rejected.scopes):
            raise access.server.error(
                f"insufficient scope: the server requires {' '.join(bearer.scopes) or 'another scope'}, which was"
                f" already requested, but {access.issuer} granted {' '.join(rejected.granted) or 'none'}"
                "; use another account",
                error="insufficient_scope",
            )

    def _check_fresh(self, access: Access, rejected: Tokens) -> None:
        if self._clock() - rejected.obtained_at < FRESH_SECONDS:
            raise access.server.error(
                f"the server rejects the token that {access.issuer} just issued; check the configuration of both",
                permanent=False,
            )

    def _check_grant_rate(self, server: ServerState, access: Access) -> None:
        now = self._clock()
        times = server.granted_at
        if len(times) == MAX_GRANTS and now - times[0] < GRANTS_WINDOW:
            raise access.server.error(
                f"the server rejected {MAX_GRANTS} tokens within {GRANTS_WINDOW / 60:g} minutes; try again later",
                permanent=False,
            )
        times.append(now)

    # ---- stored state ----

    def _bind(self, access: Access) -> None:
        """Bind a client id without `issuer` to the first issuer.

        Raises: AuthorizationError if it would be sent to another issuer.
        """
        if not self._bound_issuer:
            self._bound_issuer = access.issuer
        elif self._bound_issuer != access.issuer:
            raise access.server.error(
                f"the client_id is bound to {self._bound_issuer} and is not sent to {access.issuer}, which this server "
                "requires; use another authorizer with Identity(issuer=...) for it"
            )

    def _server_state(self, url: str) -> ServerState:
        server = self._server_states.get(url)
        if server is None:
            plain = url.partition("#")[0]
            server = self._server_states[url] = self._server_states.setdefault(plain, ServerState(plain))
        return server

    async def _loaded_state(self, url: str) -> ServerState:
        """Load the tokens of this server. Concurrent requests may all load them; newer ones are not overwritten."""
        server = self._server_state(url)
        if server.is_loaded:
            return server
        known = await load_entry(self.store, server_key(server.url), KnownServer)
        tokens = None if known is None else await self._stored(known)
        if tokens is not None and not server.is_loaded:
            server.tokens = tokens
        server.is_loaded = True
        return server

    async def _stored(self, known: Access | KnownServer) -> Tokens | None:
        """Return the tokens of this issuer for this resource, if they were issued to this client."""
        tokens = await load_entry(self.store, tokens_key(known.issuer, known.resource), Tokens)
        if tokens is None or (tokens.issuer, tokens.resource) != (known.issuer, known.resource):
            return None
        return tokens if self.identity.client_id in ("", tokens.client_id) else None

    async def _save(self, server: ServerState, tokens: Tokens) -> None:
        """Use the tokens and store them. They are valid even if they cannot be stored: that is logged, once."""
        server.tokens, server.is_loaded = tokens, True
        try:
            await save_entry(self.store, tokens_key(tokens.issuer, tokens.resource), tokens)
            await save_entry(self.store, server_key(server.url), KnownServer(tokens.issuer, tokens.resource))
        except McpError as error:
            if not self._is_store_failing:
                _LOG.warning("the tokens of %s are used but could not be stored: %s", tokens.issuer, error)
            self._is_store_failing = True
        else:
            self._is_store_failing = False


def _with_dpop(access: Access, bearer: BearerChallenge) -> Access:
    """Decide whether the tokens are bound to a key: if the server accepts that and the issuer supports it.

    Raises: AuthorizationError if the server requires it and the issuer does not support it.
    """
    if not (access.uses_dpop or bearer.has_dpop):
        return access
    supported = access.server.dpop_signing_alg_values_supported or ()
    if ALGORITHM not in supported:
        if bearer.is_bearer and not access.uses_dpop:
            return access
        raise access.server.error(
            f"the server requires tokens with DPoP, but {access.issuer} does not support it with {ALGORITHM}"
            f" (supported: {', '.join(supported[:8]) or 'none'})"
        )
    return msgspec.structs.replace(access, uses_dpop=True)


def _check_types(identity: object, store: object, scopes: object) -> None:
    if not isinstance(identity, Identity):
        raise UsageError(f"identity must be an Identity, got {type(identity).__name__}", path="identity")
    if not isinstance(store, TokenStore):
        raise UsageError(
            f"store must implement TokenStore (load, save, lock), got {type(store).__name__}", path="store"
        )
    if not isinstance(scopes, Iterable):
        raise UsageError(f"scopes must be a str or a tuple[str, ...], got {scopes!r}", path="scopes")
