"""Who may call an HTTP endpoint: bearer keys, tokens that others check, and how a refusal tells the client what to get.

`BearerAuth` is the guard: it takes the token out of `Authorization`, asks its verifiers, compares scopes, and words the
challenge. A challenge is how a client finds its way, so its form is exact: which metadata to read, what was wrong, and all
scopes the operation needs. The token comes from the header and from nowhere else, and is never logged.

Sources: RFC 6750 (bearer tokens), RFC 9728 (protected-resource metadata), 2026-07-28 basic/authorization.

Must never know a session or a handler. Above: the endpoint, `_edge`. Below: `_principal`, `jackstay.protocol.http`.
"""

import hashlib
import hmac
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from traceback import format_exc
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.protocol.http import RETRY_HEADERS, HeaderPairs, Refusal
from jackstay.protocol.wire import ErrorCode
from jackstay.server._entries import check_scopes
from jackstay.server.http._principal import Principal, TokenVerifier

logger = logging.getLogger("jackstay.server.http")

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"

# The longest token that is looked at. Tokens with many groups reach 10 KB; HTTP servers stop at 8 to 64 KB of headers.
MOST_TOKEN_CHARACTERS: Final = 16_384

# A key that a person can guess is none. The same bound as for the secrets that seal `requestState`.
LEAST_KEY_CHARACTERS: Final = 16

# b64token of RFC 6750, 2.1: what can stand in the header at all.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_BEARER = re.compile(r"bearer +(" + _TOKEN.pattern + r")", re.IGNORECASE)

KeysLike: TypeAlias = str | Mapping[str, str | Sequence[str]]


class Keys:
    """Checks bearer keys that are known here. Made by `keys()`."""

    def __init__(self, rows: Sequence[tuple[bytes, Principal]]) -> None:
        self._rows = tuple(rows)

    def __repr__(self) -> str:
        return f"<Keys of {', '.join(sorted({principal.id for _, principal in self._rows}))}>"

    async def verify(self, token: str) -> Principal | None:
        """Whose key this is."""
        # Digests have one length, and every row is compared: the time says nothing about any key.
        digest = _digest(token)
        found = None
        for known, principal in self._rows:
            if hmac.compare_digest(known, digest):
                found = principal
        return found


def keys(*given: KeysLike, scopes: Iterable[str] = ()) -> Keys:
    """Bearer keys: `keys("secret")`, or by name, `keys({"alice": "secret", "bob": ["old secret", "new secret"]})`.

    The name becomes the principal; a key without one is called after its digest. `scopes` are what these keys may do:
    where some may do more than others, pass several `keys()`, `auth=[keys(...), keys(..., scopes=["admin"])]`.

    Raises: UsageError for a key that is too short, cannot stand in a header, or is there twice.
    """
    may = check_scopes(scopes)
    rows: list[tuple[bytes, Principal]] = []
    for item in given:
        named: object = {"": item} if isinstance(item, str) else item
        if not isinstance(named, Mapping):
            raise UsageError('keys() takes "secret" or {"name": "secret"}', path="auth")
        for name, secrets in named.items():
            for secret in (secrets,) if _is_one(secrets) else secrets:
                _check_key(secret)
                digest = _digest(secret)
                rows.append((digest, Principal(name or f"key-{digest.hex()[:12]}", may)))
    if not rows:
        raise UsageError("keys() needs at least one key; without authentication leave auth out", path="auth")
    if len({digest for digest, _ in rows}) < len(rows):
        raise UsageError("the same key is there twice", path="auth")
    return Keys(rows)


def _is_one(secrets: object) -> bool:
    return isinstance(secrets, str) or not isinstance(secrets, Iterable)


def _check_key(secret: object) -> None:
    # The key itself is never in the message: it may end up in a log.
    if not isinstance(secret, str) or _TOKEN.fullmatch(secret) is None:
        raise UsageError(
            "a key must be letters, digits and any of -._~+/ (then =), as RFC 6750 says", path="auth"
        )
    if len(secret) < LEAST_KEY_CHARACTERS:
        raise UsageError(
            f"a key must have at least {LEAST_KEY_CHARACTERS} characters;"
            ' python -c "import secrets; print(secrets.token_urlsafe())" makes one',
            path="auth",
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class BearerAuth:
    """The guard that wants a bearer token on every request.

    `verifiers` are asked in order. `scopes` are needed for everything; a tool may need more of its own. With
    `authorization_servers` (their issuer URLs) clients are told where tokens are got: `resource` is then the URL of the
    endpoint as clients know it, and tokens must be meant for it (that is a verifier's to check, as its audience).
    `scopes_supported` is what clients may ask for; without it, it is `scopes`.

    Raises: UsageError for a URL that is none, or a verifier that is none.
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
                raise UsageError(
                    f"not a token verifier: {verifier!r}; it needs `async def verify(token)`", path="auth"
                )
        if not verifiers:
            raise UsageError("BearerAuth needs a verifier, such as keys() or JwtVerifier()", path="auth")
        self.verifiers = verifiers
        self.authorization_servers = tuple(authorization_servers)
        self.scopes = check_scopes(scopes)
        self.scopes_supported = self.scopes if scopes_supported is None else check_scopes(scopes_supported)
        for row in (*self.authorization_servers, *(() if resource is None else (resource,))):
            _check_url(row)
        self.resource = resource

    def __repr__(self) -> str:
        return f"<BearerAuth {', '.join(map(repr, self.verifiers))} for {self.resource or 'this endpoint'}>"

    def settle(self, resource: str) -> None:
        """Say where the endpoint is, if nobody did: `run()` knows when it has its port."""
        if self.resource is None:
            _check_url(resource)
            self.resource = resource

    # --- the guard ----------------------------------------------------------------------------------------------------

    async def admit(self, method: str, path: str, headers: Mapping[str, str]) -> Principal | Refusal:  # noqa: ARG002  # the contract's
        """Whom the token proves, or the challenge."""
        token = self._token(headers.get("authorization"))
        if isinstance(token, Refusal):
            return token
        principal = None
        for verifier in self.verifiers:
            try:
                principal = await verifier.verify(token)
                if principal is not None and not principal.id:
                    raise UsageError("a principal needs an id, or callers could not be told apart")
            except Exception:  # noqa: BLE001  # the edge of somebody's verifier
                # Whatever it says of the token, the log does not have it.
                logger.error("a token could not be checked: %s", format_exc().replace(token, "[token]"))
                return Refusal(
                    503,
                    ErrorCode.INTERNAL_ERROR,
                    "the token could not be checked; try again",
                    headers=RETRY_HEADERS,
                )
            if principal is not None:
                break
        if principal is None:
            return self.challenge(
                401, "invalid_token", "the token is not valid here: unknown, expired, or meant for another"
            )
        if not self.scopes <= principal.scopes:
            return self.insufficient(())
        return principal

    def _token(self, value: str | None) -> str | Refusal:
        # RFC 6750, 3: a client that sent no credentials, or none of this kind, is told of no error.
        if value is None or re.match(r"bearer\b", value, re.IGNORECASE) is None:
            return self.challenge(401, None, "authentication is needed: send a bearer token")
        if len(value) > MOST_TOKEN_CHARACTERS:
            return self.challenge(400, "invalid_request", "the Authorization header is too long")
        found = _BEARER.fullmatch(value)
        if found is None:
            return self.challenge(
                400, "invalid_request", "the Authorization header must be one `Bearer` and one token"
            )
        return found[1]

    def insufficient(self, more: Iterable[str]) -> Refusal:
        """The answer to a caller whose token may too little: it names all scopes of the operation.

        All, and not only the missing ones: a client asks for what it is told (2026-07-28 "Scope Challenge Handling").
        """
        return self.challenge(
            403,
            "insufficient_scope",
            "the token may not do this: it needs more scopes",
            self.scopes | frozenset(more),
        )

    def challenge(
        self, status: int, error: str | None, message: str, scopes: frozenset[str] | None = None
    ) -> Refusal:
        """A refusal with its `WWW-Authenticate`. Our words have no quote in them."""
        needed = self.scopes if scopes is None else scopes
        parameters = [] if error is None else [("error", error), ("error_description", message)]
        if needed and error != "invalid_request":
            parameters.append(("scope", " ".join(sorted(needed))))
        url = self.metadata_url
        if url is not None:
            parameters.append(("resource_metadata", url))
        # RFC 6750, 3: at least one parameter must follow the scheme.
        said = ", ".join(f'{name}="{value}"' for name, value in parameters or [("realm", "mcp")])
        return Refusal(
            status, ErrorCode.INVALID_REQUEST, message, headers=(("www-authenticate", f"Bearer {said}"),)
        )

    # --- protected-resource metadata (RFC 9728) -----------------------------------------------------------------------

    @property
    def metadata_url(self) -> str | None:
        """Where the metadata is read, or None where there are no authorization servers to tell of."""
        if not self.authorization_servers or self.resource is None:
            return None
        parts = urlsplit(self.resource)
        path = parts.path.rstrip("/")  # RFC 9728, 3.1: a path of only `/` is none
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{path}"

    def metadata(self, path: str, name: str) -> bytes | None:
        """The document for a GET of this path, or None if it is not there: at the inserted path, and at the root."""
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


def _check_url(text: str) -> None:
    parts = urlsplit(text)
    is_plain = re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]+", text) is not None
    if (
        parts.scheme not in ("http", "https")
        or not parts.netloc
        or parts.query
        or parts.fragment
        or not is_plain
    ):
        raise UsageError(f"not a URL of http or https without query and fragment: {text!r}", path="auth")


def challenge_scopes(auth: BearerAuth | None, scopes: frozenset[str]) -> HeaderPairs:
    """The challenge of a 403 for an operation that needs these scopes, whoever checks the tokens."""
    if auth is not None:
        return auth.insufficient(scopes).headers
    said = f'Bearer error="insufficient_scope", scope="{" ".join(sorted(scopes))}"'
    return (("www-authenticate", said),)


# What `auth=` takes.
AuthLike: TypeAlias = BearerAuth | TokenVerifier | Sequence[TokenVerifier]


def read_auth(given: AuthLike) -> BearerAuth:
    """What `auth=` takes, as a guard: a `BearerAuth`, a verifier, or several.

    Raises: UsageError.
    """
    if isinstance(given, BearerAuth):
        return given
    if isinstance(given, str):
        raise UsageError("auth must be keys(...), a token verifier or a BearerAuth, not a text", path="auth")
    if isinstance(given, Sequence):
        return BearerAuth(*given)
    return BearerAuth(given)


__all__ = ["AuthLike", "BearerAuth", "Keys", "challenge_scopes", "keys", "read_auth"]
