"""Selection of the HTTP client, and the error if none is available."""

import asyncio
import builtins
import sys
from typing import Any

import httpx
import pytest

from jackstay.client import connect
from jackstay.errors import TransportError, UsageError
from jackstay.transport import HttpClient
from jackstay.transport.http import http
from jackstay.transport.http._clients import environment_proxy, wrap
from scripted.http import Mcp, MemoryHttp


def test_a_client_that_implements_the_contract_is_not_wrapped() -> None:
    client = MemoryHttp(Mcp())
    assert isinstance(client, HttpClient)
    assert wrap(client) is client


def test_an_unsupported_client_is_rejected() -> None:
    with pytest.raises(UsageError, match="not int"):
        wrap(7)
    with (
        httpx.Client() as synchronous,
        pytest.raises(UsageError, match="not Client, which blocks"),
    ):
        wrap(synchronous)


async def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    package = sys.modules["jackstay.transport.http"]
    for name in ("_pool", "_http1"):
        monkeypatch.delitem(sys.modules, f"jackstay.transport.http.{name}", raising=False)
        monkeypatch.delattr(package, name, raising=False)
    find = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "httptools":
            raise ModuleNotFoundError("No module named 'httptools'")
        return find(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TransportError, match=r"pip install 'jackstay\[http\]'"):
        async with asyncio.timeout(60):
            await connect(http("http://127.0.0.1:1/mcp")).open()


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({}, "http://a/x", None),
        ({"http_proxy": "http://p:1"}, "http://a/x", "http://p:1"),
        ({"http_proxy": "http://p:1"}, "https://a/x", None),
        ({"https_proxy": "p:1"}, "https://a/x", "http://p:1"),
        ({"all_proxy": "http://p:1"}, "https://a/x", "http://p:1"),
        ({"http_proxy": "http://p:1", "no_proxy": "a"}, "http://a/x", None),
        ({"http_proxy": "http://p:1", "no_proxy": "a"}, "http://a:80?x", None),
        ({"http_proxy": "http://p:1", "no_proxy": "*"}, "http://b/x", None),
        ({"http_proxy": "http://p:1", "no_proxy": ".a"}, "http://b/x", "http://p:1"),
        ({"http_proxy": "http://p:1", "no_proxy": "localhost,::1"}, "http://[::1]:80/x", None),
        ({"http_proxy": "http://p:1", "no_proxy": "[::1]"}, "http://[::1]/x", None),
        ({"http_proxy": "http://p:1", "no_proxy": "::1"}, "http://[::2]/x", "http://p:1"),
    ],
)
def test_the_proxy_from_the_environment(
    variables: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment_proxy(url) == proxy
