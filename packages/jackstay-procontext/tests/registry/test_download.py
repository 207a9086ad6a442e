"""Hosts from which a registry may be downloaded. Nothing is sent."""

import pytest

from procontext.config import FetcherSettings
from procontext.errors import RegistryError
from procontext.fetch import parse_url
from procontext.registry import Downloader

URL = "https://registry.example.com/latest.json"


HOSTS: list[tuple[str, bool]] = [
    ("https://registry.example.com/libraries.json", True),
    ("https://cdn.example.com/libraries.json", True),
    ("https://example.com/", True),
    ("http://registry.example.com/libraries.json", False),
    ("https://example.org/", False),
    ("https://registry.example.com.evil.net/", False),
]


async def test_allowed_hosts(subtests: pytest.Subtests) -> None:
    """The configured host and other hosts of its domain are allowed, over https."""
    for url, is_allowed in HOSTS:
        with subtests.test(url=url):
            download = Downloader(FetcherSettings(), URL)
            assert (await download._check_access(parse_url(url))).is_allowed is is_allowed
            await download.close()


async def test_public_suffix_is_not_a_domain() -> None:
    download = Downloader(FetcherSettings(), "https://me.github.io/latest.json")
    assert (await download._check_access(parse_url("https://me.github.io/x"))).is_allowed
    assert not (await download._check_access(parse_url("https://other.github.io/x"))).is_allowed
    await download.close()


async def test_failed_fetch_raises_os_error() -> None:
    """The settings have `offline=True`."""
    download = Downloader(FetcherSettings(offline=True), URL)
    with pytest.raises(OSError, match="offline"):
        await download(URL)
    await download.close()


def test_invalid_url() -> None:
    with pytest.raises(RegistryError):
        Downloader(FetcherSettings(), "https://0x7f.1/latest.json")
