"""Untrusted URLs: which are allowed, where metadata is, and which resource identifiers match."""

import pytest

from jackstay.oauth import AuthorizationError
from jackstay.oauth._discovery import (
    authorization_server_urls,
    canonical,
    check_url,
    is_resource_of,
    protected_resource_urls,
    root_of,
)

REMOTE = "https://mcp.example/mcp"
LOCAL = "http://localhost:8000/mcp"


def test_https_is_allowed_and_loopback_only_from_loopback() -> None:
    for url, server in (
        ("https://as.example", REMOTE),
        ("https://as.example:8443/tenant?x=y", REMOTE),
        ("https://10.0.0.1/token", REMOTE),  # a private network
        ("http://127.0.0.1:1/x", LOCAL),
        ("http://localhost/x", LOCAL),
        ("http://[::1]:1/x", LOCAL),
        ("https://as.example", LOCAL),
    ):
        assert check_url(url, "it", server) == url


def test_other_urls_are_refused(subtests: pytest.Subtests) -> None:
    cases = [
        ("http://as.example", REMOTE, "must be https"),
        ("http://as.example", LOCAL, "must be https"),
        ("http://127.0.0.1:1/x", REMOTE, "must not be on loopback"),
        ("https://localhost/x", REMOTE, "must not be on loopback"),
        ("https://127.8.9.1/x", REMOTE, "must not be on loopback"),
        ("https://[::1]/x", REMOTE, "must not be on loopback"),
        ("https://[::ffff:127.0.0.1]/x", REMOTE, "must not be on loopback"),
        ("https://0.0.0.0/x", REMOTE, "must not be on loopback"),
        ("https://my.localhost./x", REMOTE, "must not be on loopback"),
        ("https://[::ffff:169.254.169.254]/x", REMOTE, "must not be a link-local address"),
        ("https://169.254.169.254/latest", REMOTE, "must not be a link-local address"),
        ("https://2852039166/latest", REMOTE, "must not be a link-local address"),
        ("https://0xa9.0xfe.43518/latest", REMOTE, "must not be a link-local address"),
        ("https://127.1/x", REMOTE, "must not be on loopback"),
        ("https://2130706433/x", REMOTE, "must not be on loopback"),
        ("https://0x7f000001./x", REMOTE, "must not be on loopback"),
        ("https://0177.0.0.1/x", REMOTE, "must not be on loopback"),
        ("https://0/x", REMOTE, "must not be on loopback"),
        ("http://169.254.169.254/latest", LOCAL, "must not be a link-local address"),
        ("https://[fe80::1]/x", LOCAL, "must not be a link-local address"),
        ("ftp://as.example", REMOTE, "not a valid http or https URL"),
        ("javascript:alert(1)", REMOTE, "not a valid http or https URL"),
        ("file:///etc/passwd", REMOTE, "not a valid http or https URL"),
        ("https:///x", REMOTE, "not a valid http or https URL"),
        ("https://user@as.example", REMOTE, "not a valid http or https URL"),
        ("https://as.example@evil.example", REMOTE, "not a valid http or https URL"),
        ("https://as.example#part", REMOTE, "not a valid http or https URL"),
        ("https://as.example\\@evil.example", REMOTE, "not a valid http or https URL"),
        ("https://as.example/ x", REMOTE, "not a valid http or https URL"),
        ("https://as.example/\r\nX: y", REMOTE, "not a valid http or https URL"),
        ("https://\u0430s.example", REMOTE, "not a valid http or https URL"),
        ("https://as.example:99999", REMOTE, "not a valid http or https URL"),
        ("https://as.example/" + "x" * 3000, REMOTE, "not a valid http or https URL"),
        ("", REMOTE, "not a valid http or https URL"),
        ("as.example", REMOTE, "not a valid http or https URL"),
    ]
    for url, server, message in cases:
        with subtests.test(url=url[:60]):
            with pytest.raises(AuthorizationError, match=message) as caught:
                check_url(url, "the thing", server)
            assert str(caught.value).startswith("the thing")
            assert len(str(caught.value)) < 400


def test_the_metadata_of_a_server_is_at_its_path_then_at_its_origin() -> None:
    base = "https://x.example/.well-known/oauth-protected-resource"
    for server, paths in (
        ("https://x.example/mcp", ["/mcp", ""]),
        ("https://x.example/a/b/", ["/a/b", ""]),
        ("https://X.example/mcp?q=1#f", ["/mcp", ""]),
        ("https://x.example/", [""]),
        ("https://x.example", [""]),
    ):
        assert protected_resource_urls(server) == [base + path for path in paths]


def test_the_metadata_urls_of_an_issuer_depend_on_its_path() -> None:
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


def test_a_resource_matches_the_path_of_the_server_or_a_parent() -> None:
    for resource, is_match in (
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
    ):
        assert is_resource_of(resource, "https://x.example/mcp") is is_match, resource


def test_the_canonical_url_has_no_query_and_no_trailing_slash() -> None:
    assert canonical("HTTPS://X.example/Mcp/?q#f") == "https://x.example/Mcp"
    assert canonical("https://x.example/") == root_of("https://x.example/a") == "https://x.example"
