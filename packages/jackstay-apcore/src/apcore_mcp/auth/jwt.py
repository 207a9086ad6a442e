"""Verifies tokens signed with a shared secret or a key, and makes the identity that ACL rules see (RFC 7519).

Signature and claims are checked by joserfc. The token's header never provides a key, and only the configured algorithms
are accepted (RFC 8725 section 3.1).
"""

import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jackstay.server.http import Principal

if TYPE_CHECKING:
    from apcore import Identity  # type: ignore[import-untyped]  # apcore ships no types

logger = logging.getLogger("apcore_mcp.auth")

# Seconds of clock skew between the issuer of a token and this machine.
LEEWAY: Final = 30

# The key in `Principal.claims` of what an apcore identity has besides an id and roles.
IDENTITY_CLAIM: Final = "apcore_identity"

# Algorithms with a shared secret, and the least bytes of a secret (RFC 7518 section 3.2).
_SECRET_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}


@dataclass(frozen=True)
class ClaimMapping:
    """The claims that become the id, the type, the roles and the attributes of an identity."""

    id_claim: str = "sub"
    type_claim: str = "type"
    roles_claim: str = "roles"
    attrs_claims: list[str] | None = None


class JWTAuthenticator:
    """Verifies bearer tokens. `key` is a shared secret for HS algorithms, otherwise a public key in PEM.

    Give it to `serve(auth=...)`. `authenticate()` returns the identity for the headers of a request.

    Raises: ValueError for an unknown algorithm, or for a key that does not fit it.
    """

    def __init__(
        self,
        key: str,
        *,
        algorithms: Sequence[str] | None = None,
        audience: str | None = None,
        issuer: str | None = None,
        claim_mapping: ClaimMapping | None = None,
        require_claims: Sequence[str] | None = None,
    ) -> None:
        self._algorithms = list(algorithms or ["HS256"])
        self._mapping = claim_mapping or ClaimMapping()
        self._key = _read_key(key, self._algorithms)
        required = ["sub"] if require_claims is None else list(require_claims)
        self._claims: dict[str, Any] = {name: {"essential": True} for name in required}
        for name, value in (("aud", audience), ("iss", issuer)):
            if value is not None:
                self._claims[name] = {"essential": True, "value": value}

    def __repr__(self) -> str:
        return f"<JWTAuthenticator {', '.join(self._algorithms)}>"

    async def authenticate(self, headers: Mapping[str, str]) -> "Identity | None":
        """Return the identity of a request with a valid `Authorization: Bearer` header, or None."""
        header = headers.get("authorization") or headers.get("Authorization") or ""
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            return None
        principal = await self.verify(token.strip())
        return None if principal is None else to_identity(principal.id, principal.scopes, principal.claims)

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a valid token, or None. `serve(auth=...)` calls it."""
        claims = self._read(token)
        subject = None if claims is None else claims.get(self._mapping.id_claim)
        if claims is None or subject is None or subject == "":
            return None
        roles = claims.get(self._mapping.roles_claim)
        attributes = {name: claims[name] for name in self._mapping.attrs_claims or () if name in claims}
        kind = claims.get(self._mapping.type_claim) or "user"
        return Principal(
            str(subject),
            frozenset(map(str, roles)) if isinstance(roles, list) else frozenset(),
            {IDENTITY_CLAIM: {"type": str(kind), "attrs": attributes}},
        )

    def _read(self, token: str) -> dict[str, Any] | None:
        from joserfc import jwt  # noqa: PLC0415  # only with tokens
        from joserfc.errors import JoseError  # noqa: PLC0415

        registry = jwt.JWTClaimsRegistry(now=lambda: int(time.time()), leeway=LEEWAY, **self._claims)
        try:
            found = jwt.decode(token, self._key, algorithms=self._algorithms)
            registry.validate(found.claims)
        except (JoseError, ValueError) as error:
            logger.debug("refused a token: %s", type(error).__name__)
            return None
        return dict(found.claims)


def to_identity(principal: str, scopes: frozenset[str], claims: Mapping[str, Any]) -> "Identity | None":
    """Return the apcore identity of a caller, or None without authentication."""
    from apcore import Identity  # noqa: PLC0415  # apcore is imported on first use

    if not principal:
        return None
    known = claims.get(IDENTITY_CLAIM)
    extra = known if isinstance(known, dict) else {}
    return Identity(id=principal, roles=tuple(sorted(scopes)), **extra)


def _read_key(key: str, algorithms: Sequence[str]) -> Any:
    from joserfc.errors import JoseError  # noqa: PLC0415  # only with tokens
    from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey  # noqa: PLC0415

    classes: dict[str, type[Any]] = {"HS": OctKey, "RS": RSAKey, "PS": RSAKey, "ES": ECKey, "Ed": OKPKey}
    kinds = {classes.get(name[:2]) for name in algorithms}
    if len(kinds) != 1 or None in kinds:
        raise ValueError(f"algorithms must be known and of one kind of key, not {', '.join(algorithms)}")
    if not key:
        raise ValueError("the key for tokens must not be empty")
    least = max(_SECRET_BYTES.get(name, 0) for name in algorithms)
    if len(key.encode()) < least:
        logger.warning(
            "the secret for tokens has %d bytes and can be guessed; use at least %d (RFC 7518)", len(key), least
        )
    kind = kinds.pop()
    assert kind is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about short secrets, see above
            return kind.import_key(key)
    except (JoseError, ValueError, TypeError) as error:
        raise ValueError(f"the key for tokens does not fit {', '.join(algorithms)}: {error}") from None


__all__ = ["IDENTITY_CLAIM", "LEEWAY", "ClaimMapping", "JWTAuthenticator", "to_identity"]
