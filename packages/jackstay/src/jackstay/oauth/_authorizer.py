"""What every way to get a token has in common: whose it is, where it is kept, when it is renewed, and when to give up.

One authorizer may serve several servers: what it knows of each is a `Place`, and a token is only ever sent to the place it was
got for. Whoever needs a token while one is being got waits for that one: a person is asked once. The getting is a task of
its own, because a call that runs out of time must not close the page in which its user is typing a password.

Above: `_oauth`, `_client_credentials`, `_enterprise`, which know one grant each. Below: discovery, tokens, the store.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import ClassVar

import msgspec

from jackstay.errors import TransportError, UsageError
from jackstay.oauth._challenge import Demand, read_demand, read_scopes
from jackstay.oauth._discovery import Access, discover, find_authorization_server, find_resource
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._fetch import probe
from jackstay.oauth._flow import choose_scopes
from jackstay.oauth._identity import Identity, RegisteredClient
from jackstay.oauth._registration import forget_client
from jackstay.oauth._store import (
    MemoryStore,
    TokenStore,
    load_entry,
    save_entry,
    server_key,
    tokens_key,
)
from jackstay.oauth._tokens import Applicant, Tokens, refresh
from jackstay.transport import Challenge, HttpClient
from jackstay.transport.http import Headers

_LOG = logging.getLogger("jackstay.oauth")

# A server that refuses every token must not open a page for each of its refusals, and one that thinks of another scope
# each time must come to an end (2026-07-28 basic/authorization, "Step-Up Authorization Flow": retry limits). Five in five
# minutes leave room for somebody who mistypes, and for tools that want a scope each.
MAX_GRANTS = 5
GRANTS_WINDOW = 300.0
# A token that is refused so soon after it was given will not be better the second time.
FRESH_SECONDS = 10.0


class Known(msgspec.Struct, frozen=True):
    """Who gave access to a server last: an entry of the store."""

    issuer: str
    resource: str


class Place:
    """What is known of one server: how to get access, the tokens, and the getting that is under way."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.access: Access | None = None
        self.tokens: Tokens | None = None
        self.is_loaded = False
        self.getting: asyncio.Task[None] | None = None
        self.granted_at: deque[float] = deque(maxlen=MAX_GRANTS)

    @property
    def token(self) -> str:
        """The access token, or nothing."""
        return "" if self.tokens is None else self.tokens.access_token

    @property
    def scopes(self) -> tuple[str, ...]:
        """What it was asked for with."""
        return () if self.tokens is None else self.tokens.scopes


class TokenAuthorizer(ABC):
    """An `Authorizer` that gets bearer tokens. Subclasses say by which grant."""

    # True where the grant needs nobody, so that a token which ends is followed by another.
    renews_by_grant: ClassVar[bool] = False

    def __init__(
        self,
        identity: Identity | None,
        store: TokenStore | None,
        scopes: str | tuple[str, ...],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.identity = Identity() if identity is None else identity
        self.store: TokenStore = MemoryStore() if store is None else store
        _check_kinds(self.identity, self.store, scopes)
        words = scopes.split() if isinstance(scopes, str) else list(scopes)
        if list(read_scopes(" ".join(words))) != list(dict.fromkeys(words)):
            raise UsageError("scopes must be words of printable ASCII", path="scopes")
        self._extra_scopes = tuple(dict.fromkeys(words))
        self._clock = clock
        self._places: dict[str, Place] = {}
        # Where a client id goes that was given without its issuer: to the first that a server names, and to no other.
        self._bound_issuer = self.identity.issuer

    # ---- the contract ----

    async def headers(self, client: HttpClient, url: str) -> Headers:
        """The bearer header for `url`; nothing while there is no token. Renews a token that is due.

        Raises: McpError where it is due and cannot be renewed for now.
        """
        place = self._place(url)
        if not place.is_loaded:
            await self._load(place)
        if place.tokens is None and place.getting is not None:
            await self._wait(place.getting)
        tokens = place.tokens
        if tokens is not None and tokens.is_due(self._clock()) and self._can_renew(tokens):
            try:
                await self._share(place, self._renew_due(client, place, tokens))
            except TransportError as error:
                if self._clock() >= (tokens.expires_at or 0.0):
                    raise
                _LOG.warning("the token of %s will end soon, and was not renewed: %s", tokens.issuer, error)
        return (("Authorization", f"Bearer {place.token}"),) if place.token else ()

    async def challenged(self, client: HttpClient, challenge: Challenge) -> bool:
        """Get a token, or a better one. False where the refusal is about something else.

        Raises: AuthorizationError and others of `jackstay.errors`, where there is none to be had.
        """
        demand = read_demand(challenge.www_authenticate)
        is_step_up = challenge.status == 403
        if not demand.is_for_us or (is_step_up and demand.error != "insufficient_scope"):
            return False
        place = self._place(challenge.url)
        if not place.is_loaded:
            await self._load(place)
        while place.getting is not None:
            before = place.token
            await self._wait(place.getting)
            if place.token not in ("", before) and demand.is_met_by(place.scopes):
                return True
        await self._share(place, self._get(client, place, demand, is_step_up))
        return True

    async def sign_in(self, client: HttpClient, url: str) -> None:
        """Get a token for `url` now, before any call waits for it. Does nothing where there is one that is accepted.

        Raises: McpError.
        """
        held = await self.headers(client, url)
        status, headers = await probe(client, url, held)
        if status != 401 and (held or await find_resource(client, url, "") is None):
            return  # it is accepted; or the server wants nobody to sign in, and says nowhere who could
        field = headers.get("www-authenticate")
        demand = read_demand(() if field is None or status != 401 else (field,))
        place = self._place(url)
        await self._share(place, self._get(client, place, demand, is_step_up=False))

    # ---- one at a time ----

    async def _share(self, place: Place, getting: Coroutine[None, None, None]) -> None:
        """Wait for what is under way; else start `getting`, and wait for it. Who is cancelled does not end it."""
        if place.getting is not None:
            getting.close()
        else:
            task = asyncio.create_task(getting, name="jackstay-oauth")
            place.getting = task

            def forget(done: asyncio.Task[None]) -> None:
                place.getting = None
                if not done.cancelled() and done.exception() is not None:
                    # Who waits gets it too. Retrieved here for when nobody does any more.
                    _LOG.debug("no access to %s: %s", place.url.partition("?")[0], done.exception())

            task.add_done_callback(forget)
        await self._wait(place.getting)

    async def _wait(self, task: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if task.cancelled() and (waiting is None or not waiting.cancelling()):
                # Somebody ended the getting, and not who waits for it: to him it is an error like any other.
                raise AuthorizationError("the sign-in was cancelled", permanent=False) from None
            raise

    # ---- getting ----

    async def _get(self, client: HttpClient, place: Place, demand: Demand, is_step_up: bool) -> None:
        """Access after a refusal. What can be had without a grant is tried first, but not where scopes are missing."""
        refused = place.tokens
        place.access = access = await discover(
            client, place.url, demand.resource_metadata, self.identity.issuer
        )
        if refused is not None and (refused.issuer, refused.resource) != (access.issuer, access.resource):
            refused = None  # access is another's business now (2026-07-28: "Authorization Server Binding")
        earlier = refused.scopes if refused is not None else ()
        stored = await self._stored(access)
        if stored is not None and stored != refused and demand.is_met_by(stored.scopes):
            # Another program, or another authorizer with this store, was there first.
            if not stored.is_due(self._clock()):
                await self._keep(place, stored)
                return
            refused = stored
        elif refused is not None and is_step_up:
            self._check_step_up(access, demand, refused)
            refused = None  # what is refreshed has the scopes that it had
        self._count(place, access)
        if refused is not None:
            if await self._refresh(client, place, access, refused):
                return
            self._check_fresh(access, refused)
        scopes = choose_scopes(access, demand.scopes, earlier, self._extra_scopes)
        _LOG.info(
            "asking %s for access to %s (scopes: %s)",
            access.issuer,
            access.resource,
            " ".join(scopes) or "none",
        )
        await self._keep(place, await self._grant(client, access, scopes))

    async def _renew_due(self, client: HttpClient, place: Place, tokens: Tokens) -> None:
        """Renew what is about to end. Where that cannot be, the old one stays, and the server's 401 asks for more."""
        access = place.access
        if access is None or access.issuer != tokens.issuer:
            # From the store, or the server names another since: the issuer is known, its endpoints are not.
            server = await find_authorization_server(client, tokens.issuer, (tokens.issuer,), place.url)
            if server is None:
                return  # one of 2025-03-26 without metadata: found again when the server refuses the token
            access = Access(tokens.resource, server)
            if place.access is None:
                place.access = access
        stored = await self._stored(access)
        if stored is not None and stored != tokens and not stored.is_due(self._clock()):
            place.tokens = stored
            return
        if not await self._refresh(client, place, access, tokens) and self.renews_by_grant:
            await self._keep(place, await self._grant(client, access, tokens.scopes))

    async def _refresh(self, client: HttpClient, place: Place, access: Access, tokens: Tokens) -> bool:
        """Use the refresh token, if there is one. False where it is no good any more, which is no error: people sign in."""
        if tokens.refresh_token is None or tokens.issuer != access.issuer:
            return False
        # A refresh token may be used once, and the second use may revoke them all (RFC 9700, 4.14.2): one at a time, whoever
        # shares the store, and never one that another has spent.
        async with self.store.lock(tokens_key(access.issuer, access.resource)):
            stored = await self._stored(access)
            if stored is not None and stored != tokens and stored.obtained_at >= tokens.obtained_at:
                place.tokens = tokens = stored
                if not stored.is_due(self._clock()):
                    return True
                if stored.refresh_token is None:
                    return False
            return await self._use_refresh_token(client, place, access, tokens)

    async def _use_refresh_token(
        self, client: HttpClient, place: Place, access: Access, tokens: Tokens
    ) -> bool:
        registered = await self._client_of(tokens, access)
        if registered is None:
            return False
        applicant = Applicant(registered, self.identity, access.server)
        try:
            renewed = await refresh(client, applicant, tokens, self._clock())
        except AuthorizationError as error:
            _LOG.info(
                "%s did not renew access to %s: %s",
                access.issuer,
                access.resource,
                error.error or error.message,
            )
            if error.error in ("invalid_client", "unauthorized_client") and registered.is_dynamic:
                await forget_client(self.store, access.issuer)
            stored = await self._stored(access)
            if stored is not None and stored != tokens:
                # Somebody signed in meanwhile, which needs no lock.
                place.tokens = stored
                return not stored.is_due(self._clock())
            # Spent or revoked: it must not be tried again with every request.
            await self._keep(place, msgspec.structs.replace(tokens, refresh_token=None))
            return False
        await self._keep(place, renewed)
        return True

    @abstractmethod
    async def _grant(self, client: HttpClient, access: Access, scopes: tuple[str, ...]) -> Tokens:
        """Get tokens, by the grant of the subclass. Raises: McpError."""

    @abstractmethod
    async def _client_of(self, tokens: Tokens, access: Access) -> RegisteredClient | None:
        """The client that those tokens were given to, or None where it is no longer ours."""

    # ---- when to give up ----

    def _check_step_up(self, access: Access, demand: Demand, refused: Tokens) -> None:
        if set(demand.scopes) <= set(refused.scopes):
            raise AuthorizationError(
                f"the server wants {' '.join(demand.scopes) or 'another scope'}, which was asked for already, and "
                f"{access.issuer} granted {' '.join(refused.granted) or 'nothing'}: this account may not do that",
                error="insufficient_scope",
                issuer=access.issuer,
            )

    def _check_fresh(self, access: Access, refused: Tokens) -> None:
        if self._clock() - refused.obtained_at < FRESH_SECONDS:
            raise AuthorizationError(
                f"the server refuses the token that {access.issuer} has just given; one of the two is set up wrongly",
                issuer=access.issuer,
                permanent=False,
            )

    def _count(self, place: Place, access: Access) -> None:
        now = self._clock()
        times = place.granted_at
        if len(times) == MAX_GRANTS and now - times[0] < GRANTS_WINDOW:
            raise AuthorizationError(
                f"{MAX_GRANTS} tokens within {GRANTS_WINDOW / 60:g} minutes, and the server still refuses",
                issuer=access.issuer,
                permanent=False,
            )
        times.append(now)

    # ---- what is known, and kept ----

    def _can_renew(self, tokens: Tokens) -> bool:
        return self.renews_by_grant or tokens.refresh_token is not None

    def _bind(self, access: Access) -> None:
        """A client that was given without its issuer belongs to the first that is met.

        Raises: AuthorizationError where it is to be sent to another.
        """
        if not self._bound_issuer:
            self._bound_issuer = access.issuer
        elif self._bound_issuer != access.issuer:
            raise AuthorizationError(
                f"your client_id was used at {self._bound_issuer}, and goes nowhere else; this server wants access from "
                f"{access.issuer}: use another authorizer for it, with Identity(issuer=...)",
                issuer=access.issuer,
            )

    def _place(self, url: str) -> Place:
        place = self._places.get(url)
        if place is None:
            plain = url.partition("#")[0]
            place = self._places[url] = self._places.setdefault(plain, Place(plain))
        return place

    async def _load(self, place: Place) -> None:
        """What the store knows of this server. Requests that begin together may all ask; what was got meanwhile counts."""
        known = await load_entry(self.store, server_key(place.url), Known)
        if known is not None:
            tokens = await load_entry(self.store, tokens_key(known.issuer, known.resource), Tokens)
            if (
                tokens is not None
                and not place.is_loaded
                and self._is_ours(tokens, known.issuer, known.resource)
            ):
                place.tokens = tokens
        place.is_loaded = True

    async def _stored(self, access: Access) -> Tokens | None:
        tokens = await load_entry(self.store, tokens_key(access.issuer, access.resource), Tokens)
        return (
            tokens if tokens is not None and self._is_ours(tokens, access.issuer, access.resource) else None
        )

    def _is_ours(self, tokens: Tokens, issuer: str, resource: str) -> bool:
        """False for tokens of another client: they were got under another name."""
        is_right = (tokens.issuer, tokens.resource) == (issuer, resource)
        return is_right and self.identity.client_id in ("", tokens.client_id)

    async def _keep(self, place: Place, tokens: Tokens) -> None:
        place.tokens, place.is_loaded = tokens, True
        await save_entry(self.store, tokens_key(tokens.issuer, tokens.resource), tokens)
        await save_entry(self.store, server_key(place.url), Known(tokens.issuer, tokens.resource))


def _check_kinds(identity: object, store: object, scopes: object) -> None:
    if not isinstance(identity, Identity):
        raise UsageError(f"identity must be an Identity(...), not {type(identity).__name__}", path="identity")
    if not isinstance(store, TokenStore):
        raise UsageError(
            "store must be FileStore(), MemoryStore(), or have load(), save() and lock() as TokenStore has",
            path="store",
        )
    if not isinstance(scopes, Iterable):
        raise UsageError(f"scopes must be words, not {scopes!r}", path="scopes")
