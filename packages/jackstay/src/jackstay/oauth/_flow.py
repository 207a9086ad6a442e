"""The authorization code flow, without its I/O: the URL that people are sent to, and what comes back from there.

PKCE with S256 always (OAuth 2.1, 7.5.2), `resource` (RFC 8707), `state`, and the issuer of the response (RFC 9207). What
comes back is a stranger's word until state and issuer are checked, in this order, before the code is used or an error
is shown (2026-07-28 basic/authorization, "Authorization Response Validation").

Pure but for the lots it draws. Above: `_oauth`. Below: `_discovery`'s findings.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from jackstay.oauth._challenge import read_scopes
from jackstay.oauth._discovery import Access
from jackstay.oauth._documents import AUTHORIZATION_CODE
from jackstay.oauth._errors import AuthorizationError, quoted
from jackstay.oauth._identity import Identity

OFFLINE_ACCESS = "offline_access"


class SignIn(msgspec.Struct, frozen=True):
    """One sign-in under way: the URL to open, and what its response is checked against."""

    url: str
    issuer: str
    redirect_uri: str
    resource: str
    state: str
    verifier: str
    scopes: tuple[str, ...]
    is_issuer_promised: bool
    # What the token request says of the resource.
    token_form: dict[str, str]

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"SignIn(at {self.issuer!r} for {self.resource!r})"


def begin(
    access: Access,
    client_id: str,
    redirect_uri: str,
    scopes: tuple[str, ...],
    identity: Identity = Identity(),  # noqa: B008 - frozen
) -> SignIn:
    """Start a sign-in. Open its `url`, then `read_callback`.

    Raises: AuthorizationError where the authorization server has no such flow, or not with PKCE.
    """
    server = access.server
    check_flow(access, identity)
    state = secrets.token_urlsafe(32)
    verifier = secrets.token_urlsafe(64)
    challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        **identity.resource_form(server.issuer, access.resource),
    }
    if scopes:
        query["scope"] = " ".join(scopes)
    if OFFLINE_ACCESS in scopes:
        query["prompt"] = "consent"  # without it, OpenID Connect ignores that scope (core, section 11)
    if identity.issuer == server.issuer:
        query |= identity.sign_in_parameters
    parts = urlsplit(server.authorization_endpoint or "")
    # The endpoint may have a query of its own, which stays (RFC 6749, 3.1).
    joined = "&".join(piece for piece in (parts.query, urlencode(query)) if piece)
    return SignIn(
        url=urlunsplit((parts.scheme, parts.netloc, parts.path, joined, "")),
        issuer=server.issuer,
        redirect_uri=redirect_uri,
        resource=access.resource,
        state=state,
        verifier=verifier,
        scopes=scopes,
        token_form=identity.resource_form(server.issuer, access.resource),
        is_issuer_promised=server.authorization_response_iss_parameter_supported is True,
    )


def check_flow(access: Access, identity: Identity = Identity()) -> None:  # noqa: B008 - frozen
    """Whether people can sign in there. Asked before anything is registered or opened.

    Raises: AuthorizationError.
    """
    server = access.server
    if server.authorization_endpoint is None:
        raise AuthorizationError(f"{server.issuer} has no page to sign in at", issuer=server.issuer)
    # 2025-11-25 "Authorization Code Protection": refuse where it is absent. Where nothing at all is published (2025-03-26)
    # nobody can know, and S256 is sent all the same.
    methods = server.code_challenge_methods_supported
    is_assumed = access.is_guessed or (methods is None and identity.assumes_pkce(server.issuer))
    if "S256" not in (methods or ()) and not is_assumed:
        raise AuthorizationError(
            f"{server.issuer} does not list PKCE with S256 in code_challenge_methods_supported; without PKCE a code can be"
            " stolen. Its operator must list it. If you know that it supports PKCE: Identity(issuer=..., assume_pkce=True)",
            issuer=server.issuer,
        )


def has_state(callback_url: str, state: str) -> bool:
    """True where a callback answers the sign-in of that state. Anybody can call a listener; this one was asked for."""
    values = [value for name, value in _query(callback_url) if name == "state"]
    return len(values) == 1 and hmac.compare_digest(values[0].encode(), state.encode())


def read_callback(sign_in: SignIn, callback_url: str) -> str:
    """The code that came back.

    Raises: AuthorizationError: not an answer to this sign-in, not by this issuer, or refused there.
    """
    query = _query(callback_url)
    answer = dict(query)
    if len(answer) != len(query):
        raise AuthorizationError("the answer to the sign-in says something twice, and was not used")
    if not has_state(callback_url, sign_in.state):
        raise AuthorizationError(
            "the answer to the sign-in has not the state that was sent, and was not used"
        )
    issuer = answer.get("iss")
    if issuer is None:
        if sign_in.is_issuer_promised:
            raise AuthorizationError(
                f"{sign_in.issuer} says that it names itself in its answers, and this one has no iss; it was not used",
                issuer=sign_in.issuer,
            )
    elif issuer != sign_in.issuer:
        # RFC 9207, 2.4: by simple comparison. Nothing else in it may be shown: it is an attacker's.
        raise AuthorizationError(
            f"the answer to the sign-in at {sign_in.issuer} is by another issuer, and was not used",
            issuer=sign_in.issuer,
        )
    if "error" in answer:
        said = f" ({quoted(answer['error_description'])})" if answer.get("error_description") else ""
        raise AuthorizationError(
            f"{sign_in.issuer} refused the sign-in: {quoted(answer['error'])}{said}",
            error=answer["error"][:100],
            issuer=sign_in.issuer,
        )
    if not answer.get("code"):
        raise AuthorizationError("the answer to the sign-in has no code", issuer=sign_in.issuer)
    return answer["code"]


def code_form(sign_in: SignIn, code: str) -> dict[str, str]:
    """The form that turns a code into tokens (RFC 6749, 4.1.3; RFC 7636, 4.5; RFC 8707, 2.2)."""
    return {
        "grant_type": AUTHORIZATION_CODE,
        "code": code,
        "redirect_uri": sign_in.redirect_uri,
        "code_verifier": sign_in.verifier,
        **sign_in.token_form,
    }


def choose_scopes(
    access: Access, demanded: Iterable[str], earlier: Iterable[str], extra: Iterable[str]
) -> tuple[str, ...]:
    """What to ask for: what the server demands, else what it supports, else nothing; with what was asked earlier.

    `offline_access` is for refresh tokens: added where the authorization server lists it, and never sent where it does not
    (2026-07-28 basic/authorization, "Refresh Tokens"). Alone it would be all we ask for, so it is never alone.
    """
    # Read again: what a document lists may be anything.
    supported = read_scopes(" ".join(access.scopes_supported))
    wanted = dict.fromkeys((*earlier, *(tuple(demanded) or supported), *extra))
    scopes = [scope for scope in wanted if scope != OFFLINE_ACCESS]
    if scopes and OFFLINE_ACCESS in (access.server.scopes_supported or ()):
        scopes.append(OFFLINE_ACCESS)
    return tuple(scopes)


def _query(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query, keep_blank_values=True, max_num_fields=50, errors="replace")
    except ValueError:
        return []
