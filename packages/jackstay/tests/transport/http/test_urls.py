"""Checks of the user's URL."""

import pytest

from jackstay.errors import UsageError
from jackstay.transport.http._urls import check_url, is_loopback


def test_valid_urls_are_unchanged() -> None:
    for url in [
        "http://localhost:8000/mcp",
        "https://example.org",
        "https://[::1]:8443/a/b?c=d",
        "https://exämple.org/",
    ]:
        assert check_url(url) == url


def test_invalid_urls_are_rejected_without_secrets() -> None:
    for url, message in [
        ("", "url must be a str such as 'https://example.org/mcp', not ''"),
        (None, "url must be a str such as 'https://example.org/mcp', not NoneType"),
        (b"http://x", "not bytes"),
        ("example.org/mcp", "is 'https://' missing?"),
        ("localhost:8000/mcp", "is 'https://' missing?"),
        ("ftp://x/", "must begin with http:// or https://"),
        ("stdio://x/", "must begin with http:// or https://"),
        ("http:///mcp", "has no host"),
        ("https://:8000/", "has no host"),
        ("https://me:s3cr3t@example.org/", "pass auth=(name, password)"),
        ("https://s3cr3t@example.org/", "pass auth=(name, password)"),
        ("http://x:99999/", "cannot be parsed"),
        ("http://x:a/", "cannot be parsed"),
        ("http://[::1/", "cannot be parsed"),
        ("http://x:0/", "port 0"),
        ("http://x/a#b", "fragment"),
        ("http://x/a b", "spaces"),
        ("http://x/\\a", "backslash"),
        ("http://x/\r\nHost: y", "spaces"),
    ]:
        with pytest.raises(UsageError) as raised:
            check_url(url)
        assert message in str(raised.value)
        assert raised.value.path == "url"
        assert "s3cr3t" not in str(raised.value)


def test_is_loopback() -> None:
    for url, expected in [
        ("http://localhost/", True),
        ("http://LOCALHOST:1/", True),
        ("http://a.localhost/", True),
        ("http://localhost./", True),
        ("http://127.0.0.1:8000/", True),
        ("http://127.1.2.3/", True),
        ("http://[::1]/", True),
        ("http://[::ffff:127.0.0.1]/", True),
        ("http://127.1/", True),
        ("http://2130706433/", True),
        ("http://0x7f000001./", True),
        ("http://0.0.0.0/", True),
        ("http://127.0.0.1.example.org/", False),
        ("http://127.example.org/", False),
        ("http://10.0.0.1/", False),
        ("http://notlocalhost/", False),
        ("http://[::2]/", False),
        ("http://localhost.example/", False),
        ("http://127.0.0.999/", False),
        ("localhost", False),
    ]:
        assert is_loopback(url) is expected
