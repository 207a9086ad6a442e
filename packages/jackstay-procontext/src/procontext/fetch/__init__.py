"""Fetching of documents with protection against server-side request forgery (SSRF).

`_urls` parses URLs strictly, `_sites` has the allowlist, `_addresses` the public IP ranges, `_network` connects,
`_exchange` implements HTTP/1.1, and `_fetcher` combines them.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._addresses": "is_public",
        "._decoding": "decode is_text media_type",
        "._failures": "FetchError display_host display_url",
        "._fetcher": "Access AccessCheck Fetched Fetcher",
        "._network": "Network SystemNetwork",
        "._single_flight": "Cancelled SingleFlight",
        "._sites": "Sites readme_urls",
        "._suffixes": "registrable_domain",
        "._urls": "Target parse_url",
    },
)
