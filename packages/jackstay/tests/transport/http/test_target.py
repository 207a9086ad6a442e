"""`http()`: what is refused before anything is sent, and what a target shows of itself."""

import ssl
from typing import Any

import pytest

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


def test_a_start_waits_for_who_signs_in_and_otherwise_as_long_as_any() -> None:
    """A sign-in takes minutes, and is finished over the connections of the start that asked for it."""

    class Patient:
        patience = 300.0

        async def headers(self, client: Any, url: str) -> Any:
            raise AssertionError("not asked")

        async def challenged(self, client: Any, challenge: Any) -> bool:
            raise AssertionError("not asked")

    assert http(URL, auth=Patient()).init_timeout == 310.0
    assert http(URL, auth="token").init_timeout is None
    assert http(URL).init_timeout is None


@pytest.mark.parametrize(
    ("options", "path", "said"),
    [
        ({"max_connections": 0}, "max_connections", "a whole number from 1, not 0"),
        ({"max_connections": "10"}, "max_connections", "a whole number from 1, not '10'"),
        ({"connect_timeout": "10"}, "connect_timeout", "above 0"),
        ({"name": 5}, "name", "must be text, not 5"),
        ({"connect_timeout": 0}, "connect_timeout", "above 0"),
        ({"connect_timeout": float("nan")}, "connect_timeout", "above 0"),
        ({"proxy": "socks5://user:s3cr3t@x"}, "proxy", "http or https URL"),
        ({"proxy": 7}, "proxy", "http or https URL"),
        ({"verify": "/a/file"}, "verify", "a file goes into ca"),
        ({"verify": False, "ca": "/a/file"}, "ca", "give one of them"),
        ({"ca": "/no/such/file"}, "ca", "cannot use the certificates in /no/such/file"),
        ({"client": 7}, "client", "aiohttp.ClientSession"),
        ({"auth": 7}, "auth", "bearer token"),
        ({"headers": {"Host": "x"}}, "headers", "Host"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_by_name(options: Any, path: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        http(URL, **options)
    assert raised.value.path == path
    assert said in str(raised.value)
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize("options", [{"proxy": "http://x"}, {"verify": False}, {"ca": "/x"}])
def test_a_client_that_is_handed_in_brings_its_own_proxy_and_trust(options: Any) -> None:
    with pytest.raises(UsageError, match="set them there"):
        http(URL, client=MemoryHttp(Mcp()), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"auth": "t"},
        {"auth": ("a", "b")},
        {"headers": {"authorization": "x"}},
        {"headers": {"X-API-Key": "x"}},
    ],
)
def test_credentials_go_only_where_nobody_can_read_them_on_the_way(options: Any) -> None:
    with pytest.raises(UsageError, match="use https, or pass insecure=True") as raised:
        http("http://example.org/mcp", **options)
    assert raised.value.path == "url"
    for url in ("http://127.0.0.1:8000/mcp", "http://localhost/", URL):
        assert http(url, **options).url == url
    assert http("http://example.org/mcp", insecure=True, **options).url == "http://example.org/mcp"
    assert http("http://example.org/mcp", headers={"X-Other": "1"}).name == "example.org"


def test_a_context_of_the_users_own_is_used_as_it_is() -> None:
    context = ssl.create_default_context()
    assert http(URL, verify=context)._verify is context


def test_a_directory_of_certificates_is_read_as_one(tmp_path: Any) -> None:
    assert isinstance(http(URL, ca=tmp_path)._verify, ssl.SSLContext)


def test_who_holds_the_credentials_can_be_said_later() -> None:
    class Keys:
        async def headers(self, client: Any, url: str) -> list[tuple[str, str]]:
            return []

        async def challenged(self, client: Any, challenge: Any) -> bool:
            return False

    plain = http(URL)
    signed = plain.authorized_by(Keys())
    assert (plain.has_credentials, signed.has_credentials) == (False, True)
    assert signed is not plain
    assert http(URL, auth="t").has_credentials
    assert http(URL, headers={"x-api-key": "t"}).has_credentials
