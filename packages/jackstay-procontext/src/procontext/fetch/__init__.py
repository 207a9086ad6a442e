"""Fetching that cannot be turned against its host: addresses read strictly, sites allowed by rows, connections to checked places.

`_urls` reads an address, `_sites` says which rows allow it, `_addresses` which places are public, `_network` goes there, `_exchange`
speaks HTTP, `_fetcher` joins them. Knows nothing of pages, Markdown or the cache.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from procontext.fetch._addresses import is_public
    from procontext.fetch._decoding import decode, is_text, media_type
    from procontext.fetch._failures import FetchError, shown_host, shown_url
    from procontext.fetch._fetcher import Access, Fetched, Fetcher, Permits
    from procontext.fetch._flights import Flights, Grounded
    from procontext.fetch._network import Network, SystemNetwork
    from procontext.fetch._sites import Sites
    from procontext.fetch._suffixes import registrable_domain
    from procontext.fetch._urls import Target, read_url

__getattr__ = lazy(
    __name__,
    {
        "Access": "_fetcher",
        "FetchError": "_failures",
        "Fetched": "_fetcher",
        "Fetcher": "_fetcher",
        "Flights": "_flights",
        "Grounded": "_flights",
        "Network": "_network",
        "Permits": "_fetcher",
        "Sites": "_sites",
        "SystemNetwork": "_network",
        "Target": "_urls",
        "decode": "_decoding",
        "is_public": "_addresses",
        "is_text": "_decoding",
        "media_type": "_decoding",
        "read_url": "_urls",
        "registrable_domain": "_suffixes",
        "shown_host": "_failures",
        "shown_url": "_failures",
    },
)

__all__ = [
    "Access",
    "FetchError",
    "Fetched",
    "Fetcher",
    "Flights",
    "Grounded",
    "Network",
    "Permits",
    "Sites",
    "SystemNetwork",
    "Target",
    "decode",
    "is_public",
    "is_text",
    "media_type",
    "read_url",
    "registrable_domain",
    "shown_host",
    "shown_url",
]
