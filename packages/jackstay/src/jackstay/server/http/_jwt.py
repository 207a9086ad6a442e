"""JSON Web Tokens as bearer tokens: whose they are, if they were signed by whom we trust, for us, and are not over.

The order is the defence (RFC 8725). The header only chooses among algorithms and keys that were settled beforehand: it
never brings a key, and a key serves its own kind of algorithm alone. Nothing of the claims is believed before the
signature holds. Then issuer, audience and time are compared; there is no way to leave one of them out.

Sources: RFC 7519, RFC 8725, RFC 9068; 2026-07-28 basic/authorization, "Token Handling".

Must never know a header of HTTP. Above: `_auth`, users. Below: `_jwks`, joserfc for signatures.
"""

import hashlib
import time
from binascii import a2b_base64
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import msgspec

from jackstay.errors import UsageError
from jackstay.server.http._jwks import FAMILIES, Fetch, KeySource, fetch_from, need_jose
from jackstay.server.http._principal import Principal

if TYPE_CHECKING:
    from joserfc.jwk import Key
    from joserfc.jws import JWSRegistry

    from jackstay.transport import HttpClient

# Signatures that need no shared secret. HS256 and its kin are taken only where they are asked for.
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
)  # fmt: skip

# Clocks differ; RFC 7519, 4.1.4 allows "no more than a few minutes".
LEEWAY: Final = 30.0

# A token that was checked is not checked again for so long, so that a key which is withdrawn is felt in minutes.
KEPT_SECONDS: Final = 300.0
MOST_KEPT: Final = 4_096

# Without a name in the header every key of the kind is tried, so their number is what a made-up token can cost.
MOST_TRIED: Final = 8
MOST_HEADER_CHARACTERS: Final = 4_096

# What an access token may call itself; RFC 8725, 3.11: another kind of token must not pass for one.
_TYPES: Final = (None, "jwt", "at+jwt", "application/at+jwt")

# Claims that say whose a token is, in order, and the kind of principal that each names.
_KINDS: Final = {"sub": "sub", "client_id": "client_id", "azp": "client_id"}

# What `jwks=` takes: a URL, a set of keys, or an async function that gives one.
JwksLike: TypeAlias = str | Mapping[str, Any] | Fetch


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    typ: str | None = None
    crit: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_read_header = msgspec.json.Decoder(_Header).decode
_read_claims = msgspec.json.Decoder(dict[str, Any]).decode


class JwtVerifier:
    """Checks JWTs of one issuer. The principal is `issuer|sub|subject`, or for a token without `sub` `issuer|client_id|client`,
    so that a program never passes for a user of the same name (RFC 9068, section 5); its claims are the token's.

    `audience` is what the tokens must be meant for: the URL of your endpoint, or what the authorization server calls it.
    `jwks` is where the issuer publishes its keys: a URL, the set itself, or an async function that gives it. Scopes are
    read from `scope`, or from `scp`. RSA keys have 2,048 bits or more, secrets as many as the hash of their algorithm (RFC 7518).

    Raises: UsageError for a setting or a key that cannot be used, or without the extra `http`.
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
        self._kept: dict[bytes, tuple[Principal, float]] = {}
        if not issuer or not self.audiences or not all(self.audiences):
            raise UsageError(
                "issuer and audience must be given: tokens for others must not pass", path="audience"
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
            raise UsageError(f"algorithms must be some of {', '.join(ALGORITHMS)}", path="algorithms")
        secret = [name for name in known if name.startswith("HS")]
        if secret and (len(secret) < len(known) or not isinstance(jwks, Mapping)):
            raise UsageError(
                "HS algorithms need a set of secrets in jwks, and no others beside them", path="algorithms"
            )

    async def verify(self, token: str) -> Principal | None:
        """Whose token this is. Raises: TransportError, if there are no keys to check it with."""
        now = self._clock()
        digest = hashlib.sha256(token.encode()).digest()
        kept = self._kept.get(digest)
        if kept is not None:
            if now < kept[1]:
                return kept[0]
            del self._kept[digest]
        header = _header_of(token)
        if header is None or header.alg not in self.algorithms:
            return None
        keys = await self._keys.find(header.kid, header.alg)
        payload = next(filter(None, (self._open(token, key) for key in keys[:MOST_TRIED])), None)
        if payload is None:
            return None
        claims = _claims_of(payload)
        if not self._is_for_us(claims, now):
            return None
        principal = _principal_of(self.issuer, claims)
        if principal is not None:
            self._keep(digest, principal, min(claims["exp"] + self.leeway, now + KEPT_SECONDS))
        return principal

    def _keep(self, digest: bytes, principal: Principal, until: float) -> None:
        if len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]  # the oldest
        self._kept[digest] = (principal, until)

    def _open(self, token: str, key: "Key") -> bytes | None:
        """The payload, if this key signed it."""
        from joserfc.errors import JoseError  # noqa: PLC0415  # `need_jose` said that it is there
        from joserfc.jws import deserialize_compact  # noqa: PLC0415  # the same

        try:
            return deserialize_compact(token, key, registry=self._registry).payload
        except (JoseError, ValueError, TypeError, RecursionError):
            return None

    @cached_property
    def _registry(self) -> "JWSRegistry":
        from joserfc.jws import JWSRegistry  # noqa: PLC0415  # the same

        class Registry(JWSRegistry):
            """As the library's, without its warning for every token of a server that says EdDSA for Ed25519."""

            max_header_length = MOST_HEADER_CHARACTERS

            def get_alg(self, name: str) -> Any:
                assert self.allowed is not None
                # A release before 1.5 knows Ed25519 only as EdDSA, and refuses the name as it should.
                is_known = name in self.allowed and name in self.algorithms
                return self.algorithms[name] if is_known else super().get_alg(name)

        # Members of a header that nobody knows are ignored (RFC 7515, section 4); `crit` is refused before.
        return Registry(algorithms=self.algorithms, strict_check_header=False)

    def _is_for_us(self, claims: Mapping[str, Any], now: float) -> bool:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        expires, begins, issued = (claims.get(name) for name in ("exp", "nbf", "iat"))
        return (
            claims.get("iss") == self.issuer
            and any(isinstance(one, str) and one in self.audiences for one in audiences)
            and _is_time(expires)
            and now < expires + self.leeway
            and all(
                when is None or (_is_time(when) and when <= now + self.leeway) for when in (begins, issued)
            )
            # A token that is bound to its owner's key is worth nothing without the proof, and we take none (RFC 9449, 7.2).
            and claims.get("cnf") is None
        )


def _header_of(token: str) -> _Header | None:
    first, dot, rest = token.partition(".")
    if not dot or rest.count(".") != 1 or len(first) > MOST_HEADER_CHARACTERS:
        return None
    try:
        text = first.replace("-", "+").replace("_", "/") + "=" * (-len(first) % 4)
        header = _read_header(a2b_base64(text, strict_mode=True))
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
    typ = None if header.typ is None else header.typ.lower()
    is_plain = header.crit is msgspec.UNSET and typ in _TYPES
    return header if is_plain else None


def _claims_of(payload: bytes) -> dict[str, Any]:
    try:
        return _read_claims(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12


def _principal_of(issuer: str, claims: dict[str, Any]) -> Principal | None:
    # A program's own token may name the program alone (RFC 9068, 2.2 wants `sub` all the same; not everybody reads it).
    name = next((name for name in _KINDS if claims.get(name)), "")
    subject = claims.get(name)
    if not isinstance(subject, str):
        return None
    said = claims.get("scope") or claims.get("scp")
    words = said.split() if isinstance(said, str) else said if isinstance(said, list) else ()
    scopes = frozenset(word for word in words if isinstance(word, str))
    return Principal(f"{issuer}|{_KINDS[name]}|{subject}", scopes, claims)


__all__ = ["ALGORITHMS", "JwksLike", "JwtVerifier"]
