"""URLs of strangers: which may be asked, where metadata is, and what is the same resource."""

import pytest

from jackstay.oauth import AuthorizationError
from jackstay.oauth._urls import (
    authorization_server_urls,
    canonical,
    check_url,
    is_resource_of,
    protected_resource_urls,
    root_of,
)

REMOTE = "https://mcp.example/mcp"
LOCAL = "http://localhost:8000/mcp"


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://as.example", REMOTE),
        ("https://as.example:8443/tenant?x=y", REMOTE),
        ("https://10.0.0.1/token", REMOTE),  # an organisation's own network
        ("http://127.0.0.1:1/x", LOCAL),
        ("http://localhost/x", LOCAL),
        ("http://[::1]:1/x", LOCAL),
        ("https://as.example", LOCAL),
    ],
)
def test_https_may_be_asked_and_loopback_by_loopback(url: str, server: str) -> None:
    assert check_url(url, "it", server) == url


@pytest.mark.parametrize(
    ("url", "server", "message"),
    [
        ("http://as.example", REMOTE, "must be https"),
        ("http://as.example", LOCAL, "must be https"),
        ("http://127.0.0.1:1/x", REMOTE, "on this machine"),
        ("https://localhost/x", REMOTE, "on this machine"),
        ("https://127.8.9.1/x", REMOTE, "on this machine"),
        ("https://[::1]/x", REMOTE, "on this machine"),
        ("https://[::ffff:127.0.0.1]/x", REMOTE, "on this machine"),
        ("https://0.0.0.0/x", REMOTE, "on this machine"),
        ("https://my.localhost./x", REMOTE, "on this machine"),
        ("https://[::ffff:169.254.169.254]/x", REMOTE, "link-local"),
        ("https://169.254.169.254/latest", REMOTE, "link-local"),
        ("https://2852039166/latest", REMOTE, "link-local"),
        ("https://0xa9.0xfe.43518/latest", REMOTE, "link-local"),
        ("https://127.1/x", REMOTE, "on this machine"),
        ("https://2130706433/x", REMOTE, "on this machine"),
        ("https://0x7f000001./x", REMOTE, "on this machine"),
        ("https://0177.0.0.1/x", REMOTE, "on this machine"),
        ("https://0/x", REMOTE, "on this machine"),
        ("http://169.254.169.254/latest", LOCAL, "link-local"),
        ("https://[fe80::1]/x", LOCAL, "link-local"),
        ("ftp://as.example", REMOTE, "plain"),
        ("javascript:alert(1)", REMOTE, "plain"),
        ("file:///etc/passwd", REMOTE, "plain"),
        ("https:///x", REMOTE, "plain"),
        ("https://user@as.example", REMOTE, "plain"),
        ("https://as.example@evil.example", REMOTE, "plain"),
        ("https://as.example#part", REMOTE, "plain"),
        ("https://as.example\\@evil.example", REMOTE, "plain"),
        ("https://as.example/ x", REMOTE, "plain"),
        ("https://as.example/\r\nX: y", REMOTE, "plain"),
        ("https://\u0430s.example", REMOTE, "plain"),
        ("https://as.example:99999", REMOTE, "plain"),
        ("https://as.example/" + "x" * 3000, REMOTE, "plain"),
        ("", REMOTE, "plain"),
        ("as.example", REMOTE, "plain"),
    ],
)
def test_other_urls_are_never_asked(url: str, server: str, message: str) -> None:
    with pytest.raises(AuthorizationError, match=message) as caught:
        check_url(url, "the thing", server)
    assert str(caught.value).startswith("the thing")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("server", "places"),
    [
        ("https://x.example/mcp", ["/mcp", ""]),
        ("https://x.example/a/b/", ["/a/b", ""]),
        ("https://X.example/mcp?q=1#f", ["/mcp", ""]),
        ("https://x.example/", [""]),
        ("https://x.example", [""]),
    ],
)
def test_a_servers_metadata_is_at_its_path_then_at_its_origin(server: str, places: list[str]) -> None:
    base = "https://x.example/.well-known/oauth-protected-resource"
    assert protected_resource_urls(server) == [base + place for place in places]


def test_an_issuers_metadata_depends_on_whether_it_has_a_path() -> None:
    base = "https://as.example"
    for issuer in (base, f"{base}/"):
        assert authorization_server_urls(issuer) == [
            f"{base}/.well-known/oauth-authorization-server",
            f"{base}/.well-known/openid-configuration",
        ]
    assert authorization_server_urls(f"{base}/t/1") == [
        f"{base}/.well-known/oauth-authorization-server/t/1",
        f"{base}/.well-known/openid-configuration/t/1",
        f"{base}/t/1/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize(
    ("resource", "is_same"),
    [
        ("https://x.example/mcp", True),
        ("https://X.EXAMPLE:443/mcp", True),
        ("https://x.example/mcp/", True),
        ("https://x.example", True),
        ("https://x.example/", True),
        ("https://x.example/mc", False),
        ("https://x.example/mcp/below", False),
        ("https://x.example/other", False),
        ("http://x.example/mcp", False),
        ("https://x.example:8443/mcp", False),
        ("https://y.example/mcp", False),
        ("https://x.example/mcp#f", False),
        ("https://x.example/mcp?\x1b[2J", False),
        ("https://x.example/mcp?" + "x" * 3000, False),
        ("urn:x", False),
        ("", False),
    ],
)
def test_a_resource_is_the_servers_own_at_its_path_or_above(resource: str, is_same: bool) -> None:
    assert is_resource_of(resource, "https://x.example/mcp") is is_same


def test_the_canonical_name_of_a_server_has_no_query_and_no_slash_at_its_end() -> None:
    assert canonical("HTTPS://X.example/Mcp/?q#f") == "https://x.example/Mcp"
    assert canonical("https://x.example/") == root_of("https://x.example/a") == "https://x.example"
