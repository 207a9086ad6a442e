"""Token answers, as they come: lifetimes, types, refusals, and tokens that no header can carry."""

from typing import Any

import pytest

from jackstay.errors import TransportError
from jackstay.oauth import AuthorizationError, Identity
from jackstay.oauth._documents import AuthorizationServer, TokenAnswer
from jackstay.oauth._fetch import Reply
from jackstay.oauth._identity import RegisteredClient
from jackstay.oauth._tokens import Applicant, Tokens, read_tokens, refresh, refusal_of, request_token
from scripted.loop import timed
from scripted.oauth import PlainClient, Response, Site

NOW = 1_800_000_000.0


def applicant(issuer: str = "https://as.example") -> Applicant:
    return Applicant(
        RegisteredClient(issuer, "me"), Identity(), AuthorizationServer(issuer, f"{issuer}/token")
    )


def read(**members: Any) -> Tokens:
    return read_tokens(TokenAnswer("t", **members), applicant(), "https://r.example", ("a",), NOW)


@pytest.mark.parametrize(
    ("expires_in", "expires_at"),
    [
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
    ],
)
def test_a_lifetime_that_makes_no_sense_is_unknown(expires_in: Any, expires_at: float | None) -> None:
    assert read(expires_in=expires_in).expires_at == expires_at


@pytest.mark.parametrize(
    ("lifetime", "due"), [(3600, 3570), (300, 270), (100, 90), (1, 0.9)], ids=lambda value: f"{value}"
)
def test_a_token_is_due_a_little_before_it_ends(lifetime: float, due: float) -> None:
    tokens = read(expires_in=lifetime)
    assert not tokens.is_due(NOW + due - 0.01)
    assert tokens.is_due(NOW + due + 0.01)


def test_a_token_of_unknown_lifetime_is_never_due() -> None:
    assert not read().is_due(NOW + 1e9)


def test_what_is_not_said_was_granted_as_asked() -> None:
    """RFC 6749, 5.1."""
    assert read().granted == ("a",)
    assert read(scope="b c").granted == ("b", "c")
    assert read(scope="").granted == ()


@pytest.mark.parametrize("kind", ["DPoP", "mac", "N_A", ""])
def test_a_token_of_another_type_is_refused(kind: str) -> None:
    with pytest.raises(AuthorizationError, match="only bearer tokens"):
        read(token_type=kind)
    assert read(token_type="bEARER").access_token == "t"


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "\u00e4", "a\x00"])
def test_a_token_that_would_break_its_header_is_refused(token: str) -> None:
    with pytest.raises(AuthorizationError, match="cannot be sent in a header") as caught:
        read_tokens(TokenAnswer(token), applicant(), "r", (), NOW)
    assert not token.strip() or token not in str(caught.value)


def test_tokens_are_not_shown() -> None:
    assert (
        repr(read(refresh_token="very-secret"))
        == "Tokens(of 'https://as.example' for 'https://r.example', scopes='a')"
    )


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
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
    ],
)
def test_a_refusal_has_the_code_of_oauth_and_quotes_nothing_else(
    status: int, body: bytes, error: str, message: str
) -> None:
    refusal = refusal_of(Reply(status, {}, body), "it failed", "https://as.example")
    assert isinstance(refusal, AuthorizationError)
    assert refusal.error == error
    assert refusal.permanent
    assert "very-secret" not in str(refusal)
    with pytest.raises(AuthorizationError, match=message):
        raise refusal


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_issuer_is_a_passing_error(status: int) -> None:
    refusal = refusal_of(Reply(status, {}, b'{"error":"server_error"}'), "it failed", "i")
    assert not isinstance(refusal, AuthorizationError)
    assert isinstance(refusal, TransportError)
    assert refusal.retryable


@timed
async def test_a_form_goes_to_the_token_endpoint_with_the_clients_name() -> None:
    async with Site() as site:
        site.routes["POST", "/token"] = lambda request: Response(body={"access_token": "t"})
        answer = await request_token(PlainClient(), applicant(site.url), {"grant_type": "x&y"}, NOW)
        assert answer == TokenAnswer("t")
        assert site.requests[0].form == {"grant_type": "x&y", "client_id": "me"}
        assert site.requests[0].headers["content-type"] == "application/x-www-form-urlencoded"


@timed
async def test_a_refresh_keeps_what_the_answer_does_not_say() -> None:
    async with Site() as site:
        site.routes["POST", "/token"] = lambda request: Response(body={"access_token": "new"})
        old = Tokens(site.url, "r", "me", "old", NOW - 100, NOW, "again", ("a", "b"), ("a",))
        new = await refresh(PlainClient(), applicant(site.url), old, NOW)
        assert new == Tokens(site.url, "r", "me", "new", NOW, None, "again", ("a", "b"), ("a",))
        site.routes["POST", "/token"] = lambda request: Response(
            body={"access_token": "newer", "refresh_token": "next", "scope": "b"}
        )
        newer = await refresh(PlainClient(), applicant(site.url), new, NOW)
        assert (newer.refresh_token, newer.granted, newer.scopes) == ("next", ("b",), ("a", "b"))


@timed
async def test_an_answer_that_cannot_be_read_is_an_error_without_its_body() -> None:
    async with Site() as site:
        site.routes["POST", "/token"] = lambda request: Response(body={"token": "very-secret"})
        with pytest.raises(AuthorizationError, match="access_token") as caught:
            await request_token(PlainClient(), applicant(site.url), {}, NOW)
        assert "very-secret" not in str(caught.value)
