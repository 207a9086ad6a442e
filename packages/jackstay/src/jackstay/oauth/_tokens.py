"""Tokens and token requests.

RFC 6749, sections 5 and 6; RFC 8707 (`resource` in every token request); OAuth 2.1, 4.3 (refresh token rotation).
Tokens and credentials are never logged or raised.
"""

import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import quote, urlencode

import msgspec

from jackstay.errors import TransportError, UsageError
from jackstay.extras import install_command
from jackstay.oauth._challenge import Scopes, read_scopes
from jackstay.oauth._discovery import REFRESH_TOKEN, AuthorizationServer, read_document
from jackstay.oauth._dpop import NONCE_REQUIRED, Proofs
from jackstay.oauth._errors import AuthorizationError, quoted
from jackstay.oauth._fetch import Reply, exchange
from jackstay.oauth._identity import Identity, RegisteredClient
from jackstay.transport import HttpClient
from jackstay.transport.http import Headers
from jackstay.types import DECODE_ERRORS

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# An assertion is for one request; five minutes allow for clock skew.
ASSERTION_SECONDS = 300

# The key type for a JWS algorithm, by the first two characters of its name.
_KEY_TYPES: Final[dict[str, Literal["RSA", "EC", "OKP"]]] = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}

# A token is refreshed this long before it expires, or at a tenth of its lifetime if that is shorter.
REFRESH_MARGIN_SECONDS = 30.0

_FORM = (("Content-Type", "application/x-www-form-urlencoded"),)


class TokenResponse(msgspec.Struct, frozen=True):
    """Response of a token endpoint (RFC 6749, 5.1; RFC 8693, 2.2.1). Some servers write `expires_in` as a string."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105 - the name of a type
    expires_in: float | str | None = None
    refresh_token: str | None = None
    scope: str | None = None
    issued_token_type: str | None = None


class OAuthErrorResponse(msgspec.Struct, frozen=True):
    """OAuth error response (RFC 6749, 5.2)."""

    error: str
    error_description: str | None = None


class Tokens(msgspec.Struct, frozen=True):
    """An access token, the server it is for, and how to refresh it. Times are Unix time."""

    issuer: str
    resource: str
    client_id: str
    access_token: str
    obtained_at: float
    expires_at: float | None = None
    refresh_token: str | None = None
    # The requested scopes, which step-up adds to; fewer may have been granted.
    scopes: Scopes = ()
    granted: Scopes = ()
    # The private key that the token is bound to (RFC 9449), as JSON; empty for a bearer token.
    dpop_key: str = ""

    def is_due(self, now: float) -> bool:
        """Return whether the token is expired or about to expire."""
        if self.expires_at is None:
            return False
        early = min(REFRESH_MARGIN_SECONDS, (self.expires_at - self.obtained_at) / 10)
        return now >= self.expires_at - early

    def __repr__(self) -> str:
        """Without tokens."""
        return f"Tokens(of {self.issuer!r} for {self.resource!r}, scopes={' '.join(self.scopes)!r})"


class ClientAuth(msgspec.Struct, frozen=True):
    """Client authentication at an issuer: the client, its credentials and the endpoints of the issuer."""

    client: RegisteredClient
    identity: Identity
    server: AuthorizationServer
    # For tokens that are bound to a key (RFC 9449): the proofs, and the key.
    proofs: Proofs | None = None
    dpop_key: str = ""


async def request_token(
    client: HttpClient, client_auth: ClientAuth, form: Mapping[str, str], now: float
) -> TokenResponse:
    """Send a token request.

    Raises: AuthorizationError with the OAuth `error`; TransportError if the request failed or the server is down.
    """
    credentials, headers = authenticate(client_auth, now)
    body = urlencode({**form, **credentials}).encode()
    reply = await _post_form(client, client_auth, headers, body)
    issuer = client_auth.server.issuer
    if reply.status != 200:
        raise error_from_reply(reply, f"{issuer} refused the token request", issuer)
    return read_document(reply.body, TokenResponse, f"the token response of {issuer}")


async def _post_form(client: HttpClient, client_auth: ClientAuth, headers: Headers, body: bytes) -> Reply:
    """Send the form, with a proof if tokens are to be bound to a key, and again if the server requires a nonce."""
    url, proofs = client_auth.server.token_endpoint, client_auth.proofs
    if proofs is None:
        return await exchange(client, "POST", url, (*_FORM, *headers), body)
    for _ in range(2):
        nonce = proofs.nonce(url)
        proof = proofs.header(client_auth.dpop_key, "POST", url)
        reply = await exchange(client, "POST", url, (*_FORM, *headers, *proof), body)
        proofs.note_response(url, reply.headers)
        if reply.status != 400 or proofs.nonce(url) == nonce or NONCE_REQUIRED.encode() not in reply.body:
            break
    return reply


async def refresh(client: HttpClient, client_auth: ClientAuth, tokens: Tokens, now: float) -> Tokens:
    """Return refreshed tokens. The refresh token is kept unless the response has a new one.

    Raises: as `request_token`; `error` is "invalid_grant" if the refresh token is no longer valid.
    """
    form = {
        "grant_type": REFRESH_TOKEN,
        "refresh_token": tokens.refresh_token or "",
        **client_auth.identity.resource_form(client_auth.server.issuer, tokens.resource),
    }
    response = await request_token(client, client_auth, form, now)
    renewed = read_tokens(response, client_auth, tokens.resource, tokens.scopes, now)
    return msgspec.structs.replace(
        renewed,
        refresh_token=renewed.refresh_token or tokens.refresh_token,
        granted=tokens.granted if response.scope is None else renewed.granted,
    )


def read_tokens(response: TokenResponse, client_auth: ClientAuth, resource: str, scopes: Scopes, now: float) -> Tokens:
    """Return the tokens of a token response.

    Raises: AuthorizationError if it has another type than requested or cannot be sent in a header.
    """
    issuer = client_auth.server.issuer
    kind = "Bearer" if client_auth.proofs is None else "DPoP"
    if response.token_type.lower() != kind.lower():
        raise AuthorizationError(
            f"{issuer} issued a token of type {quoted(response.token_type)}; expected {kind}", issuer=issuer
        )
    token = response.access_token
    # Slightly more than RFC 6750, 2.1 allows, but nothing that could end the header.
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise AuthorizationError(f"{issuer} issued an access token that cannot be sent in a header", issuer=issuer)
    lifetime = _lifetime(response.expires_in)
    return Tokens(
        issuer=issuer,
        resource=resource,
        client_id=client_auth.client.client_id,
        access_token=token,
        obtained_at=now,
        expires_at=None if lifetime is None else now + lifetime,
        refresh_token=response.refresh_token or None,
        scopes=scopes,
        # RFC 6749, 5.1: without `scope`, the requested scopes were granted.
        granted=scopes if response.scope is None else read_scopes(response.scope),
        dpop_key=client_auth.dpop_key,
    )


def error_from_reply(reply: Reply, what: str, issuer: str) -> TransportError:
    """Return the error for an unsuccessful reply. 5xx and 429 are transient; only an OAuth error is quoted."""
    if reply.status >= 500 or reply.status == 429:
        return TransportError(f"{what}: HTTP {reply.status}")
    try:
        response = msgspec.json.decode(reply.body, type=OAuthErrorResponse)
    except DECODE_ERRORS:
        return AuthorizationError(f"{what}: HTTP {reply.status}", issuer=issuer)
    description = f" ({quoted(response.error_description)})" if response.error_description else ""
    code = response.error[:100] if response.error.isprintable() and response.error.isascii() else "unknown"
    return AuthorizationError(f"{what}: {code}{description}", error=code, issuer=issuer)


def _lifetime(expires_in: float | str | None) -> float | None:
    try:
        seconds = float(expires_in or 0)
    except ValueError:
        return None
    # Zero, negative values, NaN and infinity are ignored; the server answers 401 when the token has expired.
    return seconds if 0 < seconds < 1e12 else None


# ---- client authentication: RFC 6749, 2.3.1; RFC 7523, 2.2; RFC 8414 (supported methods and the default) ----


def choose_method(client_auth: ClientAuth) -> str:
    """Return the authentication method: that of the registration, else that of the key, else a supported one.

    Raises: AuthorizationError if there is no common method.
    """
    client, server = client_auth.client, client_auth.server
    if client.auth_method:
        return client.auth_method
    supported = server.token_endpoint_auth_methods_supported
    if client_auth.identity.private_key and not client.is_dynamic:
        return "private_key_jwt"
    if not client.client_secret:
        return "none"
    if supported is None:
        return "client_secret_basic"  # RFC 8414, section 2
    for method in ("client_secret_basic", "client_secret_post", "none"):
        if method in supported:
            return method
    raise server.error(
        f"{server.issuer} supports only the client authentication {', '.join(supported[:5])}, not a client_secret"
    )


def authenticate(client_auth: ClientAuth, now: float) -> tuple[dict[str, str], Headers]:
    """Return the form members and headers that authenticate the client.

    Raises: AuthorizationError if the client belongs to another issuer; UsageError for an invalid key.
    """
    client, identity, server = client_auth.client, client_auth.identity, client_auth.server
    if client.issuer != server.issuer:
        raise server.error(
            f"the client is registered at {client.issuer}; its credentials are not sent to {server.issuer}"
        )
    form = {"client_id": client.client_id}
    headers: Headers = ()
    method = choose_method(client_auth)
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
            raise server.error(
                f"{server.issuer} supports the signing algorithms {', '.join(supported[:8])}, "
                f"not {identity.signing_algorithm}"
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
