"""The flow without its I/O: the URL to open. What comes back is tested with the whole in `test_oauth.py`."""

from urllib.parse import parse_qs, urlsplit

import pytest

from jackstay.oauth import AuthorizationError
from jackstay.oauth._discovery import Access
from jackstay.oauth._documents import AuthorizationServer
from jackstay.oauth._flow import begin, check_flow, code_form, has_state, read_callback


def access(endpoint: str | None = "https://as.example/authorize", *, is_guessed: bool = False) -> Access:
    methods = None if is_guessed else ("plain", "S256")
    server = AuthorizationServer(
        "https://as.example", "https://as.example/token", endpoint, code_challenge_methods_supported=methods
    )
    return Access("https://r.example", server, is_guessed=is_guessed)


def test_each_sign_in_draws_its_own_lots() -> None:
    one, two = (begin(access(), "c", "http://127.0.0.1:1/x", ()) for _ in range(2))
    assert one.state != two.state
    assert one.verifier != two.verifier
    assert 43 <= len(one.verifier) <= 128, "RFC 7636, 4.1"
    assert len(one.state) >= 43
    assert one.verifier not in one.url, "only its hash goes through the browser"


def test_the_endpoint_keeps_a_query_of_its_own() -> None:
    """RFC 6749, 3.1; `javascript:` and the like were refused when the metadata was read."""
    url = begin(
        access("https://as.example/authorize?tenant=a%20b"), "c d", "http://127.0.0.1:1/x", ("s", "t")
    ).url
    query = parse_qs(urlsplit(url).query)
    assert query["tenant"] == ["a b"]
    assert query["client_id"] == ["c d"]
    assert query["scope"] == ["s t"]
    assert url.startswith("https://as.example/authorize?tenant=a%20b&response_type=code&")


def test_secrets_of_a_sign_in_are_not_shown() -> None:
    sign_in = begin(access(), "c", "http://127.0.0.1:1/x", ())
    assert repr(sign_in) == "SignIn(at 'https://as.example' for 'https://r.example')"


def test_a_server_without_a_page_to_sign_in_at_is_refused() -> None:
    with pytest.raises(AuthorizationError, match="no page to sign in at"):
        check_flow(access(None))


def test_pkce_is_sent_where_nobody_could_say_whether_it_is_supported() -> None:
    assert "code_challenge_method=S256" in begin(access(is_guessed=True), "c", "http://127.0.0.1:1/x", ()).url


@pytest.mark.parametrize(
    ("query", "expected"),
    [("state=s", True), ("x=y&state=s", True), ("state=t", False), ("", False), ("state=s&state=s", False),
     ("&".join(f"x{n}=1" for n in range(60)) + "&state=s", False), ("state=%ff", False)],
)  # fmt: skip
def test_a_callback_is_ours_by_its_state(query: str, expected: bool) -> None:
    assert has_state(f"/callback?{query}", "s") is expected


def test_a_code_goes_with_everything_that_it_is_bound_to() -> None:
    sign_in = begin(access(), "c", "http://127.0.0.1:1/x", ())
    code = read_callback(sign_in, f"http://127.0.0.1:1/x?code=abc&state={sign_in.state}")
    assert code_form(sign_in, code) == {
        "grant_type": "authorization_code",
        "code": "abc",
        "redirect_uri": "http://127.0.0.1:1/x",
        "code_verifier": sign_in.verifier,
        "resource": "https://r.example",
    }
