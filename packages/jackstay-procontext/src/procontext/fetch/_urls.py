"""An address as it was written, read strictly: what it names, or why it is refused.

Whoever checks an address must read it as whoever connects does. So there is one reading, here: it takes the plain spellings
and refuses every other one (RFC 3986 allows many more, and browsers more still), and the connection is made from what was
read, never from the text again. `http://2130706433/`, `http://0x7f.1/` and `http://127。0。0。1/` all mean 127.0.0.1 to
somebody; to us they mean nothing.

Pure. Must never know which hosts are allowed. Above: `_sites`, `_fetcher`, `procontext.page`. Below: `_addresses`.
"""

import contextlib
import re
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from procontext.fetch._addresses import read_address
from procontext.fetch._failures import FetchError, shown_host

# Reference, 4.1.
LONGEST_URL: Final = 2048

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

# C0, space, DEL and the backslash, which browsers read as a slash. `urlsplit` drops tabs and line ends without a word.
# Half a surrogate pair, which JSON can hold, is no character at all.
_FORBIDDEN = re.compile("[\x00-\x20\x7f\\\\\ud800-\udfff]")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
# The WHATWG's "ends in a number": such a host is an IPv4 address to a browser and to inet_aton, in decimal, octal or hex.
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
# What may stand in a path or query as it is; everything else is percent-encoded, and what already was, stays.
_SAFE = "/?:@!$&'()*+,;=-._~%[]|"


class Target(msgspec.Struct, frozen=True):
    """Where a request goes. `host` is lower case, without brackets or a last dot; `path` begins with / and has the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is spoken."""
        return self.scheme == "https"

    @property
    def has_plain_port(self) -> bool:
        """Whether the port is the scheme's own."""
        return self.port == DEFAULT_PORTS[self.scheme]

    @property
    def authority(self) -> str:
        """What goes into the Host header: the port only if it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.has_plain_port else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port: what headers with secrets are bound to."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The address, in its one spelling, without a fragment."""
        return f"{self.origin}{self.path}"


def read_url(url: str) -> Target:
    """What an address names.

    Raises: FetchError, `invalid` for what is no http(s) address, `not_allowed` for a spelling that we do not follow.
    """
    if len(url) > LONGEST_URL:
        raise FetchError("invalid", url, f"the address has more than {LONGEST_URL} characters")
    if _FORBIDDEN.search(url):
        raise FetchError("invalid", url, "the address has a space, a backslash or a control character in it")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise FetchError(
            "invalid", url, "it is no address: what stands for the host cannot be read"
        ) from error
    try:
        port = parts.port
    except ValueError as error:  # its text has what stands there, which may be a part of a password
        raise FetchError("invalid", url, "it is no address: the port is no number up to 65535") from error
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS:
        raise FetchError("invalid", url, "the scheme must be http or https")
    if "@" in parts.netloc:
        raise FetchError("not_allowed", url, "an address must not hold a user name or password")
    host = _read_host(url, parts.netloc, parts.hostname or "")
    if port == 0:
        raise FetchError("invalid", url, "there is no port 0")
    path = _quoted(parts.path or "/") + (f"?{_quoted(parts.query)}" if parts.query else "")
    return Target(scheme, host, DEFAULT_PORTS[scheme] if port is None else port, path)


def _quoted(text: str) -> str:
    return quote(text, safe=_SAFE)


def _read_host(url: str, netloc: str, host: str) -> str:
    if not host:
        raise FetchError("invalid", url, "the address names no host")
    if not host.isascii():
        # Lookalikes, and characters that become dots or digits when normalised (UTS 46): the plain spelling is xn--.
        raise FetchError(
            "not_allowed", url, "the host must be written in ASCII; an international name begins with xn--"
        )
    if netloc.startswith("["):
        address = read_address(host)
        if address is None or address.version != 6:
            raise FetchError("not_allowed", url, "what stands in brackets is no plain IPv6 address")
        return str(address)
    host = host.lower().removesuffix(".")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        if read_address(host) is None:
            raise FetchError("not_allowed", url, "the host is a number, but no plain IPv4 address")
        return host
    if len(host) > 253 or _NAME.fullmatch(host) is None:
        raise FetchError("not_allowed", url, f"{host[:80]!r} is no plain host name")
    return host


def follow(target: Target, location: str) -> Target:
    """Where a redirect leads.

    Raises: FetchError, `not_allowed` for what is no address that we would read: whoever asked did not write it.
    """
    # Headers are bytes, and some hosts write UTF-8 or spaces into them (RFC 9110, 5.5, has them as opaque).
    with contextlib.suppress(UnicodeError):
        location = location.encode("latin-1").decode("utf-8")
    try:
        joined = urljoin(target.url, location.strip().replace(" ", "%20"))
    except ValueError as error:
        raise FetchError("failed", target.url, "it redirects to what is no address") from error
    try:
        return read_url(joined)
    except FetchError as error:
        # The address of a redirect may carry a signature or a password: its host is enough.
        raise FetchError(
            "not_allowed", target.url, f"it redirects to {shown_host(joined)}: {error.detail}"
        ) from error


__all__ = ["DEFAULT_PORTS", "LONGEST_URL", "Target", "follow", "read_url"]
