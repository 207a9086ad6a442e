"""Which HTTP client is used: the one that was handed in, or ours; and what is said where neither is there."""

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
from scripted.loop import timed


def test_a_client_that_keeps_the_contract_is_used_as_it_is() -> None:
    client = MemoryHttp(Mcp())
    assert isinstance(client, HttpClient)
    assert wrap(client) is client


def test_what_is_no_client_is_refused_by_its_name() -> None:
    with pytest.raises(UsageError, match="not int"):
        wrap(7)
    with (
        httpx.Client() as synchronous,
        pytest.raises(UsageError, match="not Client, which blocks"),
    ):
        wrap(synchronous)


@timed
async def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is imported on first use; without the extra, a clear error."""
    monkeypatch.delitem(sys.modules, "jackstay.transport.http._aiohttp", raising=False)
    package = sys.modules["jackstay.transport.http"]
    monkeypatch.delattr(package, "_aiohttp", raising=False)
    find = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "aiohttp":
            raise ModuleNotFoundError("No module named 'aiohttp'")
        return find(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TransportError, match=r"pip install 'jackstay\[http\]'"):
        async with asyncio.timeout(10):
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
    ],
)
def test_the_environment_names_a_proxy_as_it_does_for_other_programs(
    variables: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment_proxy(url) == proxy
