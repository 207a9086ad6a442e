"""The authorization URL. Callbacks are tested in `test_oauth.py`."""

from base64 import urlsafe_b64encode
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

import pytest

from jackstay.oauth import AuthorizationError, Identity
from jackstay.oauth._discovery import Access, AuthorizationServer
from jackstay.oauth._flow import begin, check_flow, has_state, read_callback


def access(endpoint: str | None = "https://as.example/authorize", *, uses_default_endpoints: bool = False) -> Access:
    methods = None if uses_default_endpoints else ("plain", "S256")
    server = AuthorizationServer(
        "https://as.example", "https://as.example/token", endpoint, code_challenge_methods_supported=methods
    )
    return Access("https://r.example", server, uses_default_endpoints=uses_default_endpoints)


def test_each_sign_in_has_its_own_random_values() -> None:
    first, second = (begin(access(), "c", "http://127.0.0.1:1/x", (), Identity()) for _ in range(2))
    assert first.state != second.state
    verifier = first.token_form["code_verifier"]
    assert verifier != second.token_form["code_verifier"]
    assert 43 <= len(verifier) <= 128, "RFC 7636, 4.1"
    assert len(first.state) >= 43
    assert verifier not in first.url, "only its hash is in the URL"


def test_the_query_of_the_endpoint_is_kept() -> None:
    """RFC 6749, 3.1."""
    found = access("https://as.example/authorize?tenant=a%20b")
    url = begin(found, "c d", "http://127.0.0.1:1/x", ("s", "t"), Identity()).url
    query = parse_qs(urlsplit(url).query)
    assert query["tenant"] == ["a b"]
    assert query["client_id"] == ["c d"]
    assert query["scope"] == ["s t"]
    assert url.startswith("https://as.example/authorize?tenant=a%20b&response_type=code&")


def test_secrets_of_a_sign_in_are_not_shown() -> None:
    sign_in = begin(access(), "c", "http://127.0.0.1:1/x", (), Identity())
    assert repr(sign_in) == "SignIn(at 'https://as.example' for 'https://r.example')"


def test_a_server_without_an_authorization_endpoint_is_refused() -> None:
    with pytest.raises(AuthorizationError, match="metadata has no authorization_endpoint"):
        check_flow(access(None), Identity())


def test_pkce_is_used_without_metadata() -> None:
    url = begin(access(uses_default_endpoints=True), "c", "http://127.0.0.1:1/x", (), Identity()).url
    assert "code_challenge_method=S256" in url


def test_a_callback_is_recognised_by_its_state() -> None:
    for query, expected in (
        ("state=s", True),
        ("x=y&state=s", True),
        ("state=t", False),
        ("", False),
        ("state=s&state=s", False),
        ("&".join(f"x{n}=1" for n in range(60)) + "&state=s", False),
        ("state=%ff", False),
    ):
        assert has_state(f"/callback?{query}", "s") is expected, query


def test_the_token_request_contains_everything_the_code_is_bound_to() -> None:
    sign_in = begin(access(), "c", "http://127.0.0.1:1/x", (), Identity())
    code = read_callback(sign_in, f"http://127.0.0.1:1/x?code=abc&state={sign_in.state}")
    assert code == "abc"
    verifier = sign_in.token_form["code_verifier"]
    challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    assert f"code_challenge={challenge}" in sign_in.url
    assert sign_in.token_form == {
        "grant_type": "authorization_code",
        "redirect_uri": "http://127.0.0.1:1/x",
        "code_verifier": verifier,
        "resource": "https://r.example",
    }
