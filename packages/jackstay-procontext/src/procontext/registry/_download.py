"""How bytes of a registry are fetched: by the same guarded fetcher as pages, from the host that the settings name.

A redirect may stay on that host or go to another name of the same registrable domain; a private address needs a row in
`fetcher.allowed_private_hosts`, as everywhere.

Above: `app`, `cli`. Below: `procontext.fetch`.
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
    read_url,
    registrable_domain,
    shown_url,
)
from procontext.registry._document import MOST_BYTES


class Downloader:
    """Fetches what `url` names, and what that names in turn. Call it with an address; close it."""

    def __init__(self, settings: FetcherSettings, url: str, network: Network | None = None) -> None:
        try:
            self._home = read_url(url)
        except FetchError as error:
            raise RegistryError(shown_url(url), error.detail) from error
        # A registry of a hundred thousand rows is larger than any page may be.
        large = msgspec.structs.replace(settings, max_bytes=MOST_BYTES)
        self._fetcher = Fetcher(large, self._permit, network)

    async def __call__(self, address: str) -> bytes:
        """The bytes. Raises: OSError."""
        try:
            return (await self._fetcher.fetch(address)).body
        except FetchError as error:
            raise OSError(error.detail) from error

    async def close(self) -> None:
        """End what is under way."""
        await self._fetcher.close()

    async def _permit(self, target: Target) -> Access:
        if self._home.scheme == "https" and target.scheme != "https":
            return Access(False)  # the description and its checksum are worth what their way here is
        domain = registrable_domain(self._home.host)
        is_near = domain is not None and registrable_domain(target.host) == domain
        return Access(target.host == self._home.host or is_near)


__all__ = ["Downloader"]
