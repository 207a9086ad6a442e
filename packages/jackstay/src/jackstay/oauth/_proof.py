"""How a client proves itself at a token endpoint: with nothing, a secret in the header or in the form, or a signature.

Sources: RFC 6749, 2.3.1; RFC 7523, 2.2; RFC 8414 (what is supported, and the default where nothing is said).

Must never log or raise what it proves with. Above: `_tokens`. Below: `_identity`, and `joserfc` for signatures.
"""

import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from jackstay.errors import UsageError
from jackstay.extras import install_command
from jackstay.oauth._documents import AuthorizationServer
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._identity import Identity, RegisteredClient

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# An assertion is for one request; a minute covers the way there, four more cover clocks that differ.
ASSERTION_SECONDS = 300

# The key type that an algorithm of JWS needs, by how its name begins.
_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def choose_method(client: RegisteredClient, identity: Identity, server: AuthorizationServer) -> str:
    """The method to use. What was agreed at registration goes first, then what you chose, then what both can.

    Raises: AuthorizationError where there is nothing that both can.
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
        f"{server.issuer} accepts a client only by {', '.join(supported[:5])}, and there is only a secret",
        issuer=server.issuer,
    )


def prove(
    client: RegisteredClient, identity: Identity, server: AuthorizationServer, now: float
) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """(members of the form, headers) that prove `client` to `server`, and to nobody else.

    Raises: AuthorizationError; UsageError for a key that cannot be used.
    """
    if client.issuer != server.issuer:
        raise AuthorizationError(
            f"the client is registered at {client.issuer}, and its credentials are not for {server.issuer}",
            issuer=server.issuer,
        )
    method = choose_method(client, identity, server)
    if method == "client_secret_basic":
        # Both are form-encoded before they are joined (RFC 6749, 2.3.1): a colon must not split them elsewhere.
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
        # The name stands in the form as well (RFC 6749, 3.2.1: MAY): the official SDK's server looks for it there first.
        return {"client_id": client.client_id}, (
            ("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"),
        )
    if method == "client_secret_post":
        return {"client_id": client.client_id, "client_secret": client.client_secret}, ()
    if method == "private_key_jwt":
        claims: dict[str, str | int] = {
            "iss": client.client_id,
            "sub": client.client_id,
            # The issuer, not the endpoint: an endpoint can be another's (draft-ietf-oauth-rfc7523bis).
            "aud": server.issuer,
            "jti": secrets.token_urlsafe(16),
            "iat": int(now),
            "exp": int(now) + ASSERTION_SECONDS,
        }
        supported = server.token_endpoint_auth_signing_alg_values_supported
        if supported is not None and identity.signing_algorithm not in supported:
            raise AuthorizationError(
                f"{server.issuer} accepts signatures by {', '.join(supported[:8])}, not {identity.signing_algorithm}",
                issuer=server.issuer,
            )
        assertion = sign(claims, identity.private_key, identity.signing_algorithm)
        return {
            "client_id": client.client_id,
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": assertion,
        }, ()
    return {"client_id": client.client_id}, ()


def sign(claims: Mapping[str, str | int], private_key: str, algorithm: str) -> str:
    """A JWT of `claims`.

    Raises: UsageError: not an algorithm for keys, or not a key for it; the extra `http` is missing.
    """
    try:
        # Not at the top: cryptography takes tens of milliseconds to load, and few programs sign.
        from joserfc import jwk, jwt  # noqa: PLC0415
        from joserfc.errors import JoseError  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"signing needs the extra http: {install_command('http')}", path="private_key"
        ) from error
    kind = _KEY_TYPES.get(algorithm[:2])
    if kind is None:
        raise UsageError(
            f"signing_algorithm is {algorithm!r}; it must be one with a key pair, such as ES256, RS256 or EdDSA",
            path="signing_algorithm",
        )
    try:
        key: jwk.RSAKey | jwk.ECKey | jwk.OKPKey
        if kind == "RSA":
            key = jwk.RSAKey.import_key(private_key)
        elif kind == "EC":
            key = jwk.ECKey.import_key(private_key)
        else:
            key = jwk.OKPKey.import_key(private_key)
        if not key.is_private:
            raise UsageError("private_key is a public key", path="private_key")
        return jwt.encode({"alg": algorithm}, dict(claims), key, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError, binascii.Error) as error:
        if isinstance(error, UsageError):
            raise
        # Without the cause: it may quote the key.
        raise UsageError(
            f"private_key is not a PEM key that can sign {algorithm} ({type(error).__name__})",
            path="private_key",
        ) from None
