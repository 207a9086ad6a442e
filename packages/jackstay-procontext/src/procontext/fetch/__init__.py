"""Fetching of documents with protection against server-side request forgery (SSRF).

`_urls` parses URLs strictly, `_sites` has the allowlist, `_addresses` the public IP ranges, `_network` connects,
`_exchange` implements HTTP/1.1, and `_fetcher` combines them.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from procontext.fetch._addresses import is_public
    from procontext.fetch._decoding import decode, is_text, media_type
    from procontext.fetch._failures import FetchError, display_host, display_url
    from procontext.fetch._fetcher import Access, AccessCheck, Fetched, Fetcher
    from procontext.fetch._network import Network, SystemNetwork
    from procontext.fetch._single_flight import Cancelled, SingleFlight
    from procontext.fetch._sites import Sites
    from procontext.fetch._suffixes import registrable_domain
    from procontext.fetch._urls import Target, parse_url

__getattr__ = lazy(
    __name__,
    {
        "Access": "_fetcher",
        "FetchError": "_failures",
        "Fetched": "_fetcher",
        "Fetcher": "_fetcher",
        "SingleFlight": "_single_flight",
        "Cancelled": "_single_flight",
        "Network": "_network",
        "AccessCheck": "_fetcher",
        "Sites": "_sites",
        "SystemNetwork": "_network",
        "Target": "_urls",
        "decode": "_decoding",
        "is_public": "_addresses",
        "is_text": "_decoding",
        "media_type": "_decoding",
        "parse_url": "_urls",
        "registrable_domain": "_suffixes",
        "display_host": "_failures",
        "display_url": "_failures",
    },
)

__all__ = [
    "Access",
    "AccessCheck",
    "Cancelled",
    "FetchError",
    "Fetched",
    "Fetcher",
    "Network",
    "SingleFlight",
    "Sites",
    "SystemNetwork",
    "Target",
    "decode",
    "display_host",
    "display_url",
    "is_public",
    "is_text",
    "media_type",
    "parse_url",
    "registrable_domain",
]
