"""JSON Web Tokens as bearer tokens (RFC 7519, RFC 8725, RFC 9068; 2026-07-28 basic/authorization, "Token Handling").

The header only selects among configured algorithms and keys; it never provides a key, and a key is used with its own
type of algorithm only. Claims are read after the signature was verified. Issuer, audience and expiry are always
checked.
"""

import hashlib
import time
from binascii import a2b_base64
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import msgspec

from jackstay.errors import UsageError
from jackstay.server.http._auth import Principal
from jackstay.server.http._jwks import FAMILIES, Fetch, KeySource, fetch_from, need_jose
from jackstay.types import DECODE_ERRORS

if TYPE_CHECKING:
    from joserfc.jwk import Key
    from joserfc.jws import JWSRegistry

    from jackstay.transport import HttpClient

# The default: asymmetric algorithms. HS256, HS384 and HS512 must be configured.
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
)  # fmt: skip

# Seconds of clock skew. RFC 7519 section 4.1.4 allows "no more than a few minutes".
LEEWAY: Final = 30.0

# How long a verified token is cached. Short, so that a revoked key takes effect within minutes.
CACHE_SECONDS: Final = 300.0
MAX_CACHED: Final = 4_096

# Without a key id in the header every key of the type is tried. This bounds the cost of a forged token.
MAX_KEYS_TRIED: Final = 8
MAX_HEADER_CHARACTERS: Final = 4_096

# The accepted values of `typ`. RFC 8725 section 3.11: other kinds of JWT must not be accepted as access tokens.
_TYPES: Final = (None, "jwt", "at+jwt", "application/at+jwt")

# The claims that identify the caller, in order, and the kind of principal of each.
_KINDS: Final = {"sub": "sub", "client_id": "client_id", "azp": "client_id"}

# The values that `jwks=` accepts: a URL, a JWK set, or an async function that returns one.
JwksLike: TypeAlias = str | Mapping[str, Any] | Fetch


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    typ: str | None = None
    crit: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_read_header = msgspec.json.Decoder(_Header).decode
_read_claims = msgspec.json.Decoder(dict[str, Any]).decode


class JwtVerifier:
    """Verifies JWTs of one issuer.

    The id of the principal is `issuer|sub|subject`, or `issuer|client_id|client` for a token without `sub`, so that a
    client is never mistaken for a user of the same name (RFC 9068 section 5). Its claims are those of the token.

    `audience` is what tokens must be issued for: the URL of the endpoint, or its name at the authorization server.
    `jwks` is the URL of the issuer's JWK set, the set itself, or an async function that returns it. Scopes are read
    from `scope` or `scp`. RSA keys need 2,048 bits or more, secrets as many as the hash of their algorithm (RFC 7518).

    Raises: UsageError for an invalid setting or key, or without the extra `http`.
    """

    def __init__(
        self,
        *,
        issuer: str,
        audience: str | Sequence[str],
        jwks: JwksLike,
        algorithms: Sequence[str] = ALGORITHMS,
        leeway: float = LEEWAY,
        client: "HttpClient | None" = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        need_jose()
        self.issuer = issuer
        self.audiences = frozenset((audience,) if isinstance(audience, str) else audience)
        self.algorithms = frozenset((algorithms,) if isinstance(algorithms, str) else algorithms)
        self.leeway = leeway
        self._clock = clock
        self._cache: dict[bytes, tuple[Principal, float]] = {}
        if not issuer or not self.audiences or not all(self.audiences):
            raise UsageError(
                "issuer and audience must not be empty: they prevent tokens for other audiences", path="audience"
            )
        if not 0 <= leeway <= 300:
            raise UsageError(f"leeway must be 0 to 300 seconds, not {leeway!r}", path="leeway")
        self._check_algorithms(jwks)
        if isinstance(jwks, str):
            self._keys = KeySource(fetch_from(jwks, client))
        elif isinstance(jwks, Mapping):
            self._keys = KeySource(None, jwks)
        else:
            self._keys = KeySource(jwks)

    def __repr__(self) -> str:
        return f"<JwtVerifier of {self.issuer} for {', '.join(sorted(self.audiences))}>"

    def _check_algorithms(self, jwks: JwksLike) -> None:
        known = [name for name in self.algorithms if name[:2] in FAMILIES]
        if not self.algorithms or len(known) < len(self.algorithms):
            given = ", ".join(map(repr, sorted(self.algorithms)))
            raise UsageError(f"invalid algorithms: {given}; use some of {', '.join(ALGORITHMS)}", path="algorithms")
        secret = [name for name in known if name.startswith("HS")]
        if secret and (len(secret) < len(known) or not isinstance(jwks, Mapping)):
            raise UsageError(
                "HS algorithms cannot be combined with others and need jwks to be a set of secrets", path="algorithms"
            )

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a valid token. Raises: TransportError if no keys are available to verify it."""
        now = self._clock()
        digest = hashlib.sha256(token.encode()).digest()
        cached = self._cache.get(digest)
        if cached is not None:
            if now < cached[1]:
                return cached[0]
            del self._cache[digest]
        header = _header_of(token)
        if header is None or header.alg not in self.algorithms:
            return None
        keys = await self._keys.find(header.kid, header.alg)
        payload = next(filter(None, (self._open(token, key) for key in keys[:MAX_KEYS_TRIED])), None)
        if payload is None:
            return None
        try:
            claims = _read_claims(payload)
        except DECODE_ERRORS:
            return None
        if not self._are_valid(claims, now):
            return None
        principal = _principal_of(self.issuer, claims)
        if principal is not None:
            if len(self._cache) >= MAX_CACHED:
                del self._cache[next(iter(self._cache))]  # the oldest
            self._cache[digest] = principal, min(claims["exp"] + self.leeway, now + CACHE_SECONDS)
        return principal

    def _open(self, token: str, key: "Key") -> bytes | None:
        """Return the payload if this key signed the token."""
        from joserfc.errors import JoseError  # noqa: PLC0415  # `need_jose` checked that it is installed
        from joserfc.jws import deserialize_compact  # noqa: PLC0415  # as above

        try:
            return deserialize_compact(token, key, registry=self._registry).payload
        except (JoseError, ValueError, TypeError, RecursionError):
            return None

    @cached_property
    def _registry(self) -> "JWSRegistry":
        from joserfc.jws import JWSRegistry  # noqa: PLC0415  # as above

        class Registry(JWSRegistry):
            """The registry of the library without its warning for every token that names EdDSA instead of Ed25519."""

            max_header_length = MAX_HEADER_CHARACTERS

            def get_alg(self, name: str) -> Any:
                assert self.allowed is not None
                # The library raises for the others.
                is_known = name in self.allowed and name in self.algorithms
                return self.algorithms[name] if is_known else super().get_alg(name)

        # Unknown header members are ignored (RFC 7515 section 4); `crit` is refused before.
        return Registry(algorithms=self.algorithms, strict_check_header=False)

    def _are_valid(self, claims: Mapping[str, Any], now: float) -> bool:
        aud = claims.get("aud")
        audiences = aud if isinstance(aud, list) else [aud]
        expires, begins, issued = (claims.get(name) for name in ("exp", "nbf", "iat"))
        return (
            claims.get("iss") == self.issuer
            and any(isinstance(audience, str) and audience in self.audiences for audience in audiences)
            and _is_time(expires)
            and now < expires + self.leeway
            and all(when is None or (_is_time(when) and when <= now + self.leeway) for when in (begins, issued))
            # A sender-constrained token needs a proof of possession, which is not supported (RFC 9449 section 7.2).
            and claims.get("cnf") is None
        )


def _header_of(token: str) -> _Header | None:
    first, dot, rest = token.partition(".")
    if not dot or rest.count(".") != 1 or len(first) > MAX_HEADER_CHARACTERS:
        return None
    try:
        text = first.replace("-", "+").replace("_", "/") + "=" * (-len(first) % 4)
        header = _read_header(a2b_base64(text, strict_mode=True))
    except (ValueError, *DECODE_ERRORS):
        return None
    typ = None if header.typ is None else header.typ.lower()
    is_plain = header.crit is msgspec.UNSET and typ in _TYPES
    return header if is_plain else None


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12


def _principal_of(issuer: str, claims: dict[str, Any]) -> Principal | None:
    # A client's own token may lack `sub`, although RFC 9068 section 2.2 requires it.
    subject_claim = next((name for name in _KINDS if claims.get(name)), "")
    subject = claims.get(subject_claim)
    if not isinstance(subject, str):
        return None
    claim = claims.get("scope") or claims.get("scp")
    names = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else ()
    scopes = frozenset(name for name in names if isinstance(name, str))
    return Principal(f"{issuer}|{_KINDS[subject_claim]}|{subject}", scopes, claims)
