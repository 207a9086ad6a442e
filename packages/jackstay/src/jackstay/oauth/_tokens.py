"""Tokens, and the request that every grant ends in: a form to the token endpoint, proven, and its answer read.

Sources: RFC 6749, sections 5 and 6; RFC 8707 (`resource` on every token request); OAuth 2.1, 4.3 (rotation).

Must never log or raise a token. Above: the authorizers. Below: `_proof`, `_fetch`.
"""

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from jackstay.errors import TransportError
from jackstay.oauth._challenge import read_scopes
from jackstay.oauth._documents import (
    REFRESH_TOKEN,
    AuthorizationServer,
    Refusal,
    TokenAnswer,
    read_document,
)
from jackstay.oauth._errors import AuthorizationError, quoted
from jackstay.oauth._fetch import Reply, post
from jackstay.oauth._identity import Identity, RegisteredClient
from jackstay.oauth._proof import prove
from jackstay.transport import HttpClient

# A token is renewed so many seconds before it ends: the way to the server, and clocks that run differently. A token
# that lives shorter than ten times that is renewed when a tenth of its life is left.
EARLY_SECONDS = 30.0

_FORM = (("Content-Type", "application/x-www-form-urlencoded"),)


class Tokens(msgspec.Struct, frozen=True):
    """An access token, with everything that says where it may go and how to get the next one. Times are Unix time."""

    issuer: str
    resource: str
    client_id: str
    access_token: str
    obtained_at: float
    expires_at: float | None = None
    refresh_token: str | None = None
    # What was asked for, which is what step-up adds to; what was granted may be less.
    scopes: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()

    def is_due(self, now: float) -> bool:
        """True when it is to be renewed."""
        if self.expires_at is None:
            return False
        early = min(EARLY_SECONDS, (self.expires_at - self.obtained_at) / 10)
        return now >= self.expires_at - early

    def __repr__(self) -> str:
        """Without the tokens."""
        return f"Tokens(of {self.issuer!r} for {self.resource!r}, scopes={' '.join(self.scopes)!r})"


class Applicant(msgspec.Struct, frozen=True):
    """Who asks: the client at its issuer, what it proves itself with, and the endpoints of that issuer."""

    client: RegisteredClient
    identity: Identity
    server: AuthorizationServer


async def request_token(
    client: HttpClient, applicant: Applicant, form: Mapping[str, str], now: float
) -> TokenAnswer:
    """Ask the token endpoint.

    Raises: AuthorizationError with the `error` it answered; TransportError where it could not be asked, or is down.
    """
    proof, headers = prove(applicant.client, applicant.identity, applicant.server, now)
    body = urlencode({**form, **proof}).encode()
    reply = await post(client, applicant.server.token_endpoint, (*_FORM, *headers), body)
    if reply.status != 200:
        raise refusal_of(reply, f"{applicant.server.issuer} refused a token", applicant.server.issuer)
    return read_document(reply.body, TokenAnswer, f"the token answer of {applicant.server.issuer}")


async def refresh(client: HttpClient, applicant: Applicant, tokens: Tokens, now: float) -> Tokens:
    """The next tokens. The refresh token is replaced where a new one is given, and kept where not.

    Raises: as `request_token`; `error` is "invalid_grant" where the refresh token is no longer good.
    """
    form = {
        "grant_type": REFRESH_TOKEN,
        "refresh_token": tokens.refresh_token or "",
        **applicant.identity.resource_form(applicant.server.issuer, tokens.resource),
    }
    answer = await request_token(client, applicant, form, now)
    renewed = read_tokens(answer, applicant, tokens.resource, tokens.scopes, now)
    if renewed.refresh_token is None:
        renewed = msgspec.structs.replace(renewed, refresh_token=tokens.refresh_token)
    if answer.scope is None:
        renewed = msgspec.structs.replace(renewed, granted=tokens.granted)
    return renewed


def read_tokens(
    answer: TokenAnswer, applicant: Applicant, resource: str, scopes: tuple[str, ...], now: float
) -> Tokens:
    """The tokens of an answer.

    Raises: AuthorizationError: not a bearer token, or one that no header can carry.
    """
    issuer = applicant.server.issuer
    if answer.token_type.lower() != "bearer":
        raise AuthorizationError(
            f"{issuer} gave a token of type {quoted(answer.token_type)}; only bearer tokens are understood",
            issuer=issuer,
        )
    token = answer.access_token
    # RFC 6750, 2.1, and a little more; above all nothing that could end the header it stands in.
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise AuthorizationError(
            f"{issuer} gave an access token that cannot be sent in a header", issuer=issuer
        )
    lifetime = _lifetime(answer.expires_in)
    return Tokens(
        issuer=issuer,
        resource=resource,
        client_id=applicant.client.client_id,
        access_token=token,
        obtained_at=now,
        expires_at=None if lifetime is None else now + lifetime,
        refresh_token=answer.refresh_token or None,
        scopes=scopes,
        # RFC 6749, 5.1: what is not said was granted as asked.
        granted=scopes if answer.scope is None else read_scopes(answer.scope),
    )


def refusal_of(reply: Reply, what: str, issuer: str) -> TransportError:
    """The error for a reply that is none of success. 5xx and 429 pass; an error of OAuth is quoted, nothing else is."""
    if reply.status >= 500 or reply.status == 429:
        return TransportError(f"{what}: HTTP {reply.status}")
    try:
        refusal = msgspec.json.decode(reply.body, type=Refusal)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return AuthorizationError(f"{what}: HTTP {reply.status}", issuer=issuer)
    said = f" ({quoted(refusal.error_description)})" if refusal.error_description else ""
    code = refusal.error[:100] if refusal.error.isprintable() and refusal.error.isascii() else "unknown"
    return AuthorizationError(f"{what}: {code}{said}", error=code, issuer=issuer)


def _lifetime(expires_in: float | str | None) -> float | None:
    try:
        seconds = None if expires_in is None else float(expires_in)
    except ValueError:
        return None
    # Zero, less, NaN and infinity say nothing that could be used: the server will answer 401 in its time.
    return seconds if seconds is not None and 0 < seconds < 1e12 else None
