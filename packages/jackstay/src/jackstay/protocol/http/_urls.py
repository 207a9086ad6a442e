"""Validation of URLs that a server sends: the `endpoint` event of 2024-11-05, and redirects.

A URL on the same origin is the same server and may get our credentials; any other is for the user to decide. See
2024-11-05 basic/transports, "HTTP with SSE"; RFC 3986, RFC 6454.
"""

import re

from jackstay.errors import ProtocolError

# Parsers disagree about these: browsers treat a backslash as a slash, and some parsers drop line ends and tabs. A valid
# URL contains none of them.
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f\\]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def resolve_endpoint(stream_url: str, data: bytes) -> str:
    """Return the URL to POST to, from the `endpoint` event of a 2024-11-05 server (basic/transports, "HTTP with SSE").

    Stricter than the specification, which does not restrict the URL: another origin would receive our messages and
    credentials.

    Raises:
        ProtocolError: not a URL, or one on another origin.
    """
    try:
        reference = data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("the endpoint is not UTF-8", path="endpoint") from error
    url = resolve_url(stream_url, reference, "endpoint")
    if not is_same_origin(stream_url, url):
        raise ProtocolError("the endpoint is not on the origin of the stream", path="endpoint", quote=url[:200])
    return url


def resolve_url(base: str, reference: str, path: str = "Location") -> str:
    """Resolve `reference` against `base` to an absolute http or https URL. `path` names its source in errors.

    Raises:
        ProtocolError: not a URL, another scheme, or a URL with a user name or password.
    """
    if not reference or _AMBIGUOUS.search(reference) is not None:
        raise ProtocolError("not a URL", path=path, quote=reference[:200])
    from urllib.parse import urljoin, urlsplit  # noqa: PLC0415 - takes 3 ms to import, and few programs need it

    try:
        url = urljoin(base, reference)
        authority = urlsplit(url).netloc
        # The base URL is the user's own and may contain a password.
        is_plain = "@" not in authority or authority == urlsplit(base).netloc
    except ValueError as error:
        raise ProtocolError("not a URL", path=path, quote=reference[:200]) from error
    if origin_of(url) is None or not is_plain:
        raise ProtocolError("not a plain http or https URL", path=path, quote=url[:200])
    return url


def is_same_origin(url: str, other: str) -> bool:
    """Return True if both are http or https URLs with the same scheme, host and port (RFC 6454, section 5)."""
    origin = origin_of(url)
    return origin is not None and origin == origin_of(other)


def origin_of(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port, or None if it is not an http or https URL."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - as in resolve_url

    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        return None
    if scheme not in _DEFAULT_PORTS or not host:
        return None
    return scheme, host, _DEFAULT_PORTS[scheme] if port is None else port
