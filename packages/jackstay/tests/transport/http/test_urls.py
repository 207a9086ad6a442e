"""The user's own URL: what is refused before anything is sent."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.transport.http._urls import check_url, is_loopback


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/mcp",
        "https://example.org",
        "https://[::1]:8443/a/b?c=d",
        "https://exämple.org/",
    ],
)
def test_a_url_is_taken_as_it_is(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "a URL is text such as https://example.org/mcp, not empty"),
        (None, "a URL is text such as https://example.org/mcp, not NoneType"),
        (b"http://x", "not bytes"),
        ("example.org/mcp", "is https:// missing?"),
        ("localhost:8000/mcp", "is https:// missing?"),
        ("ftp://x/", "only http and https"),
        ("stdio://x/", "only http and https"),
        ("http:///mcp", "names no host"),
        ("https://:8000/", "names no host"),
        ("https://me:s3cr3t@example.org/", "pass auth=(name, password)"),
        ("https://s3cr3t@example.org/", "pass auth=(name, password)"),
        ("http://x:99999/", "not a URL"),
        ("http://x:a/", "not a URL"),
        ("http://[::1/", "not a URL"),
        ("http://x:0/", "port 0"),
        ("http://x/a#b", "fragment"),
        ("http://x/a b", "spaces"),
        ("http://x/\\a", "backslash"),
        ("http://x/\r\nHost: y", "spaces"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_by_name_and_without_secrets(url: Any, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_url(url)
    assert said in str(raised.value)
    assert raised.value.path == "url"
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "stays"),
    [
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
    ],
)
def test_what_stays_on_this_machine(url: str, stays: bool) -> None:
    assert is_loopback(url) is stays
