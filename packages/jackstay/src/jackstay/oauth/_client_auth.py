"""Client authentication at the token endpoint: none, a client secret, or a signed assertion.

RFC 6749, 2.3.1; RFC 7523, 2.2; RFC 8414 (supported methods and the default). Credentials are never logged or raised.
"""

import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import quote

from jackstay.errors import UsageError
from jackstay.extras import install_command
from jackstay.oauth._discovery import AuthorizationServer
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._identity import Identity, RegisteredClient
from jackstay.transport.http import Headers

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# An assertion is for one request; five minutes allow for clock skew.
ASSERTION_SECONDS = 300

# The key type for a JWS algorithm, by the first two characters of its name.
_KEY_TYPES: Final[dict[str, Literal["RSA", "EC", "OKP"]]] = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def choose_method(client: RegisteredClient, identity: Identity, server: AuthorizationServer) -> str:
    """Return the authentication method: that of the registration, else that of the key, else a supported one.

    Raises: AuthorizationError if there is no common method.
    """
    if client.auth_method:
        return client.auth_method
    supported = server.token_endpoint_auth_methods_supported
    if identity.private_key and not client.is_dynamic:
        return "private_key_jwt"
    if not client.client_secret:
        return "none"
    if supported is None:
        return "client_secret_basic"  # RFC 8414, section 2
    for method in ("client_secret_basic", "client_secret_post", "none"):
        if method in supported:
            return method
    raise AuthorizationError(
        f"{server.issuer} supports only the client authentication {', '.join(supported[:5])}, not a client_secret",
        issuer=server.issuer,
    )


def authenticate(
    client: RegisteredClient, identity: Identity, server: AuthorizationServer, now: float
) -> tuple[dict[str, str], Headers]:
    """Return the form members and headers that authenticate `client` at `server`.

    Raises: AuthorizationError if the client belongs to another issuer; UsageError for an invalid key.
    """
    if client.issuer != server.issuer:
        raise AuthorizationError(
            f"the client is registered at {client.issuer}; its credentials are not sent to {server.issuer}",
            issuer=server.issuer,
        )
    form = {"client_id": client.client_id}
    headers: Headers = ()
    method = choose_method(client, identity, server)
    if method == "client_secret_basic":
        # Both are form-encoded first (RFC 6749, 2.3.1), because they may contain a colon. The client id is also in the
        # form (RFC 6749, 3.2.1: MAY), where the server of the official SDK expects it.
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
        headers = (("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"),)
    elif method == "client_secret_post":
        form["client_secret"] = client.client_secret
    elif method == "private_key_jwt":
        claims: dict[str, str | int] = {
            "iss": client.client_id,
            "sub": client.client_id,
            # The issuer instead of the endpoint, which may belong to another party (draft-ietf-oauth-rfc7523bis).
            "aud": server.issuer,
            "jti": secrets.token_urlsafe(16),
            "iat": int(now),
            "exp": int(now) + ASSERTION_SECONDS,
        }
        supported = server.token_endpoint_auth_signing_alg_values_supported
        if supported is not None and identity.signing_algorithm not in supported:
            raise AuthorizationError(
                f"{server.issuer} supports the signing algorithms {', '.join(supported[:8])}, "
                f"not {identity.signing_algorithm}",
                issuer=server.issuer,
            )
        form["client_assertion_type"] = ASSERTION_TYPE
        form["client_assertion"] = sign(claims, identity.private_key, identity.signing_algorithm)
    return form, headers


def sign(claims: Mapping[str, str | int], private_key: str, algorithm: str) -> str:
    """Return a signed JWT of `claims`.

    Raises: UsageError for an unsupported algorithm, an invalid key, or if the extra `http` is missing.
    """
    try:
        # Not at module level: cryptography takes tens of milliseconds to import, and few programs sign.
        from joserfc import jwk, jwt  # noqa: PLC0415
        from joserfc.errors import JoseError  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"private_key requires the extra `http`: {install_command('http')}", path="private_key"
        ) from error
    kind = _KEY_TYPES.get(algorithm[:2])
    if kind is None:
        raise UsageError(
            f"signing_algorithm must be asymmetric, such as ES256, RS256 or EdDSA, got {algorithm!r}",
            path="signing_algorithm",
        )
    try:
        key = jwk.import_key(private_key, kind)
        if not key.is_private:
            raise UsageError("private_key must not be a public key", path="private_key")
        return jwt.encode({"alg": algorithm}, dict(claims), key, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError, binascii.Error) as error:
        if isinstance(error, UsageError):
            raise
        # Without the cause, which may quote the key.
        raise UsageError(
            f"private_key must be a PEM key for {algorithm} ({type(error).__name__})", path="private_key"
        ) from None
