"""The authorization code flow without I/O: builds the authorization URL and validates the callback.

Always uses PKCE with S256 (OAuth 2.1, 7.5.2), `resource` (RFC 8707), `state` and `iss` (RFC 9207). State and issuer are
checked before the code is used or an error is reported (2026-07-28 basic/authorization, "Authorization Response
Validation").
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from jackstay.oauth._challenge import Scopes, read_scopes, scope_form
from jackstay.oauth._discovery import AUTHORIZATION_CODE, Access
from jackstay.oauth._errors import AuthorizationError, quoted
from jackstay.oauth._identity import Identity

OFFLINE_ACCESS = "offline_access"


class SignIn(msgspec.Struct, frozen=True):
    """One pending sign-in: the URL to open, and what its callback must match."""

    url: str
    access: Access
    state: str
    # The form of the token request, except for the code (RFC 6749, 4.1.3; RFC 7636, 4.5; RFC 8707, 2.2).
    token_form: dict[str, str]

    def __repr__(self) -> str:
        """Without secrets."""
        return f"SignIn(at {self.access.issuer!r} for {self.access.resource!r})"


def begin(
    access: Access, client_id: str, redirect_uri: str, scopes: Scopes, identity: Identity, *, thumbprint: str = ""
) -> SignIn:
    """Start a sign-in: open its `url`, then pass the callback to `read_callback()`.

    With `thumbprint`, the code is bound to that key (RFC 9449, 10).

    Raises: AuthorizationError if the authorization server does not support the flow with PKCE.
    """
    server = access.server
    check_flow(access, identity)
    state = secrets.token_urlsafe(32)
    verifier = secrets.token_urlsafe(64)
    challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    common = {"redirect_uri": redirect_uri, **identity.resource_form(server.issuer, access.resource)}
    query = {
        "response_type": "code",
        "client_id": client_id,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        **common,
        **scope_form(scopes),
    }
    if thumbprint:
        query["dpop_jkt"] = thumbprint
    if OFFLINE_ACCESS in scopes:
        query["prompt"] = "consent"  # required for that scope by OpenID Connect Core, section 11
    if identity.issuer == server.issuer:
        query |= identity.sign_in_parameters
    parts = urlsplit(server.authorization_endpoint or "")
    # A query of the endpoint must be kept (RFC 6749, 3.1).
    joined = "&".join(piece for piece in (parts.query, urlencode(query)) if piece)
    return SignIn(
        url=urlunsplit((parts.scheme, parts.netloc, parts.path, joined, "")),
        access=access,
        state=state,
        token_form={"grant_type": AUTHORIZATION_CODE, "code_verifier": verifier, **common},
    )


def check_flow(access: Access, identity: Identity) -> None:
    """Raises: AuthorizationError if the server does not support the flow. Called before registration."""
    server = access.server
    if server.authorization_endpoint is None:
        raise server.error(f"{server.issuer}: metadata has no authorization_endpoint")
    # 2025-11-25 basic/authorization, "Authorization Code Protection": refuse if it is absent. A 2025-03-26 server
    # without metadata cannot declare it; S256 is sent nevertheless.
    methods = server.code_challenge_methods_supported
    is_assumed = access.uses_default_endpoints or (methods is None and identity.assumes_pkce(server.issuer))
    if "S256" not in (methods or ()) and not is_assumed:
        raise server.error(
            f"{server.issuer}: code_challenge_methods_supported does not include S256 (PKCE); its operator must add"
            " it. If you know that it supports PKCE, use Identity(issuer=..., assume_pkce=True)"
        )


def has_state(callback_url: str, state: str) -> bool:
    """Return whether a callback has this state: any web page can call the listener."""
    values = [value for name, value in _query(callback_url) if name == "state"]
    return len(values) == 1 and hmac.compare_digest(values[0].encode(), state.encode())


def read_callback(sign_in: SignIn, callback_url: str) -> str:
    """Return the authorization code of a callback.

    Raises: AuthorizationError if the callback is invalid, of another sign-in or issuer, or reports an error.
    """
    query = _query(callback_url)
    callback = dict(query)
    if len(callback) != len(query):
        raise AuthorizationError("the sign-in callback has duplicate parameters and was ignored")
    if not has_state(callback_url, sign_in.state):
        raise AuthorizationError("the sign-in callback has the wrong state and was ignored")
    server = sign_in.access.server
    issuer = server.issuer
    if "iss" not in callback:
        if server.authorization_response_iss_parameter_supported is True:
            raise server.error(
                f"the sign-in callback of {issuer} has no iss, which its metadata promises, and was ignored"
            )
    elif callback["iss"] != issuer:
        # RFC 9207, 2.4: simple comparison. The rest may be from an attacker and is not reported.
        raise server.error(f"the sign-in callback is not from {issuer} (wrong iss) and was ignored")
    if "error" in callback:
        description = callback.get("error_description")
        suffix = f" ({quoted(description)})" if description else ""
        raise server.error(
            f"{issuer} refused the sign-in: {quoted(callback['error'])}{suffix}", error=callback["error"][:100]
        )
    if not callback.get("code"):
        raise server.error("the sign-in callback has no code")
    return callback["code"]


def choose_scopes(access: Access, required: Iterable[str], earlier: Iterable[str], extra: Iterable[str]) -> Scopes:
    """Return the scopes to request: those that the server requires, else those it supports, plus `earlier` and `extra`.

    `offline_access` (for refresh tokens) is added if the authorization server lists it, and never requested otherwise
    or alone (2026-07-28 basic/authorization, "Refresh Tokens").
    """
    # Drop invalid scopes of the metadata.
    supported = read_scopes(" ".join(access.scopes_supported))
    wanted = dict.fromkeys((*earlier, *(tuple(required) or supported), *extra))
    scopes = [scope for scope in wanted if scope != OFFLINE_ACCESS]
    if scopes and OFFLINE_ACCESS in (access.server.scopes_supported or ()):
        scopes.append(OFFLINE_ACCESS)
    return tuple(scopes)


def _query(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query, keep_blank_values=True, max_num_fields=50, errors="replace")
    except ValueError:
        return []
