"""Strict parsing of URLs.

Checks and connections must interpret a URL in the same way, so both use the result of this parser. It accepts only
plain spellings: `http://2130706433/`, `http://0x7f.1/` and `http://127。0。0。1/`, which some software reads as
127.0.0.1, are rejected.
"""

import contextlib
import re
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from procontext.fetch._addresses import parse_address
from procontext.fetch._failures import FetchError, display_host

MAX_URL_LENGTH: Final = 2048

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

# C0, space, DEL and the backslash, which browsers read as a slash. `urlsplit` silently drops tabs and newlines.
# Lone surrogates can occur in JSON and are not characters.
_FORBIDDEN = re.compile("[\x00-\x20\x7f\\\\\ud800-\udfff]")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
# WHATWG URL, "ends in a number": browsers and inet_aton read such a host as an IPv4 address in decimal, octal or hex.
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
# Characters of a path or query that are not percent-encoded; existing percent-encoding is kept.
_SAFE = "/?:@!$&'()*+,;=-._~%[]|"


class Target(msgspec.Struct, frozen=True):
    """A parsed URL. `host` is lower case, without brackets or a final dot; `path` includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def is_encrypted(self) -> bool:
        """Whether the scheme is https."""
        return self.scheme == "https"

    @property
    def has_default_port(self) -> bool:
        """Whether the port is the default port of the scheme."""
        return self.port == DEFAULT_PORTS[self.scheme]

    @property
    def authority(self) -> str:
        """The value of the Host header, with the port only if it is not the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.has_default_port else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port. Headers with credentials are bound to an origin."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The normalized URL without a fragment."""
        return f"{self.origin}{self.path}"


def parse_url(url: str) -> Target:
    """Parse a URL.

    Raises: FetchError with reason `invalid` if it is not an http(s) URL, `not_allowed` for an unsafe spelling.
    """
    if len(url) > MAX_URL_LENGTH:
        raise FetchError("invalid", url, f"the URL is longer than {MAX_URL_LENGTH} characters")
    if _FORBIDDEN.search(url):
        raise FetchError("invalid", url, "the URL contains a space, a backslash or a control character")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise FetchError("invalid", url, "invalid URL: the host cannot be parsed") from error
    try:
        port = parts.port
    except ValueError as error:  # its message may contain a part of a password
        raise FetchError("invalid", url, "invalid URL: the port is not a number up to 65535") from error
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS:
        raise FetchError("invalid", url, "the scheme must be http or https")
    if "@" in parts.netloc:
        raise FetchError("not_allowed", url, "the URL must not contain a user name or password")
    host = _read_host(url, parts.netloc, parts.hostname or "")
    if port == 0:
        raise FetchError("invalid", url, "port 0 is invalid")
    path = _quoted(parts.path or "/") + (f"?{_quoted(parts.query)}" if parts.query else "")
    return Target(scheme, host, DEFAULT_PORTS[scheme] if port is None else port, path)


def _quoted(text: str) -> str:
    return quote(text, safe=_SAFE)


def _read_host(url: str, netloc: str, host: str) -> str:
    if not host:
        raise FetchError("invalid", url, "the URL has no host")
    if not host.isascii():
        # Homographs, and characters that become dots or digits when normalized (UTS 46).
        raise FetchError(
            "not_allowed", url, "the host must be written in ASCII; an international name begins with xn--"
        )
    if netloc.startswith("["):
        address = parse_address(host)
        if address is None or address.version != 6:
            raise FetchError("not_allowed", url, "the value in brackets is not a plain IPv6 address")
        return str(address)
    host = host.lower().removesuffix(".")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        if parse_address(host) is None:
            raise FetchError("not_allowed", url, "the host ends in a number, but is not a plain IPv4 address")
        return host
    if len(host) > 253 or _NAME.fullmatch(host) is None:
        raise FetchError("not_allowed", url, f"{host[:80]!r} is not a plain host name")
    return host


def resolve_redirect(target: Target, location: str) -> Target:
    """Return the target of a redirect.

    Raises: FetchError with reason `not_allowed` if the target cannot be parsed, because the caller did not write it.
    """
    # Headers are bytes, and some hosts send UTF-8 or spaces in them (RFC 9110, 5.5: opaque data).
    with contextlib.suppress(UnicodeError):
        location = location.encode("latin-1").decode("utf-8")
    try:
        joined = urljoin(target.url, location.strip().replace(" ", "%20"))
    except ValueError as error:
        raise FetchError("failed", target.url, "redirect to an invalid URL") from error
    try:
        return parse_url(joined)
    except FetchError as error:
        # The target of a redirect may contain a signature or a password, so only its host is shown.
        raise FetchError("not_allowed", target.url, f"redirect to {display_host(joined)}: {error.detail}") from error


__all__ = ["DEFAULT_PORTS", "MAX_URL_LENGTH", "Target", "parse_url", "resolve_redirect"]
