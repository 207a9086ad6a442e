"""Authentication of callers: the protocol `Guard`, and bearer tokens with challenges and protected-resource metadata.

Implements RFC 6750, RFC 9728 and MCP 2026-07-28 basic/authorization. Tokens are read from the `Authorization` header
only and are never logged.
"""

import hashlib
import hmac
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from traceback import format_exc
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.protocol.http import RETRY_HEADERS, ErrorResponse, HeaderPairs, error_response
from jackstay.protocol.wire import ErrorCode
from jackstay.server._entries import check_scopes

logger = logging.getLogger("jackstay.server.http")

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"

# The longest Authorization header that is read. Tokens with many groups reach 10 KB; servers accept 8 to 64 KB of
# headers.
MAX_TOKEN_CHARACTERS: Final = 16_384

# Shorter keys can be guessed. The same bound as for the secrets that seal `requestState`.
MIN_KEY_CHARACTERS: Final = 16

# b64token of RFC 6750 section 2.1.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_BEARER = re.compile(r"bearer +(" + _TOKEN.pattern + r")", re.IGNORECASE)

KeysLike: TypeAlias = str | Mapping[str, str | Sequence[str]]


class Principal(msgspec.Struct, frozen=True):
    """The caller of a request. `id` is empty without authentication.

    Sessions and sealed request states are bound to the id, so two callers must never share one. `claims` are the other
    claims of the token, for handlers.
    """

    id: str
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Json] = {}


# The principal of all callers without authentication.
ANONYMOUS: Final = Principal("")


@lru_cache(1024)
def caller_key(principal: str, peer: str) -> tuple[str, str]:
    """Return whom a session or a POST is counted for: the principal, or the address without authentication."""
    return ("principal", principal) if principal else ("peer", peer)


class TokenVerifier(Protocol):
    """Verifies bearer tokens."""

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token, or None if it is unknown, expired or issued for another audience.

        It is called for every request: cache expensive results. Never log the token. If it raises, the request gets
        503, because the token could not be verified.
        """


class Guard(Protocol):
    """Authenticates requests to an endpoint by their headers."""

    async def authenticate(self, method: str, path: str, headers: Mapping[str, str]) -> Principal | ErrorResponse:
        """Return the principal, or the error response that refuses the request. Header names are in lower case."""


class Keys(msgspec.Struct, frozen=True, eq=False):
    """A token verifier for a fixed set of bearer keys. Made by `keys()`."""

    _rows: Sequence[tuple[bytes, Principal]]

    def __repr__(self) -> str:
        return f"<Keys of {', '.join(sorted({principal.id for _, principal in self._rows}))}>"

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of this key, or None for an unknown key."""
        # Digests have one length and every row is compared, so that the time it takes reveals nothing about a key.
        digest = _digest(token)
        found = None
        for known, principal in self._rows:
            if hmac.compare_digest(known, digest):
                found = principal
        return found


def keys(*given: KeysLike, scopes: Iterable[str] = ()) -> Keys:
    """Make a verifier of bearer keys.

    `keys("secret")`, or with names: `keys({"alice": "secret", "bob": ["old secret", "new secret"]})`.

    The name becomes the id of the principal; a key without a name gets an id from its digest. `scopes` are granted to
    all of these keys. For keys with different scopes pass several: `auth=[keys(...), keys(..., scopes=["admin"])]`.

    Raises: UsageError for a key that is too short, has characters that a header cannot carry, or occurs twice.
    """
    granted = check_scopes(scopes)
    rows: list[tuple[bytes, Principal]] = []
    for item in given:
        named: object = {"": item} if isinstance(item, str) else item
        if not isinstance(named, Mapping):
            expected = 'keys() expected str or a mapping of names to keys such as {"alice": "secret"}'
            raise UsageError(f"{expected}, got {type(item).__name__}", path="auth")
        for name, secrets in named.items():
            is_single = isinstance(secrets, str) or not isinstance(secrets, Iterable)
            for secret in (secrets,) if is_single else secrets:
                _check_key(secret)
                digest = _digest(secret)
                rows.append((digest, Principal(name or f"key-{digest.hex()[:12]}", granted)))
    if not rows:
        raise UsageError("keys() got no key; to disable authentication, omit auth", path="auth")
    if len({digest for digest, _ in rows}) < len(rows):
        raise UsageError("keys() got the same key twice", path="auth")
    return Keys(rows)


def _check_key(secret: object) -> None:
    # The message does not contain the key: it may be logged.
    if not isinstance(secret, str) or _TOKEN.fullmatch(secret) is None:
        raise UsageError(
            "invalid key: a key is a str of letters, digits and -._~+/ that may end in = (RFC 6750)", path="auth"
        )
    if len(secret) < MIN_KEY_CHARACTERS:
        raise UsageError(
            f"key too short: {len(secret)} characters; use at least {MIN_KEY_CHARACTERS}, for example from"
            ' python -c "import secrets; print(secrets.token_urlsafe())"',
            path="auth",
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class BearerAuth:
    """The guard that requires a bearer token on every request.

    `verifiers` are tried in order until one accepts the token. `scopes` are required for every request; a tool may
    require more. `authorization_servers` are issuer URLs that are published as protected-resource metadata; `resource`
    is then the public URL of the endpoint. Whether a token was issued for that audience is checked by the verifier.
    `scopes_supported` is published as the scopes that a client may request; it defaults to `scopes`.

    Raises: UsageError for an invalid URL or verifier.
    """

    def __init__(
        self,
        *verifiers: TokenVerifier,
        resource: str | None = None,
        authorization_servers: Sequence[str] = (),
        scopes: Iterable[str] = (),
        scopes_supported: Iterable[str] | None = None,
    ) -> None:
        for verifier in verifiers:
            if not callable(getattr(verifier, "verify", None)):
                raise UsageError(f"not a token verifier: {verifier!r}; define `async def verify(token)`", path="auth")
        if not verifiers:
            raise UsageError("BearerAuth() got no verifier; pass for example keys() or JwtVerifier()", path="auth")
        self.verifiers = verifiers
        self.authorization_servers = tuple(authorization_servers)
        self.scopes = check_scopes(scopes)
        self.scopes_supported = self.scopes if scopes_supported is None else check_scopes(scopes_supported)
        for url in (*self.authorization_servers, *(() if resource is None else (resource,))):
            _check_url(url)
        self.resource = resource

    def __repr__(self) -> str:
        return f"<BearerAuth {', '.join(map(repr, self.verifiers))} for {self.resource or 'this endpoint'}>"

    def set_default_resource(self, resource: str) -> None:
        """Set the URL of the endpoint unless it was given: `run()` knows it once the port is bound."""
        if self.resource is None:
            _check_url(resource)
            self.resource = resource

    # --- the guard ----------------------------------------------------------------------------------------------------

    async def authenticate(self, method: str, path: str, headers: Mapping[str, str]) -> Principal | ErrorResponse:  # noqa: ARG002
        """Return the principal of the bearer token, or the challenge to send."""
        token = self._token(headers.get("authorization"))
        if isinstance(token, ErrorResponse):
            return token
        principal = None
        for verifier in self.verifiers:
            try:
                principal = await verifier.verify(token)
                if principal is not None and not principal.id:
                    raise UsageError(f"{verifier!r} returned a principal without an id; ids must identify callers")
            except Exception:  # noqa: BLE001  # a user's verifier may raise anything
                # The traceback may contain the token, the log must not.
                logger.error("token verification failed: %s", format_exc().replace(token, "[token]"))
                return ErrorResponse(
                    503, ErrorCode.INTERNAL_ERROR, "token verification failed; try again", headers=RETRY_HEADERS
                )
            if principal is not None:
                break
        if principal is None:
            return self.challenge(401, "invalid_token", "the token is unknown, expired or issued for another audience")
        if not self.scopes <= principal.scopes:
            return self.insufficient_scope(())
        return principal

    def _token(self, value: str | None) -> str | ErrorResponse:
        # RFC 6750 section 3: without credentials, or with another scheme, the challenge has no error code.
        if value is None or re.match(r"bearer\b", value, re.IGNORECASE) is None:
            return self.challenge(401, None, "authentication required: send a bearer token")
        if len(value) > MAX_TOKEN_CHARACTERS:
            return self.challenge(400, "invalid_request", "the Authorization header is too long")
        found = _BEARER.fullmatch(value)
        if found is None:
            return self.challenge(
                400, "invalid_request", "malformed Authorization header: expected `Bearer` and one token"
            )
        return found[1]

    def insufficient_scope(self, more: Iterable[str]) -> ErrorResponse:
        """Return the 403 for a token without the required scopes.

        The challenge names all scopes of the operation and not only the missing ones, because a client requests exactly
        these (2026-07-28 basic/authorization, "Scope Challenge Handling").
        """
        return self.challenge(403, "insufficient_scope", "the token lacks a required scope", self.scopes.union(more))

    def challenge(
        self, status: int, error: str | None, message: str, scopes: frozenset[str] | None = None
    ) -> ErrorResponse:
        """Return an error response with a `WWW-Authenticate` header. `message` must not contain quotes."""
        needed = self.scopes if scopes is None else scopes
        parameters = [] if error is None else [("error", error), ("error_description", message)]
        if needed and error != "invalid_request":
            parameters.append(("scope", " ".join(sorted(needed))))
        url = self.metadata_url
        if url is not None:
            parameters.append(("resource_metadata", url))
        # RFC 6750 section 3: at least one parameter must follow the scheme.
        challenge = ", ".join(f'{name}="{value}"' for name, value in parameters or [("realm", "mcp")])
        return error_response(status, message, (("www-authenticate", f"Bearer {challenge}"),))

    # --- protected-resource metadata (RFC 9728) -----------------------------------------------------------------------

    @property
    def metadata_url(self) -> str | None:
        """The URL of the metadata, or None without authorization servers."""
        if not self.authorization_servers or self.resource is None:
            return None
        parts = urlsplit(self.resource)
        path = parts.path.rstrip("/")  # RFC 9728 section 3.1: a path of only `/` is dropped
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{path}"

    def metadata(self, path: str, name: str) -> bytes | None:
        """Return the metadata document for a GET of `path`, or None: it is served at the inserted path and the root."""
        if self.metadata_url is None or self.resource is None:
            return None
        inserted = urlsplit(self.metadata_url).path
        if path.rstrip("/") not in (inserted, WELL_KNOWN):
            return None
        document: dict[str, Json] = {
            "resource": self.resource,
            "authorization_servers": [*self.authorization_servers],
            "bearer_methods_supported": ["header"],
            "resource_name": name,
        }
        if self.scopes_supported:
            document["scopes_supported"] = [*sorted(self.scopes_supported)]
        return msgspec.json.encode(document)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    is_plain = re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]+", url) is not None
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment or not is_plain:
        raise UsageError(f"invalid URL: {url!r}; use http or https, without query and fragment", path="auth")


def challenge_scopes(auth: BearerAuth | None, scopes: frozenset[str]) -> HeaderPairs:
    """Return the `WWW-Authenticate` header of a 403 for an operation that requires these scopes."""
    if auth is not None:
        return auth.insufficient_scope(scopes).headers
    challenge = f'Bearer error="insufficient_scope", scope="{" ".join(sorted(scopes))}"'
    return (("www-authenticate", challenge),)


# The values that `auth=` accepts.
AuthLike: TypeAlias = BearerAuth | TokenVerifier | Sequence[TokenVerifier]


def read_auth(given: AuthLike) -> BearerAuth:
    """Turn the value of `auth=` into a guard: a `BearerAuth`, a verifier, or a sequence of verifiers.

    Raises: UsageError.
    """
    if isinstance(given, BearerAuth):
        return given
    if isinstance(given, str):
        raise UsageError("auth must be keys(...), a token verifier or a BearerAuth, not str", path="auth")
    if isinstance(given, Sequence):
        return BearerAuth(*given)
    return BearerAuth(given)
