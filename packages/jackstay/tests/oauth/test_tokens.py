"""Token responses: lifetimes, types, errors, and tokens that cannot be sent in a header."""

from typing import Any

import pytest

from jackstay.errors import TransportError
from jackstay.oauth import AuthorizationError, Identity
from jackstay.oauth._discovery import AuthorizationServer
from jackstay.oauth._fetch import Reply
from jackstay.oauth._identity import RegisteredClient
from jackstay.oauth._tokens import (
    ClientAuth,
    TokenResponse,
    Tokens,
    error_from_reply,
    read_tokens,
    refresh,
    request_token,
)
from scripted.oauth import PlainClient, Response, Site

NOW = 1_800_000_000.0


def client_auth(issuer: str = "https://as.example") -> ClientAuth:
    return ClientAuth(RegisteredClient(issuer, "me"), Identity(), AuthorizationServer(issuer, f"{issuer}/token"))


def read(**members: Any) -> Tokens:
    return read_tokens(TokenResponse("t", **members), client_auth(), "https://r.example", ("a",), NOW)


def test_an_invalid_lifetime_is_ignored() -> None:
    cases: list[tuple[Any, float | None]] = [
        (60, NOW + 60),
        (60.5, NOW + 60.5),
        ("60", NOW + 60),
        (None, None),
        (0, None),
        (-5, None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        (1e300, None),
    ]
    for expires_in, expires_at in cases:
        assert read(expires_in=expires_in).expires_at == expires_at


def test_a_token_is_due_shortly_before_it_expires() -> None:
    for lifetime, due in ((3600, 3570), (300, 270), (100, 90), (1, 0.9)):
        tokens = read(expires_in=lifetime)
        assert not tokens.is_due(NOW + due - 0.01)
        assert tokens.is_due(NOW + due + 0.01)


def test_a_token_of_unknown_lifetime_is_never_due() -> None:
    assert not read().is_due(NOW + 1e9)


def test_without_scope_the_requested_scopes_were_granted() -> None:
    """RFC 6749, 5.1."""
    assert read().granted == ("a",)
    assert read(scope="b c").granted == ("b", "c")
    assert read(scope="").granted == ()


def test_a_token_of_another_type_is_refused() -> None:
    for kind in ("DPoP", "mac", "N_A", ""):
        with pytest.raises(AuthorizationError, match="expected Bearer"):
            read(token_type=kind)
    assert read(token_type="bEARER").access_token == "t"


def test_a_token_that_cannot_be_sent_in_a_header_is_refused() -> None:
    for token in ("", "a b", "a\r\nX: y", "\u00e4", "a\x00"):
        with pytest.raises(AuthorizationError, match="cannot be sent in a header") as caught:
            read_tokens(TokenResponse(token), client_auth(), "r", (), NOW)
        assert not token.strip() or token not in str(caught.value)


def test_tokens_are_not_shown() -> None:
    assert (
        repr(read(refresh_token="very-secret")) == "Tokens(of 'https://as.example' for 'https://r.example', scopes='a')"
    )


def test_only_an_oauth_error_is_quoted() -> None:
    for status, body, code, message in (
        (400, b'{"error":"invalid_grant"}', "invalid_grant", "it failed: invalid_grant"),
        (
            401,
            b'{"error":"invalid_client","error_description":"who\\n?"}',
            "invalid_client",
            r"\('who\\n\?'\)",
        ),
        (400, b"<html>very-secret", "", "it failed: HTTP 400"),
        (302, b"", "", "it failed: HTTP 302"),
        (400, b'{"error":"\\u001b[2J"}', "unknown", "it failed: unknown"),
        (400, b'{"error":1}', "", "it failed: HTTP 400"),
    ):
        error = error_from_reply(Reply(status, {}, body), "it failed", "https://as.example")
        assert isinstance(error, AuthorizationError)
        assert error.error == code
        assert error.permanent
        assert "very-secret" not in str(error)
        with pytest.raises(AuthorizationError, match=message):
            raise error


def test_a_busy_issuer_is_a_transient_error() -> None:
    for status in (429, 500, 503):
        error = error_from_reply(Reply(status, {}, b'{"error":"server_error"}'), "it failed", "i")
        assert not isinstance(error, AuthorizationError)
        assert isinstance(error, TransportError)
        assert error.retryable


async def test_a_token_request_contains_the_form_and_the_client_id() -> None:
    async with Site() as site:
        site.routes["POST", "/token"] = lambda request: Response(body={"access_token": "t"})
        response = await request_token(PlainClient(), client_auth(site.url), {"grant_type": "x&y"}, NOW)
        assert response == TokenResponse("t")
        assert site.requests[0].form == {"grant_type": "x&y", "client_id": "me"}
        assert site.requests[0].headers["content-type"] == "application/x-www-form-urlencoded"


async def test_a_refresh_keeps_what_the_response_does_not_contain() -> None:
    async with Site() as site:
        site.routes["POST", "/token"] = lambda request: Response(body={"access_token": "new"})
        old = Tokens(site.url, "r", "me", "old", NOW - 100, NOW, "again", ("a", "b"), ("a",))
        new = await refresh(PlainClient(), client_auth(site.url), old, NOW)
        assert new == Tokens(site.url, "r", "me", "new", NOW, None, "again", ("a", "b"), ("a",))
        site.routes["POST", "/token"] = lambda request: Response(
            body={"access_token": "newer", "refresh_token": "next", "scope": "b"}
        )
        newer = await refresh(PlainClient(), client_auth(site.url), new, NOW)
        assert (newer.refresh_token, newer.granted, newer.scopes) == ("next", ("b",), ("a", "b"))


async def test_an_invalid_response_is_an_error_without_its_body() -> None:
    async with Site() as site:
        site.routes["POST", "/token"] = lambda request: Response(body={"token": "very-secret"})
        with pytest.raises(AuthorizationError, match="access_token") as caught:
            await request_token(PlainClient(), client_auth(site.url), {}, NOW)
        assert "very-secret" not in str(caught.value)
