"""`http()`: arguments, names and `repr`."""

import ssl
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import UsageError
from jackstay.transport.http import HttpTarget, http
from scripted.http import Mcp, MemoryHttp

URL = "https://example.org/mcp"


def test_a_target_is_named_after_its_host_and_shows_no_secrets() -> None:
    """Header values are never logged."""
    target = http("https://example.org:8443/mcp?key=s3cr3t", headers={"X-Api-Key": "s3cr3t"}, auth="s3cr3t")
    assert isinstance(target, HttpTarget)
    assert (target.name, target.is_http, target.init_timeout) == ("example.org:8443", True, None)
    assert repr(target) == "<HttpTarget example.org:8443: https://example.org:8443/mcp?...>"
    assert repr(http(URL, name="docs")) == "<HttpTarget docs: https://example.org/mcp>"


def test_init_timeout_includes_the_sign_in_timeout() -> None:
    """A user may take minutes to sign in while the connection is opened."""

    class SlowSignIn:
        sign_in_timeout = 300.0

        async def headers(self, client: Any, url: str) -> Any:
            raise AssertionError("not called")

        async def challenged(self, client: Any, challenge: Any) -> bool:
            raise AssertionError("not called")

    assert http(URL, auth=SlowSignIn()).init_timeout == 310.0
    assert http(URL, auth="token").init_timeout is None
    assert http(URL).init_timeout is None


def test_invalid_options_are_rejected() -> None:
    for options, path, message in [
        ({"max_connections": 0}, "max_connections", "an int of at least 1, not 0"),
        ({"max_connections": "10"}, "max_connections", "an int of at least 1, not '10'"),
        ({"connect_timeout": "10"}, "connect_timeout", "above 0"),
        ({"name": 5}, "name", "must be a str, not int"),
        ({"connect_timeout": 0}, "connect_timeout", "above 0"),
        ({"connect_timeout": float("nan")}, "connect_timeout", "above 0"),
        ({"proxy": "socks5://user:s3cr3t@x"}, "proxy", "a URL that begins with http://"),
        ({"proxy": 7}, "proxy", "a URL that begins with http://"),
        ({"verify": "/a/file"}, "verify", "pass a file of certificates as ca"),
        ({"verify": False, "ca": "/a/file"}, "ca", "pass one of them"),
        ({"ca": "/no/such/file"}, "ca", "cannot load the certificates in '/no/such/file'"),
        ({"client": 7}, "client", "aiohttp.ClientSession"),
        ({"auth": 7}, "auth", "bearer token"),
        ({"headers": {"Host": "x"}}, "headers", "Host"),
    ]:
        with pytest.raises(UsageError) as raised:
            http(URL, **options)
        assert raised.value.path == path
        assert message in str(raised.value)
        assert "s3cr3t" not in str(raised.value)


def test_client_cannot_be_combined_with_proxy_and_tls_options() -> None:
    for options in [{"proxy": "http://x"}, {"verify": False}, {"ca": "/x"}]:
        with pytest.raises(UsageError, match="configure them on the client"):
            http(URL, client=MemoryHttp(Mcp()), **options)


def test_credentials_over_plain_http_are_rejected() -> None:
    for options in [
        {"auth": "t"},
        {"auth": ("a", "b")},
        {"headers": {"authorization": "x"}},
        {"headers": {"X-API-Key": "x"}},
    ]:
        with pytest.raises(UsageError, match="pass insecure=True to send them unencrypted") as raised:
            http("http://example.org/mcp", **options)
        assert raised.value.path == "url"
        for url in ("http://127.0.0.1:8000/mcp", "http://localhost/", URL):
            assert http(url, **options).url == url
        assert http("http://example.org/mcp", insecure=True, **options).url == "http://example.org/mcp"
        assert http("http://example.org/mcp", headers={"X-Other": "1"}).name == "example.org"


def test_an_ssl_context_of_the_user_is_used() -> None:
    context = ssl.create_default_context()
    assert http(URL, verify=context).verify is context


def test_ca_may_be_a_directory(tmp_path: Any) -> None:
    assert isinstance(http(URL, ca=tmp_path).verify, ssl.SSLContext)


def test_with_authorizer_returns_a_copy() -> None:
    class Keys:
        async def headers(self, client: Any, url: str) -> list[tuple[str, str]]:
            return []

        async def challenged(self, client: Any, challenge: Any) -> bool:
            return False

    plain = http(URL)
    signed = plain.with_authorizer(Keys())
    assert (plain.has_credentials, signed.has_credentials) == (False, True)
    assert signed is not plain
    assert http(URL, auth="t").has_credentials
    assert http(URL, headers={"x-api-key": "t"}).has_credentials


async def test_a_client_of_the_user_that_is_falsy_is_used() -> None:
    class Empty(MemoryHttp):
        def __len__(self) -> int:
            return 0

    client = Empty(Mcp())
    async with connect(http("http://127.0.0.1:9/mcp", client=client)):
        assert client.received("initialize") or client.received("server/discover")
    assert not client.is_closed
