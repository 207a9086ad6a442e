"""URLs that a server names, and whether it may be called there with our credentials.

A URL comes from a server in two places, the `endpoint` event of 2024-11-05 and a redirect, and may lead anywhere. What
stays on the same origin is the same server; everything else is for the user to decide.

Sources: 2024-11-05 basic/transports, "HTTP with SSE"; RFC 3986, RFC 6454.

Must never know what is sent there. Above: the HTTP transports. Below: nothing.
"""

import re

from jackstay.errors import ProtocolError

# Where parsers disagree about a URL, one of them can be led astray: a backslash is a slash to browsers, and line ends
# and tabs are dropped by some. None of these stands in a URL that was meant well.
_DUBIOUS = re.compile(r"[\x00-\x20\x7f\\]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def resolve_endpoint(stream_url: str, data: bytes) -> str:
    """The URL to POST to, from the `endpoint` event of a 2024-11-05 server (basic/transports, "HTTP with SSE").

    Stricter than the specification, which does not say whose URL it may be: another origin would get our messages and
    our credentials because a stream said so.

    Raises:
        ProtocolError: not a URL, or one of another origin.
    """
    try:
        reference = data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("the endpoint is not UTF-8", path="endpoint") from error
    url = resolve_url(stream_url, reference, "endpoint")
    if not is_same_origin(stream_url, url):
        raise ProtocolError(
            "the endpoint is on another origin than the stream", path="endpoint", quote=url[:200]
        )
    return url


def resolve_url(base: str, reference: str, path: str = "Location") -> str:
    """The absolute http or https URL that `reference` means at `base`. `path` is where it stood, for the error.

    Raises:
        ProtocolError: not a URL, another scheme, or one with a user name or password in it.
    """
    if not reference or _DUBIOUS.search(reference) is not None:
        raise ProtocolError("not a URL", path=path, quote=reference[:200])
    from urllib.parse import urljoin, urlsplit  # noqa: PLC0415 - takes 3 ms, and few programs come here

    try:
        url = urljoin(base, reference)
        authority = urlsplit(url).netloc
        is_plain = (
            "@" not in authority or authority == urlsplit(base).netloc
        )  # the user's own may have a password
    except ValueError as error:
        raise ProtocolError("not a URL", path=path, quote=reference[:200]) from error
    if origin_of(url) is None or not is_plain:
        raise ProtocolError("not a plain http or https URL", path=path, quote=url[:200])
    return url


def is_same_origin(one: str, other: str) -> bool:
    """True where both are http or https URLs of one scheme, host and port (RFC 6454, section 5)."""
    origin = origin_of(one)
    return origin is not None and origin == origin_of(other)


def origin_of(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port, or None for what is not an http or https URL."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - as in resolve_url

    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        return None
    if scheme not in _DEFAULT_PORTS or not host:
        return None
    return scheme, host, _DEFAULT_PORTS[scheme] if port is None else port
