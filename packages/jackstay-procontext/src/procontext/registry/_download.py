"""Download of a registry with the same protected fetcher as pages.

A redirect may lead to another host of the same registrable domain; a private address needs an entry in
`fetcher.allowed_private_hosts`.
"""

import msgspec

from procontext.config import FetcherSettings
from procontext.errors import RegistryError
from procontext.fetch import (
    Access,
    Fetcher,
    FetchError,
    Network,
    Target,
    display_url,
    parse_url,
    registrable_domain,
)
from procontext.registry._document import MAX_BYTES


class Downloader:
    """Fetches files from the site of `url`. Call it with a URL, and close it at the end."""

    def __init__(self, settings: FetcherSettings, url: str, network: Network | None = None) -> None:
        try:
            self._home = parse_url(url)
        except FetchError as error:
            raise RegistryError(display_url(url), error.detail) from error
        # A registry of a hundred thousand libraries is larger than the limit for pages.
        large = msgspec.structs.replace(settings, max_bytes=MAX_BYTES)
        self._fetcher = Fetcher(large, self._check_access, network)

    async def __call__(self, address: str) -> bytes:
        """Return the bytes at a URL. Raises: OSError."""
        try:
            return (await self._fetcher.fetch(address)).body
        except FetchError as error:
            raise OSError(error.detail) from error

    async def close(self) -> None:
        """Cancel all fetches."""
        await self._fetcher.close()

    async def _check_access(self, target: Target) -> Access:
        if self._home.scheme == "https" and target.scheme != "https":
            return Access(False)  # the checksum is only as trustworthy as the connection
        domain = registrable_domain(self._home.host)
        is_same_domain = domain is not None and registrable_domain(target.host) == domain
        return Access(target.host == self._home.host or is_same_domain)


__all__ = ["Downloader"]
