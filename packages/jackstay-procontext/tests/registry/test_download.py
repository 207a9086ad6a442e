"""Where a registry may be fetched from. Nothing here sends: the network is a recording one."""

import pytest

from procontext.config import FetcherSettings
from procontext.errors import RegistryError
from procontext.fetch import read_url
from procontext.registry import Downloader
from scripted.loop import timed

URL = "https://registry.example.com/latest.json"


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://registry.example.com/libraries.json", True),
        ("https://cdn.example.com/libraries.json", True),
        ("https://example.com/", True),
        ("http://registry.example.com/libraries.json", False),
        ("https://example.org/", False),
        ("https://registry.example.com.evil.net/", False),
    ],
)
@timed
async def test_only_the_named_host_and_its_domain_are_asked(url: str, is_allowed: bool) -> None:
    """A redirect must not lead elsewhere."""
    download = Downloader(FetcherSettings(), URL)
    assert (await download._permit(read_url(url))).is_allowed is is_allowed
    await download.close()


@timed
async def test_a_public_suffix_is_no_domain() -> None:
    """Design, section 1: never `github.io`."""
    download = Downloader(FetcherSettings(), "https://me.github.io/latest.json")
    assert (await download._permit(read_url("https://me.github.io/x"))).is_allowed
    assert not (await download._permit(read_url("https://other.github.io/x"))).is_allowed
    await download.close()


@timed
async def test_what_cannot_be_fetched_is_an_os_error() -> None:
    """Offline: nothing is sent."""
    download = Downloader(FetcherSettings(offline=True), URL)
    with pytest.raises(OSError, match="offline"):
        await download(URL)
    await download.close()


def test_an_address_that_is_none_is_refused() -> None:
    """Odd spellings of loopback are nobody's registry."""
    with pytest.raises(RegistryError):
        Downloader(FetcherSettings(), "https://0x7f.1/latest.json")
